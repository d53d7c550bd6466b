"""`trace`: what one thread of a kernel does, line by line, on copies of the arguments."""

from __future__ import annotations

import enum
import pickle
import re
from typing import Any, NamedTuple, TypeVar

import ml_dtypes
import numpy as np
import pytest

import kaio
from kaio import D2, Const, In, InOut, Out, Strided, bf16, bool_, c64, f8e4m3, f16, f32, f32x2, f64, i32, i64
from kaio.runtime.trace import Branch, Call, Fault, Loop, Return, Set, Store, Wait
from tests.dsl import test_records

HERE = __file__
T = TypeVar("T", f32, f64)
ARRAY = "must be an array of f32 (got a NumPy array "


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Point(NamedTuple):
    x: f32
    n: i32


def events(trace: kaio.runtime.trace.Trace, text: str) -> list[Any]:
    """What happened at the lines that hold this text, in order."""
    return [event for step in trace if text in step.text for event in step.events]


# ---------------------------------------------------------------------- what a thread does
def square(v: f32, n: i32) -> f32:
    r = v * v
    if n > 2:
        return r
    return r + 1


@kaio.kernel
def everything(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    acc = 0
    if i < y.size and a > 0:
        for j in range(3):
            acc += (x[j] *
                    (a + 1))  # fmt: skip
        while i > 5:
            i -= 1
        kaio.atomic_add(y, i, square(acc, i))
        y[i] = acc


def traced(thread: int = 3, **options: Any) -> kaio.runtime.trace.Trace:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    return everything.over(8).trace(x, y, 2.0, thread=thread, **options)


def test_each_line_that_a_thread_executes_is_a_step_in_order() -> None:
    trace = traced()
    first = trace[0].line
    assert [line - first for line in trace.lines][:10] == [0, 1, 2, 3, 4, 5, 4, 5, 4, 5]
    assert [step.function for step in trace][-5:] == ["square", "square", "square", "everything", "everything"]
    assert trace[1].text.strip() == "i = kaio.grid(1)"
    assert all(step.file.endswith("test_tracing.py") for step in trace)
    assert len(trace) == len(trace.steps) == len(list(trace))


def test_variables_have_their_type_and_each_value_that_they_were_set_to() -> None:
    trace = traced()
    assert trace.values("acc") == [0.0, 0.0, 3.0, 9.0]
    assert {type(value) for value in trace.values("acc")} == {np.float32}
    assert trace.values("j") == [0, 1, 2]
    assert trace.values("i") == [3]
    assert trace.values("r") == [81.0]
    assert trace.values("r", function="everything") == []
    assert Set("acc", "f32", np.float32(9)) in events(trace, "acc +=")
    assert trace[1].values == {"i": 3}


@kaio.kernel
def unread(x: In[f32], out: Out[f32], flag: Const[bool] = True):
    i = kaio.grid(1)
    ok = x[i] > 1
    both = ok and i > 5
    either = also = ok or i > 5
    between = 0 < i < 3
    number = 1 if ok else 2
    mode = Mode.SLOW if ok else Mode.FAST
    copy = number
    nothing = None if flag else i
    turning = 1j
    for k in range(2):
        late = ok and k > 0
    out[i] = x[i]


def test_a_variable_that_is_not_read_is_told_whatever_it_is_set_to() -> None:
    trace = unread.grid(1).block(4).trace(np.float32([1, 2, 4, 8]), np.zeros(4, np.float32), thread=1)
    found = {name: trace.values(name) for name in trace.variables["unread"]}
    assert found.pop("x")
    assert found.pop("out")
    assert found == {
        "flag": [True], "i": [1], "ok": [True], "both": [False], "either": [True], "also": [True], "between": [True],
        "number": [1], "mode": [Mode.SLOW], "copy": [1], "nothing": [None], "turning": [1j], "k": [0, 1],
        "late": [False, True],
    }  # fmt: skip


def test_stores_branches_turns_and_calls_are_told() -> None:
    trace = traced()
    assert events(trace, "if i <") == [Branch("i < y.size", True), Branch("a > 0", True)]
    turns = [event for event in events(trace, "for j") if isinstance(event, Loop)]
    assert turns == [Loop(1, True), Loop(2, True), Loop(3, True), Loop(3, False)]
    assert events(trace, "atomic_add") == [Call("atomic_add", ("y", np.int32(3), np.float32(81)), np.float32(0))]
    assert events(trace, "y[i] = acc") == [Store("y", (3,), "", np.float32(9)), Return()]


def test_a_device_function_is_told_with_its_arguments_and_its_result() -> None:
    inside = [step for step in traced(1) if step.depth == 1]
    assert inside[0].values == {"v": 9.0, "n": 1}
    assert [step.text.strip() for step in inside[1:]] == ["r = v * v", "if n > 2:", "return r + 1"]
    assert inside[-1].events == (Return(np.float32(82)),)


def test_a_while_loop_is_told_turn_by_turn() -> None:
    trace = traced(7)
    conditions = [e for step in trace for e in step.events if isinstance(e, Branch) and e.condition == "i > 5"]
    assert [e.taken for e in conditions] == [True, True, False]
    assert [e for e in events(trace, "i -= 1") if isinstance(e, Set)] == [
        Set("i", "i32", np.int32(6)),
        Set("i", "i32", np.int32(5)),
    ]


def test_each_case_of_a_match_is_a_line_of_its_own() -> None:
    @kaio.kernel
    def chosen(mode: i32, out: Out[i32]):
        match mode:
            case 1:
                out[0] = 10
            case 2 | 3:
                out[0] = 20
            case _:
                out[0] = 30

    trace = chosen.grid(1).block(1).trace(3, np.zeros(1, np.int32))
    assert [step.text.strip() for step in trace][-1] == "out[0] = 20"
    assert events(trace, "case 2")[-1].taken
    assert {e.taken for e in events(trace, "case 1")} == {False}


def test_a_loop_that_begins_again_counts_its_turns_from_one() -> None:
    @kaio.kernel
    def nested(out: Out[i32]):
        for _a in range(2):
            for b in range(5):
                if b == 1:
                    break
        out[0] = b

    trace = nested.grid(1).block(1).trace(np.zeros(1, np.int32))
    assert [e.turn for e in events(trace, "for b") if isinstance(e, Loop)] == [1, 2, 1, 2]


def test_the_line_of_a_statement_over_several_lines_is_its_first() -> None:
    trace = traced()
    texts = [step.text.strip() for step in trace]
    assert texts.count("acc += (x[j] *") == 3
    assert not any(text.startswith("(a + 1)") for text in texts)


# ---------------------------------------------------------------------- kinds of values
@kaio.kernel
def kinds(
    z: In[c64],
    p: Point,
    m: Mode,
    h: In[f16],
    t: In[f32, D2, Strided],
    n: Const[int],
    flag: bool_,
    w: i64,
    st: InOut[f32x2],
):
    c = z[0] * 2
    r = Point(2.5, 7)
    b = bf16(1.5)
    e = f8e4m3(0.3)
    half = h[0]
    big = w * 2
    pair = (1, r.x)
    mode = m
    const = n
    no = not flag
    v = f32x2(1, 2)
    st[0] = v
    shape = t.shape
    last = t[-1, 0]
    tile = kaio.shared_mem((2, 4), f32)
    tile[1, 2] = last
    d = f64(last) / 3


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("c", np.complex64(2 + 4j), "c: c64 = (2+4j)"),
        ("r", Point(np.float32(2.5), np.int32(7)), "r: Point = Point(x=2.5, n=7)"),
        ("b", ml_dtypes.bfloat16(1.5), "b: bf16 = 1.5"),
        ("e", ml_dtypes.float8_e4m3fn(0.3125), "e: f8e4m3 = 0.3"),
        ("half", np.float16(0.1), "half: f16 = 0.1"),
        ("big", np.int64(2**41), "big: i64 = 2199023255552"),
        ("pair", (np.int32(1), np.float32(2.5)), "pair: (i32, f32) = (1, 2.5)"),
        ("mode", Mode.SLOW, "mode: Mode = Mode.SLOW"),
        ("const", np.int32(5), "const: i32 = 5"),
        ("no", np.bool_(False), "no: bool = False"),
        ("v", (np.float32(1), np.float32(2)), "v: f32x2 = (1.0, 2.0)"),
        ("shape", (np.int32(3), np.int32(2)), "shape: (i32, i32) = (3, 2)"),
        ("last", np.float32(2), "last: f32 = 2.0"),
        ("tile", "f32[2, 4]", "tile: shared_mem((2, 4), f32) = f32[2, 4]"),
        ("d", np.float64(2 / 3), "d: f64 = 0.6666666666666666"),
        ("p", Point(np.float32(1.5), np.int32(3)), "p: Point = Point(x=1.5, n=3)"),
        ("t", "f32[3, 2]", "t: In[f32, D2, Strided] = f32[3, 2]"),
    ],
)
def test_values_of_every_kind_are_shown_as_what_they_are(name: str, value: Any, shown: str) -> None:
    z, h = np.array([1 + 2j], np.complex64), np.array([0.1], np.float16)
    table = np.arange(6, dtype=np.float32).reshape(2, 3).T
    vectors = np.zeros(1, f32x2.numpy)
    trace = kinds.grid(1).block(1).trace(z, Point(1.5, 3), Mode.SLOW, h, table, 5, True, 2**40, vectors)
    (found,) = trace.values(name)
    assert found == value
    assert type(found) is type(value)
    assert shown in str(trace)
    assert events(trace, "tile[1")[0] == Store("tile", (1, 2), "", np.float32(2))


