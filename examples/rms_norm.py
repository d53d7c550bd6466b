"""RMSNorm of each row, of any number of columns: one block a row.

Zhang and Sennrich, Root Mean Square Layer Normalization (2019): ``out = x / sqrt(mean(x²) + eps) * weight``.
"""

import math
import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32

THREADS = 256


@kaio.kernel
def rms_norm(x: In[f32, D2], weight: In[f32], out: Out[f32, D2], eps: f32 = 1e-6):
    """Each thread takes every 256th column, once to add the squares and once to scale.

    CHECK: .visible .entry rms_norm(
    CHECK: fma.rn.f32
    CHECK: shfl.sync
    CHECK: bar.sync
    CHECK: sqrt.rn.f32
    CHECK: st.global.f32
    """
    row, columns = kaio.block_idx.x, x.shape[1]
    total = f32(0)
    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        total += x[row, col] * x[row, col]
    scale = 1.0 / math.sqrt(kaio.block_reduce_sum(total) / columns + eps)
    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        out[row, col] = x[row, col] * scale * weight[col]


def main(device: kaio.Device | None = None, rows: int = 64, columns: int = 1000) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(5)
    x, weight = rng.normal(0, 3, (rows, columns)).astype(np.float32), rng.normal(1, 0.1, columns).astype(np.float32)

    out = device.alloc_empty((rows, columns), f32)
    rms_norm.grid(rows).block(THREADS).launch(device.alloc_from(x), device.alloc_from(weight), out).wait()

    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(out.to_host(), expected, rtol=1e-5, atol=1e-6)
    print(f"rms_norm of {rows} x {columns} on {device.name}: equal to NumPy to 1e-5")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
