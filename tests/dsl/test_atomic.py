"""Atomic updates: every operation on every type, as if the threads came one after another in some order."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaio
from kaio import In, InOut, i8, i32
from kaio.dtypes import DType, is_float
from tests.dsl.compiler.host import compiled
from tests.dsl.from_text import kernel, message, namespace
from tests.dsl.rule_types import INTEGERS, NUMBERS

EVERYTHING = (*NUMBERS, kaio.bool_, kaio.f8e4m3, kaio.f8e5m2)
WITH_BITS = (*INTEGERS, kaio.bool_)


def select(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition, yes, no).astype(np.asarray(no).dtype)


def smaller(old: Any, value: Any) -> Any:
    signed = select(np.signbit(value), value, old) if is_float(np.asarray(old).dtype) else old
    return select(old == value, signed, np.fmin(old, value))


def larger(old: Any, value: Any) -> Any:
    signed = select(np.signbit(old), value, old) if is_float(np.asarray(old).dtype) else old
    return select(old == value, signed, np.fmax(old, value))


MODELS: dict[str, tuple[Sequence[DType], Callable[[Any, Any], Any]]] = {
    "add": (NUMBERS, lambda old, value: old + value),
    "sub": (NUMBERS, lambda old, value: old - value),
    "min": (NUMBERS, smaller),
    "max": (NUMBERS, larger),
    "and": (WITH_BITS, lambda old, value: old & value),
    "or": (WITH_BITS, lambda old, value: old | value),
    "xor": (WITH_BITS, lambda old, value: old ^ value),
    "exch": (EVERYTHING, lambda old, value: value),
    "inc": (INTEGERS, lambda old, limit: select(old >= limit, np.zeros_like(old), old + old.dtype.type(1))),
    "dec": (INTEGERS, lambda old, limit: select((old == 0) | (old > limit), limit, old - old.dtype.type(1))),
}
ORDERED = {"exch", "inc", "dec"}  # what they leave depends on who came last
CASES = [
    pytest.param(name, dtype, id=f"{name}-{dtype.name}") for name, (dtypes, _) in MODELS.items() for dtype in dtypes
]
Array = np.ndarray[Any, Any]
CELLS = 5  # next to each other: a byte's neighbours must stay as they are


@functools.cache
def updates(name: str, dtype: DType) -> kaio.Kernel:
    """Each thread updates one cell of a buffer, and one of shared memory, and keeps what was there."""
    return kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], at: In[i32], cells: InOut[{dtype!r}], shared: InOut[{dtype!r}],
              old: Out[{dtype!r}], old_shared: Out[{dtype!r}]):
            i = grid(1)
            mine = shared_mem({CELLS}, {dtype!r})
            if i < {CELLS}:
                mine[i] = shared[i]
            bar_sync()
            if i < x.size:
                old[i] = atomic_{name}(cells, at[i], x[i])
                old_shared[i] = atomic_{name}(mine, at[i], x[i])
            bar_sync()
            if i < {CELLS}:
                shared[i] = mine[i]
    """)


def bits(values: Any) -> list[int]:
    """The bits of numbers, with one NaN for all: sign and payload of NaN are nobody's promise."""
    array = np.atleast_1d(np.asarray(values)).copy()
    if array.dtype.kind not in "iub":
        array[np.isnan(array.astype(float))] = np.nan
    return array.view(f"u{array.itemsize}").tolist()


def check_history(
    name: str, start: np.ndarray, x: np.ndarray, at: np.ndarray, end: np.ndarray, old: np.ndarray
) -> None:
    """Some order of the updates explains each cell: what each left is what the next found."""
    _, model = MODELS[name]
    with np.errstate(all="ignore"):
        for cell in range(CELLS):
            mine = at == cell
            left = model(old[mine], x[mine])
            assert Counter(bits(old[mine]) + bits(end[cell])) == Counter(bits(left) + bits(start[cell]))
            if name not in ORDERED:
                assert bits(end[cell]) == bits(functools.reduce(model, x[mine], start[cell]))


def numbers(name: str, dtype: DType) -> st.SearchStrategy[Any]:
    """Values of the type; those that are added are whole and small enough to be exact."""
    if dtype.kind == "b":
        return st.booleans()
    if dtype.is_int:
        low, high = dtype.range
        if name in ("inc", "dec"):
            return st.integers(0, 5)
        return st.integers(low, high)
    if name in ("min", "max"):
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, 6e-8, -6e-8]
        return st.sampled_from(special) | st.floats(-100, 100, width=16)
    return st.integers(-4, 4)


