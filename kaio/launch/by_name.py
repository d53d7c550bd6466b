"""Constants and dtypes of a specialisation given by name, as `kernel.ptx` and its kin take them."""

from __future__ import annotations

from typing import Any, TypeVar

from kaio.dsl.types import MISSING, ConstAnnotation
from kaio.dtypes import DType, dtype_of
from kaio.errors import LaunchError, is_message
from kaio.launch.arguments import Parameters
from kaio.launch.scalars import constant

__all__ = ["consts_and_dtypes"]

__tracebackhide__ = is_message


def consts_and_dtypes(
    parameters: Parameters, given: dict[str, Any], call: str
) -> tuple[dict[str, Any], dict[str, DType]]:
    """Constants by parameter and dtypes by TypeVar, or LaunchError; `call` is how the method was called so far.

    A dtype is given under the name of its TypeVar or of a parameter that has it.
    """
    left = dict(given)
    consts = _consts(parameters, left, call)
    dtypes = {generic.__name__: _dtype(parameters, generic, left, call) for generic in parameters.generics}
    if left:
        raise LaunchError(
            f"kernel `{parameters.kernel}` has no constant or dtype `{next(iter(left))}`",
            help=f"its parameters are `{parameters.signature}`",
        )
    return consts, dtypes


def _consts(parameters: Parameters, left: dict[str, Any], call: str) -> dict[str, Any]:
    consts: dict[str, Any] = {}
    for param in parameters.params:
        if isinstance(param.annotation, ConstAnnotation):
            value = left.pop(param.name, param.default)
            if value is MISSING:
                raise LaunchError(
                    f"kernel `{parameters.kernel}` is compiled for a value of its constant `{param.name}`",
                    help=f"name it, as in `{call}{param.name}=…)`",
                )
            consts[param.name] = constant(parameters.kernel, param.name, param.annotation.of, value)
    return consts


def _dtype(parameters: Parameters, generic: TypeVar, left: dict[str, Any], call: str) -> DType:
    having = [p.name for p in parameters.params if getattr(p.annotation, "dtype", None) is generic]
    found = [left.pop(name) for name in (generic.__name__, *having) if name in left]
    if not found:
        raise LaunchError(
            f"kernel `{parameters.kernel}` is compiled for a dtype of its `{generic.__name__}`",
            help=f"name it, as in `{call}{generic.__name__}=kaio.f32)`",
        )
    dtype = dtype_of(found[0])
    if generic.__constraints__ and dtype not in generic.__constraints__:
        allowed = ", ".join(map(repr, generic.__constraints__))
        raise LaunchError(
            f"`{generic.__name__}` of kernel `{parameters.kernel}` must be one of {allowed} (got {dtype!r})"
        )
    return dtype
