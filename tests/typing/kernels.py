"""Kernels and launches as users write them: all of it passes `mypy --strict`."""

# ruff: noqa: B008  (a default that is cast at the definition is what a typed kernel writes)
from __future__ import annotations

import cmath
import dataclasses
import enum
import math
from typing import NamedTuple, TypeVar

import numpy as np

import kaio
from kaio import (
    D1,
    D2,
    D3,
    Const,
    DType,
    In,
    InOut,
    Out,
    Strided,
    bool_,
    c64,
    c128,
    f16x8,
    f32,
    f32x2,
    f32x4,
    f64,
    i32,
    u8,
)

T = TypeVar("T", f32, f64)
TILE = 16


@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32) -> None:
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kaio.func
def clamp(value: f32, low: f32, high: f32) -> f32:
    return min(max(value, low), high)


@kaio.func
def add(a: f32, b: f32) -> f32:
    return a + b


@kaio.kernel
def relu(x: In[f32, D2], out: Out[f32, D2], scale: f32 = f32(1.0), *, is_leaky: Const[bool] = False) -> None:
    col, row = kaio.grid(2)
    rows, cols = x.shape
    if row >= rows or col >= cols:
        return
    value = x[row, col]
    if value < 0:
        value = 0.1 * value if is_leaky else 0.0
    out[row, col] = clamp(value * scale, f32(0), f32(1))


@kaio.kernel
def matmul(a: In[f32, D2], b: In[f32, D2], c: Out[f32, D2]) -> None:
    left = kaio.shared_mem((TILE, TILE), f32)
    right = kaio.shared_mem((TILE, TILE), f32)
    col, row = kaio.grid(2)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    total = f32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        k = tile * TILE + tx
        left[ty, tx] = a[row, k] if row < a.shape[0] and k < a.shape[1] else 0.0
        right[ty, tx] = b[k, col]
        kaio.bar_sync()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        kaio.bar_sync()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@kaio.kernel
def histogram(picture: In[u8, D3], counts: InOut[i32], limit: i32, is_signed: bool_, bins: Const[int] = 256) -> None:
    x, y, z = kaio.grid(3)
    local = kaio.local_mem(4, f64)
    n = 0
    while n < limit:
        n += 1
    for i in range(4):
        local[i] = math.sqrt(n) + abs(n) ** 2
    assert n < bins, "too many"
    level = i32(picture[z, y, x]) // 2 & 0xFF
    kaio.atomic_add(counts, level % bins, 1)
    if is_signed and kaio.block_idx.x != kaio.grid_dim.x - 1:
        counts[0] = int(local[0]) + len(counts) + kaio.block_dim.x


@kaio.kernel
def generic(x: In[T], out: Out[T], dtype: Const[DType] = f32) -> None:
    i = kaio.grid(1)
    if i < out.size:
        out[i] = dtype(x[i]) * 2


class Edge(enum.Enum):
    CLAMP = 0
    ZERO = 1


class Window(NamedTuple):
    low: f32
    high: f32


@dataclasses.dataclass(frozen=True)
class Params:
    gain: f32
    window: Window
    edge: Edge = Edge.CLAMP


@kaio.func
def widened(window: Window, by: f32) -> Window:
    return Window(window.low - by, window.high + by)


@kaio.kernel
def limit(x: In[f32], y: Out[f32], params: Params, edge: Edge, fixed: Const[Edge] = Edge.ZERO) -> None:
    i = kaio.grid(1)
    if i < x.size:
        window = widened(params.window, params.gain)
        low, high = window._replace(low=f32(0))
        inside = low <= x[i] <= high
        y[i] = x[i] if inside and edge is not Edge.ZERO and fixed == params.edge else 0.0


def farther(a: tuple[f32, i32], b: tuple[f32, i32]) -> tuple[f32, i32]:
    return b if b[0] > a[0] else a


