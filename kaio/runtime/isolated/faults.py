"""What work of a worker fails with, in words, and who has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError, KernelFault, LaunchError, OutOfMemoryError
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.driver import DriverError, driver

if TYPE_CHECKING:
    from kaio.runtime.isolated.device import IsolatedDevice
    from kaio.runtime.isolated.link import Link
    from kaio.runtime.isolated.stream import IsolatedStream

__all__ = ["Failure", "explain", "refusal"]

_HELP = (
    "the device goes on with a new worker, and its buffers hold what they held, but for those that unfinished work "
    'was to write; `Device("cpu")` runs the same kernels and says where'
)


class Failure(Completion):
    """Stands for a failure until somebody has seen it, whatever became of the completion of the work."""

    def __init__(self, stream: IsolatedStream, error: KaioError, what: str) -> None:
        super().__init__(stream)
        self._finished, self._error, self._text = True, error, what

    def _spelled(self) -> str:
        return self._text


def driver_error(code: int) -> DriverError:
    """What the driver said in another process."""
    try:
        return DriverError(driver.CUresult(code))
    except ValueError:  # a driver that knows more errors than the bindings
        return DriverError(driver.CUresult.CUDA_ERROR_UNKNOWN)


def explain(device: IsolatedDevice, link: Link) -> tuple[KernelFault, str]:
    """Why a worker is gone, with all its unfinished work; and the work that it was, in words."""
    pending = link.first_pending()
    if link.stopped is not None:
        pending = [link.stopped.pending]
    kernels = tuple(dict.fromkeys(work.kernel for work in pending if work.kernel is not None))
    work = f"kernel `{kernels[0]}`" if len(kernels) == 1 else "work"
    who = work if len(kernels) < 2 else f"one of the kernels {', '.join(f'`{name}`' for name in kernels)}"
    facts: dict[str, Any] = {"kernel": kernels[0] if len(kernels) == 1 else None, "kernels": kernels, "code": link.code}
    cause = None
    if link.stopped is not None:
        facts |= {"kind": "endless", "timeout_s": link.stopped.timeout_s}
        what = f"{who} was not done after {link.stopped.timeout_s:g} s on {device}, and was stopped"
    elif link.code is not None:
        cause = driver_error(link.code)
        what = f"{who} failed on {device}: {cause}"
    else:
        what = f"the worker of {device} {link.last_words()}" + (f" while {who} was under way" if pending else "")
    fault = KernelFault(what, help=_HELP, **facts)
    fault.__cause__ = cause
    return fault, work


def refusal(device: IsolatedDevice, kernel: str | None, code: int) -> KaioError:
    """The error of work that the driver did not take; the device goes on."""
    cause = driver_error(code)
    what = "work" if kernel is None else f"kernel `{kernel}`"
    error: KaioError
    if code == int(driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
        error = OutOfMemoryError(
            f"{device} has no memory for what the threads of {what} have of their own: {cause}",
            help="let a thread have fewer or smaller arrays of its own, or close buffers that are not needed any more",
            kernel=kernel,
        )
    else:
        error = LaunchError(f"the CUDA driver refuses {what}: {cause}", code=code)
    error.__cause__ = cause
    return error
