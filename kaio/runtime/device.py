"""`Device`: one surface for the GPUs of this machine and for the CPU device."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections import deque
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never, TypeVar

import numpy as np

from kaio.dtypes import DType, dtype_of
from kaio.errors import CompletionTimeout, KaioError, OutOfMemoryError, UnsupportedFeatureError
from kaio.program import Level
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.completion import TIMEOUT, read_timeout
from kaio.runtime.conversion import check_unmasked
from kaio.runtime.elsewhere import Shown, answer, refuse_arguments, visible
from kaio.runtime.failures import Failures
from kaio.runtime.foreign import Foreign, read_foreign
from kaio.runtime.graph import Graph
from kaio.runtime.layout import byte_range, contiguous_strides, overlay, read_shape
from kaio.runtime.limits import Limits
from kaio.runtime.memory import Memory
from kaio.runtime.policy import Ordering, Policy, Strategy, StreamChoice, read_policy
from kaio.runtime.several import gather
from kaio.runtime.stream import Stream, Uses
from kaio.runtime.stream_choice import Choice, choice_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Device", "DeviceStats", "MemoryInfo"]

_log = logging.getLogger("kaio")
T = TypeVar("T")

_MISSING: Any = None
_PUBLIC = frozenset(
    (
        "alloc_empty", "alloc_from", "alloc_zeros", "capability", "check", "current_stream", "generation", "graph",
        "import_array", "kind", "limits", "memory", "name", "ordinal", "stats", "stream", "target", "wait",
    )
)  # fmt: skip


class MemoryInfo(NamedTuple):
    """Memory of a device in bytes."""

    free: int
    total: int


class DeviceStats(NamedTuple):
    """What kaio holds on a device: its own buffers (imported memory is not counted), sizes in bytes."""

    live_buffers: int
    live_nbytes: int
    peak_nbytes: int


Route = Literal["ir", "ptx"]


class Device(metaclass=Shown):
    """A GPU, or the CPU device, which runs the same kernels natively and finds their mistakes.

    `Device()` is the first GPU; where there is no NVIDIA driver it is the CPU device, and that is logged. `Device(0)`
    and `Device("cuda:0")` are a GPU, `Device("cpu")` is the CPU device. The same arguments give the same object.

    Args:
        which: an ordinal, ``"cuda"`` (or ``"gpu"``), ``"cuda:1"`` or ``"cpu"``.
        like: the GPU whose limits the CPU device has, for example ``"sm_90"`` (the default).
        check: ``"off"``, ``"bounds"`` (True) or ``"full"``: what is found while kernels run, unless a launch says
            otherwise (docs/host.md). Default ``"bounds"`` on the CPU device, ``"off"`` on a GPU. With ``"off"`` an
            index that is out of range reads or overwrites other memory, and on the CPU device may end the process.
        route: what the CPU device runs: ``"ir"`` (the default) is the kernel's own operations, ``"ptx"`` the PTX that a
            GPU of `like` would get. Every byte of every result is the same, those of a NaN apart. There ``"bounds"``
            finds addresses outside of all memory of the launch.
        isolated: whether kernels run in a process of their own, whose faults leave this one and its data as they were.
        completion: how waits and awaits learn that work is done: ``"adaptive"`` (the default) asks in a loop for a
            moment, then waits natively; ``"host_fn"``, ``"polled"``, ``"sync"`` (each launch waits before it returns).
        streams: which stream work goes to when nothing is said: ``"one"`` (the default) for all; ``"per_thread"``, one
            for each thread; ``"pool"``, so that independent work overlaps while a chain stays on one stream.
        ordering: ``"managed"`` (the default): work waits for what other streams do with the same memory; ``"manual"``:
            it waits for what you say by `stream.wait_for(completion)`.

    Raises:
        DeviceNotFoundError: there is no such device, or its driver does not work.
        UnsupportedFeatureError: the device does not have what was asked for.

    >>> import numpy as np
    >>> device = Device("cpu")
    >>> device.alloc_from(np.arange(3)).to_host()
    array([0, 1, 2])
    """

    _public = _PUBLIC
    kind: Literal["cuda", "cpu"]
    name: str
    target: str
    capability: tuple[int, int]
    limits: Limits
    check: Level
    route: Route = "ir"
    policy: Policy
    ordinal: int = 0  # among the devices of its kind
    generation: int
    fault: KaioError | None  # what a GPU's context failed with; it cannot be used again
    attention: bool  # something is to be seen to before the next work goes in, which takes no quick way then
    _stats: DeviceStats
    _released: deque[int]
    _lock: threading.RLock
    failures: Failures
    recordings: tuple[Graph, ...] = ()  # that somebody records now
    _recording: ContextVar[Graph | None]
    _entered: ContextVar[tuple[Stream, ...]]
    _streams: weakref.WeakSet[Stream]
    _memories: weakref.WeakSet[Memory]

    def __new__(
        cls,
        which: int | str | None = None,
        *,
        like: str | None = None,
        check: str | bool | None = None,
        route: Route = "ir",
        isolated: bool = False,
        completion: Strategy | None = None,
        streams: StreamChoice | None = None,
        ordering: Ordering | None = None,
        **other: Never,
    ) -> Device:
        """Find or open the device."""
        from kaio.runtime.opening import open_device

        return open_device(
            which,
            like=like,
            check=check,
            route=route,
            isolated=isolated,
            completion=completion,
            streams=streams,
            ordering=ordering,
            **other,
        )

    # What each kind of device provides.

    @property
    def memory(self) -> MemoryInfo:
        """Free and total memory in bytes."""
        raise NotImplementedError

    def load(self, program: Any) -> Any:
        """Make a compiled program ready to be launched here; the same program is loaded once."""
        raise NotImplementedError

    def stream(
        self,
        priority: int = 0,
        *,
        completion: Strategy | None = None,
        ordering: Ordering | None = None,
        **unknown: Never,
    ) -> Stream:
        """A new stream; `with device.stream():` runs what the block launches on it, and waits at the end.

        Args:
            priority: of work that waits for room on the device that of the lowest number goes first. 0 is the usual;
                recent GPUs have 0 to -5. What already runs is not interrupted. The CPU device makes no difference.
            completion: how waits learn of the end of work; as the device does unless given.
            ordering: "manual" for a stream that waits for others by `wait_for` alone; as the device does unless given.

        Raises:
            KaioError: the device does not have this priority; it says which ones it has.
        """
        raise NotImplementedError

    def _stream_policy(self, completion: str | None, ordering: str | None, unknown: dict[str, Never]) -> Policy:
        """The policy of a stream made with these arguments."""
        if unknown:
            refuse_arguments("stream", unknown, "`priority=…`, `completion=…` or `ordering=…`")
        return read_policy({"completion": completion, "ordering": ordering}, self.policy)

    def _default_stream(self) -> Stream:
        raise NotImplementedError

    def _allocate(self, nbytes: int, zero: bool) -> Memory:
        """New memory; `OutOfMemoryError` from `_out_of_memory` if there is none."""
        raise NotImplementedError

    def _allocate_copy(self, host: np.ndarray[Any, Any]) -> Memory:
        """New memory with the bytes of a contiguous host array, ready for any stream."""
        memory = self._allocate(host.nbytes, zero=False)
        if host.nbytes:
            self._upload(memory.pointer, host)
        return memory

    def _release(self, memory: Memory) -> None:
        """Give memory back once the work that uses it is done. Called from finalisers: must take no lock."""
        raise NotImplementedError

    def _upload(self, pointer: int, host: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array to `pointer`, and return when that is done."""
        raise NotImplementedError

    def _download(self, host: np.ndarray[Any, Any], pointer: int) -> None:
        """Copy from `pointer` to a contiguous host array, and return when that is done."""
        raise NotImplementedError

    def _takes(self, foreign: Foreign) -> bool:
        """Whether foreign memory can be used in place."""
        raise NotImplementedError

    def after_close(self) -> None:
        """Memory was closed: a good moment to give it back."""

    def hand_over(self, memory: Memory, stream: int | None) -> None:
        """Let another library, on its stream if it has one, come after the work that writes this memory."""
        if memory.writer is not None:
            memory.writer._block(None)

    def writing_stream(self, memory: Memory) -> int | None:
        """The handle of the stream that another library has to wait for, None if there is nothing to wait for."""
        return None

    def come_after(self, memory: Memory, writes: bool) -> None:
        """The host has waited for kaio's work on memory that it is about to read or write, and goes on."""
        self.wait_foreign(memory)

    def wait_foreign(self, memory: Memory) -> None:
        """Wait until another library that works on this memory is done with it."""

    def check_usable(self) -> None:
        """Raise ContextPoisonedError if a fault has made the device unusable; the CPU device is never."""

    # Allocating.

    def alloc_from(self, array: Any) -> GpuBuffer[Any]:
        """A new buffer with a copy of an array or anything `numpy.asarray` takes; shape and dtype are kept.

        Raises:
            KaioError: for an element type that kaio does not have.
            OutOfMemoryError: the device has no memory left.

        >>> Device("cpu").alloc_from([[1.0, 2.0]])
        GpuBuffer(f64[1, 2] on cpu)
        """
        self.refuse_recorded(
            "an array of the host cannot be copied",
            "make the buffer before the block, and copy into it before each launch of the graph",
        )
        host = self._host_array(array)
        dtype = dtype_of(host.dtype)
        self.check_usable()
        memory = self._allocate_copy(np.ascontiguousarray(host))
        return self._made(memory, host.shape, dtype)

    def _host_array(self, array: Any) -> np.ndarray[Any, Any]:
        if isinstance(array, GpuBuffer):
            return array.to_host()
        check_unmasked(array)
        if not isinstance(array, np.ndarray):
            foreign = read_foreign(array, self)
            if foreign is not None and foreign.kind == "cuda":
                return Device(foreign.ordinal).adopt(foreign).to_host()
            if foreign is not None:
                return overlay(foreign.pointer, foreign.shape, foreign.strides, foreign.dtype, keep=foreign.owner)
        try:
            return np.asarray(array)
        except (ValueError, TypeError) as problem:
            raise KaioError(
                f"a {type(array).__name__} is no array ({problem})", help="pass what `numpy.asarray` takes"
            ) from problem

    def alloc_zeros(self, shape: int | Iterable[int], dtype: type[T] = _MISSING) -> GpuBuffer[T]:
        """A new buffer of zeros (False for `bool_`). `shape` is an int or a tuple of ints.

        >>> import kaio
        >>> Device("cpu").alloc_zeros((2, 2), kaio.i32).to_host().tolist()
        [[0, 0], [0, 0]]
        """
        return self._alloc(shape, dtype, zero=True)

    def alloc_empty(self, shape: int | Iterable[int], dtype: type[T] = _MISSING) -> GpuBuffer[T]:
        """A new buffer of whatever is in memory: write it before you read it."""
        return self._alloc(shape, dtype, zero=False)

    def _alloc(self, shape: Any, dtype: Any, *, zero: bool) -> GpuBuffer[Any]:
        if dtype is None:
            name = "alloc_zeros" if zero else "alloc_empty"
            raise TypeError(f"{name} needs an element type too: write `device.{name}({shape!r}, kaio.f32)`")
        sizes, element = read_shape(shape), dtype_of(dtype)
        nbytes = element.itemsize
        for size in sizes:
            nbytes *= size
        self.check_usable()
        if nbytes >= 1 << 63:  # more than can be asked of a driver
            raise self._out_of_memory(nbytes)
        made = self._made(self._allocate(nbytes, zero), sizes, element)
        if zero and self.recordings and self.recording() is not None:
            self.current_stream().set(made, bytes(element.itemsize))  # each launch of the graph begins with zeros
        return made

    def _made(self, memory: Memory, shape: tuple[int, ...], dtype: DType) -> GpuBuffer[Any]:
        nbytes = memory.nbytes
        with self._lock:
            memory.counted = True
            self._memories.add(memory)
            live = self.stats()
            self._stats = DeviceStats(
                live.live_buffers + 1, live.live_nbytes + nbytes, max(live.peak_nbytes, live.live_nbytes + nbytes)
            )
        return GpuBuffer.make(memory, memory.pointer, shape, contiguous_strides(shape, dtype.itemsize), dtype)

    def release(self, memory: Memory) -> None:
        """Take memory back that nobody can reach any more; called by `Memory`."""
        if memory.counted:
            self._released.append(memory.nbytes)  # counted by `stats`: a finaliser must take no lock
        self._release(memory)

    def _out_of_memory(self, nbytes: int) -> OutOfMemoryError:
        free, total = self.memory
        with self._lock:
            largest = sorted((memory.nbytes for memory in self._memories if not memory.closed), reverse=True)[:5]
        held = f"; the largest buffers: {', '.join(f'{size:,} bytes' for size in largest)}" if largest else ""
        return OutOfMemoryError(
            f"{self} has no memory for {nbytes:,} bytes: {free:,} of {total:,} bytes are free{held}",
            help="close buffers that are not needed any more, or work in parts",
            asked=nbytes,
            free=free,
            largest=largest,
        )

    def import_array(self, array: Any) -> GpuBuffer[Any]:
        """A buffer over the memory of another library's array, without a copy; both see each other's writes.

        Takes what exchanges through DLPack or the CUDA array interface and lies on this device; on the CPU device
        NumPy arrays too. A read-only array gives a buffer that kernels cannot write.

        Each import is a buffer of its own: order work on two imports of the same memory yourself, for example with
        `wait()`, or import it once and take views of that.

        >>> x = np.zeros(3)
        >>> _ = Device("cpu").import_array(x).fill(7).wait()
        >>> x
        array([7., 7., 7.])
        """
        if isinstance(array, GpuBuffer) and array.device is self:
            return array.reshape(array.shape)
        check_unmasked(array)
        foreign = read_foreign(array, self)
        if foreign is None:
            raise KaioError(
                f"a value of type `{type(array).__name__}` cannot be imported without a copy",
                help="copy it: `device.alloc_from(…)` takes any array",
            )
        if not self._takes(foreign):
            raise KaioError(
                f"a {type(array).__name__} on {foreign.place} cannot be used in place on {self}",
                help="copy it: `device.alloc_from(…)`",
            )
        return self.adopt(foreign)

    def adopt(self, foreign: Foreign) -> GpuBuffer[Any]:
        """A buffer over foreign memory that lies on this device."""
        self.check_usable()
        dtype = foreign.dtype
        if foreign.pointer % dtype.alignment and 0 not in foreign.shape:  # a GPU would fault
            raise KaioError(
                f"an array of {dtype!r} that begins at no multiple of {dtype.alignment} bytes cannot be used in place",
                help="copy it: `device.alloc_from(…)`",
            )
        start, stop = byte_range(foreign.pointer, foreign.shape, foreign.strides, foreign.dtype.itemsize)
        memory = Memory(
            self, start, stop - start, foreign.owner, read_only=foreign.read_only, foreign_stream=foreign.stream
        )
        return GpuBuffer.make(memory, foreign.pointer, foreign.shape, foreign.strides, foreign.dtype)

    def stats(self) -> DeviceStats:
        """How many buffers live here, their size, and the most they ever were."""
        with self._lock:
            while self._released:
                buffers, nbytes, peak = self._stats
                self._stats = DeviceStats(buffers - 1, nbytes - self._released.popleft(), peak)
            return self._stats

    # Streams and failures.

    def current_stream(self) -> Stream:
        """The stream of the innermost `with device.stream():` around the caller, else the one of the device's policy.

        With `streams="pool"`, where each launch gets a stream of its own, that is the first of the pool.
        """
        entered = self._entered.get()
        return entered[-1] if entered else self._choice.current()

    def stream_for(self, uses: Uses, is_bound: bool = False) -> Stream:
        """The stream for work of the caller that uses these buffers, once or, `is_bound`, again and again."""
        entered = self._entered.get()
        if entered:
            return entered[-1]
        return self._choice.for_bound(uses) if is_bound else self._choice.of(uses)

    @cached_property
    def _choice(self) -> Choice:
        return choice_of(self.policy.streams, self._default_stream(), self.stream)

    def enter_stream(self, stream: Stream) -> None:
        """Make a stream current; called by `Stream`."""
        self._entered.set((*self._entered.get(), stream))

    def leave_stream(self, stream: Stream) -> None:
        """Undo the innermost `enter_stream` of this stream."""
        entered = list(self._entered.get())
        for place in range(len(entered) - 1, -1, -1):
            if entered[place] is stream:
                del entered[place]
                break
        self._entered.set(tuple(entered))

    # Graphs.

    def graph(self) -> Graph:
        """A graph of work: `with device.graph() as graph:` records what the block launches, `graph.launch()` runs it.

        See `kaio.Graph`. One block is recorded at a time in one thread or task; others go on with the device meanwhile.
        """
        return self._make_graph()

    def _make_graph(self) -> Graph:
        raise UnsupportedFeatureError(f"{self} does not record graphs", help="launch the work each time")

    def recording(self) -> Graph | None:
        """The graph that the caller records, if it does. Ask `recordings` first, which costs nothing."""
        graph = self._recording.get()
        return graph if graph is not None and graph.is_recording else None

    def start_recording(self, graph: Graph) -> None:
        """The caller records from now on; called by `Graph`."""
        self._recording.set(graph)
        with self._lock:
            self.recordings = (*self.recordings, graph)
            self.attention = True

    def end_recording(self, graph: Graph) -> None:
        """Undo `start_recording`."""
        self._recording.set(None)
        with self._lock:
            self.recordings = tuple(other for other in self.recordings if other is not graph)

    def refuse_recorded(self, what: str, way_out: str) -> None:
        """Raise KaioError for what cannot be done while the caller records a graph."""
        if self.recordings and self.recording() is not None:
            raise KaioError(f"{what} while a graph is recorded on {self}, where nothing runs yet", help=way_out)

    def wait(self, timeout_s: float | None = None, **unknown: Never) -> None:
        """Wait for all work on this device; raises a failure that nobody saw yet, or CompletionTimeout."""
        if unknown:
            refuse_arguments("wait", unknown, TIMEOUT)
        self.refuse_recorded("a device cannot be waited for", "launch the graph after its block, and wait for that")
        with self._lock:
            tails = [stream._tail() for stream in self._streams]
        if not gather(*tails)._block(read_timeout(timeout_s)):
            raise CompletionTimeout(f"the work on {self} is not done after {timeout_s} s; it goes on")
        self.raise_unseen(None)

    def raise_unseen(self, stream: Stream | None) -> None:
        """Raise a failure that nobody saw, of work on one stream or on all."""
        self.failures.raise_unseen(stream)

    def _log_unseen(self) -> None:
        self.failures.log()

    def _spec(self) -> tuple[str, dict[str, Any]]:
        """The arguments of `Device(…)` that give this device."""
        raise NotImplementedError

    def __enter__(self) -> Never:
        raise TypeError("a Device is not entered: write `with device.stream():`, or no `with` at all")

    def __exit__(self, *error: object) -> None:
        """There is nothing to leave."""

    def __dir__(self) -> list[str]:
        return visible(super().__dir__(), self._public)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, self._spec()

    def __repr__(self) -> str:
        which, options = self._spec()
        return f"Device({', '.join([repr(which), *(f'{name}={value!r}' for name, value in options.items())])})"

    def __str__(self) -> str:
        which, options = self._spec()
        return which + (f" ({', '.join(f'{name} {value}' for name, value in options.items())})" if options else "")

    def _start(self) -> None:
        """Set up what all devices have."""
        self.generation, self.fault, self.attention = 0, None, False
        self._stats, self._released = DeviceStats(0, 0, 0), deque()
        self._lock, self.failures = threading.RLock(), Failures()
        self._entered = ContextVar(f"streams of {self}", default=())
        self._recording = ContextVar(f"graph on {self}", default=None)
        self._streams, self._memories = weakref.WeakSet(), weakref.WeakSet()
        atexit.register(self._log_unseen)


answer(
    Device,
    dict.fromkeys(("zeros", "ones", "full"), "device.alloc_zeros(shape, dtype)")
    | dict.fromkeys(("empty", "alloc", "allocate", "malloc"), "device.alloc_empty(shape, dtype)")
    | dict.fromkeys(("array", "asarray", "copy_to_device", "from_numpy", "to_device"), "device.alloc_from(array)")
    | dict.fromkeys(("from_dlpack", "as_buffer"), "device.import_array(array)")
    | dict.fromkeys(("sync", "synchronize"), "device.wait()")
    | dict.fromkeys(("create_stream", "new_stream", "Stream"), "device.stream()")
    | dict.fromkeys(("mem_info", "memory_info", "free_memory", "total_memory"), "device.memory")
    | {"compute_capability": "device.capability", "id": "device.ordinal", "arch": "device.target"},
)


def _reopen(which: str, options: dict[str, Any]) -> Device:
    return Device(which, **options)
