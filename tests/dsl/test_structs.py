"""NumPy's structured dtypes in kernels: fields, sub-arrays, nested structs, stores into them."""

from __future__ import annotations

import dataclasses
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import kaio
from kaio import Const, In, InOut, Out, f32, f32x2, f32x4, f64
from kaio.dtypes import dtype_of
from kaio.structs import struct_dtype
from tests.dsl.from_text import kernel, message, mistakes

INNER = np.dtype([("a", "i2"), ("on", "?")], align=True)
PARTICLE = np.dtype(
    [
        ("id", "u1"),
        ("mass", "f4"),
        ("pos", "f8", (3,)),
        ("spin", "c8"),
        ("inner", INNER),
        ("half", "f2"),
        ("m", "i4", (2, 2)),
    ],
    align=True,
)
MISPLACED = "field `mass` starts at byte 1, which is no multiple of the 4 that `float32` takes"
COPY = "`p` holds a copy, which does not change: set the field of an element, `x[i].mass = value`, or make a new value"
SHOWN = "struct(id: u8, mass: f32, pos: f64[3], spin: c64, inner: struct(a: i16, on: bool_), half: f16, m: i32[2, 2])"
PACKED = np.dtype([("id", "u1"), ("mass", "f4")])


def particles(count=4):
    rng = np.random.default_rng(0)
    made = np.zeros(count, PARTICLE)
    made["id"], made["mass"], made["pos"] = range(count), rng.normal(size=count), rng.normal(size=(count, 3))
    made["spin"], made["inner"]["a"], made["half"] = 1 + 2j, range(5, 5 + count), 0.5
    made["m"] = np.arange(4 * count).reshape(count, 2, 2)
    return made


@kaio.kernel
def reads(x: In[PARTICLE], out: Out[f64]):
    i = kaio.grid(1)
    if i < x.size:
        p = x[i]
        total = p.mass + p.pos[0] * x[i].pos[-1] + p.spin.imag + p.inner.a + p.half + p.m[1][0]
        a, b, c = p.pos
        if p.inner.on:
            total += a
        out[i] = total + b + c + len(p.pos)


def test_fields_sub_arrays_and_nested_structs_are_read(device):
    host = particles()
    host["inner"]["on"][1] = True
    out = device.alloc_zeros(4, f64)
    reads.over(4).launch(device.alloc_from(host), out).wait()
    pos = host["pos"]
    want = host["mass"] + pos[:, 0] * pos[:, 2] + 2 + host["inner"]["a"] + 0.5 + host["m"][:, 1, 0]
    want = want + np.where(host["inner"]["on"], pos[:, 0], 0) + pos[:, 1] + pos[:, 2] + 3
    np.testing.assert_allclose(out.to_host(), want, rtol=1e-6)


@kaio.kernel
def writes(x: In[PARTICLE], y: InOut[PARTICLE]):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = x[i]
        y[i].mass = i
        y[i].mass *= 2
        y[i].pos[1] = 7
        y[i].m[1][-1] = -1
        y[i].inner.on = not x[i].inner.on
        y[i].spin = 3
        y[i].spin.imag = 0.5
        y[i].half = x[i].half + 1


def test_elements_and_their_parts_are_written(device):
    host = particles()
    y = device.alloc_zeros(4, PARTICLE)
    writes.over(4).launch(device.alloc_from(host), y).wait()
    want = host.copy()
    want["mass"], want["pos"][:, 1], want["m"][:, 1, 1], want["inner"]["on"] = np.arange(4) * 2, 7, -1, True
    want["spin"], want["half"] = 3 + 0.5j, 1.5
    got = y.to_host()
    assert got.dtype == PARTICLE
    assert [got[name].tolist() for name in PARTICLE.names] == [want[name].tolist() for name in PARTICLE.names]


def test_a_part_is_one_store_and_the_others_are_not_touched():
    body = "@kernel\ndef k(y: Out[PARTICLE]):\n    y[kaio.grid(1)].mass = 1.0"
    ptx = kernel(body, PARTICLE=PARTICLE).ptx("sm_90")
    accesses = [line for line in ptx.splitlines() if ".global" in line]
    assert len(accesses) == 1
    assert "st.global.u32" in accesses[0]
    assert "+4]" in accesses[0]
    assert writes.compile("sm_75").cubin