# ---------------------------------------------------------------------- threads that wait, and faults
@kaio.kernel
def shifted(x: In[f32], y: Out[f32]):
    t = kaio.thread_idx.x
    s = kaio.shared_mem(8, f32)
    s[t] = x[t]
    kaio.bar_sync()
    total = kaio.block_reduce_sum(s[7 - t])
    y[t + 1] = total


def test_a_thread_that_waits_is_told_and_goes_on_with_what_others_gave() -> None:
    trace = shifted.grid(1).block(8).trace(np.arange(8, dtype=np.float32), np.zeros(9, np.float32), thread=5)
    assert events(trace, "bar_sync") == [Wait("bar_sync")]
    assert events(trace, "block_reduce") == [Wait("block_reduce_sum"), Set("total", "f32", np.float32(28))]
    assert trace.fault is None


def test_a_fault_of_the_thread_is_the_last_entry_of_its_trace() -> None:
    trace = shifted.grid(1).block(8).trace(np.arange(8, dtype=np.float32), np.zeros(8, np.float32), thread=7)
    assert trace.fault is not None
    assert trace.fault.facts["index"] == 8
    assert trace[-1].events == (Fault("index 8 is out of range for axis 0 of `y` (size 8) in kernel `shifted`"),)
    assert trace[-1].text.strip() == "y[t + 1] = total"
    assert trace.values("total") == [28.0]


