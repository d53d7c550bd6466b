"""Functions of numbers: they compile for both devices for each type, and their values are right.

The bounds of the functions of libdevice are those of NVIDIA's documentation (CUDA programming guide, mathematical
functions), in units in the last place of the result, of f32 and of f64; 0.5 is correctly rounded.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import bool_, f32, f64, i32, u8
from kaio.dsl.intrinsic import STANDARD, Intrinsic
from kaio.dsl.reference import records
from kaio.dtypes import DTYPES
from tests.dsl.from_text import elementwise, kernel, kernel_of, message, mistakes, run
from tests.dsl.numeric.test_directed import round_to
from tests.dsl.rule_types import INTEGERS
from tests.narrow import NARROW, rounded

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Function:
    """A function of floats: how it is written, its reference in f64, its arguments, its bounds in ulp."""

    reference: Callable[..., Any]
    ulp32: float = 0.5
    ulp64: float = 1.5  # half of one is the reference's
    low: float = -1e3
    high: float = 1e3
    count: int = 1


def by_math(function: Callable[..., float], pole: float = INF) -> Callable[..., np.ndarray]:
    """A function of `math` for arrays; a domain error is NaN, a pole what it is told, too large is infinite."""

    def one(*xs: float) -> float:
        try:
            return function(*xs)
        except OverflowError:
            return INF
        except ValueError:
            return pole if pole == INF and all(math.isfinite(x) and x == math.floor(x) for x in xs) else NAN

    return lambda *xs: np.array([one(*map(float, x)) for x in zip(*xs, strict=True)])


def gamma(x: float) -> float:
    if x == 0:
        return math.copysign(INF, x)
    return math.gamma(x)


def by_sign(function: Callable[..., Any], chosen: bool) -> Callable[..., Any]:
    """NumPy's choice, but of two zeros the one whose sign bit is `chosen`: NumPy gives either."""

    def choose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        zero = np.where((np.signbit(a) == chosen) | (np.signbit(b) == chosen), -0.0 if chosen else 0.0, a)
        return np.where((a == 0) & (b == 0), zero, function(a, b))

    return choose


