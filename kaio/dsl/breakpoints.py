"""Python's `breakpoint` in a kernel: on the CPU device a thread stops there and can be looked at."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from kaio.dsl.intrinsic import Resolved, standard
from kaio.dsl.values import NONE
from kaio.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["BREAKPOINT"]


def _emit(e: Emitter, call: TypedCall) -> None:
    if e.target.name == "cuda":
        raise UnsupportedFeatureError(
            "`breakpoint()` stops a thread on the CPU device only",
            place=e.place,
            help='run the kernel there, `kaio.Device("cpu")`, or take it out',
        )
    e.notes.breaks(e)


def _breakpoint() -> None: ...


BREAKPOINT = standard(
    builtins.breakpoint, lambda: Resolved((), NONE), _emit, _breakpoint,
    "Python's `breakpoint`, on the CPU device: a thread stops, and a prompt like that of `pdb` shows its variables.\n\n"
    "`PYTHONBREAKPOINT` and `sys.breakpointhook` count as in Python. A kernel with it does not compile for a GPU.",
    example="if x[i] < 0:\n    breakpoint()\nout[i] = x[i]",
)  # fmt: skip
