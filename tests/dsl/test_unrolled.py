"""Loops that are written out: what they compute, what a literal number makes possible, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import Const, In, InOut, KernelFault, Out, f32, i32
from tests.dsl.from_text import kernel, message, run

N = 3
SIZES = (2, 3)


@kaio.kernel
def nested(x: In[f32], out: Out[f32], m: Const[int] = 2):
    i = kaio.grid(1)
    parts = (1.0, x[0], 5)
    total = f32(0)
    own = kaio.local_mem(4, f32)
    for a in kaio.unrolled(range(4)):
        own[a] = x[i] * a
    for a in kaio.unrolled(range(N)):
        for b in kaio.unrolled(range(a)):
            total += parts[b] * a
        if a == 2 and x[i] > 100:
            break
        if a == 1:
            continue
        total += own[a]
    else:
        total += 1000
    for k in kaio.unrolled(range(SIZES[m - 1], 0, -1)):
        total += k * 10000
    out[i] = total + a


def in_python(x: np.ndarray, i: int) -> float:
    parts, total = (1.0, x[0], 5), 0.0
    for a in range(N):
        for b in range(a):
            total += parts[b] * a
        if a == 2 and x[i] > 100:
            break
        if a == 1:
            continue
        total += x[i] * a
    else:
        total += 1000
    return total + 60000 + a


def test_break_continue_else_and_loops_in_loops_are_those_of_python(device):
    x = np.array([1, 2, 200], np.float32)
    out = device.alloc_zeros(3, f32)
    nested.grid(1).block(3).launch(device.alloc_from(x), out).wait()
    assert out.to_host().tolist() == [in_python(x, i) for i in range(3)]


def test_an_array_of_the_thread_stays_in_registers():
    assert ".local" not in nested.ptx("sm_90")
    rolled = "@kernel\ndef k(x: In[f32], y: Out[f32], n: i32):\n    t = local_mem(4, f32)\n"
    rolled += "    for a in range(4):\n        t[a] = x[a]\n    y[0] = t[n]\n"
    assert ".local" in kernel(rolled).ptx("sm_90")


@pytest.mark.parametrize(("bounds", "numbers"), [
    ("0", []), ("3", [0, 1, 2]), ("2, 5", [2, 3, 4]), ("5, 2", []), ("5, -1, -2", [5, 3, 1]), ("len((1, 2))", [0, 1]),
    ("N * 2 - 4", [0, 1]), ("PAIR[1]", [0, 1, 2, 3]), ("n", [0, 1]),
])  # fmt: skip
def test_bounds_are_whatever_is_known(bounds, numbers):
    source = f"""
        @kernel
        def k(x: In[i32], out: Out[i32], n: Const[int] = 2):
            total = 0
            for a in unrolled(range({bounds})):
                total = total * 10 + (a + 1)
            out[0] = total
    """
    made = kernel(source, N=3, PAIR=(1, 4))
    wanted = int("".join(str(number + 1) for number in numbers) or "0")
    (out,) = run(made, [np.zeros(1, np.int32)], [i32])
    assert out[0] == wanted


def test_the_number_is_a_literal_of_i32():
    source = "@kernel\ndef k(x: In[u8], out: Out[i32]):\n    for a in unrolled(range(250, 252)):\n"
    made = kernel(source + "        out[a - 250] = x[0] + a\n")
    (out,) = run(made, [np.array([10, 0], np.uint8)], [i32])
    assert out.tolist() == [260, 261]


@kaio.func
def last_of(values, count):
    found = values[0]
    for k in kaio.unrolled(range(count)):
        found = values[k]
    return found


@kaio.kernel
def through_a_function(out: Out[f32]):
    out[0] = last_of((1.5, 2.5, 3.5), 2)


def test_a_literal_argument_bounds_a_loop_of_a_device_function(device):
    out = device.alloc_zeros(1, f32)
    through_a_function.grid(1).block(1).launch(out).wait()
    assert out.to_host()[0] == 2.5


@kaio.kernel
def with_barriers(x: InOut[i32]):
    t = kaio.thread_idx.x
    s = kaio.shared_mem(8, i32)
    s[t] = x[t]
    for step in kaio.unrolled(range(3)):
        kaio.bar_sync()
        other = s[t ^ (1 << step)]
        kaio.bar_sync()
        s[t] += other
    x[t] = s[t]


def test_barriers_in_the_turns_are_barriers_of_the_block(device):
    x = device.alloc_from(np.arange(8, dtype=np.int32))
    with_barriers.grid(1).block(8).launch(x).wait()
    assert x.to_host().tolist() == [28] * 8


def test_a_fault_in_a_turn_names_the_line():
    made = kernel("@kernel\ndef k(x: InOut[f32]):\n    for a in unrolled(range(5)):\n        x[a] = 1.0\n")
    x = kaio.Device("cpu").alloc_zeros(3, f32)
    with pytest.raises(KernelFault, match=r"index 3 is out of range for axis 0 of `x` \(size 3\)"):
        made.grid(1).block(1).launch(x).wait()


# ---------------------------------------------------------------------- several turns at a time
def counted(count: int) -> kaio.Kernel:
    source = "@kernel\ndef k(x: In[f32], out: Out[f32], n: i32):\n    total = f32(0)\n"
    source += f"    for a in unrolled(range(n), count={count}):\n        total += x[a] * x[a]\n    out[0] = total\n"
    return kernel(source)


def test_a_count_says_how_many_turns_are_done_at_a_time():
    assert counted(1).ptx("sm_75").count("ld.global.nc.f32") == 1
    assert counted(4).ptx("sm_75").count("ld.global.nc.f32") == 5  # four, and the one that does what is left
    assert counted(4).compile("sm_75").cubin


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9])
def test_a_count_leaves_the_result(device, n):
    x, out = device.alloc_from(np.arange(9, dtype=np.float32)), device.alloc_zeros(1, f32)
    counted(4).grid(1).block(1).launch(x, out, n).wait()
    assert out.to_host()[0] == sum(k * k for k in range(n))


# ---------------------------------------------------------------------- what is refused
def loop(iterated: str, body: str = "x[a] = 1.0") -> str:
    return f"@kernel\ndef k(x: InOut[f32], n: i32):\n    for a in {iterated}:\n        {body}\n"


@pytest.mark.parametrize("iterated", ["unrolled(range(n))", "unrolled(range(x.size))"])
def test_bounds_that_are_not_known_are_refused_with_both_ways_out(iterated):
    text = message(loop(iterated))
    assert text.startswith(
        "the bounds of an `unrolled` loop are known when compiling, and stand in the `for` statement"
    )
    assert text.endswith(
        "help: use literals, captured ints or `Const[int]` parameters; "
        "or write several turns at a time: `unrolled(range(n), count=4)`"
    )


@pytest.mark.parametrize("other", ["unrolled(range(5))", "range(5)", "unrolled(range(n))"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_loop_over_one_of_two_ranges_is_refused(other, is_first):
    first, second = ("unrolled(range(3))", other) if is_first else (other, "unrolled(range(3))")
    source = "@kernel\ndef k(x: InOut[f32], n: i32):\n"
    source += f"    r = {first}\n    if n > 0:\n        r = {second}\n    for a in r:\n        x[a] = 1.0\n"
    text = message(source)
    assert text.startswith("the bounds of an `unrolled` loop are known when compiling, and stand in the `for`")
    assert "for a in r:" in text
    assert f"r = {first}\n" not in text


def test_bounds_of_one_of_two_arrays_are_refused_as_the_two_arrays_are():
    source = "@kernel\ndef k(x: InOut[f32], n: i32):\n    t = A\n    if n > 0:\n        t = B\n"
    source += "    for a in unrolled(range(len(t))):\n        x[a] = 1.0\n"
    assert "is constant array" in message(source, A=np.zeros(3, np.float32), B=np.ones(4, np.float32))


def test_a_range_that_is_set_anew_is_the_last_one():
    source = """
        @kernel
        def k(x: In[i32], out: Out[i32]):
            total = 0
            r = unrolled(range(3))
            for a in r:
                total += a + 1
            r = unrolled(range(2))
            for a in r:
                total += 10
            out[0] = total
    """
    (out,) = run(kernel(source), [np.zeros(1, np.int32)], [i32])
    assert out[0] == 26


def test_too_many_turns_are_refused_with_the_number():
    text = message(loop("unrolled(range(100000))"))
    assert text.startswith("this loop of 100000 turns makes the kernel 300")
    assert "20000 is the most\n  <text>:3:" in text
    assert text.endswith("help: write several turns at a time: `unrolled(range(...), count=8)`")


@pytest.mark.parametrize("count", ["0", "1025", "n", "1.5"])
def test_a_count_that_is_none_is_refused(count):
    assert message(loop(f"unrolled(range(n), count={count})")).startswith(
        "the count of `unrolled` is an int literal from 1 to 1024, not "
    )


def test_what_is_no_range_is_refused():
    assert message(loop("unrolled(4)")).startswith("a kernel loops over `range(...)`")


def test_a_range_longer_than_any_list_is_refused_with_its_length():
    with pytest.raises(kaio.KernelSyntaxError, match="this loop of 100000000000000000000 turns makes the kernel"):
        kernel("@kernel\ndef k(y: Out[i32]):\n    for j in kaio.unrolled(range(10**20)):\n        y[0] = 1").types(
            "cpu"
        )


def test_a_body_so_long_that_python_jumps_back_in_front_of_the_head_is_written_out() -> None:
    """The jump of a loop of more than 255 instructions has an EXTENDED_ARG of its own, to which the body jumps back."""
    lines = "\n".join(f"            total += x[{k % 4}] * {k}" for k in range(80))
    source = (
        "@kernel\ndef long(x: In[f32], out: Out[f32]):\n    total = f32(0)\n"
        f"    for i in unrolled(range(2)):\n        for j in unrolled(range(3)):\n{lines}\n    out[0] = total\n"
    )
    cpu = kaio.Device("cpu")
    out = cpu.alloc_zeros(1, kaio.f32)
    kernel(source).over(1).block(1).launch(cpu.alloc_from(np.ones(4, np.float32)), out).wait()
    assert out.to_host()[0] == 6 * sum(range(80))
