"""Launches of which the first block is checked fully, and shows for those that do alike; they run without a shadow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from kaio.program import Access, Build
from kaio.runtime.alike import count_alike
from kaio.runtime.host_memory import Written
from kaio.runtime.stream import USUAL, RunOptions, Together, Uses

if TYPE_CHECKING:
    from kaio.runtime.cpu_device import CpuLoaded

__all__ = ["FEWEST", "may_be_alike", "rest_of", "run_by_first"]

FEWEST = 16
"""Blocks of a launch for which it is worth the time to compile the kernel once more."""

_PLAIN, _NOTING = Build("bounds"), Build("bounds", covered=True)


def may_be_alike(loaded: CpuLoaded, grid: Any, together: Together | None, options: RunOptions) -> bool:
    """Whether a launch is one that its first block may show for, as far as that is known without its arguments."""
    shadow = loaded.program.shadow
    if shadow is None or shadow.alike is None or prod(grid) < FEWEST or together is not None:
        return False
    return options._replace(timeout_s=USUAL.timeout_s) == USUAL


def rest_of(uses: Uses) -> Build:
    """How the kernel has to be compiled for the other blocks: it notes where it writes in memory that held anything."""
    return _build([(buffer.memory.unwritten, access) for buffer, access in uses]) or _PLAIN


def _build(memory: Sequence[tuple[Written | None, Access]]) -> Build | None:
    """The same; None where what is read may not have been written, which only the full checks tell."""
    left = {access for written, access in memory if written is not None and not written.is_complete}
    return None if left - {"Out"} else _NOTING if left else _PLAIN


def run_by_first(
    loaded: CpuLoaded,
    accesses: Sequence[Access],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: Any,
    workers: Any,
    shared_nbytes: int,
    cluster: tuple[int, int, int],
    options: RunOptions,
    unwritten: Sequence[Written | None],
) -> None:
    """Run a launch with all checks: its first block, and if nothing is wrong those that are like it without."""
    build = _build(list(zip(unwritten, accesses, strict=True)))
    usable = () if build is None else (build, _NOTING)
    build, rest = next(((build, loaded.rests[build]) for build in usable if build in loaded.rests), (None, None))
    count = 0 if rest is None else count_alike(loaded.program, grid, block, arguments)
    blocks, given = prod(grid), (grid, block, arguments, workers, shared_nbytes, cluster, options, unwritten)
    if rest is None or count < 2:
        loaded.kernel.run(*given)
        return
    loaded.kernel.run(*given, numbers=range(1))
    rest.kernel.run(*given, numbers=range(1, count), notes=build == _NOTING)
    if count < blocks:
        loaded.kernel.run(*given, numbers=range(count, blocks))
