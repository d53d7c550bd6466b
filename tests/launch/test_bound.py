from __future__ import annotations

import pytest

import kaio
from kaio import f32
from kaio.errors import BufferClosedError, LaunchError
from kaio.launch import Launcher


@pytest.fixture
def bound(cpu, stream, saxpy, x):
    return Launcher(saxpy).over(8).on(stream).bind(x, cpu.alloc_zeros(8, f32), a=2.0)


def test_it_launches_again_and_again_what_was_bound(bound, stream) -> None:
    bound.launch()
    bound()
    first, second = stream.launched
    assert first == second
    assert first.values[-1] == 2.0


def test_binding_checks_and_launches_nothing(saxpy, stream, x) -> None:
    with pytest.raises(LaunchError, match="are the same memory"):
        Launcher(saxpy).over(8).on(stream).bind(x, x, 2.0)
    with pytest.raises(LaunchError, match="misses argument `a`"):
        Launcher(saxpy).over(8).on(stream).bind(x, x)
    assert stream.launched == []


def test_the_kernel_is_looked_up_once(bound, saxpy) -> None:
    bound.launch()
    bound.launch()
    assert len(saxpy.asked) == 1


def test_update_changes_one_argument(bound, stream, cpu, x) -> None:
    bound.update(a=3.0)
    bound.launch()
    assert stream.last.values[-1] == 3.0
    other = cpu.alloc_zeros(5, f32)
    bound.update(y=other)
    bound.launch()
    assert stream.last.values == (x.pointer, 8, other.pointer, 5, 3.0)


def test_update_checks_and_changes_nothing_if_that_fails(bound, stream, x) -> None:
    with pytest.raises(LaunchError) as caught:
        bound.update(a="a lot")
    assert str(caught.value) == "argument `a` of kernel `saxpy` must be a scalar of f32 (got 'a lot', a str)"
    with pytest.raises(LaunchError, match="are the same memory"):
        bound.update(a=5.0, y=x)
    bound.launch()
    assert stream.last.values[-1] == 2.0


def test_update_of_an_unknown_argument_is_refused(bound) -> None:
    with pytest.raises(LaunchError) as caught:
        bound.update(b=1.0)
    assert str(caught.value) == (
        "kernel `saxpy` has no parameter `b`\n  help: its parameters are `saxpy(x: In[f32], y: InOut[f32], a: f32)`"
    )


def test_parameters_that_are_given_by_name_are_bound_too(stream, cpu) -> None:
    @kaio.kernel
    def shift(y: kaio.InOut[f32], /, n: kaio.i32, *, a: f32, b: f32 = 1.0):
        i = kaio.grid(1)
        if i < n:
            y[i] += a + b

    y = cpu.alloc_zeros(4, f32)
    bound = shift.over(4).bind(y, 3, a=2.0)
    bound.launch().wait()
    bound.update(b=2.0, n=2)
    bound.launch().wait()
    assert y.to_host().tolist() == [7, 7, 3, 0]


def test_nothing_to_do_stays_a_completed_no_op(saxpy, stream, cpu, x) -> None:
    bound = Launcher(saxpy).over(0).on(stream).bind(x, cpu.alloc_zeros(8, f32), 2.0)
    assert bound.launch().is_done
    bound.update(a=3.0)
    assert bound.launch().is_done
    assert stream.launched == []


def test_a_buffer_closed_since_is_refused(saxpy, cpu, x) -> None:
    bound = Launcher(saxpy).over(8).on(cpu.stream()).bind(x, cpu.alloc_zeros(8, f32), 2.0)
    x.close()
    with pytest.raises(BufferClosedError) as caught:
        bound.launch()
    assert str(caught.value) == "argument `x` of kernel `saxpy` cannot be used: the GpuBuffer of f32[8] was closed"


def test_it_reads_like_the_line_that_made_it(bound) -> None:
    assert repr(bound).startswith("<BoundLaunch saxpy.over(8).on(")