FUNCTIONS = {
    "math.sqrt": Function(np.sqrt, 0.5, 0.5, 0, 1e30),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), 2, 1.5, 1e-30, 1e30),
    "math.sin": Function(np.sin, 2, 2.5),
    "math.cos": Function(np.cos, 2, 2.5),
    "math.tan": Function(np.tan, 4, 2.5),
    "math.asin": Function(np.arcsin, 4, 2.5, -1, 1),
    "math.acos": Function(np.arccos, 3, 2.5, -1, 1),
    "math.atan": Function(np.arctan, 2, 2.5),
    "math.sinh": Function(np.sinh, 3, 2.5, -80, 80),
    "math.cosh": Function(np.cosh, 2, 1.5, -80, 80),
    "math.tanh": Function(np.tanh, 2, 2.5, -5, 5),
    "math.asinh": Function(np.arcsinh, 3, 3.5),
    "math.acosh": Function(np.arccosh, 4, 3.5, 1, 1e3),
    "math.atanh": Function(np.arctanh, 3, 2.5, -1, 1),
    "math.exp": Function(np.exp, 2, 1.5, -80, 80),
    "math.exp2": Function(np.exp2, 2, 1.5, -120, 120),
    "math.expm1": Function(np.expm1, 1.5, 1.5, -80, 80),
    "math.log": Function(np.log, 1.5, 1.5, 0, 1e5),
    "math.log2": Function(np.log2, 1.5, 1.5, 0, 1e5),
    "math.log10": Function(np.log10, 2, 1.5, 0, 1e5),
    "math.log1p": Function(np.log1p, 1.5, 1.5, -1, 1e5),
    "math.erf": Function(by_math(math.erf), 2, 2.5, -5, 5),
    "math.erfc": Function(by_math(math.erfc), 4, 5.5, -5, 9),
    "math.lgamma": Function(by_math(math.lgamma), 6, 14, 3, 1e3),  # f64: 4, but the reference errs near 1 and 2
    "math.gamma": Function(by_math(gamma, NAN), 11, 11, 0.5, 30),
    "math.cbrt": Function(np.cbrt, 1.5, 1.5),
    "math.fabs": Function(np.abs, 0, 0),
    "math.floor": Function(np.floor, 0, 0),
    "math.ceil": Function(np.ceil, 0, 0),
    "math.trunc": Function(np.trunc, 0, 0),
    "round": Function(np.rint, 0, 0),
    "abs": Function(np.abs, 0, 0),
    "math.radians": Function(np.radians, 1.5, 1.5),
    "math.degrees": Function(np.degrees, 1.5, 1.5),
    "math.pow": Function(np.power, 9, 2.5, 0, 20, 2),
    "math.atan2": Function(np.arctan2, 3, 2.5, -9, 9, 2),
    "math.hypot": Function(np.hypot, 3, 2.5, -9, 9, 2),
    "math.fmod": Function(np.fmod, 0, 0, -99, 99, 2),
    "math.remainder": Function(by_math(math.remainder, NAN), 0, 0, -99, 99, 2),
    "math.copysign": Function(np.copysign, 0, 0, -9, 9, 2),
    "rint": Function(np.rint, 0, 0),
    "rcp": Function(np.reciprocal, 0.5, 0.5),
    "sign": Function(np.sign, 0, 0),
    "fdim": Function(
        lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x) | np.isnan(y), NAN, 0.0)), 0.5, 0.5, count=2
    ),
    "min": Function(by_sign(np.fmin, True), 0, 0, -9, 9, 2),
    "max": Function(by_sign(np.fmax, False), 0, 0, -9, 9, 2),
    "minimum": Function(by_sign(np.minimum, True), 0, 0, -9, 9, 2),
    "maximum": Function(by_sign(np.maximum, False), 0, 0, -9, 9, 2),
}
OF_THE_TYPE = {"math.nextafter": np.nextafter, "fma": None}
PREDICATES = {"math.isnan": np.isnan, "math.isinf": np.isinf, "math.isfinite": np.isfinite, "signbit": np.signbit}
# What the devices agree on to the bit, measured; the others take approximate steps or differ in the last place.
SAME_BITS_F32 = set(FUNCTIONS) - {
    "rsqrt",
    "math.tan",
    "math.asin",
    "math.acos",
    "math.atan",
    "math.sinh",
    "math.cosh",
    "math.tanh",
    "math.asinh",
    "math.acosh",
    "math.atanh",
    "math.exp",
    "math.exp2",
    "math.log1p",
    "math.erf",
    "math.erfc",
    "math.lgamma",
    "math.gamma",
    "math.cbrt",
    "math.pow",
    "math.atan2",
    "math.hypot",
}
SAME_BITS_F64 = set(FUNCTIONS) - {
    "rsqrt",
    "math.cosh",
    "math.atan",
    "math.exp2",
    "math.asinh",
    "math.acosh",
    "math.atanh",
    "math.gamma",
    "math.cbrt",
    "math.pow",
    "math.atan2",
    "math.hypot",
}


def record(name: str) -> Any:
    """The record of a function as a kernel names it."""
    owner = math if name.startswith("math.") else kaio if hasattr(kaio, name) else builtins
    found = getattr(owner, name.removeprefix("math."))
    return found if isinstance(found, Intrinsic) else STANDARD[found]


OWN = {value for name in kaio.__all__ if isinstance(value := getattr(kaio, name), Intrinsic)}
RECORDS = set(STANDARD.values()) | OWN


def test_every_record_is_in_the_reference_whose_examples_are_run():
    assert set(records().values()) >= RECORDS


def test_every_record_has_a_doc_a_signature_and_a_rule_for_each_device():
    for found in RECORDS:
        assert found.doc, found
        assert found.signature is not None, found
        assert found.rule("cuda"), found
        assert found.rule("host"), found


def test_a_record_called_outside_a_kernel_says_so():
    with pytest.raises(kaio.KaioError, match=r"`kaio.fma` means something only inside a kernel"):
        kaio.fma(1, 2, 3)


# ---------------------------------------------------------------------- values
def inputs(function: Function, dtype: Any) -> list[np.ndarray]:
    """Edges in all combinations, and numbers of the range."""
    info = np.finfo(dtype.numpy)
    edges = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, 3.0, INF, -INF, NAN, float(info.tiny), -float(info.tiny)]
    edges += [float(info.smallest_subnormal), -float(info.smallest_subnormal * 5), float(info.max), -float(info.max)]
    rng = np.random.default_rng(7)
    if function.count == 1:
        return [np.array([*edges, *rng.uniform(function.low, function.high, 3000)], dtype.numpy)]
    pairs = [*product(edges, edges), *rng.uniform(function.low, function.high, (3000, 2)).tolist()]
    return [np.ascontiguousarray(column) for column in np.array(pairs, dtype.numpy).T]


