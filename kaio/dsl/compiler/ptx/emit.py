"""Parsed PTX to the host's LLVM: a coroutine where a thread may wait, else loops over the threads of a block."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.cuda.emit_ptx import Ptx
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.compiler.host.emit_host import HostModule, finished
from kaio.dsl.compiler.host.host_drivers import emit_k_plain, emit_k_start_and_run
from kaio.dsl.compiler.ptx.cycles import spinning
from kaio.dsl.compiler.ptx.memory_map import MemoryMap
from kaio.dsl.compiler.ptx.parse import parse
from kaio.dsl.compiler.ptx.places import Places, sources_of
from kaio.dsl.compiler.ptx.syntax import Instruction, Module
from kaio.dsl.compiler.ptx.thread import PtxThread
from kaio.dsl.compiler.ptx.walk import Walk, record_of
from kaio.program import Build

__all__ = ["emit_from_ptx"]


def emit_from_ptx(ptx: Ptx, typed: ir.Typed, *, build: Build) -> HostModule:
    """What a GPU would get, for this machine; `build` says what is found while it runs."""
    parsed, module = parse(ptx.text), llvm.Module(typed.function.name)
    memory = MemoryMap(parsed, module, ptx.shared_nbytes)
    spins = any(any(spinning(function).values()) for function in parsed.functions.values())
    waits = build.stepped or spins or _waits(parsed)
    thread = PtxThread(module, "body", Sites(), Inputs(typed), memory, waits=waits, spins=spins, build=build)
    thread.begin()
    Walk(parsed, thread, Places(sources_of(typed))).kernel()
    thread.finish()
    if waits:
        emit_k_start_and_run(thread)
    else:
        emit_k_plain(thread, None)
    made = finished(thread, ("k_start", "k_run") if waits else ("k_plain",))
    return replace(made, prints=ptx.prints)


def _waits(module: Module) -> bool:
    """Whether a thread may wait in an instruction of the module."""
    for function in module.functions.values():
        for item in function.body:
            found = record_of(item) if isinstance(item, Instruction) else None
            if found is not None and found[0].suspends:
                return True
    return False
