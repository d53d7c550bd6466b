"""What the CPU device finds in PTX: addresses outside of everything, and threads that wait in vain."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import kaio
from tests.dsl.from_text import kernel

DEVICE = kaio.Device("cpu", route="ptx")
PARAMETERS = "x: In[f32], y: InOut[f32], n: i32"


def launched(body: str, n: int, size: int = 32, check: str | None = None) -> np.ndarray:
    """Run the lines of a kernel in one block of 32 threads over buffers of `size` elements."""
    made = kernel(f"@kernel\ndef k({PARAMETERS}):\n    i = grid(1)\n{textwrap.indent(body, '    ')}", "<text>")
    launcher = made.grid(1).block(32)
    if check is not None:
        launcher = launcher.options(check=check)
    with DEVICE.stream():
        x, y = (DEVICE.alloc_from(np.arange(size, dtype=np.float32)) for _ in range(2))
        launcher.launch(x, y, n).wait()
        return y.to_host()


def fault(body: str, n: int, **options: int) -> kaio.KernelFault:
    """What stops it."""
    with pytest.raises(kaio.KernelFault) as caught:
        launched(body, n, **options)
    return caught.value


# ---------------------------------------------------------------------- addresses
def test_a_read_behind_a_buffer_names_it_and_the_line() -> None:
    found = fault("y[i] = x[i + n]", 1)
    assert str(found) == textwrap.dedent("""\
        kernel `k` reads 4 bytes outside of all buffers, right behind the end of `x` (element 32 of 32)
          thread (31, 0, 0) of block (0, 0, 0)
          <text>:4:12, in k
                  y[i] = x[i + n]
                         ^^^^^^^^
          help: on `kaio.Device("cpu")` the same launch names the array, the axis and the index""")
    wanted = {"kind": "index", "array": "x", "index": 32, "size": 32, "access": "read", "line": 4}
    assert {name: found.facts[name] for name in wanted} == wanted
    assert found.facts["thread"] == (31, 0, 0)


@pytest.mark.parametrize(
    ("body", "n", "words"),
    [
        ("y[i] = x[i + n]", -3, "reads 4 bytes outside of all buffers, 8 bytes before the start of `x` (element -3 of"),
        ("y[i + n] = x[i]", 5, "writes 4 bytes outside of all buffers, right behind the end of `y` (element 32 of 32)"),
        ("atomic_add(y, i + n, 1.0)", 9, "updates 4 bytes outside of all buffers, right behind the end of `y`"),
        (
            "s = shared_mem(32, f32)\ns[i + n] = x[i]\nbar_sync()\ny[i] = s[31 - i]",
            1,
            "writes 4 bytes at byte 128 of the block's shared memory, which has 128 bytes",
        ),
        (
            "s = shared_mem(32, f32)\ns[i] = x[i]\nbar_sync()\ny[i] = s[i - n]",
            1,
            "reads 4 bytes before the start of the block's shared memory, which has 128 bytes",
        ),
        (
            "s = local_mem(4, f32)\nfor k in range(4):\n    s[k] = x[i] * k\ny[i] = s[i % 4 + n]",
            1,
            "reads 4 bytes at byte 16 of the thread's local memory, which has 16 bytes",
        ),
        (
            "s = shared_mem(32, f32)\ncp_async(s, i, x, i + n, 1)\ncp_async_commit()\ncp_async_wait(0)\ny[i] = s[i]",
            1,
            "reads 4 bytes outside of all buffers, right behind the end of `x`",
        ),
    ],
)  # fmt: skip
def test_an_address_outside_of_everything_is_told_by_its_neighbour(body: str, n: int, words: str) -> None:
    assert words in str(fault(body, n))


def test_an_address_in_another_buffer_is_no_fault_of_this_route() -> None:
    """As on a GPU: whose memory it is, PTX does not say."""
    away = 64  # elements, from one allocation of 32 to the next but one at least
    with DEVICE.stream():
        both = DEVICE.alloc_from(np.arange(2 * away, dtype=np.float32))
        y = DEVICE.alloc_zeros(32, kaio.f32)
        made = kernel("@kernel\ndef k(x: In[f32], other: In[f32], y: Out[f32]):\n    i = grid(1)\n"
                      f"    y[i] = x[i + {away}] + other[i]\n")  # fmt: skip
        made.grid(1).block(32).launch(both[:32], both[away : away + 32], y).wait()
        np.testing.assert_array_equal(y.to_host(), 2.0 * np.arange(away, away + 32))


def test_nothing_is_checked_where_nothing_shall_be() -> None:
    both = DEVICE.alloc_from(np.arange(64, dtype=np.float32))
    y = DEVICE.alloc_zeros(32, kaio.f32)
    made = kernel("@kernel\ndef k(x: In[f32], y: Out[f32]):\n    i = grid(1)\n    y[i] = x[i + 32]\n")
    made.grid(1).block(32).options(check="off").launch(both[:32], y).wait()
    np.testing.assert_array_equal(y.to_host(), np.arange(32, 64))


# ---------------------------------------------------------------------- threads that wait
def test_a_barrier_that_some_go_round_is_told_with_both() -> None:
    found = str(fault("if i < n:\n    bar_sync()\ny[i] = x[i]", 5))
    assert "not all threads of a block reach a barrier in kernel `k`" in found
    assert "thread (0, 0, 0) of block (0, 0, 0) waits here; thread (5, 0, 0) went round it and finished" in found
    assert "<text>:5:9, in k" in found


def test_who_returned_early_is_not_waited_for() -> None:
    np.testing.assert_array_equal(launched("if i >= n:\n    return\nbar_sync()\ny[i] = 1.0", 5)[:6], [1, 1, 1, 1, 1, 5])


def test_different_barriers_are_told_with_their_lines() -> None:
    body = "if i >= n:\n    y[i] = x[i]\n    bar_sync()\nelse:\n    y[i] = 2.0 * x[i]\n    bar_sync()\ny[i] += 1.0"
    found = str(fault(body, 5))
    assert "threads of one block wait at different barriers in kernel `k`" in found
    assert "<text>:9:9" in found
    assert "<text>:6:9" in found


def test_a_warp_operation_that_lanes_miss_is_told() -> None:
    found = str(fault("if i < n:\n    y[i] = shfl_sync_down(x[i], 1)\nelse:\n    bar_sync()", 5))
    assert "`shfl_sync_down` can never be completed in kernel `k`" in found
    assert "waits here for lanes 0-31 (mask 0xffffffff)" in found


# ---------------------------------------------------------------------- what is refused
def test_full_checks_are_refused_with_the_other_route_as_the_way_out() -> None:
    with pytest.raises(kaio.UnsupportedFeatureError) as of_launch:
        launched("y[i] = x[i]", 0, check="full")
    assert 'use `kaio.Device("cpu")`' in str(of_launch.value)
    with pytest.raises(kaio.UnsupportedFeatureError) as of_device:
        kaio.Device("cpu", route="ptx", check="full")
    assert str(of_device.value).startswith('`check="full"` is not supported with `route="ptx"`: PTX has no arrays')


def test_a_thread_is_traced_by_its_own_operations() -> None:
    made = kernel("@kernel\ndef k(x: In[f32], y: Out[f32]):\n    i = grid(1)\n    y[i] = 2.0 * x[i]\n")
    x, y = DEVICE.alloc_from(np.arange(4, dtype=np.float32)), DEVICE.alloc_zeros(4, kaio.f32)
    assert "6.0" in str(made.trace(x, y, thread=3))


def test_an_unknown_instruction_is_refused_with_its_line() -> None:
    made = kernel("""
        video = kaio.ptx("vadd.u32.u32.u32.sat {out}, {a}, {b};", a=u32, b=u32, out=u32, host=lambda a, b: a + b)
        @kernel
        def k(x: In[u32], y: Out[u32]):
            i = grid(1)
            y[i] = video(x[i], 7)
    """, "<text>")  # fmt: skip
    with pytest.raises(kaio.UnsupportedFeatureError) as caught:
        made.compile(DEVICE)
    assert str(caught.value).startswith('`route="ptx"` does not know the instruction `vadd.u32.u32.u32.sat %r')
    assert "<text>:6:" in str(caught.value)
    assert "y[i] = video(x[i], 7)" in str(caught.value)


def written(text: str) -> str:
    """The message for a kernel with this inline PTX."""
    made = kernel(f"""
        code = kaio.ptx({text!r}, a=u32, out=u32)
        @kernel
        def k(x: In[u32], y: Out[u32]):
            y[grid(1)] = code(x[0])
    """, "<text>")  # fmt: skip
    with pytest.raises(kaio.KaioError) as caught:
        made.compile(DEVICE)
    assert "y[grid(1)] = code(x[0])" in str(caught.value)
    return f"{type(caught.value).__name__}: {str(caught.value).splitlines()[0]}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("add.u32 {out}, {a};", "Arguments mismatch for instruction 'add'"),
        ("add.u32 {out}, {a}, 1, 2;", "Arguments mismatch for instruction 'add'"),
        ("mul.wide.u16 {out}, {a}, 3;", "Arguments mismatch for instruction 'mul.wide'"),
        ("bra NOWHERE; mov.b32 {out}, {a};", "Unknown symbol 'NOWHERE'"),
        ("not.b32 {out}, {a}", "Parsing error near "),
        ("{ not.b32 {out}, {a};", "Parsing error near "),
    ],
)
def test_inline_ptx_that_the_assembler_refuses_is_refused_as_for_a_gpu(text: str, said: str) -> None:
    assert written(text).startswith("CompileError: the assembler refuses `")
    assert f" for sm_90: {said}" in written(text)


def test_inline_ptx_that_is_right_but_not_read_is_refused_at_its_call() -> None:
    assert written("add.u32 {out}, {a}, (3+4)*2;").startswith(
        'UnsupportedFeatureError: `route="ptx"` does not read the inline PTX of kernel `k`: PTX has `3` where `;` was'
    )


def test_coverage_of_outputs_is_refused() -> None:
    made = kernel("@kernel\ndef k(y: Out[f32]):\n    y[grid(1)] = 1.0\n")
    with pytest.raises(kaio.UnsupportedFeatureError) as caught:
        made.grid(1).block(4).options(coverage=True).launch(DEVICE.alloc_zeros(4, kaio.f32))
    assert "with `coverage=True`: PTX has no arrays" in str(caught.value)


# ---------------------------------------------------------------------- loops, and orders of threads
def test_a_loop_that_never_ends_is_told_with_its_line() -> None:
    made = kernel(
        "@kernel\ndef k(y: InOut[f32], n: i32):\n    i = grid(1)\n    while y[0] < 1.0:\n        y[i] = -1.0\n",
        "<text>",
    )
    with pytest.raises(kaio.KernelFault) as caught, DEVICE.stream():
        made.grid(1).block(4).options(fuel=1000).launch(DEVICE.alloc_zeros(4, kaio.f32), 1).wait()
    assert caught.value.kind == "endless"
    assert "ran out of fuel" in str(caught.value)
    assert caught.value.facts["line"] == 4


def test_a_barrier_of_the_grid_that_a_block_misses_ends_by_the_time_limit() -> None:
    made = kernel(
        "@kernel\ndef k(y: InOut[f32]):\n    i = grid(1)\n    if i < 4:\n        grid_sync()\n    y[i] = 1.0\n",
        "<text>",
    )
    launcher = made.grid(2).block(4).options(cooperative=True, timeout_s=0.2)
    with pytest.raises(kaio.KernelFault) as caught, DEVICE.stream():
        launcher.launch(DEVICE.alloc_zeros(8, kaio.f32)).wait()
    assert (caught.value.kind, caught.value.facts["line"]) == ("endless", 5)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_schedule_changes_no_result_that_does_not_depend_on_it(seed: int) -> None:
    made = kernel("""
        @kernel
        def k(x: In[f32], y: Out[f32]):
            i = grid(1)
            s = shared_mem(32, f32)
            s[thread_idx.x] = x[i]
            bar_sync()
            y[i] = s[31 - thread_idx.x] + shfl_sync_bfly(x[i], 1)
    """)
    found = []
    for options in ({}, {"schedule": seed}):
        y = DEVICE.alloc_zeros(128, kaio.f32)
        x = DEVICE.alloc_from(np.arange(128, dtype=np.float32))
        made.grid(4).block(32).options(**options).launch(x, y).wait()
        found.append(y.to_host())
    np.testing.assert_array_equal(*found)
