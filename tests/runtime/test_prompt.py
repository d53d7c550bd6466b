"""`breakpoint()` in a kernel: a prompt like that of `pdb`, at which a thread of the CPU device stands still."""

from __future__ import annotations

import io
import pdb
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, Out, f32, i32
from kaio.runtime.prompt import Prompt

DEVICE = kaio.Device("cpu")
HERE = __file__


def lerp(a: f32, b: f32, t: f32) -> f32:
    d = b - a
    return a + t * d


@kaio.kernel
def looked_at(x: In[f32], out: Out[f32]):
    i = kaio.grid(1)
    s = kaio.shared_mem(8, f32)
    s[kaio.thread_idx.x] = x[i]
    kaio.bar_sync()
    total = 0
    if i >= 3:
        breakpoint()
    for j in range(3):
        total += lerp(s[j], x[i], 0.5)
    out[i] = total


LERP = lerp.__code__.co_firstlineno
FIRST = looked_at.__wrapped__.__code__.co_firstlineno + 1  # the line of the `def`
RESULT = [1.5, 3.0, 4.5, 6.0, 7.5, 9.0, 10.5, 12.0]

OUT: list[kaio.GpuBuffer] = []  # what the kernels of sessions wrote

Session = Callable[..., list[str]]


def set_trace() -> None:
    """Stands for that of `pdb`, which nobody has replaced."""


set_trace.__module__ = "pdb"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Session:
    """Runs a kernel while these commands are typed; gives what was shown for each, and before the first."""
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setattr(pdb, "set_trace", set_trace)  # pytest has put its own there

    def run(*commands: str, kernel: kaio.Kernel = looked_at, blocks: int = 1) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{command}\n" for command in commands)))
        x, out = DEVICE.alloc_from(np.arange(8 * blocks, dtype=np.float32)), DEVICE.alloc_zeros(8 * blocks, f32)
        capsys.readouterr()
        kernel.grid(blocks).block(8).launch(x, out).wait()
        OUT.append(out)
        if kernel is looked_at and blocks == 1:
            assert out.to_host().tolist() == RESULT
        return [part.strip() for part in capsys.readouterr().out.split("(kaio)")]

    return run


def at(line: int, function: str = "looked_at") -> str:
    return f"> {HERE}({line}){function}()"


# ---------------------------------------------------------------------- looking
def test_the_first_thread_that_comes_stops_and_says_where(session: Session) -> None:
    shown = session("c")
    assert shown[0].splitlines() == [
        "thread (3, 0, 0) of block (0, 0, 0) of kernel `looked_at`",
        at(FIRST + 7),
        "-> breakpoint()",
    ]
    assert len(shown) == 2


def test_variables_and_expressions_of_them_are_shown(session: Session) -> None:
    _, i, total, arrays, expression, _ = session("p i", "total", "p s, x[2:4]", "p np.sin(x[i]) + 1", "c")
    assert i == "np.int32(3)"
    assert total == "np.float32(0.0)"
    assert arrays == ("(array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32), array([2., 3.], dtype=float32))")
    assert expression == repr(np.sin(np.float32(3)) + 1)


def test_a_variable_that_is_not_set_yet_is_not_there(session: Session) -> None:
    assert session("p j", "c")[1] == "*** NameError: name 'j' is not defined"


def test_all_variables_are_listed_with_their_types(session: Session) -> None:
    assert session("a", "c")[1].splitlines() == [
        "x: In[f32] = f32[8]",
        "out: Out[f32] = f32[8]",
        "i: i32 = 3",
        "s: shared_mem((8,), f32) = f32[8]",
        "total: f32 = 0.0",
    ]


def test_the_source_is_listed_around_the_line(session: Session) -> None:
    listed = session("l", "c")[1].splitlines()
    assert f"{FIRST + 7} -> breakpoint()" in [" ".join(line.split()) for line in listed]


# ---------------------------------------------------------------------- going on
def test_next_goes_over_a_call_and_step_into_it(session: Session) -> None:
    shown = session("n", "n", "n", "n", "s", "s", "c")
    assert [part.splitlines()[0] for part in shown[1:-1]] == [
        at(FIRST + 8),
        at(FIRST + 9),
        at(FIRST + 8),
        at(FIRST + 9),
        at(LERP + 1, "lerp"),
        at(LERP + 2, "lerp"),
    ]


