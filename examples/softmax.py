"""Softmax of each row, of any number of columns: one block a row."""

import math
import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32

THREADS = 256


@kaio.kernel
def softmax(x: In[f32, D2], out: Out[f32, D2]):
    """exp(x - max) / sum(exp(x - max)) of each row; the maximum keeps exp from overflowing.

    CHECK: .visible .entry softmax(
    CHECK: max.f32
    CHECK: shfl.sync
    CHECK: bar.sync
    CHECK: ex2.approx
    CHECK: shfl.sync
    CHECK: bar.sync
    CHECK: div.rn.f32
    CHECK: st.global.f32
    """
    row, thread = kaio.block_idx.x, kaio.thread_idx.x
    columns = x.shape[1]

    highest = f32(-math.inf)
    for col in range(thread, columns, kaio.block_dim.x):
        highest = max(highest, x[row, col])
    highest = kaio.block_reduce_max(highest)

    total = f32(0)
    for col in range(thread, columns, kaio.block_dim.x):
        total += math.exp(x[row, col] - highest)
    total = kaio.block_reduce_sum(total)

    for col in range(thread, columns, kaio.block_dim.x):
        out[row, col] = math.exp(x[row, col] - highest) / total


def main(device: kaio.Device | None = None, rows: int = 64, columns: int = 1000) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    x = np.random.default_rng(3).normal(0, 30, (rows, columns)).astype(np.float32)

    out = device.alloc_empty((rows, columns), f32)
    softmax.grid(rows).block(THREADS).launch(device.alloc_from(x), out).wait()

    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out.to_host(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-30)
    print(f"softmax of {rows} x {columns} on {device.name}: equal to NumPy to 1e-5")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
