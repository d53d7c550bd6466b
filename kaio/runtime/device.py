"""`Device`: one surface for the GPUs of this machine and for the CPU device."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Never

from kaio.errors import CompletionTimeout, KaioError, UnsupportedFeatureError
from kaio.program import Level
from kaio.runtime.accounts import Accounts, DeviceStats
from kaio.runtime.completion import TIMEOUT, read_timeout
from kaio.runtime.device_memory import DeviceMemory, MemoryInfo
from kaio.runtime.elsewhere import answer, refuse_arguments, visible
from kaio.runtime.failures import Failures
from kaio.runtime.graph import Graph
from kaio.runtime.limits import Limits
from kaio.runtime.policy import Ordering, Policy, Strategy, StreamChoice, read_policy
from kaio.runtime.several import gather
from kaio.runtime.stream import Stream, Uses
from kaio.runtime.stream_choice import Choice, choice_of

if TYPE_CHECKING:
    pass

__all__ = ["Device", "DeviceStats", "MemoryInfo"]

_log = logging.getLogger("kaio")

_PUBLIC = frozenset(
    (
        "alloc_empty", "alloc_from", "alloc_pinned", "alloc_zeros", "capability", "check", "current_stream",
        "generation", "graph", "import_array", "kind", "limits", "memory", "name", "ordinal", "set_memory_limit",
        "stats", "stream", "target", "trim", "wait",
    )
)  # fmt: skip


Route = Literal["ir", "ptx"]


class Device(DeviceMemory):
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
    is_isolated = False  # kernels run in a process of their own
    policy: Policy
    ordinal: int = 0  # among the devices of its kind
    attention: bool  # something is to be seen to before the next work goes in, which takes no quick way then
    is_blocking: bool  # each piece of work is waited for where it is started: KAIO_SYNC=1
    failures: Failures
    recordings: tuple[Graph, ...] = ()  # that somebody records now
    _recording: ContextVar[Graph | None]
    _entered: ContextVar[tuple[Stream, ...]]
    _streams: weakref.WeakSet[Stream]

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

    def load(self, program: Any) -> Any:
        """Make a compiled program ready to be launched here; the same program is loaded once."""
        raise NotImplementedError

    def stream(
        self,
        priority: int = 0,
        *,
        completion: Strategy | None = None,
        ordering: Ordering | None = None,
        foreign: Any = None,
        **unknown: Never,
    ) -> Stream:
        """A new stream; `with device.stream():` runs what the block launches on it, and waits at the end.

        Args:
            priority: of work that waits for room on the device that of the lowest number goes first. 0 is the usual;
                recent GPUs have 0 to -5. What already runs is not interrupted. The CPU device makes no difference.
            completion: how waits learn of the end of work; as the device does unless given.
            ordering: "manual" for a stream that waits for others by `wait_for` alone; as the device does unless given.
            foreign: a stream of another library (torch, CuPy, whatever has `__cuda_stream__`) on this GPU, to be used
                in place of a new one: what kaio puts on it is in order with what that library does there. Other streams
                wait for what kaio put there; for work of the library itself see `kaio.run`.

        Raises:
            KaioError: the device does not have this priority; it says which ones it has.
        """
        raise NotImplementedError

    def _stream_policy(self, completion: str | None, ordering: str | None, unknown: dict[str, Never]) -> Policy:
        """The policy of a stream made with these arguments."""
        if unknown:
            refuse_arguments("stream", unknown, "`priority=…`, `completion=…`, `ordering=…` or `foreign=…`")
        return read_policy({"completion": completion, "ordering": ordering}, self.policy)

    def _default_stream(self) -> Stream:
        raise NotImplementedError

    def check_usable(self) -> None:
        """Raise ContextPoisonedError if a fault has made the device unusable; the CPU device is never."""

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

    def usual_sender(self) -> Choice | Stream:
        """What has the `send` of streams for work of which nothing is said: the stream, where it is always the same."""
        return self._default_stream() if self.policy.streams == "one" else self._choice

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
        self.is_blocking = os.environ.get("KAIO_SYNC", "") not in ("", "0")
        self.accounts = Accounts()
        self._lock, self.failures = threading.RLock(), Failures()
        self._entered = ContextVar(f"streams of {self}", default=())
        self._recording = ContextVar(f"graph on {self}", default=None)
        self._streams = weakref.WeakSet()
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
