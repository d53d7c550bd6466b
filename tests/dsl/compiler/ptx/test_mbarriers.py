"""Threads meet at an `mbarrier`, phase after phase, as inline PTX has them."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from tests.dsl.from_text import kernel

DEVICE = kaio.Device("cpu", route="ptx")
WORD = kaio.InOut[kaio.u64]
INSTRUCTIONS = {
    "init": kaio.ptx("mbarrier.init.shared.b64 [{bar[0]}], {count};", bar=WORD, count=kaio.u32, memory=True),
    "arrive": kaio.ptx("mbarrier.arrive.shared.b64 {out}, [{bar[0]}];", bar=WORD, out=kaio.u64, memory=True),
    "drop": kaio.ptx("mbarrier.arrive_drop.shared.b64 {out}, [{bar[0]}];", bar=WORD, out=kaio.u64, memory=True),
    "wait": kaio.ptx(
        "{ .reg .pred %done; again: mbarrier.try_wait.shared.b64 %done, [{bar[0]}], {state}; @!%done bra again; }",
        bar=WORD, state=kaio.u64, memory=True,
    ),
    "wait_parity": kaio.ptx(
        "{.reg .pred %done; again: mbarrier.test_wait.parity.shared.b64 %done, [{bar[0]}], {odd}; @!%done bra again;}",
        bar=WORD, odd=kaio.u32, memory=True,
    ),
}  # fmt: skip
HEAD = """
@kernel
def k(x: In[f32], y: Out[f32]):
    i = grid(1)
    bar = shared_mem(1, u64)
    s = shared_mem(64, f32)
    if i == 0:
        init(bar, u32(64))
    bar_sync()
"""


def launched(body: str) -> np.ndarray:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    x, y = DEVICE.alloc_from(np.arange(64, dtype=np.float32)), DEVICE.alloc_zeros(64, kaio.f32)
    kernel(f"{HEAD}{lines}", **INSTRUCTIONS).grid(1).block(64).options(timeout_s=5).launch(x, y).wait()
    return y.to_host()


def test_who_waits_sees_what_those_who_arrived_wrote() -> None:
    body = "s[i] = x[i]\nstate = arrive(bar)\nwait(bar, state)\ny[i] = s[63 - i]"
    np.testing.assert_array_equal(launched(body), np.arange(64)[::-1])


def test_phases_follow_each_other_by_their_parity() -> None:
    body = """\
total = 0.0
for turn in range(5):
    s[i] = x[i] + turn
    arrive(bar)
    wait_parity(bar, u32(turn * 2 % 2))
    total += s[63 - i]
    arrive(bar)
    wait_parity(bar, u32((turn * 2 + 1) % 2))
y[i] = total"""
    np.testing.assert_array_equal(launched(body), 5.0 * np.arange(64)[::-1] + 10.0)


def test_who_dropped_out_is_not_waited_for() -> None:
    body = """\
if i >= 32:
    drop(bar)
else:
    s[i] = x[i]
    state = arrive(bar)
    wait(bar, state)
    again = arrive(bar)
    wait(bar, again)
    y[i] = s[31 - i]"""
    np.testing.assert_array_equal(launched(body)[:32], np.arange(32)[::-1])


def test_more_arrivals_than_a_phase_takes_are_a_fault() -> None:
    with pytest.raises(kaio.KernelFault) as caught, DEVICE.stream():
        launched("if i == 0:\n    init(bar, u32(0))\n    arrive(bar)\ny[i] = x[i]")
    assert "more threads arrive at an `mbarrier` than it takes in kernel `k`" in str(caught.value)