def test_a_fault_of_another_thread_ends_the_trace_too() -> None:
    trace = shifted.grid(1).block(8).trace(np.arange(8, dtype=np.float32), np.zeros(8, np.float32), thread=2)
    shown = str(trace[-1].events[-1])
    assert shown.startswith("FAULT: thread (7, 0, 0) of block (0, 0, 0): index 8 is out of range")
    assert trace.arrays["y"].tolist() == [0, 28, 28, 28, 28, 28, 28, 28]


def test_of_a_thread_that_waits_for_ever_the_wait_is_the_last_that_it_did() -> None:
    @kaio.kernel
    def apart(out: Out[i32]):
        t = kaio.thread_idx.x
        if t < 4:
            kaio.bar_sync()
        else:
            kaio.bar_sync()
        out[t] = t

    for thread in (0, 5):
        trace = apart.grid(1).block(8).trace(np.zeros(8, np.int32), thread=thread)
        wait, fault = trace[-1].events
        assert wait == Wait("bar_sync")
        assert "threads of one block wait at different barriers" in str(fault)
        assert trace.arrays["out"].tolist() == [0] * 8


def test_a_block_that_never_ran_has_the_fault_alone() -> None:
    @kaio.kernel
    def early(out: Out[i32]):
        out[kaio.grid(1) + 1] = 1

    trace = early.grid(100).block(1).trace(np.zeros(1, np.int32), block=99)
    assert trace.fault is not None
    assert [str(event) for event in trace[-1].events] == [
        (
            "FAULT: thread (0, 0, 0) of block (0, 0, 0): index 1 is out of range for axis 0 of `out` (size 1) "
            "in kernel `early`"
        )
    ]


