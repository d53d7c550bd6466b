"""Loops that never end: stopped, and told with their line and a thread that is in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import InOut, KernelFault, Out, i32, i64
from kaio.runtime.stream import RunOptions
from tests.dsl.compiler.host import Compiled, compiled

SOON = RunOptions(timeout_s=0.05)


def counts_to_nothing(out: Out[i32], wrong: i32):
    i = kaio.grid(1)
    n = i
    while i == wrong:
        n = (n + 1) & 1023
    out[i] = n


def skips_its_step(out: Out[i32]):
    i = kaio.grid(1)
    n = 0
    while True:
        if n == 3:
            continue
        if n > 7:
            break
        n += 1
    out[i] = n


def halve(n):
    while n != 1:
        n = n // 2
    return n


def calls(out: Out[i32]):
    out[kaio.grid(1)] = halve(kaio.grid(1))


def counts_far(out: Out[i32], turns: i64):
    total = i64(0)
    for k in range(turns):
        total = (total * 5 + k) ^ (total >> 7)
    out[kaio.grid(1)] = i32(total & 1)


def sweeps(out: Out[i32], turns: i32):
    n = 0
    while n >= 0:
        for _ in range(turns):
            n = (n * 5 + 1) & 1023
    out[kaio.grid(1)] = n


def before_a_barrier(out: Out[i32]):
    t = kaio.thread_idx.x
    n = t
    while t == 5:
        n = (n + 1) & 1023
    kaio.bar_sync()
    out[t] = n


def waits_for_nobody(flag: InOut[i32]):
    while kaio.load(flag, 0, volatile=True) == 0:
        pass


def sleeps_for_nobody(flag: InOut[i32]):
    while kaio.load(flag, 0, volatile=True) == 0:
        kaio.nanosleep(100)


def locks_twice(lock: InOut[i32]):
    for _ in range(2):
        while kaio.atomic_cas(lock, 0, 0, 1) != 0:
            pass


def _fault(kernel: Compiled, grid: Any, block: Any, *args: Any, **how: Any) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        kernel(grid, block, *args, **{"options": SOON, **how})
    return caught.value


def _line(function: Any, offset: int) -> int:
    return function.__code__.co_firstlineno + offset


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_wrong_loop_is_told_with_its_line_and_a_thread(check: bool, workers: int) -> None:
    fault = _fault(compiled(counts_to_nothing, check=check), 4, 32, np.zeros(128, np.int32), 70, workers=workers)
    assert fault.facts == {
        "kind": "endless", "kernel": "counts_to_nothing", "line": _line(counts_to_nothing, 3),
        "block": (2, 0, 0), "thread": (6, 0, 0),
    }  # fmt: skip
    assert str(fault) == (
        "a loop never ends in kernel `counts_to_nothing`\n"
        "  thread (6, 0, 0) of block (2, 0, 0) is in it, and for 0.05 s no thread has returned or got past a barrier\n"
        f"  tests/runtime/test_endless.py:{_line(counts_to_nothing, 3)}:5, in counts_to_nothing\n"
        "          while i == wrong:\n"
        "          ^^^^^^^^^^^^^^^^\n"
        "  help: let its condition become false in every thread; where it only takes long: `.options(timeout_s=…)`"
    )


@pytest.mark.parametrize(
    ("function", "offset", "args"),
    [
        (skips_its_step, 3, ()),
        (counts_far, 2, (2**62,)),
        (before_a_barrier, 3, ()),
    ],
)
def test_the_loop_is_the_innermost_that_does_not_end(function: Any, offset: int, args: Any) -> None:
    fault = _fault(compiled(function), 1, 8, np.zeros(8, np.int32), *args)
    assert (fault.facts["kind"], fault.facts["line"]) == ("endless", _line(function, offset))


def test_a_loop_of_a_device_function_is_told_with_its_call() -> None:
    fault = _fault(compiled(calls), 1, 8, np.zeros(8, np.int32))
    assert (fault.facts["thread"], fault.facts["line"]) == ((0, 0, 0), _line(halve, 1))
    assert f"called from tests/runtime/test_endless.py:{_line(calls, 1)}:25, in calls" in str(fault)


def test_loops_that_are_counted_before_they_begin_are_left_too() -> None:
    fault = _fault(compiled(sweeps), 1, 1, np.zeros(1, np.int32), 2**20, options=RunOptions(timeout_s=0.01))
    assert fault.facts["line"] in (_line(sweeps, 2), _line(sweeps, 3))


def sweeps_far(out: Out[i32], n: i32, m: i32):
    total = 0
    for i in range(n):
        for j in range(m):
            total = total * 1664525 + (i ^ j)
    out[0] = total


@pytest.mark.parametrize("check", [True, False])
def test_a_few_turns_of_which_each_takes_long_are_left_too(check: bool) -> None:
    kernel = compiled(sweeps_far, check=check)
    fault = _fault(kernel, 1, 1, np.zeros(1, np.int32), 100, 2**26, options=RunOptions(timeout_s=0.01))
    assert fault.facts["line"] == _line(sweeps_far, 3)


def sweeps_by_a_few(out: Out[i32], n: i32):
    t = kaio.grid(1)
    total = t
    for a in range(256):
        for b in range(256):
            for c in range(256):
                for d in range(256):
                    for e in range(256):
                        total = total * 1664525 + (a ^ b ^ c ^ d ^ e ^ n)
    out[t] = total


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("threads", [1, 32])
def test_loops_of_few_turns_each_that_take_long_together_are_left_too(check: bool, threads: int) -> None:
    kernel, out = compiled(sweeps_by_a_few, check=check), np.zeros(threads, np.int32)
    fault = _fault(kernel, 1, threads, out, 3, options=RunOptions(timeout_s=0.01))
    first = _line(sweeps_by_a_few, 3)
    assert (fault.facts["kind"], fault.facts["line"] in range(first, first + 5)) == ("endless", True)


def sweeps_by_fewer(out: Out[i32]):
    total = 0
    while total != 1:
        for a in range(32):
            for b in range(32):
                for c in range(32):
                    for d in range(32):
                        for e in range(32):
                            for f in range(32):
                                for g in range(32):
                                    for h in range(32):
                                        total = (total * 1664525 + (a ^ b ^ c ^ d ^ e ^ f ^ g ^ h)) & ~1
    out[0] = total


@pytest.mark.parametrize("check", [True, False])
def test_that_is_so_for_loops_of_fewer_turns_in_a_thread_by_itself(check: bool) -> None:
    fault = _fault(compiled(sweeps_by_fewer, check=check), 1, 1, np.zeros(1, np.int32))
    assert fault.facts["kind"] == "endless"


def sweeps_together(out: Out[i32], n: i32, m: i32):
    s = kaio.shared_mem(32, i32)
    t, total = kaio.thread_idx.x, 0
    s[t] = t
    kaio.bar_sync()
    for i in range(n):
        for j in range(m):
            total += s[t] * j + i
            s[t] = total
    kaio.bar_sync()
    out[t] = s[t]


@pytest.mark.parametrize("threads", [5, 16, 32])
def test_loops_in_loops_that_threads_go_round_side_by_side_are_left_too(threads: int) -> None:
    kernel, out = compiled(sweeps_together), np.zeros(threads, np.int32)
    assert not kernel.module.waits
    kernel(1, threads, out, 3, 1)
    np.testing.assert_array_equal(out, np.full(threads, 3))
    fault = _fault(kernel, 1, threads, out, 2**30, 2**14, options=RunOptions(timeout_s=0.01))
    assert fault.facts["line"] in (_line(sweeps_together, 5), _line(sweeps_together, 6))


@pytest.mark.parametrize("function", [waits_for_nobody, sleeps_for_nobody, locks_twice])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_thread_that_waits_for_what_nobody_does_is_told(function: Any, workers: int) -> None:
    fault = _fault(compiled(function), 3, 40, np.zeros(1, np.int32), workers=workers)
    assert fault.facts["kind"] == "endless"
    assert "  help: another thread has to write what it waits for, and to be alive at the same time; " in str(fault)


def test_the_kernel_and_the_pool_are_as_good_as_new_after_it() -> None:
    kernel, out = compiled(counts_to_nothing), np.zeros(128, np.int32)
    _fault(kernel, 4, 32, out, 70)
    kernel(4, 32, out, -1)
    np.testing.assert_array_equal(out, np.arange(128))


# ---------------------------------------------------------------------- fuel
def by_for(out: Out[i32], n: i32):
    x = 0
    for k in range(n):
        x += k
    out[0] = x


def breaks(out: Out[i32], n: i32):
    x = 0
    for k in range(1_000_000):
        x += k
        if k == n - 1:
            break
    out[0] = x


def by_while(out: Out[i32], n: i32):
    k = 0
    while k < n:
        k += 1
    out[0] = k


def continues(out: Out[i32], n: i32):
    k = 0
    while k < n and k != 1_000_000:
        k += 1
        if k & 1:
            continue
        out[0] = k


def without_end(out: Out[i32], n: i32):
    k = 0
    while True:
        k += 1
        if k >= n:
            break
    out[0] = k


def returns(out: Out[i32], n: i32):
    k = 0
    while True:
        if k >= n - 1:
            return
        k += 1


def while_in_for(out: Out[i32], n: i32):
    k = 0
    for a in range(2):
        while k < (n - 2) // 2 * (a + 1):
            k += 1
    out[0] = k


def for_in_while(out: Out[i32], n: i32):
    k = 0
    while k < n:
        for _ in range(1):
            k += 2
    out[0] = k


def for_with_barriers(out: Out[i32], n: i32):
    for _ in range(n):
        kaio.bar_sync()
    out[0] = n


def leaves_at_once(out: Out[i32], n: i32):
    for a in range(n):
        out[0] = a
        for b in range(n):
            out[0] = b
            break
        if a == n // 2 - 1:
            break


def twice_without_end(out: Out[i32], n: i32):
    k = 0
    while True:
        while True:
            k += 1
            if k & 1 == 0:
                break
        if k == n // 3 * 2:
            break
    out[0] = k


def counted_up(n):
    k = 0
    while k < n:
        k += 1
    return k


def calls_a_loop(out: Out[i32], n: i32):
    out[0] = counted_up(n // 2) + counted_up(n - n // 2)


def does_nothing(out: InOut[i32], n: i32):
    while kaio.atomic_add(out, 0, 1) < n // 3 * 3:
        pass


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("stepped", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        by_for, breaks, by_while, continues, without_end, returns, while_in_for, for_in_while, for_with_barriers,
        leaves_at_once, twice_without_end, calls_a_loop, does_nothing,
    ],
)  # fmt: skip
def test_fuel_is_exact_for_all_loops(function: Any, check: bool, stepped: bool) -> None:
    kernel = compiled(function, check=check, stepped=stepped, counted=True)
    for n in (6, 60, 120_000):
        turns = n // 3 * 3
        kernel(1, 1, np.zeros(1, np.int32), n, options=RunOptions(fuel=turns))
        fault = _fault(kernel, 1, 1, np.zeros(1, np.int32), n, options=RunOptions(fuel=turns - 1))
        assert f"has taken {turns - 1} turns of loops" in str(fault)


def goes_round(out: Out[i32], turns: i32, kind: i32):
    n = 0
    if kind == 0:
        for k in range(turns):
            n += k
    if kind == 1:
        for k in range(turns):
            if k == 1_000_000_000:
                break
            n += 1
    if kind == 2:
        for k in range(2 * turns, 0, -2):
            n += k
    out[kaio.grid(1)] = n


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("fuel", [1, 10, 65_535, 65_536, 200_000])
def test_fuel_is_the_most_turns_that_a_thread_takes(kind: int, fuel: int) -> None:
    kernel, out, options = compiled(goes_round, counted=True), np.zeros(2, np.int32), RunOptions(fuel=fuel)
    kernel(1, 2, out, fuel, kind, options=options)
    fault = _fault(kernel, 1, 2, out, fuel + 1, kind, options=options)
    assert (fault.facts["kind"], fault.facts["thread"]) == ("endless", (0, 0, 0))
    assert str(fault).splitlines()[:2] == [
        "a thread ran out of fuel in kernel `goes_round`",
        f"  thread (0, 0, 0) of block (0, 0, 0) has taken {fuel} turn{'s' * (fuel > 1)} of loops, and is here",
    ]


@pytest.mark.parametrize("fuel", [2**62 - 1, 2**63, 2**200])
def test_fuel_may_be_any_number(fuel: int) -> None:
    kernel, out = compiled(goes_round, counted=True), np.zeros(2, np.int32)
    kernel(1, 2, out, 10, 1, options=RunOptions(fuel=fuel))
    assert out.tolist() == [10, 10]


def meets(out: Out[i32], turns: i32):
    k = 0
    while k < turns:
        kaio.bar_sync()
        k += 1
    out[kaio.grid(1)] = k


def test_a_loop_that_passes_barriers_makes_progress_and_ends_with_its_fuel() -> None:
    kernel, out = compiled(meets, counted=True), np.zeros(32, np.int32)
    kernel(1, 32, out, 100_000, options=RunOptions(timeout_s=1e-9, fuel=100_000))
    assert set(out) == {100_000}
    fault = _fault(kernel, 1, 32, out, 2**31 - 1, options=RunOptions(fuel=1000))
    assert (fault.facts["kind"], fault.facts["line"]) == ("endless", _line(meets, 2))


def test_a_launch_takes_both_options(device: kaio.Device) -> None:
    if device.kind != "cpu":
        pytest.skip("fuel is for the CPU device")
    kernel = kaio.kernel(counts_to_nothing)
    with pytest.raises(KernelFault, match="ran out of fuel"):
        kernel.over(8).options(fuel=9).launch(device.alloc_zeros(8, i32), 3).wait()
    with pytest.raises(KernelFault, match=r"for 0\.01 s no thread"):
        kernel.over(8).options(timeout_s=0.01).launch(device.alloc_zeros(8, i32), 3).wait()
