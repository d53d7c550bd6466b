"""Checks in PTX: what they cost where nothing fails, and what a thread does that fails."""

from __future__ import annotations

from typing import Any

import pytest

import kaio
from examples.quantised_attention import quantised_attention
from kaio import In, InOut, Out, f32, i32
from kaio.program import UNCHECKED, Build
from tests.dsl.compiler.test_emit_ptx import TARGETS, everything, opcodes, parameters

BOUNDS = Build("bounds")


def checked(kernel: Any, target: str = "sm_90", index_bits: Any = 32, build: Build = BOUNDS) -> Any:
    """The program of a kernel without constants."""
    return kernel.variants.build(target, build, {}, {}, index_bits).compiled.program


@kaio.kernel
def add(x: In[i32], y: InOut[i32], n: i32):
    i = kaio.grid(1)
    assert n > 0, "n is positive"
    y[i] += x[i] // n


@kaio.kernel
def exchange(x: InOut[f32]):
    s = kaio.shared_mem(64, f32)
    i = kaio.thread_idx.x
    s[i] = x[i]
    kaio.bar_sync()
    x[i] = s[63 - i]


@kaio.kernel
def hand_over(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(32, f32)
    i = kaio.thread_idx.x
    if i < 32:
        s[i] = x[i]
        kaio.named_bar_arrive(1, 64)
    else:
        kaio.named_bar_sync(1, 64)
        out[i - 32] = s[i - 32]


@kaio.kernel
def meet(x: InOut[f32]):
    x[kaio.grid(1)] += 1
    kaio.grid_sync()
    x[kaio.grid(1)] += 1


@pytest.mark.parametrize("target", [*TARGETS, "sm_75", "sm_120"])
@pytest.mark.parametrize("index_bits", [32, 64])
def test_every_construct_with_its_checks_assembles_for_every_target(target, index_bits):
    program = checked(kaio.kernel(everything), target, index_bits)
    assert program.cubin[:4] == b"\x7fELF"
    assert {site.kind for site in program.sites} == {"none", "index", "check"}


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_a_large_kernel_with_its_checks_compiles(target):
    program = quantised_attention.variants.build(target, BOUNDS, {"causal": True}, {}, 32, link=False).compiled.program
    assert "fault_state" in program.ptx


def test_without_checks_there_are_no_sites_and_no_state():
    program = checked(add, build=UNCHECKED)
    assert program.sites == ()
    assert [name for _, name in parameters(program.ptx)][-1] == "n"


def test_checks_know_their_places_and_what_the_cpu_device_says_of_them():
    program, twin = checked(add), checked(add, "cpu")
    assert [(site.kind, site.text) for site in program.sites[1:]] == [
        ("assert", "n is positive"), ("index", "y"), ("index", "x"), ("check", "integer division by zero"),
    ]  # fmt: skip
    assert set(program.sites) == set(twin.sites)


def test_all_checks_share_one_place_behind_the_code_and_the_kernel_takes_one_argument_more():
    program = checked(add)
    assert parameters(program.ptx)[-1] == ("u64", "fault_state")
    found = opcodes(program.ptx)
    assert [op for op in found if op.startswith("atom")] == ["atom.global.min.u64", "atom.global.add.u32"]
    assert "call" not in " ".join(found)


def test_a_thread_that_fails_ends_alone():
    for kernel in (add, exchange, meet):
        assert "trap" not in opcodes(checked(kernel).ptx)


def test_where_a_barrier_counts_threads_the_launch_ends_with_the_thread():
    found = opcodes(checked(hand_over).ptx)
    assert found.index("membar.sys") < found.index("trap")


def test_blocks_that_wait_for_the_grid_look_whether_a_thread_has_failed():
    text = checked(meet).ptx
    wait = text[text.index("again:") : text.index("bra again")]
    assert "ld.volatile.global.u64 %key" in wait
    assert "envreg" not in text
    assert "envreg" in checked(meet, build=UNCHECKED).ptx