def test_indices_are_checked_whatever_the_device_does() -> None:
    unchecked = kaio.Device("cpu", check="off")
    x, y = unchecked.alloc_zeros(8, f32), unchecked.alloc_zeros(8, f32)
    assert shifted.grid(1).block(8).trace(x, y, thread=7).fault is not None


@pytest.mark.parametrize(
    "name",
    [
        "atomic_cas", "bar_sync_count", "block_scan_sum", "cp_async", "dynamic_shared", "match_any", "mma", "philox",
        "sincos", "unrolled", "warp_reduce_argmax",
    ],
)  # fmt: skip
def test_a_kernel_that_is_watched_gives_what_it_gives_otherwise(name: str) -> None:
    record = test_records.RECORDS[f"kaio.{name}"]
    made = test_records.example(record)
    counts = {array.name: 64 for array in made.compile("cpu").dynamic}
    rng = np.random.default_rng(0)
    given = [rng.uniform(0.1, 1, 64).astype(dtype) for dtype in (np.float32, np.float32, np.float64)]
    given += [np.arange(64, dtype=np.int32), *(np.zeros(64, dtype) for dtype in (np.float32, float, np.int32))]
    trace = made.over(64).block(64).shared(**counts).trace(*given, thread=5)
    assert trace.fault is None
    assert trace.values("i")[0] == 5
    usual = test_records.results(record, kaio.Device("cpu"))
    for array, wanted in zip(list(trace.arrays.values())[-3:], usual, strict=True):
        np.testing.assert_array_equal(array, wanted)


# ---------------------------------------------------------------------- arguments and places
def test_a_trace_changes_nothing_that_is_passed(device: kaio.Device) -> None:
    host = np.arange(8, dtype=np.float32)
    x, y = device.alloc_from(host), device.alloc_zeros(8, f32)
    on_device = everything.over(8).trace(x, y, a=2.0)
    in_numpy = everything.over(8).trace(host, np.zeros(8, np.float32), 2.0)
    assert on_device == in_numpy
    assert y.to_host().tolist() == [0] * 8
    assert on_device.arrays["y"][3] == 9.0


def test_arrays_with_gaps_keep_their_strides() -> None:
    @kaio.kernel
    def strides(t: In[f32, D2, Strided], out: Out[i32]):
        steps = t.strides
        out[0] = i32(t[1, 1])

    t = np.arange(24, dtype=np.float32).reshape(4, 6)[::-2, 1::2]
    trace = strides.grid(1).block(1).trace(t, np.zeros(1, np.int32))
    assert trace.values("steps") == [t.strides]
    assert trace.arrays["out"][0] == t[1, 1]
    assert trace.arrays["t"].tolist() == t.tolist()


def test_a_thread_of_any_block_is_found_by_its_place() -> None:
    @kaio.kernel
    def places(out: Out[i32, D2]):
        x, y = kaio.grid(2)
        out[y, x] = 100 * y + x

    launch = places.grid(2, 3).block(4, 2)
    trace = launch.trace(np.zeros((6, 8), np.int32), thread=(3, 1), block=(1, 2))
    assert (trace.values("x"), trace.values("y")) == ([7], [5])
    assert (trace.thread, trace.block, trace.block_dim, trace.grid_dim) == ((3, 1, 0), (1, 2, 0), (4, 2, 1), (2, 3, 1))


