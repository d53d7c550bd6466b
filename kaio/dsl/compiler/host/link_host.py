"""The LLVM of a kernel to a program of the CPU device: object code, the scheduler's, and what the two need to know."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Literal

from kaio import host_abi as abi
from kaio.dsl.compiler.host import libdevice, native
from kaio.dsl.compiler.host.emit_host import HostModule
from kaio.dsl.compiler.host.scheduler import scheduler_object
from kaio.dsl.compiler.host.shadow_object import shadow_object
from kaio.program import Argument, HostProgram, Shadow

__all__ = ["link_host"]


def link_host(
    module: HostModule, name: str, arguments: tuple[Argument, ...], index_bits: Literal[32, 64], target: str = "host"
) -> HostProgram:
    """Compile a kernel's module for this machine, with what it uses of libdevice."""
    code = native.compile_object(module.text, libdevice.functions(module.libdevice), exported=module.exported)
    program = HostProgram(
        name=name,
        target=target,
        arguments=arguments,
        index_bits=index_bits,
        shared_nbytes=module.shared_nbytes,
        code=code,
        scheduler=scheduler_object(),
        sites=module.sites,
        waits_for_grid=any(site.kind == "grid" for site in module.sites),
        frame_nbytes=0,
        dynamic=module.dynamic,
        prints=module.prints,
        watched=module.watched,
        shared=module.shared,
        shadow=_shadow(module) if module.granule else None,
    )
    return replace(program, frame_nbytes=_frame_nbytes(program)) if module.waits else program


def _shadow(module: HostModule) -> Shadow:
    return Shadow(
        shadow_object(), module.granule, module.local, module.apart, module.orders, module.in_part, module.alike
    )


def _frame_nbytes(program: HostProgram) -> int:
    """The size of one coroutine frame, which LLVM knows after it has split the coroutine: the code says it."""
    address, _library = native.load(program.code, "k_start")
    context = (ctypes.c_int64 * (abi.CONTEXT_NBYTES // 8))()
    # `k_start` reads its arguments before it asks for the frame.
    nothing = ctypes.create_string_buffer(max(1, program.block.size))
    context[abi.ARGUMENTS // 8] = context[abi.WORDS // 8] = ctypes.addressof(nothing)
    dimensions = (ctypes.c_int32 * (abi.CONTEXT_NBYTES // 4)).from_buffer(context)
    for position in range(abi.BLOCK_DIM // 4, abi.BLOCK_IDX // 4):
        dimensions[position] = 1
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)(address)(context, 0, 1, 0)
    return context[abi.FRAME_NBYTES // 8]
