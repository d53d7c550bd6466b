"""What stands for a stream of a GPU while a graph is recorded, and what the driver has of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaio.runtime.completion import Completion
from kaio.runtime.cuda.calls import call_together
from kaio.runtime.cuda.completion import CudaCompletion
from kaio.runtime.cuda.driver import driver
from kaio.runtime.cuda.launch import ArgumentBlock, CudaLoaded, launch_kernel, launch_together, with_room
from kaio.runtime.cuda.stream import CudaStream
from kaio.runtime.graph_lane import GraphLane
from kaio.runtime.recorded import Recorded
from kaio.runtime.stream import Dims, Launch, Stream, Uses, library_error

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice

__all__ = ["CudaLane", "Handles", "Kernel", "Node"]


_ONLY_ENQUEUED = (
    "While a graph is recorded, a library can do nothing but put work on the stream that it is given: what it makes, "
    "loads or waits for, it has to do before. Often it is enough to call it once before the block."
)


class Handles:
    """The driver's graph and what it made of it to be launched; both are destroyed after this is dropped."""

    __slots__ = ("_device", "executable", "graph", "kept", "last")

    def __init__(self, device: CudaDevice, graph: Any) -> None:
        self._device, self.graph = device, graph
        self.executable: Any = None
        self.kept: list[Any] = []  # beside buffers, what work in the graph needs
        self.last: CudaCompletion | None = None  # the last launch that needs it

    def set_executable(self, executable: Any) -> None:
        """Launch this one from now on. One that still runs is destroyed by the driver when it is done."""
        self._end_executable()
        self.executable = executable

    def _end_executable(self) -> None:
        if self.executable is not None:
            self._device.ended.append((driver.cuGraphExecDestroy, self.executable))
            self._device.attention = True

    def __del__(self) -> None:
        self._end_executable()
        self._device.ended.append((driver.cuGraphDestroy, self.graph))
        self._device.attention = True
        if self.last is not None:
            self._device.dropped.append((0, 0, self.kept, [self.last]))


class Kernel:
    """A kernel with its arguments, as the driver puts it into a node of a graph."""

    __slots__ = ("block", "dims", "extra", "loaded", "parameters")

    def __init__(self, loaded: CudaLoaded, grid: Dims, block: Dims, arguments: bytes, shared_nbytes: int) -> None:
        self.loaded, self.dims = loaded, (grid, block)
        packed = arguments if loaded.state_at is None else with_room(arguments, loaded)
        self.block = ArgumentBlock(len(packed))
        self.extra = self.block.put(packed)
        self.parameters = parameters = driver.CUDA_KERNEL_NODE_PARAMS()
        parameters.func, parameters.sharedMemBytes, parameters.extra = loaded.function, shared_nbytes, self.extra
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = grid
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = block


@dataclass(slots=True)
class Node:
    """A piece of work in the driver's graph: the node where it begins, and the one where it ends."""

    first: Any
    last: Any
    checked: Kernel | None = None


class CudaLane(GraphLane, CudaStream):
    """What stands for a stream while a graph is recorded: what is put on it goes into the graph."""

    def launch(self, launch: Launch) -> Completion:
        """Record a launch; see `Stream.launch`."""
        loaded, grid, block, arguments, uses, shared_nbytes, timed, together, _ = launch
        if 0 in grid:
            return Completion.completed(self._of)
        if shared_nbytes > loaded.dynamic_nbytes:
            self.device.allow_shared(loaded, shared_nbytes)
        with self.device._lock:
            kernel = Kernel(loaded, grid, block, arguments, shared_nbytes)
            function: Any = launch_kernel
            call: tuple[Any, ...] = (loaded.function, *grid, *block, shared_nbytes, self.raw, 0, kernel.extra)
            if together is not None:
                function = launch_together
                call = call_together(loaded.function, grid, block, shared_nbytes, self.raw, kernel.extra, together)
            work: Recorded = self.submit(function, call, uses, loaded, timed)
            if loaded.state_at is not None:
                self._graph.check(work, kernel)
            return work

    def run(self, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str) -> Completion:
        """Record the work of a library, as it puts it on this stream; see `Stream.run`."""
        work = Recorded(self._of, f"work of {library}", None, uses)

        def call() -> None:
            self.device.enter_stream(self)
            try:
                enqueue(self)
            finally:
                self.device.leave_stream(self)

        try:
            self._graph.record_library(self, work, call)
        except Exception as problem:
            error = library_error(library, problem)
            error.add_note(_ONLY_ENQUEUED)
            raise error from problem
        self._graph.keep(keep)
        return work

    def submit(
        self,
        function: Callable[..., tuple[Any, ...]],
        arguments: tuple[Any, ...],
        uses: Uses,
        loaded: CudaLoaded | None = None,
        timed: bool = False,
        kind: type[CudaCompletion] = CudaCompletion,
    ) -> Any:
        """Record a call of the driver. The lock of the device is held."""
        work = self._recorded("work", loaded, uses, timed)
        what = "work" if loaded is None else f"kernel `{loaded.name}`"
        self._graph.record(self, work, lambda: self.device.ask(function(*arguments), what))
        return work
