"""`BoundLaunch`: a launch checked and packed once, to be repeated near the driver's floor."""

from __future__ import annotations

from typing import Any, NoReturn

from kaio.errors import BufferClosedError, LaunchError, is_message
from kaio.launch.buffers import named
from kaio.launch.launcher import Launcher
from kaio.runtime import Completion, GpuBuffer

__all__ = ["BoundLaunch"]

__tracebackhide__ = is_message


class BoundLaunch:
    """A kernel with geometry and arguments; `launch()` repeats it. Made by `kernel.over(…).bind(…)`.

    It keeps its buffers alive. It does not look again at globals that the kernel captured, nor at which stream is
    current: it runs where it was bound. A buffer closed since raises BufferClosedError.
    """

    __slots__ = ("_launcher", "_prepared", "_values")

    def __init__(self, launcher: Launcher, values: list[Any]) -> None:
        self._launcher = launcher
        self._prepare(values)

    def _prepare(self, values: list[Any]) -> None:
        stream, variant, geometry, arguments, uses, shared_nbytes, together = self._launcher.ready(tuple(values), {})
        self._prepared = stream.prepare(
            variant.loaded,
            geometry.grid,
            geometry.block,
            arguments,
            uses,
            shared_nbytes,
            self._launcher.timed,
            together,
            self._launcher.run,
        )
        self._values = values

    def launch(self) -> Completion:
        """Launch once more; returns at once with the work's Completion."""
        __tracebackhide__ = is_message
        try:
            return self._prepared.launch()
        except BufferClosedError as problem:
            raise self._named(problem) from None

    def _named(self, problem: BufferClosedError) -> BufferClosedError:
        kernel = self._launcher.kernel
        for param, value in zip(kernel.parameters.params, self._values, strict=True):
            if isinstance(value, GpuBuffer) and value.is_closed:
                return named(problem, kernel.name, param.name)
        return problem

    __call__ = launch

    def update(self, **changes: Any) -> None:
        """Change arguments by name, with all checks; if one fails, nothing changes."""
        kernel = self._launcher.kernel
        names = [param.name for param in kernel.parameters.params]
        for name in changes:
            if name not in names:
                raise LaunchError(
                    f"kernel `{kernel.name}` has no parameter `{name}`",
                    help=f"its parameters are `{kernel.parameters.signature}`",
                )
        self._prepare([changes.get(name, value) for name, value in zip(names, self._values, strict=True)])

    def __reduce__(self) -> NoReturn:
        raise LaunchError(
            f"a BoundLaunch of kernel `{self._launcher.kernel.name}` is neither copied nor pickled: "
            "it holds a stream and buffers of this process",
            help="bind again: `kernel.over(…).bind(…)`",
        )

    def __repr__(self) -> str:
        return f"<BoundLaunch {self._launcher!r}>"
