"""What `check` lets through: the whole kernel language, and every doubtful case that may still be right."""

from __future__ import annotations

import linecache
import textwrap
from typing import Any, TypeVar

import pytest

import kaio
from kaio.dsl.compiler.check import check, check_specialisation, read_kernel
from kaio.dsl.compiler.parse import parse
from kaio.errors import KernelSyntaxError

T = TypeVar("T", kaio.f32, kaio.f64)


def define(body: str, params: str = "x: In[f32], y: Out[f32], n: i32", **names: Any) -> Any:
    text = f"def k({params}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    file = f"<accepted {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {**vars(kaio), "T": T, "kaio": kaio, **names}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space["k"]


def mistakes(body: str, **options: Any) -> list[str]:
    try:
        read_kernel(define(body, **options))
    except KernelSyntaxError as error:
        return [mistake.what for mistake in error.mistakes]
    return []


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "...",
        '"""Text."""',
        "return",
        "return None",
        "y[0] = x[0] + x[1] - x[2] * x[3] / x[4] // x[5] % x[6] ** 2",
        "y[0] = ~n & n | n ^ n << 2 >> 1",
        "y[0] = -x[0] if not (0 < n <= 5 and n != 3 or n == 7) else +x[1]",
        "a, (b, c) = 1, (2, 3)\na, b = b, a\ny[0] = a + b + c",
        "a = b = 1\ny[0] = y[1] = a + b",
        "a = 1\na += 2\na //= 3\na <<= 1\ny[0] = a",
        "assert n > 0\nassert n < 9, 'too many'",
        "i = 0\nwhile i < n:\n    i += 1\n    if i == 3:\n        continue\n    if i == 5:\n        break",
        "for i in range(0, n, 2):\n    for j in range(i):\n        y[j] = x[i]",
        "y[0] = min(x[0], 1) + max(x[0], 2) + abs(x[0]) + int(x[0]) + float(n) + bool(n) + len(x) + round(x[0])",
        "y[0] = f32(n) + i32(x[0])",
        "y[x.size - 1] = x[-1] + x.shape[0] + x.ndim",
        "if n > 0:\n    if n > 1:\n        return\n    y[0] = 1\nelif n > -5:\n    y[0] = 2\nelse:\n    y[0] = 3",
        "y[0] = 0xFF + 1_000 + 1e-3",
        "if (v := x[0]) > 1 and (w := v * 2) > 3:\n    y[0] = v + w",
        "while (k := n) > 3:\n    n -= k\ny[0] = k",
        "for k in range(n):\n    if x[k] > 1:\n        break\nelse:\n    y[0] = 1",
        "while n > 0:\n    n -= 1\nelse:\n    y[0] = 1",
        "match n:\n    case 1 | 2:\n        y[0] = 1\n    case k if k > 5:\n        return\n    case _:\n        pass",
        "if n in (1, 2) or x[0] not in (0.5, n):\n    y[0] = 1",
        "for w in (0.25, 0.5):\n    y[0] = w",
        "for a, b in ((1, 2), (3, 4)):\n    y[a] = b",
        "total: f32 = 0\ncount: int = 0\nok: bool = n > 3\ny[0] = total + count",
        "v = x[0]\ny[0] = v\ndel v",
    ],
)
def test_the_kernel_language(body: str) -> None:
    assert mistakes(body) == []


# --- variables that are set -------------------------------------------------------------------------------------------

