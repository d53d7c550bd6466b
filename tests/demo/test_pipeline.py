"""The image pipeline is right on any picture, on every device, and its kernels assemble for every GPU."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio.demo import kernels, process
from kaio.demo.reference import gaussian

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100")
CONSTS = {"blur_rows": {"radius": 4}, "blur_columns": {"radius": 4}}
KERNELS = {name: value for name, value in vars(kernels).items() if isinstance(value, kaio.Kernel)}


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("size", [(1, 1), (1, 100), (100, 1), (7, 5), (8, 32), (9, 33), (64, 64), (123, 321)])
def test_every_stage_agrees_with_numpy_at_any_size(device: kaio.Device, size: tuple[int, int]) -> None:
    result = process(device, noise(*size))
    assert [stage.name for stage in result.stages if not stage.is_right] == []
    assert result.sheet().shape == (2 * size[0], 2 * size[1])


def test_whole_numbers_are_exact(device: kaio.Device) -> None:
    result = process(device, noise(50, 70))
    exact = {stage.name: stage.difference for stage in result.stages if stage.name not in ("blur", "edges")}
    assert exact == {"grey": 0, "histogram": 0, "equalise": 0}


@pytest.mark.parametrize("level", [0, 1, 128, 255])
def test_a_picture_of_one_level_is_left_as_it_is(device: kaio.Device, level: int) -> None:
    result = process(device, np.full((20, 30, 3), level, np.uint8))
    assert result.is_right
    for name, expected in {"grey": level, "blur": level, "edges": 0, "equalise": level}.items():
        assert np.unique(result.pictures[name]).tolist() == [expected], name


@pytest.mark.parametrize("radius", [0, 1, 9, 40])
def test_blur_takes_any_radius(device: kaio.Device, radius: int) -> None:
    """Also one that is wider than the picture and than a block."""
    assert process(device, noise(30, 40), radius).is_right


def test_weights_of_a_blur_add_up_to_one() -> None:
    assert gaussian(3).sum() == pytest.approx(1)
    assert gaussian(0).tolist() == [1.0]


def test_equalised_picture_reaches_from_black_to_white(device: kaio.Device) -> None:
    equalised = process(device, noise(60, 60) // 4 + 90).pictures["equalise"]
    assert (equalised.min(), equalised.max()) == (0, 255)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_kernel_assembles_without_a_gpu(name: str, target: str) -> None:
    program = KERNELS[name].compile(target, **CONSTS.get(name, {}))
    assert program.cubin.startswith(b"\x7fELF")
