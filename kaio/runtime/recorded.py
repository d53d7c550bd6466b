"""`Recorded`: one piece of work in a graph, and `Edges`: what of a graph comes before what.

A graph keeps the order that the recorded program has on streams: work of one stream in order, and work that uses memory
after the earlier work on other streams that wrote it, or reads what it is about to write. These are its edges, found
when the work is recorded and again when its arguments change; nothing else holds two pieces of work apart.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Never, Protocol

from kaio.errors import KaioError
from kaio.runtime.completion import Completion

if TYPE_CHECKING:
    from kaio.runtime.memory import Memory
    from kaio.runtime.stream import Launch, Stream, Uses

__all__ = ["Call", "Edges", "Recorded"]


class Call(Protocol):
    """The call of a kernel that made a recorded launch, from which another one with other arguments can be made."""

    @property
    def names(self) -> Sequence[str]:
        """The parameters of its buffers, in the order of their uses."""

    def ready(self, changes: dict[str, Any]) -> tuple[Stream, Launch]:
        """Check it with these arguments changed."""

    def accept(self, changes: dict[str, Any]) -> None:
        """The graph has the changes: they are arguments of the next call that is made of this one."""


class Recorded(Completion):
    """Work in a graph: what a launch, a copy or a fill gives while a graph is recorded.

    It is not started by what records it, and runs whenever the graph is launched: waiting for it raises KaioError.
    `graph.update(recorded, …)` changes the arguments of a launch.
    """

    number: int  # in its graph
    uses: Uses
    memories: tuple[Memory, ...]  # of the uses: a view that is closed has its own no more
    joined: tuple[int, ...] = ()  # work that was waited for when this was recorded
    after: tuple[int, ...] = ()  # the edges to it: work of the graph that it directly follows
    before: int = 0  # a bit for each piece of work that is done when this starts
    call: Call | None = None

    def __init__(self, stream: Stream, what: str, loaded: Any, uses: Uses) -> None:
        self.stream, self._what, self._loaded = stream, what, loaded
        self.use(uses)

    def use(self, uses: Uses) -> None:
        """Set the buffers that it uses."""
        self.uses = tuple(uses)
        self.memories = tuple(buffer.memory for buffer, _ in self.uses)

    def _refuse(self) -> Never:
        raise KaioError(
            f"{self._spelled()} was recorded in a graph and did not run",
            help="launch the graph once it is recorded, and wait for that: `graph.launch().wait()`",
        )

    @property
    def is_done(self) -> bool:
        """Raises KaioError: the work runs each time the graph is launched."""
        self._refuse()

    def _poll(self) -> bool:
        return False

    def _block(self, timeout_s: float | None) -> bool:
        self._refuse()

    def _arrive(self) -> Generator[Any, Any, None]:
        self._refuse()

    def _listen(self, listener: Any) -> None:
        self._refuse()

    @property
    def elapsed_ms(self) -> float:
        """Raises KaioError: the work runs each time the graph is launched."""
        self._refuse()

    def operand(self, number: int) -> str:
        """One of the uses in words."""
        if self.call is not None:
            return f"argument `{self.call.names[number]}` of {self._spelled()}"
        sides = {"copy": ("target", "source"), "fill": ("target",)}.get(self._what, ())
        return (
            f"the {sides[number]} of {self._spelled()}" if number < len(sides) else f"an operand of {self._spelled()}"
        )

    def __repr__(self) -> str:
        return f"<Completion of {self._described()}, recorded>"


@dataclass(slots=True)
class _Use:
    """Who used some memory: the last that wrote it, with those that nothing orders with it, and readers since."""

    writers: set[int] = field(default_factory=set)
    readers: set[int] = field(default_factory=set)


class Edges:
    """Finds for each piece of work of a graph, in the order of the recording, which others it comes after."""

    def __init__(self) -> None:
        self._tails: dict[Stream, int] = {}
        self._uses: dict[Memory, _Use] = {}

    def find(self, work: Recorded) -> set[int]:
        """What the next piece of work has to wait for, all of it."""
        found = set(work.joined)
        tail = self._tails.get(work.stream)
        if tail is not None:
            found.add(tail)
        self._tails[work.stream] = work.number
        is_managed = work.stream.policy.ordering == "managed"
        accesses = zip(work.memories, work.uses, strict=True)
        uses = [(self._uses.setdefault(memory, _Use()), access != "In") for memory, (_, access) in accesses]
        if is_managed:
            for use, writes in uses:
                found |= use.writers | use.readers if writes else use.writers
        for use, writes in uses:
            if writes and is_managed:
                use.writers, use.readers = {work.number}, set()
            elif writes:
                use.writers.add(work.number)
            else:
                use.readers.add(work.number)
        found.discard(work.number)
        return found

    @staticmethod
    def place(work: Recorded, wanted: Iterable[int], earlier: Sequence[Recorded]) -> None:
        """Make edges of what a piece of work waits for, none for what comes before another one anyway."""
        kept, before = [], 0
        for number in sorted(wanted, reverse=True):
            if not before >> number & 1:
                kept.append(number)
                before |= earlier[number].before | 1 << number
        work.after, work.before = tuple(reversed(kept)), before