SET = [
    "if n > 3:\n    z = 1\nelse:\n    z = 2\ny[0] = z",
    "if n > 3:\n    z = 1\nelif n > 2:\n    z = 2\nelse:\n    return\ny[0] = z",
    "if n > 3:\n    return\nz = 1\ny[0] = z",
    "while True:\n    z = 1\n    if n > 3:\n        break\ny[0] = z",
    "while 1:\n    if n > 3:\n        z = 1\n        break\n    if n > 4:\n        return\ny[0] = z",
    "for i in range(3):\n    z = i\ny[0] = z + i",
    "for i in range(5, 0, -2):\n    if n > 3:\n        z = 1\n        continue\n    z = 2\ny[0] = z",
    "for i in range(3):\n    z = i\n    if n > 3:\n        break\ny[0] = z",
    "for i in range(n):\n    z = i\n    y[i] = z",
    "for i in range(n):\n    for i in range(3):\n        y[i] = i\n    y[i] = i",
    "acc = 0\nfor i in range(2):\n    acc += i\ni = 0\nwhile i < 3:\n    acc += 10\n    i += 1\ny[0] = acc\ny[1] = i",
    "z = 0\nfor i in range(n):\n    z += i\ny[0] = z",
    "if n > 3:\n    z = x[0]\n    y[0] = z\nelse:\n    y[0] = 1",
    "return\ny[0] = z\nz = 1",
    "if True:\n    z = 1\ny[0] = z",
    "if False:\n    y[0] = z\nz = 1",
    "while False:\n    y[0] = z\nz = 1",
    "n = n + 1\ny[0] = n",
    "z = 1\nif n > 3:\n    z = 2\ny[0] = z",
    "while n > 3:\n    z = 1\n    while n > z:\n        break\n    y[0] = z\n    n -= 1",
    "for k in range(n):\n    if x[k] > 1:\n        z = k\n        break\nelse:\n    z = -1\ny[0] = z",
    "for k in (1, 2):\n    z = k\ny[0] = z + k",
    "while n > 3:\n    n -= 1\nelse:\n    z = 1\ny[0] = z",
    "match n:\n    case 1:\n        z = 1\n    case _:\n        z = 2\ny[0] = z",
    "match n:\n    case 1:\n        z = 1\n    case k:\n        return\ny[0] = z",
    "if not ((z := n) > 3):\n    return\ny[0] = z",
    "if n > 3 or (z := n) > 1:\n    y[0] = n\nelse:\n    y[0] = z",
    "y[0] = (z := n) + z",
    "z = (w := n) + 1 if n > 3 else (w := 2)\ny[0] = w + z",
]


@pytest.mark.parametrize("body", SET)
def test_a_variable_that_is_set_on_every_path(body: str) -> None:
    assert mistakes(body) == []


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (
            "for i in range(0):\n    z = i\ny[0] = z",
            "`z` may not be set when line 4 reads it: line 3 sets it only if the loop of line 2 runs at least once",
        ),
        (
            "for i in range(3):\n    if n > 3:\n        continue\n    z = i\ny[0] = z",
            "`z` may not be set when line 6 reads it: line 5 sets it only if the loop of line 2 runs at least once",
        ),
        (
            "for i in range(3):\n    if n > i:\n        break\n    z = i\ny[0] = z",
            "`z` may not be set when line 6 reads it: line 5 sets it only if the loop of line 2 runs at least once",
        ),
        (
            "if n > 3:\n    z = 1\nelif n > 2:\n    z = 2\ny[0] = z",
            "`z` may not be set when line 6 reads it: line 5 sets it only if `n > 3` is false",
        ),
        (
            "if n > 3:\n    if n > 4:\n        z = 1\n    y[0] = z",
            "`z` may not be set when line 5 reads it: line 4 sets it only if `n > 4` is true",
        ),
        ("z += 1", "`z` is updated in line 2 before it is set"),
        ("a, b = b, 1", "`b` is read in line 2 before it is set, in line 2"),
        ("y[z] = 1\nz = 0", "`z` is read in line 2 before it is set, in line 3"),
        ("for i in range(i):\n    pass", "`i` is read in line 2 before it is set, in line 2"),
        (
            "while n > 0:\n    if n > 2:\n        y[0] = z\n    else:\n        z = 1",
            "`z` is read in line 4 before it is set, in line 6",
        ),
    ],
)
def test_a_variable_that_may_be_unset(body: str, what: str) -> None:
    assert mistakes(body) == [what]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (
            "if n > 3 and (z := n) > 5:\n    y[0] = 1\ny[1] = z",
            "`z` may not be set when line 4 reads it: line 2 sets it only where the condition is looked at to there",
        ),
        (
            "match n:\n    case 1:\n        z = 1\n    case 2:\n        z = 2\ny[0] = z",
            "`z` may not be set when line 7 reads it: line 6 sets it only in one case of `match n`",
        ),
        (
            "for k in range(n):\n    if x[k] > 1:\n        break\nelse:\n    z = -1\ny[0] = z",
            "`z` may not be set when line 7 reads it: line 6 sets it only if the loop of line 2 ends without `break`",
        ),
        ("z = n\ndel z\ny[0] = z", "`z` is read in line 4, and line 3 deletes it"),
    ],
)
def test_a_variable_that_newer_statements_may_leave_unset(body: str, what: str) -> None:
    assert mistakes(body) == [what]


