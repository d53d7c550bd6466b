"""Each planted bug gets its report, whatever order threads run in; each correct twin gets none, and the right value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kaio
from tests.corpus.case import MANNERS, Case, Manner, Size, check_results, run
from tests.corpus.cases import CASES, PLANTED
from tests.corpus.pending import PENDING

CPU = kaio.Device("cpu")


def _parameters(cases: Sequence[Case], what: str = "") -> list:
    waiting = pytest.mark.xfail(strict=True, reason="does not hold yet")
    names = [(case, f"{what}{case}") for case in cases]
    return [pytest.param(case, id=name, marks=[waiting] if name in PENDING else []) for case, name in names]


def _manners(case: Case) -> list[Manner]:
    return [manner._replace(check=level) for level in case.levels for manner in MANNERS]


def test_there_are_enough_of_both() -> None:
    assert len(PLANTED) >= 60
    assert len({case.mended for case in CASES}) >= 60
    names = [str(case) for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", _parameters(PLANTED))
def test_a_planted_bug_is_reported_whatever_the_order(case: Case) -> None:
    assert case.planted is not None
    assert case.report is not None
    here, other = case.lines("HERE"), case.lines("OTHER")
    for manner in _manners(case):
        with pytest.raises(kaio.KernelFault) as caught:
            run(case.planted, case.make(case.size), CPU, manner)
        case.report.check(caught.value, here, other)


@pytest.mark.parametrize("case", _parameters(CASES, "twin of "))
def test_its_twin_is_silent_and_right_whatever_the_order(case: Case) -> None:
    for k, size in enumerate(case.sizes()):
        manner = MANNERS[k % len(MANNERS)]
        launch = case.twin_launch(size)
        check_results(run(case.mended, launch, CPU, manner), launch, case.mended)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [case for case in CASES if case.mended_on_gpu], ids=str)
def test_its_twin_gives_the_same_on_a_gpu(case: Case) -> None:
    for size in {case.sizes()[0], case.sizes()[-1]}:
        launch = case.twin_launch(size)
        on_gpu = run(case.mended, launch.unchecked(), kaio.Device("cuda:0"))
        check_results(on_gpu, launch, case.mended)
        on_cpu = run(case.mended, launch, CPU)
        for name, found in on_cpu.items():
            np.testing.assert_array_equal(on_gpu[name], found)


def test_a_size_makes_the_same_launch_each_time() -> None:
    first, second = (CASES[0].make(Size(3, 64)) for _ in range(2))
    np.testing.assert_array_equal(first.arguments[0], second.arguments[0])
