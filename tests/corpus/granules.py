"""Neighbours that share a word or an element: bytes, halves, bits, fields, lanes. Only what overlaps is a race."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import kaio
from kaio import InOut, Out, bool_, f16, f32, f32x4, i32, u8, u32
from tests.corpus.case import MOST, Case, Launch, Size, race


# ---------------------------------------------------------------------- bytes and halves
@kaio.kernel
def byte_of_the_neighbour(out: Out[i32]):
    s = kaio.shared_mem(MOST + 1, u8)
    t = kaio.thread_idx.x
    s[t] = u8(t)
    kaio.bar_sync()
    s[t] = u8(7)  # HERE
    out[kaio.grid(1)] = i32(s[t + 1]) if t + 1 < kaio.block_dim.x else 7  # OTHER


@kaio.kernel
def byte_of_its_own(out: Out[i32]):
    """Threads write bytes side by side, of one word."""
    s = kaio.shared_mem(MOST + 1, u8)
    t = kaio.thread_idx.x
    s[t] = u8(t)
    kaio.bar_sync()
    s[t] = u8(7)
    out[kaio.grid(1)] = i32(s[t])


def sevens(size: Size) -> Launch:
    out = np.full(size.count, 7, np.int32)
    return Launch((np.zeros_like(out),), size.blocks, size.threads, {"out": out})


@kaio.kernel
def byte_of_two(x: InOut[u8]):
    x[kaio.grid(1) // 2] = u8(5)  # HERE OTHER


@kaio.kernel
def byte_of_one(x: InOut[u8]):
    x[kaio.grid(1)] = u8(5)


def bytes_of_five(size: Size) -> Launch:
    x = np.full(size.count, 5, np.uint8)
    return Launch((np.zeros_like(x),), size.blocks, size.threads, {"x": x})


@kaio.kernel
def half_of_two(x: InOut[f16]):
    i = kaio.grid(1)
    x[i] = x[i ^ 1] + 1.0  # HERE OTHER


@kaio.kernel
def half_of_one(x: InOut[f16]):
    i = kaio.grid(1)
    x[i] = x[i] + 1.0


def halves(size: Size) -> Launch:
    x = size.integers(2 * size.count, dtype=np.float16)
    expected = x.copy()
    expected[: size.count] += 1
    return Launch((x,), size.blocks, size.threads, {"x": expected})


@kaio.kernel
def flags_of_the_neighbour(found: Out[bool_]):
    i = kaio.grid(1)
    found[i] = i % 3 == 0  # HERE
    if i + 1 < found.size and i % 3 == 0:
        found[i + 1] = True  # OTHER


@kaio.kernel
def flags_of_its_own(found: Out[bool_]):
    i = kaio.grid(1)
    found[i] = i % 3 == 0


def thirds(size: Size) -> Launch:
    found = np.arange(size.count) % 3 == 0
    return Launch((np.zeros_like(found),), size.blocks, size.threads, {"found": found})


# ---------------------------------------------------------------------- bits of a word
@kaio.kernel
def bits_by_update(words: InOut[u32]):
    i = kaio.grid(1)
    words[i // 32] |= u32(1) << (i % 32)  # HERE OTHER


@kaio.kernel
def bits_by_atomics(words: InOut[u32]):
    i = kaio.grid(1)
    kaio.atomic_or(words, i // 32, u32(1) << (i % 32))


def all_bits(size: Size) -> Launch:
    bits = np.zeros((size.count + 31) // 32 * 32, np.uint8)
    bits[: size.count] = 1
    words = np.packbits(bits, bitorder="little").view(np.uint32)
    return Launch((np.zeros_like(words),), size.blocks, size.threads, {"words": words})


# ---------------------------------------------------------------------- fields and lanes
class Pair(NamedTuple):
    """Two numbers."""

    left: f32
    right: f32


@kaio.kernel
def field_of_two(pairs: InOut[Pair]):
    """Two threads for each element: both set the left field."""
    i = kaio.grid(1)
    if i % 2 == 0:
        pairs[i // 2].left = 1.0  # HERE
    else:
        pairs[i // 2].left = 2.0  # OTHER


@kaio.kernel
def field_of_each(pairs: InOut[Pair]):
    i = kaio.grid(1)
    if i % 2 == 0:
        pairs[i // 2].left = 1.0
    else:
        pairs[i // 2].right = 2.0


def of_one_and_two(size: Size) -> Launch:
    pairs = np.zeros(size.count, np.dtype([("left", "f4"), ("right", "f4")], align=True))
    expected = pairs.copy()
    expected["left"][: (size.count + 1) // 2], expected["right"][: size.count // 2] = 1, 2
    return Launch((pairs,), size.blocks, size.threads, {"pairs": expected})


@kaio.kernel
def lane_and_vector(v: InOut[f32x4], out: Out[f32]):
    """One thread sets a lane, and another one reads the whole vector."""
    i = kaio.grid(1)
    if i % 2 == 0:
        v[i // 2].w = 1.0  # HERE
        out[i] = 0.0
    else:
        whole = v[i // 2]  # OTHER
        out[i] = whole.x + whole.w


@kaio.kernel
def lane_and_lane(v: InOut[f32x4], out: Out[f32]):
    i = kaio.grid(1)
    if i % 2 == 0:
        v[i // 2].w = 1.0
        out[i] = 0.0
    else:
        out[i] = v[i // 2].x


def fours(size: Size) -> Launch:
    v = np.full((size.count, 4), 4, np.float32).view(f32x4.numpy).ravel()
    out = np.where(np.arange(size.count) % 2 == 0, 0, 4).astype(np.float32)
    return Launch((v, np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def span_and_element(x: InOut[f32], out: Out[f32]):
    """A load of four elements, and a store of the last of them by another thread."""
    i = kaio.grid(1)
    four = kaio.load(x, 4 * i, f32x4)  # HERE
    out[i] = four.x + four.w
    if i > 0:
        x[4 * i - 1] = 0.0  # OTHER


@kaio.kernel
def span_and_own_element(x: InOut[f32], out: Out[f32]):
    i = kaio.grid(1)
    four = kaio.load(x, 4 * i, f32x4)
    out[i] = four.x + four.w
    x[4 * i + 3] = 0.0


def spans(size: Size) -> Launch:
    x = size.integers((size.count, 4), dtype=np.float32)
    return Launch((x.ravel(), np.zeros(size.count, np.float32)), size.blocks, size.threads, {"out": x[:, 0] + x[:, 3]})


CASES = [
    Case(byte_of_the_neighbour, byte_of_its_own, sevens, race("s", "write", "read", index=range(1, 64), blocks="same")),
    Case(byte_of_two, byte_of_one, bytes_of_five, race("x", "write", "write", index=range(96), blocks="same")),
    Case(half_of_two, half_of_one, halves, race("x", "read", "write", index=range(192), blocks="same")),
    Case(flags_of_the_neighbour, flags_of_its_own, thirds, race("found", "write", "write", index=range(1, 192, 3))),
    Case(bits_by_update, bits_by_atomics, all_bits, race("words", "write", "read", index=range(6), blocks="same")),
    Case(field_of_two, field_of_each, of_one_and_two, race("pairs", "write", "write", index=range(96), blocks="same")),
    Case(lane_and_vector, lane_and_lane, fours, race("v", "write", "read", index=range(96), blocks="same")),
    Case(span_and_element, span_and_own_element, spans, race("x", "read", "write", index=range(3, 768, 4))),
]