@kaio.kernel
def together(x: In[f32], y: InOut[f32], counts: InOut[i32]) -> None:
    i = kaio.grid(1)
    total = kaio.block_reduce_sum(x[i]) + kaio.warp_scan_max(x[i], exclusive=True)
    low, where = kaio.block_reduce_argmin(x[i])
    far, place = kaio.block_reduce((x[i], i32(i)), farther)
    y[i] = total + low + far + kaio.block_broadcast(x[i], where) + kaio.warp_broadcast(x[i])
    if kaio.atomic_cas(counts, 0, 0, place, order="acquire") == 0:
        kaio.atomic_max(counts, 1, i, scope="block")


@kaio.kernel
def transpose(x: In[f32, D2, Strided], out: Out[f32, D2], counts: InOut[i32, D1, Strided]) -> None:
    col, row = kaio.grid(2)
    tile = kaio.dynamic_shared("tile", f32)
    if x.strides[0] > 0:
        tile[col] = x[col, row]
        kaio.atomic_add(counts, 0, len(tile))
    taps = kaio.const_mem((0.25, 0.5, 0.25), f32)
    for k in kaio.unrolled(range(3)):
        tile[col] += taps[k] * kaio.load(x, (row, k), cache="cg")
    kaio.cp_async(tile, 4 * col, x, (row, 4 * col), 4)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    kaio.fence("block")
    if kaio.bitcast(tile[0], i32) < 0:
        kaio.store(out, (row, col), kaio.load(tile, 0, volatile=True), cache="cs")
    out[row, col] = tile[col]


@kaio.func
def swapped(v: f32x2) -> f32x2:
    return f32x2(v.y, v.x)


@kaio.kernel
def packed(x: InOut[f32x4], z: InOut[c64], h: In[f16x8], factor: f32x4, w: c128 = c128(1)) -> None:
    i = kaio.grid(1)
    if i < x.size:
        v = f32x4(0.0) + factor * 2.0 - f32x4(1, 2, 3, 4)
        a, b, c, d = v
        pair = swapped(f32x2(a, b)) * v.w
        x[i] = v / x[i] + h[i].e7 + pair.x + c + d + len(v) + v[0]
        z[i] = c64(z[i]) * 2.0 + (1 + 2j) * w.conjugate() + abs(w) + cmath.exp(w).real


class Body(NamedTuple):
    mass: f32
    pos: tuple[f64, f64]
    window: Window


@kaio.kernel
def falls(bodies: InOut[Body], first: Body, dt: f64) -> None:
    i = kaio.grid(1)
    tile = kaio.shared_mem(32, Body)
    if i < bodies.size:
        tile[i] = bodies[i]
        body = tile[i] if i > 0 else first
        x, y = body.pos
        bodies[i].pos[1] = y - dt
        bodies[i] = Body(body.mass, (x, y), Window(f32(0), f32(1)))


def launch() -> None:
    device = kaio.Device("cpu")
    x = device.alloc_from(np.arange(10, dtype=np.float32))
    y = device.alloc_zeros(10, f32)
    done = saxpy.over(y.size).launch(x, y, 2.0)
    done.wait()
    saxpy[1, 32](x, y, 2.0)
    matmul.over((10, 10)).block(16, 16).launch(x, y, y)
    limit.over(10).launch(x, y, Params(f32(1), Window(f32(0), f32(1))), Edge.CLAMP)
    falls.over(3).launch(device.alloc_zeros(3, Body), Body(f32(1), (f64(0), f64(0)), Window(f32(0), f32(1))), 0.5)
    packed.over(2).launch(x.view(f32x4), device.alloc_zeros(2, c64), device.alloc_zeros(2, f16x8), f32x4(1, 2, 3, 4))
    assert add(f32(1), f32(2)) == 3
    assert f32.itemsize == 4
    assert clamp(f32(1), f32(0), f32(1)) == y.to_host()[0]


async def wait() -> None:
    device = kaio.Device("cpu")
    x = device.alloc_zeros((3, 4), f32)
    await relu.over(x.shape).launch(x, x, is_leaky=True)
