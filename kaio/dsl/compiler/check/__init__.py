"""check: everything that a function's text shows to be wrong, all at once, before anything is compiled."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

from kaio.dsl.compiler.check.assigned import check_assigned
from kaio.dsl.compiler.check.buffers import check_buffers
from kaio.dsl.compiler.check.language import check_language
from kaio.dsl.compiler.check.names import check_names
from kaio.dsl.compiler.check.returns import check_returns
from kaio.dsl.compiler.check.scope import Scope
from kaio.dsl.compiler.check.waits import check_waits
from kaio.dsl.compiler.parse import parse
from kaio.dsl.compiler.signature import read_signature
from kaio.dsl.types import Signature
from kaio.errors import KernelSyntaxError, Mistake, is_message
from kaio.source import Source

__all__ = ["check", "check_specialisation", "read_kernel"]

__tracebackhide__ = is_message


def check(
    function: types.FunctionType,
    source: Source,
    signature: Signature | None,
    known: Mapping[str, Any] | None = None,
) -> None:
    """Check a kernel, or with no signature a device function.

    `known` are the parameters whose values the compiler knows, where it does: the literals and functions that a
    device function is called with. Raises one `KernelSyntaxError` with every mistake, in source order.
    """
    _raise(_mistakes(Scope(function, source, signature), known))


def check_specialisation(
    function: types.FunctionType, source: Source, signature: Signature | None, known: Mapping[str, Any]
) -> None:
    """Check once more for unset variables, with the constants and dtypes that a specialisation fixes, by name.

    At decoration ``if FLAG: y = x[i]`` sets `y`, since a use of it may be under ``if FLAG:`` again. Here it does so
    only if `FLAG` is true.
    """
    _raise(check_assigned(Scope(function, source, signature), known))


def read_kernel(function: types.FunctionType) -> tuple[Source, Signature]:
    """A kernel's source and signature, or one error with the mistakes of its parameters and of its body."""
    __tracebackhide__ = is_message
    source = parse(function)
    signature, mistakes = read_signature(function, source)
    _raise([*mistakes, *_mistakes(Scope(function, source, signature))])
    return source, signature


def _mistakes(scope: Scope, known: Mapping[str, Any] | None = None) -> Iterable[Mistake]:
    yield from check_language(scope)
    yield from check_names(scope)
    yield from check_assigned(scope, known)
    yield from check_buffers(scope)
    yield from check_returns(scope)
    yield from check_waits(scope)


def _raise(mistakes: Iterable[Mistake]) -> None:
    __tracebackhide__ = is_message
    found = sorted(dict.fromkeys(mistakes), key=_position)
    if found:
        raise KernelSyntaxError(found)


def _position(mistake: Mistake) -> tuple[int, int]:
    return (mistake.place.line, mistake.place.column) if mistake.place else (0, 0)