def test_shared_and_local_arrays_hold_structs_and_tuples_become_them(device):
    pair = np.dtype([("a", "f4"), ("b", "f4", (2,))], align=True)

    @kaio.kernel
    def k(x: InOut[pair]):
        t = kaio.thread_idx.x
        tile = kaio.shared_mem(4, pair)
        own = kaio.local_mem(3, pair)
        own[1] = (t, (2.5, x[t].b[1]))
        tile[t] = own[1]
        kaio.bar_sync()
        x[t] = tile[3 - t] if t > 0 else own[1]

    host = np.zeros(4, pair)
    host["b"][:, 1] = np.arange(4) * 10
    x = device.alloc_from(host)
    k.over(4).block(4).launch(x).wait()
    got = x.to_host()
    assert got["a"].tolist() == [0, 2, 1, 0]
    assert got["b"].tolist() == [[2.5, 0], [2.5, 20], [2.5, 10], [2.5, 0]]


def test_parts_of_vectors_and_complex_elements_are_set(device):
    @kaio.kernel
    def k(v: InOut[kaio.f32x4], z: InOut[kaio.c64]):
        v[0].y = 5.0
        v[0][3] += 1
        z[0].imag = 2

    v, z = device.alloc_zeros(1, kaio.f32x4), device.alloc_zeros(1, kaio.c64)
    k.over(1).block(1).launch(v, z).wait()
    assert v.view(f32).to_host().tolist() == [0, 5, 0, 1]
    assert z.to_host().tolist() == [2j]


def test_parts_are_set_at_indices_of_loops_that_are_written_out(device):
    @kaio.kernel
    def k(v: InOut[kaio.f32x4], x: InOut[PARTICLE], axis: Const[int] = 2):
        for lane in kaio.unrolled(range(4)):
            v[0][lane] += lane
        for row in kaio.unrolled(range(2)):
            x[0].m[row][1 - row] = row + 5
        x[0].pos[axis] = 8

    v, x = device.alloc_zeros(1, kaio.f32x4), device.alloc_zeros(1, PARTICLE)
    k.over(1).block(1).launch(v, x).wait()
    assert v.view(f32).to_host().tolist() == [0, 1, 2, 3]
    assert x.to_host()["m"].tolist() == [[[0, 5], [6, 0]]]
    assert x.to_host()["pos"].tolist() == [[0, 0, 8]]


def test_structs_go_through_functions_and_conditions(device):
    @kaio.func
    def heavier(p, q):
        return p if p.mass > q.mass else q

    @kaio.kernel
    def k(x: In[PARTICLE], out: Out[f32]):
        best = x[0]
        for i in range(x.size):
            best = heavier(best, x[i])
        out[0] = best.mass + best.pos[0]

    host = particles()
    out = device.alloc_zeros(1, f32)
    k.over(1).block(1).launch(device.alloc_from(host), out).wait()
    best = host[np.argmax(host["mass"])]
    np.testing.assert_allclose(out.to_host()[0], best["mass"] + best["pos"][0], rtol=1e-6)


def test_buffers_of_structs_are_made_filled_copied_and_viewed(device):
    x = device.alloc_zeros((2, 3), PARTICLE)
    assert (x.dtype, x.dtype.itemsize, x[1].shape) == (dtype_of(PARTICLE), PARTICLE.itemsize, (3,))
    x.fill(particles()[2]).wait()
    assert x.copy().to_host()["pos"][1, 2].tolist() == particles()["pos"][2].tolist()
    assert x.view(kaio.u8).shape == (2, 3 * PARTICLE.itemsize)
    with pytest.raises(kaio.KaioError) as caught:
        x.fill(1.0)
    assert str(caught.value).startswith("the value to fill with must be one element of struct(id: u8, mass: f32")


