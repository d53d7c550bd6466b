"""Updates of one element that no other thread can come between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.elements import check_index, check_store
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import InOut, Out
from kaio.dsl.values import ArrayType, BufferType, Type, show
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["atomic_add"]


def _add_typing(buffer: Type, index: Type, value: Type) -> Resolved:
    array = check_index(buffer, index, "buffer")
    check_store(array, value, "buffer", "value")
    dtype = array.dtype
    if isinstance(array, ArrayType) and array.space == "local":
        raise RuleError("`atomic_add` on a local array, which no other thread sees", "add with `+=`")
    if dtype.kind == "b" or dtype.bits < 32:
        raise RuleError(
            f"`atomic_add` on {show(dtype)}: the hardware adds 32 and 64 bits at once", "count in an i32 or u32 buffer"
        )
    return Resolved((buffer, index, dtype), dtype)


def _element(e: Emitter, call: TypedCall, array: Any, index: Any) -> Any:
    type_ = call.operands[0]
    assert isinstance(type_, BufferType | ArrayType)
    return e.address(array, type_, index, call.operands[1], e.assigning)


def _add_cuda(e: Emitter, call: TypedCall, array: Any, index: Any, value: Any) -> Any:
    pointer, dtype = _element(e, call, array, index), call.result
    if not isinstance(dtype, DType) or not dtype.is_float:
        return e.b.atomic_rmw("add", pointer, value, "monotonic")
    name = f"llvm.nvvm.atomic.load.add.{dtype.ptx}.p{pointer.type.addrspace}{dtype.ptx}"
    return e.call(name, value.type, [pointer, value])


def _add_host(e: Emitter, call: TypedCall, array: Any, index: Any, value: Any) -> Any:
    pointer, dtype = _element(e, call, array, index), call.result
    is_float = isinstance(dtype, DType) and dtype.is_float
    return e.target.atomic(e, "fadd" if is_float else "add", pointer, value)


@intrinsic(_add_typing, cuda=_add_cuda, host=_add_host, example="kaio.atomic_add(counts, i, 1)", ptx="atom.global.add")
def atomic_add(buffer: Out[Any, Any] | InOut[Any, Any], index: int | tuple[int, ...], value: Any) -> Any:
    """Add `value` to `buffer[index]` in one step and give the value from before.

    For i32, u32, i64, u64, f32 and f64 in global and shared memory. Integers wrap. The order of float additions is not
    fixed, so their last bits may differ from run to run.
    """
