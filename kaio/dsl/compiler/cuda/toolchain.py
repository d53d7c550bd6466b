"""NVIDIA's compiler libraries from their wheels: libNVVM (LLVM to PTX), nvJitLink (PTX to cubin), libdevice.

No GPU, no driver and no CUDA toolkit are needed. A cubin is linked by the nvJitLink of libNVVM's own version, so that a
libNVVM newer than the driver works: the driver never sees the PTX.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from kaio.errors import CompileError, UnsupportedFeatureError

__all__ = ["compile_nvvm", "libdevice_path", "link", "nvvm_architecture", "versions"]

# What libNVVM compiles for. A target between two of them takes the lower one's PTX, which nvJitLink assembles for it.
_ARCHITECTURES = (75, 80, 87, 89, 90, 100, 103, 110, 120, 121)
_OWN_ONLY = (87, 110)  # embedded parts: PTX for them is not a base for other targets
_TARGET = re.compile(r"sm_(\d+)([af]?)")


def nvvm_architecture(target: str) -> str:
    """libNVVM's name for a target.

    >>> nvvm_architecture("sm_86"), nvvm_architecture("sm_90a")
    ('compute_80', 'compute_90a')
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise UnsupportedFeatureError(f"`{target}` is not a target", help='name an architecture, for example "sm_90"')
    number, suffix = int(match[1]), match[2]
    if suffix or number in _ARCHITECTURES:
        return f"compute_{number}{suffix}"
    below = [a for a in _ARCHITECTURES if a < number and a not in _OWN_ONLY]
    if not below:
        raise UnsupportedFeatureError(
            f"`{target}` is older than sm_75, the first that libNVVM compiles for", help='use "sm_75" or later'
        )
    return f"compute_{below[-1]}"


def compile_nvvm(text: str, name: str, target: str, options: tuple[str, ...], needs_libdevice: bool) -> str:
    """Compile LLVM text in libNVVM's dialect to PTX."""
    from cuda.bindings import nvvm

    program = nvvm.create_program()
    try:
        code = text.encode()
        nvvm.add_module_to_program(program, code, len(code), name)
        if needs_libdevice:
            library = libdevice_path().read_bytes()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        arguments = [f"-arch={nvvm_architecture(target)}", *options]
        nvvm.compile_program(program, len(arguments), arguments)
        ptx = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, ptx)
        return ptx.rstrip(b"\0").decode()
    except nvvm.nvvmError as problem:
        raise CompileError(
            f"libNVVM cannot compile `{name}` for {target}: {_nvvm_log(program) or problem}"
        ) from problem
    finally:
        nvvm.destroy_program(program)


def _nvvm_log(program: int) -> str:
    from cuda.bindings import nvvm

    log = bytearray(nvvm.get_program_log_size(program))
    nvvm.get_program_log(program, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()


def link(ptx: str, name: str, target: str, options: tuple[str, ...] = ()) -> bytes:
    """Assemble PTX to a cubin for one architecture."""
    from cuda.bindings import nvjitlink

    arguments = [f"-arch={target}", "-lineinfo", *options]
    try:
        linker = nvjitlink.create(len(arguments), arguments)
    except nvjitlink.nvJitLinkError as problem:
        raise CompileError(f"nvJitLink cannot assemble for {target}: {problem}") from problem
    try:
        code = ptx.encode("ascii", "replace")  # comments and file names may hold more, which older assemblers refuse
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, code, len(code), name)
        nvjitlink.complete(linker)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as problem:
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        what = log.rstrip(b"\0").decode(errors="replace").strip() or str(problem)
        raise CompileError(f"nvJitLink cannot assemble `{name}` for {target}: {what}", log=what) from problem
    finally:
        nvjitlink.destroy(linker)


@functools.cache
def libdevice_path() -> Path:
    """Where NVIDIA's libdevice bitcode is."""
    from cuda.pathfinder import find_bitcode_lib

    return Path(find_bitcode_lib("device"))


@functools.cache
def versions() -> dict[str, Any]:
    """The versions of libNVVM and nvJitLink, which are part of what a compiled kernel depends on."""
    from cuda.bindings import nvjitlink, nvvm

    return {"nvvm": tuple(nvvm.version()), "nvjitlink": tuple(nvjitlink.version())}
