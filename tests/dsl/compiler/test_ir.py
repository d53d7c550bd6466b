"""The IR between the stages: pure data that prints readably."""

from __future__ import annotations

import dataclasses

import pytest

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.middle import middle_of
from kaio.dsl.intrinsic import STANDARD, Intrinsic
from tests.dsl.from_text import kernel

SAMPLE = """
    def double(v, by=2):
        return v * by

    @kernel
    def k(x: InOut[f32], flag: Const[bool]):
        i = grid(1)
        total = 0.0
        for j in range(3):
            total += x[j]
        if i < x.size:
            x[i] = double(total) if i > 0 else -total
"""


def test_a_function_prints_as_its_blocks():
    made = kernel("@kernel\ndef k(x: InOut[f32], n: i32):\n    if n > 0:\n        x[n] = n + 1\n")
    text = str(made.stages()["ir"])
    lines = text.splitlines()
    assert lines[0] == "k(x, n)"
    assert "0:" in lines
    assert "    n = argument n" in lines
    assert any(line.startswith("    branch ") and " else " in line for line in lines)
    assert any(line.startswith("    x[n] = ") for line in lines)
    assert lines[-1].startswith("    return ") or lines[-1].startswith("    jump ")


def test_a_typed_function_prints_every_type():
    text = str(kernel(SAMPLE).stages(flag=True)["types"])
    for expected in (
        "x = argument x    : InOut[f32]",
        "    i = ",
        ": i32",
        "phi ",
        "iterate ",
        "step ",
        ": float literal 0.0",
    ):
        assert expected in text
    assert all(
        "    : " in line
        for line in text.splitlines()
        if line.startswith("    ") and " = " in line and "[" not in line[:8]
    )


def test_calls_are_found_once_however_often_a_function_is_called():
    functions = "".join(f"def f{i}(x): return f{i - 1}(x) + f{i - 1}(x + 1)\n" for i in range(1, 40))
    source = "def f0(x): return abs(x)\n" + functions + "@kernel\ndef k(o: InOut[i32]):\n    o[0] = f39(o[0])\n"
    front = kernel(source)._front
    typed = middle_of(front, front.signature.specialise()).typed
    names = [call.callee.function.name for _, call in ir.calls_of(typed) if isinstance(call.callee, ir.Typed)]
    assert names == [f"f{i}" for i in range(39, -1, -1)] + [f"f{i}" for i in range(39)]
    assert [call.callee for _, call in ir.calls_of(typed) if isinstance(call.callee, Intrinsic)] == [STANDARD[abs]]


def test_names_are_temporaries_or_the_users():
    assert ir.is_temporary("$binop_add.3")
    assert not ir.is_temporary("total.2")
    assert ir.user_name("total.2") == "total"
    assert ir.user_name("x") == "x"


OPS = [
    (ir.Constant(1), (), "1"),
    (ir.Constant(min), (), "min"),
    (ir.Argument("x"), (), "argument x"),
    (ir.Copy("a"), ("a",), "a"),
    (ir.Phi(((0, "a"), (8, "b"))), ("a", "b"), "phi 0: a, 8: b"),
    (ir.Unary("-", "a"), ("a",), "- a"),
    (ir.Binary("+", "a", "b"), ("a", "b"), "a + b"),
    (ir.Call("f", ("a",), (("k", "b"),)), ("f", "a", "b"), "f(a, k=b)"),
    (ir.Attribute("a", "size"), ("a",), "a.size"),
    (ir.GetItem("a", "i"), ("a", "i"), "a[i]"),
    (ir.Tuple(("a", "b")), ("a", "b"), "(a, b)"),
    (ir.Unpack("t", 2), ("t",), "unpack 2 of t"),
    (ir.Item("t", 1), ("t",), "item 1 of t"),
    (ir.Iterate("r"), ("r",), "iterate r"),
    (ir.Step("s"), ("s",), "step s"),
    (ir.StepValue("s"), ("s",), "value of s"),
    (ir.StepFlag("s"), ("s",), "more in s"),
]


@pytest.mark.parametrize(("op", "operands", "text"), OPS, ids=[type(o[0]).__name__ for o in OPS])
def test_every_op_tells_what_it_reads_and_prints(op, operands, text):
    assert ir.operands(op) == operands
    assert str(op) == text


def test_every_op_is_in_the_table():
    assert {type(op) for op, _, _ in OPS} == set(ir.Op.__args__)


def test_blocks_know_what_follows():
    place = kernel(SAMPLE).stages(flag=True)["ir"].blocks[0].terminator.place
    for terminator, targets, text in (
        (ir.Jump(8, place), (8,), "jump 8"),
        (ir.Branch("c", 1, 2, place), (1, 2), "branch c: 1 else 2"),
        (ir.Return("v", place), (), "return v"),
        (ir.Fail("no", place), (), "fail 'no'"),
    ):
        assert ir.Block(0, (), terminator).targets() == targets
        assert str(terminator) == text


def test_every_value_is_frozen_and_assigned_once():
    function = kernel(SAMPLE).stages(flag=True)["ir"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        function.name = "other"
    targets = [s.target for b in function.blocks for s in b.body if isinstance(s, ir.Assign)]
    assert len(targets) == len(set(targets))


def test_every_name_is_defined_before_it_is_used_but_in_phis():
    function = kernel(SAMPLE).stages(flag=True)["ir"]
    known: set[str] = set()
    for block in function.blocks:
        for statement in block.body:
            if isinstance(statement, ir.SetItem):
                assert {statement.array, statement.index, statement.value} <= known
            else:
                assert isinstance(statement.op, ir.Phi) or set(ir.operands(statement.op)) <= known
                known.add(statement.target)


def test_phis_come_first_and_name_the_blocks_before():
    function = kernel(SAMPLE).stages(flag=True)["ir"]
    before = {b.label: {a.label for a in function.blocks if b.label in a.targets()} for b in function.blocks}
    phis = 0
    for block in function.blocks:
        kinds = [isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi) for s in block.body]
        assert kinds == sorted(kinds, reverse=True)
        for statement in block.body[: sum(kinds)]:
            phis += 1
            assert {at for at, _ in statement.op.incoming} <= before[block.label]
    assert phis