def test_a_variable_that_may_be_unset_is_told_once() -> None:
    assert len(mistakes("if n > 3:\n    z = 1\ny[0] = z\ny[1] = z\ny[2] = z")) == 1


# --- conditions that are known while compiling ------------------------------------------------------------------------

BIAS = "if HAS_BIAS:\n    z = x[0]\nif HAS_BIAS:\n    y[0] = z\n"
CONST = "x: In[f32], y: Out[f32], HAS_BIAS: Const[bool]"


def test_a_variable_set_under_a_constant_may_be_read_under_it() -> None:
    assert mistakes(BIAS, params=CONST) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("HAS_BIAS", 0), ("HAS_BIAS and LIMIT > 3", 0), ("HAS_BIAS and x[0] > 0", 1), ("LIMIT > 3", 0), ("T is f32", 0)],
)
def test_which_conditions_are_known_while_compiling(condition: str, expected: int) -> None:
    assert len(mistakes(f"if {condition}:\n    z = 1\ny[0] = z", params=CONST, LIMIT=4)) == expected


def specialise(body: str, known: dict[str, Any], **options: Any) -> list[str]:
    function = define(body, **options)
    source, signature = read_kernel(function)
    try:
        check_specialisation(function, source, signature, known)
    except KernelSyntaxError as error:
        return [mistake.what for mistake in error.mistakes]
    return []


def test_a_specialisation_takes_one_way() -> None:
    body = "if HAS_BIAS:\n    z = x[0]\ny[0] = z"
    assert specialise(body, {"HAS_BIAS": True}, params=CONST) == []
    assert specialise(BIAS, {"HAS_BIAS": False}, params=CONST) == []
    assert specialise(body, {"HAS_BIAS": False}, params=CONST) == [
        "`z` is read in line 4, and line 3, which sets it, is never on the way there"
    ]


def test_a_specialisation_fixes_dtypes() -> None:
    body = "if T is f64:\n    z = 1\nelse:\n    z = 2\ny[0] = z\nif T is f64:\n    w = 1\ny[1] = w"
    params = "y: Out[T]"
    assert specialise(body, {"T": kaio.f64}, params=params) == []
    assert len(specialise(body, {"T": kaio.f32}, params=params)) == 1


# --- names ------------------------------------------------------------------------------------------------------------


def later_user(v: Any) -> Any:
    return defined_below(v) + 1


def test_a_name_that_the_file_sets_further_down_is_known() -> None:
    function = later_user
    saved = globals().pop("defined_below")
    try:
        check(function, parse(function), None)
    finally:
        globals()["defined_below"] = saved


def defined_below(v: Any) -> Any:
    return v


def test_a_name_of_the_function_around_that_is_set_further_down_is_known() -> None:
    def user(v: Any) -> Any:
        return helper(v)

    check(user, parse(user), None)

    def helper(v: Any) -> Any:
        return v


def test_a_global_hides_a_builtin() -> None:
    assert mistakes("y[0] = sum(x[0])", sum=lambda v: v) == []


def test_a_module_that_is_being_imported_may_get_the_name_later() -> None:
    import types

    module = types.ModuleType("half")
    module.__spec__ = types.SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    assert mistakes("y[0] = half.later(x[0])", half=module) == []
    module.__spec__ = None
    assert mistakes("y[0] = half.later(x[0])", half=module) == ["module `half` has no `later`"]


