"""What the walk over a function comes to, told to a target that keeps note of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler import ir
from kaio.dsl.values import Type

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Notes"]


class Notes:
    """Takes no notice: what the targets have that watch nobody."""

    def enter(self, e: Emitter) -> None:
        """A function begins, the innermost of `e.frames`; the builder stands before its first block."""

    def block(self) -> None:
        """A block of the function begins."""

    def line(self, e: Emitter, what: ir.Statement | ir.Terminator) -> None:
        """A statement of the IR, or the end of a block, is about to be walked."""

    def assigned(self, e: Emitter, assign: ir.Assign) -> None:
        """A name was set; its value is in the frame."""

    def stored(self, e: Emitter, statement: ir.SetItem) -> None:
        """A store was made."""

    def branches(self, e: Emitter, name: str, condition: Any) -> None:
        """A branch is about to be taken, by the i1 that `name` became."""

    def called(self, e: Emitter, call: ir.TypedCall, values: Sequence[Any], result: Any) -> None:
        """A record was called with these values, converted to its operands, and gave that."""

    def waits(self, e: Emitter) -> None:
        """The thread is about to wait for others, in the record `e.operation`."""

    def leaves(self, e: Emitter, value: Any, type_: Type) -> None:
        """The function returns a value."""

    def breaks(self, e: Emitter) -> None:
        """The thread comes to a `breakpoint()`."""
