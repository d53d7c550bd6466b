"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import kaio

# Importing these needs a GPU's driver, or runs a program.
SKIPPED = ("kaio.__main__", "kaio.runtime.cuda")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(kaio.__path__, "kaio.")
    if not module.name.startswith(SKIPPED)
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=options).failed == 0


def test_there_are_examples() -> None:
    found = [test for name in MODULES for test in doctest.DocTestFinder().find(importlib.import_module(name))]
    assert sum(bool(test.examples) for test in found) >= 10
