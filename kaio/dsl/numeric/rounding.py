"""Rounding to whole numbers, and `fma`, which rounds once."""

from __future__ import annotations

import builtins
import math
from typing import Any

from kaio.dsl import primitives
from kaio.dsl.intrinsic import intrinsic, standard
from kaio.dsl.numeric.operands import floats, one, step

__all__ = ["fma", "rint"]


_ROUNDINGS = (
    (
        math.floor,
        primitives.floor,
        "The largest whole number that is not above; a float, cast it to index with it.",
        "cvt.rmi.f32.f32",
    ),
    (math.ceil, primitives.ceil, "The smallest whole number that is not below; a float.", "cvt.rpi.f32.f32"),
    (math.trunc, primitives.trunc, "The whole part; a float.", "cvt.rzi.f32.f32"),
    (builtins.round, primitives.rint, "The nearest whole number, halves to even; a float.", "cvt.rni.f32.f32"),
)
for _python, _primitive, _doc, _ptx in _ROUNDINGS:
    _name = _python.__name__
    _written = _name if _python is builtins.round else f"math.{_name}"
    standard(_python, floats(_name), step(_primitive), one, _doc, example=f"out[i] = {_written}(x[i] * 9)", ptx=_ptx)


@intrinsic(floats("rint"), emit=step(primitives.rint), example="wide[i] = kaio.rint(d[i] * 9)", ptx="cvt.rni.f64.f64")
def rint(x: Any) -> Any:
    """The nearest whole number, halves to even; a float. The same as `round`."""


@intrinsic(
    floats("fma", narrow=True),
    emit=step(primitives.fma),
    stands_for=tuple(filter(None, (getattr(math, "fma", None),))),
    example="out[i] = kaio.fma(x[i], y[i], 0.5)",
    ptx="fma.rn.f32",
)
def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once; always fused, whatever `contract` says."""
