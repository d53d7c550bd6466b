"""Clocks go forward; a pause is a pause."""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import pytest

import kaio
from kaio import InOut, KernelTypeError, Out, f32, i64
from tests.dsl.from_text import kernel


@kaio.kernel
def timed(x: InOut[f32], cycles: Out[i64], now: Out[i64]):
    start = kaio.clock()
    value = x[0]
    for _ in range(1000):
        value = value * 0.5 + 1.0
    x[0] = value
    cycles[0] = kaio.clock() - start
    now[0] = kaio.globaltimer()
    kaio.nanosleep(1000)
    now[1] = kaio.globaltimer()


def test_a_clock_counts_what_lies_between(device: kaio.Device) -> None:
    x, cycles, now = device.alloc_zeros(1, f32), device.alloc_zeros(1, i64), device.alloc_zeros(2, i64)
    timed.grid(1).block(1).launch(x, cycles, now).wait()
    assert cycles.to_host()[0] > 1000
    first, second = now.to_host()
    assert second >= first > 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no `clock_gettime`")
def test_the_timer_of_the_cpu_device_is_that_of_the_system() -> None:
    device = kaio.Device("cpu")
    x, cycles, now = device.alloc_zeros(1, f32), device.alloc_zeros(1, i64), device.alloc_zeros(2, i64)
    before = time.time_ns()
    timed.grid(1).block(1).launch(x, cycles, now).wait()
    assert before <= now.to_host()[0] <= now.to_host()[1] <= time.time_ns()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nanosleep(-1)", "`nanosleep` takes 0 to 1000000 ns, not -1"),
        ("nanosleep(2000000)", "`nanosleep` takes 0 to 1000000 ns, not 2000000"),
        ("nanosleep(x[0])", "`nanosleep` takes an integer, not f32"),
    ],
)
def test_a_pause_of_no_length_is_refused(call: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: InOut[f32]):\n    {call}")
    with pytest.raises(KernelTypeError, match=re.escape(message)):
        made.ptx("sm_90")


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_clocks_assemble(target: str) -> None:
    assert timed.compile(target).cubin
    assert np.char.count(timed.ptx(target), "%clock64") == 2
