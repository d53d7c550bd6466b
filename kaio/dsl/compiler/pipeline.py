"""The stages in order: parse, signature, check at decoration; translate, infer, emit at first use."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.check import check, check_specialisation, read_kernel
from kaio.dsl.compiler.ir import Typed
from kaio.dsl.compiler.options import CompileOptions
from kaio.dsl.compiler.parse import parse
from kaio.dsl.index import grid
from kaio.dsl.types import BufferAnnotation, Signature, Specialisation
from kaio.dsl.values import BufferType, ObjectType, Type, Weak, index_type
from kaio.errors import CompileError, InternalError, KaioError, KernelTypeError, Mistake, Place, is_message
from kaio.program import CudaProgram, HostProgram
from kaio.source import Source

__all__ = ["Capture", "CompileOptions", "Compiled", "Front", "compile_cuda", "compile_host", "read"]

__tracebackhide__ = is_message

_STATIC_SHARED_NBYTES = 48 * 1024
_LOCK = threading.RLock()  # Numba's front end keeps state of its own


@dataclass(frozen=True)
class Front:
    """A kernel that was read and checked: everything that is known before the types of a launch are."""

    function: types.FunctionType = field(repr=False)
    source: Source = field(repr=False)
    signature: Signature
    middles: dict[Any, _Middle] = field(default_factory=dict, repr=False, compare=False)

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
    front: Front, specialisation: Specialisation, options: CompileOptions, target: str, link: bool = True
) -> Compiled:
    """Compile for an architecture such as ``sm_90``; without `link` the program has PTX and no cubin."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler import toolchain
    from kaio.dsl.compiler.emit_ptx import emit_ptx, entry_name

    with _LOCK, _faults_are_ours(front):
        middle = _middle(front, specialisation)
        typed = middle.typed
        ptx = emit_ptx(typed, target, options, str(front.signature))
    _check_shared(front, ptx.shared_nbytes)
    name = entry_name(front.signature.name)  # the entry, by which a device finds the kernel
    cubin = toolchain.link(ptx.text, name, target) if link else b""
    program = CudaProgram(
        name, target, specialisation.arguments, specialisation.index_bits, ptx.shared_nbytes, ptx.text, cubin
    )
    stages = {**middle.stages, "llvm": ptx.llvm, "ptx": ptx.text}
    return Compiled(program, tuple(middle.captures.values()), stages, _grid_ranks(typed))


def compile_host(front: Front, specialisation: Specialisation, options: CompileOptions, check: str) -> Compiled:
    """Compile for the CPU device; `check` is ``off`` or ``bounds``."""
    __tracebackhide__ = is_message
    from kaio.dsl.compiler.emit_host import emit_host
    from kaio.dsl.compiler.link_host import link_host

    with _LOCK, _faults_are_ours(front):
        middle = _middle(front, specialisation)
        typed = middle.typed
        module = emit_host(typed, check=check != "off", contract=options.contract)
        _check_shared(front, module.shared_nbytes)
        program = link_host(module, front.signature.name, specialisation.arguments, specialisation.index_bits)
    stages = {**middle.stages, "llvm": module.text}
    return Compiled(program, tuple(middle.captures.values()), stages, _grid_ranks(typed))


def _grid_ranks(typed: Typed) -> frozenset[int]:
    """The `n` of each `grid(n)`, also of the device functions."""
    found: set[int] = set()
    for call in typed.calls.values():
        if call.callee is grid:
            found.add(call.static[0])
        elif isinstance(call.callee, Typed):
            found |= _grid_ranks(call.callee)
    return frozenset(found)


@contextmanager
def _faults_are_ours(front: Front) -> Iterator[None]:
    """Whatever is raised that is no message for the user is a fault of the compiler, and says so."""
    __tracebackhide__ = is_message
    try:
        yield
    except KaioError:
        raise
    except Exception as problem:
        raise InternalError(
            f"the compiler failed on kernel `{front.signature.name}` ({type(problem).__name__}: {problem})",
            place=front.source.place(front.source.node),
            help="please report it with the kernel",
        ) from problem


def _check_shared(front: Front, nbytes: int) -> None:
    """The limit of every GPU for memory that is sized when compiling; the CPU device keeps to it."""
    if nbytes > _STATIC_SHARED_NBYTES:
        raise CompileError(
            f"kernel `{front.signature.name}` uses {nbytes} bytes of shared memory, "
            f"and a block has {_STATIC_SHARED_NBYTES}",
            place=front.source.place(front.source.node),
            help="make its `shared_mem` arrays smaller",
        )


