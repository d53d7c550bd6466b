"""The type of every construct, and what is said where types do not fit."""

from __future__ import annotations

import textwrap
import warnings
from typing import NamedTuple

import numpy as np
import pytest

import kaio
from kaio import f32, i32
from tests.dsl.compiler import host
from tests.dsl.from_text import kernel, message, mistakes, run, types_of

PARAMETERS = {
    "b": "u8",
    "h": "i16",
    "n": "i32",
    "w": "i64",
    "u": "u32",
    "q": "u64",
    "f": "f32",
    "d": "f64",
    "c": "bool_",
    "x": "InOut[f32]",
    "y": "InOut[f64]",
    "s": "InOut[u8]",
    "m": "In[i32, D2]",
    "z": "In[f64, D0]",
}


def dedent(text: str) -> str:
    return textwrap.dedent(text).strip()


def function(body: str, before: str = "") -> str:
    """A kernel with parameters of every kind around a body."""
    params = ", ".join(f"{name}: {type_}" for name, type_ in PARAMETERS.items())
    lines = "\n".join(f"    {line}" for line in dedent(body).splitlines())
    return f"{dedent(before)}\n\n@kernel\ndef k({params}):\n{lines}\n"


def type_of(expression: str, before: str = "", **names) -> str:
    """The type of an expression of these parameters, as a variable has it that is set from it."""
    return types_of(kernel(function(f"v = {expression}\nuse = (v, 1)", before), **names))["v"]


# ---------------------------------------------------------------------- every construct
EXPRESSIONS = [
    ("1", "int literal 1"),
    ("-2.5", "float literal -2.5"),
    ("True", "bool"),
    ("2 * 3 + 0.5", "float literal 6.5"),
    ("math.pi / 2", "float literal 1.5707963267948966"),
    ("len((1, 2, 3))", "int literal 3"),
    ("n", "i32"),
    ("x", "InOut[f32]"),
    ("x[n]", "f32"),
    ("m[n, 0]", "i32"),
    ("z[()]", "f64"),
    ("x.size", "i32"),
    ("x.shape", "(i32)"),
    ("m.shape", "(i32, i32)"),
    ("m.shape[1]", "i32"),
    ("x.ndim", "int literal 1"),
    ("len(m)", "i32"),
    ("x.dtype(3)", "f32"),
    ("m.dtype", "`i32`"),
    ("(n, f, 1)", "(i32, f32, int literal 1)"),
    ("(n, f)[1]", "f32"),
    ("(n, (f, d))[-1][1]", "f64"),
    ("b + b", "u8"),
    ("b + 1", "u8"),
    ("b * 2.0", "f32"),
    ("b + h", "i16"),
    ("u + n", "i64"),
    ("q + b", "u64"),
    ("b / b", "f32"),
    ("n // 2", "i32"),
    ("n % f", "f32"),
    ("w * f", "f32"),
    ("w * d", "f64"),
    ("f + d", "f64"),
    ("b << n", "u8"),
    ("1 << b", "u8"),
    ("1 << w", "i64"),
    ("b ** 2", "u8"),
    ("f ** 2", "f32"),
    ("n ** 0.5", "f32"),
    ("c + n", "i32"),
    ("c * f", "f32"),
    ("c & c", "bool"),
    ("~b", "u8"),
    ("-q", "u64"),
    ("not n", "bool"),
    ("q < n", "bool"),
    ("0 <= n < 5", "bool"),
    ("n == f", "bool"),
    ("n > 2.5", "bool"),
    ("n and w", "i64"),
    ("n > 0 and f > 0", "bool"),
    ("f or d", "f64"),
    ("b or 0", "u8"),
    ("1 if c else 0", "int literal 1 or 0"),
    ("1 if c else 0.5", "float literal 1.0 or 0.5"),
    ("b if c else 0", "u8"),
    ("f if c else 0", "f32"),
    ("d if c else 0.1", "f64"),
    ("b if c else h", "i16"),
    ("(n, f) if c else (w, 0)", "(i64, f32)"),
    ("b + (1 if c else 0)", "u8"),
    ("(1 if c else 2) if n else 3", "int literal 1 or 2 or 3"),
    ("f32(n)", "f32"),
    ("u8(300.0)", "u8"),
    ("i64(1)", "i64"),
    ("int(f)", "i32"),
    ("int(2.7)", "int literal 2"),
    ("float(n)", "f32"),
    ("float(1)", "float literal 1.0"),
    ("bool(n)", "bool"),
    ("int(q)", "i32"),
    ("np.float64(n)", "f64"),
    ("np.int8(n)", "i8"),
    ("min(b, 3)", "u8"),
    ("max(n, w, 0)", "i64"),
    ("min(n, 0.5)", "f32"),
    ("abs(h)", "i16"),
    ("abs(-3)", "i32"),
    ("round(d)", "f64"),
    ("math.floor(n)", "f32"),
    ("math.sqrt(n)", "f32"),
    ("math.sin(d)", "f64"),
    ("math.pow(f, d)", "f64"),
    ("math.isnan(f)", "bool"),
    ("fma(f, 2, 1)", "f32"),
    ("maximum(d, 0)", "f64"),
    ("rsqrt(f)", "f32"),
    ("thread_idx.x", "i32"),
    ("grid_dim.z", "i32"),
    ("grid(1)", "i32"),
    ("grid(3)", "(i32, i32, i32)"),
    ("shared_mem((2, 3), f32)", "shared_mem((2, 3), f32)"),
    ("local_mem(4, u8)[0]", "u8"),
    ("local_mem((4, 2), u8).shape", "(int literal 4, int literal 2)"),
    ("local_mem((4, 2), u8).size", "int literal 8"),
    ("atomic_add(y, 0, 1)", "f64"),
    ("atomic_add(y, 0, f)", "f64"),
    ("range(n)", "range of i32"),
    ("range(b)", "range of i32"),
    ("range(n, w)", "range of i64"),
    ("range(u)", "range of u32"),
    ("kaio.grid", "`grid`"),
    ("None", "None"),
]


