"""Random numbers in kernels: Philox-4x32-10, a function of a seed and a counter, so that no state is kept anywhere.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). What each record does is written in
the kernel language, once for both devices.
"""

from __future__ import annotations

import math
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from kaio.dsl.casts import integer
from kaio.dsl.intrinsic import Body, Resolved, in_place, intrinsic
from kaio.dsl.numeric.integers import mulhi
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import ObjectType, TupleType, Type, Weak, show
from kaio.dtypes import DType, f32, f64, u32, u64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["philox", "random_normal", "random_normal4", "random_u32", "random_uniform", "random_uniform4"]

_U32: DType = u32
_U64: DType = u64


# ---------------------------------------------------------------------- in the kernel language
def _words(seed: u64, c0: u32, c1: u32, c2: u32, c3: u32) -> Any:
    """Ten rounds of Philox on four words; the multipliers and Weyl constants are those of the paper."""
    k0, k1 = u32(seed), u32(seed >> 32)
    for _ in range(10):
        # `mulhi`, since of a product of 64 bits LLVM computes all of a round so, which a GPU has no multiplier for
        c0, c1, c2, c3 = (
            mulhi(c2, 0xCD9E8D57) ^ c1 ^ k0,  # type: ignore[assignment]
            c2 * u32(0xCD9E8D57),
            mulhi(c0, 0xD2511F53) ^ c3 ^ k1,  # type: ignore[assignment]
            c0 * u32(0xD2511F53),
        )
        k0 += 0x9E3779B9
        k1 += 0xBB67AE85
    return c0, c1, c2, c3


def _at(seed: u64, offset: u64) -> Any:
    return _words(seed, u32(offset), u32(offset >> 32), u32(0), u32(0))


def _first(seed: u64, offset: u64) -> Any:
    return _at(seed, offset)[0]


def _unit32(word: u32) -> Any:
    """The upper 24 bits as a multiple of 2**-24 below 1, which f32 holds exactly."""
    return f32(word >> 8) * f32(1 / 2**24)


def _unit64(high: u32, low: u32) -> Any:
    """53 bits as a multiple of 2**-53 below 1, which f64 holds exactly."""
    return f64((u64(high) << 32 | low) >> 11) * f64(1 / 2**53)


def _uniform32(seed: u64, offset: u64) -> Any:
    return _unit32(_at(seed, offset)[0])


def _uniform64(seed: u64, offset: u64) -> Any:
    w0, w1, _w2, _w3 = _at(seed, offset)
    return _unit64(w0, w1)


def _uniform4(seed: u64, offset: u64) -> Any:
    w0, w1, w2, w3 = _at(seed, offset)
    return _unit32(w0), _unit32(w1), _unit32(w2), _unit32(w3)


def _polar32(w0: u32, w1: u32) -> Any:
    """Box and Muller's two normal numbers, as a radius and an angle; 1 - u is never 0."""
    return math.sqrt(math.log(1 - _unit32(w0)) * -2), _unit32(w1) * f32(2 * math.pi)


def _normal32(seed: u64, offset: u64) -> Any:
    w0, w1, _w2, _w3 = _at(seed, offset)
    radius, angle = _polar32(w0, w1)
    return radius * math.cos(angle)


def _normal64(seed: u64, offset: u64) -> Any:
    w0, w1, w2, w3 = _at(seed, offset)
    return math.sqrt(math.log(1 - _unit64(w0, w1)) * -2) * math.cos(_unit64(w2, w3) * f64(2 * math.pi))


def _normal4(seed: u64, offset: u64) -> Any:
    w0, w1, w2, w3 = _at(seed, offset)
    r0, a0 = _polar32(w0, w1)
    r1, a1 = _polar32(w2, w3)
    return r0 * math.cos(a0), r0 * math.sin(a0), r1 * math.cos(a1), r1 * math.sin(a1)


# ---------------------------------------------------------------------- records
def _check_int(value: Type, what: str) -> None:
    integer(value, what, "cast it: a seed and a counter have no fraction")
    if isinstance(value, Weak) and not all(-(2**63) <= number < 2**64 for number in value.values):
        raise RuleError(f"{what} has 64 bits, and {show(value)} has more")


def _philox_typing(seed: Type, *counter: Type) -> Resolved:
    _check_int(seed, "the seed of `philox`")
    for k, word in enumerate(counter):
        _check_int(word, f"`c{k}` of `philox`")
    return Resolved(
        (_U64, *[_U32] * len(counter)),
        TupleType((_U32,) * 4),
        body=Body(cast(FunctionType, _words), (_U64, *[_U32] * 4)),
    )


