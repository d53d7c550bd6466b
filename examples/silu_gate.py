"""The gated activation of a transformer's feed-forward layer, fused into one pass over memory.

The two matrix products before it are usually one, so that gate and input lie side by side in each row:
``out = silu(x[:, :hidden]) * x[:, hidden:]``, where ``silu(g) = g / (1 + exp(-g))``.
"""

import math
import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32


@kaio.func
def silu(g: f32) -> f32:
    """g times its sigmoid; exp overflows to infinity far below zero, where the quotient is rightly zero."""
    return g / (1.0 + math.exp(-g))


@kaio.kernel
def silu_gate(x: In[f32, D2], out: Out[f32, D2]):
    """One output a thread: neighbours in a warp read neighbours in memory, twice.

    CHECK: .visible .entry silu_gate(
    CHECK: ld.global{{.*}}.f32
    CHECK: ex2.approx
    CHECK: div.rn.f32
    CHECK: ld.global{{.*}}.f32
    CHECK: st.global.f32
    CHECK-NOT: st.global
    """
    col, row = kaio.grid(2)
    rows, hidden = out.shape
    if row < rows and col < hidden:
        out[row, col] = silu(x[row, col]) * x[row, hidden + col]


def main(device: kaio.Device | None = None, tokens: int = 100, hidden: int = 1000) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    x = np.random.default_rng(1).normal(0, 4, (tokens, 2 * hidden)).astype(np.float32)

    out = device.alloc_empty((tokens, hidden), f32)
    silu_gate.over(out.shape).launch(device.alloc_from(x), out).wait()

    gate, value = x[:, :hidden].astype(np.float64), x[:, hidden:]
    np.testing.assert_allclose(out.to_host(), gate / (1 + np.exp(-gate)) * value, rtol=1e-6, atol=1e-12)
    print(f"silu_gate of {tokens} x {hidden} on {device.name}: equal to NumPy to 1e-6")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
