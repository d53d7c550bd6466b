"""PTX text becomes values: names are resolved, places kept, and what is not known is an error."""

from __future__ import annotations

import pytest
from llvmlite import ir as llvm

import kaio
from kaio.dsl.compiler.ptx.memory_map import MemoryMap
from kaio.dsl.compiler.ptx.parse import parse
from kaio.dsl.compiler.ptx.syntax import (
    Address,
    Call,
    Function,
    Immediate,
    Instruction,
    Label,
    Pair,
    Register,
    Special,
    Symbol,
    Table,
    Vector,
)

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def entry(body: str, before: str = "", after: str = "") -> Function:
    """The kernel of a text with that body."""
    return parse(f"{HEAD}{before}\n.visible .entry k(.param .u64 x_ptr)\n{{\n{body}\n}}\n{after}").entry


def instruction(text: str, registers: str = ".reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %rd<9>;") -> Instruction:
    (found,) = entry(f"{registers} {text}").body
    assert isinstance(found, Instruction)
    return found


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("mad.lo.s32 %r1, %r2, -5, 0x1F;", (Register("%r1"), Register("%r2"), Immediate(-5), Immediate(31))),
        ("mov.f32 %r1, 0f3F800000;", (Register("%r1"), Immediate(0x3F800000, 32))),
        ("mov.u32 %r1, %ctaid.x;", (Register("%r1"), Special("%ctaid.x"))),
        ("mov.u32 %r1, WARP_SZ;", (Register("%r1"), Immediate(32))),
        ("ld.global.u32 %r1, [%rd2+-8];", (Register("%r1"), Address(Register("%rd2"), -8))),
        ("ld.param.u64 %rd1, [x_ptr];", (Register("%rd1"), Address(Symbol("x_ptr")))),
        ("st.v2.b32 [%rd1], {%r1, 7};", (Address(Register("%rd1")), Vector((Register("%r1"), Immediate(7))))),
        ("shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;",
         (Pair(Register("%r1"), Register("%p1")), Register("%r2"), Immediate(1), Immediate(0), Immediate(-1))),
        ("selp.b32 %r1, 1, 0, !%p1;", (Register("%r1"), Immediate(1), Immediate(0), Register("%p1", negated=True))),
    ],
)  # fmt: skip
def test_operands_are_read(text: str, operands: tuple[object, ...]) -> None:
    assert instruction(text).operands == operands


def test_an_instruction_keeps_its_predicate_and_its_text() -> None:
    found = instruction("@!%p1   add.s32\t%r1, %r2, %r3;  // a comment")
    assert (found.guard, found.opcode, str(found)) == (
        Register("%p1", negated=True), "add.s32", "@!%p1 add.s32 %r1, %r2, %r3",
    )  # fmt: skip


def test_scopes_have_registers_and_labels_of_their_own() -> None:
    body = """.reg .b32 %r<3>;
        mov.u32 %r1, 1;
        { .reg .b32 %r1, %t; again: mov.u32 %r1, %t; bra again; }
        { .reg .b64 %t; again: mov.b64 %t, 0; bra again; }
        mov.u32 %r2, %r1;"""
    found = entry(body)
    names = [operand.name for item in found.body if isinstance(item, Instruction) for operand in item.operands[:1]]
    assert names == ["%r1", "%r1@1", "again@1", "%t@2", "again@2", "%r2"]
    assert [found.registers[name] for name in ("%r1", "%r1@1", "%t@1", "%t@2")] == ["b32", "b32", "b32", "b64"]


def test_places_tell_the_calls_that_led_there() -> None:
    body = """.loc 1 9 5
        .loc 1 3 7, function_name $L__info_string0, inlined_at 1 9 5
        .loc 2 2 1, function_name $L__info_string1, inlined_at 1 3 7
        ret;"""
    (found,) = entry(body, after='.file 1 "/src/a.py"\n.file 2 "./<text 4>"').body
    assert isinstance(found, Instruction)
    assert found.line is not None
    assert (found.line.file, found.line.line, found.line.column) == ("<text 4>", 2, 1)
    assert found.line.callers == (("/src/a.py", 3, 7), ("/src/a.py", 9, 5))


def test_variables_have_their_bytes_and_a_place_in_their_space() -> None:
    before = """.const .align 16 .b8 taps[4] = {1, 2, 255, 0};
        .const .align 4 .u32 more[2] = {7, -1};
        .shared .align 16 .b8 tile[40];
        .extern .shared .align 16 .b8 rest[];
        .visible .global .align 8 .b8 kaio_print[24];"""
    module = parse(f"{HEAD}{before}\n.visible .entry k() {{ .shared .align 8 .f64 own[2]; .local .b8 depot[9]; ret; }}")
    into = llvm.Module("k")
    memory = MemoryMap(module, into, 0)
    assert memory.offsets == {"taps": 0, "more": 4, "tile": 0, "rest": 0, "own": 40, "depot": 0}
    assert (memory.shared_nbytes, memory.local_nbytes, memory.constant_nbytes) == (56, 9, 12)
    assert bytes(memory.bank.initializer.constant) == b"\x01\x02\xff\0\x07\0\0\0\xff\xff\xff\xff"
    assert list(memory.globals) == ["kaio_print"]


def test_calls_and_tables_are_read() -> None:
    body = """.reg .b32 %r<3>;
        { .param .b64 retval0; .param .b32 param0; call.uni (retval0), helper, (param0); }
        table: .branchtargets one, two;
        brx.idx %r1, table;
        one: two: ret;"""
    call, table, branch, *labels, _ = entry(body, before=".func (.param .b64 out) helper(.param .b32 in) ;").body
    assert call == Call("helper", ("retval0@1",), ("param0@1",))
    assert table == Table("table", ("one", "two"))
    assert isinstance(branch, Instruction)
    assert branch.operands == (Register("%r1"), Symbol("table"))
    assert labels == [Label("one"), Label("two")]


@pytest.mark.parametrize(
    ("body", "words"),
    [(".tex .u64 t;", "a declaration of `.tex`"), ("add.s32 `;", "PTX cannot be read at"),
     ("ld.b32 %r1, [%r1, 3];", "an address that is not known")],
)  # fmt: skip
def test_what_is_no_ptx_of_ours_is_an_internal_error(body: str, words: str) -> None:
    with pytest.raises(kaio.errors.InternalError) as caught:
        entry(f".reg .b32 %r<3>; {body}")
    assert words in str(caught.value)
