"""LLVM modules to object code of this machine.

Each use makes its own target machine: an execution engine owns the one it is given and frees it.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm

from kaio.errors import InternalError
from kaio.forking import whole_lock

__all__ = [
    "Machine",
    "add_triple",
    "compile_object",
    "converts_halves",
    "host_key",
    "load",
    "new_machine",
    "optimise",
    "parse",
]

Machine = Any


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _host() -> tuple[str, str, str]:
    _initialise()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def host_key() -> str:
    """What object code depends on beside its source: the machine, its features, and the LLVM that wrote it."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return "|".join((*_host(), version))


@functools.cache
def converts_halves() -> bool:
    """Whether the machine converts between f16 and f32; elsewhere LLVM would call a function that is not there."""
    triple, _, features = _host()
    return not triple.startswith(("x86", "i386", "i686")) or "+f16c" in features.split(",")


def new_machine(features: str | None = None) -> Machine:
    """A target machine for this processor; code is position independent and fully optimised."""
    triple, cpu, own = _host()
    target = llvm.Target.from_triple(triple)
    chosen = own if features is None else features
    return target.create_target_machine(cpu=cpu, features=chosen, opt=3, reloc="pic", codemodel="small")


def parse(text: str) -> Any:
    """The module that an LLVM text says, verified."""
    _initialise()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as problem:
        raise InternalError(f"the LLVM module of the host is not valid: {problem}") from problem
    return module


def add_triple(module: Any, machine: Machine) -> None:
    """Make a module one of this machine."""
    module.triple, module.data_layout = machine.triple, str(machine.target_data)


def optimise(module: Any, machine: Machine, level: int = 3) -> None:
    """Run LLVM's default pipeline, which contains the lowering of coroutines."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = level == 3
    # Never of straight code (SLP): of a `u8` and an `i8` that are unpacked side by side it makes one shift with amounts
    # beyond the width in the lanes that are masked, for which LLVM 22 makes wrong AVX2 code.
    tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def compile_object(
    text: str, libraries: Iterable[bytes] = (), *, exported: Iterable[str], features: str | None = None
) -> bytes:
    """Object code of an LLVM text, with what it calls of the bitcode `libraries` linked in.

    Only the functions named in `exported` stay visible. A function that nobody defines is an `InternalError` naming it.
    """
    machine = new_machine(features)
    module = parse(text)
    add_triple(module, machine)
    kept = frozenset(exported)
    for library in libraries:
        module.link_in(llvm.parse_bitcode(library))
    for function in module.functions:
        if not function.is_declaration and function.name not in kept:
            function.linkage = "internal"
    optimise(module, machine)
    _check_defined(module)
    code: bytes = machine.emit_object(module)
    return code


def _check_defined(module: Any) -> None:
    """Nothing may be left that the machine cannot resolve: LLVM would abort the process instead of raising."""
    lost = [f.name for f in module.functions if f.is_declaration and not _is_resolved(f.name)]
    if lost:
        names = ", ".join(f"`{name}`" for name in sorted(lost))
        raise InternalError(f"no definition for the host of {names}")


def _is_resolved(name: str) -> bool:
    if name.startswith("llvm."):
        return not name.startswith("llvm.nvvm.")
    return bool(llvm.address_of_symbol(name)) or hasattr(ctypes.pythonapi, name)  # in LLVM, or in this process


def load(code: bytes, name: str) -> tuple[int, object]:
    """Load object code into this process; the address of one exported function, and what keeps it there."""
    with _LOADING:
        _LOADED.append(None)
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
        tracker = library.link(_engine(), f"kaio.compiler.{len(_LOADED)}")
    return tracker[name], tracker


_LOADING = whole_lock(3)
_LOADED: list[None] = []


@functools.cache
def _engine() -> Any:
    _initialise()
    # JITLink puts all sections of an object side by side, as relative addresses between them need.
    return llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)
