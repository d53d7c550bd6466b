"""`signature` reads every spelling of an annotation. What it refuses is in tests/dsl/rejects."""

from __future__ import annotations

import enum
import linecache
import sys
from typing import Annotated, Any, TypeVar

import numpy as np
import pytest

import kaio
from kaio import D0, D2, In, InOut, Out, bool_, f32, f64, i8, i32, u8
from kaio.dsl.compiler.check import read_kernel
from kaio.dsl.compiler.parse import parse
from kaio.dsl.compiler.signature import signature
from kaio.dsl.types import MISSING, BufferAnnotation, ConstAnnotation, ScalarAnnotation, Signature
from kaio.errors import KernelSyntaxError

T = TypeVar("T", f32, f64)
Row = In[f32, D2]


class Size(enum.IntEnum):
    SMALL = 3


def read(function: Any) -> Signature:
    return signature(function, parse(function))


def make(text: str, **names: Any) -> Any:
    """The function `k` of a text without `from __future__ import annotations`, so that annotations are objects."""
    file = f"<signature {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {**vars(kaio), "T": T, "np": np, "kaio": kaio, "Annotated": Annotated, **names}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space["k"]


def test_annotations_as_objects() -> None:
    k = make("def k(x: In[f32], y: kaio.Out[i32, D2], a: f32, n: Const[int], t: Const[DType]) -> None: pass\n")
    assert str(read(k)) == "k(x: In[f32], y: Out[i32, D2], a: f32, n: Const[int], t: Const[DType])"


def test_annotations_as_text() -> None:
    k = make("def k(x: 'In[f32]', y: \"'Out[i32, D2]'\", a: 'f32'): pass\n")
    assert str(read(k)) == "k(x: In[f32], y: Out[i32, D2], a: f32)"


def test_annotations_under_the_future_import() -> None:
    def k(x: Row, y: InOut[i32, D0], a: bool_) -> None:
        pass

    assert str(read(k)) == "k(x: In[f32, D2], y: InOut[i32, D0], a: bool_)"


def test_a_name_that_only_an_annotation_uses_is_found_in_the_function_around() -> None:
    def outer(element: Any) -> Any:
        def inner(access: Any) -> Signature:
            def k(x: access[element]):
                pass

            return read(k)

        return inner(In) if element is f32 else inner(Out)

    assert str(outer(f32)) == "k(x: In[f32])"
    assert str(outer(i8)) == "k(x: Out[i8])"


def test_a_name_of_the_closure_is_found_after_the_function_around_has_returned() -> None:
    def outer(element: Any) -> Any:
        def k(x: Out[element]):
            x[0] = element(1)

        return k

    assert str(read(outer(u8))) == "k(x: Out[u8])"


def test_a_generic_kernel() -> None:
    k = make("def k(x: In[T], y: Out[T, D2], a: T): pass\n")
    found = read(k)
    assert str(found) == "k(x: In[T], y: Out[T, D2], a: T)"
    assert [a.dtype for a in found.specialise(dtypes={"T": f64}).arguments] == [f64, f64, f64]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_a_generic_kernel_in_the_syntax_of_python_3_12(future: str) -> None:
    k = make(f"{future}def k[S: (f32, f64)](x: In[S], a: S = 2):\n    b = S(a)\n    c = b\n")
    source, found = read_kernel(k)
    assert str(found) == "k(x: In[S], a: S = 2)"
    assert [argument.dtype for argument in found.specialise(dtypes={"S": f64}).arguments] == [f64, f64]
    assert source.first_line == 1 + bool(future)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
def test_an_alias_in_the_syntax_of_python_3_12() -> None:
    k = make("type Image = In[u8, D2]\ndef k(x: Image): pass\n")
    assert str(read(k)) == "k(x: In[u8, D2])"


def test_annotated_is_seen_through() -> None:
    k = make("def k(a: Annotated[f32, 'metres']): pass\n")
    assert str(read(k)) == "k(a: f32)"


def test_how_a_parameter_may_be_passed() -> None:
    k = make("def k(x: In[f32], /, a: f32, *, n: Const[int] = 4, m: i32): pass\n")
    found = read(k)
    assert [p.kind for p in found.params] == ["positional", "any", "keyword", "keyword"]
    assert str(found) == "k(x: In[f32], /, a: f32, *, n: Const[int] = 4, m: i32)"
    assert str(read(make("def k(a: f32, /): pass\n"))) == "k(a: f32, /)"
    assert str(read(make("def k(*, a: f32): pass\n"))) == "k(*, a: f32)"


