"""Streams of other libraries: how they say which one they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError, UnsupportedFeatureError

if TYPE_CHECKING:
    from kaio.runtime.device import Device
    from kaio.runtime.stream import Stream

__all__ = ["LEGACY", "ForeignPlace", "is_foreign_stream", "read_handle"]

LEGACY, _PER_THREAD = 1, 2  # the special handles of cuda.h; 0 is the first of them, unless compiled otherwise


def is_foreign_stream(stream: Any) -> bool:
    """Whether it says which CUDA stream it is: by `__cuda_stream__`, or as torch or CuPy does."""
    return _find(stream) is not None


def _find(stream: Any) -> Any:
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol  # a property in early versions of cuda.core
        if isinstance(answer, tuple) and len(answer) == 2 and answer[0] == 0:
            return answer[1]
        raise KaioError(f"`__cuda_stream__` of {stream!r} gives (0, handle) (got {answer!r})")
    for name in ("cuda_stream", "ptr"):  # torch, CuPy
        handle = getattr(stream, name, None)
        if isinstance(handle, int) and not isinstance(handle, bool):
            return handle
    return None


def read_handle(stream: Any) -> int:
    """The handle of a stream of another library; the legacy default stream has 1.

    Raises:
        KaioError: it is no stream.
        UnsupportedFeatureError: it is the default stream of whichever thread uses it.
    """
    handle = _find(stream)
    if handle is None:
        raise KaioError(
            f"`foreign` is a stream of another library (got {stream!r})",
            help="one that has `__cuda_stream__`, or a stream of torch or CuPy",
        )
    if int(handle) == _PER_THREAD:
        raise UnsupportedFeatureError(
            f"{stream!r} is the per-thread default stream, another one in each thread, which kaio cannot keep in order",
            help="make a stream with that library, and use it",
        )
    return int(handle) or LEGACY


class ForeignPlace:
    """A stream of another library as the place of a launch, until it is known on which device that is."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Any) -> None:
        read_handle(stream)
        self._stream = stream

    def on(self, device: Device) -> Stream:
        """The stream of the device over it."""
        return device.stream(foreign=self._stream)

    def __repr__(self) -> str:
        return repr(self._stream)
