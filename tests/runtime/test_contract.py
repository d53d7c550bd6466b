"""What every device does, whichever it is: buffers, order between streams, completions."""

from __future__ import annotations

import asyncio
import copy
import operator
import pickle
import pydoc
import re
import sys
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kaio
from kaio import f32, f64, i32, u8
from kaio.dtypes import COMPLEX, DTYPES
from kaio.errors import BufferClosedError, CompletionTimeout, KaioError, OutOfMemoryError
from kaio.runtime.leaving import finish
from tests.live import settled

same_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


# Buffers: what goes in comes out.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (0, 4), (3, 0), (2, 3, 4)])
def test_alloc_from_keeps_shape_dtype_and_values(device: Any, dtype: Any, shape: Any) -> None:
    host = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype.numpy)
    buffer = device.alloc_from(host)
    assert (buffer.shape, buffer.dtype, buffer.ndim, buffer.size) == (shape, dtype, len(shape), host.size)
    assert (buffer.nbytes, buffer.is_empty, buffer.is_contiguous) == (host.nbytes, host.size == 0, True)
    back = buffer.to_host()
    assert (back.shape, back.dtype) == (host.shape, host.dtype)
    np.testing.assert_array_equal(back, host)


def test_alloc_from_copies(device: Any) -> None:
    host = np.zeros(4)
    buffer = device.alloc_from(host)
    host[:] = 1
    assert buffer.to_host().tolist() == [0, 0, 0, 0]


def test_alloc_from_takes_layouts_that_are_not_contiguous(device: Any) -> None:
    base = np.arange(24.0).reshape(4, 6)
    for host in (base.T, base[::2, 1::2], base[:, ::-1], np.asfortranarray(base), np.broadcast_to(base[0], (3, 6))):
        buffer = device.alloc_from(host)
        assert buffer.is_contiguous
        np.testing.assert_array_equal(buffer.to_host(), host)


def test_alloc_from_takes_a_read_only_array(device: Any) -> None:
    host = np.arange(3)
    host.flags.writeable = False
    buffer = device.alloc_from(host)
    buffer.fill(5)
    assert (buffer.to_host().tolist(), host.tolist()) == ([5, 5, 5], [0, 1, 2])


def test_alloc_from_refuses_an_element_type_by_its_name(device: Any) -> None:
    with pytest.raises(KaioError) as caught:
        device.alloc_from(np.ones(3, "M8[s]"))
    assert str(caught.value) == (
        "kaio has no element type for NumPy's `datetime64[s]`\n"
        f"  help: convert it to one of {', '.join(map(repr, (*DTYPES, *COMPLEX)))}"
    )


def test_a_masked_array_is_refused_with_the_way_out(device: Any) -> None:
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    uses = (device.alloc_from, device.import_array, device.alloc_zeros(2, f64).copy_from)
    for use in uses:
        with pytest.raises(KaioError) as caught:
            use(masked)
        assert caught.value.mistakes[0].help == "say what stands for what is masked: `array.filled(…)`"
    assert device.alloc_from(masked.filled(0)).to_host().tolist() == [0.0, 2.0]


def test_alloc_zeros_is_zero(device: Any) -> None:
    for shape in (5, (2, 3), (), 0):
        assert not device.alloc_zeros(shape, f64).to_host().any()


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        (-1, "a shape has no negative sizes (got -1)"),
        ((2, -3), "a shape has no negative sizes (got (2, -3))"),
        (1.5, "a shape is an int or a tuple of ints (got 1.5)"),
        (True, "a shape is an int or a tuple of ints (got True)"),
        ("ab", "a shape is an int or a tuple of ints (got 'ab')"),
        (np.ma.masked, "a shape is an int or a tuple of ints (got masked)"),
        ((0, 2**70), f"a shape has fewer than 2**63 elements, sizes of 0 left aside (got (0, {2**70}))"),
        ((1,) * 65, "a GpuBuffer has at most 64 dimensions (got 65)"),
    ],
)
def test_a_wrong_shape_is_shown(device: Any, shape: Any, what: str) -> None:
    with pytest.raises(KaioError) as caught:
        device.alloc_zeros(shape, f32)
    assert str(caught.value) == what


def test_out_of_memory_says_what_was_asked_and_who_holds_most(device: Any) -> None:
    keep = device.alloc_empty(1 << 20, u8)
    with pytest.raises(OutOfMemoryError) as caught:
        device.alloc_empty(1 << 44, u8)
    text = str(caught.value)
    assert text.startswith(f"{device} has no memory for 17,592,186,044,416 bytes: ")
    assert "; the largest buffers: " in text
    assert "1,048,576 bytes" in text
    assert caught.value.facts["asked"] == 1 << 44
    assert keep.nbytes in caught.value.facts["largest"]
    assert device.alloc_from([1, 2]).to_host().tolist() == [1, 2]


