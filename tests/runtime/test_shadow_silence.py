"""Correct kernels run under `check="full"` without a report: the examples, the demo, the collectives, the records."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kaio
from kaio.demo import process
from tests.dsl.test_collective import BLOCKS, SAMPLE, check_repeats, sweep
from tests.dsl.test_records import RECORDS, results
from tests.test_examples import EXAMPLES, load

FULL = kaio.Device("cpu", check="full")
SHARES = re.compile(r"_mem\(|shared|atomic|sync|bar_|cluster|warp|block|matrix|kaio\.(load|store)\(|out\[(?!i\])")


# The records whose examples do more than to set an element of each thread's own.
SHARED = [name for name, record in RECORDS.items() if SHARES.search(record.example)]


@pytest.mark.parametrize("name", SHARED)
def test_the_example_of_a_record_is_silent(name):
    assert any(np.any(array) for array in results(RECORDS[name], FULL))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_silent(name, capsys):
    load(name).main(FULL)


def test_the_demo_is_silent():
    picture = np.random.default_rng(0).integers(0, 256, (33, 70, 3), np.uint8)
    assert process(FULL, picture).is_right


@pytest.mark.parametrize(("name", "dtype"), SAMPLE)
def test_folds_and_scans_are_silent(name, dtype):
    sweep(FULL, name, dtype, BLOCKS)


@pytest.mark.parametrize("threads", [1, 33, 1000])
def test_folds_that_follow_each_other_are_silent(threads):
    check_repeats(FULL, kaio.f32, threads, 20)
