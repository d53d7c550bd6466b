"""Arrays in constant memory: NumPy arrays from outside, and tuples of literals."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import CompileError, In, InOut, KernelFault, Out, f32, f64, i32
from tests.dsl.from_text import kernel, message, namespace

TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)[::-1, ::2]
PAIR = np.array([3, -4], np.int16), np.array([True, False, True])
HOLDER = types.SimpleNamespace(rows=np.array([[1.5], [2.5]]))


@kaio.func
def looked_up(table, i):
    return table[i] + PAIR[0][1]


@kaio.kernel
def everywhere(n: In[i32], out: Out[f64]):
    i = kaio.grid(1)
    if i < n.size:
        here = TABLE
        found = here[n[i], 1] + looked_up(PAIR[0], n[i] % 2)
        out[i] = found + (10 if PAIR[1][n[i]] else 20) + HOLDER.rows[n[i] % 2, 0] + here.size + len(PAIR[1])


def test_arrays_of_globals_tuples_and_objects_are_read(device):
    n = np.array([2, 1, 0, 0], np.int32)
    out = device.alloc_zeros(4, f64)
    everywhere.over(4).launch(device.alloc_from(n), out).wait()
    wanted = TABLE[n, 1] + PAIR[0][n % 2] + PAIR[0][1] + np.where(PAIR[1][n], 10, 20) + HOLDER.rows[n % 2, 0] + 9
    np.testing.assert_array_equal(out.to_host(), wanted)


def test_they_lie_in_constant_memory_under_their_names():
    ptx = everywhere.ptx("sm_75")
    assert ".const .align 16 .b8 everywhere_here[24]" in ptx
    assert "ld.const.f32" in ptx
    assert everywhere.compile("sm_75").cubin


@pytest.mark.parametrize("dtype", kaio.dtypes.DTYPES, ids=repr)
def test_every_type_of_element_is_read_as_it_was(dtype, device):
    values = np.array([0, 1, 3]).astype(dtype.numpy)
    made = kernel(f"@kernel\ndef k(out: Out[{dtype!r}]):\n    i = grid(1)\n    out[i] = VALUES[i]\n", VALUES=values)
    out = device.alloc_zeros(3, dtype)
    made.grid(1).block(3).launch(out).wait()
    assert out.to_host().tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", [kaio.c64, kaio.c128, kaio.f32x4, kaio.u8x4], ids=repr)
def test_elements_of_several_parts_are_read_as_they_were(dtype, device):
    values = np.arange(3 * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
    made = kernel(f"@kernel\ndef k(out: Out[{dtype!r}]):\n    i = grid(1)\n    out[i] = VALUES[2 - i]\n", VALUES=values)
    out = device.alloc_zeros(3, dtype)
    made.grid(1).block(3).launch(out).wait()
    assert out.to_host().tobytes() == values[::-1].tobytes()
    assert made.compile("sm_75").cubin


SCALAR, NOTHING = np.array(7, np.int32), np.zeros((0, 3), np.float32)


@kaio.kernel
def of_no_size(out: Out[i32]):
    out[0] = SCALAR[()] + len(NOTHING) + NOTHING.shape[1]


def test_an_array_of_no_dimensions_and_one_without_elements(device):
    out = device.alloc_zeros(1, i32)
    of_no_size.grid(1).block(1).launch(out).wait()
    assert out.to_host()[0] == 10


def values(made: kaio.Kernel, count: int = 3) -> Any:
    out = kaio.Device("cpu").alloc_zeros(count, f32)
    made.grid(1).block(count).launch(out).wait()
    return out.to_host().tolist()


READER = "@kernel\ndef k(out: Out[f32]):\n    i = grid(1)\n    out[i] = VALUES[i]\n"


def test_later_writes_are_not_seen_and_another_array_is():
    space = namespace(READER, VALUES=np.array([1, 2, 3], np.float32))
    made = space["k"]
    assert values(made) == [1, 2, 3]
    space["VALUES"][0] = 9
    assert values(made) == [1, 2, 3]
    space["VALUES"] = np.array([9, 2, 3], np.float32)  # what the first one holds now, but not then
    assert values(made) == [9, 2, 3]
    space["VALUES"] = np.array([5, 6], np.float32)
    assert values(made, 2) == [5, 6]


def test_an_equal_array_compiles_nothing_anew():
    space = namespace(READER, VALUES=np.array([1, 2, 3], np.float32))
    made = space["k"]
    first = made.compile("cpu")
    space["VALUES"] = space["VALUES"].copy()
    assert made.compile("cpu") is first
    space["VALUES"] = space["VALUES"].astype(np.float64)
    assert made.compile("cpu") is not first


def test_arrays_of_a_closure_are_told_apart():
    def scaled(factors: np.ndarray) -> kaio.Kernel:
        @kaio.kernel
        def k(out: Out[f32]):
            i = kaio.grid(1)
            out[i] = factors[i] * 2

        return k

    one, two = scaled(np.array([1, 2, 3], np.float32)), scaled(np.array([4, 5, 6], np.float32))
    assert values(one) == [2, 4, 6]
    assert values(two) == [8, 10, 12]


def test_an_array_used_twice_is_there_once():
    made = kernel(READER.replace("VALUES[i]", "VALUES[i] + VALUES[2 - i]"), VALUES=np.arange(3, dtype=np.float32))
    assert made.ptx("sm_90").count(".const ") == 1


# ---------------------------------------------------------------------- what is refused
def test_an_index_past_the_end_names_the_array():
    made = kernel(READER, VALUES=np.zeros(2, np.float32))
    with pytest.raises(KernelFault, match=r"index 2 is out of range for axis 0 of `VALUES` \(size 2\)"):
        values(made)


@pytest.mark.parametrize("written", ["VALUES[i] = 1.0", "VALUES[i] += 1.0", "atomic_add(VALUES, i, 1.0)"])
def test_writing_to_one_is_refused(written):
    source = f"@kernel\ndef k(out: Out[f32]):\n    i = grid(1)\n    {written}\n"
    text = message(source, VALUES=np.zeros(2, np.float32))
    assert text.startswith("`VALUES` is a constant array, which a kernel only reads\n  <text>:4:")
    assert text.endswith("help: pass it as a buffer, `InOut[f32]`, or write into a `shared_mem` or `local_mem` array")


def test_one_that_constant_memory_does_not_hold_is_refused():
    assert message(READER, VALUES=np.zeros((128, 129), np.float32)) == (
        "a captured array is constant memory, which holds 65536 bytes; this one takes 66048 (float32[128, 129])\n"
        "  <text>:4:14, in k\n"
        "          out[i] = VALUES[i]\n"
        "                   ^^^^^^\n"
        "  help: pass it to the kernel as a buffer"
    )


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_several_that_it_does_not_hold_together_are_refused_with_their_sizes(target):
    source = READER.replace("VALUES[i]", "ONE[i] + TWO[i]")
    made = kernel(source, "<text>", ONE=np.zeros(16384, np.float32), TWO=np.ones(1, np.float32))
    with pytest.raises(CompileError) as caught:
        made.compile(target)
    assert str(caught.value).startswith(
        "the constant arrays of this kernel take 65540 bytes (65536 of `ONE`, 4 of `TWO`), "
        "and constant memory holds 65536\n  <text>:4:"
    )
    assert str(caught.value).endswith("help: pass one as a buffer, for example `TWO: In[f32]`")


def test_all_of_constant_memory_may_be_used():
    made = kernel(READER, VALUES=np.arange(16384, dtype=np.float32))
    assert values(made) == [0, 1, 2]
    assert made.compile("sm_90").cubin


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.array(["a"]), "kaio has no element type for NumPy's `<U1`"),
        (np.array([1], object), "kaio has no element type for NumPy's `object`"),
        (np.zeros((1,) * 5), "an array in a kernel has at most 4 dimensions, not 5"),
        (np.ma.array([1.0, 2.0]), "a masked array has elements that are none"),
    ],
)
def test_arrays_that_a_kernel_has_no_elements_for_are_refused(array, what):
    assert message(READER, VALUES=array).startswith(what)


def test_a_variable_is_one_array():
    source = READER.replace("    out[i] = VALUES[i]", "    t = VALUES if i > 0 else OTHER\n    out[i] = t[i]")
    text = message(source, VALUES=np.zeros(2, np.float32), OTHER=np.ones(2, np.float32))
    assert "constant array of f32[2] and also constant array of f32[2]" in text


def test_a_branch_on_an_array_is_refused():
    text = message(READER.replace("out[i] = VALUES[i]", "if VALUES:\n        out[i] = 1"), VALUES=np.zeros(2))
    assert text.startswith("constant array of f64[2] is neither true nor false")


# ---------------------------------------------------------------------- literals
@kaio.kernel
def taps(x: In[f32], y: InOut[f32]):
    i = kaio.grid(1)
    weights = kaio.const_mem(((1, 2.5), (-3, 4)), f32)
    if i < x.size:
        y[i] = x[i] * weights[i % 2, i // 2 % 2]


def test_a_tuple_of_literals_is_indexed_at_run_time(device):
    x, y = device.alloc_from(np.ones(4, np.float32)), device.alloc_zeros(4, f32)
    taps.over(4).launch(x, y).wait()
    assert y.to_host().tolist() == [1, -3, 2.5, 4]
    assert "ld.const.f32" in taps.ptx("sm_90")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("const_mem((1, i), f32)", "`const_mem` takes a tuple of literals, not i32"),
        ("const_mem((1, 300), u8)", "`300` does not fit u8"),
        ("const_mem(((1, 2), (3,)), f32)", "the rows of `const_mem` have different lengths"),
        ("const_mem((1, 2), 4)", "the second argument of `const_mem` is a dtype, not int literal 4"),
    ],
)
def test_what_is_no_tuple_of_literals_is_refused(call, what):
    text = message(f"@kernel\ndef k(out: Out[f32]):\n    i = grid(1)\n    t = {call}\n    out[i] = t[0]\n")
    assert text.startswith(what)