@pytest.mark.parametrize(("expression", "wanted"), EXPRESSIONS, ids=[e[0] for e in EXPRESSIONS])
def test_the_type_of(expression, wanted):
    assert type_of(expression) == wanted


CAPTURED = [
    (3, "int literal 3"),
    (0.1, "float literal 0.1"),
    (True, "bool"),
    ((1, 2.5), "(int literal 1, float literal 2.5)"),
    (np.float64(0.1), "f64"),
    (np.int8(3), "i8"),
    (np.bool_(True), "bool"),
    (f32, "`f32`"),
    (min, "`min`"),
]


@pytest.mark.parametrize(("value", "wanted"), CAPTURED, ids=[repr(c[0]) for c in CAPTURED])
def test_the_type_of_what_is_captured(value, wanted):
    assert type_of("CAPTURED", CAPTURED=value) == wanted


# ---------------------------------------------------------------------- variables
def variables(body: str, before: str = "", **options) -> dict[str, str]:
    """The types of the variables of a body by name, one for each that SSA made."""
    found: dict[str, set[str]] = {}
    for name, type_ in types_of(kernel(function(body, before)), **options).items():
        if not name.startswith("$") and name not in PARAMETERS:
            found.setdefault(name.split(".")[0], set()).add(type_)
    return {name: " ".join(sorted(types)) for name, types in found.items()}


def test_a_counter_set_from_a_literal_counts_in_i32():
    body = "k = 0\nfor i in range(s.size):\n    k += s[i]\nx[0] = k"
    assert variables(body) == {"k": "i32 int literal 0", "i": "i32"}
    made = kernel(
        "@kernel\ndef k(s: In[u8], out: Out[i32]):\n    k = 0\n    for i in range(s.size):\n        k += s[i]\n"
        "    if grid(1) == 0:\n        out[0] = k\n"
    )
    assert run(made, [np.full(9, 200, np.uint8)], [i32])[0][0] == 1800


