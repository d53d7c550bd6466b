"""`acc: f32 = 0`: a variable whose first value is stored as in an element of its type, not cast."""

from __future__ import annotations

import builtins
import inspect
from typing import TYPE_CHECKING, Any

from kaio.dsl import literals, stores
from kaio.dsl.element_types import element_type
from kaio.dsl.elements import check_store
from kaio.dsl.intrinsic import Intrinsic, Resolved
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, ArrayType, ObjectType, Type, Weak, show
from kaio.dtypes import DType, f64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["annotated", "is_annotation"]


def is_annotation(value: Any) -> bool:
    """Whether a variable may be annotated with it: a dtype, or Python's `int`, `float` or `bool`."""
    return isinstance(value, DType) or any(value is python for python in (builtins.int, builtins.float, builtins.bool))


def _typing(annotation: Type, value: Type, name: Type) -> Resolved:
    assert isinstance(annotation, ObjectType)
    assert isinstance(name, ObjectType)
    wanted, given = annotation.value, value
    if not is_annotation(wanted):
        raise RuleError(
            f"`{name.value}` is annotated {show(annotation)}, which is no type of a variable", "for example `f32`"
        )
    spelled = wanted.name if isinstance(wanted, DType) else wanted.__name__
    if isinstance(wanted, DType) and element_type(wanted) is not wanted:  # of several parts
        check_store(ArrayType("local", wanted, (1,)), given, name.value, "...")
        return Resolved((annotation, element_type(wanted), name), element_type(wanted))
    if not isinstance(given, DType | Weak):
        raise RuleError(f"`{name.value}` is annotated {spelled} and given {show(given)}", "leave the annotation out")
    result = _as_python(wanted, given) if not isinstance(wanted, DType) else wanted
    if result is None:
        raise RuleError(f"`{name.value}` is annotated {spelled} and given {show(given)}", f"cast it: `{spelled}(...)`")
    if isinstance(wanted, DType):
        _check_store(wanted, given, name.value)
    return Resolved((annotation, result, name), result)


def _check_store(wanted: DType, given: DType | Weak, name: str) -> None:
    try:
        stores.store(given, wanted)
    except RuleError as problem:
        if problem.help is not stores.CAST_IT:
            raise
        raise RuleError(
            f"`{name}` is annotated {wanted.name} and given {show(given)}", f"cast it: `kaio.{wanted!r}(...)`"
        ) from None


def _as_python(wanted: type, given: DType | Weak) -> DType | Weak | None:
    """`int`, `float` and `bool` say the kind and leave the width; None where the value is of another kind."""
    if wanted is bool:
        return given if given is BOOL else None
    if wanted is float and isinstance(given, Weak):
        literals.check_fits(f64, given)
        return Weak("f", tuple(map(float, given.values)), given.named)
    return given if given is not BOOL and (given.is_float if wanted is float else given.kind in ("i", "u")) else None  # type: ignore[union-attr]


def _emit(e: Emitter, call: TypedCall, annotation: Any, value: Any, name: Any) -> Any:
    return value


def _signature(annotation: Any, value: Any, name: Any, /) -> None: ...


annotated = Intrinsic("annotated", _typing, _emit, signature=inspect.signature(_signature))
"""What `name: annotation = value` becomes; kernels cannot name it."""