def test_a_struct_dtype_shows_its_fields_and_pickles():
    dtype = dtype_of(np.dtype([("a", "f4"), ("b", "i8", (2,))], align=True))
    assert repr(dtype) == "struct(a: f32, b: i64[2])"
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize(
    ("dtype", "what"),
    [
        (PACKED, MISPLACED),
        (
            np.dtype([("a", "f4"), ("name", "U5")], align=True),
            "field `name` is `<U5`, which kaio has no element type for",
        ),
        (np.dtype([("a", ">f4")], align=True), "field `a` is `>f4`, which kaio has no element type for"),
        (
            np.dtype([("i", PACKED)]),
            "field `mass` starts at byte 1, which is no multiple of the 4 that `float32` takes, in field `i`",
        ),
        (
            np.dtype([("a", "f4", (100,))], align=True),
            "field `a` has 100 items, and a struct in a kernel holds at most 64",
        ),
        (
            np.dtype({"names": ["a"], "formats": ["f4"], "itemsize": 6}),
            "elements of 6 bytes do not keep field `a` aligned to 4",
        ),
    ],
)
def test_a_dtype_that_a_kernel_cannot_hold_is_refused_by_its_field(dtype, what):
    with pytest.raises(kaio.KaioError) as caught:
        struct_dtype(dtype)
    assert caught.value.mistakes[0].what == what


def test_a_packed_dtype_is_refused_where_it_annotates_a_parameter():
    assert message("@kernel\ndef k(x: In[PACKED], out: Out[f32]):\n    out[0] = x[0].mass", PACKED=PACKED) == (
        "field `mass` starts at byte 1, which is no multiple of the 4 that `float32` takes\n"
        "  <text>:2:10, in k\n"
        "      def k(x: In[PACKED], out: Out[f32]):\n"
        "               ^^^^^^^^^^\n"
        "  help: make the dtype with `align=True`: `np.dtype([...], align=True)`"
    )


@pytest.mark.parametrize(
    ("body", "what", "way_out"),
    [
        (
            "p = x[0]; p.mass = 1.0",
            "a kernel cannot set the attribute `p.mass`",
            COPY,
        ),
        ("x[0].mass = 1.0", "`x` is an `In` buffer, which a kernel only reads", f"annotate it `x: InOut[{SHOWN}]`"),
        ("y[0].mas = 1.0", f"{SHOWN} has no attribute `mas` in a kernel", "did you mean `mass`?"),
        ("y[0].pos[3] = 1.0", "index 3 is out of range for a tuple of 3", None),
        (
            "y[0].pos[i] = 1.0",
            "a part of an element is set at an int literal",
            "an array of numbers to choose from at run time is a buffer with one more dimension",
        ),
        ("y[0].id = 1.5", "float literal 1.5 is stored in u8 only with a cast", "cast it, for example `kaio.u8(...)`"),
        ("y[0].id = 300", "`300` does not fit u8", "u8 holds 0 to 255"),
        ("y[0].pos = (1.0, 2.0)", "(float literal 1.0, float literal 2.0) cannot be stored in (f64, f64, f64)", None),
        ("y[0].mass.real = 1.0", "f32 has no parts that can be set", "set the whole element, `x[i] = value`"),
        ("y[0] = 1.0", f"float literal 1.0 cannot be stored in {SHOWN}", None),
        ("o[0] = x[0]", f"{SHOWN} cannot be stored in an element of `o` (f32)", None),
        ("o[0] = x[0].mas", f"{SHOWN} has no attribute `mas` in a kernel", "did you mean `mass`?"),
        (
            "o[0] = x[0].pos[i]",
            "a tuple is indexed with an int literal",
            "numbers to choose from at run time are a buffer, for example `In[f32]`, or a `local_mem` array",
        ),
        ("o[0] = x[0] + 1", f"`{SHOWN} + int literal 1` is not defined", None),
        (
            "kaio.atomic_add(y, 0, x[0])",
            f"`atomic_add` on {SHOWN}: its parts are several numbers, and one step updates one",
            "keep each part in a buffer of its own",
        ),
    ],
)
def test_what_structs_cannot_do_is_told(body, what, way_out):
    text = f"@kernel\ndef k(x: In[P], y: InOut[P], o: InOut[f32], i: i32):\n    {body}\n"
    (mistake,) = mistakes(text, P=PARTICLE)
    assert (mistake.what, mistake.help) == (what, way_out)


