"""How a kernel is to be compiled, as its decorator says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CompileOptions"]


@dataclass(frozen=True)
class CompileOptions:
    """Options of `@kaio.kernel`.

    contract: fuse a product with the addition or subtraction of the same expression
    fastmath: on a GPU flush subnormals and divide and take roots approximately; `isnan` and `isinf` still work
    max_registers: at most so many registers a thread
    launch_bounds: never launched with more threads a block
    """

    contract: bool = True
    fastmath: bool = False
    max_registers: int | None = None
    launch_bounds: int | None = None