def test_a_cast_keeps_a_counter_narrow():
    body = "k = u8(0)\nfor i in range(s.size):\n    k += s[i]\nx[0] = k"
    assert variables(body)["k"] == "u8"


def test_i64_and_f64_widen_a_variable_from_a_literal():
    body = "k = 0\na = 0.0\nfor i in range(n):\n    k += w\n    a += d\n    x[i] = a + k"
    assert variables(body) == {"k": "i64 int literal 0", "a": "f64 float literal 0.0", "i": "i32"}


def test_a_loop_widens_until_it_settles():
    body = "a = 0\nfor i in range(n):\n    a = (a + i) * x[i]\nx[0] = a"
    assert variables(body)["a"] == "f32 int literal 0"
    body = "a = 0\nb2 = 0\ne = 0\nfor i in range(n):\n    e = b2 + e\n    b2 = a + b2\n    a = a + d\nx[0] = e"
    assert variables(body)["e"] == "f64 int literal 0"


def test_nested_loops():
    body = """
        total = 0
        for i in range(n):
            row = 0
            for j in range(i, w):
                row += m[i, j]
                while row > 100:
                    row -= 1
            total += row
        x[0] = total
    """
    assert variables(body) == {"total": "i32 int literal 0", "i": "i32", "row": "i32 int literal 0", "j": "i64"}


def test_a_tuple_swap_in_a_loop():
    body = "a, e = 0, 1\nfor i in range(n):\n    a, e = e, a + e\n    x[i] = a"
    assert variables(body) == {"a": "i32 int literal 0", "e": "i32 int literal 1", "i": "i32"}


def test_a_variable_from_a_literal_takes_the_type_of_the_other_branch():
    assert variables("v = 0\nif c:\n    v = f\nx[0] = v")["v"] == "f32 int literal 0"
    assert variables("if c:\n    v = f\nelse:\n    v = 0.5\nx[0] = v")["v"] == "f32 float literal 0.5"
    assert variables("v = 0\nif c:\n    v = b\nx[0] = v")["v"] == "i32 int literal 0 u8"


def test_a_variable_that_means_two_types_is_refused():
    assert message(function("v = f\nif c:\n    v = n\nx[0] = v")) == dedent("""
        `v` is f32 elsewhere but i32 here: a variable has one type
          <text>:7:9, in k
                      v = n
                      ^
          help: cast where it is set, for example `v = kaio.f32(...)`
    """)
    assert message(function("v = n\nfor i in range(3):\n    v = v + x[i]\nx[0] = v")) == dedent("""
        `v` is i32 elsewhere but f32 here: a variable has one type
          <text>:7:13, in k
                      v = v + x[i]
                          ^^^^^^^^
          help: cast where it is set, for example `v = kaio.f32(...)`
    """)
    assert mistakes(function("v = b\nif c:\n    v = w\nx[0] = v"))[0].help.endswith("`v = kaio.i64(...)`")


def test_a_variable_that_is_a_number_and_a_tuple_is_refused():
    (mistake,) = mistakes(function("v = f\nif c:\n    v = (f, f)\nx[0] = v"))
    assert mistake.what == "`v` is f32 and also (f32, f32)"
    assert mistake.help == "give the two different names"


def test_the_same_name_may_mean_another_type_where_the_two_never_meet():
    assert variables("v = f\nx[0] = v\nv = n\nx[1] = v")["v"] == "f32 i32"


def test_what_a_dead_branch_says_is_not_typed():
    body = "v = n\nif DEBUG:\n    v = q + n\nuse = (v, 1)"
    assert variables(body, "DEBUG = False")["v"] == "i32"
    assert mistakes(function(body, "DEBUG = True"))[0].what == "`u64 + i32` has no exact common type"