def errors_in_ulp(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How far the results are from the reference, in ulp of the results' type; infinite where another class."""
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype)
        nearest = np.where(np.isfinite(rounded), np.abs(rounded), np.finfo(got.dtype).max)
        distance = np.abs(got.astype(np.float64) - wanted.astype(np.float64)) / np.spacing(nearest).astype(np.float64)
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    alike = (np.isnan(got) & np.isnan(rounded)) | ((got == rounded) & (np.signbit(got) == np.signbit(rounded)))
    zero = (got == 0) & (rounded == 0)
    distance = np.where(special | zero, np.where(alike, 0.0, INF), distance)
    # at the end of the range an infinity is one step from the largest number
    edge = special & (np.abs(rounded) > 0.9999 * np.finfo(got.dtype).max) & ~np.isnan(got) & ~np.isnan(rounded)
    return np.where(edge & (np.abs(got) > 0.9999 * np.finfo(got.dtype).max), 0.0, distance)


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_values_are_within_the_stated_bound(name, dtype):
    function = FUNCTIONS[name]
    xs = inputs(function, dtype)
    made = kernel_of(name, dtype, function.count)
    (got,) = run(made, xs, [dtype])
    with np.errstate(all="ignore"):
        wanted = np.asarray(function.reference(*(x.astype(np.float64) for x in xs)))
    bound = function.ulp32 if dtype is f32 else function.ulp64
    errors = errors_in_ulp(got, wanted)
    wrong = np.flatnonzero(errors > bound + 1e-9)
    shown = [(*(float(x[k]) for x in xs), float(got[k]), float(wanted[k]), float(errors[k])) for k in wrong[:8]]
    assert not shown, shown
    assert ".entry k(" in made.ptx("sm_90")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_both_devices_give_the_same_bits_where_promised(name, dtype):
    function = FUNCTIONS[name]
    xs, made = inputs(function, dtype), kernel_of(name, dtype, function.count)
    cpu, gpu = (run(made, xs, [dtype], device=kaio.Device(d))[0] for d in ("cpu", "cuda:0"))
    if name in (SAME_BITS_F32 if dtype is f32 else SAME_BITS_F64):
        as_int = np.uint32 if dtype is f32 else np.uint64
        both_nan = np.isnan(cpu) & np.isnan(gpu)
        assert ((cpu.view(as_int) == gpu.view(as_int)) | both_nan).all()
    else:
        bound = 2 * (function.ulp32 if dtype is f32 else function.ulp64)
        assert (errors_in_ulp(gpu, cpu.astype(np.float64)) <= bound).all()


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_nextafter_steps_in_its_own_type(dtype):
    xs = inputs(Function(np.nextafter, count=2), dtype)
    (got,) = run(kernel_of("math.nextafter", dtype, 2), xs, [dtype])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.nextafter(*xs))


def exact_fma(x: float, y: float, z: float, dtype: Any) -> float:
    """x * y + z rounded once, by exact fractions."""
    if math.isfinite(x) and math.isfinite(y) and not math.isfinite(z):
        return z
    if not all(map(math.isfinite, (x, y, z))):
        with np.errstate(all="ignore"):
            return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        with np.errstate(all="ignore"):
            return float(np.float64(x) * np.float64(y) + np.float64(z)) if x == 0 or y == 0 or z == 0 else 0.0
    if dtype in NARROW:
        return rounded(exact, dtype) or math.copysign(0.0, exact)
    return round_to(exact, "rn", dtype)


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_fma_rounds_once(dtype):
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 1, (2, 500)).astype(dtype.numpy)
    z = (-x.astype(np.float64) * y + rng.normal(0, 1e-8, 500)).astype(dtype.numpy)  # cancels
    edges = [0.0, -0.0, 1.0, INF, -INF, NAN, float(np.finfo(dtype.numpy).tiny), float(np.finfo(dtype.numpy).max)]
    x, y, z = (
        np.append(a, b).astype(dtype.numpy)
        for a, b in zip((x, y, z), np.array([*product(edges, repeat=3)]).T, strict=True)
    )
    (got,) = run(kernel_of("fma", dtype, 3), [x, y, z], [dtype])
    wanted = [exact_fma(*map(float, v), dtype) for v in zip(x, y, z, strict=True)]
    np.testing.assert_array_equal(got, np.array(wanted, dtype.numpy))
    assert "fma.rn" in kernel_of("fma", dtype, 3).ptx("sm_90")


