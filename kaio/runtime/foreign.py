"""`Foreign`: the array of another library, described; how to describe one is registered by `kaio.interop`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kaio.dtypes import DType
from kaio.runtime.foreign_stream import LEGACY

if TYPE_CHECKING:
    from kaio.runtime.device import Device

__all__ = ["READERS", "Foreign", "ForeignHandle", "handle_of", "read_foreign"]

ForeignHandle = int | Callable[[], int]


def handle_of(stream: ForeignHandle) -> int:
    """The handle of a stream of another library now; that of the legacy default stream is 1."""
    return (stream if isinstance(stream, int) else stream()) or LEGACY


@dataclass(frozen=True)
class Foreign:
    """Memory of another library: where it is, how it is laid out (strides in bytes), and what keeps it alive.

    `stream` is the CUDA stream that the other library uses it on, or what tells which one is its current one; work of
    kaio is ordered after what is on that stream, and what comes on it later after the work of kaio. Without one,
    `is_joined` says that the library has let the device's current stream wait for what it has still to do.
    """

    kind: Literal["cpu", "cuda"]
    ordinal: int
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    read_only: bool = False
    owner: Any = field(default=None, repr=False)
    stream: ForeignHandle | None = None
    is_joined: bool = False

    @property
    def place(self) -> str:
        """The device in words: ``cpu``, ``cuda:0``."""
        return "cpu" if self.kind == "cpu" else f"cuda:{self.ordinal}"


Reader = Callable[[Any, "Device | None"], "Foreign | None"]

# In order: each gives None for what it does not know. The runtime knows no protocol itself (imports point down).
READERS: list[Reader] = []


def read_foreign(array: Any, device: Device | None = None) -> Foreign | None:
    """Describe the array of another library; None if it is none. `device` is where it will be used, if known."""
    for reader in READERS:
        found = reader(array, device)
        if found is not None:
            return found
    return None