# ---------------------------------------------------------------------- mistakes
MISTAKES = [
    ("v = q + n", "q + n", "`u64 + i32` has no exact common type", "cast one side, for example `q + kaio.u64(n)`"),
    (
        "v = (n - 1) * q",
        "(n - 1) * q",
        "`i32 * u64` has no exact common type",
        "cast one side, for example `kaio.u64(n - 1) * q`",
    ),
    ("v = f << 2", "f << 2", "`f32 << int literal 2`: shifts take integers", "cast both sides to an integer type"),
    ("v = f & n", "f & n", "`f32 & i32`: floats have no bitwise operators", "cast to an integer first"),
    ("v = c + c", "c + c", "`bool + bool`: bools have no arithmetic", "cast one side, for example `kaio.i32(...)`"),
    ("v = -c", "-c", "`-` of a bool", "use `not`, or cast: `kaio.i32(...)`"),
    ("v = x + 1", "x + 1", "`InOut[f32] + int literal 1` is not defined", "index the buffer to get a number"),
    ("v = -x", "-x", "`-` of InOut[f32] is not defined", None),
    ("v = b + 256", "b + 256", "`256` does not fit u8", "compute in a wider type, for example `kaio.i32(...)`"),
    (
        "v = q - -1",
        "q - -1",
        "`-1` does not fit u64",
        "u64 has no negative values; compute in a signed type, for example `kaio.i32(...)`",
    ),
    (
        "v = n > 5000000000",
        "n > 5000000000",
        "comparing i32 with `5000000000` is always the same: the value does not fit i32",
        "compare with a value in range, or cast the other side to a wider type",
    ),
    (
        "v = n ** -1",
        "n ** -1",
        "i32 to the negative power `-1` is not an integer",
        "cast the base: `kaio.f32(...) ** -1`",
    ),
    ("v = 1 // 0", "1 // 0", "division of literals by zero", "for infinity or NaN write `math.inf` or `math.nan`"),
    ("x[0] = c", "x[0]", "bool is stored in f32 only with a cast", "cast it, for example `kaio.f32(c)`"),
    ("s[0] = n", "s[0]", "i32 is stored in u8 only with a cast", "cast it, for example `kaio.u8(n)`"),
    ("s[0] = n + 1", "n + 1", "i32 is stored in u8 only with a cast", "cast it, for example `kaio.u8(n + 1)`"),
    ("s[0] = 300", "300", "`300` does not fit u8", "u8 holds 0 to 255; for this value make `s` a buffer of i32"),
    (
        "s[0] = 1 if c else -1",
        None,
        "`-1` does not fit u8",
        "u8 holds 0 to 255; for this value make `s` a buffer of i32",
    ),
    ("s[0] = 0.5", "0.5", "float literal 0.5 is stored in u8 only with a cast", "cast it, for example `kaio.u8(0.5)`"),
    ("s[0] += n", "s[0] += n", "i32 is stored in u8 only with a cast", "cast it, for example `kaio.u8(s[0] + n)`"),
    ("x[f] = 1", "x[f]", "index of axis 0 of `x` is f32; an index is an integer", "cast it: `kaio.i32(f)`"),
    (
        "x[m[0, 0] / 2] = 1",
        "x[m[0, 0] / 2]",
        "index of axis 0 of `x` is f32; an index is an integer",
        "write `m[0, 0] // 2`",
    ),
    (
        "x[300000000000] = 1",
        "x[300000000000]",
        "index 300000000000 of `x` does not fit i32",
        "cast it: `kaio.i64(...)`",
    ),
    ("t = local_mem(4, f32)\nt[4] = 1", "t[4]", "index 4 is out of range for axis 0 of `t` (size 4)", None),
    ("t = (1, n)\nv = t[2]", "t[2]", "index 2 is out of range for a tuple of 2", None),
    (
        "t = (1, n)\nv = t[n]",
        "t[n]",
        "a tuple is indexed with an int literal",
        "numbers to choose from at run time are a buffer, for example `In[f32]`, or a `local_mem` array",
    ),
    ("t = (1, n)\ni, j, k = t", "i, j, k", "a tuple of 2 cannot be unpacked into 3 names", None),
    ("i, j = n", "i, j", "i32 cannot be unpacked", None),
    (
        "v = n(3)",
        "n(3)",
        "`n` is i32, and cannot be called",
        "`n` is a number here: give the function another name, or write `n * ...`",
    ),
    ("v = n[0]", "n[0]", "i32 cannot be indexed", "annotate it as a buffer, for example `In[f32]`"),
    ("if x:\n    x[0] = 1", None, "InOut[f32] is neither true nor false", "compare an element: `x[0] > 0`"),
    ("v = grid(4)", "grid(4)", "`grid` takes the literal 1, 2 or 3, not int literal 4", None),
    (
        "v = shared_mem(n, f32)",
        "shared_mem(n, f32)",
        "the shape of `shared_mem` is known when compiling, and i32 is not",
        "use int literals, captured ints or `Const[int]` parameters",
    ),
    ("v = local_mem(0, f32)", "local_mem(0, f32)", "a size of `local_mem` is at least 1, not 0", None),
    (
        "v = local_mem(4, 5)",
        "local_mem(4, 5)",
        "the second argument of `local_mem` is a dtype, not int literal 5",
        "for example `local_mem(256, kaio.f32)`",
    ),
    (
        "v = fma(1, 2)",
        "fma(1, 2)",
        "`fma(x, y, z)`: missing a required argument: 'z'",
        "for example `out[i] = kaio.fma(x[i], y[i], 0.5)`",
    ),
    ("v = min(n)", "min(n)", "`min` takes two numbers or more", "a buffer is reduced in a loop"),
    ("v = math.sin(x)", "math.sin(x)", "an argument of `sin` is a number, not InOut[f32]", None),
    ("v = abs(c)", "abs(c)", "`abs` of a bool", "cast it, for example `kaio.i32(...)`"),
    (
        "v = np.sin(n)",
        "np.sin(n)",
        "`np.sin` cannot be called in a kernel",
        "NumPy does not run on a device; write `math.sin`",
    ),
    ("v = len(n)", "len(n)", "i32 has no length", None),
    ("v = u64(-1)", "u64(-1)", "`-1` does not fit u64", "u64 holds 0 to 18446744073709551615"),
    (
        "v = int(math.inf)",
        "int(math.inf)",
        "`int` of float literal inf: cannot convert float infinity to integer",
        None,
    ),
    (
        "atomic_inc(x, 0, 1)",
        "atomic_inc(x, 0, 1)",
        "`atomic_inc` on f32: it counts in whole numbers",
        "count in a u32 buffer",
    ),
    ("for i in range(f):\n    pass", "range(f)", "`range(f32)` takes integers", "cast with `kaio.i32(...)`"),
    ("for i in range(0, n, 0):\n    pass", "range(0, n, 0)", "`range` with step 0", None),
    ("v = x[n].sqrt()", "x[n].sqrt", "f32 has no attribute `sqrt`", "it is a function: `math.sqrt(...)`"),
    (
        "x[n].atomic_add(1)",
        "x[n].atomic_add",
        "f32 has no attribute `atomic_add`",
        "it is a function: `kaio.atomic_add(...)`",
    ),
    (
        "v = x[n].astype(y.dtype)",
        "x[n].astype",
        "f32 has no attribute `astype`",
        "cast it, for example `kaio.f32(...)`",
    ),
    ("v = f.foo", "f.foo", "f32 has no attribute `foo`", None),
    ("v = x.dtype.foo", "x.dtype.foo", "`f32` has no attribute `foo`", None),
]


