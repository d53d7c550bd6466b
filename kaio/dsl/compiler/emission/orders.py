"""What orders threads beside barriers of all of a block, told to a target that keeps account of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.access import Access
    from kaio.dsl.compiler.emission.atomics import Update
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Orders"]


class Orders:
    """Takes no notice: what the targets have that check no order."""

    def fence(self, e: Emitter, scope: str) -> None:
        """A fence for the threads of ``block``, ``cluster``, ``device`` or ``system``."""

    def accessed(self, e: Emitter, pointer: Any, access: Access) -> None:
        """A strong load or store."""

    def updated(self, e: Emitter, update: Update, before: Any) -> None:
        """An atomic update was made, of what was `before`."""

    def arrive(self, e: Emitter) -> None:
        """The thread comes to a named barrier, where it is to meet its warp first."""

    def arrived(self, e: Emitter, number: Any, members: Any, completes: Any) -> None:
        """Lanes of a warp, an i32 with a bit each, have come to a named barrier, and complete it if that i1 says so."""

    def leave(self, e: Emitter, number: Any) -> None:
        """The thread goes on that has waited at a named barrier."""

    def commit_copies(self, e: Emitter) -> None:
        """The asynchronous copies that the thread has begun are a group."""

    def wait_for_copies(self, e: Emitter, groups: int) -> None:
        """The thread has waited until at most so many of its groups were under way."""