def test_a_kernel_alone_runs_over_its_first_output() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(300, np.float32)
    trace = kaio.trace(everything, (x, y, 2.0), thread=40, block=1)
    assert trace.values("i")[0] == 296
    assert kaio.trace(everything, {"x": x, "y": y, "a": 2.0}) == everything.trace(x, y, 2.0)


def test_a_long_loop_is_cut_at_the_limit_and_the_kernel_goes_on() -> None:
    @kaio.kernel
    def long(out: Out[i32]):
        total = 0
        for k in range(1_000_000):
            total += k & 1
        out[0] = total

    trace = long.grid(1).block(1).trace(np.zeros(1, np.int32), limit=50)
    assert (len(trace), trace.is_cut) == (50, True)
    assert trace.arrays["out"][0] == 500_000
    assert str(trace).endswith("cut after 50 steps: `limit=` says how many are kept")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thread": 300}, "kernel `everything` has no thread (300, 0, 0): a block of this launch has (256, 1, 1)"),
        ({"block": (0, 1)}, "kernel `everything` has no block (0, 1, 0): a grid of this launch has (1, 1, 1)"),
        ({"thread": "3"}, "`thread` of a trace is a number, or up to three with x first (got '3')"),
        ({"limit": 0}, "`limit` of a trace is a number of steps, an int above 0 (got 0)"),
    ],
)
def test_a_place_that_is_not_there_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(kaio.LaunchError) as problem:
        traced(**{"thread": 0, **options})
    assert problem.value.mistakes[0].what == message


@kaio.kernel
def other_types(x: In[f32], y: InOut[bf16, D2], z: In[f32x2], t: Out[T]):
    t[0] = x[0]


@pytest.mark.parametrize(
    ("given", "what", "way_out"),
    [
        ({"x": np.arange(8)}, ARRAY + "int64[8])", "convert it with `x.astype(np.float32)`"),
        ({"x": np.array([None])}, ARRAY + "object[1])", "convert it with `x.astype(np.float32)`"),
        ({"x": [1.0]}, "must be an array of f32 (got [1.0])", "make one: `x = np.array(…, np.float32)`"),
        (
            {"x": np.ma.zeros(8, np.float32)},
            "must be an array of f32 (got a masked NumPy array float32[8])",
            "say what stands for what is masked: `x.filled(…)`",
        ),
        (
            {"x": np.zeros((2, 2), np.float32)},
            "must be a 1-D array of f32 (got a NumPy array float32[2, 2])",
            "reshape it, or annotate `x: In[f32, D2]`",
        ),
        (
            {"x": np.zeros(8, np.float32)[::2]},
            "must be C-contiguous (got a NumPy array float32[4] with strides (8,))",
            "copy it with `x.copy()`, or annotate `x: In[f32, D1, Strided]`",
        ),
        (
            {"y": np.zeros((2, 2))},
            "must be a 2-D array of bf16 (got a NumPy array float64[2, 2])",
            "convert it with `y.astype(kaio.bf16.numpy)`",
        ),
        (
            {"z": np.zeros((2, 2))},
            "must be an array of f32x2 (got a NumPy array float64[2, 2])",
            "make it of that dtype, for example `z = np.zeros(…, kaio.f32x2.numpy)`",
        ),
        (
            {"t": np.zeros(2, np.int32)},
            "must be of one of f32, f64 (got a NumPy array int32[2])",
            "convert it, for example with `t.astype(np.float32)`",
        ),
    ],
)
def test_what_is_no_array_of_the_parameter_is_refused_in_the_words_of_who_passes_arrays(
    given: dict[str, Any], what: str, way_out: str
) -> None:
    right = {"x": np.zeros(4, np.float32), "y": np.zeros((2, 2), bf16.numpy), "z": np.zeros(2, f32x2.numpy)}
    with pytest.raises(kaio.LaunchError) as problem:
        other_types.grid(1).block(1).trace(**{**right, "t": np.zeros(2), **given})
    mistake = problem.value.mistakes[0]
    assert (mistake.what, mistake.help) == (f"argument `{next(iter(given))}` of kernel `other_types` {what}", way_out)
    assert other_types.grid(1).block(1).trace(**right, t=np.zeros(2)).fault is None


