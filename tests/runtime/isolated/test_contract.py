"""What every device does, of the isolated one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kaio
from tests.runtime.test_contract import *  # noqa: F403

pytestmark = pytest.mark.gpu


@pytest.fixture
def device() -> Iterator[Any]:
    """The first GPU, isolated."""
    device = kaio.Device(0, isolated=True)
    yield device
    device.wait(timeout_s=60)