def test_more_than_an_address_counts_is_out_of_memory_too(device: Any) -> None:
    for alloc in (device.alloc_empty, device.alloc_zeros):
        with pytest.raises(OutOfMemoryError, match="has no memory for 4,835,703,278,458,516,698,824,704 bytes: "):
            alloc((2**40, 2**40), f32)
    assert device.alloc_zeros((1,) * 64, f32).to_host().ndim == 64


def test_to_host_into_an_array(device: Any, numbers: Any) -> None:
    out = np.empty((3, 4), np.float32)
    assert numbers.to_host(out) is out
    assert out.sum() == 66
    strided = np.zeros((3, 8), np.float32)
    numbers.to_host(strided[:, ::2])
    assert strided.sum() == 66
    assert numbers[:, 1:3].to_host(np.empty((3, 2), np.float32)).tolist() == [[1, 2], [5, 6], [9, 10]]


@pytest.mark.parametrize("out", [np.empty(12, np.float32), np.empty((3, 4)), [0]])
def test_to_host_refuses_an_array_that_does_not_fit(numbers: Any, out: Any) -> None:
    with pytest.raises(KaioError, match=r"`out` must be a NumPy array of f32\[3, 4\]"):
        numbers.to_host(out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fill_sets_every_element(device: Any, dtype: Any) -> None:
    value = True if dtype.kind == "b" else 1.1 if dtype.is_float else dtype.range[1] - 1
    buffer = device.alloc_zeros(1000, dtype)
    buffer.fill(value)
    np.testing.assert_array_equal(buffer.to_host(), np.full(1000, value, dtype.numpy))
    buffer.fill(False)
    assert not buffer.to_host().any()
    buffer[100:200].fill(value)
    assert np.count_nonzero(buffer.to_host()) == 100


@pytest.mark.parametrize("fields", [("u1", "u1", "u1"), ("i2", "u1", "i2"), ("f4", "u1", "f8"), ("c8", "f4"), ("f8",)])
def test_fill_sets_elements_of_any_size(device: Any, fields: Any) -> None:
    dtype = np.dtype([(f"f{k}", field) for k, field in enumerate(fields)], align=True)
    value = np.array(tuple(range(3, 3 + len(fields))), dtype)
    buffer = device.alloc_zeros(100, dtype)
    buffer[10:90].fill(value[()])
    expected = np.zeros(100, dtype)
    expected[10:90] = value
    np.testing.assert_array_equal(buffer.to_host(), expected)


@pytest.mark.parametrize(
    ("dtype", "value", "what"),
    [
        (u8, 256, "the value to fill with does not fit u8 (got 256)\n  help: u8 holds 0 to 255"),
        (
            i32,
            1.5,
            "the value to fill with must be a scalar of i32 (got 1.5, a float)\n  help: convert it with `int(value)`",
        ),
        (f32, "x", "the value to fill with must be a scalar of f32 (got 'x', a str)"),
    ],
)
def test_fill_refuses_what_is_no_element(device: Any, dtype: Any, value: Any, what: str) -> None:
    with pytest.raises(KaioError) as caught:
        device.alloc_zeros(3, dtype).fill(value)
    assert str(caught.value) == what


def test_copy_from_overwrites(device: Any, numbers: Any) -> None:
    numbers.copy_from(np.ones((3, 4), np.float32))
    assert numbers.to_host().sum() == 12
    numbers.copy_from(device.alloc_zeros((3, 4), f32))
    assert numbers.to_host().sum() == 0


def test_copy_from_refuses_another_shape_or_type(numbers: Any) -> None:
    with pytest.raises(KaioError, match=r"cannot be copied from shape \(12,\)"):
        numbers.copy_from(np.ones(12, np.float32))
    with pytest.raises(KaioError, match="cannot be copied from f64"):
        numbers.copy_from(np.ones((3, 4)))


def test_copy_is_independent(numbers: Any) -> None:
    twin = numbers.copy()
    numbers.fill(0)
    assert twin.to_host().sum() == 66
    assert numbers[:, 1].copy().is_contiguous


def test_astype_converts_as_a_cast_does(device: Any) -> None:
    x = device.alloc_from(np.array([1.9, -1.9, 300.0, np.nan, -np.inf], np.float32))
    assert x.astype(u8).to_host().tolist() == [1, 0, 255, 0, 0]
    assert x.astype(i32).to_host().tolist() == [1, -1, 300, 0, -(2**31)]
    assert x[:3].astype(f64).dtype is f64
    with pytest.raises(KaioError, match=r"`astype` takes a dtype \(got None\)"):
        x.astype(None)


def test_python_copies_and_pickles_go_through_the_host(device: Any, numbers: Any) -> None:
    for twin in (copy.copy(numbers), copy.deepcopy(numbers), pickle.loads(pickle.dumps(numbers))):
        assert (twin.device, twin.shape, twin.dtype) == (device, (3, 4), f32)
        assert twin.to_host().sum() == 66
        assert twin.byte_range != numbers.byte_range
    assert pickle.loads(pickle.dumps(device)) is device


# Views.


def test_views_share_the_memory(numbers: Any) -> None:
    numbers[1].fill(0)
    numbers.reshape(-1)[0:2].fill(9)
    assert numbers.to_host().tolist() == [[9, 9, 2, 3], [0, 0, 0, 0], [8, 9, 10, 11]]


def test_writing_a_strided_view_leaves_the_gaps(numbers: Any) -> None:
    numbers[::2, 1::2].copy_from(np.full((2, 2), -1, np.float32))
    assert numbers.to_host().tolist() == [[0, -1, 2, -1], [4, 5, 6, 7], [8, -1, 10, -1]]
    numbers[:, ::-1][:, 0].fill(5)
    assert numbers.to_host()[:, 3].tolist() == [5, 5, 5]


def test_an_integer_on_each_axis_gives_no_dimensions(numbers: Any) -> None:
    one = numbers[2, -1]
    assert (one.shape, one.to_host().item()) == ((), 11)


@same_device
@given(data=st.data())
def test_a_view_reads_what_numpys_does(device: Any, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    host = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    view, expected = device.alloc_from(host)[index], host[index]
    assert view.shape == np.shape(expected)
    if view.size:
        assert (
            view.is_contiguous
            == np.asarray(
                host[(*index, ...) if isinstance(index, tuple) and ... not in index else index]
            ).flags.c_contiguous
        )
    np.testing.assert_array_equal(view.to_host(), expected)


def test_reshape_refuses_what_needs_a_copy(numbers: Any) -> None:
    with pytest.raises(KaioError) as caught:
        numbers[:, 1:].reshape(9)
    assert str(caught.value) == (
        "a view of shape (3, 3) and strides (16, 4) cannot be seen as shape (9,) without a copy\n"
        "  help: copy it first: `x.copy().reshape(…)`"
    )
    with pytest.raises(KaioError, match=r"12 elements of shape \(3, 4\) cannot be seen as shape \(5,\)"):
        numbers.reshape(5)


def test_an_index_of_another_kind_is_refused(numbers: Any) -> None:
    with pytest.raises(KaioError, match="indexed by integers and slices"):
        numbers[[0, 1]]
    with pytest.raises(KaioError, match=r"shape \(3, 4\) is indexed by .*: slice step cannot be zero"):
        numbers[::0]
    with pytest.raises(KaioError, match=r"is indexed by slice\('a', None, None\): "):
        numbers["a":]


def test_an_index_out_of_bounds_is_pythons_error_and_kaios(numbers: Any) -> None:
    for error in (IndexError, KaioError):
        with pytest.raises(error) as caught:
            numbers[3]
        assert str(caught.value) == (
            "a GpuBuffer of shape (3, 4) is indexed by 3: index 3 is out of bounds for axis 0 with size 3"
        )
    for index in ((0, 0, 0), (..., ...), (None,) * 63):
        with pytest.raises(KaioError, match=r"a GpuBuffer of shape \(3, 4\) is indexed by \("):
            numbers[index]


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [(((12.0,),), "12.0"), ((True, 12), "True, 12"), ((None,), "None"), (("a",), "'a'"), (((3, 4), 1), "(3, 4), 1")],
)
def test_reshape_shows_what_is_no_size(numbers: Any, sizes: Any, shown: str) -> None:
    with pytest.raises(KaioError) as caught:
        numbers.reshape(*sizes)
    assert str(caught.value) == (
        f"`reshape` takes ints or a tuple of ints (got {shown})\n  help: for example `x.reshape(2, -1)`"
    )
    with pytest.raises(KaioError, match="at most 64 dimensions"):
        numbers.reshape((3, 4) + (1,) * 63)


# What a buffer, a device and a completion are not.


_COPY = "copy it to the host with `to_host()`"


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (np.asarray, f"a GpuBuffer is not turned into a NumPy array silently: {_COPY}"),
        (lambda x: np.array([x]), f"a GpuBuffer is not turned into a NumPy array silently: {_COPY}"),
        (np.sum, f"`np.sum` takes no GpuBuffer: {_COPY}, or write a kernel"),
        (lambda x: np.concatenate([x, x]), f"`np.concatenate` takes no GpuBuffer: {_COPY}, or write a kernel"),
        (np.sqrt, f"`np.sqrt` takes no GpuBuffer: {_COPY}, or write a kernel"),
        (lambda x: np.ones(4) + x, f"`np.add` takes no GpuBuffer: {_COPY}, or write a kernel"),
        (lambda x: np.float32(1) * x, f"`np.multiply` takes no GpuBuffer: {_COPY}, or write a kernel"),
        (lambda x: x + np.ones(4), f"a GpuBuffer has no `+`: write a kernel, or {_COPY}"),
        (lambda x: x + 1, f"a GpuBuffer has no `+`: write a kernel, or {_COPY}"),
        (lambda x: 2 * x, f"a GpuBuffer has no `*`: write a kernel, or {_COPY}"),
        (lambda x: operator.iadd(x, 1), f"a GpuBuffer has no `+`: write a kernel, or {_COPY}"),
        (lambda x: -x, f"a GpuBuffer has no `-`: write a kernel, or {_COPY}"),
        (lambda x: x @ x, f"a GpuBuffer has no `@`: write a kernel, or {_COPY}"),
        (lambda x: x > 0, f"a GpuBuffer has no `>`: write a kernel, or {_COPY}"),
        (lambda x: float(x[0, 0]), "a GpuBuffer is no float: copy it to the host with `to_host().item()`"),
        (lambda x: int(x[0, 0]), "a GpuBuffer is no int: copy it to the host with `to_host().item()`"),
        (
            lambda x: operator.setitem(x, 0, 3.0),
            "a GpuBuffer is not assigned to by index: write `x[…].fill(value)` or `x[…].copy_from(array)`",
        ),
        (lambda x: 3.0 in x, f"a GpuBuffer is not searched: {_COPY}"),
    ],
)
def test_a_buffer_is_no_array_and_says_what_to_write(numbers: Any, use: Any, what: str) -> None:
    with pytest.raises(TypeError) as caught:
        use(numbers)
    assert str(caught.value) == what


