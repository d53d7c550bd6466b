"""The stages in order: parse, signature, check at decoration; translate, infer, emit at first use."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kaio.dsl.blocks import grid_sync
from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.check import read_kernel
from kaio.dsl.compiler.ir import Typed, calls_of
from kaio.dsl.compiler.middle import Middle, middle_of
from kaio.dsl.compiler.options import CompileOptions
from kaio.dsl.compiler.straight import straight
from kaio.dsl.index import grid
from kaio.dsl.types import Signature, Specialisation
from kaio.errors import CompileError, InternalError, KaioError, UnsupportedFeatureError, is_message
from kaio.forking import whole_lock
from kaio.program import UNCHECKED, Build, CudaProgram, HostProgram
from kaio.source import Source

if TYPE_CHECKING:
    from kaio.dsl.compiler.cuda.emit_ptx import Ptx
    from kaio.dsl.compiler.host.emit_host import HostModule

__all__ = [
    "Capture",
    "CompileOptions",
    "Compiled",
    "Front",
    "compile_cuda",
    "compile_host",
    "compile_ptx_for_host",
    "read",
]

__tracebackhide__ = is_message

_LOCK = whole_lock(0)  # Numba's front end keeps state of its own


@dataclass(frozen=True)
class Front:
    """A kernel that was read and checked: everything that is known before the types of a launch are."""

    function: types.FunctionType = field(repr=False)
    source: Source = field(repr=False)
    signature: Signature
    middles: dict[Any, Middle] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.signature}\n{self.source}"


@dataclass(frozen=True)
class Compiled:
    """A program, what it captured from outside, the value after each stage, and the `n` of each `grid(n)` it uses."""

    program: CudaProgram | HostProgram
    captures: tuple[Capture, ...] = field(repr=False)
    stages: Mapping[str, object] = field(repr=False)
    grid_ranks: frozenset[int] = frozenset()

    def is_current(self) -> bool:
        """Whether everything that was captured still is the same object."""
        return all(capture.is_current() for capture in self.captures)


def read(function: Callable[..., Any]) -> Front:
    """Parse a kernel, read its annotations and check its source; raises all mistakes at once."""
    __tracebackhide__ = is_message
    source, found = read_kernel(function)  # type: ignore[arg-type]
    return Front(function, source, found)  # type: ignore[arg-type]


def compile_cuda(
    front: Front,
    specialisation: Specialisation,
    options: CompileOptions,
    target: str,
    link: bool = True,
    build: Build = UNCHECKED,
) -> Compiled:
    """Compile for an architecture such as ``sm_90``; without `link` the program has PTX and no cubin."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler.cuda.emit_ptx import emit_ptx
    from kaio.dsl.compiler.cuda.ptx_names import entry_name

    with _LOCK, _faults_are_ours(front):
        middle = middle_of(front, specialisation)
        ptx = emit_ptx(middle.typed, target, options, str(front.signature), build)
    name = entry_name(front.signature.name)  # the entry, by which a device finds the kernel
    cubin = _link(ptx, name, target) if link else b""
    program = CudaProgram(
        name,
        target,
        specialisation.arguments,
        specialisation.index_bits,
        ptx.shared_nbytes,
        ptx.text,
        cubin,
        dynamic=ptx.dynamic,
        has_static=ptx.has_static,
        prints=ptx.prints,
        sites=ptx.sites,
        waits_for_grid=_waits_for_grid(middle.typed),
    )
    stages = {**middle.stages, "llvm": ptx.llvm, "ptx": ptx.text}
    return Compiled(program, tuple(middle.captures.values()), stages, _grid_ranks(middle.typed))