# --- buffers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = 1\ny[1] = y[0]",
        "if n > 3:\n    y[0] = 1\ny[1] = y[0]",
        "for i in range(n):\n    y[i] = 0\ny[0] += 1",
        "for i in range(n):\n    if i > 0:\n        y[i] += 1\n    else:\n        y[i] = 0",
        "for i in range(n):\n    if i == 0:\n        y[i] = 0\n        continue\n    y[i] += 1",
        "fill(y, n)\ny[0] += 1",
        "fill(y=y)\ny[0] += 1",
        "out = y\nout[0] = 1\nz = y[0]\nx2 = z",
        "i = y.size\ny[i - 1] = 0",
    ],
)
def test_an_out_buffer_that_may_be_written_before_it_is_read(body: str) -> None:
    assert mistakes(body, fill=lambda *v: None) == []


@pytest.mark.parametrize(
    "body",
    [
        "y[0] += 1",
        "z = y[0]\ny[0] = z",
        "if n > 3:\n    y[0] += 1",
        "y[int(y[0])] = 1",
        "while n > 0:\n    y[n] = y[n - 1]\n    n -= 1",
        "i = y.size\nz = i + y[0]\ny[0] = z",
        "if y[0] > 0:\n    y[0] = 1",
        "while y[0] > 0:\n    y[0] = 1",
        "for i in range(int(y[0])):\n    y[i] = 1",
    ],
)
def test_an_out_buffer_that_is_read_first(body: str) -> None:
    assert mistakes(body) == ["`y` is an `Out` buffer, and is read before the kernel wrote to it"]


def test_a_parameter_that_is_set_anew_is_not_taken_for_the_buffer() -> None:
    assert mistakes("x = x[0]\ny[0] = x") == []


def test_indices_that_may_be_tuples_are_left_to_the_types() -> None:
    params = "x: In[f32, D2], y: Out[f32, D0], n: i32"
    assert mistakes("at = 1, 2\ny[()] = x[at]", params=params) == []
    assert mistakes("y[0] = x[n + 1]", params=params) == [
        "`y` has 0 dimensions and is given 1 index",
        "`x` has 2 dimensions and is given 1 index",
    ]


# --- device functions -------------------------------------------------------------------------------------------------


def device(body: str) -> list[str]:
    function = define(body, params="a, b=2, *, c=3")
    try:
        check(function, parse(function), None)
    except KernelSyntaxError as error:
        return [mistake.what for mistake in error.mistakes]
    return []


@pytest.mark.parametrize(
    "body",
    [
        "return a + b",
        "a[0] = b",
        "return",
        "if a > 0:\n    return a\nelse:\n    return b",
        "if a > 0:\n    return a\nreturn b, c",
        "while True:\n    if a > b:\n        return a",
        "while True:\n    for i in range(3):\n        break\n    a += 1\n    if a > 3:\n        return a",
        "if True:\n    return a",
    ],
)
def test_a_device_function_that_returns_on_every_path_or_on_none(body: str) -> None:
    assert device(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "if a > 0:\n    return a",
        "while a > 0:\n    return a",
        "for i in range(3):\n    return a",
        "while True:\n    if a > 0:\n        break\n    return a",
    ],
)
def test_a_device_function_that_may_end_without_its_value(body: str) -> None:
    assert device(body) == ["`k` returns a value here, but can also reach its end without one"]


def test_a_device_function_that_is_called_with_a_literal_takes_one_way() -> None:
    function = define("if c:\n    z = a\nif c:\n    return z\nreturn b", params="a, b, c")
    with pytest.raises(KernelSyntaxError, match="`z` may not be set"):
        check(function, parse(function), None)
    check(function, parse(function), None, {"c": True})
    check(function, parse(function), None, {"c": False})


def test_a_lambda_is_checked_like_a_function() -> None:
    function = lambda v: [v for v in range(3)]  # noqa: E731, C416
    with pytest.raises(KernelSyntaxError, match="a kernel has no list comprehensions"):
        check(function, parse(function), None)