def test_an_out_buffer_is_written_by_a_store_into_a_part():
    text = "@kernel\ndef k(y: Out[P]):\n    y[0].mass = 1.0\n    y[0].mass += y[0].half"
    assert kernel(text, P=PARTICLE).ptx("sm_90")
    told = message("@kernel\ndef k(y: Out[P]):\n    y[0].mass += 1.0", P=PARTICLE)
    assert told.startswith("`y` is an `Out` buffer, and is read before the kernel wrote to it")


def test_a_launch_takes_buffers_of_that_dtype():
    cpu = kaio.Device("cpu")
    other = np.dtype([("mass", "f4"), ("id", "u1")], align=True)
    with pytest.raises(kaio.LaunchError) as caught:
        reads.over(4).launch(cpu.alloc_zeros(4, other), cpu.alloc_zeros(4, f64))
    assert str(caught.value).startswith("argument `x` of kernel `reads` must be a GpuBuffer of struct(id: u8")
    assert "got struct(mass: f32, id: u8)[4]" in str(caught.value)


def test_loads_with_hints_are_of_numbers_and_vectors():
    told = message('@kernel\ndef k(x: In[P], o: Out[f32]):\n    o[0] = kaio.load(x, 0, cache="cg").mass', P=PARTICLE)
    assert told.splitlines()[-1] == "  help: write `x[index]`"


class Pair(NamedTuple):
    low: f32
    high: f32


@dataclasses.dataclass(frozen=True)
class Body:
    mass: f32
    pos: tuple[f64, f64, f64]
    limits: Pair
    id: kaio.u8 = 0


def test_a_record_class_is_an_element_type(device):
    @kaio.func
    def moved(body: Body, by):
        x, y, z = body.pos
        return Body(body.mass + 1, (x + by, y, z), Pair(-by, by), body.id)

    @kaio.kernel
    def k(x: InOut[Body], start: Body):
        i = kaio.grid(1)
        if i < x.size:
            body = x[i] if i > 0 else start
            x[i] = moved(body, 2)
            x[i].limits.high *= 10
            if i == 2:
                x[i] = x[i]._replace(mass=9)

    host = np.zeros(3, dtype_of(Body).numpy)
    host["pos"], host["id"] = np.arange(9).reshape(3, 3), [1, 2, 3]
    x = device.alloc_from(host)
    assert x.dtype is dtype_of(Body)
    assert device.alloc_zeros(2, Body).to_host().dtype == host.dtype
    k.over(3).launch(x, Body(5.0, (1.0, 2.0, 3.0), Pair(0.0, 0.0), 7)).wait()
    got = x.to_host()
    assert got["mass"].tolist() == [6, 1, 9]
    assert got["pos"].tolist() == [[3, 2, 3], [5, 4, 5], [8, 7, 8]]
    assert got["limits"]["high"].tolist() == [20, 20, 20]
    assert got["id"].tolist() == [7, 2, 3]
    assert ".param .f64 start_pos_2" in k.ptx("sm_90")


class Star(NamedTuple):
    pos: f32x4
    id: kaio.u8
    bytes: kaio.u8x4
    vel: f32x4
    pair: tuple[f32x2, f32x2]


@dataclasses.dataclass(frozen=True)
class Named:
    number: kaio.i32
    star: Star


@kaio.kernel
def turned(x: In[Star], y: Out[Star], named: InOut[Named], by: Star):
    tile = kaio.shared_mem(4, Star)
    kept = kaio.local_mem(2, Named)
    i = kaio.grid(1)
    if i < x.size:
        tile[i] = x[i]
        kept[i % 2] = named[i]
        star = tile[i]
        y[i] = Star(star.pos * 2 + by.pos, star.id + 1, star.bytes + by.bytes, (1, 2, 3, star.vel.w), star.pair)
        y[i].vel.y = 9
        y[i].pair[1] = (star.pair[0].y, 7)
        named[i].star = star
        named[i].number = kept[i % 2].number + 5


def stars(count):
    made = np.zeros(count, dtype_of(Star).numpy)
    for k, lane in enumerate("xyzw"):
        made["pos"][lane], made["vel"][lane], made["bytes"][lane] = np.arange(count) * 10 + k, -k, k
    made["pair"]["x"], made["pair"]["y"], made["id"] = [1, 2], [3, 4], np.arange(count)
    return made


