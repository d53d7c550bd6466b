"""c = a @ b through tiles in shared memory, for matrices of any shape."""

import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32

TILE = 16


@kaio.kernel
def matmul(a: In[f32, D2], b: In[f32, D2], c: Out[f32, D2]):
    """One element of `c` a thread, one tile of it a block.

    Every thread of a block helps to load, also one whose own element lies outside `c`: it must reach the barriers.
    What a tile holds beyond the edge of a matrix is zero, which adds nothing.

    CHECK: .visible .entry matmul(
    CHECK-NOT: st.global
    CHECK: st.shared.f32
    CHECK: st.shared.f32
    CHECK: bar.sync
    CHECK-COUNT-16: fma.rn.f32
    CHECK: bar.sync
    CHECK: st.global.f32
    CHECK-NOT: st.global
    """
    a_tile = kaio.shared_mem((TILE, TILE), f32)
    b_tile = kaio.shared_mem((TILE, TILE), f32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    col, row = kaio.grid(2)
    rows, cols = c.shape
    depth = a.shape[1]

    total = f32(0)
    for start in range(0, depth, TILE):
        a_tile[y, x] = a[row, start + x] if row < rows and start + x < depth else 0.0
        b_tile[y, x] = b[start + y, col] if start + y < depth and col < cols else 0.0
        kaio.bar_sync()
        for k in range(TILE):
            total += a_tile[y, k] * b_tile[k, x]
        kaio.bar_sync()  # nobody may load the next tiles before all are done with these
    if row < rows and col < cols:
        c[row, col] = total


def multiply(a: kaio.GpuBuffer, b: kaio.GpuBuffer) -> kaio.GpuBuffer:
    """The product of two matrices, on their device."""
    (rows, depth), (b_rows, cols) = a.shape, b.shape
    if depth != b_rows:
        raise ValueError(f"a is {rows} x {depth} and b is {b_rows} x {cols}: they do not multiply")
    c = a.device.alloc_empty((rows, cols), f32)
    matmul.over(c.shape).block(TILE, TILE).launch(a, b, c)
    return c


def main(device: kaio.Device | None = None, rows: int = 100, depth: int = 70, cols: int = 130) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    random = np.random.default_rng(2)
    a = random.standard_normal((rows, depth), dtype=np.float32)
    b = random.standard_normal((depth, cols), dtype=np.float32)

    c = multiply(device.alloc_from(a), device.alloc_from(b)).to_host()

    # The error of a sum of products of `depth` terms, each rounded once (Higham, Accuracy and Stability, 3.5).
    bound = depth * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert np.all(np.abs(c - a.astype(np.float64) @ b) <= bound)
    print(f"matmul of {rows} x {depth} by {depth} x {cols} on {device.name}: within the bound of NumPy's")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