def test_the_functions_around_are_shown_and_looked_at(session: Session) -> None:
    shown = session("n", "n", "s", "s", "w", "p d", "u", "p total, i", "d", "c")
    assert [line for line in shown[5].splitlines() if line.lstrip().startswith((">", HERE))] == [
        f"{HERE}({FIRST + 9})looked_at()",
        at(LERP + 2, "lerp"),
    ]
    assert shown[6] == "np.float32(3.0)"
    assert shown[8] == "(np.float32(0.0), np.int32(3))"


def test_what_is_displayed_is_shown_again_where_it_changes(session: Session) -> None:
    shown = session("display total", "n", "n", "n", "c")
    assert shown[1] == "display total: np.float32(0.0)"
    assert [part.count("display total") for part in shown[2:5]] == [0, 0, 1]
    assert shown[4].endswith("display total: np.float32(1.5)  [old: np.float32(0.0)]")


def test_an_element_that_is_set_at_the_prompt_is_set_in_the_kernel(session: Session) -> None:
    @kaio.kernel
    def passed(x: In[f32], out: Out[f32]):
        t = kaio.thread_idx.x
        s = kaio.shared_mem(8, f32)
        s[t] = 0
        v = x[t]
        breakpoint()
        out[t] = s[t] + v

    session("!s[0] = 9", "!v = 100", "c", kernel=passed)
    assert OUT[-1].to_host().tolist() == [9, 1, 2, 3, 4, 5, 6, 7]


def test_return_goes_on_until_the_function_has_returned(session: Session) -> None:
    shown = session("n", "n", "s", "r", "p total", "c")
    assert shown[4].splitlines()[0] == at(FIRST + 8)
    assert shown[5] == "np.float32(1.5)"


def test_a_thread_that_is_stepped_waits_for_others_and_goes_on(session: Session) -> None:
    @kaio.kernel
    def rounds(x: In[f32], out: Out[f32]):
        s = kaio.shared_mem(8, f32)
        t = kaio.thread_idx.x
        breakpoint()
        s[t] = x[t]
        kaio.bar_sync()
        out[t] = s[7 - t]

    shown = session("n", "n", "p s", "n", "p s.tolist()", "c", kernel=rounds)
    assert shown[0].startswith("thread (0, 0, 0)")
    assert shown[2].splitlines()[-1] == "-> kaio.bar_sync()"
    assert shown[5] == str([float(k) for k in range(8)])


def test_a_line_is_a_place_to_stop_too_with_a_condition(session: Session) -> None:
    shown = session(f"b {FIRST + 9}, j == 2", "b", "c", "p j", "cl", "c")
    assert shown[1] == f"stops at {HERE}:{FIRST + 9}"
    assert shown[2] == f"{HERE}:{FIRST + 9}, if j == 2"
    assert shown[3].splitlines()[0] == at(FIRST + 9)
    assert shown[4] == "np.int32(2)"
    assert len(shown) == 7


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("b 1", f"*** there is no statement of the kernel at {HERE}:1"),
        ("b x", "*** `x` is no line: for example `b 12`, or `b 12, acc > 3`"),
        ("cl 5", "*** there is no stop at `5`: `b` lists them"),
        ("t 9", "*** `9` is no thread of blocks of (8, 1, 1), in a grid of (1, 1, 1)"),
        ("j 3", "*** this is not there in a kernel: `help` lists what is"),
    ],
)
def test_what_cannot_be_done_is_said(session: Session, command: str, answer: str) -> None:
    assert session(command, "c")[1] == answer


def test_another_thread_is_the_one_that_stops_from_then_on(session: Session) -> None:
    shown = session("t 6", "c", "p i", "c")
    assert shown[1] == "thread (6, 0, 0) of block (0, 0, 0) stops"
    assert shown[2].splitlines()[0] == "thread (6, 0, 0) of block (0, 0, 0) of kernel `looked_at`"
    assert shown[3] == "np.int32(6)"
    assert len(shown) == 5


def test_a_thread_of_another_block_and_any_thread_may_stop(session: Session) -> None:
    shown = session("t 2 1", "c", "p i", "t *", "c", "p i", "t 7 1", "c", "c", blocks=2)
    assert (shown[3], shown[6]) == ("np.int32(10)", "np.int32(11)")
    assert shown[4] == "any thread stops"
    assert shown[8].splitlines()[0] == "thread (7, 0, 0) of block (1, 0, 0) of kernel `looked_at`"


@pytest.mark.parametrize("commands", [("q",), ("p i",)], ids=["quit", "end of input"])
def test_quitting_stops_the_launch(session: Session, commands: tuple[str, ...]) -> None:
    with pytest.raises(kaio.KernelFault) as problem:
        session(*commands)
    assert problem.value.mistakes[0].what == (
        "the launch was stopped at the prompt in kernel `looked_at`\n  thread (3, 0, 0) of block (0, 0, 0)"
    )


