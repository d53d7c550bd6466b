"""What the operations of a warp mean, in Python, and launches of one block: for the tests to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import KernelFault

CPU = kaio.Device("cpu")
LANES = 32


def run(made: kaio.Kernel, block: Any, *arrays: Any, device: kaio.Device = CPU, **consts: Any) -> list[np.ndarray]:
    """Launch one block and give what its arrays hold afterwards."""
    given = [device.alloc_from(a) if isinstance(a, np.ndarray) else a for a in arrays]
    shape = block if isinstance(block, tuple) else (block,)
    made.grid(1).block(*shape).launch(*given, **consts).wait()
    return [g.to_host() for g in given if isinstance(g, kaio.GpuBuffer)]


def fault(made: kaio.Kernel, block: Any, *arrays: Any, **consts: Any) -> str:
    """The message of the fault of one block."""
    with pytest.raises(KernelFault) as caught:
        run(made, block, *arrays, **consts)
    return str(caught.value)


def shuffle(mode: str, values: Sequence[Any], lane: int, given: int, width: int = LANES) -> Any:
    """`shfl.sync` as the PTX ISA has it: what lane `lane` gets of the values of a warp."""
    bval, clamp, segment = given & 31, 0 if mode == "up" else 31, LANES - width
    most = (lane & segment) | (clamp & ~segment & 31)
    least = lane & segment
    if mode == "up":
        source, inside = lane - bval, lane - bval >= most
    elif mode == "down":
        source, inside = lane + bval, lane + bval <= most
    elif mode == "bfly":
        source, inside = lane ^ bval, lane ^ bval <= most
    else:
        source = least | (bval & ~segment & 31)
        inside = source <= most
    return values[source if inside else lane]


def warps(values: np.ndarray) -> list[np.ndarray]:
    """The values of the threads of one block, warp by warp; the last may be shorter."""
    flat = values.reshape(-1)
    return [flat[first : first + LANES] for first in range(0, flat.size, LANES)]


def bits(flags: Sequence[Any]) -> int:
    """A mask with the bit of each lane that is true."""
    return sum(1 << lane for lane, flag in enumerate(flags) if flag)


def masks_of(groups: np.ndarray) -> np.ndarray:
    """For each thread the lanes of its warp that are in its group."""
    return np.array([bits(warp == group) for warp in warps(groups) for group in warp], np.uint32)
