"""Memory that a kernel makes for itself: shared by a block, or of one thread."""

from __future__ import annotations

import builtins
import keyword
import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kaio.dsl import literals
from kaio.dsl.intrinsic import Resolved, intrinsic, standard
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import In, InOut
from kaio.dsl.values import (
    MOST_CONSTANT_NBYTES,
    ArrayType,
    BufferType,
    Compound,
    ObjectType,
    TupleType,
    Type,
    Weak,
    show,
)
from kaio.dtypes import DType, dtype_of, i32
from kaio.errors import KaioError
from kaio.record_classes import is_record
from kaio.rounding import nearest

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["const_mem", "dynamic_shared", "local_mem", "shared_mem"]

T = TypeVar("T")
_MOST_LOCAL_NBYTES = 512 * 1024  # CUDA C++ Programming Guide, table of technical specifications


def _shape(name: str, shape: Type) -> tuple[int, ...]:
    sizes = shape.items if isinstance(shape, TupleType) else (shape,)
    for size in sizes:
        if not isinstance(size, Weak) or not isinstance(size.value, int):
            raise RuleError(
                f"the shape of `{name}` is known when compiling, and {show(size)} is not",
                "use int literals, captured ints or `Const[int]` parameters",
            )
        if size.value < 1:
            raise RuleError(f"a size of `{name}` is at least 1, not {size.value}")
    return tuple(int(s.value) for s in sizes)  # type: ignore[union-attr, arg-type]


def _array(space: Any) -> Any:
    def typing(shape: Type, dtype: Type) -> Resolved:
        name = f"{space}_mem"
        array = ArrayType(space, _dtype(name, dtype, f"{name}(256, kaio.f32)"), _shape(name, shape))
        if not 1 <= array.ndim <= 4:
            raise RuleError(f"`{name}` has 1 to 4 dimensions, not {array.ndim}")
        nbytes = math.prod(array.shape) * array.dtype.itemsize
        if space == "local" and nbytes > _MOST_LOCAL_NBYTES:
            raise RuleError(
                f"this array takes {nbytes} bytes of each thread's own memory, and a thread has {_MOST_LOCAL_NBYTES}",
                "make it smaller, or pass a buffer that the threads share out",
            )
        return Resolved((shape, dtype), array)

    return typing


def _dtype(name: str, dtype: Type, example: str) -> DType:
    if isinstance(dtype, ObjectType) and (isinstance(dtype.value, np.dtype) or is_record(dtype.value)):
        try:
            return dtype_of(dtype.value)
        except KaioError as problem:
            raise RuleError(problem.mistakes[0].what, problem.mistakes[0].help) from None
    if not isinstance(dtype, ObjectType) or not isinstance(dtype.value, DType):
        raise RuleError(f"the second argument of `{name}` is a dtype, not {show(dtype)}", f"for example `{example}`")
    return dtype.value


def _shared(e: Emitter, call: TypedCall, shape: Any, dtype: Any) -> Any:
    return _made(e, call, e.target.shared)


def _local(e: Emitter, call: TypedCall, shape: Any, dtype: Any) -> Any:
    return _made(e, call, e.target.local)


def _made(e: Emitter, call: TypedCall, make: Any) -> Any:
    from kaio.dsl.compiler.emission.target import ArrayValue

    assert isinstance(call.result, ArrayType)
    return ArrayValue(make(e, call.result, e.assigning))


@intrinsic(
    _array("shared"),
    emit=_shared,
    example="""\
tile = kaio.shared_mem(64, kaio.f32)
tile[i] = x[i]
kaio.bar_sync()
out[i] = tile[63 - i]""",
    ptx="st.shared.f32",
)
def shared_mem(shape: int | tuple[int, ...], dtype: type[T]) -> InOut[T, Any]:
    """An array that the threads of a block share; its shape is known when compiling, its contents are undefined."""
    raise AssertionError


def _dynamic_typing(name: Type, dtype: Type) -> Resolved:
    example = 'dynamic_shared("tile", kaio.f32)'
    if not isinstance(name, ObjectType) or not isinstance(name.value, str):
        raise RuleError(
            f"the first argument of `dynamic_shared` is the array's name, a text, not {show(name)}",
            f"for example `{example}`",
        )
    if not name.value.isidentifier() or keyword.iskeyword(name.value):
        raise RuleError(
            f"{name.value!r} is no name to give a size by at launch", f"a name as Python has it: `{example}`"
        )
    element = _dtype("dynamic_shared", dtype, example)
    return Resolved((name, dtype), BufferType(element, 1, "InOut", i32, "shared"), (name.value,))