def _middle(front: Front, specialisation: Specialisation) -> _Middle:
    """The typed IR of a specialisation: made once for both machines, and anew when a captured value changed."""
    key = _identity(specialisation)
    found = front.middles.get(key)
    if found is None or not all(capture.is_current() for capture in found.captures.values()):
        found = front.middles[key] = _Middle(front, specialisation)
    return found


def _identity(specialisation: Specialisation) -> tuple[Any, ...]:
    """A key that tells 1 from True and 0.0 from -0.0."""
    consts = tuple((name, type(value), repr(value)) for name, value in specialisation.consts)
    return consts, specialisation.dtypes, specialisation.index_bits


class _Middle:
    """The stages that both machines share: translate and infer, for a kernel and the functions it calls."""

    typed: Typed

    def __init__(self, front: Front, specialisation: Specialisation) -> None:
        self.front, self.specialisation = front, specialisation
        self.index = index_type(specialisation.index_bits)
        self.captures: dict[tuple[int, str], Capture] = {}
        self.functions: dict[Any, Any] = {}
        self.active: list[types.FunctionType] = []
        self.stages: dict[str, object] = {"source": front.source, "signature": front.signature}
        self.typed = self._type()

    def _type(self) -> Typed:
        __tracebackhide__ = is_message
        from kaio.dsl.compiler.translate import translate

        consts, dtypes = dict(self.specialisation.consts), dict(self.specialisation.dtypes)
        check_specialisation(self.front.function, self.front.source, self.front.signature, {**consts, **dtypes})
        translated = translate(self.front.function, self.front.source, consts, dtypes)
        self.stages["ir"] = translated.function
        self._note(translated.captures)
        arguments = self._argument_types()
        typed: Typed = self._infer(self.front.function, translated.function, arguments)
        self.stages["types"] = typed
        return typed

    def _argument_types(self) -> dict[str, Type]:
        found: dict[str, Type] = {}
        annotations = {p.name: p.annotation for p in self.front.signature.params}
        for argument in self.specialisation.arguments:
            if isinstance(annotations[argument.name], BufferAnnotation):
                found[argument.name] = BufferType(argument.dtype, argument.ndim or 0, argument.access, self.index)
            else:
                found[argument.name] = argument.dtype
        return found

    def _infer(self, function: types.FunctionType, translated: Any, arguments: Mapping[str, Type]) -> Any:
        from kaio.dsl.compiler.infer import infer

        __tracebackhide__ = is_message
        self.active.append(function)
        try:
            return infer(translated, arguments, self.index, self._callee, self.captures)
        finally:
            self.active.pop()

    def _callee(self, function: types.FunctionType, parameters: Mapping[str, Type], place: Place) -> Any:
        """Type a device function for these argument types; a literal or an object is part of the specialisation."""
        if function in self.active:
            names = [f.__name__ for f in self.active[self.active.index(function) :]] + [function.__name__]
            raise KernelTypeError(
                [
                    Mistake(
                        f"recursion: {' → '.join(f'`{n}`' for n in names)}",
                        place,
                        "write it as a loop; a kernel has no call stack",
                    )
                ]
            )
        key = function, tuple(parameters.items())
        if key not in self.functions:
            self.functions[key] = self._type_function(function, parameters)
        return self.functions[key]

    def _type_function(self, function: types.FunctionType, parameters: Mapping[str, Type]) -> Any:
        from kaio.dsl.compiler.translate import translate

        consts = {name: known for name, type_ in parameters.items() if (known := _known(type_)) is not _UNKNOWN}
        try:
            source = parse(function)
            check(function, source, None, consts)
        except KaioError as problem:
            raise KernelTypeError(problem.mistakes) from problem
        translated = translate(function, source, consts, dict(self.specialisation.dtypes))
        parts = ("__code__", "__defaults__", "__kwdefaults__")
        self._note(tuple(Capture(function, part, getattr(function, part)) for part in parts))
        self._note(translated.captures)
        return self._infer(function, translated.function, parameters)

    def _note(self, captures: tuple[Capture, ...]) -> None:
        for capture in captures:
            self.captures[id(capture.namespace), capture.name] = capture


_UNKNOWN = object()


def _known(type_: Type) -> Any:
    """The value of an argument that only the compiler sees."""
    if isinstance(type_, ObjectType):
        return type_.value
    if isinstance(type_, Weak) and type_.value is not None:
        return type_.value
    return _UNKNOWN
