"""`Graph`: work recorded once, to be launched again and again as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Self

from kaio.errors import BufferClosedError, KaioError, LaunchError, StaleBufferError
from kaio.runtime.completion import Completion
from kaio.runtime.elsewhere import Shown, answer, visible
from kaio.runtime.foreign_stream import is_foreign_stream
from kaio.runtime.recorded import Edges, Recorded
from kaio.runtime.stream import Launch, Stream, works_of

if TYPE_CHECKING:
    from kaio.runtime.device import Device
    from kaio.runtime.memory import Memory
    from kaio.runtime.stream import Uses

__all__ = ["Graph"]

_PUBLIC = frozenset(("device", "explain", "launch", "launches", "update"))


class Graph(metaclass=Shown):
    """Work of a device recorded once, and launched as one, made by `device.graph()`.

    Inside `with device.graph() as graph:` launches, copies between buffers of the device, fills and `kaio.run` work are
    recorded, on whichever stream they are, and nothing runs; what gives a Completion otherwise gives one that says so.
    `graph.launch()` runs all of it, with the same results as the block run without a graph: each piece of work comes
    after the earlier work of its stream, and after what used its buffers before; what is independent overlaps.

    The buffers live as long as the graph. What goes through the host is no part of a graph and raises KaioError inside:
    `to_host`, `alloc_from`, waiting. Memory may be made inside: that of `alloc_empty` is made once, and `alloc_zeros`
    sets it to zero at each launch of the graph. An exception inside ends the recording, and the device goes on.

    >>> import numpy as np, kaio
    >>> @kaio.kernel
    ... def double(x: kaio.InOut[kaio.f32]):
    ...     i = kaio.grid(1)
    ...     if i < x.size:
    ...         x[i] = 2 * x[i]
    >>> device = kaio.Device("cpu")
    >>> x = device.alloc_from(np.ones(3, np.float32))
    >>> with device.graph() as graph:
    ...     for _ in range(3):
    ...         _ = double.over(x.size).launch(x)
    >>> graph.launch().wait()
    >>> x.to_host()
    array([8., 8., 8.], dtype=float32)
    """

    _public = _PUBLIC
    device: Device
    _state: Literal["new", "recording", "ready", "failed"]
    _problem: BaseException | None  # what was caught inside, and left the recording without a part
    _works: list[Recorded]
    _edges: Edges
    _joined: tuple[int, ...]
    _uses: Uses  # of all the work: each memory once
    _overwritten: tuple[Memory, ...]  # what it first fills as a whole, so that it does not matter how it got there
    _loaded: tuple[Any, ...]  # the programs of its kernels, each once
    _what: str  # the graph in a few words
    _generation: int
    is_enqueuing = False  # a library puts its work in, beside which nothing else can be put in
    _waits: dict[Stream, list[int]]  # what the next work on a stream comes after
    _lanes: dict[Stream, Stream]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a Graph is made by a device: `with device.graph() as graph:`")

    @classmethod
    def make(cls, device: Device) -> Self:
        """A graph that is to be recorded; for devices."""
        self = object.__new__(cls)
        self.device, self._state, self._problem = device, "new", None
        self._works, self._edges, self._joined, self._waits, self._lanes = [], Edges(), (), {}, {}
        self._uses, self._overwritten, self._loaded, self._what = (), (), (), "graph"
        self._generation = device.generation
        return self

    # What a device provides.

    def _begin(self) -> None:
        """Start to record."""

    def _make_lane(self, stream: Stream) -> Stream:
        """What stands for a stream while the graph is recorded: a stream whose work is put into the graph."""
        raise NotImplementedError

    def _build(self) -> None:
        """Make what was recorded ready to be launched."""

    def _abandon(self) -> None:
        """Let go of what there is: the recording failed."""

    def _submit(self, stream: Stream, timed: bool) -> Completion:
        """Launch it on a stream."""
        raise NotImplementedError

    def _change(self, work: Recorded, launch: Launch, missing: Sequence[tuple[int, int]]) -> None:
        """Let a launch have other arguments, and let the graph have these edges more; nothing changes if it fails."""
        raise NotImplementedError

    # Recording.

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise KaioError("a graph is recorded once", help="make another: `with device.graph() as graph:`")
        device = self.device
        device.check_usable()
        if device.recording() is not None:
            raise KaioError(
                f"a graph is recorded on {device} already, and one inside another is not possible",
                help="record both one after the other",
            )
        self._begin()
        self._state = "recording"
        device.start_recording(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.device.end_recording(self)
        self._lanes, self._waits = {}, {}
        self._edges = Edges()  # which holds streams and memory
        self._state = "failed"
        try:
            if error is None:
                if self._problem is not None:
                    raise self._incomplete()
                self._collect()
                self._build()
                self._state = "ready"
        finally:
            if self._state == "failed":
                self._works, self._uses, self._overwritten, self._loaded = [], (), (), ()
                self._abandon()

    def _incomplete(self) -> KaioError:
        found = KaioError(
            f"a part of this graph failed while it was recorded, and the block went on: {self._problem}",
            help="let such an exception leave the block, or record the graph without that part",
        )
        found.__cause__ = self._problem
        return found

    @property
    def is_recording(self) -> bool:
        """True inside of its block."""
        return self._state == "recording"

    def lane(self, stream: Stream) -> Stream:
        """What stands for a stream of the device while this graph is recorded."""
        found = self._lanes.get(stream)
        if found is None:
            found = self._lanes[stream] = self._make_lane(stream)
        return found

    def add(self, work: Recorded) -> None:
        """Record one more piece of work, behind all that it depends on. The lock of the device is held."""
        if self.is_enqueuing:
            raise KaioError(
                f"{work._spelled()} is recorded while `kaio.run` records the work of a library in the same graph",
                help="record it before or after that",
            )
        for number, (buffer, _) in enumerate(work.uses):
            if buffer.device is not self.device:
                raise LaunchError(f"{work.operand(number)} is on {buffer.device}, and the graph on {self.device}")
            buffer.check_usable()
        work.number, work.joined = len(self._works), (*self._joined, *self._waits.pop(work.stream, ()))
        Edges.place(work, self._edges.find(work), self._works)
        self._works.append(work)

    def drop_last(self) -> None:
        """Forget the last piece of work, which could not be recorded. The lock of the device is held."""
        self._works.pop()
        self._edges = Edges()
        for work in self._works:
            self._edges.find(work)

    def wait_for(self, stream: Stream, earlier: Completion | Stream) -> None:
        """What is recorded next on a stream comes after other work that was recorded; see `Stream.wait_for`."""
        last = self._last(earlier)
        for work in works_of(earlier) if last is None else (last,):
            if isinstance(work, Recorded) and work in self._works[work.number : work.number + 1]:
                self._waits.setdefault(stream, []).append(work.number)
            elif isinstance(work, Recorded) or not work.is_done:
                raise KaioError(
                    f"a stream waits for {work._spelled()}, which is no part of the graph that is recorded",
                    help="let the stream on which the graph is launched wait for it: `stream.wait_for(done)`",
                )

    def _last(self, stream: Any) -> Recorded | None:
        """The last work that was recorded on a stream."""
        return next((work for work in reversed(self._works) if work.stream is stream), None)

    def join(self, stream: Stream) -> None:
        """Leaving the block of a stream: what is recorded from now on comes after its work."""
        found = self._last(stream)
        if found is not None:
            last = found.number
            self._joined = (*(number for number in self._joined if not self._works[last].before >> number & 1), last)

    def fail(self, problem: BaseException) -> None:
        """A part of the work could not be recorded as a whole, so that the graph is of no use."""
        self._problem = self._problem or problem

    def _collect(self) -> None:
        """The uses of all work as those of one."""
        found: dict[Memory, list[Any]] = {}
        overwritten = []
        for work in self._works:
            for memory, (buffer, access) in zip(work.memories, work.uses, strict=True):
                if work._what == "fill" and memory not in found and buffer.nbytes == memory.nbytes:
                    overwritten.append(memory)
                use = found.setdefault(memory, [buffer, access])
                if access != use[1]:
                    use[1] = "InOut"
        self._uses = tuple((buffer, access) for buffer, access in found.values())
        self._overwritten = tuple(overwritten)
        self._loaded = tuple(dict.fromkeys(work._loaded for work in self._works if work._loaded is not None))
        names = [f"`{name}`" for name in dict.fromkeys(loaded.name for loaded in self._loaded)]
        listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        self._what = f"graph of kernel{'s' if len(names) > 1 else ''} {listed}" if names else "graph"

    # Launching.

    def launch(self, stream: Any = None, *, timed: bool = False) -> Completion:
        """Run all that was recorded, once, as one piece of work on `stream`, one of kaio or of another library; by
        default on the stream of a launch of the same buffers.

        It waits for the earlier work on its buffers, and later work on them waits for it, on whichever stream. Launches
        of one graph run one after the other. `timed=True` makes `elapsed_ms` of the completion known.

        Raises:
            BufferClosedError: a buffer was closed since; the message says which argument it was.
            StaleBufferError: the device lost its state since the graph was recorded.
        """
        self._check_ready("launched")
        device = self.device
        if device.recordings and device.recording() is not None:
            raise KaioError(
                "a graph is launched while another one is recorded, and cannot be a part of it",
                help="record its work there again: call what recorded it",
            )
        if stream is None:
            stream = device.stream_for(self._uses)
        elif not isinstance(stream, Stream) and is_foreign_stream(stream):
            stream = device.stream(foreign=stream)
        if not isinstance(stream, Stream) or stream.device is not device:
            raise LaunchError(f"a graph of {device} is launched on a stream of it (got {stream!r})")
        if device.generation != self._generation:
            self._refuse_stale()
        if not self._works:
            return Completion.completed(stream)
        try:
            done = self._submit(stream, timed)
        except BufferClosedError as problem:
            raise self._named(problem) from None
        if device.is_blocking:
            done.wait()
        elif stream.policy.completion == "sync":
            done._block(None)
        return done

    def _check_ready(self, what: str) -> None:
        if self._state == "ready":
            return
        if self._state == "recording":
            raise KaioError(f"a graph is {what} after its block: it is still recorded", help="leave the `with` first")
        if self._state == "new":
            raise KaioError(f"a graph is recorded before it is {what}", help="`with device.graph() as graph:`")
        raise KaioError(f"the recording of this graph failed, and it cannot be {what}", help="record another one")

    def _refuse_stale(self) -> Never:
        raise StaleBufferError(
            f"this graph was recorded in generation {self._generation} of {self.device}, which is in generation "
            f"{self.device.generation} now",
            help="record it again",
        )

    def _named(self, problem: BufferClosedError) -> BufferClosedError:
        """The same with the argument that was closed."""
        for work in sorted(self._works, key=lambda work: work.call is None):  # an argument has a name: those first
            for number, (buffer, _) in enumerate(work.uses):
                if buffer.is_closed:
                    return BufferClosedError(
                        f"{work.operand(number)} in this graph was closed",
                        help="a graph uses the memory that it was recorded with: keep it open, or change the argument: "
                        "`graph.update(recorded, …)`",
                    )
        return problem

    def update(self, recorded: Completion, /, **arguments: Any) -> None:
        """Change arguments of a launch that was recorded, by name, for the next launches of the graph.

        `recorded` is what that launch gave inside the block. Arguments are checked as those of a launch; if one fails,
        nothing changes. Buffers of other memory may be given: work of the graph that shares memory with the launch then
        comes in the order in which it was recorded, as ever.

        Raises:
            LaunchError: an argument does not fit, or there is no such parameter; or `recorded` is no launch of this
                graph.
        """
        self._check_ready("updated")
        if self.device.generation != self._generation:
            self._refuse_stale()
        work = self._find(recorded)
        call = work.call
        assert call is not None
        stream, launch = call.ready(arguments)
        uses = tuple(launch.uses)
        if stream.device is not self.device:
            raise LaunchError(f"the arguments of {work._spelled()} are on {stream.device}, its graph on {self.device}")
        with self.device._lock:
            before = work.uses, work.memories
            work.use(uses)
            is_elsewhere = work.memories != before[1]
            try:
                for buffer, _ in uses:
                    buffer.check_usable()
                self._change(work, launch, self._missing() if is_elsewhere else ())
            except BaseException:
                work.uses, work.memories = before
                raise
            is_other = any(one is not two for (one, _), (two, _) in zip(uses, before[0], strict=True))
            if is_other or work._loaded is not launch.loaded:
                work._loaded = launch.loaded
                self._collect()
            call.accept(arguments)

    def _find(self, recorded: Any) -> Recorded:
        if isinstance(recorded, Recorded) and recorded in self._works[recorded.number : recorded.number + 1]:
            if recorded.call is not None:
                return recorded
            raise LaunchError(
                f"{recorded._spelled()} has no arguments to change: those of a launch have", help="record another graph"
            )
        raise LaunchError(
            f"what is updated is a launch of this graph, as it was given inside its block (got {recorded!r})",
            help="`with device.graph() as graph: done = kernel.over(n).launch(…)`, then `graph.update(done, …)`",
        )

    def _missing(self) -> list[tuple[int, int]]:
        """The order that the uses of the work ask for now, where the graph does not have it."""
        edges = Edges()
        return [
            (number, work.number)
            for work in self._works
            for number in sorted(edges.find(work))
            if not work.before >> number & 1
        ]

    def order_anew(self, missing: Sequence[tuple[int, int]]) -> None:
        """Note more edges."""
        for work in self._works:
            more = [number for number, later in missing if later == work.number]
            Edges.place(work, {*work.after, *more}, self._works)

    # What it is.

    @property
    def launches(self) -> tuple[Completion, ...]:
        """The launches of kernels in it, in the order of the recording, as `update` takes them."""
        return tuple(work for work in self._works if work._loaded is not None)

    def __len__(self) -> int:
        return len(self._works)

    def __bool__(self) -> bool:
        return True

    def explain(self) -> str:
        """A line for each piece of work, in the order of the recording: what it is, and which others it follows."""
        streams: dict[Stream, int] = {}
        lines = []
        for work in self._works:
            on = streams.setdefault(work.stream, len(streams))
            after = f", after {', '.join(map(str, work.after))}" if work.after else ""
            lines.append(f"{work.number}: {work._spelled().removeprefix('the ')} on stream {on}{after}")
        return "\n".join(lines)

    def __dir__(self) -> list[str]:
        return visible(super().__dir__(), self._public)

    def __reduce__(self) -> Never:
        raise KaioError(
            "a Graph is neither copied nor pickled: it holds buffers and streams of this process",
            help="record it where it is launched",
        )

    def __repr__(self) -> str:
        if self._state != "ready":
            state = {"new": "not recorded", "recording": "being recorded", "failed": "failed"}[self._state]
            return f"<Graph on {self.device}, {state}>"
        count = len(self._works)
        return f"<Graph of {count} piece{'' if count == 1 else 's'} of work on {self.device}>"


answer(
    Graph,
    dict.fromkeys(("replay", "run"), "graph.launch()")
    | {"instantiate": "graph.launch()", "nodes": "graph.explain()"}
    | dict.fromkeys(("capture_begin", "begin_capture"), "with device.graph() as graph:"),
)
