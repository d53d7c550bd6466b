"""What collective operations refuse, and what the CPU device finds: shown at the call, never inside kaio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.dsl.from_text import kernel, message
from tests.dsl.warps import fault

REFUSED = [
    ("block_reduce_sum(x[0] > 0)", "`block_reduce_sum` of a bool: bools have no arithmetic", "cast it"),
    ("block_reduce_min(1j)", "`block_reduce_min` of complex literal 1j: complex numbers have no order and no bits",
     "fold `abs(z)`"),
    ("block_reduce_argmin(f32x2(1, 2))", "`block_reduce_argmin` takes one number, not f32x2", "call it for each lane"),
    ("block_reduce_or(f32x2(1, 2))", "`block_reduce_or` of f32, which has no bitwise operators", "cast it to an int"),
    ("block_reduce_argmax(f8e4m3(x[0]))", "`block_reduce_argmax` of f8e4m3, which stores numbers and has no arithmetic",
     "cast it, for example `kaio.f32(...)`"),
    ("block_reduce_and(x[0])", "`block_reduce_and` of f32, which has no bitwise operators", "cast it to an integer"),
    ("block_reduce_sum((x[0], 1))", "`block_reduce_sum` takes a number, not (f32, int literal 1)",
     "combine by a function: `kaio.block_reduce(value, function)`"),
    ("block_reduce(x[0], 3)", "`block_reduce` combines by a function of two values, not by int literal 3",
     "define one outside the kernel: `plus = lambda a, b: a + b`"),
    ("block_reduce(x[0], wider)", "the function of two f32 gives (f32, f32), which is no f32", "cast what it returns"),
    ("block_reduce(n[0], halved)", "the function of two i32 gives f32, which is no i32", "cast what it returns"),
    ("block_reduce(x[0], math.sqrt)", "`sqrt(value, /)`: too many positional arguments", None),
    ("block_scan(x[0], wider, True)", "an exclusive `block_scan` has nothing to give to the first thread",
     "say what: `exclusive=True, initial=0`"),
    ("block_scan(n[0], max, True, 0.5)", "what `block_scan` puts in front is float literal 0.5, which is no i32",
     "cast it to the type of the value"),
    ("block_scan_sum(x[0], 1)", "is a bool, not int literal 1", None),
    ("warp_reduce_argmin(x[0], x[0])", "the index that `warp_reduce_argmin` gives is an integer, not f32", None),
    ("warp_broadcast(x[0], 32)", "the lane of `warp_broadcast` is 0 to 31, not int literal 32", None),
    ("block_broadcast(x[0], x[0])", "the thread of `block_broadcast` is an integer, not f32", "cast it with"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "what", "way_out"), REFUSED)
def test_a_meaningless_operation_is_refused_where_it_is_called(call, what, way_out):
    told = message(f"""
        wider = lambda a, b: (a, b)
        halved = lambda a, b: (a + b) / 2

        @kernel
        def k(x: In[f32], n: In[i32]):
            {call}
    """)
    assert what in told
    assert "<text>:7:" in told
    assert "folding.py" not in told
    assert way_out is None or way_out in told


def test_a_mistake_in_the_user_s_function_is_shown_there():
    told = message("""
        def odd(a, b):
            return a + x

        @kernel
        def k(x: In[f32]):
            block_reduce(x[0], odd)
    """)
    assert told.startswith("there is no `x` here\n  <text>:3:16, in odd\n          return a + x\n")
    assert "called from <text>:7:5, in k" in told
    assert "folding.py" not in told


def fault_of(text: str, threads: int, *args: Any) -> str:
    return fault(kernel(text), threads, np.zeros(threads, np.float32), *args)


def test_a_lane_that_has_returned_is_missed():
    told = fault_of("""
        @kernel
        def k(x: InOut[f32]):
            i = grid(1)
            if i >= 40:
                return
            x[i] = block_reduce_sum(x[i])
    """, 64)  # fmt: skip
    assert "`block_reduce_sum` reads lane 8, which does not take part" in told
    assert "every thread of a block has to reach `block_reduce_sum(…)`: put a guard round the work, not a" in told
    assert "x[i] = block_reduce_sum(x[i])" in told
    assert "folding.py" not in told


RETURNED = [("i >= 64", 0, 64), ("i < 32", 32, 0), ("32 <= i < 64", 0, 32)]
OF_A_BLOCK = ["block_reduce_sum", "block_reduce_argmax", "block_scan_sum", "block_broadcast"]


@pytest.mark.parametrize("operation", OF_A_BLOCK)
@pytest.mark.parametrize(("who", "waiting", "returned"), RETURNED)
def test_a_warp_that_has_returned_is_missed(operation, who, waiting, returned):
    of_pair = "[0]" if "arg" in operation else ""
    text = f"@kernel\ndef k(x: InOut[f32]):\n    i = grid(1)\n    if {who}:\n        return\n"
    told = fault_of(f"{text}    x[i] = {operation}(x[i]){of_pair}\n", 128)
    assert told.startswith(f"not all threads of a block reach `{operation}()` in kernel `k`\n")
    assert f"thread ({waiting}, 0, 0) of block (0, 0, 0) waits here; thread ({returned}, 0, 0) has returned" in told
    assert f"x[i] = {operation}(x[i])" in told
    assert f"no thread may return before `{operation}()`: put a guard round the work, not a `return`" in told


def test_a_thread_whose_value_would_be_told_to_all_is_missed_where_it_alone_has_returned():
    text = "@kernel\ndef k(x: InOut[f32]):\n    i = grid(1)\n    if i == 40:\n        return\n"
    assert "thread (40, 0, 0) has returned" in fault_of(f"{text}    x[i] = block_broadcast(x[i], 40)\n", 64)


def test_a_broadcast_of_a_thread_that_does_not_exist_is_found():
    text = "@kernel\ndef k(x: InOut[f32], t: i32):\n    x[0] = block_broadcast(x[0], t)\n"
    assert "`block_broadcast` of a thread that the block does not have" in fault_of(text, 64, 64)


IN_A_BRANCH = [
    ("if i < 32:\n        x[i] = block_reduce_sum(x[i])",
     "has to reach the `block_reduce_sum()`: take it out of the branch"),
    ("if i < 32:\n        x[i] = block_broadcast(x[i])\n    x[i] = block_broadcast(x[i])",
     "has to reach the same `block_broadcast()`: take it out of the branch"),
    ("x[i] = block_reduce_sum(x[i]) if i < 5 else warp_scan_max(x[i])",
     "all lanes have to reach the same `block_reduce_sum(…)`: take it out of the branch\n"),
    ("for k in range(i // 32):\n        x[i] = block_scan_sum(x[i])", "take it out of the branch or loop"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "way_out"), IN_A_BRANCH)
def test_an_operation_that_some_threads_go_round_is_found(lines, way_out):
    told = fault_of(f"@kernel\ndef k(x: InOut[f32]):\n    i = grid(1)\n    {lines}\n", 96)
    assert way_out in told + "\n"
    assert "folding.py" not in told
