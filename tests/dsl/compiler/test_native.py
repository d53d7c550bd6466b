"""LLVM modules to object code, and object code into this process."""

from __future__ import annotations

import ctypes

import pytest

from kaio.dsl.compiler.host import native
from kaio.errors import InternalError
from kaio.runtime.host_library import Library

_FMA = """
define void @k(ptr %x) {
  %a = load float, ptr %x
  %q = getelementptr float, ptr %x, i64 1
  %b = load float, ptr %q
  %r = call float @llvm.fma.f32(float %a, float %a, float %b)
  store float %r, ptr %x
  ret void
}
declare float @llvm.fma.f32(float, float, float)
"""
_ADD = "define i32 @add(i32 %a, i32 %b) {\n  %c = add i32 %a, %b\n  ret i32 %c\n}\n"


def _fma(features: str | None) -> float:
    library = Library(native.compile_object(_FMA, exported=["k"], features=features), ["k"])
    values = (ctypes.c_float * 2)(1 + 2**-12, -(1 + 2**-11))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("k"))(values)
    return values[0]


def test_object_code_runs_in_the_process_that_loads_it() -> None:
    library = Library(native.compile_object(_ADD, exported=["add"]), ["add"])
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(library.address("add"))(40, 2) == 42


def test_the_same_module_gives_the_same_bytes() -> None:
    assert native.compile_object(_ADD, exported=["add"]) == native.compile_object(_ADD, exported=["add"])


def test_two_libraries_may_export_the_same_name() -> None:
    one = Library(native.compile_object(_ADD, exported=["add"]), ["add"])
    two = Library(native.compile_object(_ADD.replace("add i32", "sub i32"), exported=["add"]), ["add"])
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)
    assert (call(one.address("add"))(5, 3), call(two.address("add"))(5, 3)) == (8, 2)


@pytest.mark.parametrize("features", [None, ""], ids=["own features", "no features"])
def test_a_fused_multiply_add_rounds_once_with_and_without_the_instruction(features: str | None) -> None:
    assert _fma(features) == 2**-24


def test_an_undefined_function_is_an_internal_error_that_names_it() -> None:
    text = (
        "define void @k() {\n  call void @nobody_defines_this()\n  ret void\n}\ndeclare void @nobody_defines_this()\n"
    )
    with pytest.raises(InternalError, match="no definition for the host of `nobody_defines_this`"):
        native.compile_object(text, exported=["k"])


def test_an_instruction_of_the_gpu_is_an_internal_error_that_names_it() -> None:
    text = "define void @k() {\n  call void @llvm.nvvm.barrier0()\n  ret void\n}\ndeclare void @llvm.nvvm.barrier0()\n"
    with pytest.raises(InternalError, match=r"no definition for the host of `llvm\.nvvm\.barrier"):
        native.compile_object(text, exported=["k"])


def test_text_that_is_no_module_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="the LLVM module of the host is not valid"):
        native.compile_object("define nonsense", exported=[])
