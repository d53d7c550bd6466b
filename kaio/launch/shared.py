"""Shared memory that a launch gives sizes to: the counts as users write them, and where each array lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaio.errors import LaunchError, did_you_mean, is_message
from kaio.launch.geometry import is_whole_number
from kaio.program import CudaProgram, Program, aligned
from kaio.runtime.limits import Limits

__all__ = ["SharedMemory", "lay_out", "read_counts"]

__tracebackhide__ = is_message


class SharedMemory(NamedTuple):
    """The shared memory of a launch: what goes into the argument block, and the bytes that the device is asked for."""

    places: tuple[int, ...] = ()  # offset in bytes and size in elements of each dynamic array
    nbytes: int = 0


def read_counts(kernel: str, counts: Mapping[str, Any]) -> dict[str, int]:
    """The elements of each dynamic array, as given to `shared`: whole numbers from 0, or LaunchError."""
    found: dict[str, int] = {}
    for name, count in counts.items():
        if not is_whole_number(count):
            is_float = isinstance(count, float | np.floating)
            raise LaunchError(
                f"`shared({name}=…)` of kernel `{kernel}` counts elements, a whole number (got {count!r})",
                help="divide with `//`" if is_float else f"for example `.shared({name}=256)`",
            )
        if count < 0:
            raise LaunchError(f"`shared({name}=…)` of kernel `{kernel}` must be at least 0 (got {count})")
        found[name] = int(count)
    return found


def lay_out(kernel: str, program: Program, counts: Mapping[str, int], limits: Limits, device: str) -> SharedMemory:
    """Lay the dynamic arrays behind each other; LaunchError for a wrong name, or for more than a block can have."""
    names = [array.name for array in program.dynamic]
    _check_names(kernel, names, counts)
    places: list[int] = []
    sizes: dict[str, int] = {}
    end = program.dynamic_start
    for array in program.dynamic:
        start = aligned(end)
        places += (start, counts[array.name])
        sizes[array.name] = counts[array.name] * array.dtype.itemsize
        end = start + sizes[array.name]
    static = program.shared_nbytes
    is_apart = isinstance(program, CudaProgram) and program.has_static
    if not names:
        end = 0 if is_apart else static
    total = end
    if is_apart:
        total += aligned(static) if end else static
    if total > limits.shared_nbytes_optin:
        raise _too_much(kernel, static, sizes, total, limits.shared_nbytes_optin, device)
    return SharedMemory(tuple(places), end)


def _check_names(kernel: str, names: list[str], counts: Mapping[str, int]) -> None:
    unknown = [name for name in counts if name not in names]
    if unknown:
        if not names:
            way_out = f'declare it in the kernel: `kaio.dynamic_shared("{unknown[0]}", kaio.f32)`'
        else:
            way_out = did_you_mean(unknown[0], names) or f"it has {_listed(names)}"
        raise LaunchError(f"kernel `{kernel}` has no dynamic shared array `{unknown[0]}`", help=way_out)
    missing = [name for name in names if name not in counts]
    if missing:
        written = ", ".join(f"{name}={counts.get(name, '…')}" for name in names)
        raise LaunchError(
            f"kernel `{kernel}` is launched without the size of its dynamic shared array"
            f"{'s' * (len(missing) > 1)} {_listed(missing)}",
            help=f"give the elements before the launch: `.shared({written})`",
        )


def _listed(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _too_much(kernel: str, static: int, sizes: Mapping[str, int], total: int, limit: int, device: str) -> LaunchError:
    parts = [f"{static} static"] * bool(static or not sizes)
    parts += [f"{size} for `{name}`" for name, size in sizes.items()]
    way_out = "make its `shared_mem` arrays smaller"
    if sizes:
        left = max(0, limit - aligned(static))
        way_out = f"beside the static arrays there are {left} bytes" if static else "ask for fewer elements"
    return LaunchError(
        f"kernel `{kernel}` needs {total} bytes of shared memory for a block ({', '.join(parts)}), "
        f"but {device} has at most {limit}",
        help=way_out,
    )
