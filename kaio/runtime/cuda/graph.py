"""Graphs of a GPU: each piece of work is captured by itself into the driver's graph, behind what kaio says it follows.

Nothing is in capture mode but for the moment in which one piece of work is put in, on a stream that nobody else has: so
whatever else happens meanwhile, in this thread or another, is neither captured nor forbidden (docs/design.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kaio.errors import UnsupportedFeatureError
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.completion import CudaCompletion
from kaio.runtime.cuda.driver import add_edges, driver
from kaio.runtime.cuda.faults import CheckedCompletion, Lent
from kaio.runtime.cuda.graph_lane import CudaLane, Handles, Kernel, Node
from kaio.runtime.cuda.stream import CudaStream
from kaio.runtime.graph import Graph
from kaio.runtime.recorded import Recorded
from kaio.runtime.stream import Stream

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice
    from kaio.runtime.stream import Launch

__all__ = ["CudaGraph"]

_FIRST_DRIVER = 12030  # with cuStreamBeginCaptureToGraph


class CudaGraph(Graph):
    """A graph of a GPU."""

    device: CudaDevice
    _handles: Handles
    _nodes: list[Node]  # of the works
    _checked: list[Node]  # those that leave what their checks find in a record

    def _begin(self) -> None:
        version = int(self.device.ask(driver.cuDriverGetVersion()))
        if version < _FIRST_DRIVER:
            raise UnsupportedFeatureError(
                f"graphs need an NVIDIA driver for CUDA 12.3 or later (this one is for CUDA {version // 1000}."
                f"{version % 1000 // 10})",
                help="launch without a graph, or install a newer driver",
            )
        with self.device.current():
            self._handles = Handles(self.device, self.device.ask(driver.cuGraphCreate(0)))
        self._nodes = []

    def _make_lane(self, stream: Stream) -> CudaLane:
        assert isinstance(stream, CudaStream)
        return CudaLane.make_for(self, stream)

    def _abandon(self) -> None:
        self._nodes = []
        del self._handles

    # Recording.

    def record(self, lane: CudaLane, work: Recorded, call: Callable[[], Any]) -> None:
        """Put one piece of work into the graph: `call` gives it to the driver. The lock of the device is held."""
        self.add(work)
        try:
            with self.device.current():
                (last,) = self._capture(lane, self._behind(work), call)
        except BaseException:
            self.drop_last()
            raise
        self._nodes.append(Node(last, last))

    def record_library(self, lane: CudaLane, work: Recorded, enqueue: Callable[[], object]) -> None:
        """Put in what a library gives to the driver for the lane, between two empty nodes.

        Without the lock of the device, which the library's other threads may need.
        """
        device, graph = self.device, self._handles.graph
        with device._lock:
            self.add(work)
            self.is_enqueuing = True
        try:
            with device.current():
                after = self._behind(work)
                first = device.ask(driver.cuGraphAddEmptyNode(graph, after, len(after)))
                tips = self._capture(lane, [first], enqueue)
                last = device.ask(driver.cuGraphAddEmptyNode(graph, tips, len(tips)))
            self._nodes.append(Node(first, last))
        except BaseException as problem:
            self.fail(problem)  # a part of it may be in the graph
            with device._lock:
                self.drop_last()
            raise
        finally:
            self.is_enqueuing = False

    def keep(self, things: Any) -> None:
        """Let things live as long as the graph and its launches."""
        self._handles.kept.append(things)

    def _behind(self, work: Recorded) -> list[Any]:
        return [self._nodes[number].last for number in work.after]

    def _capture(self, lane: CudaLane, after: list[Any], call: Callable[[], Any]) -> list[Any]:
        """Capture what `call` puts on the lane behind these nodes; gives those that what follows has to wait for."""
        ask, mode = self.device.ask, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ask(driver.cuStreamBeginCaptureToGraph(lane.raw, self._handles.graph, after, None, len(after), mode))
        try:
            call()
            found = ask(driver.cuStreamGetCaptureInfo(lane.raw))
        except BaseException as problem:
            if driver.cuStreamEndCapture(lane.raw)[0]:  # what is in the graph now, is not said
                self.fail(problem)
            raise
        ask(driver.cuStreamEndCapture(lane.raw))
        return list(found[3])

    def check(self, work: Recorded, kernel: Kernel) -> None:
        """The kernel of this work leaves what its checks find in a record, which each launch of the graph lends it."""
        self._nodes[work.number].checked = kernel

    def _build(self) -> None:
        if self._works:
            with self.device.current():
                self._handles.set_executable(self._instantiate())

    def _instantiate(self) -> Any:
        flag = driver.CUgraphInstantiate_flags
        flags = int(flag.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)  # what a library allocates and does not free
        if any(work.stream.priority for work in self._works):
            flags |= int(flag.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)  # not that of the launch
        return self.device.ask(driver.cuGraphInstantiate(self._handles.graph, flags))

    # Launching.

    def _submit(self, stream: Stream, timed: bool) -> Completion:
        assert isinstance(stream, CudaStream)
        device, checked = self.device, self._checked
        if checked:
            device.make_room()
        with device._lock:
            for memory in self._overwritten:
                memory.overwrite()
            lent = self._lend(checked)
            call = driver.cuGraphLaunch, (self._handles.executable, stream.raw), self._uses
            try:
                work = stream.submit(*call, timed=timed, kind=CheckedCompletion if checked else CudaCompletion)
            except BaseException:
                for record, _, _ in lent:
                    device.records.give_back(record, is_used=False)
                raise
            work._what = self._what
            if isinstance(work, CheckedCompletion):
                work.lend(*lent)
            if self._handles.kept:
                self._handles.last = work
            stream.recent |= dict.fromkeys(self._loaded)  # any of them may fault
            return work

    def _collect(self) -> None:
        super()._collect()
        self._checked = [node for node in self._nodes if node.checked is not None]

    def _lend(self, checked: Sequence[Node]) -> list[Lent]:
        """A record for each launch that is checked, so that each launch of the graph finds its own faults."""
        lent: list[Lent] = []
        for node in checked:
            assert node.checked is not None
            record = self.device.records.take()
            lent.append((record, node.checked.loaded, node.checked.dims))
            node.checked.block.put_state(record.state)
            self._set_arguments(node, node.checked)
        return lent

    # Changing arguments.

    def _set_arguments(self, node: Node, kernel: Kernel) -> None:
        """Those of the next launches of the graph; one that runs or waits keeps its own."""
        with self.device.current():
            answer = driver.cuGraphExecKernelNodeSetParams(self._handles.executable, node.last, kernel.parameters)
            self.device.ask(answer, f"kernel `{kernel.loaded.name}`")

    def _change(self, work: Recorded, launch: Launch, missing: Sequence[tuple[int, int]]) -> None:
        loaded, grid, block, arguments, _, shared_nbytes, *_ = launch
        device, node = self.device, self._nodes[work.number]
        if shared_nbytes > loaded.dynamic_nbytes:
            device.allow_shared(loaded, shared_nbytes)
        kernel = Kernel(loaded, grid, block, arguments, shared_nbytes)
        if not missing:
            self._set_arguments(node, kernel)
        with device.current():
            device.ask(driver.cuGraphKernelNodeSetParams(node.last, kernel.parameters), f"kernel `{loaded.name}`")
            if missing:  # what the driver has made of the graph takes other arguments, but no other order
                found = [(self._nodes[one].last, self._nodes[two].first) for one, two in missing]
                device.ask(add_edges(self._handles.graph, found))
                self.order_anew(missing)
                self._handles.set_executable(self._instantiate())
        node.checked = kernel if loaded.state_at is not None else None
        self._checked = [node for node in self._nodes if node.checked is not None]
