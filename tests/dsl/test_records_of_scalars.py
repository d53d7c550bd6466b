"""NamedTuples and frozen dataclasses in kernels: as arguments, locals, captured values, through device functions."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

import kaio
from kaio import In, Out, f32, f64, i32, u8
from tests import refusals
from tests.dsl.from_text import message, mistakes


class Window(NamedTuple):
    low: f32
    high: f32 = 1.0


@dataclasses.dataclass(frozen=True)
class Params:
    gain: f32
    window: Window
    count: i32 = 3
    level: u8 = 7
    is_on: kaio.bool_ = True


@dataclasses.dataclass(frozen=True)
class Pair:
    first: int
    second: float


@dataclasses.dataclass
class Loose:
    gain: f32


class Untyped(NamedTuple):
    gain: float


WIDE = Window(1.5)
CONFIG = Params(2.0, Window(-1.0, 5.0))


@kaio.func
def clip(x: f32, window: Window) -> f32:
    return min(max(x, window.low), window.high)


def widened(window, by):
    return Window(window.low - by, window.high + by)


def launched(kernel, device, *arguments, dtype=f32, size=4):
    out = device.alloc_zeros(size, dtype)
    kernel.over(size).block(size).launch(out, *arguments).wait()
    return out.to_host().tolist()


@kaio.kernel
def reads_fields(out: Out[f32], p: Params, scale: f32):
    i = kaio.grid(1)
    if i < out.size:
        window = p.window
        low, high = window
        out[i] = i * p.gain * scale + p.count + window.low + high if p.is_on else low + p.level


def test_a_record_is_passed_field_by_field(device):
    p = Params(2.0, Window(0.5, 10.0))
    assert launched(reads_fields, device, p, 3.0) == [i * 6 + 13.5 for i in range(4)]
    assert launched(reads_fields, device, dataclasses.replace(p, is_on=False), 3.0) == [7.5] * 4


def test_the_fields_are_parameters_of_the_ptx_under_their_names():
    ptx = reads_fields.ptx("sm_90")
    for name in ("p_gain", "p_window_low", "p_window_high", "p_count", "p_level", "p_is_on", "scale"):
        assert f" {name}" in ptx
    assert reads_fields.compile("sm_75").cubin


@kaio.kernel
def makes_records(out: Out[f32], p: Params):
    i = kaio.grid(1)
    if i < out.size:
        window = Window(0, high=2.5) if i < 2 else p.window
        window = widened(window, 1)
        for _ in range(2):
            window = window._replace(low=window.low - 1)
        later = dataclasses.replace(p, count=i, window=window)
        out[i] = clip(i * 10.0, later.window) + later.count + window[0] + len(window)


def test_records_are_made_joined_replaced_and_handed_to_functions(device):
    got = launched(makes_records, device, Params(2.0, Window(0.5, 20.0)))
    want = []
    for i in range(4):
        low, high = (-3.0, 3.5) if i < 2 else (-2.5, 21.0)
        want.append(min(max(i * 10.0, low), high) + i + low + 2)
    assert got == want


def test_a_captured_record_is_constant(device):
    @kaio.kernel
    def k(out: Out[f64]):
        i = kaio.grid(1)
        if i < out.size:
            out[i] = CONFIG.gain + CONFIG.window.high + CONFIG.count

    assert launched(k, device, dtype=f64) == [10.0] * 4


def test_a_captured_record_of_the_same_values_does_not_compile_again(monkeypatch):
    @kaio.kernel
    def k(out: Out[f32]):
        out[kaio.grid(1)] = CONFIG.gain

    cpu = kaio.Device("cpu")
    assert launched(k, cpu) == [2.0] * 4
    first = k.compile("cpu")
    monkeypatch.setitem(globals(), "CONFIG", Params(2.0, Window(-1.0, 5.0)))
    assert k.compile("cpu") is first
    monkeypatch.setitem(globals(), "CONFIG", Params(4.0, Window(-1.0, 5.0)))
    assert launched(k, cpu) == [4.0] * 4


def test_fields_that_pin_no_dtype_take_what_they_are_given(device):
    pair = Pair(3, 0.5)

    @kaio.kernel
    def k(x: In[f64], out: Out[f64]):
        i = kaio.grid(1)
        if i < out.size:
            made = Pair(i, x[i] * 2)
            out[i] = made.second + made.first + x[i] * pair.second * pair.first

    x = device.alloc_from(np.array([0.1, 0.2, 0.3, 0.4]))
    out = device.alloc_zeros(4, f64)
    k.over(4).launch(x, out).wait()
    want = [0.1 * (i + 1) * 2 + i + 0.1 * (i + 1) * 0.5 * 3 for i in range(4)]
    np.testing.assert_allclose(out.to_host(), want, rtol=1e-15)


def test_a_default_and_bind_take_records(device):
    @kaio.kernel
    def k(out: Out[f32], window: Window = WIDE):
        out[kaio.grid(1)] = window.low + window.high

    assert launched(k, device) == [2.5] * 4
    out = device.alloc_zeros(4, f32)
    bound = k.over(4).block(4).bind(out)
    bound.update(window=Window(3.0, 4.0))
    bound.launch().wait()
    assert out.to_host().tolist() == [7.0] * 4


# ---------------------------------------------------------------------- launches that are refused
def refusal(*arguments):
    out = kaio.Device("cpu").alloc_zeros(4, f32)
    return refusals.refusal(reads_fields.over(4).launch, out, *arguments)


def test_each_field_is_checked_by_its_name():
    window = Window(0.0, 1.0)
    assert refusal(Params(1.0, window, count=2**31), 1.0) == (
        "argument `p.count` of kernel `reads_fields` does not fit i32 (got 2147483648)\n"
        "  help: i32 holds -2147483648 to 2147483647"
    )
    assert refusal(Params(1.0, Window(1e40)), 1.0).startswith(
        "argument `p.window.low` of kernel `reads_fields` does not fit f32 (got 1e+40)"
    )
    assert refusal(Params(1.0, (0.0, 1.0)), 1.0) == (
        "argument `p.window` of kernel `reads_fields` must be a Window (got (0.0, 1.0))\n"
        "  help: make one: `Window(low, high)`"
    )
    assert refusal(2.0, 1.0) == (
        "argument `p` of kernel `reads_fields` must be a Params (got 2.0, a float)\n"
        "  help: make one: `Params(gain, window, count, level, is_on)`"
    )


def test_a_scalar_beside_a_record_that_does_not_fit_is_named():
    assert refusal(Params(1.0, Window(0.0)), "x").startswith(
        "argument `scale` of kernel `reads_fields` must be a scalar of f32 (got 'x', a str)"
    )


# ---------------------------------------------------------------------- kernels that are refused
NAMES = {"Window": Window, "Params": Params, "Loose": Loose, "Untyped": Untyped, "dataclasses": dataclasses}


def source(body, parameters="p: Params"):
    return f"@kernel\ndef k(out: InOut[f32], {parameters}):\n    {body}\n"


def told(body, parameters="p: Params"):
    return message(source(body, parameters), **NAMES)


def test_a_dataclass_that_is_not_frozen_is_refused():
    assert told("out[0] = p.gain", "p: Loose") == (
        "dataclass `Loose` is not frozen, and a kernel's values do not change\n"
        "  <text>:2:27, in k\n"
        "      def k(out: InOut[f32], p: Loose):\n"
        "                                ^^^^^\n"
        "  help: write `@dataclass(frozen=True)`"
    )


def test_a_parameter_says_the_dtype_of_each_field():
    assert told("out[0] = p.gain", "p: Untyped").splitlines()[0::4] == [
        "field `gain: float` of `Untyped` does not say its dtype",
        "  help: annotate it with one, for example `gain: f32`",
    ]


@pytest.mark.parametrize(
    ("body", "what", "way_out"),
    [
        ("out[0] = p.gian", "Params has no attribute `gian` in a kernel", "did you mean `gain`?"),
        ("out[0] = p[0]", "Params cannot be indexed", "read its fields: gain, window, count, level, is_on"),
        ("out[0] = p.window[2]", "index 2 is out of range for Window of 2", None),
        ("a, b, c = p.window", "Window of 2 cannot be unpacked into 3 names", None),
        ("out[0] = p", "Params cannot be stored in an element of `out` (f32)", None),
        ("out[0] = p.gain + p", "`f32 + Params` is not defined", None),
        ("q = Window(1.0, 2.0, 3.0)", "`Window(low, high)`: too many positional arguments", None),
        ("q = Window(high=1.0)", "`Window(low, high)`: missing a required argument: 'low'", None),
        (
            "q = Params(1.0, p.window, out[0])",
            "field `count` of `Params`: f32 is stored in i32 only with a cast",
            "cast it, for example `kaio.i32(...)`",
        ),
        ("q = p.window._replace(hi=1)", "Window has no field `hi`", "did you mean `high`?"),
        (
            "q = p.window if out[0] > 0 else p; out[0] = q[0]",
            "`conditional expression` is Window and also Params",
            "give both branches one type",
        ),
    ],
)
def test_what_records_cannot_do_is_told(body, what, way_out):
    (mistake,) = mistakes(source(body), **NAMES)
    assert (mistake.what, mistake.help) == (what, way_out)


def test_a_field_is_not_set():
    assert told("p.gain = 1.0").splitlines()[0] == "a kernel cannot set the attribute `p.gain`"


def test_types_and_shows_of_records():
    assert "Params" in reads_fields.types()
    assert str(reads_fields).count("Params") == 1
