"""Random launches of the correct corpus: no false report, no wrong result, nothing left behind."""

from __future__ import annotations

import os

import pytest

from tests.corpus.soak import draw, soak

COUNT = int(os.environ.get("KAIO_SOAK", "100"))
MOST_GROWN_NBYTES = 64 << 20  # what is compiled in the second half is in it, and memory that workers keep


@pytest.mark.timeout(max(300, COUNT))
def test_the_correct_corpus_survives_random_launches() -> None:
    found = soak(COUNT, seed=int(os.environ.get("KAIO_SOAK_SEED", "0")))
    assert found.failures == [], str(found)
    assert found.launches == COUNT
    assert found.buffers_left == 0
    assert found.grown_nbytes < MOST_GROWN_NBYTES * max(1, COUNT // 2500), str(found)


def test_a_launch_is_a_function_of_seed_and_number() -> None:
    assert draw(3, 17) == draw(3, 17)
    assert draw(3, 17) != draw(3, 18)