# ---------------------------------------------------------------------- who decides
def test_a_breakpoint_does_nothing_where_python_says_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    assert session() == [""]


@pytest.mark.parametrize("where", ["hook", "set_trace"])
def test_a_hook_of_ones_own_is_called_from_the_line_with_the_variables(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []

    def hook() -> None:
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_lineno, frame.f_locals["i"], frame.f_locals["x"][7]))

    if where == "hook":
        monkeypatch.setattr(sys, "breakpointhook", hook)
    else:
        monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
        monkeypatch.setattr(pdb, "set_trace", hook)
    x, out = DEVICE.alloc_from(np.arange(8, dtype=np.float32)), DEVICE.alloc_zeros(8, f32)
    looked_at.grid(1).block(8).launch(x, out)
    assert seen == [("looked_at", FIRST + 7, 3, 7.0)]
    assert out.to_host().tolist() == RESULT


def test_what_a_hook_raises_stops_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def hook() -> None:
        raise ValueError("no")

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x, out = DEVICE.alloc_from(np.arange(8, dtype=np.float32)), DEVICE.alloc_zeros(8, f32)
    done = looked_at.grid(1).block(8).launch(x, out)
    with pytest.raises(kaio.KaioError) as problem:
        done.wait()
    assert str(problem.value) == (
        "`breakpoint()` in kernel `looked_at` failed: ValueError('no')\n"
        "  help: `PYTHONBREAKPOINT=0` makes it do nothing"
    )
    assert isinstance(problem.value.__cause__, ValueError)


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(3)])
def test_a_hook_that_ends_a_program_stops_the_launch(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    def hook() -> None:
        raise problem

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x, out = DEVICE.alloc_zeros(8, f32), DEVICE.alloc_zeros(8, f32)
    done = looked_at.grid(1).block(8).launch(x, out)
    with pytest.raises(kaio.KaioError) as caught:
        done.wait()
    assert caught.value.mistakes[0].what == f"`breakpoint()` in kernel `looked_at` failed: {problem!r}"


def test_ctrl_c_leaves_the_prompt_where_it_is(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, takes = threading.Event(), Prompt.takes_interrupt

    def note() -> bool:
        found = takes()
        seen.set()
        return found

    def interrupt() -> bool:
        for _ in range(10):  # one that comes just before that thread sleeps does not wake it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if seen.wait(3):
                return True
        return False

    monkeypatch.setattr(Prompt, "takes_interrupt", note)
    monkeypatch.setattr(sys, "interrupt_for_test", interrupt, raising=False)
    shown = session("p __import__('sys').interrupt_for_test()", "p i", "c")
    assert shown[1:] == ["--KeyboardInterrupt--", "True", "np.int32(3)", ""]


def test_a_second_ctrl_c_with_no_command_between_is_for_who_launches(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "takes_interrupt", Prompt.takes_interrupt, raising=False)
    takes = "__import__('sys').takes_interrupt()"
    shown = session(f"p {takes}, {takes}", f"p {takes}", "c")
    assert [line for line in shown if line.startswith(("(", "T"))] == ["(True, False)", "True"]
    assert not Prompt.takes_interrupt()


def test_a_launch_with_breakpoints_returns_when_it_is_done(session: Session) -> None:
    assert len(session("c", "c", "c")) == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pdb")]


def test_a_trace_goes_past_a_breakpoint() -> None:
    trace = looked_at.grid(1).block(8).trace(np.arange(8, dtype=np.float32), np.zeros(8, np.float32), thread=4)
    assert trace.values("total")[-1] == 7.5


def test_a_device_function_may_stop_too(session: Session) -> None:
    def inner(v: i32) -> i32:
        doubled = 2 * v
        breakpoint()
        return doubled

    @kaio.kernel
    def outer(x: In[f32], out: Out[f32]):
        t = kaio.thread_idx.x
        out[t] = inner(t + 1)

    shown = session("p doubled", "u", "p t", "c", kernel=outer)
    assert (shown[1], shown[3]) == ("np.int32(2)", "np.int32(0)")


def test_a_kernel_with_a_breakpoint_does_not_compile_for_a_gpu() -> None:
    with pytest.raises(kaio.UnsupportedFeatureError) as problem:
        looked_at.ptx("sm_90")
    assert problem.value.mistakes[0].what == "`breakpoint()` stops a thread on the CPU device only"
    assert problem.value.mistakes[0].help == 'run the kernel there, `kaio.Device("cpu")`, or take it out'