def test_a_buffer_is_equal_to_itself_and_not_compared_with_values(device: Any, numbers: Any) -> None:
    what = "a GpuBuffer is not compared: compare copies, for example `x.to_host() == y.to_host()`"
    for other in (numbers.copy(), numbers.to_host(), np.float32(1), 1, 1.5, [1], (1,)):
        for compare in (operator.eq, operator.ne):
            with pytest.raises(TypeError) as caught:
                compare(numbers, other)
            assert str(caught.value) == what
    assert (operator.eq(numbers, numbers), operator.ne(numbers, None), numbers == "x") == (True, True, False)
    assert {numbers: 1}[numbers] == 1


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("T", "x.to_host().T"), ("item", "x.to_host().item()"), ("tolist", "x.to_host().tolist()"),
        ("sum", "x.to_host().sum()"), ("numpy", "x.to_host()"), ("cpu", "x.to_host()"), ("get", "x.to_host()"),
        ("copy_to_host", "x.to_host()"), ("ravel", "x.reshape(-1)"), ("data_ptr", "x.pointer"), ("clone", "x.copy()"),
        ("numel", "x.size"), ("fill_", "x.fill(value)"), ("free", "x.close()"),
    ],
)  # fmt: skip
def test_a_name_that_arrays_have_elsewhere_is_answered(numbers: Any, name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(numbers, name)
    assert str(caught.value) == f"a GpuBuffer has no `{name}`: write `{instead}`"
    assert not hasattr(numbers, name)


def test_names_of_other_libraries_are_answered_with_kaios(device: Any) -> None:
    done = device.alloc_zeros(3, f32).fill(1)
    for thing, name, what in (
        (device, "zeros", "a Device has no `zeros`: write `device.alloc_zeros(shape, dtype)`"),
        (device, "array", "a Device has no `array`: write `device.alloc_from(array)`"),
        (device, "synchronize", "a Device has no `synchronize`: write `device.wait()`"),
        (device, "mem_info", "a Device has no `mem_info`: write `device.memory`"),
        (device.current_stream(), "synchronize", "a Stream has no `synchronize`: write `stream.wait()`"),
        (done, "synchronize", "a Completion has no `synchronize`: write `done.wait()`"),
        (done, "done", "a Completion has no `done`: write `done.is_done`"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(thing, name)
        assert str(caught.value) == what


def test_dir_shows_what_users_use(device: Any, numbers: Any) -> None:
    def shown(thing: object) -> str:
        return " ".join(name for name in dir(thing) if not name.startswith("_"))

    assert shown(device) == (
        "alloc_empty alloc_from alloc_pinned alloc_zeros capability check current_stream generation graph import_array "
        "kind limits memory name ordinal set_memory_limit stats stream target trim wait"
    )
    assert shown(device.current_stream()).replace("handle ", "") == "device is_done priority wait wait_for"
    assert shown(numbers.fill(0)) == "add_done_callback elapsed_ms future is_done result stream wait"
    assert shown(numbers) == (
        "astype close copy copy_from copy_to device dtype fill generation is_closed is_contiguous is_empty "
        "is_read_only nbytes ndim pointer reshape shape size strides to_host view"
    )


@pytest.mark.parametrize("noun", [kaio.Device, kaio.GpuBuffer, kaio.Stream])
def test_help_shows_what_users_use(noun: type) -> None:
    shown = pydoc.plain(pydoc.render_doc(noun))
    for hidden in ("refuse", "called by", "adopt", "enter_stream", "synchronize", "T\n", " make("):
        assert hidden not in shown


def test_a_time_limit_under_another_name_is_answered(device: Any) -> None:
    done = device.alloc_zeros(3, f32).fill(1)
    for wait in (done.wait, device.wait, device.current_stream().wait, device.stream().wait):
        with pytest.raises(TypeError) as caught:
            wait(timeout=1)
        assert str(caught.value) == "wait has no argument `timeout`: write `timeout_s=…`, a time in seconds"


def test_an_element_type_is_asked_for_with_the_line_to_write(device: Any) -> None:
    for allocate in (device.alloc_zeros, device.alloc_empty):
        name = allocate.__name__
        with pytest.raises(TypeError) as caught:
            allocate((3, 4))
        assert str(caught.value) == f"{name} needs an element type too: write `device.{name}((3, 4), kaio.f32)`"


def test_a_device_is_not_entered(device: Any) -> None:
    with pytest.raises(TypeError) as caught, device:
        pass
    assert str(caught.value) == "a Device is not entered: write `with device.stream():`, or no `with` at all"


@pytest.mark.parametrize("priority", ["high", True, 1.5, None])
def test_the_priority_of_a_stream_is_an_int(device: Any, priority: Any) -> None:
    with pytest.raises(KaioError) as caught:
        device.stream(priority=priority)
    assert str(caught.value) == f"the priority of a stream is an int, lower numbers go first (got {priority!r})"


# The end of a buffer.


def test_a_closed_buffer_raises_from_every_use(device: Any, numbers: Any) -> None:
    view = numbers[0]
    numbers.close()
    assert numbers.is_closed
    assert view.is_closed
    uses = (numbers.to_host, numbers.copy, lambda: numbers.fill(0), lambda: numbers[0], lambda: numbers.reshape(12),
            lambda: numbers.copy_from(np.ones((3, 4), np.float32)), numbers.check_usable, view.to_host,
            lambda: numbers.astype(f64), numbers.__dlpack__)  # fmt: skip
    for use in uses:
        with pytest.raises(BufferClosedError, match=r"the GpuBuffer of f32\[.*\] was closed"):
            use()
    assert repr(numbers) == f"GpuBuffer(f32[3, 4] on {device}, closed)"
    numbers.close()


def test_closing_a_view_closes_only_the_view(numbers: Any) -> None:
    with numbers[0] as view:
        pass
    assert view.is_closed
    assert not numbers.is_closed
    assert numbers.to_host().sum() == 66


def test_stats_count_live_buffers(device: Any) -> None:
    before = settled(device)
    x, y = device.alloc_zeros(100, f32), device.alloc_zeros(100, f64)
    view = x[10:]
    assert device.stats().live_buffers == before.live_buffers + 2
    assert device.stats().live_nbytes == before.live_nbytes + 1200
    del x
    y.close()
    assert device.stats().live_nbytes == before.live_nbytes + 400
    del view
    assert device.stats()[:2] == before[:2]


def test_a_dropped_buffer_lives_until_its_work_is_done(device: Any, latch: Any) -> None:
    target, stream = device.alloc_zeros(1 << 16, i32), device.stream()
    source = device.alloc_zeros(1 << 16, i32)
    source.fill(1).wait()
    latch.hold(stream)
    stream.copy(target, source)
    source.close()
    # New memory of the same size, at once written on another stream, must not be the source's.
    others = [device.alloc_zeros(1 << 16, i32) for _ in range(4)]
    for other in others:
        other.fill(9)
    latch.release()
    assert (target.to_host() == 1).all()


# Order between streams.


def _let_others_run(device: Any) -> None:
    """Give work that wrongly does not wait the time to do harm: what is awaited here was put in later."""
    other, stream = device.alloc_zeros(1 << 16, i32), device.stream()
    for _ in range(20):
        stream.set(other, b"\1\0\0\0").wait(60)


def test_work_waits_for_the_writer_on_another_stream(device: Any, latch: Any) -> None:
    x, y = device.alloc_zeros(4, i32), device.alloc_zeros(4, i32)
    one, two = device.stream(), device.stream()
    latch.hold(one)
    one.set(x, b"\7\0\0\0")
    copied = two.copy(y, x)
    _let_others_run(device)
    assert not copied.is_done
    latch.release()
    assert y.to_host().tolist() == [7, 7, 7, 7]


def test_work_waits_for_readers_on_another_stream_before_it_writes(device: Any, latch: Any) -> None:
    x, y, z = (device.alloc_zeros(4, i32) for _ in range(3))
    one, two = device.stream(), device.stream()
    latch.hold(one)
    one.copy(z, x)
    read, written = two.copy(y, x), two.set(x, b"\7\0\0\0")
    read.wait(60)
    _let_others_run(device)
    assert not written.is_done
    latch.release()
    assert (x.to_host().tolist(), z.to_host().tolist()) == ([7, 7, 7, 7], [0, 0, 0, 0])


def test_who_has_read_waits_again_for_what_is_written_since(device: Any, latch: Any) -> None:
    x, y, z = (device.alloc_zeros(4, i32) for _ in range(3))
    one, two = device.stream(), device.stream()
    two.copy(y, x).wait(60)
    latch.hold(one)
    one.set(x, b"\7\0\0\0")
    copied = two.copy(z, x)
    _let_others_run(device)
    assert not copied.is_done
    latch.release()
    assert (y.to_host().tolist(), z.to_host().tolist()) == ([0, 0, 0, 0], [7, 7, 7, 7])


def test_unrelated_work_waits_for_nothing(device: Any, latch: Any) -> None:
    x, y = device.alloc_zeros(4, i32), device.alloc_zeros(4, i32)
    one, two = device.stream(), device.stream()
    earlier = one.set(x, b"\3\0\0\0")
    held = latch.hold(one)
    two.copy(y, x).wait(60)
    earlier.wait(60)
    assert y.to_host().tolist() == [3, 3, 3, 3]
    assert not held.is_done


def test_memory_that_is_dropped_while_another_stream_uses_it_holds_nobody_up(device: Any, latch: Any) -> None:
    x, y = device.alloc_zeros(4, i32), device.alloc_zeros(4, i32)
    stream = device.stream()
    latch.hold(stream)
    stream.copy(y, x)
    del x
    device.alloc_zeros(4, i32).fill(1).wait(60)
    device.stream().set(device.alloc_zeros(4, i32), b"\1\0\0\0").wait(60)


def test_copies_to_and_from_the_host_wait_for_nothing_unrelated(device: Any, latch: Any) -> None:
    x = device.alloc_from([1, 2, 3])
    held = latch.hold(device.current_stream())
    x.copy_from(device.alloc_from([4, 5, 6]).to_host())
    assert x.to_host().tolist() == [4, 5, 6]
    assert not held.is_done


def test_views_order_like_their_parent(device: Any, latch: Any) -> None:
    x, y = device.alloc_zeros(8, i32), device.alloc_zeros(4, i32)
    one, two = device.stream(), device.stream()
    latch.hold(one, (x[:4], "Out"))
    copied = two.copy(y, x[4:])
    _let_others_run(device)
    assert not copied.is_done
    latch.release()
    copied.wait(60)


def test_a_block_of_a_stream_runs_its_work_there_and_waits(device: Any) -> None:
    default = device.current_stream()
    x = device.alloc_zeros(1000, i32)
    with device.stream() as outer:
        assert device.current_stream() is outer
        with device.stream(priority=-1) as inner:
            assert device.current_stream() is inner
            assert inner.priority == -1
            done = x.fill(5)
        assert done.is_done
        assert device.current_stream() is outer
    assert device.current_stream() is default
    assert done.stream is inner


def test_an_async_block_of_a_stream_lets_other_tasks_go_on_while_it_waits(device: Any, latch: Any) -> None:
    async def main() -> Any:
        async with device.stream() as stream:
            assert device.current_stream() is stream
            held = latch.hold(stream)
            asyncio.get_running_loop().call_soon(latch.release)  # which a wait in the loop would keep from running
        assert held.is_done
        return stream

    assert asyncio.run(asyncio.wait_for(main(), 60)) is not device.current_stream()


def test_each_thread_and_task_has_its_own_current_stream(device: Any) -> None:
    found: list[Any] = []
    with device.stream() as stream:
        thread = threading.Thread(target=lambda: found.append(device.current_stream()))
        thread.start()
        thread.join()
    assert found[0] is not stream


def test_device_wait_waits_for_all_streams(device: Any, latch: Any) -> None:
    works = [latch.hold(device.stream()) for _ in range(3)]
    with pytest.raises(
        CompletionTimeout, match=re.escape(f"the work on {device} is not done after 0.01 s; it goes on")
    ):
        device.wait(timeout_s=0.01)
    latch.release()
    device.wait(timeout_s=60)
    assert all(work.is_done for work in works)


def test_work_that_outlasts_the_limit_at_exit_is_left_with_a_word(
    device: Any, latch: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaio.runtime.leaving._SILENT_S", 0.0)
    monkeypatch.delattr(sys, "last_value", raising=False)
    held = latch.hold(device.stream())
    assert not finish(device, [held], limit_s=0.01)
    assert not finish(device, [held], limit_s=0.01, running=["kernel `k`"])
    assert caplog.messages == [
        f"waiting for the work on {device}; press Ctrl-C to leave",
        f"the work on {device} was not done 0.01 s after the program; it is left unfinished",
        f"waiting for kernel `k` on {device}; press Ctrl-C to leave",
        f"kernel `k` on {device} was not done 0.01 s after the program; it is left unfinished",
    ]
    monkeypatch.setattr(sys, "last_value", KeyboardInterrupt(), raising=False)  # as after a Ctrl-C
    assert not finish(device, [held], limit_s=60)
    assert len(caplog.messages) == 4
    latch.release()
    monkeypatch.setattr("kaio.runtime.leaving._SILENT_S", 60.0)
    assert finish(device, [held], limit_s=60)


# Completions.


def test_completions_and_streams_say_what_they_are(device: Any, latch: Any) -> None:
    stream, x = device.stream(priority=-1), device.alloc_zeros(4, i32)
    assert repr(stream) == f"<Stream of {device}, priority -1, at {id(stream):#x}>"
    held, filled = latch.hold(stream), stream.set(x, b"\1\0\0\0")
    copied = stream.copy(device.alloc_zeros(4, i32), x)
    both, nothing = kaio.gather(filled, copied), kaio.gather()
    assert [repr(done) for done in (held, filled, copied, both, nothing)] == [
        f"<Completion of work on {device}, pending>",
        f"<Completion of fill on {device}, pending>",
        f"<Completion of copy on {device}, pending>",
        "<Completion of 2 completions, pending>",
        "<Completion of 0 completions, done>",
    ]
    with pytest.raises(CompletionTimeout, match=r"the copy is not done after 0 s; it goes on"):
        copied.wait(0)
    latch.release()
    both.wait(60)
    assert repr(filled) == f"<Completion of fill on {device}, done>"


def test_wait_with_a_timeout_leaves_the_work_alone(device: Any, latch: Any) -> None:
    done = latch.hold(device.stream())
    with pytest.raises(CompletionTimeout, match=r"the work is not done after 0.01 s; it goes on"):
        done.wait(0.01)
    with pytest.raises(TimeoutError):
        done.wait(0)
    latch.release()
    done.wait(60)
    assert done.is_done
    assert done.result() is None


@pytest.mark.parametrize("timeout_s", [10**400, float("inf"), np.float32(60), np.int64(60), Fraction(60)])
def test_a_timeout_is_any_real_number_however_large(device: Any, timeout_s: Any) -> None:
    done = device.alloc_zeros(3, f32).fill(1)
    for what in (done, done.stream, device):
        what.wait(timeout_s)


def test_a_completion_is_neither_copied_nor_pickled(device: Any) -> None:
    done = device.alloc_zeros(3, f32).fill(1)
    for use in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(KaioError, match="a Completion is neither copied nor pickled"):
            use(done)


def test_a_wrong_timeout_is_shown(device: Any, latch: Any) -> None:
    done = latch.hold(device.stream())
    for wrong in (-1, "1", float("nan"), np.float32("nan"), True, 1j, np.timedelta64(5, "s")):
        with pytest.raises(KaioError, match=r"`timeout_s` is a number of seconds, 0 or more"):
            done.wait(wrong)


def test_a_completion_has_no_truth_value(device: Any) -> None:
    with pytest.raises(TypeError, match="ask `is_done`"):
        bool(device.alloc_zeros(3, f32).fill(1))


def test_elapsed_ms_needs_timing(device: Any) -> None:
    done = device.alloc_zeros(3, f32).fill(1)
    with pytest.raises(KaioError) as caught:
        done.elapsed_ms
    assert str(caught.value) == "this work was not timed\n  help: launch it with `.options(timed=True)`"


def test_nothing_to_do_is_done_at_once_and_took_no_time(device: Any) -> None:
    done = kaio.Completion.completed(device.current_stream())
    assert (done.is_done, done.result(), done.elapsed_ms) == (True, None, 0)


def test_callbacks_run_once_each(device: Any, latch: Any) -> None:
    called: list[str] = []
    ran = threading.Event()
    done = latch.hold(device.stream())
    done.add_done_callback(lambda it: called.append("early" if it is done else "?"))
    done.add_done_callback(lambda _: ran.set())
    assert not called
    latch.release()
    assert ran.wait(60)
    done.add_done_callback(lambda _: called.append("late"))
    assert called == ["early", "late"]


def test_await_resolves_many_while_other_threads_work(device: Any) -> None:
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            device.alloc_zeros(64, f32).fill(1).wait(60)

    async def main() -> int:
        streams = [device.stream() for _ in range(64)]
        buffers = [device.alloc_zeros(64, f32) for _ in streams]
        works = [stream.set(buffer, b"\0\0\0\0") for stream, buffer in zip(streams, buffers, strict=True)]
        return len(await asyncio.gather(*(_awaited(work) for work in works)))

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        assert asyncio.run(asyncio.wait_for(main(), 120)) == 64
    finally:
        stop.set()
        thread.join()


async def _awaited(work: Any) -> Any:
    return await work


def test_cancelling_an_await_leaves_the_work_alone(device: Any, latch: Any) -> None:
    done = latch.hold(device.stream())

    async def main() -> None:
        task = asyncio.ensure_future(_awaited(done))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not done.is_done
        latch.release()
        await done
        await done

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_loop_that_is_closed_before_the_work_is_done_is_no_trouble(
    device: Any, latch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    done, ran = latch.hold(device.stream()), threading.Event()

    async def main() -> None:
        task = asyncio.ensure_future(_awaited(done))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    done.add_done_callback(lambda _: ran.set())
    latch.release()
    assert ran.wait(60)
    assert not caplog.records


def test_loops_of_two_threads_await_the_same_work(device: Any, latch: Any) -> None:
    done, found = latch.hold(device.stream()), []
    started = threading.Barrier(3)

    def wait() -> None:
        async def main() -> None:
            task = asyncio.ensure_future(_awaited(done))
            await asyncio.sleep(0)
            started.wait()
            found.append(await task)

        asyncio.run(asyncio.wait_for(main(), 60))

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    latch.release()
    for thread in threads:
        thread.join()
    assert found == [None, None]


def test_gather_is_done_when_all_are(device: Any, latch: Any) -> None:
    quick, held = device.alloc_zeros(3, f32).fill(1), latch.hold(device.stream())
    both = kaio.gather(quick, held)
    ran = threading.Event()
    both.add_done_callback(lambda _: ran.set())
    with pytest.raises(CompletionTimeout):
        both.wait(0.01)
    latch.release()
    assert both.result() == [None, None]
    assert ran.wait(60)
    assert asyncio.run(_awaited(kaio.gather(quick, held))) == [None, None]
    assert kaio.gather().is_done


def test_several_completions_are_asked_for_where_one_is_given(device: Any) -> None:
    done = device.alloc_zeros(3, f32).fill(1)
    done.wait()
    shown = f"<Completion of fill on {device}, done>"
    with pytest.raises(TypeError) as caught:
        kaio.as_completed(done)
    assert str(caught.value) == f"`kaio.as_completed([a, b])` takes several completions (got {shown})"
    with pytest.raises(TypeError) as caught:
        kaio.gather([done, done])  # type: ignore[arg-type]
    assert str(caught.value) == (
        "`kaio.gather(a, b)` takes completions, not a list of them: write `kaio.gather(*completions)`"
    )


def test_gather_of_nothing_is_done_at_once() -> None:
    nothing = kaio.gather()
    assert (nothing.is_done, nothing.result(), asyncio.run(_awaited(nothing))) == (True, [], [])
    assert list(kaio.as_completed([])) == []


def test_as_completed_gives_them_in_the_order_in_which_they_are_done(device: Any, latch: Any) -> None:
    held, quick = latch.hold(device.stream()), device.alloc_zeros(3, f32).fill(1)
    found = []
    for done in kaio.as_completed([held, quick], timeout_s=60):
        found.append(done)
        latch.release()
    assert found == [quick, held]


def test_as_completed_gives_up_after_its_time(device: Any, latch: Any) -> None:
    works = [latch.hold(device.stream()), device.alloc_zeros(3, f32).fill(1)]
    with pytest.raises(CompletionTimeout, match=r"1 of 2 completions are not done after 0.05 s; their work goes on"):
        list(kaio.as_completed(works, timeout_s=0.05))

    async def main() -> None:
        async for _ in kaio.as_completed(works, timeout_s=0.05):
            pass

    with pytest.raises(CompletionTimeout, match=r"1 of 2 completions are not done"):
        asyncio.run(main())


def test_as_completed_serves_asyncio(device: Any, latch: Any) -> None:
    held, quick = latch.hold(device.stream()), device.alloc_zeros(3, f32).fill(1)

    async def main() -> list[Any]:
        found = []
        async for done in kaio.as_completed([held, quick]):
            found.append(done)
            latch.release()
        return found

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [quick, held]


def test_gather_refuses_what_is_no_completion() -> None:
    with pytest.raises(TypeError, match=r"takes completions \(got 3\)"):
        kaio.gather(3)  # type: ignore[arg-type]
