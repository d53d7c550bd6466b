"""The kernels of the image pipeline. Pictures are ``[row, column]``, so x runs along a row and `over` takes a shape."""

import math

import kaio
from kaio import D2, D3, Const, In, InOut, Out, f32, i32, i64, u8

WIDTH, HEIGHT = 32, 8  # of the blocks that share a tile: a row of a tile is a warp, its loads are one transaction
LEVELS = 256  # of a u8 picture; also the threads of the blocks that count and sum them, one a level


@kaio.func
def clamp(index: int, size: int) -> int:
    """The index nearest to `index` that is inside: beyond an edge a picture goes on as its outermost pixel."""
    return max(0, min(index, size - 1))


@kaio.kernel
def to_grey(rgb: In[u8, D3], grey: Out[u8, D2]) -> None:
    """Luma of ITU-R BT.601 in 16-bit fixed point, rounded; the weights add up to 65536.

    The casts matter: `u8 * 19595` would be a mistake, because integers keep their width.
    """
    col, row = kaio.grid(2)
    height, width = grey.shape
    if row < height and col < width:
        red, green, blue = i32(rgb[row, col, 0]), i32(rgb[row, col, 1]), i32(rgb[row, col, 2])
        grey[row, col] = u8((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16)


@kaio.kernel
def blur_rows(picture: In[u8, D2], blurred: Out[f32, D2], weights: In[f32], radius: Const[int]) -> None:
    """Weigh each pixel with `radius` neighbours on both sides along its row.

    A block loads its pixels once into shared memory, with a halo of `radius` on both sides, and reads them from there
    ``2 * radius + 1`` times. Threads beyond the edge of the picture help to load and must reach the barrier.
    """
    tile = kaio.shared_mem((HEIGHT, WIDTH + 2 * radius), f32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    col, row = kaio.grid(2)
    height, width = picture.shape

    left = col - x - radius
    for k in range(x, WIDTH + 2 * radius, WIDTH):
        tile[y, k] = f32(picture[clamp(row, height), clamp(left + k, width)])
    kaio.bar_sync()

    if row < height and col < width:
        total = f32(0)
        for k in range(2 * radius + 1):
            total += weights[k] * tile[y, x + k]
        blurred[row, col] = total


@kaio.kernel
def blur_columns(picture: In[f32, D2], blurred: Out[f32, D2], weights: In[f32], radius: Const[int]) -> None:
    """Weigh each pixel with `radius` neighbours above and below: `blur_rows` turned by a right angle."""
    tile = kaio.shared_mem((HEIGHT + 2 * radius, WIDTH), f32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    col, row = kaio.grid(2)
    height, width = picture.shape

    top = row - y - radius
    for k in range(y, HEIGHT + 2 * radius, HEIGHT):
        tile[k, x] = picture[clamp(top + k, height), clamp(col, width)]
    kaio.bar_sync()

    if row < height and col < width:
        total = f32(0)
        for k in range(2 * radius + 1):
            total += weights[k] * tile[y + k, x]
        blurred[row, col] = total


@kaio.kernel
def find_edges(picture: In[f32, D2], edges: Out[f32, D2]) -> None:
    """Length of the gradient by Sobel's two 3 x 3 filters (Duda and Hart 1973, 271). Reads the 8 neighbours."""
    col, row = kaio.grid(2)
    height, width = picture.shape
    if row < height and col < width:
        above, below = clamp(row - 1, height), clamp(row + 1, height)
        left, right = clamp(col - 1, width), clamp(col + 1, width)
        north_west, north, north_east = picture[above, left], picture[above, col], picture[above, right]
        west, east = picture[row, left], picture[row, right]
        south_west, south, south_east = picture[below, left], picture[below, col], picture[below, right]

        across = (north_east - north_west) + 2.0 * (east - west) + (south_east - south_west)
        down = (south_west - north_west) + 2.0 * (south - north) + (south_east - north_east)
        edges[row, col] = math.sqrt(across * across + down * down)


@kaio.kernel
def count_levels(pixels: In[u8], counts: InOut[i32]) -> None:
    """Add to ``counts[v]`` how many pixels have the value v.

    Each block counts in its own shared memory, where atomics are quick and meet only those of the same block, and
    adds its result to global memory once. Launch it with blocks of `LEVELS` threads.
    """
    mine = kaio.shared_mem(LEVELS, i32)
    thread = kaio.thread_idx.x
    mine[thread] = 0
    kaio.bar_sync()

    for i in range(kaio.grid(1), pixels.size, kaio.grid_dim.x * kaio.block_dim.x):
        kaio.atomic_add(mine, pixels[i], 1)
    kaio.bar_sync()

    kaio.atomic_add(counts, thread, mine[thread])


@kaio.kernel
def make_equaliser(counts: In[i32], table: Out[u8]) -> None:
    """The table that spreads a histogram evenly over all levels. One block of `LEVELS` threads.

    The darkest level that occurs becomes 0; each other becomes the share of the pixels above the darkest that are not
    brighter than it. A picture of one level only keeps it. The running sum is that of Hillis and Steele (Data parallel
    algorithms, 1986): log2(LEVELS) steps.
    """
    running, darkest = kaio.shared_mem(LEVELS, i32), kaio.shared_mem(1, i32)
    level = kaio.thread_idx.x
    running[level] = counts[level]
    reach = 1
    while reach < LEVELS:
        kaio.bar_sync()
        lower = running[level - reach] if level >= reach else 0
        kaio.bar_sync()  # all have read before anyone writes
        running[level] += lower
        reach *= 2
    kaio.bar_sync()

    # One thread is at the darkest level that occurs: nothing is counted below it.
    if running[level] > 0 and (level == 0 or running[level - 1] == 0):
        darkest[0] = running[level]
    kaio.bar_sync()

    spread = running[LEVELS - 1] - darkest[0]
    if spread == 0:
        table[level] = u8(level)
    else:
        above = max(running[level] - darkest[0], 0)
        table[level] = u8((i64(above) * 255 + spread // 2) // spread)  # above * 255 leaves i32 at 8.4 megapixels


@kaio.kernel
def apply_table(pixels: In[u8], table: In[u8], out: Out[u8]) -> None:
    """Replace each pixel by its entry in `table`."""
    i = kaio.grid(1)
    if i < out.size:
        out[i] = table[pixels[i]]
