"""Fixtures of the launch tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, f32
from tests.launch.fakes import FakeKernel, Recorder, fake


@pytest.fixture
def cpu() -> kaio.Device:
    return kaio.Device("cpu")


@pytest.fixture
def stream(cpu: kaio.Device) -> Recorder:
    return Recorder(cpu)


@pytest.fixture
def x(cpu: kaio.Device) -> Any:
    return cpu.alloc_from(np.arange(8, dtype=np.float32))


@pytest.fixture
def y(cpu: kaio.Device) -> Any:
    return cpu.alloc_zeros(8, f32)


@pytest.fixture
def saxpy() -> FakeKernel:
    return fake("saxpy", x=In[f32], y=InOut[f32], a=f32)
