"""The options of a launch: what is refused, how they add up, and that they get to the stream and the variant."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import kaio
from kaio import UnsupportedFeatureError
from kaio.launch import Launcher
from kaio.program import Build
from kaio.runtime.stream import USUAL, RunOptions
from tests.refusals import refusal


class Gpu(kaio.Device):
    """As much of a GPU as the options look at."""

    kind, target, check = "cuda", "sm_90", "off"
    limits = kaio.Device("cpu").limits

    def __new__(cls) -> Gpu:
        return object.__new__(cls)

    def __str__(self) -> str:
        return "cuda:0"


# --- the level --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "check"), [(True, "bounds"), (False, "off"), ("off", "off"), ("full", "full")])
def test_check_chooses_the_variant(saxpy, stream, x, y, given, check) -> None:
    Launcher(saxpy).over(8).on(stream).options(check=given).launch(x, y, 2.0)
    assert saxpy.asked[-1][0] == Build(check)


def test_check_is_that_of_the_device_by_default(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over(8).on(stream).options(timed=True).launch(x, y, 2.0)
    assert saxpy.asked[-1][0] == Build("bounds")


@pytest.mark.parametrize("check", ["fast", 1, 0, ["off"]])
def test_an_unknown_check_is_refused(saxpy, check) -> None:
    assert refusal(Launcher(saxpy).options, check=check) == (
        f'`options(check=…)` takes "off", "bounds" or "full" (got {check!r})\n'
        '  help: docs/host.md says what each finds; `check=True` is `"bounds"`'
    )


# --- values that are no option's --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["timed", "cooperative", "coverage", "partial_barriers"])
@pytest.mark.parametrize("value", ["no", 1, [True]])
def test_a_flag_is_true_or_false(saxpy, name, value) -> None:
    assert refusal(Launcher(saxpy).options, **{name: value}) == (
        f"`options({name}=…)` takes True or False (got {value!r})\n  help: for example `.options({name}=True)`"
    )


@pytest.mark.parametrize("value", [-1, True, 1.0, "1"])
def test_a_schedule_is_a_seed(saxpy, value) -> None:
    assert refusal(Launcher(saxpy).options, schedule=value) == (
        f"`options(schedule=…)` takes a seed, an int of 0 or more (got {value!r})\n"
        "  help: for example `.options(schedule=1)`: the same seed gives the same order again"
    )


@pytest.mark.parametrize("value", [0, -3, True, 1e6, "many"])
def test_fuel_is_a_number_of_turns(saxpy, value) -> None:
    assert refusal(Launcher(saxpy).options, fuel=value) == (
        f"`options(fuel=…)` takes a number of turns of loops, an int above 0 (got {value!r})\n"
        "  help: for example `.options(fuel=1_000_000)`; leave it out for any number"
    )


@pytest.mark.parametrize("value", [0, -1.5, True, float("nan"), "10"])
def test_a_timeout_is_a_time_in_seconds(saxpy, value) -> None:
    assert refusal(Launcher(saxpy).options, timeout_s=value) == (
        f"`options(timeout_s=…)` takes a time in seconds, a number above 0 (got {value!r})\n"
        '  help: for example `.options(timeout_s=60)`; `float("inf")` is no limit'
    )


def test_numbers_of_any_size_are_options() -> None:
    @kaio.kernel
    def doubled(x: kaio.InOut[kaio.i32], n: kaio.i32):
        for _ in range(n):
            x[0] *= 2

    x = kaio.Device("cpu").alloc_zeros(1, kaio.i32)
    x.fill(1)
    for options in ({"fuel": 2**70}, {"timeout_s": 10**400}, {"schedule": 2**70}):
        doubled.grid(1).block(1).options(**options).launch(x, 2).wait()
    assert x.to_host().tolist() == [64]


def test_an_unknown_option_is_refused(saxpy) -> None:
    assert refusal(Launcher(saxpy).options, cheek=True) == (
        "`options` has no `cheek`\n  help: it takes check=, timed=, cooperative=, cluster=, schedule=, fuel=, "
        "timeout_s=, coverage=, partial_barriers="
    )


# --- where they go ----------------------------------------------------------------------------------------------------

EVERY: dict[str, Any] = {"schedule": 3, "fuel": 10, "timeout_s": 60.0, "coverage": True, "partial_barriers": True}


def test_a_launch_and_a_bound_launch_take_them_to_the_stream(saxpy, stream, x, y) -> None:
    launcher = Launcher(saxpy).over(8).on(stream).options(**EVERY)
    launcher.launch(x, y, 2.0)
    bound = launcher.bind(x, y, 2.0)
    bound.launch()
    bound.update(a=3.0)
    bound.launch()
    Launcher(saxpy).over(8).on(stream).launch(x, y, 2.0)
    assert [launched.options for launched in stream.launched] == [RunOptions(**EVERY)] * 3 + [USUAL]


def test_they_add_up(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over(8).on(stream).options(schedule=3, fuel=9).options(fuel=10, timed=True).launch(x, y, 2.0)
    assert stream.last.options == RunOptions(schedule=3, fuel=10)


def test_a_schedule_takes_a_variant_whose_threads_start_one_by_one(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over(8).on(stream).options(schedule=0, check="off").launch(x, y, 2.0)
    assert saxpy.asked[-1][0] == Build("off", stepped=True)


def test_fuel_takes_a_variant_that_counts_turns(saxpy, stream, x, y) -> None:
    Launcher(saxpy).over(8).on(stream).options(fuel=10).launch(x, y, 2.0)
    assert saxpy.asked[-1][0].counted


def test_they_show_and_pickle(saxpy) -> None:
    launcher = Launcher(saxpy).over(8).options(check="off", **EVERY)
    assert repr(launcher) == (
        "saxpy.over(8).options(check='off', schedule=3, fuel=10, timeout_s=60.0, coverage=True, partial_barriers=True)"
    )
    rebuild, (_, values) = launcher.__reduce__()
    assert repr(rebuild(saxpy, pickle.loads(pickle.dumps(values)))) == repr(launcher)


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("schedule", 3, "a GPU runs threads in an order of its own; run it there"),
        ("fuel", 5, "a GPU does not count turns of loops; run it there"),
        (
            "timeout_s",
            60.0,
            "limit the wait, `done.wait(timeout_s=…)`, use `Device(0, isolated=True)`, or run it there",
        ),
        ("coverage", True, "a GPU does not note who writes; run it there"),
    ],
)
def test_a_gpu_has_none_of_those_that_need_the_cpu_device(saxpy, name, value, way_out) -> None:
    launcher = Launcher(saxpy).over(8).options(**{name: value})
    assert refusal(launcher._resolve, Gpu(), error=UnsupportedFeatureError) == (
        f"kernel `saxpy` is launched on cuda:0 with `{name}={value!r}`, which is for the CPU device\n"
        f'  help: {way_out}: `device = kaio.Device("cpu")`'
    )


def test_a_gpu_does_as_partial_barriers_says(saxpy) -> None:
    assert Launcher(saxpy).over(8).options(partial_barriers=True)._resolve(Gpu()).build == Build("off")
