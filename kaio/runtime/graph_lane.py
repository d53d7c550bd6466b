"""What stands for a stream while a graph is recorded, on every device: what is put on it goes into the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.errors import LaunchError
from kaio.runtime.recorded import Recorded
from kaio.runtime.stream import Stream

if TYPE_CHECKING:
    from typing import Self

    from kaio.runtime.completion import Completion
    from kaio.runtime.graph import Graph
    from kaio.runtime.stream import Uses

__all__ = ["GraphLane"]


class GraphLane(Stream):
    """Comes before the stream of a device among the bases of a class, whose `launch`, `run` and `submit` record."""

    _graph: Any  # that of the device
    _of: Any  # the stream that this stands for

    @classmethod
    def make_for(cls, graph: Graph, stream: Stream) -> Self:
        """One for a stream; kernels keep its priority."""
        make: Any = cls.make  # type: ignore[attr-defined]  # of the stream of the device
        self: Self = make(graph.device, stream.priority, stream.policy._replace(completion="adaptive"))
        self._graph, self._of = graph, stream
        return self

    def _lane(self) -> None:
        return None

    def wait_recorded(self, earlier: Completion | Stream) -> None:
        """See `Stream.wait_for`."""
        self._graph.wait_for(self._of, earlier)

    def _recorded(self, what: str, loaded: Any, uses: Uses, timed: bool) -> Recorded:
        """A new piece of work of the graph, or LaunchError for one that is timed."""
        work = Recorded(self._of, what, loaded, uses)
        if timed:
            raise LaunchError(
                f"{work._spelled()} is launched with `timed=True` while a graph is recorded",
                help="time the graph: `graph.launch(timed=True)`",
            )
        return work
