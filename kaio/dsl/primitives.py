"""The steps that records are built of and that CUDA and the host spell differently.

Those of floats take the type last, and take f16 and bf16 as well: natively, or through f32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl import approximate
from kaio.dsl.intrinsic import Intrinsic, primitive
from kaio.dtypes import DType, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = [
    "PTX_INTEGER",
    "ceil",
    "fabs",
    "float_to_int",
    "floor",
    "flush",
    "fma",
    "libdevice",
    "maxnum",
    "minnum",
    "rint",
    "sqrt",
    "trunc",
]

_PTX_ROUNDING = {"trunc": "rz", "ceil": "rp", "floor": "rm"}
PTX_INTEGER = {("i", 32): "i", ("u", 32): "ui", ("i", 64): "ll", ("u", 64): "ull"}
"""Integers in the names of NVVM's intrinsics."""


def _letter(dtype: DType) -> str:
    return "f" if dtype.bits == 32 else "d"


def flush(e: Any, dtype: DType) -> str:
    """The end of the name of an instruction that fastmath makes flush subnormals of f32."""
    return f"{'.ftz' if dtype.bits == 32 and e.target.options.fastmath else ''}.{_letter(dtype)}"


def _float_primitive(name: str, *, cuda: Any, host: Any, narrow: Any = None) -> Intrinsic:
    """A primitive whose last argument is the float type. `narrow` is its rule for f16 and bf16, else it takes f32."""

    def rule(wide: Any) -> Any:
        def emit(e: Emitter, *args: Any) -> Any:
            *values, dtype = args
            if dtype.bits >= 32:
                return wide(e, *args)
            from kaio.dsl.compiler.emission import halves

            if narrow is not None:
                return narrow(halves)(e, *args)
            return halves.through_f32(e, dtype, lambda *values: wide(e, *values, f32), *values)

        return emit

    return primitive(name, cuda=rule(cuda), host=rule(host))


def _float_to_int_cuda(e: Emitter, value: Any, source: DType, target: DType, rounding: str) -> Any:
    name = f"llvm.nvvm.{_letter(source)}2{PTX_INTEGER[target.kind, target.bits]}.{_PTX_ROUNDING[rounding]}"
    return e.call(name, e.llvm(target), [value])


def _float_to_int_host(e: Emitter, value: Any, source: DType, target: DType, rounding: str) -> Any:
    if rounding != "trunc":
        value = e.call(f"llvm.{rounding}.{source.ptx}", e.llvm(source), [value])
    sign = "s" if target.kind == "i" else "u"
    result = e.call(f"llvm.fpto{sign}i.sat.i{target.bits}.{source.ptx}", e.llvm(target), [value])
    if source.bits == 64 or target.bits == 64:  # PTX: a NaN gives 0 only from f32 to at most 32 bits
        result = e.b.select(
            e.b.fcmp_unordered("uno", value, value),
            e.const(target, -target.range[1] - 1 if target.kind == "i" else 1 << target.bits - 1),
            result,
        )
    return result


def _from_f32(rule: Any) -> Any:
    def emit(e: Emitter, value: Any, source: DType, target: DType, rounding: str) -> Any:
        if source.bits < 32:
            value, source = e.convert(value, source, f32), f32
        return rule(e, value, source, target, rounding)

    return emit


float_to_int = primitive("float_to_int", cuda=_from_f32(_float_to_int_cuda), host=_from_f32(_float_to_int_host))


def _unary(name: str, nvvm: str, host: str) -> Any:
    return _float_primitive(
        name,
        cuda=lambda e, value, dtype: e.call(f"llvm.nvvm.{nvvm}.{_letter(dtype)}", e.llvm(dtype), [value]),
        host=lambda e, value, dtype: e.call(f"llvm.{host}.{dtype.ptx}", e.llvm(dtype), [value]),
    )


floor = _unary("floor", "floor", "floor")
ceil = _unary("ceil", "ceil", "ceil")
trunc = _unary("trunc", "trunc", "trunc")
rint = _unary("rint", "round", "roundeven")
fabs = _float_primitive(
    "fabs",
    narrow=lambda halves: halves.absolute,
    cuda=lambda e, value, dtype: e.call(f"llvm.nvvm.fabs{flush(e, dtype)}", e.llvm(dtype), [value]),
    host=lambda e, value, dtype: e.call(f"llvm.fabs.{dtype.ptx}", e.llvm(dtype), [value]),
)
sqrt = _float_primitive(
    "sqrt",
    # without `.rn` libNVVM rounds f32 as it is told to: correctly, or approximately under fastmath
    cuda=lambda e, value, dtype: e.call(
        "llvm.nvvm.sqrt.f" if dtype.bits == 32 else "llvm.nvvm.sqrt.rn.d", e.llvm(dtype), [value]
    ),
    host=lambda e, value, dtype: e.call(f"llvm.sqrt.{dtype.ptx}", e.llvm(dtype), [value]),
)


def _extreme(name: str, nvvm: str) -> Any:
    def host(e: Emitter, x: Any, y: Any, dtype: DType) -> Any:
        from kaio.dsl.compiler.emission.float_bits import extreme

        return extreme(e.b, name, x, y)

    return _float_primitive(
        name,
        narrow=lambda halves: lambda e, x, y, dtype: halves.extreme(e, name, x, y, dtype),
        cuda=lambda e, x, y, dtype: e.call(f"llvm.nvvm.{nvvm}.{_letter(dtype)}", e.llvm(dtype), [x, y]),
        host=host,
    )


minnum = _extreme("minnum", "fmin")
maxnum = _extreme("maxnum", "fmax")

fma = _float_primitive(
    "fma",
    narrow=lambda halves: halves.fma,
    cuda=lambda e, x, y, z, dtype: e.call(f"llvm.nvvm.fma.rn{flush(e, dtype)}", e.llvm(dtype), [x, y, z]),
    host=lambda e, x, y, z, dtype: e.call(f"llvm.fma.{dtype.ptx}", e.llvm(dtype), [x, y, z]),
)


def _library_host(e: Emitter, name: str, args: list[Any], dtype: DType, result: Any = None) -> Any:
    if dtype.bits < 32:
        from kaio.dsl.compiler.emission import halves

        return halves.through_f32(e, dtype, lambda *args: e.use(libdevice, name, list(args), f32), *args)
    suffix = "f" if dtype.bits == 32 else ""
    return e.call(f"__nv_{name}{suffix}", result or e.llvm(dtype), args)


def _library_cuda(e: Emitter, name: str, args: list[Any], dtype: DType, result: Any = None) -> Any:
    if dtype.bits == 32 and name in approximate.UNDER_FASTMATH and e.target.options.fastmath:  # type: ignore[attr-defined]
        return approximate.FUNCTIONS[name](e, *args)
    return _library_host(e, name, args, dtype, result)


libdevice = primitive("libdevice", cuda=_library_cuda, host=_library_host)
"""`libdevice(name, args, dtype, result)`: a function of NVIDIA's math library, by its name for f64."""
