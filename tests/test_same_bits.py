"""What runs on both devices gives the same bits, where the language says so."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from examples import matmul, saxpy, softmax
from kaio.demo import process

pytestmark = pytest.mark.gpu

DEVICES = ("cpu", "cuda:0")


def test_saxpy() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 1_000_003), dtype=np.float32)

    def run(device: kaio.Device) -> np.ndarray:
        result = device.alloc_from(y)
        saxpy.saxpy.over(y.size).launch(device.alloc_from(x), result, 1.1)
        return result.to_host()

    assert_same_bits(*(run(kaio.Device(name)) for name in DEVICES))


def test_matmul() -> None:
    a = np.random.default_rng(1).standard_normal((130, 77), dtype=np.float32)
    b = np.random.default_rng(2).standard_normal((77, 95), dtype=np.float32)

    def run(device: kaio.Device) -> np.ndarray:
        return matmul.multiply(device.alloc_from(a), device.alloc_from(b)).to_host()

    assert_same_bits(*(run(kaio.Device(name)) for name in DEVICES))


def test_softmax_but_for_the_last_bits_of_exp() -> None:
    """The exponential of f32 is one of the functions with approximate steps: a few units in the last place."""
    x = np.random.default_rng(3).normal(0, 5, (37, 777)).astype(np.float32)

    def run(device: kaio.Device) -> np.ndarray:
        out = device.alloc_empty(x.shape, kaio.f32)
        softmax.softmax.grid(x.shape[0]).block(softmax.THREADS).launch(device.alloc_from(x), out)
        return out.to_host()

    np.testing.assert_array_max_ulp(*(run(kaio.Device(name)) for name in DEVICES), maxulp=4)


def test_demo() -> None:
    rgb = np.random.default_rng(4).integers(0, 256, (211, 157, 3), np.uint8)
    cpu, gpu = (process(kaio.Device(name), rgb) for name in DEVICES)
    assert [stage.difference for stage in cpu.stages] == [stage.difference for stage in gpu.stages]
    assert_same_bits(cpu.sheet(), gpu.sheet())


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
