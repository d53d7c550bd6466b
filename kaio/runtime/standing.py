"""A thread of a kernel that stands still, as Python frames: debuggers of Python look at it as at any other code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType
from typing import Any

from kaio import trace_abi as abi
from kaio.runtime.watch import Moment

__all__ = ["call_inside", "frames_of"]

_CALL = "__kaio_call__"


def call_inside(moment: Moment, function: Callable[[], Any]) -> None:
    """Call `function` as from the line that the thread is at: in a frame with its variables as locals.

    Around it are the frames of the functions that call it, the kernel outermost. Arrays are NumPy arrays over their
    memory.
    """
    *outer, (frame, line) = moment.calls
    call = partial(_run, moment, frame, line, function)
    for frame, line in reversed(outer):
        call = partial(_run, moment, frame, line, call)
    call()


def frames_of(moment: Moment, function: Callable[[list[FrameType]], Any]) -> Any:
    """What `function` gives for these frames, the kernel's first, while they are there."""
    results: list[Any] = []

    def found() -> None:
        here: FrameType | None = sys._getframe(1)
        frames: list[FrameType] = []
        while here is not None and len(frames) < len(moment.calls):
            if _CALL in here.f_globals:
                frames.insert(0, here)
            here = here.f_back
        results.append(function(frames))

    call_inside(moment, found)
    return results[0]


def _run(moment: Moment, frame: abi.Frame, line: int, call: Callable[..., Any]) -> None:
    """Run the code of one frame, which is that call at that line."""
    variables = {seen.name: seen.value for seen in moment.variables(frame)}
    space = {**_globals_of(frame.source.filename), _CALL: call}
    exec(_code(frame, line), space, variables)


def _code(frame: abi.Frame, line: int) -> CodeType:
    first = frame.source.first_line
    code = compile("\n" * (line - first) + f"{_CALL}()", frame.source.filename, "exec")
    return code.replace(co_name=frame.function, co_firstlineno=first)


def _globals_of(filename: str) -> dict[str, Any]:
    """The names of the module that a file is of; of none that is known those of `__main__`, as in a notebook."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return vars(module)
    return vars(sys.modules["__main__"])
