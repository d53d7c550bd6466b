"""Softmax of each row, of any number of columns: one block a row, reductions through shared memory."""

import math
import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32

THREADS = 256  # of a block; the reductions halve it, so it is a power of two


@kaio.func
def larger(a: f32, b: f32) -> f32:
    """The larger of two."""
    return max(a, b)


@kaio.func
def add(a: f32, b: f32) -> f32:
    """The sum of two."""
    return a + b


@kaio.func
def block_reduce(scratch, value, combine):
    """Combine the `value` of every thread of the block by a tree; all threads get the result."""
    thread = kaio.thread_idx.x
    scratch[thread] = value
    width = THREADS // 2
    while width > 0:
        kaio.bar_sync()
        if thread < width:
            scratch[thread] = combine(scratch[thread], scratch[thread + width])
        width //= 2
    kaio.bar_sync()
    result = scratch[0]
    kaio.bar_sync()  # nobody may fill the scratch again before all have read the result
    return result


@kaio.kernel
def softmax(x: In[f32, D2], out: Out[f32, D2]):
    """exp(x - max) / sum(exp(x - max)) of each row; the maximum keeps exp from overflowing.

    CHECK: .visible .entry softmax(
    CHECK: max.f32
    CHECK: st.shared.f32
    CHECK: bar.sync
    CHECK: ld.shared.f32
    CHECK: div.rn.f32
    CHECK: st.global.f32
    """
    scratch = kaio.shared_mem(THREADS, f32)
    row, thread = kaio.block_idx.x, kaio.thread_idx.x
    columns = x.shape[1]

    highest = f32(-math.inf)
    for col in range(thread, columns, THREADS):
        highest = max(highest, x[row, col])
    highest = block_reduce(scratch, highest, larger)

    total = f32(0)
    for col in range(thread, columns, THREADS):
        total += math.exp(x[row, col] - highest)
    total = block_reduce(scratch, total, add)

    for col in range(thread, columns, THREADS):
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
