"""`kaio.ptx`: what a user adds to the language."""

from __future__ import annotations

import copy
import pickle
from typing import TypeVar

import numpy as np
import pytest

import kaio
from kaio import (
    D2,
    CompileError,
    In,
    InOut,
    KaioError,
    KernelTypeError,
    Out,
    bool_,
    f16,
    f32,
    f64,
    i16,
    i32,
    i64,
    u16,
    u32,
    u64,
)
from tests.dsl.from_text import kernel as from_text
from tests.refusals import refusal

T = TypeVar("T", f16, i16, u16, i32, u32, i64, u64, f32, f64)


def permute(a, b, s):
    both = u64(b) << 32 | a
    word = u32(0)
    for k in range(4):
        word |= u32(both >> (s >> 4 * k & 7) * 8 & 255) << 8 * k
    return word


def less(a, c, x):
    return a < 3 and c, x + x


def triple(x):
    return x * 3


def negated(x):
    return -x


prmt = kaio.ptx("prmt.b32 {out}, {a}, {b}, {s};", a=u32, b=u32, s=u32, out=u32, host=permute)
pair = kaio.ptx(
    "{ .reg .pred q; setp.lt.s32 q, {a}, 3; and.pred {p}, q, {c}; add.rn.f32 {twice}, {x}, {x}; }",
    a=i32, c=bool_, x=f32, out={"p": bool_, "twice": f32}, host=less,
)  # fmt: skip


def where(record):
    """The line on which a record was made, as messages have it."""
    return str(record.form.place)


def message(call):
    return refusal(call, error=KaioError)


# ---------------------------------------------------------------------- calls
@kaio.kernel
def reverse(x: InOut[u32]):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = prmt(x[i], 0, 0x0123)


def test_an_instruction_is_called_like_any_function(device: kaio.Device) -> None:
    words = np.arange(1000, dtype=np.uint32) * 0x01020305
    x = device.alloc_from(words)
    reverse.over(x.size).launch(x).wait()
    np.testing.assert_array_equal(x.to_host(), words.byteswap())


def test_it_stands_in_the_ptx_and_the_assembler_takes_it() -> None:
    assert "prmt.b32 \t%r" in reverse.ptx("sm_75") or "prmt.b32 %r" in reverse.ptx("sm_75")
    assert reverse.compile("sm_75").cubin
    assert reverse.compile("sm_90").cubin


@kaio.kernel
def use_pair(out: Out[f32], flags: Out[bool_], x: In[f32]):
    i = kaio.grid(1)
    if i < out.size:
        p, twice = pair(i, x=x[i], c=x[i] > 0)
        flags[i] = p
        out[i] = twice


def test_predicates_go_in_and_come_out_and_several_results_are_a_tuple(device: kaio.Device) -> None:
    x = np.array([1, -1, 0.5, 2, -3], np.float32)
    out, flags = device.alloc_zeros(5, f32), device.alloc_zeros(5, bool_)
    use_pair.over(5).launch(out, flags, device.alloc_from(x)).wait()
    np.testing.assert_array_equal(out.to_host(), x + x)
    np.testing.assert_array_equal(flags.to_host(), [True, False, True, False, False])


@pytest.mark.parametrize(
    ("dtype", "text", "host"),
    [
        (i16, "mul.lo.s16 {out}, {x}, 3;", triple),
        (u16, "mul.lo.u16 {out}, {x}, 3;", triple),
        (i32, "mul.lo.s32 {out}, {x}, 3;", triple),
        (u32, "mul.lo.u32 {out}, {x}, 3;", triple),
        (i64, "mul.lo.s64 {out}, {x}, 3;", triple),
        (u64, "mul.lo.u64 {out}, {x}, 3;", triple),
        (f16, "neg.f16 {out}, {x};", negated),
        (f32, "neg.f32 {out}, {x};", negated),
        (f64, "neg.f64 {out}, {x};", negated),
    ],
)
def test_every_register_is_an_operand(device: kaio.Device, dtype, text: str, host) -> None:
    instruction = kaio.ptx(text, x=dtype, out=dtype, host=host)

    @kaio.kernel
    def apply(x: InOut[T]):
        i = kaio.grid(1)
        if i < x.size:
            x[i] = instruction(x[i])

    values = np.array([0, 1, 7, 100]).astype(dtype.numpy)
    x = device.alloc_from(values)
    apply.over(x.size).launch(x).wait()
    np.testing.assert_array_equal(x.to_host(), host(values).astype(dtype.numpy))
    assert apply.compile("sm_75", T=dtype).cubin


