"""The examples and the demo are correct kernels, too: with all checks on nothing is reported."""

from __future__ import annotations

import pytest

import kaio
from tests.test_examples import EXAMPLES, load

FULL = kaio.Device("cpu", check="full")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_clean(name: str) -> None:
    load(name).main(FULL)
