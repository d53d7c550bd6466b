"""NVIDIA's math library on the host, against Python's `math` and NumPy's long double."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest
from llvmlite import ir

from kaio.dsl.compiler.host import libdevice, native
from kaio.errors import InternalError
from kaio.runtime.host_library import Library


def _long(name: str) -> Callable[..., np.ndarray]:
    function = getattr(np, name)
    return lambda *xs: function(*(x.astype(np.longdouble) for x in xs))


def _scalar(function: Callable[..., float]) -> Callable[..., np.ndarray]:
    def apply(*xs: np.ndarray) -> np.ndarray:
        return np.array([function(*map(float, args)) for args in zip(*xs, strict=True)], dtype=np.longdouble)

    return apply


# name: (reference, ranges of the arguments, ulp in f32, ulp in f64)
FUNCTIONS: dict[str, tuple[Callable[..., np.ndarray], list[tuple[float, float]], float, float]] = {
    "sin": (_long("sin"), [(-100, 100)], 1.6, 1.6),
    "cos": (_long("cos"), [(-100, 100)], 1.6, 1.6),
    "tan": (_long("tan"), [(-100, 100)], 4, 2),
    "exp": (_long("exp"), [(-80, 80)], 2, 1.1),
    "exp2": (_long("exp2"), [(-100, 100)], 2, 1.1),
    "expm1": (_long("expm1"), [(-5, 5)], 1.3, 1.1),
    "log": (_long("log"), [(1e-3, 1e6)], 1.1, 1.1),
    "log2": (_long("log2"), [(1e-3, 1e6)], 1.1, 1.3),
    "log10": (_long("log10"), [(1e-3, 1e6)], 2, 1.6),
    "log1p": (_long("log1p"), [(-0.9, 100)], 1.1, 1.1),
    "pow": (_long("power"), [(0.1, 20), (-8, 8)], 4, 2),
    "sqrt": (_long("sqrt"), [(0, 1e6)], 0.51, 0.51),
    "rsqrt": (lambda x: 1 / np.sqrt(x.astype(np.longdouble)), [(1e-3, 1e6)], 1, 1.6),
    "cbrt": (_long("cbrt"), [(-1e6, 1e6)], 1.1, 1.1),
    "hypot": (_long("hypot"), [(-1e3, 1e3), (-1e3, 1e3)], 1.6, 2),
    "tanh": (_long("tanh"), [(-5, 5)], 2, 1.6),
    "sinh": (_long("sinh"), [(-20, 20)], 3, 2),
    "cosh": (_long("cosh"), [(-20, 20)], 2, 1.6),
    "asin": (_long("arcsin"), [(-1, 1)], 2, 2.1),
    "acos": (_long("arccos"), [(-1, 1)], 2, 1.6),
    "atan": (_long("arctan"), [(-50, 50)], 2, 2.1),
    "atan2": (_long("arctan2"), [(-9, 9), (-9, 9)], 3, 2.1),
    "fmod": (_long("fmod"), [(-1e4, 1e4), (0.1, 50)], 0, 0),
    "erf": (_scalar(math.erf), [(-4, 4)], 2, 2.6),
    "erfc": (_scalar(math.erfc), [(-4, 5)], 4, 6),
    "lgamma": (_scalar(math.lgamma), [(3, 100)], 6, 6),
}


def _compiled(
    name: str, arguments: int, single: bool, features: str | None = None
) -> tuple[Library, Callable[..., np.ndarray]]:
    """A loop over arrays that calls one function of the library, as native code."""
    kind = ir.FloatType() if single else ir.DoubleType()
    called = f"__nv_{name}{'f' if single else ''}"
    module = ir.Module("loop")
    callee = ir.Function(module, ir.FunctionType(kind, [kind] * arguments), called)
    pointer = kind.as_pointer()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [ir.IntType(64), *[pointer] * (arguments + 1)]), "loop"
    )
    n, out, *ins = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    head, done = b.append_basic_block("head"), b.append_basic_block("done")
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(ir.IntType(64))
    i.add_incoming(ir.IntType(64)(0), function.entry_basic_block)
    b.store(b.call(callee, [b.load(b.gep(p, [i])) for p in ins]), b.gep(out, [i]))
    later = b.add(i, ir.IntType(64)(1))
    i.add_incoming(later, head)
    b.cbranch(b.icmp_unsigned("<", later, n), head, done)
    b.position_at_end(done)
    b.ret_void()
    code = native.compile_object(str(module), libdevice.functions([called]), exported=["loop"], features=features)
    library = Library(code, ["loop"])
    native_loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (arguments + 1))(library.address("loop"))

    def apply(*xs: np.ndarray) -> np.ndarray:
        result = np.empty_like(xs[0])
        native_loop(result.size, result.ctypes.data, *(x.ctypes.data for x in xs))
        return result

    return library, apply


def _ulps(got: np.ndarray, wanted: np.ndarray) -> float:
    near = np.spacing(np.maximum(np.abs(wanted.astype(got.dtype)), np.finfo(got.dtype).tiny))
    return float(np.max(np.abs(got.astype(np.longdouble) - wanted) / near))


@pytest.mark.parametrize("single", [True, False], ids=["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_libdevice_is_as_accurate_as_cuda_documents(name: str, single: bool) -> None:
    reference, ranges, ulp_single, ulp_double = FUNCTIONS[name]
    rng = np.random.default_rng(7)
    dtype = np.float32 if single else np.float64
    xs = [rng.uniform(low, high, 4000).astype(dtype) for low, high in ranges]
    _library, apply = _compiled(name, len(ranges), single)
    assert _ulps(apply(*xs), reference(*xs)) <= (ulp_single if single else ulp_double)


SPECIAL = {
    "exp": [(math.inf, math.inf), (-math.inf, 0.0), (math.nan, math.nan), (1e-42, 1.0)],
    "log": [(0.0, -math.inf), (-1.0, math.nan), (math.inf, math.inf), (2.0**-140, -140 * math.log(2))],
    "sin": [(math.inf, math.nan), (-0.0, -0.0), (1e10, math.sin(1e10))],
    "exp2": [(-149.0, 2.0**-149)],
    "cbrt": [(-8.0, -2.0)],
    "sqrt": [(-1.0, math.nan)],
    "tanh": [(math.inf, 1.0)],
    "rsqrt": [(0.0, math.inf)],
    "erfc": [(30.0, 0.0)],
    "acos": [(2.0, math.nan)],
}


@pytest.mark.parametrize(
    ("name", "x", "wanted"), [(name, x, wanted) for name, cases in SPECIAL.items() for x, wanted in cases]
)
def test_special_values_in_f32_are_those_of_ieee(name: str, x: float, wanted: float) -> None:
    _library, apply = _compiled(name, 1, single=True)
    got = apply(np.array([x], np.float32))[0]
    np.testing.assert_allclose(got, np.float32(wanted), rtol=3e-7, atol=0)
    assert math.isnan(wanted) or math.copysign(1, got) == math.copysign(1, wanted)


@pytest.mark.parametrize(("x", "y", "wanted"), [(-2.0, 1e300, math.inf), (-0.5, 1e17, 0.0), (-2.0, 3.0, -8.0)])
def test_whether_an_exponent_is_odd_is_told_for_huge_ones_too(x: float, y: float, wanted: float) -> None:
    """pow shifts by more than the width to tell, which gives 0 on a GPU."""
    _library, apply = _compiled("pow", 2, False)
    (got,) = apply(np.array([x]), np.array([y]))
    assert got == wanted
    assert np.signbit(got) == np.signbit(wanted)


def test_every_function_that_a_kernel_can_name_links() -> None:
    names = [f"__nv_{name}{suffix}" for name in FUNCTIONS for suffix in ("f", "")]
    module = ir.Module("all")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "all")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    for name in names:
        kind = ir.FloatType() if name.endswith("f") and name != "__nv_erf" else ir.DoubleType()
        arguments = len(
            FUNCTIONS[
                name.removeprefix("__nv_").removesuffix("f") if kind == ir.FloatType() else name.removeprefix("__nv_")
            ][1]
        )
        slot = ir.GlobalVariable(module, kind, f"slot.{name}")
        slot.initializer = ir.Constant(kind, 0.5)
        callee = ir.Function(module, ir.FunctionType(kind, [kind] * arguments), name)
        b.store(b.call(callee, [b.load(slot)] * arguments), slot)
    b.ret_void()
    assert native.compile_object(
        str(module), libdevice.functions(names), exported=["all", *[f"slot.{n}" for n in names]]
    )


def test_an_unknown_function_is_an_internal_error_that_names_it() -> None:
    with pytest.raises(InternalError, match="libdevice has no function `__nv_nosuch`"):
        libdevice.functions(["__nv_nosuch"])


def test_a_function_without_a_host_meaning_is_named_when_it_is_linked() -> None:
    text = (
        "define i32 @k(i32 %a) {\n  %r = call i32 @__nv_byte_perm(i32 %a, i32 %a, i32 %a)\n  ret i32 %r\n}\n"
        "declare i32 @__nv_byte_perm(i32, i32, i32)\n"
    )
    with pytest.raises(InternalError, match=r"no definition for the host of `kaio\.nvvm\.prmt`"):
        native.compile_object(text, libdevice.functions(["__nv_byte_perm"]), exported=["k"])


def test_a_damaged_or_missing_store_is_made_again(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from kaio.dsl.compiler.host import store

    monkeypatch.setenv("KAIO_CACHE_DIR", str(tmp_path))
    assert store.kept("kind", "key", lambda: b"first") == b"first"
    (path,) = (tmp_path / "kind").iterdir()
    assert store.kept("kind", "key", lambda: b"second") == b"first"
    path.write_bytes(path.read_bytes()[:-1])
    assert store.kept("kind", "key", lambda: b"second") == b"second"


def test_a_store_that_cannot_be_written_costs_nothing_but_time(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from kaio.dsl.compiler.host import store

    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("KAIO_CACHE_DIR", str(blocked / "below"))
    assert store.kept("kind", "key", lambda: b"made") == b"made"
