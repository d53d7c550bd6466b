"""Atomic updates in PTX: one instruction where there is one, else a loop of compare-and-swap.

The instructions are PTX text, so that the address space, the scope and the order are those that were asked for, and
`red` is written where nothing reads the value from before. See "atom" and "red" in the PTX ISA.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.atomics import Change, Update, bits_of, new_value, swap, value_of
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dtypes import DType, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["update"]

_SCOPES = {"block": "cta", "device": "gpu", "system": "sys"}
_REGISTERS = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}
_I8, _I32, _I64 = llvm.IntType(8), llvm.IntType(32), llvm.IntType(64)


def update(e: Emitter, u: Update) -> Value:
    """Update an element and give the value from before."""
    dtype, bits = u.dtype, u.dtype.bits
    added = _addition(e, u)
    if added is not None:
        return added
    if u.operation in ("min", "max") and dtype.is_float and bits >= 32:
        return _float_extreme(e, u)
    name = _on_integers(u.operation, dtype)
    if name is None:
        return _loop(e, u)
    operands = [bits_of(e, value, dtype) for value in u.operands]
    return value_of(e, _instruction(e, u, name, operands), dtype)


def _addition(e: Emitter, u: Update) -> Value | None:
    """`add` and `sub` by the one instruction, where the type has it; `sub` adds the negative, which is the same."""
    dtype, value = u.dtype, u.operands[0]
    if u.operation not in ("add", "sub"):
        return None
    if dtype.is_int:
        if dtype.bits < 32:
            return None
        return _instruction(e, u, f"add.u{dtype.bits}", [e.b.neg(value) if u.operation == "sub" else value])
    name = {"f32": "add.f32", "f64": "add.f64", "f16": "add.noftz.f16", "bf16": "add.noftz.bf16"}.get(dtype.name)
    if name is None or (dtype.name == "bf16" and not e.target.has("sm_90")):
        return None
    if u.operation == "sub":
        bits = llvm.IntType(dtype.bits)
        value = value_of(e, e.b.xor(bits_of(e, value, dtype), bits(1 << dtype.bits - 1)), dtype)
    if dtype.bits == 16:
        return value_of(e, _instruction(e, u, name, [bits_of(e, value, dtype)]), dtype)
    return _instruction(e, u, name, [value])


def _on_integers(operation: str, dtype: DType) -> str | None:
    """The instruction that takes the value as an integer; None where there is none of that width."""
    bits = dtype.bits
    if operation == "cas" and bits >= 16:
        return f"cas.b{bits}"
    if bits < 32:
        return None
    if operation in ("and", "or", "xor", "exch"):
        return f"{operation}.b{bits}"
    if operation in ("min", "max"):
        return f"{operation}.{'s' if dtype.kind == 'i' else 'u'}{bits}"
    return f"{operation}.u32" if operation in ("inc", "dec") and dtype is u32 else None


def _space(u: Update) -> str:
    """The state space; of another block's shared memory the address is a generic one, and none is said."""
    return "" if u.access.space == "cluster" else f".{u.access.space}"


def _instruction(e: Emitter, u: Update, name: str, operands: list[Value], is_read: bool | None = None) -> Value:
    """`atom`, or `red` where nothing reads the result."""
    is_read = u.is_read if is_read is None else is_read
    kind = operands[0].type
    must_return = name.startswith(("exch", "cas")) or u.access.order in ("acquire", "acq_rel")
    plain = u.access.scope == "device" and u.access.order == "relaxed"  # what PTX means where nothing is said
    how = f"{'' if plain else f'.{u.access.order}.{_SCOPES[u.access.scope]}'}{_space(u)}.{name}"
    if is_read or must_return:
        places = ", ".join(f"${k + 2}" for k in range(len(operands)))
        return _asm(e, f"atom{how} $0, [$1], {places};", kind, u.pointer, operands)
    _asm(e, f"red{how} [$0], $1;", llvm.VoidType(), u.pointer, operands)
    return llvm.Constant(kind, llvm.Undefined)


def _asm(e: Emitter, text: str, result: llvm.Type, pointer: Value, operands: list[Value]) -> Value:
    kinds = [pointer.type, *(value.type for value in operands)]
    registers = ["l", *(_REGISTERS[str(kind)] for kind in kinds[1:])]
    if not isinstance(result, llvm.VoidType):
        registers.insert(0, f"={_REGISTERS[str(result)]}")
    code = llvm.InlineAsm(llvm.FunctionType(result, kinds), text, ",".join([*registers, "~{memory}"]), True)
    return e.b.call(code, [pointer, *operands])


