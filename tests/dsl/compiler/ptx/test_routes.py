"""The CPU device gives the same bytes by both routes: by a kernel's own operations, and by its PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO

import numpy as np
import pytest

import kaio
from kaio.demo import process
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.host_workers import WorkerPool
from tests.corpus.case import Case, check_results, run
from tests.corpus.cases import CASES
from tests.dsl.from_text import kernel
from tests.dsl.test_records import ON_GPU, RECORDS, on_the_cpu, results
from tests.dsl.test_unrolled_at_random import Program
from tests.test_examples import EXAMPLES, load

OWN = kaio.Device("cpu")


def by_ptx(since: str = "") -> kaio.Device:
    """The device that runs the PTX of a GPU which has what came with an architecture."""
    numbers = [int(re.sub(r"\D", "", name)) for name in ("sm_90", since) if name]
    return kaio.Device("cpu", route="ptx", like=f"sm_{max(numbers)}")


def downloaded(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> list[bytes]:
    """Every byte that `run` copies from its device."""
    found: list[bytes] = []
    to_host = GpuBuffer.to_host

    def noted(buffer: GpuBuffer) -> np.ndarray:
        array = to_host(buffer)
        found.append(array.tobytes())
        return array

    with monkeypatch.context() as patch, redirect_stdout(StringIO()):
        patch.setattr(GpuBuffer, "to_host", noted)
        run()
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_same_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in (OWN, by_ptx()):
        monkeypatch.setattr(device, "_workers", WorkerPool(1))  # of several, floats are added up in any order
    own, ptx = (downloaded(monkeypatch, partial(load(name).main, device)) for device in (OWN, by_ptx()))
    assert own
    assert own == ptx


def test_the_demo_gives_the_same_pictures() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (61, 93, 3), np.uint8)
    own, ptx = (process(device, picture).pictures for device in (OWN, by_ptx()))
    assert {name: array.tobytes() for name, array in own.items()} == {
        name: array.tobytes() for name, array in ptx.items()
    }


@pytest.mark.parametrize("name", [shown.id for shown in ON_GPU])
def test_a_record_gives_the_same_bytes(name: str) -> None:
    record = RECORDS[name]
    for own, ptx in zip(on_the_cpu(name), results(record, by_ptx(record.since)), strict=True):
        if record.same_bits:
            np.testing.assert_array_equal(own.view(np.uint8), ptx.view(np.uint8))
        else:
            np.testing.assert_allclose(own, ptx, rtol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_correct_kernel_of_the_corpus_is_right_and_silent(case: Case) -> None:
    launch = case.twin_launch(case.size)
    options = {name: value for name, value in launch.options.items() if name != "coverage"}  # which PTX does not have
    launch = replace(launch, options=options)
    check_results(run(case.mended, launch, by_ptx()), launch, case.mended)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_gives_the_same_bytes(seed: int) -> None:
    source = Program(seed, "{}").source()
    x = np.arange(37, dtype=np.int32) * 5 - 3
    found = []
    for device in (OWN, by_ptx()):
        out = device.alloc_zeros(x.size, kaio.i32)
        kernel(source).grid(1).block(x.size).launch(device.alloc_from(x), out).wait()
        found.append(out.to_host())
    np.testing.assert_array_equal(*found, source)
