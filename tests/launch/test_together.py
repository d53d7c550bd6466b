"""Cooperative launches and clusters: what is refused before anything is launched, and what a stream is told."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import D2, InOut, f32, i32
from kaio.launch import Launcher
from kaio.runtime.stream import Together
from tests.launch.fakes import Recorder, fake
from tests.refusals import refusal

FILL = fake("fill", x=InOut[f32])
PLANE = fake("plane", x=InOut[f32, D2])


def test_a_launch_of_blocks_by_themselves_says_nothing_of_it(stream: Recorder, x: Any) -> None:
    Launcher(FILL).grid(3).on(stream).launch(x)
    assert stream.last.together is None


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({"cooperative": True}, Together(True, (1, 1, 1))),
        ({"cluster": 2}, Together(False, (2, 1, 1))),
        ({"cluster": (2, 2)}, Together(False, (2, 2, 1))),
        ({"cluster": (1, 2, 4), "cooperative": True}, Together(True, (1, 2, 4))),
        ({"cluster": np.int64(4), "cooperative": False}, Together(False, (4, 1, 1))),
    ],
)
def test_options_say_which_blocks_run_together(stream: Recorder, x: Any, options: Any, together: Together) -> None:
    Launcher(FILL).grid(4, 4, 4).on(stream).options(**options).launch(x)
    assert stream.last.together == together
    Launcher(FILL).grid(4, 4, 4).on(stream).options(**options).bind(x).launch()
    assert stream.last.together == together


def test_a_grid_over_a_shape_is_rounded_up_to_whole_clusters(stream: Recorder) -> None:
    x = kaio.Device("cpu").alloc_zeros((20, 100), f32)
    Launcher(PLANE).over(20, 100).block(32, 8).on(stream).options(cluster=(3, 2)).launch(x)
    assert stream.last.grid == (6, 4, 1)


def test_a_grid_of_parts_of_clusters_is_refused(stream: Recorder, x: Any) -> None:
    assert refusal(Launcher(FILL).grid(4, 5).on(stream).options(cluster=(2, 2)).launch, x) == (
        "grid.y of kernel `fill` is 5, which is not a multiple of its clusters' 2\n"
        "  help: use whole clusters, or `over(shape)`, which rounds up"
    )


@pytest.mark.parametrize("cluster", [0, 1.5, True, (1, 2, 3, 4), (), "2", (2, -1)])
def test_a_cluster_is_one_to_three_numbers_of_blocks(cluster: Any) -> None:
    assert refusal(Launcher(FILL).options, cluster=cluster) == (
        f"`options(cluster=…)` of kernel `fill` takes 1 to 3 numbers of blocks, x first (got {cluster!r})\n"
        "  help: for example `.options(cluster=(2, 1, 1))`"
    )


def test_a_cluster_has_at_most_eight_blocks() -> None:
    assert refusal(Launcher(FILL).options, cluster=(3, 3)) == "a cluster of kernel `fill` has 9 blocks; 8 is the most"


def test_a_launch_shows_its_options_and_keeps_them_when_it_is_pickled() -> None:
    launcher = meets.grid(4).options(cooperative=True, cluster=2)
    assert repr(launcher) == "meets.grid(4).options(cooperative=True, cluster=(2, 1, 1))"
    assert repr(pickle.loads(pickle.dumps(launcher))) == repr(launcher)


@kaio.kernel
def meets(out: InOut[i32]):
    kaio.grid_sync()
    if kaio.grid(1) == 0:
        out[0] += 1


@kaio.kernel
def shares(out: InOut[i32]):
    s = kaio.shared_mem(10_000, i32)
    s[kaio.thread_idx.x] = 1
    kaio.grid_sync()
    out[0] = s[0]


@pytest.mark.parametrize(
    ("like", "made", "threads", "each", "multiprocessors"),
    [
        ("sm_90", meets, 256, 8, 132),
        ("sm_75", meets, 1000, 1, 40),
        ("sm_90", shares, 32, 5, 132),
        ("sm_86", meets, 1, 16, 84),
    ],
)
def test_more_blocks_than_fit_at_once_are_refused_with_the_numbers(
    like: str, made: kaio.Kernel, threads: int, each: int, multiprocessors: int
) -> None:
    device = kaio.Device("cpu", like=like)
    out, most = device.alloc_zeros(1, i32), each * multiprocessors
    made.grid(most).block(threads).launch(out).wait()
    assert out.to_host()[0] == 1
    message = refusal(made.grid(most + 1).block(threads).launch, out)
    assert message.startswith(
        f"kernel `{made.name}` is launched cooperatively with {most + 1} blocks, but {device} runs at most {most} "
        f"of them at once ({each} on each of {multiprocessors} multiprocessors, with {threads} threads and "
    )
    assert message.endswith(
        "help: use fewer blocks, and let each thread do several elements, in a loop with a step of the grid's size"
    )


def test_a_kernel_that_waits_for_the_grid_is_not_launched_otherwise() -> None:
    out = kaio.Device("cpu").alloc_zeros(1, i32)
    assert refusal(meets.grid(2).options(cooperative=False).launch, out) == (
        "kernel `meets` uses `kaio.grid_sync()`, and is launched with `cooperative=False`\n"
        "  help: leave the option out: such a kernel is launched cooperatively"
    )


def test_a_cooperative_launch_of_a_kernel_that_does_not_wait_is_checked_too(stream: Recorder, x: Any) -> None:
    assert "is launched cooperatively with 265 blocks" in refusal(
        Launcher(FILL).grid(265).on(stream).options(cooperative=True).launch, x
    )
