from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaio
from kaio import D0, D2, Const, DType, In, InOut, Out, f32, f64, i8, i32, u8
from kaio.dsl.types import Param, ScalarAnnotation, Signature
from kaio.errors import BufferClosedError, LaunchError
from kaio.launch import Launcher
from kaio.program import Build
from kaio.runtime.foreign import Foreign
from tests.launch.fakes import FakeKernel, fake

T = TypeVar("T", f32, f64)


def refusal(kernel: FakeKernel, stream: Any, *args: Any, error: type[Exception] = LaunchError, **kwargs: Any) -> str:
    with pytest.raises(error) as caught:
        Launcher(kernel).over(8).on(stream).launch(*args, **kwargs)
    assert stream.launched == []
    assert kernel.asked == []
    return str(caught.value)


# --- binding ----------------------------------------------------------------------------------------------------------


def test_arguments_bind_by_position_name_and_default(stream, x, y) -> None:
    kernel = fake("k", x=In[f32], y=Out[f32], a=(f32, 3.0), n=(i32, 7))
    launcher = Launcher(kernel).over(8).on(stream)
    launcher.launch(x, y)
    assert stream.last.values == (x.pointer, 8, y.pointer, 8, 3.0, 7)
    launcher.launch(x, n=1, y=y, a=2)
    assert stream.last.values == (x.pointer, 8, y.pointer, 8, 2.0, 1)
    assert [(buffer, access) for buffer, access in stream.last.uses] == [(x, "In"), (y, "Out")]


SAXPY = "\n  help: its parameters are `saxpy(x: In[f32], y: InOut[f32], a: f32)`"


def test_too_many_arguments_are_refused(saxpy, stream, x, y) -> None:
    assert refusal(saxpy, stream, x, y, 1.0, 2.0) == f"kernel `saxpy` takes 3 arguments (got 4){SAXPY}"


def test_missing_arguments_are_named(saxpy, stream, x) -> None:
    assert refusal(saxpy, stream, x, a=1.0) == f"kernel `saxpy` misses argument `y`{SAXPY}"
    assert refusal(saxpy, stream, x) == f"kernel `saxpy` misses arguments `y` and `a`{SAXPY}"


def test_an_unknown_keyword_is_refused_with_the_nearest_name(saxpy, stream, x, y) -> None:
    assert refusal(saxpy, stream, x, y, alpha=1.0) == f"kernel `saxpy` has no parameter `alpha`{SAXPY}"
    scale = fake("scale", values=In[f32], factor=f32)
    assert refusal(scale, stream, x, facto=1.0) == (
        "kernel `scale` has no parameter `facto`\n  help: did you mean `factor`?"
    )


def test_an_argument_given_twice_is_refused(saxpy, stream, x, y) -> None:
    assert refusal(saxpy, stream, x, y, y=y) == "argument `y` of kernel `saxpy` is given twice"


def test_keyword_only_and_positional_only_parameters_are_kept_apart(stream) -> None:
    params = (
        Param("a", ScalarAnnotation(i32), kind="positional"),
        Param("b", ScalarAnnotation(i32)),
        Param("c", ScalarAnnotation(i32), kind="keyword"),
    )
    kernel = FakeKernel(Signature("k", params))
    Launcher(kernel).over(8).on(stream).launch(1, 2, c=3)
    assert stream.last.values == (1, 2, 3)
    stream.launched.clear()
    kernel.asked.clear()
    shown = "\n  help: its parameters are `k(a: i32, /, b: i32, *, c: i32)`"
    assert refusal(kernel, stream, 1, 2, 3) == f"kernel `k` takes 2 positional arguments (got 3){shown}"
    assert refusal(kernel, stream, a=1, b=2, c=3) == f"kernel `k` takes `a` by position, not by name{shown}"


# --- buffers ----------------------------------------------------------------------------------------------------------


def test_a_buffer_of_another_dtype_is_refused_with_the_conversion(saxpy, stream, cpu, x) -> None:
    y = cpu.alloc_from(np.zeros(4096))
    assert refusal(saxpy, stream, x, y, 2.0) == (
        "argument `y` of kernel `saxpy` must be a GpuBuffer of f32 (got f64[4096])\n"
        "  help: convert it with `y.astype(kaio.f32)`"
    )


def test_a_buffer_of_other_dimensions_is_refused(saxpy, stream, cpu, x) -> None:
    y = cpu.alloc_zeros((2, 4), f32)
    assert refusal(saxpy, stream, x, y, 2.0) == (
        "argument `y` of kernel `saxpy` must be a 1-D GpuBuffer of f32 (got f32[2, 4])\n"
        "  help: reshape it, or annotate `y: InOut[f32, D2]`"
    )
    image = fake("k", c=In[u8, D2])
    assert refusal(image, stream, x) == (
        "argument `c` of kernel `k` must be a 2-D GpuBuffer of u8 (got f32[8])\n"
        "  help: convert it with `c.astype(kaio.u8)`"
    )