# ---------------------------------------------------------------------- NaN, signed zeros
ZEROS = [(0.0, -0.0), (-0.0, 0.0), (0.0, 0.0), (-0.0, -0.0)]


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_min_and_max_ignore_nan_and_order_signed_zeros(dtype):
    pairs = [*ZEROS, (NAN, 1.0), (1.0, NAN), (NAN, NAN), (NAN, -INF), (INF, NAN), (-1.0, 1.0)]
    a, b = (np.array(x, dtype.numpy) for x in zip(*pairs, strict=True))
    (low,), (high,) = (run(kernel_of(name, dtype, 2), [a, b], [dtype]) for name in ("min", "max"))
    wanted_low = [-0.0, -0.0, 0.0, -0.0, 1.0, 1.0, NAN, -INF, INF, -1.0]
    wanted_high = [0.0, 0.0, 0.0, -0.0, 1.0, 1.0, NAN, -INF, INF, 1.0]
    for got, wanted in ((low, wanted_low), (high, wanted_high)):
        np.testing.assert_array_equal(got, wanted)
        assert np.signbit(got[:4]).tolist() == np.signbit(wanted[:4]).tolist()


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_minimum_and_maximum_pass_nan_on_and_order_signed_zeros(dtype):
    pairs = [*ZEROS, (NAN, 1.0), (1.0, NAN), (NAN, NAN), (INF, NAN), (-1.0, 1.0)]
    a, b = (np.array(x, dtype.numpy) for x in zip(*pairs, strict=True))
    (low,), (high,) = (run(kernel_of(name, dtype, 2), [a, b], [dtype]) for name in ("minimum", "maximum"))
    np.testing.assert_array_equal(low, [-0.0, -0.0, 0.0, -0.0, NAN, NAN, NAN, NAN, -1.0])
    np.testing.assert_array_equal(high, [0.0, 0.0, 0.0, -0.0, NAN, NAN, NAN, NAN, 1.0])
    assert np.signbit(low[:4]).tolist() == [True, True, False, True]
    assert np.signbit(high[:4]).tolist() == [False, False, False, True]


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_negation_absolute_value_and_sign_work_on_the_bits(dtype):
    xs = np.array([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN], dtype.numpy)
    (got,) = run(elementwise("-a[i]", dtype), [xs], [dtype])
    np.testing.assert_array_equal(got, -xs)
    assert np.signbit(got[:6]).tolist() == np.signbit(-xs[:6]).tolist()
    (got,) = run(kernel_of("abs", dtype, 1), [xs], [dtype])
    assert not np.signbit(got[:6]).any()


@pytest.mark.parametrize("name", list(PREDICATES))
@pytest.mark.parametrize("options", ["", "(fastmath=True)"])
def test_predicates(name, options):
    for dtype in (f32, f64):
        (xs,) = inputs(Function(np.isnan), dtype)
        (got,) = run(elementwise(f"{name}(a[i])", dtype, 1, bool_, options), [xs], [bool_])
        np.testing.assert_array_equal(got, PREDICATES[name](xs))


def test_halves_round_to_even():
    xs = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0], np.float32)
    (got,) = run(kernel_of("round", f32, 1), [xs], [f32])
    assert got.tolist() == [0, 2, 2, 0, -2, -2, 0, 8388609]
    assert np.signbit(got[3])


