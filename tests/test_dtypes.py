"""The element types as users meet them: by name, in help, and where a name is doubtful."""

from __future__ import annotations

import pydoc

import numpy as np
import pytest

import kaio
from kaio.dtypes import DTYPES, DType, dtype_of


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_a_dtype_is_found_by_its_numpy_dtype(dtype: DType) -> None:
    for what in (dtype, dtype.numpy, dtype.numpy.name, dtype.numpy.type):
        assert dtype_of(what) is dtype


@pytest.mark.parametrize("name", ["f32", "f64", "i16", "i32", "i64", "u16", "u32", "u64", "bool_"])
def test_a_dtype_is_found_by_its_own_name(name: str) -> None:
    assert dtype_of(name) is getattr(kaio, name)
    assert kaio.Device("cpu").alloc_zeros(3, name).dtype is getattr(kaio, name)


def refusal(what: object) -> kaio.KaioError:
    with pytest.raises(kaio.KaioError) as caught:
        dtype_of(what)
    return caught.value


def test_a_name_that_numpy_has_for_another_type_is_refused() -> None:
    assert str(refusal("i8")) == (
        "`'i8'` is 8 bits in kaio and 8 bytes in NumPy\n  help: write `kaio.i8`, or NumPy's name: `'int64'`"
    )
    assert "8 bytes in NumPy" in str(refusal("u8"))


def test_what_is_no_dtype_is_refused_without_numpys_own_error() -> None:
    problem = refusal("f33")
    assert str(problem) == "`'f33'` is not a dtype\n  help: use one of kaio's, for example `kaio.f32`"
    assert problem.__suppress_context__
    assert "datetime64" in str(refusal(np.datetime64))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_help_is_about_the_dtype_and_not_about_pythons_numbers(dtype: DType) -> None:
    text = pydoc.render_doc(dtype, renderer=pydoc.plaintext)
    assert dtype.__doc__ is not None
    assert dtype.__doc__ in text
    assert dtype.__doc__ not in (int.__doc__, float.__doc__)
    assert "__add__" not in text
    assert "as_integer_ratio" not in dir(dtype)