def test_a_strided_buffer_is_refused_with_both_ways_out(saxpy, stream, x, y) -> None:
    assert refusal(saxpy, stream, x[::2], y, 2.0) == (
        "argument `x` of kernel `saxpy` must be C-contiguous (got f32[4] with strides (8,))\n"
        "  help: copy it with `x.copy()`, or annotate `x: In[f32, D1, Strided]`"
    )


def test_a_numpy_array_is_refused_with_the_line_to_write(saxpy, stream, x, y) -> None:
    assert refusal(saxpy, stream, np.zeros(4, np.float32), y, 2.0) == (
        "argument `x` of kernel `saxpy` must be a GpuBuffer of f32 (got a NumPy array float32[4])\n"
        "  help: copy it to a device: `x = device.alloc_from(x)`"
    )
    assert refusal(saxpy, stream, x, np.zeros((2, 3)), 2.0) == (
        "argument `y` of kernel `saxpy` must be a GpuBuffer of f32 (got a NumPy array float64[2, 3])\n"
        "  help: copy it to a device: `y = device.alloc_from(y.astype(np.float32))`"
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "None"), (2.0, "2.0, a float"), ([1.0], "[1.0]"), ("x", "'x', a str")]
)
def test_what_is_no_buffer_is_refused(saxpy, stream, y, value, shown) -> None:
    assert refusal(saxpy, stream, value, y, 2.0) == (
        f"argument `x` of kernel `saxpy` must be a GpuBuffer of f32 (got {shown})\n"
        "  help: make one: `x = device.alloc_from(…)`"
    )


def test_a_buffer_for_a_scalar_is_refused(saxpy, stream, x, y) -> None:
    assert refusal(saxpy, stream, x, y, x) == "argument `a` of kernel `saxpy` must be a scalar of f32 (got f32[8])"


def test_a_closed_buffer_is_refused(saxpy, stream, x, y) -> None:
    x.close()
    message = refusal(saxpy, stream, x, y, 2.0, error=BufferClosedError)
    assert message == f"argument `x` of kernel `saxpy` cannot be used: the GpuBuffer of f32[{x.size}] was closed"


def test_a_0d_buffer_packs_a_pointer_alone(stream, cpu) -> None:
    total = cpu.alloc_zeros((), i32)
    Launcher(fake("bump", total=InOut[i32, D0])).over(()).on(stream).launch(total)
    assert stream.last.values == (total.pointer,)


# --- overlap ----------------------------------------------------------------------------------------------------------


def test_the_same_buffer_written_and_used_again_is_refused_naming_both(saxpy, stream, x) -> None:
    assert refusal(saxpy, stream, x, x, 2.0) == (
        "arguments `x` and `y` of kernel `saxpy` are the same memory, and `y` is InOut\n"
        "  help: pass a copy, for example `x.copy()`, or use one InOut parameter for both"
    )
    assert refusal(fake("k", a=Out[f32], b=In[f32]), stream, x, x) == (
        "arguments `a` and `b` of kernel `k` are the same memory, and `a` is Out\n"
        "  help: pass a copy, for example `b.copy()`, or use one InOut parameter for both"
    )


def test_views_that_overlap_are_refused(saxpy, stream, x) -> None:
    assert refusal(saxpy, stream, x[:5], x[4:], 2.0) == (
        "arguments `x` and `y` of kernel `saxpy` overlap in the same memory, and `y` is InOut\n"
        "  help: pass a copy, for example `x.copy()`, or use one InOut parameter for both"
    )


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8))
def test_two_views_are_refused_exactly_when_they_share_an_element(a, b, c, d) -> None:
    buffer = kaio.Device("cpu").alloc_zeros(8, f32)
    parameters = fake("saxpy", x=In[f32], y=InOut[f32]).parameters
    if set(range(a, b)) & set(range(c, d)):
        with pytest.raises(LaunchError, match="the same memory"):
            parameters.check((buffer[a:b], buffer[c:d]), {})
    else:
        parameters.check((buffer[a:b], buffer[c:d]), {})


def test_the_same_memory_may_be_read_through_several_arguments(stream, x, y) -> None:
    Launcher(fake("k", a=In[f32], b=In[f32], c=Out[f32])).over(8).on(stream).launch(x, x, y)
    assert stream.last.values == (x.pointer, 8, x.pointer, 8, y.pointer, 8)


# --- constants and generic kernels ------------------------------------------------------------------------------------


def test_constants_and_dtypes_bind_like_other_arguments_and_are_not_packed(stream, x) -> None:
    kernel = fake("k", x=In[f32], tile=(Const[int], 16), scale=Const[float], of=Const[DType])
    launcher = Launcher(kernel).over(8).on(stream)
    launcher.launch(x, scale=2, of=np.float64)
    assert kernel.asked[-1][1] == {"tile": 16, "scale": 2.0, "of": f64}
    assert stream.last.values == (x.pointer, 8)


