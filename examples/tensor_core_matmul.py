"""c = a @ b of f16 matrices by the matrix units of a GPU, summed up in f32, for matrices of any number of rows.

Blocks of 256 threads make 128 by 128 elements of c, each of their 8 warps 64 by 32 of them, which stay in registers.
While one pair of tiles is multiplied the next is copied into shared memory. Rows there are 16 bytes longer than the
tile, so that the 8 rows that `ldmatrix` reads at once lie in different banks.
"""

import sys

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, f16, f32, i32

ROWS, COLUMNS, DEPTH = 128, 128, 32  # of the tiles
PAD = 8
THREADS = 256


@kaio.func
def copy_tiles(
    a: In[f16, D2], b: In[f16, D2], a_tile: InOut[f16, D2], b_tile: InOut[f16, D2], stage: i32, start: i32
) -> None:
    """Begin to copy the tiles from depth `start` on, 8 elements at a time; zeros beyond the edge of a matrix."""
    t = kaio.thread_idx.x
    first_row, first_column = ROWS * kaio.block_idx.y, COLUMNS * kaio.block_idx.x
    for n in kaio.unrolled(range(ROWS * DEPTH // 8 // THREADS)):
        row, at = (n * THREADS + t) // (DEPTH // 8), (n * THREADS + t) % (DEPTH // 8) * 8
        if first_row + row < a.shape[0] and start + at < a.shape[1]:
            kaio.cp_async(a_tile, (stage * ROWS + row, at), a, (first_row + row, start + at), 8)
        else:
            for k in range(8):
                a_tile[stage * ROWS + row, at + k] = 0
    for n in kaio.unrolled(range(DEPTH * COLUMNS // 8 // THREADS)):
        row, at = (n * THREADS + t) // (COLUMNS // 8), (n * THREADS + t) % (COLUMNS // 8) * 8
        if start + row < b.shape[0] and first_column + at < b.shape[1]:
            kaio.cp_async(b_tile, (stage * DEPTH + row, at), b, (start + row, first_column + at), 8)
        else:
            for k in range(8):
                b_tile[stage * DEPTH + row, at + k] = 0
    kaio.cp_async_commit()


@kaio.kernel(launch_bounds=THREADS)
def tensor_core_matmul(a: In[f16, D2], b: In[f16, D2], c: Out[f32, D2]):
    """Depth and columns are multiples of 8, so that what is copied at once is aligned.

    CHECK: .visible .entry tensor_core_matmul(
    CHECK-NOT: ld.local
    CHECK: cp.async
    CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
    CHECK-COUNT-32: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    CHECK-NOT: ld.local
    CHECK: st.global.f32
    """
    a_tile = kaio.shared_mem((2 * ROWS, DEPTH + PAD), f16)
    b_tile = kaio.shared_mem((2 * DEPTH, COLUMNS + PAD), f16)
    sums = kaio.local_mem((4, 4, 4), f32)
    warp, lane = kaio.warp_id(), kaio.lane_id()
    row, column = warp // 4 * 64, warp % 4 * 32
    for m in kaio.unrolled(range(4)):
        for n in kaio.unrolled(range(4)):
            for e in kaio.unrolled(range(4)):
                sums[m, n, e] = 0

    depth = a.shape[1]
    copy_tiles(a, b, a_tile, b_tile, 0, 0)
    for start in range(0, depth, DEPTH):
        stage = i32(start // DEPTH % 2)
        copy_tiles(a, b, a_tile, b_tile, 1 - stage, i32(start + DEPTH))  # of the last turn: zeros
        kaio.cp_async_wait(1)
        kaio.bar_sync()
        for k in kaio.unrolled(range(0, DEPTH, 16)):
            at = stage * DEPTH + k
            # Four matrices of 8 by 8 at once, which are two of b: `ldmatrix_b` loads one.
            first = kaio.ldmatrix(b_tile, at + lane % 16, column + lane // 16 * 8, 4, layout="col")
            second = kaio.ldmatrix(b_tile, at + lane % 16, column + 16 + lane // 16 * 8, 4, layout="col")
            right = (
                kaio.matrix_b(f16, first[0], first[1]),
                kaio.matrix_b(f16, first[2], first[3]),
                kaio.matrix_b(f16, second[0], second[1]),
                kaio.matrix_b(f16, second[2], second[3]),
            )
            for m in kaio.unrolled(range(4)):
                left = kaio.ldmatrix_a(a_tile, stage * ROWS + row + 16 * m, k)
                for n in kaio.unrolled(range(4)):
                    s = kaio.matrix_c(sums[m, n, 0], sums[m, n, 1], sums[m, n, 2], sums[m, n, 3])
                    s = kaio.mma(left, right[n], s)
                    for e in kaio.unrolled(range(4)):
                        sums[m, n, e] = s[e]
        kaio.bar_sync()  # nobody may copy over these tiles before all are done with them

    for m in kaio.unrolled(range(4)):
        for n in kaio.unrolled(range(4)):
            for e in kaio.unrolled(range(4)):  # which elements of a sum a lane has: see `matrix_c`
                i = ROWS * kaio.block_idx.y + row + 16 * m + e // 2 * 8 + lane // 4
                j = COLUMNS * kaio.block_idx.x + column + 8 * n + e % 2 + lane % 4 * 2
                if i < c.shape[0] and j < c.shape[1]:
                    c[i, j] = sums[m, n, e]


def multiply(a: kaio.GpuBuffer, b: kaio.GpuBuffer) -> kaio.GpuBuffer:
    """The product of two matrices, on their device."""
    (rows, depth), (b_rows, columns) = a.shape, b.shape
    if depth != b_rows or depth % 8 or columns % 8:
        raise ValueError(f"a is {rows} x {depth} and b is {b_rows} x {columns}: depth and columns are multiples of 8")
    c = a.device.alloc_empty((rows, columns), f32)
    blocks = -(-columns // COLUMNS), -(-rows // ROWS)
    tensor_core_matmul.grid(*blocks).block(THREADS).launch(a, b, c)
    return c


def main(device: kaio.Device | None = None, rows: int = 100, depth: int = 72, columns: int = 136) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((rows, depth), (depth, columns)))
    c = multiply(device.alloc_from(a), device.alloc_from(b))
    np.testing.assert_allclose(c.to_host(), a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)
    print(f"tensor_core_matmul of {rows} x {depth} x {columns} on {device.name}: equal to NumPy to 1e-4")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if len(sys.argv) > 1 else None)
