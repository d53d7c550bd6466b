"""LayerNorm of each row, of any number of columns: one block a row.

Ba, Kiros and Hinton, Layer Normalization (2016): ``out = (x - mean) / sqrt(variance + eps) * weight + bias``.
"""

import math
import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32

THREADS = 256


@kaio.kernel
def layer_norm(x: In[f32, D2], weight: In[f32], bias: In[f32], out: Out[f32, D2], eps: f32 = 1e-5):
    """The variance is summed around the mean: ``mean(x²) - mean(x)²`` would cancel where the mean is large.

    CHECK: .visible .entry layer_norm(
    CHECK: shfl.sync
    CHECK: bar.sync
    CHECK: shfl.sync
    CHECK: bar.sync
    CHECK: sqrt.rn.f32
    CHECK: fma.rn.f32
    CHECK: st.global.f32
    """
    row, columns = kaio.block_idx.x, x.shape[1]
    total = f32(0)
    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        total += x[row, col]
    mean = kaio.block_reduce_sum(total) / columns

    total = f32(0)
    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        distance = x[row, col] - mean
        total += distance * distance
    scale = 1.0 / math.sqrt(kaio.block_reduce_sum(total) / columns + eps)

    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        out[row, col] = (x[row, col] - mean) * scale * weight[col] + bias[col]


def main(device: kaio.Device | None = None, rows: int = 64, columns: int = 1000) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(6)
    x = rng.normal(1, 3, (rows, columns)).astype(np.float32)
    weight, bias = rng.normal(1, 0.1, (2, columns)).astype(np.float32)

    out = device.alloc_empty((rows, columns), f32)
    given = [device.alloc_from(array) for array in (x, weight, bias)]
    layer_norm.grid(rows).block(THREADS).launch(*given, out).wait()

    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out.to_host(), expected, rtol=1e-4, atol=2e-4)
    print(f"layer_norm of {rows} x {columns} on {device.name}: equal to NumPy to 1e-4")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