def test_a_buffer_of_another_type_is_refused_as_by_a_launch() -> None:
    x = kaio.Device("cpu").alloc_zeros(8, i32)
    with pytest.raises(kaio.LaunchError) as problem:
        everything.over(8).trace(x, np.zeros(8, np.float32), 2.0)
    assert problem.value.mistakes[0].what == (
        "argument `x` of kernel `everything` must be a GpuBuffer of f32 (got i32[8])"
    )


def test_arguments_that_are_no_tuple_are_refused() -> None:
    with pytest.raises(kaio.LaunchError) as problem:
        kaio.trace(everything, 3)
    assert problem.value.mistakes[0].what == "`kaio.trace` takes the arguments as one tuple or dict (got int)"


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(kaio.LaunchError) as problem:
        kaio.trace(3, ())
    assert problem.value.mistakes[0].what == "`kaio.trace` takes a kernel or a launch of one (got 3)"


def test_a_variable_that_the_kernel_does_not_have_is_told_with_the_nearest() -> None:
    with pytest.raises(kaio.KaioError) as problem:
        traced().values("ac")
    assert str(problem.value) == "kernel `everything` has no variable `ac`\n  help: did you mean `acc`?"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda trace: trace.values("total"), "has no variable `total`\n  help: it has `a`, `acc`, "),
        (lambda trace: trace.values("r", function="sqare"), "calls no function `sqare`\n  help: did you mean `square`"),
        (lambda trace: trace.arrays["out"], "has no buffer `out`\n  help: it has `x`, `y`"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_those_that_are(ask: Any, message: str) -> None:
    with pytest.raises(KeyError) as problem:
        ask(pickle.loads(pickle.dumps(traced())))
    assert str(problem.value).startswith(f"kernel `everything` {message}")
    assert isinstance(pickle.loads(pickle.dumps(problem.value)), kaio.KaioError)


def test_the_variables_of_a_thread_that_did_nothing_are_known() -> None:
    trace = shifted.grid(2).block(8).trace(np.zeros(8, np.float32), np.zeros(8, np.float32), block=1)
    assert trace.fault is not None
    assert trace.values("t") == []


# ---------------------------------------------------------------------- as a table
def test_a_trace_prints_as_a_table_beside_the_source() -> None:
    first = traced()[0].line
    shown = re.sub(r"^ *(\d+) \|", lambda m: f"{int(m[1]) - first:>2} |", str(traced(1)), flags=re.MULTILINE)
    assert shown.splitlines()[:7] == [
        "kernel `everything`, thread (1, 0, 0) of block (0, 0, 0): 19 steps",
        (
            " 0 | def everything(x: In[f32], y: InOut[f32], a: f32): | x: In[f32] = f32[8], y: InOut[f32] = f32[8], "
            "a: f32 = 2.0"
        ),
        " 1 |     i = kaio.grid(1)                               | i: i32 = 1",
        " 2 |     acc = 0                                        | acc: f32 = 0.0",
        " 3 |     if i < y.size and a > 0:                       | i < y.size: True, a > 0: True",
        " 4 |         for j in range(3):                         | turn 1, j: i32 = 0",
        " 5 |             acc += (x[j] *                         | acc = 0.0",
    ]


def test_a_long_trace_prints_its_first_and_last_rows() -> None:
    @kaio.kernel
    def counts(out: Out[i32]):
        for k in range(1000):
            out[0] = k

    shown = str(counts.grid(1).block(1).trace(np.zeros(1, np.int32)))
    assert "… 1802 more steps: iterate over the trace …" in shown
    assert len(shown.splitlines()) == 202


def test_a_notebook_shows_a_table_with_its_text_escaped() -> None:
    shown = shifted.grid(1).block(8).trace(np.zeros(8, np.float32), np.zeros(8, np.float32), thread=7)._repr_html_()
    assert shown.count("<tr") == 8
    assert shown.count('<tr style="color:') == 1
    page = traced()._repr_html_()
    assert "i &lt; y.size: True" in page
    assert "i < y.size" not in page
