"""Streams of other libraries as streams of kaio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError
from kaio.runtime.cuda.completion import CudaCompletion, Event
from kaio.runtime.cuda.driver import driver
from kaio.runtime.cuda.stream import CudaStream
from kaio.runtime.foreign_stream import LEGACY, read_handle
from kaio.runtime.policy import Policy
from kaio.runtime.sync_stream import SyncStream, is_sync

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice

__all__ = ["stream_over"]


def stream_over(device: CudaDevice, foreign: Any, policy: Policy | None) -> CudaStream:
    """The stream of the device over one of another library; the same one for the same, unless the policy is another."""
    handle = read_handle(foreign)
    with device._lock:
        found = device.by_handle.get(handle)
    if found is not None and not found.is_over and policy in (None, found.policy):
        return found
    return _ForeignStream.over(device, handle, foreign, policy or device.policy)


class _ForeignStream(CudaStream):
    """A stream that another library has made, and destroys."""

    _owner: Any
    is_owned = False

    @classmethod
    def over(cls, device: CudaDevice, handle: int, owner: Any, policy: Policy) -> CudaStream:
        """That of this handle, which lives as long as its owner."""
        made: type[_ForeignStream] = _LegacyStream if handle == LEGACY else _ForeignStream
        if is_sync(device, policy):
            made = _SyncLegacyStream if handle == LEGACY else _SyncForeignStream
        self = object.__new__(made)
        self.device, self.raw, self._owner = device, driver.CUstream(handle), owner
        with device.current():
            if int(device.ask(driver.cuStreamGetCtx(self.raw))) != int(device._context):
                raise KaioError(
                    f"{owner!r} is a stream of another device than {device}",
                    help="use one of the device of the buffers",
                )
            self.priority = int(device.ask(driver.cuStreamGetPriority(self.raw)))
        self._start(policy)
        return self


class _LegacyStream(_ForeignStream):
    """The legacy default stream of the device. Its handle means that of whichever context is the current one."""

    def submit(self, *args: Any, **options: Any) -> CudaCompletion:
        """See `CudaStream.submit`."""
        with self.device.current():
            return super().submit(*args, **options)

    def record_event(self) -> Event | None:
        """See `CudaStream.record_event`."""
        with self.device.current():
            return super().record_event()

    def _come_after(self, earlier: CudaCompletion) -> None:
        with self.device.current():
            super()._come_after(earlier)


class _SyncForeignStream(SyncStream, _ForeignStream):
    """One whose work is done when the call returns."""


class _SyncLegacyStream(SyncStream, _LegacyStream):
    """The default stream, the same."""