pause = kaio.ptx("nanosleep.u32 {ns};", ns=u32, since="sm_80", name="pause")


@kaio.kernel
def pausing(x: InOut[u32]):
    pause(20)
    x[0] = 1


def test_one_without_a_result_is_a_statement() -> None:
    assert "nanosleep.u32" in pausing.ptx("sm_80")


def test_an_older_target_is_refused_with_the_first_that_has_it() -> None:
    text = message(lambda: pausing.compile("sm_75"))
    assert text.startswith("`pause` needs sm_80 or later")


clock = kaio.ptx("mov.u32 {out}, %clock;", out=u32, volatile=True)
still = kaio.ptx("mov.u32 {out}, %laneid;", out=u32)


def test_a_volatile_one_is_not_merged_with_its_like() -> None:
    @kaio.kernel
    def timed(x: InOut[u32]):
        first = clock()
        x[0] = clock() - first

    @kaio.kernel
    def lanes(x: InOut[u32]):
        first = still()
        x[0] = still() - first

    assert timed.ptx("sm_90").count("%clock;") == 2
    assert lanes.ptx("sm_90").count("%laneid;") < 2


def test_another_record_under_the_name_recompiles_the_kernel() -> None:
    space = {"op": kaio.ptx("mul.lo.u32 {out}, {x}, 3;", x=u32, out=u32, host=triple)}

    def make(op):
        def apply(x: InOut[u32]):
            x[0] = op(x[0])

        def change(other):
            nonlocal op
            op = other

        return kaio.kernel(apply), change

    apply, change = make(space["op"])
    x = kaio.Device("cpu").alloc_from(np.array([5], np.uint32))
    apply.over(1).block(1).launch(x).wait()
    change(kaio.ptx("neg.s32 {out}, {x};", x=u32, out=u32, host=negated))
    apply.over(1).block(1).launch(x).wait()
    assert x.to_host()[0] == 2**32 - 15


# ---------------------------------------------------------------------- memory
def read(p, i):
    return p[i]


def write(p, i, j, value):
    p[i, j] = value


load_once = kaio.ptx(
    "ld.global.L1::no_allocate.f32 {out}, [{p[i]}];", p=In[f32], i=i32, out=f32, host=read, memory=True
)
store_there = kaio.ptx(
    "st.shared.u32 [{p[i, j]}], {value};", p=InOut[u32, D2], i=i32, j=i32, value=u32, memory=True, host=write
)
load_any = kaio.ptx("ld.u32 {out}, [{p[1]}];", p=In[u32], out=u32, memory=True, host=lambda p: p[1])


