"""Product with a matrix of 4-bit weights, two to a byte: any number of rows and columns.

The weights of a column are in groups of 32 along the depth, each with a scale of its own; a weight is its four bits
less 8. This is the weight-only quantisation of GPTQ and AWQ (Frantar et al., 2022; Lin et al., 2023).
"""

import sys

import numpy as np

import kaio
from kaio import D2, In, Out, f32, i32, u8

TILE = 16
GROUP = 32


@kaio.func
def unpack(byte: u8, depth: i32) -> i32:
    """The weight of an even depth is in the lower half of its byte, that of an odd one in the upper."""
    return (i32(byte) >> (depth % 2 * 4) & 15) - 8


@kaio.kernel
def int4_matmul(x: In[f32, D2], packed: In[u8, D2], scales: In[f32, D2], out: Out[f32, D2]):
    """Weights become floats on their way into the tile; the sum is that of a matrix product in f32.

    CHECK: .visible .entry int4_matmul(
    CHECK: ld.global{{.*}}.u8
    CHECK: cvt.rn.f32.s32
    CHECK: st.shared.f32
    CHECK: bar.sync
    CHECK: fma.rn.f32
    CHECK: bar.sync
    CHECK: st.global.f32
    """
    tile_x = kaio.shared_mem((TILE, TILE), f32)
    tile_w = kaio.shared_mem((TILE, TILE), f32)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    col, row = kaio.grid(2)
    rows, columns = out.shape
    depth = x.shape[1]

    total = f32(0)
    for start in range(0, depth, TILE):
        at = start + ty
        tile_x[ty, tx] = x[row, start + tx] if row < rows and start + tx < depth else 0.0
        tile_w[ty, tx] = 0.0
        if at < depth and col < columns:
            tile_w[ty, tx] = unpack(packed[at // 2, col], i32(at)) * scales[at // GROUP, col]
        kaio.bar_sync()
        for k in range(TILE):
            total += tile_x[ty, k] * tile_w[k, tx]
        kaio.bar_sync()
    if row < rows and col < columns:
        out[row, col] = total


def pack(weights: np.ndarray) -> np.ndarray:
    """Weights of -8 to 7, shape (depth, columns), as bytes of two depths each."""
    stored = (np.append(weights, np.zeros((len(weights) % 2, weights.shape[1]), np.int8), axis=0) + 8).astype(np.uint8)
    return stored[::2] | stored[1::2] << 4


def main(device: kaio.Device | None = None, rows: int = 50, depth: int = 301, columns: int = 70) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(9)
    x, weights = rng.normal(0, 1, (rows, depth)).astype(np.float32), rng.integers(-8, 8, (depth, columns), np.int8)
    scales = rng.uniform(0.01, 0.1, (-(-depth // GROUP), columns)).astype(np.float32)

    out = device.alloc_empty((rows, columns), f32)
    given = [device.alloc_from(array) for array in (x, pack(weights), scales)]
    int4_matmul.over(out.shape).block(TILE, TILE).launch(*given, out).wait()

    expected = x.astype(np.float64) @ (weights * np.repeat(scales, GROUP, axis=0)[:depth].astype(np.float64))
    np.testing.assert_allclose(out.to_host(), expected, rtol=1e-4, atol=1e-3)
    print(f"int4_matmul of {rows} x {depth} x {columns} on {device.name}: equal to NumPy to 1e-4")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
