"""Atomic updates on the CPU device: plain where nobody can come between, else LLVM's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.atomics import Update, bits_of, new_value, swap, value_of
from kaio.dsl.compiler.emission.scalars import Value, from_memory, to_memory
from kaio.dtypes import f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["update"]

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
# What `atomicrmw` does to integers as kaio means it.
_INSTRUCTIONS = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"}
_EXTREMES = {("min", "i"): "min", ("min", "u"): "umin", ("max", "i"): "max", ("max", "u"): "umax"}
_SMALLEST_NORMAL = 2.0**-126


def update(e: Emitter, u: Update) -> Value:
    """Update an element and give the value from before.

    Threads of a block change only where they wait, and its shared memory is its own. Where no other worker runs the
    launch, a plain update is an atomic one for buffers too, and ten times cheaper; `scope="system"` means that
    something else than the launch looks on.
    """
    e.target.touch(e, u.pointer, u.access)
    before = _updated(e, u)
    e.target.orders.updated(e, u, before)
    return before


def _updated(e: Emitter, u: Update) -> Value:
    if u.access.space == "shared" or u.access.scope == "block":
        return _plain(e, u)
    alone = None if u.access.scope == "system" else e.target.alone(e)
    if alone is None:
        return _together(e, u)
    with e.b.if_else(alone) as (then, otherwise):
        with then:
            first, first_block = _plain(e, u), e.b.block
        with otherwise:
            second, second_block = _together(e, u), e.b.block
    before = e.b.phi(first.type)
    before.add_incoming(first, first_block)
    before.add_incoming(second, second_block)
    return before


def _plain(e: Emitter, u: Update) -> Value:
    old = from_memory(e, e.b.load(u.pointer), u.dtype)
    e.b.store(to_memory(e, _changed(e, u, old), u.dtype), u.pointer)
    return old


def _together(e: Emitter, u: Update) -> Value:
    order, dtype = _ORDERS[u.access.order], u.dtype
    pointer = e.b.bitcast(u.pointer, llvm.IntType(dtype.bits).as_pointer())
    name = _EXTREMES.get((u.operation, dtype.kind)) or (
        _INSTRUCTIONS.get(u.operation) if not dtype.is_float or u.operation == "exch" else None
    )
    if name is not None:
        return value_of(e, e.b.atomic_rmw(name, pointer, bits_of(e, u.operands[0], dtype), order), dtype)
    on_failure = "acquire" if u.access.order in ("acquire", "acq_rel") else "monotonic"

    def exchange(expected: Value, desired: Value) -> Value:
        return e.b.extract_value(e.b.cmpxchg(pointer, expected, desired, order, on_failure), 0)

    if u.operation == "cas":
        expected, desired = (bits_of(e, value, dtype) for value in u.operands)
        return value_of(e, exchange(expected, desired), dtype)

    def change(word: Value) -> tuple[Value, Value]:
        old = value_of(e, word, dtype)
        return old, bits_of(e, _changed(e, u, old), dtype)

    return swap(e, e.b.load_atomic(pointer, "monotonic", dtype.bits // 8), exchange, change)


def _changed(e: Emitter, u: Update, old: Value) -> Value:
    """What the element becomes. The GPU's additions to f32 in global memory take subnormals as zeros of their sign.

    (PTX ISA, `atom`: "atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero,
    whereas atom.add.f32 on shared memory supports subnormal inputs and results".)
    """
    if u.dtype is not f32 or u.operation not in ("add", "sub") or u.access.space == "shared":
        return new_value(e, u, old)
    flushed = replace(u, operands=(_flush(e, u.operands[0]),))
    return _flush(e, new_value(e, flushed, _flush(e, old)))


def _flush(e: Emitter, value: Value) -> Value:
    from kaio.dsl.compiler.emission.float_bits import copysign

    size = e.call("llvm.fabs.f32", e.llvm(f32), [value])
    is_tiny = e.b.fcmp_ordered("<", size, e.const(f32, _SMALLEST_NORMAL))
    return e.b.select(is_tiny, copysign(e, e.const(f32, 0.0), value, f32), value)
