"""The launches of the image pipeline, their times, and the check of every stage against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaio.demo import kernels, reference
from kaio.demo.kernels import LEVELS
from kaio.dtypes import f32, i32, u8
from kaio.kernel import Kernel
from kaio.runtime import Completion, Device, GpuBuffer

__all__ = ["Result", "StageReport", "process"]

PTX_TARGET = "sm_90"  # whose PTX is measured where the device is not a GPU
UNIT = 2.0**-24  # half the distance from 1 to the next f32: the error of one rounded operation, relative


@dataclass(frozen=True)
class StageReport:
    """One stage: its time on the device, the PTX of its kernels, and how far from NumPy it is at most."""

    name: str
    elapsed_ms: float
    ptx_nbytes: int
    difference: float
    allowed: float

    @property
    def is_right(self) -> bool:
        """True where every value is within the allowed rounding of NumPy's (0 for integers)."""
        return self.difference <= self.allowed


@dataclass(frozen=True)
class Result:
    """What the pipeline made of a picture: `pictures` by name, each u8 ``[height, width]``, and a report a stage."""

    stages: tuple[StageReport, ...]
    pictures: dict[str, npt.NDArray[np.uint8]]

    @property
    def is_right(self) -> bool:
        """True where every stage agrees with NumPy."""
        return all(stage.is_right for stage in self.stages)

    def sheet(self) -> npt.NDArray[np.uint8]:
        """The four pictures on one sheet, two by two."""
        grey, blurred, edges, equalised = self.pictures.values()
        return np.block([[grey, blurred], [edges, equalised]])


@dataclass(frozen=True)
class _Stage:
    """A stage that was launched: its kernels with their constants, its output, and the same by NumPy."""

    name: str
    output: GpuBuffer[Any]
    done: tuple[Completion, ...]
    compiled: tuple[tuple[Kernel, dict[str, Any]], ...]
    expected: Callable[[], npt.NDArray[Any]]
    allowed: float = 0.0

    def report(self, target: str) -> StageReport:
        got, expected = self.output.to_host().astype(np.float64), self.expected()
        difference = float(np.max(np.abs(got - expected), initial=0.0))
        elapsed_ms = sum(done.elapsed_ms for done in self.done)
        ptx_nbytes = sum(len(kernel.ptx(target, **consts)) for kernel, consts in self.compiled)
        return StageReport(self.name, elapsed_ms, ptx_nbytes, difference, self.allowed)


def process(device: Device, rgb: npt.NDArray[np.uint8], radius: int = 4) -> Result:
    """Run the pipeline over a picture, u8 ``[height, width, 3]``, blurred with `radius` neighbours on each side.

    Grey; a Gaussian blur of it and the edges in that; a histogram of the grey and the equalised grey.

    >>> import kaio, numpy as np
    >>> result = process(kaio.Device("cpu"), np.zeros((5, 7, 3), np.uint8))
    >>> result.is_right, result.sheet().shape
    (True, (10, 14))
    """
    list(_launch(device, rgb, radius))  # compiles: the times below are of kernels that are ready
    stages = {stage.name: stage for stage in _launch(device, rgb, radius)}
    target = device.target if device.kind == "cuda" else PTX_TARGET
    reports = tuple(stage.report(target) for stage in stages.values())
    shown = ("grey", "blur", "edges", "equalise")
    return Result(reports, {name: _to_u8(stages[name].output.to_host()) for name in shown})


def _launch(device: Device, rgb: npt.NDArray[np.uint8], radius: int) -> Iterator[_Stage]:
    """Launch every stage in turn; nothing here waits, the buffers order the kernels."""
    shape = height, width = rgb.shape[:2]
    weights = reference.gaussian(radius).astype(np.float32)
    block = kernels.WIDTH, kernels.HEIGHT

    grey = device.alloc_empty(shape, u8)
    greyed = _timed(kernels.to_grey, shape).launch(device.alloc_from(rgb), grey)
    yield _Stage("grey", grey, (greyed,), ((kernels.to_grey, {}),), lambda: reference.grey(rgb))

    half, blurred, taps = device.alloc_empty(shape, f32), device.alloc_empty(shape, f32), device.alloc_from(weights)
    rows = _timed(kernels.blur_rows, shape).block(*block).launch(grey, half, taps, radius)
    columns = _timed(kernels.blur_columns, shape).block(*block).launch(half, blurred, taps, radius)
    yield _Stage(
        "blur",
        blurred,
        (rows, columns),
        ((kernels.blur_rows, {"radius": radius}), (kernels.blur_columns, {"radius": radius})),
        lambda: reference.blur(grey.to_host(), weights.astype(np.float64)),
        # Two sums of 2 * radius + 1 products, each rounded once, of values up to 255.
        allowed=2 * (2 * radius + 2) * 255 * UNIT,
    )

    edges = device.alloc_empty(shape, f32)
    found = _timed(kernels.find_edges, shape).launch(blurred, edges)
    yield _Stage(
        "edges",
        edges,
        (found,),
        ((kernels.find_edges, {}),),
        lambda: reference.edges(blurred.to_host()),
        # A dozen roundings, of values up to the largest gradient.
        allowed=12 * 4 * 255 * 2**0.5 * UNIT,
    )

    pixels, counts = grey.reshape(-1), device.alloc_zeros(LEVELS, i32)
    counted = _timed(kernels.count_levels, min(height * width, 1 << 16)).block(LEVELS).launch(pixels, counts)
    yield _Stage(
        "histogram", counts, (counted,), ((kernels.count_levels, {}),), lambda: reference.histogram(grey.to_host())
    )

    table, equalised = device.alloc_empty(LEVELS, u8), device.alloc_empty(shape, u8)
    made = _timed(kernels.make_equaliser, LEVELS).block(LEVELS).launch(counts, table)
    applied = _timed(kernels.apply_table, height * width).launch(pixels, table, equalised.reshape(-1))
    yield _Stage(
        "equalise",
        equalised,
        (made, applied),
        ((kernels.make_equaliser, {}), (kernels.apply_table, {})),
        lambda: reference.equaliser(counts.to_host())[grey.to_host()],
    )


def _timed(kernel: Kernel, shape: int | tuple[int, ...]) -> Any:
    return kernel.over(shape).options(timed=True)


def _to_u8(picture: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.asarray(np.clip(np.rint(picture), 0, 255), np.uint8)
