"""`Stream`: work in order. Work on different streams overlaps unless it uses the same memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Never, Protocol

from kaio.errors import CompletionTimeout, KaioError, LibraryError, UnsupportedFeatureError
from kaio.program import Access
from kaio.runtime.completion import TIMEOUT, Completion, read_timeout
from kaio.runtime.elsewhere import Shown, answer, refuse_arguments, visible

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.device import Device
    from kaio.runtime.memory import Memory
    from kaio.runtime.policy import Policy
    from kaio.runtime.watch import Watch

__all__ = [
    "USUAL", "Dims", "Launch", "Loaded", "PreparedLaunch", "RunOptions", "Stream", "Together", "Uses", "library_error",
    "read_priority", "works_of",
]  # fmt: skip

Uses = Sequence[tuple["GpuBuffer[Any]", Access]]
Dims = tuple[int, int, int]

_PUBLIC = frozenset(("device", "handle", "is_done", "priority", "wait", "wait_for"))


class Loaded(Protocol):
    """A program on a device, ready to be launched there."""

    name: str
    max_threads: int | None  # of a block, where the program itself allows fewer than the device

    def resident_blocks(self, device: Any, threads: int, shared_nbytes: int) -> int:
        """How many blocks of so many threads and bytes of dynamic shared memory one multiprocessor runs at once."""

    def fullest_block(self, device: Any, shared_nbytes: int, most_threads: int) -> int:
        """The threads of a block, at most so many, with which most threads of a multiprocessor are in use."""


class Together(NamedTuple):
    """Which blocks of a launch run at the same time: all of them, those of a cluster (x first), or both."""

    cooperative: bool
    cluster: Dims


class RunOptions(NamedTuple):
    """How the CPU device runs a launch, and what it looks for that needs no code of its own.

    schedule: the seed of an order of threads, warps and blocks; None: the usual order
    fuel: the most turns of loops that one thread may take; None: any number
    timeout_s: after how many seconds without progress the launch fails; None: as long as its device has it
    coverage: elements of `Out` buffers that were not written exactly once are a fault
    partial_barriers: a thread that has finished counts as arrived at any barrier
    watch: who looks on, at a kernel that was compiled to be watched
    """

    schedule: int | None = None
    fuel: int | None = None
    timeout_s: float | None = None
    coverage: bool = False
    partial_barriers: bool = False
    watch: Watch | None = None  # the last one: no option that users give

    @property
    def patience_s(self) -> float:
        """The time limit of the CPU device."""
        return 10.0 if self.timeout_s is None else self.timeout_s


USUAL = RunOptions()


class Launch(NamedTuple):
    """A launch with all that it takes, checked and packed.

    loaded: the program, on the device of the stream
    grid, block: in blocks and in threads, x first
    arguments: as the program takes them
    uses: the buffers among them, and how the kernel uses each
    shared_nbytes: of the dynamic shared memory
    timed: whether the completion knows how long it took
    together: which blocks run at the same time, where it matters
    options: how the CPU device runs it
    """

    loaded: Any
    grid: Dims
    block: Dims
    arguments: bytes
    uses: Uses
    shared_nbytes: int = 0
    timed: bool = False
    together: Together | None = None
    options: RunOptions = USUAL

    @property
    def cluster(self) -> Dims:
        """The blocks of a cluster, x first."""
        return (1, 1, 1) if self.together is None else self.together.cluster


class PreparedLaunch(Protocol):
    """A launch made ready once, to be repeated."""

    def launch(self) -> Completion:
        """Launch it once more."""


class Stream(metaclass=Shown):
    """A queue of work on one device, made by `device.stream()`.

    In `with device.stream():` launches and copies of that device run on it. Leaving the block waits for all of its
    work and raises what went wrong; in asyncio, `async with` lets other tasks go on meanwhile. Order between streams
    needs no care: work that uses memory waits for the earlier work on other streams that wrote it, or reads what it is
    about to write.
    """

    _public = _PUBLIC
    device: Device
    priority: int
    policy: Policy  # that of the device, unless the stream was made with another
    is_managed: bool  # its `ordering`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a Stream is made by a device: `device.stream()`")

    # What a device provides.

    def launch(self, launch: Launch) -> Completion:
        """Launch after the earlier work on the buffers that it uses, which live until it is done."""
        raise NotImplementedError

    def prepare(self, launch: Launch) -> PreparedLaunch:
        """The same launch made ready to be repeated: `.launch()`."""
        raise NotImplementedError

    def learn(self, plan: Any, launch: Launch) -> None:
        """Make ready for `send`, where there is such a way: `plan` stands for all of a launch but its arguments."""

    def send(
        self, plan: Any, arguments: bytes, read: tuple[Memory, ...], written: tuple[Memory, ...]
    ) -> Completion | None:
        """Launch a plan in the usual case, that nothing is to be waited for or seen to; None if it is another case.

        Arguments and buffers are checked for types and shapes, and not for whether they can be used.
        """
        return None

    def copy(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy between buffers of one shape and element type on this device, which do not overlap.

        A GPU takes those whose layouts `layout.rectangles` puts into few pieces. One of the two may be memory of the
        host that is pinned; then both are contiguous.
        """
        raise NotImplementedError

    def set(self, target: GpuBuffer[Any], pattern: bytes) -> Completion:
        """Repeat the bytes of one element over a contiguous buffer."""
        raise NotImplementedError

    def run(self, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str) -> Completion:
        """Let another library put work here that uses these buffers, and keep things until it is done; see `run`."""
        raise UnsupportedFeatureError(
            f"{library} would work in this process, and {self.device} runs its work in another one",
            help=f"use `Device({self.device.ordinal})`",
        )

    def comes_after(self, work: Completion) -> bool:
        """Whether what is put here next is known to come after that work. Asks nobody."""
        return False

    def ends_with(self, work: Completion) -> bool:
        """Whether this is the last work that was put here."""
        raise NotImplementedError

    def _tail(self) -> Completion:
        """A completion of all work so far; never fails."""
        raise NotImplementedError

    def _lane(self) -> Any:
        """What stands for this stream in the graph that the caller records, None if it records none."""
        graph = self.device.recording()
        return None if graph is None else graph.lane(self)

    def wait_recorded(self, earlier: Completion | Stream) -> None:
        """`wait_for` of what stands for a stream while a graph is recorded."""
        raise KaioError(
            "`wait_for` is not recorded in a graph", help="record on managed streams, which wait by themselves"
        )

    # What a user sees.

    def wait(self, timeout_s: float | None = None, **unknown: Never) -> None:
        """Wait for all work so far; raises a failure that nobody saw yet, or CompletionTimeout."""
        if unknown:
            refuse_arguments("wait", unknown, TIMEOUT)
        self.device.refuse_recorded(
            "a stream cannot be waited for", "leave its block: what follows comes after its work"
        )
        if not self._tail()._block(read_timeout(timeout_s)):
            raise CompletionTimeout(f"the work on {self!r} is not done after {timeout_s} s; it goes on")
        self.device.raise_unseen(self)

    def wait_for(self, earlier: Completion | Stream) -> None:
        """Let the work that is put on this stream from now on start after other work. Does not wait itself.

        `earlier` is a Completion, `kaio.gather(…)` of some, or a stream, of which all work so far is meant. Managed
        streams need it for nothing that kaio knows of; with `ordering="manual"` it is how streams are ordered. How the
        earlier work went is its own: if it failed, this stream goes on all the same.

        >>> import kaio
        >>> device = kaio.Device("cpu", ordering="manual")
        >>> x, other = device.alloc_zeros(4, kaio.f32), device.stream()
        >>> other.wait_for(x.fill(1))
        >>> with other:
        ...     y = x.copy()
        >>> y.to_host()
        array([1., 1., 1., 1.], dtype=float32)
        """
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """True if no work is left. Does not wait."""
        return self._tail().is_done

    def __enter__(self) -> Stream:
        self.device.enter_stream(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.device.leave_stream(self)
        if not self._is_joined():
            self._end(error)

    def _is_joined(self) -> bool:
        """Whether the caller records a graph: nothing is waited for then, and what it records from now on follows."""
        graph = self.device.recording() if self.device.recordings else None
        if graph is not None:
            graph.join(self)
        return graph is not None

    def _end(self, error: BaseException | None) -> None:
        """Wait, and raise what failed, unless the block itself failed with `error`: that goes first."""
        try:
            self.wait()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"Work on the stream failed too: {failure}")

    async def __aenter__(self) -> Stream:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.device.leave_stream(self)
        if not self._is_joined():
            await _Arrival(self._tail())
            self._end(error)

    def __dir__(self) -> list[str]:
        return visible(super().__dir__(), self._public)

    def __reduce__(self) -> Never:
        raise KaioError("a Stream is neither copied nor pickled", help="make another: `device.stream()`")

    def __repr__(self) -> str:
        return f"<Stream of {self.device}, priority {self.priority}, at {id(self):#x}>"