# ---------------------------------------------------------------------- integers
def corners(dtype: Any) -> np.ndarray:
    low, high = dtype.range
    return np.array(sorted({low, low + 1, 0, 1, 2, 7, high // 2, high - 1, high}), dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_integers_have_min_max_and_abs_in_their_own_type(dtype):
    a, b = (x.ravel() for x in np.meshgrid(corners(dtype), corners(dtype)))
    for name, numpy in (("min", np.minimum), ("max", np.maximum), ("minimum", np.minimum), ("maximum", np.maximum)):
        np.testing.assert_array_equal(run(kernel_of(name, dtype, 2), [a, b], [dtype])[0], numpy(a, b))
    np.testing.assert_array_equal(run(kernel_of("abs", dtype, 1), [a], [dtype])[0], np.abs(a))


def test_min_and_max_of_several():
    made = kernel("""
        @kernel
        def k(a: In[i32], b: In[f32], low: Out[f32], high: Out[f32], top: Out[i32]):
            i = grid(1)
            if i < a.size:
                low[i] = min(a[i], b[i], 0.5)
                high[i] = max(a[i], b[i], 0.5)
                top[i] = max(a[i], 0, a[i] - 4, 2)
    """)
    a, b = np.array([-3, 0, 9], np.int32), np.array([NAN, -1.5, 9.5], np.float32)
    low, high, top = run(made, [a, b], [f32, f32, i32])
    assert (low.tolist(), high.tolist(), top.tolist()) == ([-3, -1.5, 0.5], [0.5, 0.5, 9.5], [2, 2, 9])


FLOAT_ONLY = [n for n in (*FUNCTIONS, *OF_THE_TYPE) if n not in ("abs", "min", "max", "minimum", "maximum", "sign")]


@pytest.mark.parametrize("name", [*FLOAT_ONLY, *PREDICATES])
def test_integers_become_f32_and_bools_are_refused(name):
    count = 3 if name == "fma" else FUNCTIONS[name].count if name in FUNCTIONS else 1 + (name == "math.nextafter")
    params = ", ".join(f"p{k}: {dtype!r}" for k, dtype in enumerate(INTEGERS))
    result = "bool_" if name in PREDICATES else "f32"
    lines = [f"    o[{k}] = {name}({', '.join([f'p{k}'] * count)})" for k in range(len(INTEGERS))]
    made = kernel(f"@kernel\ndef k(o: Out[{result}], {params}):\n" + "\n".join(lines) + "\n")
    assert "f64" not in made.types()
    assert made.compile("cpu").code
    assert ".entry k(" in made.ptx("sm_90")
    (mistake,) = mistakes(f"@kernel\ndef k(c: bool_):\n    v = {name}({', '.join(['c'] * count)})\n")
    assert mistake.what == f"`{record(name).name}` of a bool"


# ---------------------------------------------------------------------- conversions
def saturated(value: Any, source: Any) -> int:
    low, high = i32.range
    if isinstance(value, float) and math.isnan(value):
        return 0 if source is not f64 else low
    return int(min(max(value, low), high))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_int_saturates_float_is_f32_and_bool_asks_for_zero(dtype):
    if dtype.is_float:
        edges = [0.0, -0.0, 0.9, -0.9, 2.5, -2.5, 2.0**31, -(2.0**31), 3e9, -3e9, 1e30, INF, -INF, NAN]
        with np.errstate(over="ignore"):
            xs = np.array(edges, dtype.numpy)
    else:
        xs = np.array([False, True]) if dtype is bool_ else corners(dtype)
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], a: Out[i32], b: Out[f32], c: Out[bool_]):
            i = grid(1)
            if i < x.size:
                a[i], b[i], c[i] = int(x[i]), float(x[i]), bool(x[i])
    """)
    a, b, c = run(made, [xs], [i32, f32, bool_])
    assert a.tolist() == [saturated(x, dtype) for x in xs.tolist()]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(b, xs.astype(np.float32))
    np.testing.assert_array_equal(c, xs.astype(bool))
    assert made.ptx("sm_90")


def test_conversions_of_literals_stay_weak():
    made = kernel("""
        @kernel
        def k(o: Out[f64], p: Out[u8]):
            o[0] = float(1) / 3
            o[1] = int(2.7) + 0.1
            p[0] = int(255.9)
            p[1] = u8(bool(3))
    """)
    o, p = run(made, [], [f64, u8], size=4)
    assert o.tolist() == [1 / 3, 2.1, 0, 0]
    assert p.tolist() == [255, 1, 0, 0]


def test_len_is_the_first_axis_or_the_length_of_a_tuple():
    made = kernel("""
        @kernel
        def k(m: In[f32, D2], o: Out[i32]):
            t = local_mem((3, 5), f32)
            o[0], o[1], o[2], o[3] = len(m), len(t), len((1, 2)), len(m.shape)
    """)
    device = kaio.Device("cpu")
    out = device.alloc_zeros(4, i32)
    made.grid(1).block(1).launch(device.alloc_zeros((7, 2), f32), out).wait()
    assert out.to_host().tolist() == [7, 3, 2, 2]


def test_rounding_functions_index_only_with_a_cast():
    text = message("@kernel\ndef k(x: InOut[f32], v: f32):\n    x[math.floor(v)] = 1\n")
    assert text.splitlines()[0] == "index of axis 0 of `x` is f32; an index is an integer"
    assert text.splitlines()[-1] == "  help: cast it: `kaio.i32(math.floor(v))`"
