"""Where a thread is: its index in the block, in the grid, and loops over ranges."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Literal, overload

from kaio.dsl import literals, rules
from kaio.dsl.casts import number
from kaio.dsl.intrinsic import Namespace, Resolved, intrinsic, standard
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import INDEX64, RangeType, TupleType, Type, Weak, show
from kaio.dtypes import DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["block_dim", "block_idx", "grid", "grid_dim", "thread_idx"]

thread_idx = Namespace("thread_idx", "tid", "This thread's position in its block; i32.")
block_idx = Namespace("block_idx", "ctaid", "This block's position in the grid; i32.")
block_dim = Namespace("block_dim", "ntid", "Threads of a block in each axis; i32.")
grid_dim = Namespace("grid_dim", "nctaid", "Blocks of the grid in each axis; i32.")


def _grid_typing(ndim: Type) -> Resolved:
    if not isinstance(ndim, Weak) or ndim.value not in (1, 2, 3):
        raise RuleError(f"`grid` takes the literal 1, 2 or 3, not {show(ndim)}")
    count = int(ndim.value)
    # `index` stands for the index type of the variant, which inference puts in
    return Resolved((ndim,), INDEX64 if count == 1 else TupleType((INDEX64,) * count), (count,))


def _grid_emit(e: Emitter, call: TypedCall, _: Any) -> Any:
    position = call.result.items[0] if isinstance(call.result, TupleType) else call.result
    values = tuple(_global(e, axis, position) for axis in "xyz"[: call.static[0]])
    return values if isinstance(call.result, TupleType) else values[0]


def _global(e: Emitter, axis: Any, position: Any) -> Any:
    """block_idx * block_dim + thread_idx; a launch checks that it fits the index type."""
    block, size, thread = (
        e.convert(e.target.special_register(e, r, axis), i32, position) for r in ("ctaid", "ntid", "tid")
    )
    return e.b.add(e.b.mul(block, size, flags=("nsw",)), thread, flags=("nsw",))


@overload
def grid(ndim: Literal[1]) -> int: ...
@overload
def grid(ndim: Literal[2]) -> tuple[int, int]: ...
@overload
def grid(ndim: Literal[3]) -> tuple[int, int, int]: ...
@intrinsic(
    _grid_typing,
    emit=_grid_emit,
    example="col, row = kaio.grid(2)\ncounts[i] = col + 2 * row",
    ptx="%ctaid.y",
)
def grid(ndim: int) -> Any:
    """This thread's position in the whole grid: a number for 1, `(x, y)` for 2, `(x, y, z)` for 3.

    It has the index type: i32, or i64 where the launch needs it. `col, row = kaio.grid(2)` goes with `over(c.shape)`.
    """


def _range_typing(*bounds: Type) -> Resolved:
    numbers = [number(b, "a bound of `range`") for b in bounds]
    if any(n.kind not in ("i", "u") for n in numbers):
        written = ", ".join(str(n.value) if isinstance(n, Weak) and n.value is not None else show(n) for n in numbers)
        is_literal = any(isinstance(n, Weak) and n.kind == "f" for n in numbers)
        scale = "count in whole numbers and scale in the loop: `x = start + k * step`"
        raise RuleError(f"`range({written})` takes integers", scale if is_literal else "cast with `kaio.i32(...)`")
    step = numbers[2] if len(numbers) == 3 else Weak("i", (1,))
    if isinstance(step, Weak) and step.value == 0:
        raise RuleError("`range` with step 0")
    bounds_only = numbers[:2]
    merged = bounds_only[0]
    for other in bounds_only[1:]:
        merged = rules.common(merged, other, "in range with")
    dtype = literals.default(merged)
    if dtype.bits < 32:
        dtype = i32
    if isinstance(step, DType):
        dtype = literals.default(rules.common(dtype, step, "in range with"))
    for literal in numbers:
        if isinstance(literal, Weak) and not (literal is step and dtype.kind == "u"):
            literals.check_fits(dtype, literal)
    return Resolved(
        (dtype,) * len(numbers),
        RangeType(dtype, int(step.value) if isinstance(step, Weak) and step.value is not None else None),
    )


def _range_emit(e: Emitter, call: TypedCall, *bounds: Any) -> Any:
    from kaio.dsl.compiler.emission.loops import make_range

    assert isinstance(call.result, RangeType)
    return make_range(e, call.result, list(bounds))


def _range(start: int, stop: int = 0, step: int = 1, /) -> None: ...


standard(
    builtins.range,
    _range_typing,
    _range_emit,
    _range,
    "Python's `range`, for `for` loops; the loop variable has the bounds' common type, never narrower than i32.",
    example="for k in range(1, n[i]):\n    counts[i] += k",
    ptx="setp.lt.s32",
)
