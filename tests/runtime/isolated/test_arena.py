"""How arrays are cut from chunks, and chunks are made whole again."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kaio.runtime.isolated.arena import Arena, Block, Chunk, chunk_nbytes


def arena(*sizes: int) -> Arena:
    """One with chunks of these sizes."""
    made = Arena()
    made.chunks = [Chunk(0x10000 * (1 + k), size, b"") for k, size in enumerate(sizes)]
    return made


def test_chunks_are_of_many_blocks_of_the_driver_and_tight_ones_of_no_more_than_needed() -> None:
    assert [chunk_nbytes(nbytes) >> 20 for nbytes in (1, 32 << 20, (32 << 20) + 1)] == [32, 32, 34]
    assert [chunk_nbytes(nbytes, is_tight=True) >> 20 for nbytes in (1, 3 << 20)] == [2, 4]


def test_the_smallest_place_that_is_large_enough_is_taken() -> None:
    found = arena(4096, 1024, 2048)
    first, second = found.take(700), found.take(1500)
    assert first is not None
    assert second is not None
    assert (first.chunk.nbytes, second.chunk.nbytes) == (1024, 2048)
    assert found.take(8192) is None


@given(st.lists(st.integers(1, 3000), max_size=40), st.randoms(use_true_random=False))
def test_blocks_never_overlap_and_all_is_whole_in_the_end(sizes: list[int], order: random.Random) -> None:
    found = arena(8192, 16384)
    blocks: list[Block] = []
    for size in sizes:
        block = found.take(size)
        if block is None:
            for _ in range(len(blocks) // 2):
                found.give(blocks.pop(order.randrange(len(blocks))))
            continue
        assert block.nbytes >= size
        assert block.pointer % 256 == 0
        for other in blocks:
            assert block.pointer + block.nbytes <= other.pointer or other.pointer + other.nbytes <= block.pointer
        blocks.append(block)
        assert found.free_nbytes + sum(block.nbytes for block in blocks) == found.nbytes
    for block in order.sample(blocks, len(blocks)):
        found.give(block)
    assert all(chunk.is_empty for chunk in found)


def test_empty_chunks_are_taken_out_but_for_what_is_to_be_kept() -> None:
    found = arena(4096, 1024, 2048)
    kept = found.take(2000)
    assert [chunk.nbytes for chunk in found.take_empty(keep_nbytes=1024)] == [4096]
    assert [chunk.nbytes for chunk in found.take_empty()] == [1024]
    assert kept is not None
    found.give(kept)
    assert [chunk.nbytes for chunk in found.take_empty()] == [2048]
    assert not found.chunks
