"""The context of a GPU: making it current, and what it can hold."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from kaio.runtime.cuda.driver import done, driver
from kaio.runtime.limits import Limits

__all__ = ["Current", "describe"]


class Current:
    """The context of a device is the current one inside; whatever was current is so again afterwards.

    A thread without a context keeps this one: to push and pop it each time would cost, and harms nobody.
    """

    __slots__ = ("_ask", "_context", "_pushed")

    def __init__(self, context: Any, ask: Callable[[tuple[Any, ...]], Any] = done) -> None:
        self._context, self._ask = context, ask

    def __enter__(self) -> None:
        current = int(self._ask(driver.cuCtxGetCurrent()))
        self._pushed = current not in (0, int(self._context))
        if self._pushed:
            self._ask(driver.cuCtxPushCurrent(self._context))
        elif not current:
            self._ask(driver.cuCtxSetCurrent(self._context))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pushed:
            driver.cuCtxPopCurrent()


def describe(handle: Any) -> tuple[tuple[int, int], Limits]:
    """Compute capability and limits, as the driver tells them."""

    def ask(name: str) -> int:
        return int(
            done(driver.cuDeviceGetAttribute(getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))
        )

    limits = Limits(
        max_threads_per_block=ask("MAX_THREADS_PER_BLOCK"),
        max_block=(ask("MAX_BLOCK_DIM_X"), ask("MAX_BLOCK_DIM_Y"), ask("MAX_BLOCK_DIM_Z")),
        max_grid=(ask("MAX_GRID_DIM_X"), ask("MAX_GRID_DIM_Y"), ask("MAX_GRID_DIM_Z")),
        shared_nbytes_per_block=ask("MAX_SHARED_MEMORY_PER_BLOCK"),
        shared_nbytes_optin=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers_per_block=ask("MAX_REGISTERS_PER_BLOCK"),
        warp_size=ask("WARP_SIZE"),
        multiprocessors=ask("MULTIPROCESSOR_COUNT"),
        threads_per_multiprocessor=ask("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_multiprocessor=ask("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        shared_nbytes_per_multiprocessor=ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
    )
    return (ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")), limits
