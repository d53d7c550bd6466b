"""y = a * x + y: the smallest whole kernel.

Run it with ``python examples/saxpy.py [cpu|cuda:0]``.
"""

import sys

import numpy as np

import kaio
from kaio import In, InOut, f32


@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    """Add `a` times `x` to `y`, one element a thread.

    CHECK: .visible .entry saxpy(
    CHECK: .param .u64 {{.*}}x_ptr
    CHECK: .param .f32 a
    CHECK: setp.
    CHECK-COUNT-2: ld.global{{.*}}.f32
    CHECK: fma.rn.f32
    CHECK-NOT: fma
    CHECK: st.global.f32
    CHECK-NOT: st.global
    CHECK-NOT: ld.global
    """
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


def main(device: kaio.Device | None = None, n: int = 1_000_000) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    x = np.arange(n, dtype=np.float32)
    y = np.linspace(-1, 1, n, dtype=np.float32)

    x_buffer, y_buffer = device.alloc_from(x), device.alloc_from(y)
    saxpy.over(n).launch(x_buffer, y_buffer, 2.0).wait()

    # The kernel rounds once (a fused multiply-add); f64 holds the exact product and sum, and rounds it at the end.
    expected = (2.0 * x.astype(np.float64) + y).astype(np.float32)
    np.testing.assert_array_equal(y_buffer.to_host(), expected)
    print(f"saxpy of {n} elements on {device.name}: equal to NumPy")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
