"""Of random programs exactly those races are told that vector clocks find; of those of flags hardly one is missed."""

from __future__ import annotations

import os

import pytest

import kaio
from tests.corpus import random_messages
from tests.corpus.case import MANNERS, Manner, run
from tests.corpus.random_programs import Program, in_a_buffer, in_shared, races, random_program, told

CPU = kaio.Device("cpu")
COUNT = int(os.environ.get("KAIO_RANDOM_PROGRAMS", "120"))


def found(kernel: kaio.Kernel, program: Program, manner: Manner) -> kaio.KernelFault | None:
    """What the CPU device reports."""
    try:
        run(kernel, program.launch(kernel is in_shared), CPU, manner)
    except kaio.KernelFault as fault:
        return fault
    return None


def check(program: Program, number: int) -> list[bool]:
    """Compare one program under one manner; of those of its two runs that have races, whether one was told."""
    expected, manner = races(program), MANNERS[number % len(MANNERS)]
    faults = [found(kernel, program, manner) for kernel in (in_shared, in_a_buffer)]
    for fault in faults:
        if fault is not None:
            assert fault.kind == "race", f"{number}: {fault}"
            assert told(fault) in expected, f"{number} {manner}: no race\n{fault}"
    return [fault is not None for fault in faults] if expected else []


def check_all(told_of: list[list[bool]], most_missed: float = 0) -> None:
    """Whether of the programs that have races, about every other one, all but so many were told."""
    racy = [told for one in told_of for told in one]
    assert len(told_of) // 5 < sum(map(bool, told_of)) < len(told_of) * 4 // 5
    assert racy.count(False) <= most_missed


@pytest.mark.parametrize("part", range(4))
def test_no_race_of_random_programs_is_missed_and_none_is_invented(part: int) -> None:
    check_all([check(random_program(number), number) for number in range(part, COUNT, 4)])


def check_messages(number: int) -> list[bool]:
    """Compare one program of flags."""
    program, blocks = random_messages.random_messages(number)
    must, may = (random_messages.races(program, blocks, generous) for generous in (True, False))
    fault = None
    try:
        run(random_messages.messages, program.launch(blocks), CPU, MANNERS[number % len(MANNERS)])
    except kaio.KernelFault as problem:
        fault = problem
    if fault is not None:
        assert fault.kind == "race", f"{number}: {fault}"
        assert random_messages.told(fault, program, blocks) in may, f"{number}: no race\n{fault}"
    return [fault is not None] if must else []


@pytest.mark.parametrize("part", range(4))
def test_hardly_a_race_of_random_messages_is_missed_and_none_is_invented(part: int) -> None:
    check_all([check_messages(number) for number in range(part, COUNT, 4)], most_missed=1 + COUNT // 200)