def _link(ptx: Ptx, name: str, target: str) -> bytes:
    """The cubin; what the assembler says of inline PTX is told to who wrote it."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler.cuda import toolchain
    from kaio.dsl.compiler.cuda.assembly import in_words

    try:
        return toolchain.link(ptx.text, name, target)
    except CompileError as problem:
        raise in_words(problem, ptx.text, ptx.written, target) from problem


def compile_host(front: Front, specialisation: Specialisation, options: CompileOptions, build: Build) -> Compiled:
    """Compile for the CPU device."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler.host.emit_host import emit_host
    from kaio.dsl.compiler.host.link_host import link_host

    with _LOCK, _faults_are_ours(front):
        middle = middle_of(front, specialisation)
        module = emit_host(middle.typed, build=build, contract=options.contract)
        program = link_host(module, front.signature.name, specialisation.arguments, specialisation.index_bits)
    if build in (UNCHECKED, Build("bounds")):
        program = replace(program, straight=straight(middle.typed))
    stages = {**middle.stages, "llvm": module.text}
    return Compiled(program, tuple(middle.captures.values()), stages, _grid_ranks(middle.typed))


def compile_ptx_for_host(
    front: Front, specialisation: Specialisation, options: CompileOptions, build: Build, target: str
) -> Compiled:
    """Compile for the CPU device what a GPU of an architecture would get: its PTX."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler.cuda.emit_ptx import emit_ptx
    from kaio.dsl.compiler.host.link_host import link_host

    with _LOCK, _faults_are_ours(front):
        middle = middle_of(front, specialisation)
        architecture = _own_architecture(middle.typed, target)
        ptx = emit_ptx(middle.typed, architecture, options, str(front.signature))
        if ptx.written:  # what the assembler refuses would not ship
            _link(ptx, front.signature.name, architecture)
        module = _read(ptx, middle.typed, build)
        linked = link_host(module, front.signature.name, specialisation.arguments, specialisation.index_bits)
        program = replace(linked, waits_for_grid=_waits_for_grid(middle.typed))
    stages = {**middle.stages, "ptx": ptx.text, "llvm": module.text}
    return Compiled(program, tuple(middle.captures.values()), stages, _grid_ranks(middle.typed))


def _read(ptx: Ptx, typed: Typed, build: Build) -> HostModule:
    """What a kernel's PTX is on the host; inline PTX may be right and yet say what kaio does not read."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler.ptx.emit import emit_from_ptx

    try:
        return emit_from_ptx(ptx, typed, build=build)
    except InternalError as problem:
        if not ptx.written:
            raise
        code = next(iter(ptx.written.values()))
        raise UnsupportedFeatureError(
            f'`route="ptx"` does not read the inline PTX of kernel `{typed.function.name}`: {problem}',
            place=code.call,
            help=f"write it in another way, or leave `route=` out; it is written in {code.place}",
        ) from problem


def _own_architecture(typed: Typed, target: str) -> str:
    """``sm_90a`` instead of ``sm_90`` where a kernel has what is on that architecture alone."""
    needed = {getattr(call.callee, "since", "") for _, call in calls_of(typed)}
    return f"{target}a" if f"{target}a" in needed else target


def _waits_for_grid(typed: Typed) -> bool:
    return any(call.callee is grid_sync for _, call in calls_of(typed))


def _grid_ranks(typed: Typed) -> frozenset[int]:
    """The `n` of each `grid(n)`, also of the device functions."""
    return frozenset(call.static[0] for _, call in calls_of(typed) if call.callee is grid)


@contextmanager
def _faults_are_ours(front: Front) -> Iterator[None]:
    """Whatever is raised that is no message for the user is a fault of the compiler, and says so."""
    __tracebackhide__ = is_message
    try:
        yield
    except KaioError:
        raise
    except RecursionError as problem:  # of Python's compiler too, which takes less from a tree than from a text
        raise CompileError(
            f"kernel `{front.signature.name}` nests deeper than the compiler goes",
            place=front.source.place(front.source.node),
            help="give the parts of its longest expression names",
        ) from problem
    except Exception as problem:
        raise InternalError(
            f"the compiler failed on kernel `{front.signature.name}` ({type(problem).__name__}: {problem})",
            place=front.source.place(front.source.node),
            help="please report it with the kernel",
        ) from problem