@st.composite
def histories(draw: st.DrawFn, name: str, dtype: DType) -> tuple[np.ndarray, ...]:
    value = numbers(name, dtype)
    x = draw(st.lists(value, min_size=1, max_size=40))
    at = draw(st.lists(st.integers(0, CELLS - 1), min_size=len(x), max_size=len(x)))
    start = draw(st.lists(value, min_size=CELLS, max_size=CELLS))
    return np.array(x, dtype.numpy), np.array(at, np.int32), np.array(start, dtype.numpy)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_updates_happen_one_after_another(device, name, dtype):
    made = updates(name, dtype)

    @given(histories(name, dtype))
    def check(history):
        x, at, start = history
        cells, shared = device.alloc_from(start), device.alloc_from(start)
        old, old_shared = (device.alloc_zeros(x.size, dtype) for _ in range(2))
        made.over(64).block(64).launch(
            device.alloc_from(x), device.alloc_from(at), cells, shared, old, old_shared
        ).wait()
        check_history(name, start, x, at, cells.to_host(), old.to_host())
        check_history(name, start, x, at, shared.to_host(), old_shared.to_host())

    check()


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_updates_of_several_workers_all_arrive(name, dtype):
    text = f"""
        def k(x: In[{dtype!r}], at: In[i32], cells: InOut[{dtype!r}], old: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                old[i] = atomic_{name}(cells, at[i], x[i])
    """
    made = compiled(namespace(text)["k"])
    rng = np.random.default_rng(1)
    count = 3000 if dtype.bits > 16 or dtype.is_int or name in ORDERED | {"min", "max"} else 400
    high = 2 if dtype.kind == "b" else 3 if name in ("add", "sub") else 6
    x = rng.integers(0, high, count).astype(dtype.numpy)
    at = rng.integers(0, CELLS, count).astype(np.int32)
    start = np.zeros(CELLS, dtype.numpy)
    cells, old = start.copy(), np.zeros_like(x)
    made(-(-count // 8), 8, x, at, cells, old, workers=4)
    check_history(name, start, x, at, cells, old)


@pytest.mark.parametrize("dtype", EVERYTHING, ids=lambda d: d.name)
def test_of_all_that_compare_and_swap_one_wins(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], cells: InOut[{dtype!r}], old: Out[{dtype!r}]):
            i = grid(1)
            mine = shared_mem(2, {dtype!r})
            mine[1] = x[1]
            bar_sync()
            old[i] = atomic_cas(cells, i // 32, x[0], x[1])
            if i == 0:
                cells[2] = atomic_cas(mine, 1, x[0], x[0])
                cells[3] = atomic_cas(mine, 1, x[1], x[0])
                cells[4] = mine[1]
    """)
    x = np.array([0, 1], dtype.numpy)
    cells, old = device.alloc_zeros(5, dtype), device.alloc_zeros(64, dtype)
    made.over(64).block(64).launch(device.alloc_from(x), cells, old).wait()
    assert cells.to_host().tolist() == [1, 1, 1, 1, 0]
    assert [half.tolist().count(0) for half in np.split(old.to_host(), 2)] == [1, 1]


def test_compare_and_swap_compares_bits(device):
    made = kernel("""
        @kernel
        def k(cells: InOut[f32], old: Out[f32]):
            old[0] = atomic_cas(cells, 0, 0.0, 1.0)
            old[1] = atomic_cas(cells, 1, cells[1], 1.0)
    """)
    cells, old = device.alloc_from(np.array([-0.0, np.nan], np.float32)), device.alloc_zeros(2, kaio.f32)
    made.over(1).block(1).launch(cells, old).wait()
    np.testing.assert_array_equal(cells.to_host(), np.array([-0.0, 1.0], np.float32))
    assert np.signbit(cells.to_host()[0])
    assert np.isnan(old.to_host()[1])


def test_a_lock_of_compare_and_swap_guards_an_update_of_several_elements():
    def locked(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
        i = kaio.grid(1)
        while kaio.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        sums[0] = sums[0] + x[i]
        sums[1] = sums[1] - x[i]
        kaio.atomic_exch(lock, 0, 0, order="release")

    x, lock, sums = np.arange(4000, dtype=np.int32), np.zeros(1, np.int32), np.zeros(2, np.int32)
    compiled(locked)(1000, 4, lock, sums, x, workers=4)
    assert sums.tolist() == [x.sum(), -x.sum()]


def test_subnormals_are_zeros_to_additions_in_global_memory_as_on_the_hardware(device):
    made = kernel("""
        @kernel
        def k(x: In[f32], cells: InOut[f32], shared: Out[f32]):
            mine = shared_mem(1, f32)
            mine[0] = cells[0]
            atomic_add(cells, 0, x[0])
            atomic_add(mine, 0, x[0])
            shared[0] = mine[0]
    """)
    tiny = np.array([1e-40], np.float32)
    cells, shared = device.alloc_from(tiny), device.alloc_zeros(1, kaio.f32)
    made.over(1).block(1).launch(device.alloc_from(tiny), cells, shared).wait()
    assert cells.to_host()[0] == 0
    assert shared.to_host()[0] == tiny[0] + tiny[0]


def test_an_index_of_several_axes_is_a_tuple(device):
    made = kernel("""
        @kernel
        def k(c: InOut[i32, D2]):
            x, y = grid(2)
            atomic_add(c, (y % 3, x % 2), 1)
            atomic_max(c, (-1, -1), 100)
    """)
    c = device.alloc_zeros((4, 2), kaio.i32)
    made.over((6, 8)).block((8, 6)).launch(c).wait()
    assert c.to_host().tolist() == [[8, 8], [8, 8], [8, 8], [0, 100]]


def test_a_position_that_does_not_fit_is_not_put_into_an_i32_element():
    def keep_size(c: InOut[i32], x: In[i8]):
        kaio.atomic_max(c, 0, x.size)

    made, c = compiled(keep_size, index_bits=64), np.zeros(1, np.int32)
    made(1, 1, c, np.broadcast_to(np.int8(0), 2**31 - 1))
    assert c[0] == 2**31 - 1
    assert "a position does not fit an i32" in str(made.fault(1, 1, c, np.broadcast_to(np.int8(0), 2**31)))


# ---------------------------------------------------------------------- PTX
def opcodes(ptx: str) -> list[str]:
    """The atomic instructions in order, without what is the same as nothing."""
    return re.findall(r"^\s*(?:@%p\d+\s+)?((?:atom|red)\.\S+)", ptx, re.MULTILINE)


SPELLED = [
    ("atomic_add(g, 0, v)", "i32", "red.global.add.u32"),
    ("g[1] = atomic_add(g, 0, v)", "u64", "atom.global.add.u64"),
    ("atomic_add(s, 0, v)", "f32", "red.shared.add.f32"),
    ("g[1] = atomic_sub(s, 0, v)", "f64", "atom.shared.add.f64"),
    ("atomic_sub(g, 0, v)", "i64", "red.global.add.u64"),
    ("atomic_min(g, 0, v)", "i64", "red.global.min.s64"),
    ("atomic_max(g, 0, v)", "u32", "red.global.max.u32"),
    ("atomic_xor(g, 0, v)", "u64", "red.global.xor.b64"),
    ("atomic_exch(g, 0, v)", "f32", "atom.global.exch.b32"),
    ("atomic_cas(g, 0, v, v)", "f64", "atom.global.cas.b64"),
    ("atomic_cas(g, 0, v, v)", "u16", "atom.global.cas.b16"),
    ("atomic_add(g, 0, v)", "i16", "atom.global.cas.b16"),
    ("atomic_add(g, 0, v)", "u8", "atom.global.cas.b32"),
    ("atomic_sub(g, 0, v)", "f16", "red.global.add.noftz.f16"),
    ("g[1] = atomic_add(s, 0, v)", "bf16", "atom.shared.add.noftz.bf16"),
    ("atomic_max(g, 0, v)", "f16", "atom.global.cas.b16"),
    ("atomic_inc(g, 0, v)", "u32", "red.global.inc.u32"),
    ("atomic_inc(g, 0, v)", "i32", "atom.global.cas.b32"),
    ("g[1] = atomic_dec(s, 0, v)", "u32", "atom.shared.dec.u32"),
    ('atomic_add(g, 0, v, scope="block")', "i32", "red.relaxed.cta.global.add.u32"),
    ('atomic_add(g, 0, v, scope="system", order="release")', "i32", "red.release.sys.global.add.u32"),
    ('atomic_or(g, 0, v, order="acq_rel")', "i32", "atom.acq_rel.gpu.global.or.b32"),
    ('atomic_add(g, 0, v, order="acquire")', "u8", "atom.acquire.gpu.global.cas.b32"),
]


@pytest.mark.parametrize(("line", "dtype", "instruction"), SPELLED)
def test_an_update_is_one_instruction_where_there_is_one(line, dtype, instruction):
    made = kernel(f"@kernel\ndef k(g: InOut[{dtype}], v: {dtype}):\n    s = shared_mem(1, {dtype})\n    {line}\n")
    assert opcodes(made.ptx("sm_90")) == [instruction]


def test_bf16_is_added_by_a_loop_before_sm_90():
    made = kernel("@kernel\ndef k(g: InOut[bf16], v: bf16):\n    atomic_add(g, 0, v)\n")
    assert opcodes(made.ptx("sm_80")) == ["atom.global.cas.b16"]


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_floats_are_those_of_integers(name):
    other = {"min": "max", "max": "min"}[name]
    made = kernel(f"@kernel\ndef k(g: InOut[f32], v: f32):\n    atomic_{name}(g, 0, v)\n")
    assert set(opcodes(made.ptx("sm_90"))) == {
        f"atom.global.{other}.u32",
        f"atom.global.{name}.s32",
        "atom.global.cas.b32",
    }


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", EVERYTHING, ids=lambda d: d.name)
def test_every_update_assembles(target, dtype):
    names = [name for name, (dtypes, _) in MODELS.items() if dtype in dtypes]
    lines = [f"    g[1] = atomic_{name}({at}, 0, v)\n    atomic_{name}({at}, 0, v)" for name in names for at in "gs"]
    lines += [f'    g[1] = atomic_cas({at}, 0, v, v, scope="{scope}")' for at in "gs" for scope in ("block", "system")]
    text = f"@kernel\ndef k(g: InOut[{dtype!r}], v: {dtype!r}):\n    s = shared_mem(1, {dtype!r})\n" + "\n".join(lines)
    assert kernel(text).compile(target).cubin[:4] == b"\x7fELF"


# ---------------------------------------------------------------------- what is refused
REFUSED = [
    ("atomic_add(g, 0, 1.5)", "i32", "float literal 1.5 is stored in i32 only with a cast", "kaio.i32(1.5)"),
    ("atomic_max(g, 0, w)", "i32", "i64 is stored in i32 only with a cast", "kaio.i32(w)"),
    ("atomic_cas(g, 0, 300, 1)", "u8", "`300` does not fit u8", "u8 holds 0 to 255"),
    ("atomic_cas(g, 0, 1, 300)", "u8", "`300` does not fit u8", "u8 holds 0 to 255"),
    ("atomic_add(g, 0, True)", "bool_", "`atomic_add` on bool: bools have no arithmetic", "use `atomic_or`"),
    ("atomic_inc(g, 0, 1)", "f32", "`atomic_inc` on f32: it counts in whole numbers", "count in a u32 buffer"),
    ("atomic_or(g, 0, 1)", "f32", "`atomic_or` on f32: floats have no bitwise operators", "keep the bits in a u32"),
    ("atomic_add(l, 0, 1)", "i32", "`atomic_add` on a local array, which no other thread sees", "write it with `+=`"),
    ("atomic_max(l, 0, 1)", "i32", "`atomic_max` on a local array, which no other thread sees", "write it with `=`"),
    ('atomic_add(g, 0, 1, scope="warp")', "i32",
     "the scope of `atomic_add` is 'block', 'device' or 'system', not 'warp'", None),
    ('atomic_add(g, 0, 1, order="seq_cst")', "i32",
     "the order of `atomic_add` is 'relaxed', 'acquire', 'release' or 'acq_rel', not 'seq_cst'", None),
    ("atomic_add(g, 0, v)", "c64", "`atomic_add` on c64: its parts are several numbers, and one step updates one",
     "keep each part in a buffer of its own"),
    ("atomic_add(WEIGHTS, 0, 1)", "i32", "`WEIGHTS` is a constant array, which a kernel only reads",
     "pass it as a buffer, `InOut[i32]`"),
    ("atomic_add(g, 0, v)", "f8e4m3", "`atomic_add` on f8e4m3, which stores numbers and has no arithmetic",
     "use an f16 or f32 buffer"),
    ("atomic_add(g, (0, 1), 1)", "i32", "`g` has 1 dimension, and 2 indices were given", "index it with one number"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "dtype", "what", "way_out"), REFUSED)
def test_a_meaningless_update_is_refused_with_a_way_out(line, dtype, what, way_out):
    text = f"@kernel\ndef k(g: InOut[{dtype}], v: {dtype}, w: i64):\n    l = local_mem(4, {dtype})\n    {line}\n"
    told = message(text, WEIGHTS=np.ones(3, np.int32))
    assert what in told
    assert way_out is None or way_out in told
