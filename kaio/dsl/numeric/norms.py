"""Lengths of vectors, without overflow on the way, by NVIDIA's libdevice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.intrinsic import standard
from kaio.dsl.numeric.operands import at_least, floats, from_library, result_type

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["norm3d", "norm4d", "rhypot", "rnorm3d", "rnorm4d"]


def _hypot(e: Emitter, call: TypedCall, *coordinates: Any) -> Any:
    """By twos, threes and fours, the rest together with the length so far."""
    dtype, rest = result_type(call), list(coordinates)
    if len(rest) == 1:
        return e.use(primitives.fabs, rest[0], dtype)
    taken, rest = rest[:4], rest[4:]
    while True:
        name = {2: "hypot", 3: "norm3d", 4: "norm4d"}[len(taken)]
        length = e.use(primitives.libdevice, name, taken, dtype)
        if not rest:
            return length
        taken, rest = [length, *rest[:3]], rest[3:]


def _coordinates(*coordinates: Any) -> None: ...


standard(
    math.hypot,
    at_least(1, floats("hypot"), "`hypot` takes a number or more", "for example `math.hypot(x, y)`"),
    _hypot,
    _coordinates,
    "The length of a vector of any number of coordinates; an infinity where one is infinite, even beside a NaN.",
    example="out[i] = math.hypot(x[i], y[i]) + math.hypot(x[i], y[i], 1)",
    ptx="sqrt.rn.f32",
    same_bits=False,
)


@from_library("rsqrt.approx")
def rhypot(x: Any, y: Any) -> Any:
    """`1 / hypot(x, y)`."""


@from_library("sqrt.rn.f32")
def norm3d(x: Any, y: Any, z: Any) -> Any:
    """The length of the vector (x, y, z)."""


@from_library("sqrt.rn.f32")
def norm4d(x: Any, y: Any, z: Any, w: Any) -> Any:
    """The length of the vector (x, y, z, w)."""


@from_library("rsqrt.approx")
def rnorm3d(x: Any, y: Any, z: Any) -> Any:
    """`1 / norm3d(x, y, z)`."""


@from_library("rsqrt.approx")
def rnorm4d(x: Any, y: Any, z: Any, w: Any) -> Any:
    """`1 / norm4d(x, y, z, w)`."""
