"""Streams with `completion="sync"`: whatever is put on one is done when the call returns.

So are all streams of a process with `KAIO_SYNC=1` in its environment, and there the call raises what went wrong: one
piece of work runs at a time, so that it is known which kernel faulted, and the traceback shows who launched it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kaio.runtime.recorded import Recorded
from kaio.runtime.stream import Launch, PreparedLaunch, Stream

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.completion import Completion
    from kaio.runtime.device import Device
    from kaio.runtime.policy import Policy

__all__ = ["SyncStream", "is_sync"]

C = TypeVar("C", bound="Completion")


def is_sync(device: Device, policy: Policy) -> bool:
    """Whether work of a stream with this policy is waited for."""
    return device.is_blocking or policy.completion == "sync"


def _waited(done: C) -> C:
    """The same, done; what went wrong is raised to who asks it, as without the wait."""
    if not isinstance(done, Recorded):  # which runs when its graph is launched
        if done.stream.device.is_blocking:
            done.wait()  # at the line that launched it
        else:
            done._block(None)
    return done


class SyncStream(Stream):
    """Comes before the stream of a device among the bases of a class, and waits for all that it starts."""

    def launch(self, launch: Launch) -> Completion:
        """See `Stream.launch`."""
        return _waited(super().launch(launch))

    def prepare(self, launch: Launch) -> PreparedLaunch:
        """See `Stream.prepare`."""
        return _SyncPrepared(super().prepare(launch))

    def copy(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """See `Stream.copy`."""
        return _waited(super().copy(target, source))

    def set(self, target: GpuBuffer[Any], pattern: bytes) -> Completion:
        """See `Stream.set`."""
        return _waited(super().set(target, pattern))

    def run(self, *args: Any) -> Completion:
        """See `Stream.run`."""
        return _waited(super().run(*args))


class _SyncPrepared:
    """A launch made ready that is waited for each time."""

    __slots__ = ("_prepared",)

    def __init__(self, prepared: PreparedLaunch) -> None:
        self._prepared = prepared

    def launch(self) -> Completion:
        """Launch it once more, and wait."""
        return _waited(self._prepared.launch())