answer(Stream, {"done": "stream.is_done", "query": "stream.is_done"})
answer(Stream, dict.fromkeys(("sync", "synchronize"), "stream.wait()"))


class _Arrival:
    """Awaits the end of work, and does not ask how it went."""

    def __init__(self, work: Completion) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, None]:
        return self._work._arrive()


def library_error(library: str, problem: Exception) -> LibraryError:
    """What a library raised, as an error of kaio's; the caller chains it."""
    what = str(problem) if isinstance(problem, KaioError) else f"{type(problem).__name__}: {problem}"
    return LibraryError(f"work of {library} failed: {what}", library=library)


def read_priority(priority: Any, device: Device, least: int, greatest: int) -> int:
    """The priority of a stream, or KaioError if it is none from `least` down to `greatest`, which goes first."""
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise KaioError(f"the priority of a stream is an int, lower numbers go first (got {priority!r})")
    if not greatest <= priority <= least:
        have = f"from {least} to {greatest}" if greatest < least else f"{least} alone"
        raise KaioError(
            f"{device} has no streams of priority {priority}",
            help=f"it has {have}; lower numbers go first, and 0 is the usual one",
        )
    return priority


def works_of(earlier: Any) -> tuple[Completion, ...]:
    """The single pieces of work that `wait_for` was given, or KaioError."""
    if isinstance(earlier, Stream):
        return (earlier._tail(),)
    if isinstance(earlier, Completion):
        parts = getattr(earlier, "parts", None)
        return (earlier,) if parts is None else tuple(one for part in parts for one in works_of(part))
    raise KaioError(
        f"`wait_for` takes a Completion or a stream (got {earlier!r})", help="pass what a launch, a copy or a fill gave"
    )