@kaio.kernel
def moves(x: In[f32], words: In[u32], out: Out[f32], seen: Out[u32]):
    t = kaio.thread_idx.x
    s = kaio.shared_mem((4, 8), u32)
    one = kaio.shared_mem(2, u32)
    out[t] = load_once(x, t)
    store_there(s, t // 8, t % 8, u32(t))
    one[1] = 7
    kaio.bar_sync()
    seen[t] = s[t // 8, t % 8] + load_any(words) + load_any(one)


def test_the_address_of_an_element_is_an_operand(device: kaio.Device) -> None:
    x, words = np.arange(32, dtype=np.float32), np.array([1, 100], np.uint32)
    out, seen = device.alloc_zeros(32, f32), device.alloc_zeros(32, u32)
    moves.over(32).block(32).launch(device.alloc_from(x), device.alloc_from(words), out, seen).wait()
    np.testing.assert_array_equal(out.to_host(), x)
    np.testing.assert_array_equal(seen.to_host(), np.arange(32) + 107)


def test_addresses_compile_for_each_space() -> None:
    program = moves.compile("sm_90")
    assert program.cubin
    assert "ld.global.L1::no_allocate.f32 %f" in program.ptx


def test_an_element_outside_the_buffer_is_a_fault_of_the_host_function() -> None:
    @kaio.kernel
    def beyond(x: In[f32], out: Out[f32]):
        out[0] = load_once(x, 5)

    cpu = kaio.Device("cpu")
    done = beyond.over(1).block(1).launch(cpu.alloc_zeros(2, f32), cpu.alloc_zeros(1, f32))
    with pytest.raises(kaio.KernelFault, match="index 5 is out of range for axis 0 of `p`"):
        done.wait()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("load_once(words, 0)", "operand of `ld.global.L1::no_allocate.f32` is In[f32], not In[u32]"),
        ("load_once(1.0, 0)", "operand of `ld.global.L1::no_allocate.f32` is In[f32], not float literal 1.0"),
        (
            "load_once(kaio.shared_mem(4, f32), 0)",
            "`ld.global.L1::no_allocate.f32` is of global memory, and `kaio.shared_mem(4, f32)` is in shared memory",
        ),
        (
            "store_there(grid, 0, 0, 1)",
            "`grid` is an `In` buffer, which a kernel only reads, and `st.shared.u32` writes it",
        ),
    ],
)
def test_another_buffer_than_the_text_means_is_refused(call: str, expected: str) -> None:
    made = from_text(
        f"@kernel\ndef k(words: In[u32], grid: In[u32, D2], out: Out[f32]):\n    {call}\n",
        load_once=load_once, store_there=store_there,
    )  # fmt: skip
    assert message(lambda: made.compile("sm_90")).splitlines()[0] == expected


# ---------------------------------------------------------------------- outside a kernel
def test_outside_a_kernel_it_runs_its_host_function() -> None:
    assert prmt(0x11, 0, 0) == 0x11111111
    assert message(pause) == (
        "`pause` is inline PTX, which means something only inside a kernel\n"
        "  help: call it in a function decorated with `@kaio.kernel`, or say what it means: `host=function`"
    )


def test_it_shows_its_text_and_is_not_copied() -> None:
    assert repr(still) == "<kaio.ptx 'mov.u32 {out}, %laneid;'>"
    for copied in (copy.copy, pickle.dumps):
        assert message(lambda copied=copied: copied(still)) == (
            "inline PTX `mov.u32` is neither copied nor pickled\n  help: make it where it is used"
        )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{ .reg .b32 t; add.u32 t, {a}, 1; mov.b32 {out}, t; }", "add.u32"),
        ("{ .reg .pred p;\n  setp.ne.u32 p, {a}, 0;\n  selp.u32 {out}, 1, 0, p; }", "setp.ne.u32"),
        ("{ again: add.u32 {out}, {a}, 1; }", "add.u32"),
        ("// mov.u32 is slower\n@!{a} neg.s32 {out}, 1;", "neg.s32"),
        ("ld.global.L1::no_allocate.u32 {out}, [{a}];", "ld.global.L1::no_allocate.u32"),
    ],
)
def test_messages_call_it_what_its_first_instruction_is(text: str, name: str) -> None:
    kind = kaio.bool_ if "@" in text else u32
    assert kaio.ptx(text, a=kind, out=u32).name == name


# ---------------------------------------------------------------------- mistakes in a kernel
wrong = kaio.ptx("prmtt.b32 {out}, {a}, {a}, 3;", a=u32, out=u32)


@kaio.kernel
def refused(x: InOut[u32]):
    x[0] = wrong(x[0])


def test_what_the_assembler_refuses_is_told_at_the_call() -> None:
    with pytest.raises(CompileError) as caught:
        refused.compile("sm_90")
    place = caught.value.mistakes[0].place
    assert place is not None
    assert place.text.strip() == "x[0] = wrong(x[0])"
    assert str(caught.value).splitlines()[0] == (
        "the assembler refuses `prmtt.b32` for sm_90: Not a name of any known instruction: 'prmtt'"
    )
    assert str(caught.value).splitlines()[-1] == (
        f"  help: it is written in {where(wrong)}: 'prmtt.b32 {{out}}, {{a}}, {{a}}, 3;'"
    )