def _dynamic(e: Emitter, call: TypedCall, name: Any, dtype: Any) -> Any:
    from kaio.dsl.compiler.emission.scalars import memory_type

    assert isinstance(call.result, BufferType)
    return e.target.dynamic_shared(e, call.static[0], memory_type(call.result.dtype))


@intrinsic(
    _dynamic_typing,
    emit=_dynamic,
    example="""\
tile = kaio.dynamic_shared("tile", kaio.f32)
tile[i] = x[i]
kaio.bar_sync()
out[i] = tile[tile.size - 1 - i]""",
    ptx="st.shared",
)
def dynamic_shared(name: str, dtype: type[T]) -> InOut[T, Any]:
    """An array that the threads of a block share, of one dimension, whose size each launch says by its name.

    `kernel.over(n).shared(tile=256).launch(…)` gives the one called `"tile"` 256 elements. Arrays of several names
    lie side by side, in the order in which the kernel names them, each at a multiple of 16 bytes; one name is one
    array, wherever it stands. Its contents are undefined.
    """
    raise AssertionError


@intrinsic(
    _array("local"),
    emit=_local,
    example="""\
last = kaio.local_mem(4, kaio.f32)
for k in range(4):
    last[k] = x[i] * k
out[i] = last[n[i] % 4]""",
    ptx=".local",
)
def local_mem(shape: int | tuple[int, ...], dtype: type[T]) -> InOut[T, Any]:
    """An array of this thread's own; its shape is known when compiling, its contents are undefined."""
    raise AssertionError


# ---------------------------------------------------------------------- constant memory
def _const_typing(values: Type, dtype: Type) -> Resolved:
    element = _dtype("const_mem", dtype, "const_mem((0.25, 0.5, 0.25), kaio.f32)")
    array = np.array(_numbers(values, element), element.numpy)
    if array.nbytes > MOST_CONSTANT_NBYTES:
        raise RuleError(f"this array takes {array.nbytes} bytes, and constant memory holds {MOST_CONSTANT_NBYTES}")
    return Resolved((values, dtype), ArrayType("constant", element, array.shape, contents=array.tobytes()))


def _numbers(values: Type, dtype: DType) -> Any:
    """The numbers of a tuple, or of tuples of one length."""
    if isinstance(values, Weak) and values.value is not None:
        literals.check_fits(dtype, values)
        return nearest(dtype, values.value) if dtype.is_float else values.value
    if not isinstance(values, TupleType):
        raise RuleError(
            f"`const_mem` takes a tuple of literals, not {show(values)}",
            "for example `const_mem((0.25, 0.5, 0.25), kaio.f32)`; a NumPy array from outside is constant by itself",
        )
    rows = [_numbers(item, dtype) for item in values.items]
    if len({np.shape(row) for row in rows}) > 1:
        raise RuleError("the rows of `const_mem` have different lengths")
    return rows


@intrinsic(
    _const_typing,
    emit=lambda e, call, values, dtype: None,
    example="""\
taps = kaio.const_mem((0.25, 0.5, 0.25), kaio.f32)
out[i] = x[i] * taps[n[i] % 3]""",
    ptx="ld.const",
)
def const_mem(values: Any, dtype: type[T]) -> In[T, Any]:
    """An array of these numbers, a tuple of literals (or of tuples), in constant memory: read only, and the same for
    all threads.

    A NumPy array from outside that a kernel names is constant memory, too.
    """
    raise AssertionError


# ---------------------------------------------------------------------- len
def _len_typing(value: Type) -> Resolved:
    if isinstance(value, Compound) and value.is_sequence:
        return Resolved((value,), Weak("i", (len(value.items),)))
    if isinstance(value, ArrayType):
        return Resolved((value,), Weak("i", (value.shape[0],)))
    if isinstance(value, BufferType) and value.ndim:
        return Resolved((value,), value.index)
    raise RuleError(f"{show(value)} has no length")


def _len_emit(e: Emitter, call: TypedCall, value: Any) -> Any:
    return None if isinstance(call.result, Weak) else value.sizes[0]


def _len(value: Any, /) -> None: ...


standard(
    builtins.len,
    _len_typing,
    _len_emit,
    _len,
    "Python's `len`: the size of the first axis of a buffer or array, or the length of a tuple.",
    example="counts[i] = len(x) + len((1, 2))",
    ptx="ld.param.u32",
)