# ---------------------------------------------------------------------- floats
def _float_extreme(e: Emitter, u: Update) -> Value:
    """`min` and `max` of floats by those of integers.

    Without NaN, floats of one sign are ordered as their bits: from +0.0 up as signed integers, and from -0.0 down in
    reverse as unsigned ones. So a value without the sign takes the signed operation and one with it the opposite
    unsigned operation, and each leaves an element of the other sign as it should be. A NaN is not taken: it becomes the
    integer that changes nothing. A NaN in the element that would win is left by the instruction, and is replaced by a
    swap; any other is replaced by the instruction itself.
    """
    dtype = u.dtype
    integer = llvm.IntType(dtype.bits)
    value, top = u.operands[0], 1 << dtype.bits - 1
    bits = bits_of(e, value, dtype)
    is_max = u.operation == "max"
    is_nan = e.b.fcmp_unordered("uno", value, value)
    is_negative = e.b.and_(e.b.icmp_signed("<", bits, integer(0)), e.b.not_(is_nan))
    neutral = e.b.select(is_nan, integer(top if is_max else top - 1), bits)
    opposite = f"{'min' if is_max else 'max'}.u{dtype.bits}"
    with e.b.if_else(is_negative) as (then, otherwise):
        with then:
            first, first_block = _instruction(e, u, opposite, [bits], is_read=True), e.b.block
        with otherwise:
            second = _instruction(e, u, f"{u.operation}.s{dtype.bits}", [neutral], is_read=True)
            second_block = e.b.block
    old = e.b.phi(integer)
    old.add_incoming(first, first_block)
    old.add_incoming(second, second_block)
    infinity = bits_of(e, constant(dtype, math.inf), dtype)
    if is_max:
        is_left = e.b.icmp_signed(">", old, infinity)
    else:
        is_left = e.b.icmp_unsigned(">", old, e.b.or_(infinity, integer(top)))
    from_instruction = e.b.block
    with e.b.if_then(e.b.and_(is_left, e.b.not_(is_nan))):
        swapped = bits_of(e, _loop(e, u), dtype)
        from_swap = e.b.block
    before = e.b.phi(integer)
    before.add_incoming(old, from_instruction)
    before.add_incoming(swapped, from_swap)
    return value_of(e, before, dtype)


# ---------------------------------------------------------------------- loops
def _loop(e: Emitter, u: Update) -> Value:
    """Compare and swap the element, or the aligned word of 32 bits in which a byte lies."""
    if u.dtype.bits == 8:
        return _loop_on_a_byte(e, u)

    def change(word: Value) -> tuple[Value, Value]:
        old = value_of(e, word, u.dtype)
        return old, bits_of(e, new_value(e, u, old), u.dtype)

    return _swap_words(e, u, u.pointer, llvm.IntType(u.dtype.bits), change)


def _loop_on_a_byte(e: Emitter, u: Update) -> Value:
    """The neighbours in the word go back as they were found; one that changed meanwhile makes the swap fail."""
    address = e.b.ptrtoint(u.pointer, _I64)
    start = e.b.and_(address, _I64(-4))
    pointer = e.b.inttoptr(start, _I32.as_pointer(u.pointer.type.addrspace))
    shift = e.b.shl(e.b.trunc(e.b.sub(address, start), _I32), _I32(3))
    others = e.b.not_(e.b.shl(_I32(255), shift))

    def change(word: Value) -> tuple[Value, Value]:
        old = value_of(e, e.b.trunc(e.b.lshr(word, shift), _I8), u.dtype)
        new = e.b.zext(bits_of(e, new_value(e, u, old), u.dtype), _I32)
        return old, e.b.or_(e.b.and_(word, others), e.b.shl(new, shift))

    return _swap_words(e, u, pointer, _I32, change)


def _swap_words(e: Emitter, u: Update, pointer: Value, word: llvm.IntType, change: Change) -> Value:
    whole = replace(u, pointer=pointer, is_read=True)

    def exchange(expected: Value, desired: Value) -> Value:
        return _instruction(e, whole, f"cas.b{word.width}", [expected, desired])

    first = _asm(e, f"ld.volatile{_space(u)}.b{word.width} $0, [$1];", word, pointer, [])
    return swap(e, first, exchange, change)