def test_without_a_host_function_the_cpu_device_refuses_it_with_the_way_out() -> None:
    with pytest.raises(kaio.UnsupportedFeatureError) as caught:
        refused.compile("cpu")
    lines = str(caught.value).splitlines()
    assert lines[0] == "inline PTX `prmtt.b32` has no meaning on the CPU device"
    assert lines[-1] == (
        f"  help: give it one in {where(wrong)}: `host=function`, a Python function of (a) in the kernel language"
    )


def test_an_operand_of_another_type_is_an_error_with_the_cast() -> None:
    @kaio.kernel
    def mixed(x: InOut[u32], y: In[f32]):
        x[0] = prmt(y[0], 0, 0)

    with pytest.raises(KernelTypeError) as caught:
        mixed.compile("sm_90")
    lines = str(caught.value).splitlines()
    assert lines[0] == "operand of `prmt.b32`: f32 is stored in u32 only with a cast"
    assert lines[-1] == "  help: cast it: `kaio.u32(y[0])`"


def test_a_host_function_of_another_result_is_an_error() -> None:
    def half(a):
        return a / 2

    shift = kaio.ptx("shr.u32 {out}, {a}, 1;", a=u32, out=u32, host=half)

    @kaio.kernel
    def halved(x: InOut[u32]):
        x[0] = shift(x[0])

    assert message(lambda: halved.compile("sm_90")).splitlines()[0] == (
        "`shr.u32` gives u32, and `half`, which says what it means, gives f32"
    )


# ---------------------------------------------------------------------- mistakes where it is made
EXAMPLE = 'for example `kaio.ptx("brev.b32 {out}, {a};", a=kaio.u32, out=kaio.u32)`'


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: kaio.ptx(""), f"inline PTX is a text (got '')\n  help: {EXAMPLE}"),
        (
            lambda: kaio.ptx("neg.s32 {out}, {b};", a=i32, out=i32),
            f"inline PTX `neg.s32` has no operand for `{{b}}`\n  help: it has `{{out}}`, `{{a}}`; {EXAMPLE}",
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a};", a=i32, b=i32, out=i32),
            "`b` is not in the text of inline PTX `neg.s32`\n  help: write it as `{b}`",
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a};", a=i32, out=kaio.i8),
            (
                "result `out` of inline PTX `neg.s32` is i8, and PTX has no registers of 8 bits\n"
                "  help: make it a u16 or u32, and cast where it is called"
            ),
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a};", a=int, out=i32),
            f"operand `a` of inline PTX `neg.s32` is a dtype (got <class 'int'>)\n  help: {EXAMPLE}",
        ),
        (
            lambda: kaio.ptx("neg.s32 {a}, {a};", a=i32, out={"a": i32}),
            "`a` of inline PTX `neg.s32` is an operand and a result\n  help: rename one of them",
        ),
        (
            lambda: kaio.ptx("ld.f32 {out}, [{p}];", p=In[f32], out=f32),
            (
                "`p` of inline PTX `ld.f32` is In[f32], of which the text has the address of an element\n"
                "  help: write `[{p[i]}]`, with operands or numbers as indices"
            ),
        ),
        (
            lambda: kaio.ptx("ld.f32 {out}, [{p[x]}];", p=In[f32], x=f32, out=f32),
            "index `x` of `p` in inline PTX `ld.f32` is no integer operand",
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a[0]};", a=i32, out=i32),
            "`a` of inline PTX `neg.s32` is no buffer, and has no elements\n  help: `{a}`",
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a};", a=i32, out=i32, since="80"),
            "`since` is the first architecture that has it (got '80')\n  help: for example `\"sm_80\"`",
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a};", a=i32, out=i32, host=3),
            "`host` of inline PTX `neg.s32` is a Python function (got 3)\n  help: write it with `def`",
        ),
        (
            lambda: kaio.ptx("neg.s32 {out}, {a};", a=i32, out=i32, host=permute),
            (
                "`host` of inline PTX `neg.s32` takes its operands (a), and `permute(a, b, s)` does not\n"
                "  help: write it as `def permute(a):`"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_made(make, expected: str) -> None:
    assert message(make) == expected