def _philox_emit(e: Emitter, call: TypedCall, *values: Any) -> Any:
    return in_place(e, call, *values, *[e.const(_U32, 0)] * (5 - len(values)))


@intrinsic(
    _philox_typing,
    emit=_philox_emit,
    example="w0, w1, w2, w3 = kaio.philox(7, i)\ncounts[i] = kaio.i32(w0 ^ w3)",
    ptx="mul.hi.u32",
)
def philox(seed: int, c0: int, c1: int = 0, c2: int = 0, c3: int = 0) -> tuple[int, int, int, int]:
    """Four u32 of Philox-4x32-10 for a seed (64 bits, the key) and a counter of four words, which wrap.

    The same numbers as Random123's `philox4x32`, curand's Philox and Triton's `tl.philox` for the same key and counter.
    """
    raise AssertionError


def _of(what: str, *bodies: tuple[Any, Any]) -> Any:
    """The typing of a record that takes a seed, an offset and, where it has several bodies, a dtype."""

    def typing(seed: Type, offset: Type, *dtype: Type) -> Resolved:
        _check_int(seed, f"the seed of `{what}`")
        _check_int(offset, f"the offset of `{what}`")
        wanted = dtype[0].value if dtype and isinstance(dtype[0], ObjectType) else None if dtype else bodies[0][0]
        for made, body in bodies:
            if made is wanted:
                return Resolved((_U64, _U64, *dtype), None, body=Body(body, (_U64, _U64)))
        listed = " or ".join(f"`kaio.{made!r}`" for made, _ in bodies)
        raise RuleError(f"`{what}` gives {listed}, not {show(dtype[0])}", "cast what it gives")

    return typing


def _emit(e: Emitter, call: TypedCall, seed: Any, offset: Any, dtype: Any = None) -> Any:
    return in_place(e, call, seed, offset)


@intrinsic(
    _of("random_u32", (_U32, _first)),
    emit=_emit,
    example="counts[i] = kaio.i32(kaio.random_u32(7, i) >> 1)",
    ptx="mul.hi.u32",
)
def random_u32(seed: int, offset: int) -> int:
    """A random u32: the first word of `philox` at the offset (64 bits, in the first two words of the counter)."""
    raise AssertionError


@intrinsic(
    _of("random_uniform", (f32, _uniform32), (f64, _uniform64)),
    emit=_emit,
    example="out[i] = kaio.random_uniform(7, i)",
    ptx="cvt.rn.f32.u32",
)
def random_uniform(seed: int, offset: int, dtype: Any = f32) -> Any:
    """A random number in [0, 1): for f32 a multiple of 2**-24, for f64 of 2**-53; each offset has one of its own.

    Use each pair of seed and offset once: `kaio.random_uniform(seed, step * n + i)`.
    """
    raise AssertionError


@intrinsic(
    _of("random_uniform4", (f32, _uniform4)),
    emit=_emit,
    example="a, b, c, d = kaio.random_uniform4(7, i)\nout[i] = a + b + c + d",
    ptx="cvt.rn.f32.u32",
)
def random_uniform4(seed: int, offset: int) -> tuple[float, float, float, float]:
    """Four f32 in [0, 1) for the work of one; the first is that of `random_uniform`."""
    raise AssertionError


@intrinsic(
    _of("random_normal", (f32, _normal32), (f64, _normal64)),
    emit=_emit,
    example="out[i] = kaio.random_normal(7, i)",
    ptx="sqrt.rn.f32",
    same_bits=False,
)
def random_normal(seed: int, offset: int, dtype: Any = f32) -> Any:
    """A random number of the standard normal distribution, by Box and Muller from the words at the offset.

    An f32 is at most 5.8 away from 0, an f64 8.6. As it is made of `math.log` and `math.cos`, its last bits may differ
    between devices.
    """
    raise AssertionError


@intrinsic(
    _of("random_normal4", (f32, _normal4)),
    emit=_emit,
    example="a, b, c, d = kaio.random_normal4(7, i)\nout[i] = a + b + c + d",
    ptx="sqrt.rn.f32",
    same_bits=False,
)
def random_normal4(seed: int, offset: int) -> tuple[float, float, float, float]:
    """Four normal f32 for the work of one; the first is that of `random_normal`."""
    raise AssertionError
