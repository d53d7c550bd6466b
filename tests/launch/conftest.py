"""Fixtures of the launch tests."""

from __future__ import annotations

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
def saxpy() -> FakeKernel:
    return fake("saxpy", x=In[f32], y=InOut[f32], a=f32)
