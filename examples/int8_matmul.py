"""Product of two matrices of 8-bit integers, summed in 32 bits and scaled: any number of rows and columns.

``out = (a @ b) * row_scale * column_scale``, the quantised matrix product of LLM.int8 (Dettmers et al., 2022).
"""

import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32, i8, i32

TILE = 16


@kaio.kernel
def int8_matmul(a: In[i8, D2], b: In[i8, D2], row_scale: In[f32], column_scale: In[f32], out: Out[f32, D2]):
    """A tile of the output a block; the tiles of a and b are zero beyond the edge, so no edge needs a case of its own.

    CHECK: .visible .entry int8_matmul(
    CHECK: st.shared.{{[bsu]}}8
    CHECK: bar.sync
    CHECK: ld.shared.{{[sv]}}
    CHECK: bar.sync
    CHECK: cvt.rn.f32.s32
    CHECK: st.global.f32
    """
    tile_a = kaio.shared_mem((TILE, TILE), i8)
    tile_b = kaio.shared_mem((TILE, TILE), i8)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    col, row = kaio.grid(2)
    rows, columns = out.shape
    depth = a.shape[1]

    total = 0
    for start in range(0, depth, TILE):
        tile_a[y, x] = a[row, start + x] if row < rows and start + x < depth else 0
        tile_b[y, x] = b[start + y, col] if start + y < depth and col < columns else 0
        kaio.bar_sync()
        for k in range(TILE):
            total += i32(tile_a[y, k]) * tile_b[k, x]
        kaio.bar_sync()
    if row < rows and col < columns:
        out[row, col] = total * row_scale[row] * column_scale[col]


def main(device: kaio.Device | None = None, rows: int = 50, depth: int = 300, columns: int = 70) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(8)
    a, b = rng.integers(-128, 128, (rows, depth), np.int8), rng.integers(-128, 128, (depth, columns), np.int8)
    row_scale, column_scale = (rng.uniform(0.01, 0.1, n).astype(np.float32) for n in (rows, columns))

    out = device.alloc_empty((rows, columns), f32)
    given = [device.alloc_from(array) for array in (a, b, row_scale, column_scale)]
    int8_matmul.over(out.shape).block(TILE, TILE).launch(*given, out).wait()

    product = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(out.to_host(), product.astype(np.float32) * row_scale[:, None] * column_scale)
    print(f"int8_matmul of {rows} x {depth} x {columns} on {device.name}: equal to NumPy")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