def test_specialisations_are_told_apart_by_the_bits_of_constants() -> None:
    parameters = fake("k", c=Const[float]).parameters
    keys = [parameters.check((value,), {}).key for value in (0.0, -0.0, float("nan"), 1.0)]
    assert len(set(keys)) == 4
    assert parameters.check((float("nan"),), {}).key == keys[2]


def test_a_generic_kernel_takes_the_dtype_of_its_buffer(stream, cpu, x) -> None:
    kernel = fake("k", a=T, x=InOut[T])
    launcher = Launcher(kernel).over(8).on(stream)
    launcher.launch(0.1, x)
    assert kernel.asked[-1][2] == {"T": f32}
    assert stream.last.values == (np.float32(0.1), x.pointer, 8)
    doubles = cpu.alloc_zeros(3, f64)
    launcher.launch(0.1, doubles)
    assert kernel.asked[-1][2] == {"T": f64}
    assert stream.last.values == (0.1, doubles.pointer, 3)


def test_the_buffers_of_one_generic_dtype_must_agree(stream, cpu, x) -> None:
    kernel = fake("k", x=In[T], y=Out[T])
    assert refusal(kernel, stream, x, cpu.alloc_zeros(8, f64)) == (
        "argument `y` of kernel `k` must be a GpuBuffer of f32 (got f64[8])\n"
        "  help: convert it with `y.astype(kaio.f32)`"
    )


def test_a_dtype_outside_the_constraints_is_refused(stream, cpu) -> None:
    assert refusal(fake("k", x=In[T]), stream, cpu.alloc_zeros(8, i32)) == (
        "argument `x` of kernel `k` must be of one of f32, f64 (got i32[8])\n"
        "  help: convert it, for example with `x.astype(kaio.f32)`"
    )


def test_a_generic_scalar_alone_needs_a_scalar_of_a_dtype(stream) -> None:
    kernel = fake("k", a=T)
    Launcher(kernel).over(8).on(stream).launch(f64(0.5))
    assert kernel.asked == [(Build("bounds"), {}, {"T": f64}, False)]
    stream.launched.clear()
    kernel.asked.clear()
    assert refusal(kernel, stream, 0.5) == (
        "argument `a` of kernel `k` does not tell which dtype T is (got 0.5, a float)\n"
        "  help: pass a scalar of a dtype, for example `kaio.f32(a)`"
    )


# --- memory of other libraries ----------------------------------------------------------------------------------------


def imported(cpu: kaio.Device, size: int, *, read_only: bool = False) -> Any:
    """A buffer over memory that is never touched."""
    return cpu.adopt(Foreign("cpu", 0, 1 << 40, (size,), (1,), i8, read_only=read_only))


def test_read_only_memory_may_be_read_and_not_written(stream, cpu) -> None:
    x = imported(cpu, 4, read_only=True)
    for access in (Out, InOut):
        assert refusal(fake("k", x=access[i8]), stream, x) == (
            f"argument `x` of kernel `k` is {access.__name__}, but its memory is read-only\n"
            "  help: pass a copy: `x.copy()`"
        )
    Launcher(fake("k", x=In[i8])).over(8).on(stream).launch(x)
    assert stream.last.values == (x.pointer, 4)


@pytest.mark.parametrize(("size", "wide"), [(2**31 - 1, False), (2**31, True)])
def test_a_buffer_with_more_elements_than_an_i32_counts_takes_the_wide_variant(stream, cpu, size, wide) -> None:
    kernel = fake("k", x=In[i8])
    Launcher(kernel).over(8).on(stream).launch(imported(cpu, size))
    assert kernel.asked[-1][3] is wide
    assert stream.last.values[1] == size


def test_the_same_memory_imported_twice_is_found(stream, cpu) -> None:
    message = refusal(fake("k", x=In[i8], y=Out[i8]), stream, imported(cpu, 4), imported(cpu, 4))
    assert message.startswith("arguments `x` and `y` of kernel `k` are the same memory, and `y` is Out")


class Elsewhere:
    """An array of another library, on the host."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_an_array_of_another_library_is_taken_in_place(stream, y) -> None:
    array = np.arange(8, dtype=np.float32)
    Launcher(fake("saxpy", x=In[f32], y=InOut[f32])).over(8).on(stream).launch(Elsewhere(array), y)
    assert stream.last.values == (array.ctypes.data, 8, y.pointer, 8)


def test_an_array_of_another_library_is_checked_like_a_buffer(saxpy, stream, y) -> None:
    assert refusal(saxpy, stream, Elsewhere(np.arange(8.0)), y, 2.0) == (
        "argument `x` of kernel `saxpy` must be a GpuBuffer of f32 (got f64[8])\n"
        "  help: convert it with `x.astype(kaio.f32)`"
    )


def test_an_array_that_kaio_cannot_hold_is_refused_by_name(saxpy, stream, y) -> None:
    message = refusal(saxpy, stream, Elsewhere(np.zeros(8, np.clongdouble)), y, 2.0)
    assert message.startswith("argument `x` of kernel `saxpy` cannot be used in place: ")
