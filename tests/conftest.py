"""Fixtures for all tests: the devices of this machine, the `gpu` marker, the Hypothesis profiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    import kaio

hypothesis.settings.register_profile("dev", max_examples=25, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("gpu", max_examples=500, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@cache
def why_no_gpu() -> str:
    """Why the tests marked `gpu` cannot run here; empty if they can.

    With KAIO_REQUIRE_GPU set they are never skipped, so that a machine meant to have a GPU cannot pass without it.
    """
    import kaio

    if os.environ.get("KAIO_REQUIRE_GPU"):
        return ""
    try:
        kaio.Device("cuda:0")
    except kaio.DeviceNotFoundError as problem:
        return str(problem).splitlines()[0]
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    needy = [item for item in items if item.get_closest_marker("gpu")]
    if needy and (reason := why_no_gpu()):
        for item in needy:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[kaio.Device]:
    """Each device of this machine in turn: a test that takes it is part of the contract of all devices."""
    import kaio

    device = kaio.Device(request.param)
    yield device
    device.wait(timeout_s=60)
