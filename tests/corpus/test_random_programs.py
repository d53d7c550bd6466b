"""Of random programs exactly those races are found that vector clocks find."""

from __future__ import annotations

import os

import pytest

import kaio
from tests.corpus import random_messages
from tests.corpus.case import MANNERS, Manner, run
from tests.corpus.pending import PENDING
from tests.corpus.random_programs import Program, in_a_buffer, in_shared, races, random_program, told

CPU = kaio.Device("cpu")
PENDS = pytest.mark.xfail("random programs" in PENDING, strict=True, reason="does not hold yet")
COUNT = int(os.environ.get("KAIO_RANDOM_PROGRAMS", "120"))


def found(kernel: kaio.Kernel, program: Program, manner: Manner) -> kaio.KernelFault | None:
    """What the CPU device reports."""
    try:
        run(kernel, program.launch(kernel is in_shared), CPU, manner)
    except kaio.KernelFault as fault:
        return fault
    return None


def check(program: Program, number: int) -> bool:
    """Compare one program under one manner; whether it has races."""
    expected, manner = races(program), MANNERS[number % len(MANNERS)]
    for kernel in (in_shared, in_a_buffer):
        fault = found(kernel, program, manner)
        if fault is None:
            assert not expected, f"{number} {manner} {kernel}: missed {sorted(expected)[:3]} of {len(expected)}"
        else:
            assert fault.kind == "race", f"{number}: {fault}"
            assert told(fault) in expected, f"{number} {manner}: no race\n{fault}"
    return bool(expected)


@PENDS
@pytest.mark.parametrize("part", range(4))
def test_the_races_of_random_programs_are_found_and_no_others(part: int) -> None:
    numbers = range(part, COUNT, 4)
    racy = sum(check(random_program(number), number) for number in numbers)
    assert len(numbers) // 5 < racy < len(numbers) * 4 // 5


def check_messages(number: int) -> bool:
    """Compare one program of flags; whether it has races."""
    program, blocks = random_messages.random_messages(number)
    must, may = (random_messages.races(program, blocks, generous) for generous in (True, False))
    fault = None
    try:
        run(random_messages.messages, program.launch(blocks), CPU, MANNERS[number % len(MANNERS)])
    except kaio.KernelFault as problem:
        fault = problem
    if fault is None:
        assert not must, f"{number} {MANNERS[number % len(MANNERS)]}: missed {sorted(must)[:3]} of {len(must)}"
    else:
        assert fault.kind == "race", f"{number}: {fault}"
        assert random_messages.told(fault, program, blocks) in may, f"{number}: no race\n{fault}"
    return bool(must)


@PENDS
@pytest.mark.parametrize("part", range(4))
def test_the_races_of_random_messages_are_found_and_no_others(part: int) -> None:
    numbers = range(part, COUNT, 4)
    racy = sum(check_messages(number) for number in numbers)
    assert len(numbers) // 5 < racy < len(numbers) * 4 // 5
