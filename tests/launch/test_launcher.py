from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaio
from kaio import D2, In, InOut, f32, i8
from kaio.launch import Launcher
from tests.launch.fakes import Recorder, fake
from tests.refusals import refusal

# --- geometry ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "grid", "block"),
    [
        (1, (1, 1, 1), (256, 1, 1)),
        (257, (2, 1, 1), (256, 1, 1)),
        ((), (1, 1, 1), (256, 1, 1)),
        ((100, 37), (2, 13, 1), (32, 8, 1)),  # rows, columns: x is the column
        ((5, 9, 17), (3, 2, 2), (8, 8, 4)),
    ],
)
def test_over_covers_a_shape_with_its_last_axis_as_x(saxpy, stream, x, y, shape, grid, block) -> None:
    Launcher(saxpy).over(shape).on(stream).launch(x, y, 2.0)
    assert (stream.last.grid, stream.last.block) == (grid, block)


def test_the_axes_of_over_may_be_given_one_by_one(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over(100, 37).on(stream).launch(x, y, 2.0)
    assert stream.last.grid == (2, 13, 1)


def test_over_has_as_many_axes_as_a_grid_of_the_kernel(stream, x, y) -> None:
    kernel = fake("fill", x=In[f32], y=InOut[f32], grid_ranks=frozenset({2}))
    launcher = Launcher(kernel).over(8).on(stream)
    for _ in range(2):
        assert refusal(launcher.launch, x, y) == (
            "kernel `fill` uses `kaio.grid(2)`, but `over(8)` has 1 axis\n"
            "  help: give a shape, for example `over(image.shape)`, or use `kaio.grid(1)` in the kernel"
        )
    launcher.grid(1).launch(x, y)
    launcher.over((2, 4)).launch(x, y)
    launcher.over(()).launch(x, y)  # one thread, whatever it asks for
    assert len(stream.launched) == 3


def test_the_block_may_have_other_dimensions_than_the_shape(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over((100, 300)).block(128).on(stream).launch(x, y, 2.0)
    assert (stream.last.grid, stream.last.block) == ((3, 100, 1), (128, 1, 1))


def test_a_grid_is_taken_as_it_is_with_x_first(saxpy, stream, x, y) -> None:
    Launcher(saxpy).grid(7, 3).on(stream).launch(x, y, 2.0)
    assert (stream.last.grid, stream.last.block) == ((7, 3, 1), (32, 8, 1))


def test_the_later_of_over_and_grid_counts(saxpy, stream, x, y) -> None:
    launcher = Launcher(saxpy).on(stream)
    launcher.over(1000).grid(2).launch(x, y, 2.0)
    assert stream.last.grid == (2, 1, 1)
    launcher.grid(2).over(1000).launch(x, y, 2.0)
    assert stream.last.grid == (4, 1, 1)


def test_the_default_block_keeps_the_launch_bounds(stream, x, y) -> None:
    kernel = fake("k", x=In[f32], y=InOut[f32], a=f32, launch_bounds=64)
    Launcher(kernel).over(8).on(stream).launch(x, y, 2.0)
    assert stream.last.block == (64, 1, 1)


def test_a_launch_without_geometry_is_refused(saxpy, stream, x, y) -> None:
    for launcher, rest in (
        (Launcher(saxpy).on(stream), ""),
        (Launcher(saxpy).block(64).on(stream), ".block(64)"),
        (Launcher(saxpy).block(32, 8), ".block(32, 8)"),
    ):
        assert refusal(launcher.launch, x, y, 2.0) == (
            f"kernel `saxpy` is launched without saying over what\n  help: for example `saxpy.over(y.size){rest}`"
        )


def test_what_is_for_users_is_listed(saxpy) -> None:
    named = {name for name in dir(Launcher(saxpy)) if not name.startswith("_")}
    assert named == {"over", "grid", "block", "on", "options", "launch", "bind", "kernel", "shared", "timed", "trace"}


def test_a_geometry_over_the_limits_is_refused_before_anything_is_compiled(saxpy, stream, x, y) -> None:
    assert refusal(Launcher(saxpy).grid(1).block(32, 33).on(stream).launch, x, y, 2.0) == (
        "block (32, 33, 1) of kernel `saxpy` has 1056 threads, but cpu takes at most 1024"
    )
    assert (stream.launched, saxpy.asked) == ([], [])


def test_a_block_over_what_the_registers_allow_is_refused(stream, x, y) -> None:
    kernel = fake("heavy", x=In[f32], y=InOut[f32], a=f32, max_threads=640)
    Launcher(kernel).over(8).block(640).on(stream).launch(x, y, 2.0)
    assert refusal(Launcher(kernel).over(8).block(1024).on(stream).launch, x, y, 2.0) == (
        "block (1024, 1, 1) of kernel `heavy` has 1024 threads, but with the registers that the kernel uses cpu runs "
        "at most 640\n  help: use `.block(640)`, or `@kaio.kernel(max_registers=64)`"
    )
    assert len(stream.launched) == 1


@pytest.mark.parametrize("shape", [0, (0, 5), (5, 0), (3, 0, 2)])
def test_nothing_to_do_is_a_completed_no_op(saxpy, stream, x, y, shape) -> None:
    done = Launcher(saxpy).over(shape).on(stream).launch(x, y, 2.0)
    assert done.is_done
    done.wait()
    assert stream.launched == []


def test_a_grid_of_zero_is_a_completed_no_op(saxpy, stream, x, y) -> None:
    assert Launcher(saxpy).grid(0).block(128).on(stream).launch(x, y, 2.0).is_done
    assert stream.launched == []


def test_arguments_are_checked_even_if_there_is_nothing_to_do(saxpy, stream, x, y) -> None:
    launcher = Launcher(saxpy).over(0).on(stream)
    assert "does not fit f32" in refusal(launcher.launch, x, y, 1e300)
    assert "misses argument `a`" in refusal(launcher.launch, x, y)


# --- index width ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "wide"), [((2**23, 1, 1), False), ((2**23 + 1, 1, 1), True), ((1, 65535, 1), False), ((2**31 - 1,), True)]
)
def test_more_threads_along_an_axis_than_an_i32_counts_take_the_wide_variant(saxpy, stream, x, y, grid, wide) -> None:
    Launcher(saxpy).grid(grid).block(256).on(stream).launch(x, y, 2.0)
    assert saxpy.asked[-1][3] is wide


def test_sizes_are_packed_in_the_index_width(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over(8).on(stream).launch(x, y, 2.0)
    assert stream.last.loaded.program.index_bits == 32
    Launcher(saxpy).grid(2**31 - 1).block(2).on(stream).launch(x, y, 2.0)
    assert stream.last.loaded.program.index_bits == 64
    assert stream.last.values == (x.pointer, 8, y.pointer, 8, 2.0)


def test_an_empty_buffer_with_a_long_axis_takes_the_wide_variant(stream, cpu) -> None:
    kernel = fake("k", x=In[i8, D2])
    Launcher(kernel).over(8).on(stream).launch(cpu.alloc_empty((0, 2**40), i8))
    assert kernel.asked[-1][3] is True
    assert stream.last.values[1:] == (0, 2**40)


# --- the builder ------------------------------------------------------------------------------------------------------


def test_each_call_gives_a_new_value_and_leaves_the_old_one(saxpy, stream, x, y) -> None:
    base = Launcher(saxpy).over(1000).on(stream)
    small, timed = base.block(32), base.options(timed=True)
    base.launch(x, y, 2.0)
    assert (stream.last.block, stream.last.timed) == ((256, 1, 1), False)
    small.launch(x, y, 2.0)
    assert (stream.last.grid, stream.last.block) == ((32, 1, 1), (32, 1, 1))
    timed.launch(x, y, 2.0)
    assert (stream.last.block, stream.last.timed) == ((256, 1, 1), True)


def test_it_does_not_change(saxpy) -> None:
    with pytest.raises(AttributeError, match="a Launcher is immutable"):
        Launcher(saxpy).timed = True


def test_calling_a_launcher_launches(saxpy, stream, x, y) -> None:
    Launcher(saxpy).grid(3).block(64).on(stream)(x, y, 2.0)
    assert stream.last.grid == (3, 1, 1)


def test_it_reads_like_the_line_that_made_it(saxpy, cpu) -> None:
    assert repr(Launcher(saxpy).over(5)) == "saxpy.over(5)"
    launcher = Launcher(saxpy).grid(4, 2).block(16).on(cpu).options(check=True, timed=True)
    assert repr(launcher) == "saxpy.grid((4, 2)).block(16).on(cpu).options(check='bounds', timed=True)"


@given(st.integers(1, 64), st.integers(1, 1024))
def test_the_order_of_the_calls_does_not_matter(grid, block) -> None:
    saxpy = fake("saxpy", x=In[f32])
    cpu = kaio.Device("cpu")
    stream, x = Recorder(cpu), cpu.alloc_zeros(4, f32)
    Launcher(saxpy).grid(grid).block(block).on(stream).options(timed=True).launch(x)
    Launcher(saxpy).options(timed=True).on(stream).block(block).grid(grid).launch(x)
    first, second = stream.launched
    assert (first.grid, first.block, first.timed) == (second.grid, second.block, second.timed)


# --- place ------------------------------------------------------------------------------------------------------------


def test_a_launch_runs_on_the_device_of_its_buffers_and_its_current_stream(saxpy, monkeypatch, cpu, x, y) -> None:
    stream = Recorder(cpu)
    monkeypatch.setattr(type(cpu), "stream_for", lambda self, uses: stream)
    Launcher(saxpy).over(8).launch(x, y, 2.0)
    Launcher(saxpy).over(8).on(cpu).launch(x, y, 2.0)
    assert len(stream.launched) == 2


def test_buffers_of_two_devices_are_refused_naming_both(saxpy, stream, x) -> None:
    other = kaio.Device("cpu", like="sm_80")
    assert refusal(Launcher(saxpy).over(8).launch, x, other.alloc_zeros(8, f32), 2.0) == (
        f"argument `y` of kernel `saxpy` is on {other}, but argument `x` is on {x.device}\n"
        "  help: copy one over, for example `x.device.alloc_from(y.to_host())`"
    )


def test_a_launch_on_another_device_than_its_buffers_is_refused(saxpy, x, y) -> None:
    other = kaio.Device("cpu", like="sm_80")
    assert refusal(Launcher(saxpy).over(8).on(other).launch, x, y, 2.0) == (
        f"argument `x` of kernel `saxpy` is on {x.device}, but the launch is on {other}\n"
        "  help: leave `.on(…)` out: a launch runs where its buffers are"
    )


def test_a_kernel_without_buffers_runs_where_it_is_told(stream) -> None:
    kernel = fake("k", a=f32)
    Launcher(kernel).over(8).on(stream).launch(1.0)
    assert stream.last.values == (1.0,)


def test_on_takes_a_stream_or_a_device(saxpy) -> None:
    assert refusal(Launcher(saxpy).on, "cpu") == (
        "`on` of kernel `saxpy` takes a stream or a device (got 'cpu')\n  help: for example `.on(kaio.Device('cpu'))`"
    )
    assert refusal(Launcher(saxpy).on, None) == "`on` of kernel `saxpy` takes a stream or a device (got None)"


def test_block_by_occupancy_is_what_fills_the_device_with_the_kernel_as_compiled(saxpy, stream, x, y) -> None:
    launcher = Launcher(saxpy).over(2000).on(stream).block("occupancy")
    launcher.launch(x, y, 1.0)
    launcher.bind(x, y, 1.0).launch()
    assert [(each.grid, each.block) for each in stream.launched] == [((3, 1, 1), (992, 1, 1))] * 2
    assert repr(Launcher(saxpy).over(8).block("occupancy")) == "saxpy.over(8).block('occupancy')"


def test_block_by_occupancy_keeps_to_launch_bounds(stream, x) -> None:
    Launcher(fake("fill", x=InOut[f32], launch_bounds=128)).over(2000).on(stream).block("occupancy").launch(x)
    assert stream.last.block == (96, 1, 1)
    Launcher(fake("fill", x=InOut[f32], max_threads=512)).over(2000).on(stream).block("occupancy").launch(x)
    assert stream.last.block == (480, 1, 1)


@pytest.mark.parametrize(
    ("shape", "grid", "block"), [((64, 64), (2, 3, 1), (32, 31, 1)), ((16, 16, 16), (2, 2, 2), (8, 8, 15))]
)
def test_block_by_occupancy_is_as_wide_along_x_as_the_default(saxpy, stream, x, y, shape, grid, block) -> None:
    Launcher(saxpy).over(shape).on(stream).block("occupancy").launch(x, y, 1.0)
    assert (stream.last.grid, stream.last.block) == (grid, block)


def test_block_takes_no_other_word(saxpy) -> None:
    assert refusal(Launcher(saxpy).block, "best") == (
        "`block` of kernel `saxpy` takes numbers of threads (got 'best')\n"
        '  help: for example `.block(128)`; `.block("occupancy")` asks for what fills the device best'
    )