def test_a_record_class_has_vectors_for_fields(device):
    host = stars(3)
    x, y, named = device.alloc_from(host), device.alloc_zeros(3, Star), device.alloc_zeros(3, Named)
    by = Star(kaio.f32x4(1), 0, kaio.u8x4(254), kaio.f32x4(0), (f32x2(0), f32x2(0)))
    turned.over(3).block(4).launch(x, y, named, by).wait()
    wanted = host.copy()
    for k, lane in enumerate("xyzw"):
        wanted["pos"][lane] = host["pos"][lane] * 2 + 1
        wanted["bytes"][lane] = host["bytes"][lane] + np.uint8(254)
        wanted["vel"][lane] = (1, 9, 3, -3)[k]
    wanted["id"] += 1
    wanted["pair"][:, 1]["x"], wanted["pair"][:, 1]["y"] = 3, 7
    assert repr(y.to_host()) == repr(wanted)
    assert repr(named.to_host()["star"]) == repr(host)
    assert named.to_host()["number"].tolist() == [5, 5, 5]


def test_a_vector_in_a_record_lies_where_it_is_loaded_at_once():
    dtype = dtype_of(Star)
    assert repr(dtype) == "struct(pos: f32x4, id: u8, bytes: u8x4, vel: f32x4, pair: f32x2[2])"
    assert [field.offset for field in dtype.fields] == [0, 16, 20, 32, 48]
    assert (dtype.itemsize, dtype.alignment) == (64, 16)
    assert [field.offset for field in dtype_of(Named).fields] == [0, 16]
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    made = turned.ptx("sm_90")
    assert made.count("v4.f32") >= 6
    assert made.count("st.global.v4.f32") == 4
    assert "st.global.v2.f32" in made


def test_a_record_with_vectors_is_refused_where_it_is_misaligned():
    cpu = kaio.Device("cpu")
    moved = cpu.alloc_zeros(200, kaio.u8)[4:132].view(dtype_of(Star).numpy)
    with pytest.raises(kaio.LaunchError, match=r"argument `x` of kernel `turned`: .* at no multiple of 16 bytes"):
        turned.over(2).launch(moved, cpu.alloc_zeros(2, Star), cpu.alloc_zeros(2, Named), stars(1)[0])


def test_a_record_class_without_dtypes_is_no_element_type():
    class Loose(NamedTuple):
        mass: float

    with pytest.raises(kaio.KaioError) as caught:
        dtype_of(Loose)
    assert str(caught.value) == (
        "field `mass` of `Loose` is no dtype, and an element of a buffer has fields of dtypes\n"
        "  help: for example `mass: f32`, or `mass: tuple[f32, f32]`"
    )


def test_a_tuple_in_an_argument_has_its_length():
    @kaio.kernel
    def k(out: Out[f64], start: Body):
        out[0] = start.pos[2]

    out = kaio.Device("cpu").alloc_zeros(1, f64)
    with pytest.raises(kaio.LaunchError) as caught:
        k.over(1).launch(out, Body(1.0, (1.0, 2.0), Pair(0.0, 0.0)))
    assert str(caught.value) == "argument `start.pos` of kernel `k` must be a tuple of 3 (got (1.0, 2.0))"


def test_a_loop_goes_over_the_tuples_that_are_a_part_of_a_value():
    @kaio.kernel
    def k(bodies: In[Body], out: Out[f64], start: Body):
        i = kaio.grid(1)
        total = f64(0)
        if i < bodies.size:
            for x in bodies[i].pos:
                total = total * 10 + x
            for x in start.pos:
                total = total * 10 + x
            for x in (start.pos, (1, 2, 3))[0]:
                total = total * 10 + x
            out[i] = total

    cpu = kaio.Device("cpu")
    bodies, out = cpu.alloc_zeros(1, Body), cpu.alloc_zeros(1, f64)
    bodies.fill(Body(1.0, (1.0, 2.0, 3.0), Pair(0.0, 0.0)))
    k.over(1).launch(bodies, out, Body(1.0, (4.0, 5.0, 6.0), Pair(0.0, 0.0))).wait()
    assert out.to_host()[0] == 123456456
