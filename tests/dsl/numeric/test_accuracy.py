"""The measured accuracy that docs/math.md prints holds: on samples, at the worst inputs, and for special values."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import kaio
from benchmarks.mathematics import FUNCTIONS, error_in_ulp, exact, inputs, special_inputs
from kaio import f32, f64
from tests.dsl.from_text import elementwise, run
from tests.measurements import measurements

CASES = [
    pytest.param(name, dtype, id=f"{name}-{dtype!r}")
    for name, function in FUNCTIONS.items()
    for dtype in ((f32,) if function.single else (f32, f64))
]


def measured() -> dict[str, Any]:
    """What was found of each function on the CPU device, by its name and dtype."""
    functions: dict[str, Any] = measurements("cpu")["functions"]
    return functions


@cache
def has_the_measured_libdevice() -> bool:
    """Whether this machine's library is the one that was measured: some of its functions change with releases."""
    versions: dict[str, str] = measurements("cpu")["versions"]
    try:
        return metadata.version("nvidia-nvvm") == versions["nvidia-nvvm"]
    except metadata.PackageNotFoundError:  # it is that of an installed toolkit
        return False


def results(name: str, dtype: Any, columns: list[np.ndarray], device: kaio.Device | None = None) -> list[float]:
    made = elementwise(FUNCTIONS[name].call, dtype, FUNCTIONS[name].arity)
    (got,) = run(made, columns, [dtype], device=device)
    return [float(value) for value in got]


def test_every_function_was_measured():
    assert {name: sorted(found) for name, found in measured().items()} == {
        name: ["f32"] if function.single else ["f32", "f64"] for name, function in FUNCTIONS.items()
    }


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_worst_that_was_found_holds_on_a_sample(name, dtype):
    function, found = FUNCTIONS[name], measured()[name][repr(dtype)]
    xs = inputs(function, dtype.numpy.type, 40, seed=5)
    chosen = np.random.default_rng(2).permutation(xs[0].size)[:40]
    worst = [float.fromhex(x) for x in found["at"]]
    rows = [*zip(*(x[chosen].tolist() for x in xs), strict=True), tuple(worst), *special_inputs(function.arity)]
    columns = [np.array(column, dtype.numpy) for column in zip(*rows, strict=True)]
    got = results(name, dtype, columns)
    errors = [
        error_in_ulp(g, exact(function, row), dtype.numpy.type, function.smallest)
        for row, g in zip(rows[:40], got[:40], strict=True)
    ]
    assert max(errors) <= 1.1 * found["ulp"] + 0.1  # other numbers than the measured ones
    if has_the_measured_libdevice():
        assert got[40].hex() == found["gives"]
    assert [str(value) for value in got[41:]] == found.get("special", [])


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_special_values_are_the_same_on_both_devices(name, dtype):
    special = special_inputs(FUNCTIONS[name].arity)
    if not special or name.startswith("fast_"):
        pytest.skip("it has three arguments or more, or is approximate")
    columns = [np.array(column, dtype.numpy) for column in zip(*special, strict=True)]
    got = results(name, dtype, columns, kaio.Device("cuda:0"))
    wanted = [float(value) for value in measured()[name][repr(dtype)]["special"]]
    np.testing.assert_allclose(got, wanted, rtol=1e-5 if dtype is f32 else 1e-13)
    signs = [[np.signbit(value) for value in values if not np.isnan(value)] for values in (got, wanted)]
    assert signs[0] == signs[1]
