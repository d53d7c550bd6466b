"""`BoundLaunch`: a launch checked and packed once, to be repeated near the driver's floor."""

from __future__ import annotations

from typing import Any, NoReturn

from kaio.errors import BufferClosedError, LaunchError, is_message
from kaio.launch.buffers import named
from kaio.launch.launcher import Launcher
from kaio.launch.recorded import changed, note_call
from kaio.runtime import Completion, GpuBuffer

__all__ = ["BoundLaunch"]

__tracebackhide__ = is_message


class BoundLaunch:
    """A kernel with geometry and arguments; `launch()` repeats it. Made by `kernel.over(…).bind(…)`.

    It keeps its buffers alive. It does not look again at globals that the kernel captured, nor at which stream is
    current: it runs where it was bound. A buffer closed since raises BufferClosedError.
    """

    __slots__ = ("_device", "_launcher", "_prepared", "_values")

    def __init__(self, launcher: Launcher, values: list[Any]) -> None:
        self._launcher = launcher
        self._prepare(values)

    def _prepare(self, values: list[Any]) -> None:
        launcher = self._launcher
        call = launcher.kernel.parameters.as_call(values)
        stream, launch = launcher.ready(*call)
        if launcher._stream is None:
            stream = stream.device.stream_for(launch.uses, is_bound=True)
        self._prepared = stream.prepare(launch)
        self._values, self._device = values, stream.device

    def launch(self) -> Completion:
        """Launch once more; returns at once with the work's Completion."""
        __tracebackhide__ = is_message
        try:
            done = self._prepared.launch()
            if self._device.recordings:
                note_call(done, self._launcher, self._values)
            return done
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
        self._prepare(changed(self._launcher.kernel, self._values, changes))

    def __reduce__(self) -> NoReturn:
        raise LaunchError(
            f"a BoundLaunch of kernel `{self._launcher.kernel.name}` is neither copied nor pickled: "
            "it holds a stream and buffers of this process",
            help="bind again: `kernel.over(…).bind(…)`",
        )

    def __repr__(self) -> str:
        return f"<BoundLaunch {self._launcher!r}>"
