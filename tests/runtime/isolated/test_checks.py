"""What the checks of a kernel find in a worker, and launches as of any GPU."""

from __future__ import annotations

from typing import Any

import pytest

import kaio
from kaio import KernelFault, f32, i32
from kaio.errors import UnsupportedFeatureError
from tests.runtime.isolated.conftest import Lab
from tests.runtime.test_cuda import (  # noqa: F401
    test_a_dropped_argument_lives_until_the_kernel_is_done,
    test_a_launch_computes,
    test_a_prepared_launch_repeats,
    test_a_program_is_loaded_once,
    test_a_program_without_its_kernel_is_refused,
    test_a_timed_launch_knows_its_time,
    test_an_empty_grid_launches_nothing,
    test_launches_on_several_streams_are_ordered_by_what_they_use,
    test_too_much_shared_memory_is_refused,
)
from tests.runtime.test_cuda_faults import (  # noqa: F401
    checked,
    launch,
    test_a_bound_launch_is_checked_each_time,
    test_a_failure_that_nobody_waits_for_is_raised_by_the_next_wait,
    test_a_launch_without_checks_runs_beside_them,
    test_an_await_raises_it,
    test_each_of_many_launches_has_its_own_fault,
    test_its_time_is_known_if_it_does_not_fail,
    test_the_first_thread_that_failed_is_told_with_its_line,
    test_the_other_threads_do_their_work_and_the_device_goes_on,
    test_work_that_takes_the_results_of_a_failed_launch_fails_too,
)

pytestmark = pytest.mark.gpu


@pytest.fixture
def x(gpu: Any, request: pytest.FixtureRequest) -> Any:
    """What the tests of plain devices call so: 300 i32 for checks, else what saxpy reads."""
    if request.function.__module__.endswith("test_cuda"):
        return gpu.alloc_from([float(k) for k in range(1000)]).astype(f32)
    return gpu.alloc_zeros(300, i32)


@pytest.fixture
def y(gpu: Any) -> Any:
    """What saxpy adds to."""
    return gpu.alloc_zeros(1000, f32)


def test_a_device_checks_if_it_was_asked_for_so() -> None:
    device = kaio.Device("cuda:0", isolated=True, check="bounds")
    assert device is kaio.Device(0, check=True, isolated=True)
    assert device is not kaio.Device(0, isolated=True)
    assert (repr(device), str(device)) == (
        "Device('cuda:0', isolated=True, check='bounds')", "cuda:0 (isolated, check bounds)",
    )  # fmt: skip
    x = device.alloc_zeros(3, i32)
    with pytest.raises(KernelFault, match="index 3 is out of range"):
        checked.over(4).launch(x, 4).wait(60)


def test_more_checked_launches_than_there_are_records_wait_for_earlier_ones(lab: Lab) -> None:
    x = lab.gpu.alloc_zeros(300, i32)
    for _ in range(1500):
        launch(x, 300)
    assert (x.to_host() == 1500).all()
    lab.gpu.wait(60)
    assert not lab.gpu.watched
    assert len(lab.gpu.link.records) == 1024


def test_a_check_that_ends_the_launch_with_the_thread_is_told_and_the_device_goes_on(lab: Lab) -> None:
    x = lab.gpu.alloc_zeros(40, i32)
    done = trapping.grid(1).block(64).options(check="bounds").launch(x, 41)
    with pytest.raises(KernelFault, match="index 40 is out of range for axis 0 of `x`"):
        done.wait(60)
    lab.check_data()
    lab.gpu.wait(60)


@kaio.kernel
def trapping(x: kaio.InOut[i32], threads: i32):
    i = kaio.grid(1)
    if i < threads:
        x[i] += 1
    kaio.named_bar_sync(1, 64)


def test_a_time_limit_is_an_option_of_a_launch_here(lab: Lab) -> None:
    x = lab.gpu.alloc_zeros(300, i32)
    launch(x, 300, timeout_s=60).wait(60)
    bound = checked.over(300).options(timeout_s=60).bind(x, 300)
    bound.launch().wait(60)
    assert (x.to_host() == 2).all()


def test_a_bound_launch_is_stale_after_a_fault_until_it_is_bound_again(lab: Lab) -> None:
    x = lab.gpu.alloc_zeros(300, i32)
    bound = checked.over(300).bind(x, 300)
    bound.launch().wait(60)
    with pytest.raises(KernelFault):
        lab.launch("fault").wait(60)
    with pytest.raises(kaio.StaleBufferError, match=r"a bound launch of kernel `checked` is of generation \d+, and "):
        bound.launch()
    bound.update(threads=300)
    bound.launch().wait(60)
    assert (x.to_host() == 2).all()


def test_graphs_are_refused_with_the_way_out(lab: Lab) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        lab.gpu.graph()
    assert str(caught.value) == (
        "graphs are not supported on cuda:0 (isolated)\n"
        "  help: bind and launch the work itself, which is quick, too, or record it on `Device(0)`"
    )
