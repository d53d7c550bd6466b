"""8-bit weights back to floats: ``out = (quantised - zero) * scale``, with a scale and a zero point for each row."""

import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32, i8, i32


@kaio.kernel
def int8_dequantise(quantised: In[i8, D2], scale: In[f32], zero: In[i8], out: Out[f32, D2]):
    """The difference of two i8 wraps at 8 bits, so it is taken in i32.

    CHECK: .visible .entry int8_dequantise(
    CHECK: ld.global{{.*}}.{{[su]}}8
    CHECK: cvt.rn.f32.s32
    CHECK: st.global.f32
    """
    col, row = kaio.grid(2)
    rows, columns = out.shape
    if row < rows and col < columns:
        out[row, col] = (i32(quantised[row, col]) - zero[row]) * scale[row]


def main(device: kaio.Device | None = None, rows: int = 100, columns: int = 1001) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(7)
    quantised = rng.integers(-128, 128, (rows, columns), np.int8)
    scale, zero = rng.uniform(0.01, 0.1, rows).astype(np.float32), rng.integers(-128, 128, rows, np.int8)

    out = device.alloc_empty((rows, columns), f32)
    given = [device.alloc_from(array) for array in (quantised, scale, zero)]
    int8_dequantise.over(out.shape).launch(*given, out).wait()

    expected = (quantised.astype(np.int32) - zero[:, None]).astype(np.float32) * scale[:, None]
    np.testing.assert_array_equal(out.to_host(), expected)
    print(f"int8_dequantise of {rows} x {columns} on {device.name}: equal to NumPy")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
