"""How a kernel is to be compiled, as its decorator says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from kaio.errors import KaioError, did_you_mean, is_message

__all__ = ["CompileOptions", "check_options"]

__tracebackhide__ = is_message


@dataclass(frozen=True)
class CompileOptions:
    """Options of `@kaio.kernel`.

    contract: fuse a product with the addition or subtraction of the same expression
    fastmath: on a GPU flush subnormals of f32, divide, take roots and compute sin, exp, log and the like approximately;
        `isnan`, `isinf` and comparisons still work, and the CPU device computes as without it (docs/math.md)
    max_registers: at most so many registers a thread
    launch_bounds: never launched with more threads a block
    """

    contract: bool = True
    fastmath: bool = False
    max_registers: int | None = None
    launch_bounds: int | None = None


def check_options(options: CompileOptions, unknown: Iterable[str]) -> None:
    """Raise KaioError unless each option has a value that it takes, and there are no `unknown` ones."""
    __tracebackhide__ = is_message
    for name in unknown:
        raise _no_option(name)
    for name, value in (("contract", options.contract), ("fastmath", options.fastmath)):
        if not isinstance(value, bool):
            raise KaioError(f"option `{name}` of `@kaio.kernel` is True or False (got {value!r})")
    _check_count("max_registers", options.max_registers, 16, 255)
    _check_count("launch_bounds", options.launch_bounds, 1, 1024)


def _no_option(name: str) -> KaioError:
    names = [field.name for field in fields(CompileOptions)]
    way_out = did_you_mean(name, names) or f"it takes {', '.join(f'{option}=' for option in names)}"
    return KaioError(f"`@kaio.kernel` has no option `{name}`", help=way_out)


def _check_count(name: str, value: Any, low: int, high: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise KaioError(f"`{name}` of a kernel is a whole number from {low} to {high} (got {value!r})")
