"""Graphs of the CPU device: a list of calls, which is one piece of work on a stream each time it is launched.

The calls are made in the order of the recording, which keeps all edges. What `check="full"` knows of memory and of the
order of work goes by each call, as it does without a graph: two launches of a graph that nothing orders race.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kaio.runtime.completion import Completion
from kaio.runtime.cpu_stream import CpuCompletion, CpuStream, Enqueued, wait_at_prompt
from kaio.runtime.graph import Graph
from kaio.runtime.graph_lane import GraphLane
from kaio.runtime.launch_order import LaunchOrder, Moment
from kaio.runtime.recorded import Recorded
from kaio.runtime.stream import Launch, Stream, Uses

if TYPE_CHECKING:
    from kaio.runtime.cpu_device import CpuDevice
    from kaio.runtime.memory import Memory
    from kaio.runtime.overlaps import Flight

__all__ = ["CpuGraph"]


@dataclass(frozen=True)
class _Kernel:
    """A kernel with its arguments."""

    launch: Launch

    @staticmethod
    def of(launch: Launch) -> _Kernel:
        """One with arguments of its own."""
        return _Kernel(launch._replace(arguments=bytes(launch.arguments)))

    def bind(self, workers: Any, unwritten: list[Any]) -> Callable[..., object]:
        """What runs it once."""
        loaded, grid, block, arguments, _, shared_nbytes, _, _, options = launch = self.launch
        return partial(
            loaded.kernel.run, grid, block, arguments, workers, shared_nbytes, launch.cluster, options, unwritten
        )


@dataclass(frozen=True)
class _Library:
    """The call of another library, made by each launch of the graph."""

    enqueue: Callable[[Stream], object]
    uses: Uses
    keep: Any
    library: str


class _Line:
    """What stands for a stream inside of a graph, where the order of work is looked at."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class _Step:
    """One call of a launch of a graph."""

    work: Recorded
    call: Callable[..., object]
    flight: Flight | None = None


class CpuGraph(Graph):
    """A graph of the CPU device."""

    device: CpuDevice
    _calls: list[_Kernel | _Library | Callable[[], object]]  # of the works
    _lines: dict[Stream, _Line]
    _last_launch: Callable[[], CpuCompletion | None]

    def _begin(self) -> None:
        self._calls, self._lines, self._last_launch = [], {}, lambda: None

    def _make_lane(self, stream: Stream) -> Stream:
        assert isinstance(stream, CpuStream)
        return CpuLane.make_for(self, stream)

    def _abandon(self) -> None:
        self._calls = []

    def record(self, work: Recorded, call: _Kernel | _Library | Callable[[], object]) -> None:
        """Note one more call. The lock of the device is held."""
        self.add(work)
        self._calls.append(call)
        self._lines.setdefault(work.stream, _Line())

    def _change(self, work: Recorded, launch: Launch, missing: Sequence[tuple[int, int]]) -> None:
        self._calls[work.number] = _Kernel.of(launch)
        self.order_anew(missing)

    # Launching.

    def _submit(self, stream: Stream, timed: bool) -> Completion:
        assert isinstance(stream, CpuStream)
        with self.device._lock:
            last = self._last_launch()
            if last is not None and not last._finished and last.stream is not stream:
                stream.wait_for(last)  # also where it writes nothing that orders them
            for memory in self._overwritten:
                memory.overwrite()
            unwritten = {buffer.memory: buffer.memory.unwritten for buffer, _ in self._uses}
            steps = self._steps(stream, unwritten)
            done = stream.submit(
                partial(self._run, steps), self._uses, timed, what=self._what,
                place=partial(self._place, stream, steps),
            )  # fmt: skip
            for memory, kept in unwritten.items():
                memory.unwritten = kept
            self._last_launch = weakref.ref(done)
        if any(isinstance(call, _Kernel) and call.launch.loaded.kernel.breaks for call in self._calls):
            wait_at_prompt(done)
        return done

    def _steps(self, stream: CpuStream, unwritten: dict[Memory, Any]) -> list[_Step]:
        """What one launch of the graph does; `unwritten` is what nobody has written before, and then after it."""
        steps = []
        for work, call in zip(self._works, self._calls, strict=True):
            if isinstance(call, _Library):
                steps.append(_Step(work, Enqueued(stream, call.enqueue, call.uses, call.keep, call.library)))
            elif not isinstance(call, _Kernel):
                steps.append(_Step(work, call))
            elif call.launch.loaded.is_full:  # which says itself where it writes
                launch = call.launch
                flight = self.device.watch(launch.loaded, launch.grid, launch.block, work.uses, launch.options.schedule)
                maps = [unwritten[memory] for memory in work.memories]
                steps.append(_Step(work, call.bind(self.device.workers, maps), flight))
                continue
            else:
                steps.append(_Step(work, call.bind(self.device.workers, [])))
            unwritten.update((memory, None) for memory, (_, access) in _accesses(work) if access != "In")
        return steps

    def _place(self, stream: CpuStream, steps: list[_Step], order: LaunchOrder) -> Moment:
        """Each of its works has a moment of its own, behind what it follows; later work comes after all of them."""
        start = order.submit(stream, ())
        moments: list[Moment] = []
        for step in steps:
            after = [start, *(moments[number] for number in step.work.joined)]
            moments.append(order.submit(self._lines[step.work.stream], step.work.uses, after=after))
            if step.flight is not None:
                self.device.overlaps.start(step.flight, moments[-1])
        return order.submit(stream, (), after=moments)

    def _run(self, steps: list[_Step]) -> None:
        for number, step in enumerate(steps):
            try:
                if step.flight is None:
                    step.call()
                else:
                    self.device.overlaps.run(step.flight, step.call)
            except BaseException:
                for later in steps[number + 1 :]:
                    if later.flight is not None:
                        self.device.overlaps.drop(later.flight)
                raise


def _accesses(work: Recorded) -> Any:
    return zip(work.memories, work.uses, strict=True)


class CpuLane(GraphLane, CpuStream):
    """What stands for a stream while a graph is recorded: what is put on it goes into the graph."""

    def launch(self, launch: Launch) -> Completion:
        """Record a launch; see `Stream.launch`."""
        if 0 in launch.grid:
            return Completion.completed(self._of)
        if launch.grid != (1, 1, 1):
            self.device.workers.start()  # here, as Python may be about to end when the graph is launched
        done: Recorded = self.submit(_Kernel.of(launch), launch.uses, launch.timed, launch.loaded)
        return done

    def run(self, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str) -> Completion:
        """Record the call of a library; see `Stream.run`."""
        done: Recorded = self.submit(_Library(enqueue, uses, keep, library), uses, what=f"work of {library}")
        return done

    def submit(
        self,
        call: Any,
        uses: Uses,
        timed: bool = False,
        loaded: Any = None,
        what: str = "work",
        flight: Flight | None = None,
        place: Callable[[LaunchOrder], Moment] | None = None,
    ) -> Any:
        """Record a call."""
        work = self._recorded(what, loaded, uses, timed)
        with self.device._lock:
            self._graph.record(work, call)
        return work
