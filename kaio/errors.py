"""Every exception of kaio, and the one function that lays a message out.

A message says what is wrong with which value, where, and the way out::

    `u64 + i32` has no exact common type
      examples/count.py:12:13, in count
            total = n + i
                    ^^^^^
      help: cast one side, for example `n + kaio.u64(i)`
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from unicodedata import combining, east_asian_width

__all__ = [
    "BufferClosedError",
    "CompileError",
    "CompletionTimeout",
    "ContextPoisonedError",
    "DeviceNotFoundError",
    "InternalError",
    "KaioError",
    "KernelFault",
    "KernelSyntaxError",
    "KernelTypeError",
    "LaunchError",
    "LibraryError",
    "Mistake",
    "OutOfMemoryError",
    "Place",
    "PrecisionWarning",
    "StaleBufferError",
    "UnsupportedFeatureError",
]


@dataclass(frozen=True)
class Place:
    """A stretch of source: 1-based line, 0-based columns, the function it is in, and the line's text."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def excerpt(self) -> list[str]:
        """The place, the source line and a caret line under the stretch, ready to print."""
        lines = [f"  {self}" + (f", in {self.function}" if self.function else "")]
        if self.text.strip():
            before, marked = self.text[: self.column], self.text[self.column : self.end_column]
            lines.append(f"      {self.text}")
            lines.append("      " + " " * _width(before) + "^" * max(1, _width(marked)))
        return lines


def _width(text: str) -> int:
    """Columns of a terminal: East Asian wide characters take two, combining ones none."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong: what, where (if known), the way out, and the calls that led there."""

    what: str
    place: Place | None = None
    help: str | None = None
    trace: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return layout(self.what, self.place, self.help, self.trace)


def layout(what: str, place: Place | None = None, help: str | None = None, trace: Iterable[Place] = ()) -> str:
    """Lay one message out: what is wrong, where with a caret, who called it, and the way out."""
    lines = [what]
    if place is not None:
        lines += place.excerpt()
    lines += [f"  called from {caller}" + (f", in {caller.function}" if caller.function else "") for caller in trace]
    if help:
        lines.append(f"  help: {help}")
    return "\n".join(lines)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The way out for a name that is none of these, if one of them was probably meant."""
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean `{near[0]}`?" if near else None


class KaioError(Exception):
    """Base of all errors of kaio.

    `mistakes` holds every mistake that was found, in source order; the text shows them all.
    """

    mistakes: tuple[Mistake, ...]

    def __init__(
        self, what: str | Iterable[Mistake], *, place: Place | None = None, help: str | None = None, **facts: Any
    ) -> None:
        self.mistakes = (Mistake(what, place, help),) if isinstance(what, str) else tuple(what)
        self.facts = facts
        super().__init__("\n\n".join(map(str, self.mistakes)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.mistakes, self.facts)


def is_message(excinfo: Any) -> bool:
    """Whether pytest shows an error without the frames that set `__tracebackhide__` to this: it is for the user.

    IPython hides frames that set it to anything. What is wrong in kaio itself keeps its frames.
    """
    problem = getattr(excinfo, "value", None)
    return isinstance(problem, KaioError) and not isinstance(problem, InternalError)


def _rebuild(cls: type[KaioError], mistakes: tuple[Mistake, ...], facts: dict[str, Any]) -> KaioError:
    return cls(mistakes, **facts)


class KernelSyntaxError(KaioError):
    """A kernel uses a part of Python that kernels do not have. (Not a `SyntaxError`: IPython drops its text.)"""


class KernelTypeError(KaioError):
    """Types in a kernel do not fit together."""


class CompileError(KaioError):
    """A kernel is right in itself but cannot be compiled for the target (size, limit, toolchain)."""


class LaunchError(KaioError):
    """A launch was asked for with a wrong count, type, shape, geometry or alias; nothing was launched."""


class StaleBufferError(KaioError):
    """A buffer, or what was bound to it, is of an earlier generation."""


class BufferClosedError(KaioError):
    """A buffer was used after `close()`."""


class OutOfMemoryError(KaioError):
    """A device has no memory left; the text says what was asked, what is free and who holds most."""


class KernelFault(KaioError):
    """A kernel failed while it ran: an index out of range, an assertion, a driver fault.

    `facts` says what, by name: `kernel`, and where they are known `line`, `block`, `thread` and more.
    """

    @property
    def kind(self) -> str:
        """What was found: ``index``, ``assert``, ``race``, ``coverage`` …; empty of a fault of the driver."""
        return str(self.facts.get("kind", ""))


class ContextPoisonedError(KaioError):
    """A CUDA context faulted earlier in this process and cannot be used again; `fault` is what happened first."""

    @property
    def fault(self) -> KaioError | None:
        """The first fault."""
        cause = self.facts.get("fault")
        return cause if isinstance(cause, KaioError) else None


class LibraryError(KaioError):
    """A library other than kaio failed inside a managed stream; `library` is its name."""

    @property
    def library(self) -> str:
        """The name of the library."""
        return str(self.facts.get("library", ""))


class CompletionTimeout(KaioError, TimeoutError):
    """Work was not done within the time given to `wait`; the work goes on."""


class DeviceNotFoundError(KaioError):
    """There is no such device, or its driver does not work."""


class UnsupportedFeatureError(KaioError):
    """The device or target does not have what was asked for."""


class InternalError(KaioError):
    """kaio itself is wrong; please report it with the kernel."""


class PrecisionWarning(UserWarning):
    """An f32 made from int `/` or from literals alone is converted to f64: digits are already lost."""
