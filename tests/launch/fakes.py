"""A launch without a compiler: a kernel that has only a signature, and a stream that notes what is launched on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import kaio
from kaio.dsl.types import MISSING, Annotation, Param, ScalarAnnotation, Signature
from kaio.launch.arguments import Parameters
from kaio.program import Build, Program
from kaio.runtime import Completion, Stream
from kaio.runtime.stream import USUAL, Launch, RunOptions, Together


@dataclass
class Launched:
    """One launch as a stream saw it."""

    loaded: Loaded
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: bytes
    uses: tuple[Any, ...]
    timed: bool
    together: Together | None
    options: RunOptions = USUAL

    @property
    def values(self) -> tuple[Any, ...]:
        """The argument block, unpacked."""
        return self.loaded.program.block.unpack(self.arguments)


class _Every:
    """The builds for blocks that are like the first: all are there, and none is used."""

    def __contains__(self, build: Build) -> bool:
        return True

    def __bool__(self) -> bool:
        return False


@dataclass
class Loaded:
    program: Program
    max_threads: int | None = None
    name: str = ""
    short: None = None
    is_full: bool = False
    rests: Any = field(default_factory=lambda: _Every())

    @property
    def kernel(self) -> Loaded:
        """The host kernel: this itself."""
        return self

    def run(self, *_: object) -> None:
        """Run nothing."""

    def resident_blocks(self, device: kaio.Device, threads: int, shared_nbytes: int) -> int:
        """Each multiprocessor runs two blocks."""
        return 2

    def fullest_block(self, device: kaio.Device, shared_nbytes: int, most_threads: int) -> int:
        """As many as there may be, but for a warp."""
        return most_threads - 32


class Recorder(Stream):
    """A stream that notes launches and does nothing."""

    def __init__(self, device: kaio.Device) -> None:
        self.device, self.priority = device, 0
        self.launched: list[Launched] = []

    def launch(self, launch: Launch) -> Completion:
        loaded, grid, block, arguments, uses, _, timed, together, options = launch
        if 0 not in grid:
            self.launched.append(Launched(loaded, grid, block, bytes(arguments), tuple(uses), timed, together, options))
        return Completion.completed(self)

    def prepare(self, launch: Launch) -> Any:
        stream = self

        class Prepared:
            def launch(self) -> Completion:
                return stream.launch(launch)

        return Prepared()

    @property
    def last(self) -> Launched:
        return self.launched[-1]


@dataclass
class Variant:
    loaded: Loaded
    pack: Callable[..., bytes]
    grid_ranks: frozenset[int] = frozenset()


@dataclass
class FakeKernel:
    """What a launch needs of a kernel; notes the variants that were asked for."""

    signature: Signature
    launch_bounds: int | None = None
    max_threads: int | None = None
    grid_ranks: frozenset[int] = frozenset()
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters = Parameters(self.signature)
        self.variants = self
        self.name = self.signature.name

    def find(self, device: Any, build: Build, key: tuple[Any, ...], wide: bool) -> None:
        return None

    def make(self, device: Any, build: Build, call: Any, wide: bool) -> Variant:
        self.asked.append((build, self.parameters.consts(call), self.parameters.generic_dtypes(call), wide))
        specialised = self.signature.specialise(
            self.parameters.consts(call), self.parameters.generic_dtypes(call), 64 if wide else 32
        )
        program = Program(self.name, "sm_90", specialised.arguments, specialised.index_bits, 0)
        return Variant(Loaded(program, self.max_threads), program.block.pack, self.grid_ranks)


def fake(
    name: str,
    *,
    launch_bounds: int | None = None,
    max_threads: int | None = None,
    grid_ranks: frozenset[int] = frozenset(),
    **annotations: Any,
) -> FakeKernel:
    """A kernel with these parameters; `(annotation, default)` for one with a default."""
    params = []
    for param, given in annotations.items():
        annotation, default = given if isinstance(given, tuple) else (given, MISSING)
        if not isinstance(annotation, Annotation):
            annotation = ScalarAnnotation(annotation)
        params.append(Param(param, annotation, default))
    return FakeKernel(Signature(name, tuple(params)), launch_bounds, max_threads, grid_ranks)
