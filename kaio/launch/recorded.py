"""`RecordedCall`: the call that a launch in a graph was made by, so that its arguments can be changed by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kaio.errors import LaunchError, is_message
from kaio.runtime import Completion
from kaio.runtime.recorded import Recorded

if TYPE_CHECKING:
    from kaio.launch.launcher import Launchable, Launcher
    from kaio.runtime.stream import Launch, Stream

__all__ = ["RecordedCall", "changed", "note_call"]

__tracebackhide__ = is_message


def changed(kernel: Launchable, values: Sequence[Any], changes: dict[str, Any]) -> list[Any]:
    """The arguments with some of them changed by name; LaunchError for a name that is none."""
    names = [param.name for param in kernel.parameters.params]
    for name in changes:
        if name not in names:
            raise LaunchError(
                f"kernel `{kernel.name}` has no parameter `{name}`",
                help=f"its parameters are `{kernel.parameters.signature}`",
            )
    return [changes.get(name, value) for name, value in zip(names, values, strict=True)]


def note_call(done: Completion, launcher: Launcher, values: list[Any]) -> None:
    """Note the call of a launch that was recorded, if it was."""
    if isinstance(done, Recorded):
        done.call = RecordedCall(launcher, values)


class RecordedCall:
    """A launcher, and the values of all parameters in their order."""

    def __init__(self, launcher: Launcher, values: list[Any]) -> None:
        self._launcher, self._values = launcher, values

    @property
    def names(self) -> Sequence[str]:
        """The parameters of its buffers."""
        return self._launcher.kernel.parameters.buffer_names

    def ready(self, changes: dict[str, Any]) -> tuple[Stream, Launch]:
        """Check it with these arguments changed."""
        __tracebackhide__ = is_message
        launcher = self._launcher
        values = changed(launcher.kernel, self._values, changes)
        call = launcher.kernel.parameters.as_call(values)
        return launcher.ready(*call)

    def accept(self, changes: dict[str, Any]) -> None:
        """These are the arguments from now on."""
        self._values = changed(self._launcher.kernel, self._values, changes)
