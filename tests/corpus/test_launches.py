"""Launches on two streams over two imports of one memory, which kaio cannot order: races between them, and none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, i32
from tests.corpus.case import MANNERS, Manner, marked, workers
from tests.corpus.pending import PENDING

CPU = kaio.Device("cpu")
COUNT = 96


@kaio.kernel
def fill(x: Out[i32], value: i32):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = value  # HERE


@kaio.kernel
def double(x: In[i32], y: Out[i32]):
    i = kaio.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]  # HERE


@kaio.kernel
def add(x: InOut[i32], value: i32):
    i = kaio.grid(1)
    if i < x.size:
        kaio.atomic_add(x, i, value)


Launches = Callable[[Manner], list[Any]]


def _launch(kernel: kaio.Kernel, manner: Manner, stream: Any, *arguments: Any) -> Any:
    return kernel.over(COUNT).block(32).on(stream).options(**manner.options()).launch(*arguments)


def two_that_write(manner: Manner) -> list[Any]:
    memory = np.zeros(COUNT, np.int32)
    return [_launch(fill, manner, CPU.stream(), CPU.import_array(memory), value) for value in (1, 2)]


def one_reads_what_the_other_writes(manner: Manner) -> list[Any]:
    memory = np.zeros(COUNT, np.int32)
    out = CPU.alloc_zeros(COUNT, i32)
    return [
        _launch(fill, manner, CPU.stream(), CPU.import_array(memory), 1),
        _launch(double, manner, CPU.stream(), CPU.import_array(memory), out),
    ]


def halves(manner: Manner) -> list[Any]:
    memory = np.zeros(COUNT, np.int32)
    parts = CPU.import_array(memory[: COUNT // 2]), CPU.import_array(memory[COUNT // 2 :])
    return [_launch(fill, manner, CPU.stream(), part, 1) for part in parts]


def one_stream(manner: Manner) -> list[Any]:
    memory, stream = np.zeros(COUNT, np.int32), CPU.stream()
    return [_launch(fill, manner, stream, CPU.import_array(memory), value) for value in (1, 2)]


def one_waits(manner: Manner) -> list[Any]:
    memory = np.zeros(COUNT, np.int32)
    first = _launch(fill, manner, CPU.stream(), CPU.import_array(memory), 1)
    first.wait()
    return [first, _launch(fill, manner, CPU.stream(), CPU.import_array(memory), 2)]


def one_buffer(manner: Manner) -> list[Any]:
    buffer = CPU.import_array(np.zeros(COUNT, np.int32))
    return [_launch(fill, manner, CPU.stream(), buffer, value) for value in (1, 2)]


def both_by_atomics(manner: Manner) -> list[Any]:
    memory = np.zeros(COUNT, np.int32)
    return [_launch(add, manner, CPU.stream(), CPU.import_array(memory), value) for value in (1, 2)]


def both_read(manner: Manner) -> list[Any]:
    memory = np.zeros(COUNT, np.int32)
    outs = [CPU.alloc_zeros(COUNT, i32) for _ in range(2)]
    return [_launch(double, manner, CPU.stream(), CPU.import_array(memory), out) for out in outs]


def _faults(launches: Launches, manner: Manner) -> list[kaio.KernelFault]:
    found = []
    with workers(CPU, manner.workers):
        for done in launches(manner):
            try:
                done.wait(timeout_s=60)
            except kaio.KernelFault as fault:
                found.append(fault)
    return found


def _parameters(*launches: Launches) -> list[Any]:
    waiting = pytest.mark.xfail(strict=True, reason="does not hold yet")
    return [pytest.param(one, marks=[waiting] if one.__name__ in PENDING else [], id=one.__name__) for one in launches]


@pytest.mark.parametrize("manner", MANNERS, ids=str)
@pytest.mark.parametrize("launches", _parameters(two_that_write, one_reads_what_the_other_writes))
def test_launches_that_nothing_orders_race(launches: Launches, manner: Manner) -> None:
    (fault,) = _faults(launches, manner)
    assert fault.kind == "race", str(fault)
    lines = {line for kernel in (fill, double) for line in marked(kernel, "HERE")}
    assert {fault.facts["line"], fault.facts["other_line"]} <= lines
    assert "nothing orders the two launches" in str(fault)


@pytest.mark.parametrize("manner", MANNERS, ids=str)
@pytest.mark.parametrize("launches", _parameters(halves, one_stream, one_waits, one_buffer, both_by_atomics, both_read))
def test_launches_that_are_ordered_or_apart_are_silent(launches: Launches, manner: Manner) -> None:
    assert _faults(launches, manner) == []
