"""What host code is built of: fields of the block context, the argument block, frames, the record of a fault."""

from __future__ import annotations

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.declared import own_function
from kaio.dsl.values import Type

__all__ = [
    "I1", "I8", "I32", "I64", "POINTER", "POSITIONS", "REGISTERS", "VOID", "fault_recorder",
    "field_of", "frame_of", "load_arguments",
]  # fmt: skip

I1, I8, I32, I64, VOID = llvm.IntType(1), llvm.IntType(8), llvm.IntType(32), llvm.IntType(64), llvm.VoidType()
POINTER = I8.as_pointer()
REGISTERS = tuple(f"{register}.{axis}" for register in ("ntid", "nctaid", "ctaid") for axis in "xyz")
POSITIONS = ("tid.x", "tid.y", "tid.z")


def load_arguments(b: llvm.IRBuilder, types: tuple[Type | None, ...], block: llvm.Value) -> list[llvm.Value]:
    """The arguments, loaded from their block."""
    layout = llvm.LiteralStructType(argument_types(types))
    pointer = b.bitcast(block, layout.as_pointer())
    return [b.load(b.gep(pointer, [I32(0), I32(k)], inbounds=True)) for k in range(len(layout.elements))]


def field_of(b: llvm.IRBuilder, context: llvm.Value, offset: int, kind: llvm.Type) -> llvm.Value:
    """The address of a field of the context."""
    return b.bitcast(b.gep(context, [I64(offset)], inbounds=True), kind.as_pointer())


def frame_of(b: llvm.IRBuilder, frames: llvm.Value, nbytes: llvm.Value, thread: llvm.Value) -> llvm.Value:
    """The frame of a thread, which is also the handle of its coroutine."""
    stride = b.and_(b.add(nbytes, I64(abi.FRAME_ALIGNMENT - 1)), I64(-abi.FRAME_ALIGNMENT))
    return b.inttoptr(b.add(frames, b.mul(b.zext(thread, I64), stride)), POINTER)


def fault_recorder(module: llvm.Module) -> llvm.Function:
    """`record_fault(context, thread, site, index, size)`: keeps the first fault of the block. Out of line and cold."""
    kinds = [POINTER, I32, I32, I64, I64]
    return own_function(module, "record_fault", VOID, kinds, _record_fault, "noinline", "cold")


def _record_fault(b: llvm.IRBuilder, context: llvm.Value, *facts: llvm.Value) -> None:
    flag = field_of(b, context, abi.FAULT, I32)
    with b.if_then(b.icmp_unsigned("==", b.load(flag), I32(0))):
        b.store(I32(abi.FAILED), flag)
        for value, offset in zip(
            facts, (abi.FAULT_THREAD, abi.FAULT_SITE, abi.FAULT_INDEX, abi.FAULT_SIZE), strict=True
        ):
            b.store(value, field_of(b, context, offset, value.type))
    b.ret_void()
