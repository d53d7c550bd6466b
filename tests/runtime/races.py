"""What tests of races share: launches with all checks, and what a report says."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

import kaio
from kaio.errors import KernelFault

__all__ = ["Told", "lines", "race", "silent", "zeros"]


class Told(NamedTuple):
    """What a report of a race says: the array, its index, and of both accesses what they are, and their lines."""

    array: str
    index: Any
    accesses: frozenset[tuple[str, str]]
    fault: KernelFault


def lines(kernel: kaio.Kernel, fault: KernelFault) -> dict[int, str]:
    """The lines of a kernel, stripped, by their number in its file."""
    source, first = inspect.getsourcelines(kernel.__wrapped__)
    return {first + k: line.strip() for k, line in enumerate(source)}


def race(launcher: Any, *args: Any) -> Told:
    """Launch, and give the race that is reported: accesses are pairs of kind and source line."""
    with pytest.raises(KernelFault, match="data race on") as caught:
        launcher.options(check="full").launch(*args).wait()
    fault, facts = caught.value, caught.value.facts
    assert facts["kind"] == "race"
    assert facts["kernel"] == launcher.kernel.name
    at = lines(launcher.kernel, fault)
    accesses = {(facts["access"], at[facts["line"]]), (facts["other_access"], at[facts["other_line"]])}
    return Told(facts["array"], facts["index"], frozenset(accesses), fault)


def silent(launcher: Any, *args: Any) -> None:
    """Launch, and find nothing."""
    launcher.options(check="full").launch(*args).wait()


def zeros(*sizes: int) -> list[Any]:
    """Buffers of i32 zeros on the CPU device."""
    device = kaio.Device("cpu")
    return [device.alloc_from(np.zeros(size, np.int32)) for size in sizes]