def test_a_vector_s_default_is_a_tuple_of_lanes() -> None:
    k = make("def k(a: f32x2 = (1, 2.5), b: u8x4 = (0, 1, 2, 255)): pass\n")
    assert [p.default for p in read(k).params] == [(1, 2.5), (0, 1, 2, 255)]
    for default in ("(1, 2, 3)", "1.0", "(1, 1e39)", "(1, 'x')"):
        with pytest.raises(kaio.KernelSyntaxError, match="does not fit f32x2"):
            read(make(f"def k(a: f32x2 = {default}): pass\n"))


def test_defaults_that_fit() -> None:
    k = make(
        "def k(a: f32 = 1, b: f32 = 0.5, c: i8 = -128, d: u8 = 255, e: bool_ = True, f: f32 = float('inf'),"
        " g: i32 = np.int64(5), h: T = 2.5, i: f64 = 1e300, n: Const[int] = Size.SMALL, m: Const[float] = 2,"
        " t: Const[DType] = f32, s: Const[bool] = np.True_, z: i32 = Size.SMALL): pass\n",
        Size=Size,
    )
    found = {p.name: p.default for p in read(k).params}
    assert (found["a"], found["c"], found["n"], found["t"]) == (1, -128, 3, f32)


def test_no_default_is_told_from_none() -> None:
    assert read(make("def k(a: f32): pass\n")).params[0].default is MISSING


def test_no_parameters() -> None:
    assert str(read(make("def k(): pass\n"))) == "k()"


def test_each_parameter_has_its_place() -> None:
    [x, a] = read(make("def k(x: In[f32], a: f32): pass\n")).params
    assert x.place is not None
    assert a.place is not None
    assert (x.place.column, a.place.column) == (6, 18)


def test_the_classes_of_annotations() -> None:
    found = [p.annotation for p in read(make("def k(x: In[f32], a: f32, n: Const[int]): pass\n")).params]
    assert found == [BufferAnnotation("In", f32, 1), ScalarAnnotation(f32), ConstAnnotation(int)]


def test_nonsense_in_brackets_is_harmless_until_a_kernel_uses_it() -> None:
    wrong = In[float]
    with pytest.raises(KernelSyntaxError, match=r"`In\[float\]`: the element type must be a kaio dtype"):
        read(make("def k(x: wrong): pass\n", wrong=wrong))


def test_mistakes_of_parameters_and_of_the_body_are_told_together() -> None:
    k = make("def k(x: In, y: Out[f32]):\n    y[0] = nothing\n    raise x\n")
    with pytest.raises(KernelSyntaxError) as caught:
        read_kernel(k)
    assert [m.what for m in caught.value.mistakes] == [
        "`x: In` is not the type of a kernel's parameter",
        "there is no `nothing` here",
        "a kernel cannot `raise`",
    ]


@pytest.mark.parametrize(
    ("annotation", "way_out"),
    [
        ("int", "`a: i32` or `i64` is a value passed at launch, `a: Const[int]` a constant of the compilation"),
        ("np.int64", "write kaio's own: `a: i64`"),
        ("np.dtype('uint8')", "write kaio's own: `a: u8`"),
        ("tuple", "a buffer is `a: In[f32]`, `Out[f32]` or `InOut[f32]`, with `D2` for two dimensions: `In[f32, D2]`"),
        ("None", "a parameter is a buffer (`a: In[f32]`), a number (`a: i32`) or a constant (`a: Const[int]`)"),
        ("3", "a parameter is a buffer (`a: In[f32]`), a number (`a: i32`) or a constant (`a: Const[int]`)"),
        (
            "np.arange(3)",
            "a buffer is `a: In[f32]`, `Out[f32]` or `InOut[f32]`, with `D2` for two dimensions: `In[f32, D2]`",
        ),
        ("InOut", "say of what: `a: InOut[f32]`"),
    ],
)
def test_the_way_out_of_a_wrong_annotation(annotation: str, way_out: str) -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        read(make(f"def k(a: {annotation}): pass\n"))
    assert caught.value.mistakes[0].help == way_out