@pytest.mark.parametrize(("body", "stretch", "what", "help"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_says_what_where_and_the_way_out(body, stretch, what, help):
    (mistake,) = mistakes(function(body))
    assert (mistake.what, mistake.help) == (what, help)
    place = mistake.place
    assert place.function == "k"
    if stretch is not None:
        assert place.text[place.column : place.end_column] == stretch or place.text.strip().startswith(stretch)


def test_all_mistakes_are_reported_at_once_in_source_order():
    body = "a = q + n\nx[a] = 1\nx[f] = 2\nif f:\n    for i in range(d):\n        s[0] = n\nv = c + c\ng = a + v"
    found = mistakes(function(body))
    assert [m.what.split("`")[-2] if "`" in m.what else m.what for m in found] == [
        "u64 + i32",
        "x",
        "range(f64)",
        "i32 is stored in u8 only with a cast",
        "bool + bool",
    ]
    assert [m.place.line for m in found] == sorted(m.place.line for m in found)


def test_what_follows_from_a_mistake_is_not_reported_again():
    assert len(mistakes(function("a = q + n\nb2 = a + 1\ne = b2 * a\nx[0] = e\ns[0] = e"))) == 1


@pytest.mark.parametrize(
    ("expression", "what", "help"),
    [
        ("x.sizes", "a buffer has no `sizes` in a kernel", "did you mean `x.size`?"),
        ("x.shpae", "a buffer has no `shpae` in a kernel", "did you mean `x.shape`?"),
        ("math.sine(f)", "module `math` has no `sine`", "did you mean `math.sin`?"),
        ("kaio.gird(1)", "module `kaio` has no `gird`", "did you mean `kaio.grid`?"),
        ("thread_idx.w", "`thread_idx` has no `w` in a kernel", "`thread_idx` has x, y and z"),
    ],
)
def test_a_near_miss_is_named(expression, what, help):
    (mistake,) = mistakes(function(f"v = {expression}"))
    assert (mistake.what, mistake.help) == (what, help)


# ---------------------------------------------------------------------- device functions
def test_a_function_is_typed_for_what_it_is_called_with():
    before = "def twice(v):\n    return v + v"
    assert type_of("twice(b)", before) == "u8"
    assert type_of("twice(d)", before) == "f64"
    assert type_of("twice(3)", before) == "int literal 6"
    assert type_of("twice(v=f)", before) == "f32"


def test_annotated_parameters_convert_as_a_store():
    before = "def third(v: 'f64', n: int, w: 'only_for_a_type_checker' = 2):\n    return v / 3 * n"
    assert type_of("third(f, 1)", before) == "f64"
    assert type_of("third(1, b)", before) == "f64"
    (mistake,) = mistakes(function("v = third(c, 2)", "def third(v: f64, n: int):\n    return v / 3"))
    assert mistake.what == "bool is stored in f64 only with a cast"
    (mistake,) = mistakes(function("v = third(x)", "def third(v: f64):\n    return v / 3"))
    assert mistake.what == "argument `v` of `third` is f64, not InOut[f32]"


def test_defaults_and_literals_stay_weak_and_are_part_of_the_specialisation():
    before = "def scale(v, by=0.1, n=2):\n    return v * by if n == 2 else v"
    assert type_of("scale(f)", before) == "f32"
    assert type_of("scale(d)", before) == "f64"
    assert type_of("scale(f, d)", before) == "f64"
    assert type_of("scale(f, d, 3)", before) == "f32"  # the branch is decided
    assert type_of("scale(f, n=3, by=d)", before) == "f32"


def test_an_annotated_literal_is_not_weak():
    assert type_of("g(1)", "def g(v: u8):\n    return v + v") == "u8"


def test_buffers_arrays_tuples_and_functions_are_passed():
    before = "def first(a, pair):\n    i, j = pair\n    return a[i + j]\n\ndef apply(g, v):\n    return g(v)"
    assert type_of("first(y, (0, n))", before) == "f64"
    assert type_of("first(local_mem(3, u8), (0, 1))", before) == "u8"
    assert type_of("apply(math.sqrt, d)", before) == "f64"
    assert type_of("apply(f64, n)", before) == "f64"


def test_several_returns_merge_as_a_conditional():
    assert type_of("g(f)", "def g(v):\n    if v > 1:\n        return v\n    return 0") == "f32"
    assert (
        type_of("g(b)", "def g(v):\n    if v > 1:\n        return v\n    return h2(v)\n\ndef h2(v):\n    return i16(v)")
        == "i16"
    )
    assert type_of("g(c)", "def g(v):\n    if v:\n        return 1\n    return 0") == "int literal 0 or 1"
    assert (
        type_of(
            "g(f)",
            "def g(v):\n    if v > 1:\n        return v, 0\n    return 0.5, n2(v)\n\ndef n2(v):\n    return i32(v)",
        )
        == "(f32, i32)"
    )
    assert type_of("g(f)", "def g(v):\n    x = v") == "None"


def test_a_func_is_a_device_function():
    assert type_of("g(f)", "@func\ndef g(v: f64):\n    return v") == "f64"


def test_a_call_that_does_not_fit_the_signature():
    before = "def g(v, w=1):\n    return v"
    assert mistakes(function("v = g()", before))[0].what == "`g(v, w=1)`: missing a required argument: 'v'"
    assert mistakes(function("v = g(1, 2, 3)", before))[0].what == "`g(v, w=1)`: too many positional arguments"
    assert mistakes(function("v = g(1, z=2)", before))[0].what == "`g(v, w=1)`: there is no parameter `z`"


def test_recursion_names_the_cycle():
    before = """
        def even(v):
            return odd(v - 1) if v > 0 else True

        def odd(v):
            return even(v - 1) if v > 0 else False
    """
    assert message(function("c = even(n)", before)) == dedent("""
        recursion: `even` → `odd` → `even`
          <text>:5:12, in odd
                  return even(v - 1) if v > 0 else False
                         ^^^^^^^^^^^
          called from <text>:2:12, in even
          called from <text>:9:9, in k
          help: write it as a loop; a kernel has no call stack
    """)


def test_a_mistake_in_a_function_tells_who_called_it():
    before = """
        def add(x, y):
            return x + y

        def both(v):
            return add(v, v) + add(v, i32(1))
    """
    assert message(function("v = both(q)\nw2 = both(n)", before)) == dedent("""
        `u64 + i32` has no exact common type
          <text>:2:12, in add
                  return x + y
                         ^^^^^
          called from <text>:5:24, in both
          called from <text>:9:9, in k
          help: cast one side, for example `x + kaio.u64(y)`
    """)


def test_what_a_function_cannot_say_is_told_with_the_call():
    found = mistakes(function("v = g(n)", "def g(v):\n    return [v]"))
    assert found[0].place.function == "g"
    assert found[0].trace[0].function == "k"


def test_a_function_without_source_is_refused():
    (mistake,) = mistakes(function("v = g(n)"), g=eval("lambda v: v", {}))
    assert "source" in mistake.what
    assert mistake.trace or mistake.place


# ---------------------------------------------------------------------- the wide variant
def test_the_wide_variant_has_wide_indices_and_stores_them_in_i32():
    body = "i = grid(1)\nj, k = grid(2)\nt = thread_idx.x\ne = x.size\n"
    body += "for o in range(e):\n    x[o] = o + i + j + k\nfor p in range(n):\n    x[p] = p + t"
    narrow, wide = variables(body), variables(body, index_bits=64)
    assert narrow == dict.fromkeys(narrow, "i32")
    assert wide == {"i": "index", "j": "index", "k": "index", "t": "i32", "e": "index", "o": "index", "p": "i32"}
    made = kernel("@kernel\ndef k(o: Out[i32], p: Out[i64]):\n    i = grid(1)\n    o[i] = i\n    p[i] = i + 1\n")
    assert made.compile("cpu", index_bits=64).index_bits == 64
    assert made.compile("sm_90", index_bits=64).index_bits == 64


def test_a_failure_of_the_wide_variant_alone_names_the_line():
    made = kernel(
        "@kernel\ndef k(o: Out[u64], u: u32):\n    i = grid(1)\n    v = u\n    if u > 3:\n        v = u + 1\n"
        "    o[i] = u64(i + v)\n    t = i\n    if u > 4:\n        t = i32(u)\n    o[0] = u64(t)\n"
    )
    assert made.types()
    with pytest.raises(
        kaio.KernelTypeError, match="`t` is index elsewhere but i32 here: a variable has one type"
    ) as caught:
        made.types(index_bits=64)
    assert caught.value.mistakes[0].help == "cast where it is set, for example `t = kaio.i64(...)`"


def test_a_position_that_does_not_fit_its_i32_element_is_reported_where_checked():
    made = kernel("@kernel\ndef k(x: In[u8], o: Out[i32]):\n    o[0] = x.size\n", "<text>").__wrapped__
    out = np.zeros(1, np.int32)
    for size, fault in ((2**31 - 1, None), (2**31, "a position does not fit an i32 in kernel `k`")):
        buffer = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (size,), (0,))
        found = host.compiled(made, index_bits=64).fault(1, 1, buffer, out)
        assert (found or "").splitlines()[:1] == ([fault] if fault else [])
    assert out[0] == 2**31 - 1


@pytest.mark.parametrize(
    "value",
    ["annotated", "passed(x.size)", "Place(x.size).at", "Place(1)._replace(at=x.size).at", "i32x2(1, x.size).y"],
)
def test_a_position_that_becomes_an_i32_unasked_has_to_fit(value):
    def passed(at: i32):
        return at

    class Place(NamedTuple):
        at: i32

    made = kernel(
        "@kernel\ndef k(x: In[u8], o: Out[i32], b: Const[bool]):\n    annotated: i32 = x.size if b else 1\n"
        f"    o[0] = {value}\n", passed=passed, Place=Place,
    ).__wrapped__  # fmt: skip
    for size, fault in ((2**31 - 1, None), (2**31, "a position does not fit an i32 in kernel `k`")):
        buffer = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (size,), (0,))
        found = host.compiled(made, index_bits=64, b=value == "annotated").fault(1, 1, buffer, np.zeros(1, np.int32))
        assert (found or "").splitlines()[:1] == ([fault] if fault else [])


