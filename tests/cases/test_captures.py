"""Kernels that differ only in what they capture (B44): each computes with its own, and equal ones compile once."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import InOut, f32
from kaio.dsl.compiler import pipeline
from tests.dsl.from_text import namespace

double = kaio.func(lambda v: v * 2)
square = kaio.func(lambda v: v * v)


def make(op: Any, bias: Any) -> kaio.Kernel:
    @kaio.kernel
    def k(x: InOut[f32]):
        i = kaio.grid(1)
        if i < x.size:
            x[i] = op(x[i]) + bias

    return k


def result(made: kaio.Kernel, device: kaio.Device, value: float = 3.0) -> float:
    x = device.alloc_from(np.full(1, value, np.float32))
    made[1, 1](x).wait()
    return float(x.to_host()[0])


def test_b44_kernels_of_one_source_compute_with_what_each_captured(device: kaio.Device) -> None:
    wanted = {(double, 0): 6.0, (square, 0): 9.0, (double, 100): 106.0, (square, 0.5): 9.5}
    made = [(make(op, bias), value) for (op, bias), value in wanted.items()]
    for _ in range(2):
        random.Random(1).shuffle(made)
        assert [result(kernel, device) for kernel, _ in made] == [value for _, value in made]


def test_b44_plain_lambdas_of_one_bytecode_and_other_constants(device: kaio.Device) -> None:
    assert result(make(lambda v: v + 1.0, 0), device) == 4.0
    assert result(make(lambda v: v + 2.0, 0), device) == 5.0


def test_b44_a_loop_variable_captured_late_has_its_last_value(device: kaio.Device) -> None:
    """As in Python, where all closures see one variable; it is read when the kernel is compiled."""
    made = []
    for step in (1.0, 2.0, 4.0):

        @kaio.kernel
        def k(x: InOut[f32]):
            x[0] = x[0] + step  # noqa: B023

        made.append(k)
    assert [result(kernel, device) for kernel in made] == [7.0, 7.0, 7.0]


CAPTURES: list[tuple[Any, Any]] = [
    (1, 1.0), (1, True), (0.0, -0.0), (math.nan, 1.0), ("fast", "exact"), (f32, kaio.f64), ((1, 2), (1, 3)),
    ((1, 2), (1.0, 2)), (np.float32(1), np.float64(1)), (double, square),
]  # fmt: skip


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each compilation for the CPU."""
    found: list[object] = []
    original = pipeline.compile_host
    monkeypatch.setattr(pipeline, "compile_host", lambda *given: found.append(given) or original(*given))
    return found


@pytest.mark.parametrize(("one", "other"), CAPTURES, ids=lambda value: str(getattr(value, "__name__", value)))
def test_b44_a_captured_value_that_differs_compiles_again_and_the_same_one_does_not(
    one: Any, other: Any, compiled: list[object]
) -> None:
    uses = {
        str: '1 if CAPTURED == "fast" else 2', tuple: "CAPTURED[1]", kaio.DType: "1 if CAPTURED == f32 else 2",
        kaio.Func: "CAPTURED(x[0])",
    }  # fmt: skip
    space = namespace(
        f"@kernel\ndef k(x: InOut[f32]):\n    x[0] = {uses.get(type(one), 'x[0] + CAPTURED')}", CAPTURED=one
    )
    cpu = kaio.Device("cpu")
    first = result(space["k"], cpu)
    assert result(space["k"], cpu) == first or math.isnan(first)
    assert len(compiled) == 1
    space["CAPTURED"] = other
    result(space["k"], cpu)
    assert len(compiled) == 2
