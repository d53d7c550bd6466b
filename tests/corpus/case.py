"""A case of the corpus: a kernel with a bug planted, the report that it must get, and its twin without the bug.

Where the bug is stands in the kernel itself: `# HERE` behind the line that a report names, `# OTHER` behind the second
line of a pair. What is racy may be found from either end, so the two may change places, each with its own access.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import kaio
from kaio.runtime.host_workers import WorkerPool

MOST = 256  # threads of a block: the size of the kernels' shared arrays
ANY = (1, 2, 7, 31, 32, 33, 64, 96, 100, 128, 200, 256)
WARPS = (32, 64, 96, 128, 256)
BOUNDS = ("bounds", "full")
POWERS = (2, 4, 8, 16, 32, 64, 128, 256)


class Size(NamedTuple):
    """How large a launch is, and the seed of its data."""

    blocks: int
    threads: int
    seed: int = 0

    @property
    def count(self) -> int:
        return self.blocks * self.threads

    def integers(self, count: int | tuple[int, ...], low: int = 0, high: int = 100, dtype: Any = np.int32) -> Any:
        """Random numbers, the same for the same size."""
        return np.random.default_rng(self.seed).integers(low, high, count).astype(dtype)


class Empty(NamedTuple):
    """An argument that is made by `alloc_empty`."""

    shape: Any
    dtype: Any


class View(NamedTuple):
    """An argument that is a part of a buffer: of a new one of this array, or of that of an earlier argument."""

    array: np.ndarray
    part: Any
    of: int | None = None


USUAL = Size(3, 64)  # of a planted bug


@dataclass(frozen=True)
class Launch:
    """One launch: NumPy arrays become buffers; `expected` is what some of them hold afterwards, by parameter."""

    arguments: tuple[Any, ...]
    grid: Any
    block: Any
    expected: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, int] = field(default_factory=dict)

    def unchecked(self) -> Launch:
        """The same without what only the CPU device has."""
        kept = {name: value for name, value in self.options.items() if name in ("cluster", "cooperative")}
        return replace(self, options=kept)


class Manner(NamedTuple):
    """How a launch is run: with which checks, in which order (a seed; None: the usual), by how many workers."""

    check: str = "full"
    schedule: int | None = None
    workers: int = 2

    def options(self) -> dict[str, Any]:
        return {"check": self.check} | ({} if self.schedule is None else {"schedule": self.schedule})


MANNERS = (Manner(workers=1), Manner(workers=4), *(Manner(schedule=seed, workers=1) for seed in (0, 1, 7)))


@dataclass(frozen=True)
class Report:
    """What must be reported. Of what is None anything will do."""

    kind: str
    words: str = ""  # of the message
    array: str | None = None
    index: Collection[Any] | None = None  # one of these
    accesses: tuple[str, str] | None = None  # at the line HERE and at the line OTHER
    blocks: str | None = None  # are the two of the "same" block, or of "different" ones
    own: bool = False  # a thread with an asynchronous copy of its own
    facts: Mapping[str, Any] = field(default_factory=dict)

    def check(self, fault: kaio.KernelFault, here: set[int], other: set[int]) -> None:
        """Raise AssertionError for another report."""
        told, facts = str(fault), fault.facts
        assert fault.kind == self.kind, told  # type: ignore[attr-defined]
        assert self.words in told
        assert self.array is None or facts["array"] == self.array, told
        assert self.index is None or _plain(facts["index"]) in self.index, f"{facts}\n{told}"
        assert facts["line"] in here | other, told
        assert {name: facts[name] for name in self.facts} == self.facts, told
        places = [mistake.place.line for mistake in fault.mistakes if mistake.place is not None]
        if self.accesses is not None:
            first, second = (facts["line"], facts["access"]), (facts["other_line"], facts["other_access"])
            pairs = [{(a, self.accesses[0]), (b, self.accesses[1])} for a in here for b in other]
            assert {first, second} in pairs, f"{facts}\n{told}"
            is_own = (facts["thread"], facts["block"]) == (facts["other_thread"], facts["other_block"])
            assert is_own is self.own, told
        if other:
            assert len(places) == 2, told
            assert any({places[0], places[1]} == {a, b} for a in here for b in other), told
        if self.blocks is not None:
            assert (facts["block"] == facts["other_block"]) is (self.blocks == "same"), told


def _plain(index: Any) -> Any:
    return index[0] if isinstance(index, tuple) and len(index) == 1 else index


Make = Callable[[Size], Launch]


@dataclass(frozen=True)
class Case:
    """A planted bug and its twin; of further correct kernels there is only the latter."""

    planted: kaio.Kernel | None
    mended: kaio.Kernel
    make: Make
    report: Report | None = None
    of_mended: Make | None = None  # where it is the data or the launch that is mended
    levels: Collection[str] = ("full",)  # of checks at which it is found
    size: Size = USUAL
    threads: Collection[int] = ANY
    blocks: Collection[int] = (1, 2, 3, 5, 8)
    functions: tuple[Any, ...] = ()  # that the planted kernel calls, where they have marked lines
    on_gpu: bool = True  # whether the planted kernel ends on a GPU, and a tool can guard it there
    mended_on_gpu: bool = True
    name: str = ""

    def __str__(self) -> str:
        return self.name or (self.planted or self.mended).name

    def lines(self, mark: str) -> set[int]:
        """The marked lines of the planted kernel."""
        assert self.planted is not None
        return {line for one in (self.planted, *self.functions) for line in marked(one, mark)}

    def twin_launch(self, size: Size) -> Launch:
        return (self.of_mended or self.make)(size)

    def sizes(self) -> list[Size]:
        """Every number of threads once, with some number of blocks."""
        blocks = list(self.blocks)
        return [Size(blocks[k % len(blocks)], n, k) for k, n in enumerate(self.threads)]


def marked(function: Any, mark: str) -> Iterator[int]:
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    return (first + k for k, line in enumerate(lines) if re.search(rf"#.*\b{mark}\b", line))


@cache
def _pool(count: int) -> WorkerPool:
    return WorkerPool(count)


@contextmanager
def workers(device: kaio.Device, count: int) -> Iterator[None]:
    """The CPU device with another number of workers."""
    kept, device._workers = device._workers, _pool(count)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        device._workers = kept  # type: ignore[attr-defined]


def buffers_of(launch: Launch, device: kaio.Device) -> list[Any]:
    """The arguments on a device."""
    made: list[Any] = []
    whole: dict[int, kaio.GpuBuffer[Any]] = {}
    for place, value in enumerate(launch.arguments):
        if isinstance(value, View):
            whole[place] = device.alloc_from(value.array) if value.of is None else whole[value.of]
            made.append(whole[place][value.part])
        elif isinstance(value, Empty):
            made.append(device.alloc_empty(value.shape, value.dtype))
        elif isinstance(value, np.ndarray):
            made.append(device.alloc_from(value))
        else:
            made.append(value)
    return made


def run(kernel: kaio.Kernel, launch: Launch, device: kaio.Device, manner: Manner | None = None) -> dict[str, Any]:
    """Launch, wait, and give what the buffers hold afterwards, by parameter."""
    arguments = buffers_of(launch, device)
    options = {**({} if manner is None else manner.options()), **launch.options}
    made = kernel.grid(launch.grid).block(launch.block).options(**options)
    if launch.shared:
        made = made.shared(**launch.shared)
    if manner is None:
        made.launch(*arguments).wait(timeout_s=60)
    else:
        with workers(device, manner.workers):
            made.launch(*arguments).wait(timeout_s=60)
    names = [param.name for param in kernel.signature.params]
    return {n: a.to_host() for n, a in zip(names, arguments, strict=True) if isinstance(a, kaio.GpuBuffer)}


def check_results(found: Mapping[str, Any], launch: Launch, kernel: kaio.Kernel) -> None:
    """Raise AssertionError where a buffer does not hold what NumPy says."""
    for name, expected in launch.expected.items():
        np.testing.assert_array_equal(found[name], expected, err_msg=f"`{name}` of `{kernel.name}`")


# ---------------------------------------------------------------------- reports
def race(
    array: str, here: str, other: str, *, index: Collection[Any] | None = None, blocks: str | None = None
) -> Report:
    """A data race: the accesses at the lines HERE and OTHER."""
    return Report("race", f"data race on `{array}[", array, index, (here, other), blocks)


def uninitialised(array: str, index: Collection[Any] | None = None) -> Report:
    """A read of what nobody has written."""
    return Report("uninitialised", "before it is written", array, index)


def out_of_range(array: str, *index: int, axis: int = 0) -> Report:
    """An index that the array does not have: one of these."""
    return Report("index", f"is out of range for axis {axis} of `{array}`", array, index)


def divergence(words: str) -> Report:
    """Threads that are not together where they must be."""
    return Report("divergence", words)