def test_a_position_that_is_cast_wraps_and_by_int_saturates():
    made = kernel(
        "@kernel\ndef k(x: In[u8], o: Out[i32]):\n    o[0] = i32(x.size)\n    o[1] = int(x.size)\n"
        "    o[2] = u8(x.size + 7)\n"
    ).__wrapped__
    out = np.zeros(3, np.int32)
    buffer = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2**31,), (0,))
    assert host.compiled(made, index_bits=64).fault(1, 1, buffer, out) is None
    assert out.tolist() == [-(2**31), 2**31 - 1, 7]


# ---------------------------------------------------------------------- precision
def warnings_of(body: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(function(body), "<text>").types()
    assert all(w.category is kaio.PrecisionWarning for w in caught)
    return [str(w.message) for w in caught]


def test_an_f32_from_integers_that_becomes_f64_is_warned_of():
    assert warnings_of("y[0] = n / 3") == [
        dedent("""
        this is an f32 made from integers or literals, and is converted to f64
          <text>:5:12, in k
                  y[0] = n / 3
                         ^^^^^
          help: compute it in f64 from the start, for example `kaio.f64(...)` of one operand
    """)
    ]
    (text,) = warnings_of("v = n / 7\ny[0] = d + v")
    assert text.splitlines()[0] == "`v` is an f32 made from integers or literals, and is converted to f64"
    assert "<text>:6:12" in text
    assert len(warnings_of("a = 0.1\nfor i in range(n):\n    a = a * 2\ny[0] = a")) == 1
    assert len(warnings_of("y[0] = f64(n / 3)")) == 1


@pytest.mark.parametrize(
    "body", ["y[0] = f", "y[0] = 0.1", "y[0] = 1 / 3", "x[0] = n / 3", "y[0] = f64(n) / 3", "y[0] = d / n"]
)
def test_what_loses_nothing_is_not_warned_of(body):
    assert warnings_of(body) == []


def test_constants_that_are_passed_are_as_weak_as_where_they_are_written():
    made = kernel("""
        def more(x, d=1): return x + d

        @kernel
        def k(x: In[u8], h: In[f16], n: Const[int] = 3, s: Const[float] = 2.0):
            a = x[0] + n
            b = h[0] * s
            c = more(x[0])
            d = more(h[0], 0.5)
            named = 3
            e = more(x[0], n)
            f = more(x[0], named)
    """)
    found = types_of(made)
    assert [found[name] for name in "abcdef"] == ["u8", "f16", "u8", "f16", "u8", "i32"]
