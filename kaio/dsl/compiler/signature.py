"""signature: from a kernel's annotations and defaults to its `Signature`, with every mistake found at once."""

from __future__ import annotations

import ast
import enum
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

import kaio.dsl.types
import kaio.dtypes
from kaio.dsl.records import enum_type, parameter_type
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import (
    MISSING,
    Annotation,
    BufferAnnotation,
    Const,
    ConstAnnotation,
    EnumAnnotation,
    In,
    InOut,
    Out,
    Param,
    ParamKind,
    RecordAnnotation,
    ScalarAnnotation,
    Signature,
    WrongAnnotation,
    close_dtype,
    spelled,
)
from kaio.dtypes import DType, is_float
from kaio.errors import KernelSyntaxError, Mistake, did_you_mean
from kaio.record_classes import is_record
from kaio.rounding import fits_float
from kaio.source import Source

__all__ = ["read_annotation", "signature"]

_BUFFERS = {In: "In", Out: "Out", InOut: "InOut"}


def signature(function: types.FunctionType, source: Source) -> Signature:
    """The kernel's parameters. Raises one `KernelSyntaxError` with every mistake of the parameter list."""
    found, mistakes = read_signature(function, source)
    if mistakes:
        raise KernelSyntaxError(mistakes)
    return found


def read_signature(function: types.FunctionType, source: Source) -> tuple[Signature, list[Mistake]]:
    """What can be read of the kernel's parameters, and the mistakes in them, in source order."""
    params: list[Param] = []
    mistakes = list(_refused_forms(source))
    type_variables: dict[str, TypeVar] = {}
    for argument, kind, default_node in _arguments(source.node):
        default = _default(function, argument.arg, kind)
        annotation = read_annotation(function, source, argument)
        if isinstance(annotation, Mistake):
            mistakes.append(annotation)
            continue
        params.append(Param(argument.arg, annotation, default, source.place(argument), kind))
        wrong = _wrong_type_variable(annotation, type_variables) or _wrong_default(params[-1])
        if wrong is not None:
            node = default_node if default_node is not None and default is not MISSING else argument
            mistakes.append(Mistake(wrong.what, source.place(node), wrong.help))
    mistakes += _returned(function, source)
    return Signature(source.name, tuple(params)), sorted(mistakes, key=_position)


def _position(mistake: Mistake) -> tuple[int, int]:
    return (mistake.place.line, mistake.place.column) if mistake.place else (0, 0)


# --- the parameter list -----------------------------------------------------------------------------------------------


def _arguments(node: ast.FunctionDef | ast.Lambda) -> Iterator[tuple[ast.arg, ParamKind, ast.expr | None]]:
    """Each parameter with how it may be passed and the node of its default."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    for index, argument in enumerate(positional):
        kind: ParamKind = "positional" if index < len(arguments.posonlyargs) else "any"
        yield argument, kind, arguments.defaults[index - missing] if index >= missing else None
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument, "keyword", default


def _refused_forms(source: Source) -> Iterator[Mistake]:
    for star, argument in (("*", source.node.args.vararg), ("**", source.node.args.kwarg)):
        if argument is not None:
            yield Mistake(
                f"`{star}{argument.arg}`: a kernel has a fixed list of parameters",
                source.place(argument),
                "name each parameter and annotate it",
            )
    if isinstance(source.node, ast.Lambda):
        yield Mistake("a lambda cannot be a kernel", source.place(source.node), "write a `def`")


def _default(function: types.FunctionType, name: str, kind: ParamKind) -> Any:
    if kind == "keyword":
        return (function.__kwdefaults__ or {}).get(name, MISSING)
    code, defaults = function.__code__, function.__defaults__ or ()
    index = code.co_varnames.index(name) - (code.co_argcount - len(defaults)) if name in code.co_varnames else -1
    return defaults[index] if index >= 0 else MISSING


def _returned(function: types.FunctionType, source: Source) -> Iterator[Mistake]:
    node = source.node.returns if isinstance(source.node, ast.FunctionDef) else None
    if node is not None and function.__annotations__.get("return") not in (None, "None", type(None)):
        yield Mistake(
            f"a kernel returns nothing, and `{source.name}` is annotated `-> {ast.unparse(node)}`",
            source.place(node),
            "write results into a parameter annotated `Out[...]`, and `-> None` or nothing here",
        )


# --- annotations ------------------------------------------------------------------------------------------------------


def read_annotation(function: types.FunctionType, source: Source, argument: ast.arg) -> Annotation | Mistake:
    """What one parameter's annotation means, or the mistake in it."""
    name = argument.arg
    if argument.annotation is None or name not in function.__annotations__:
        is_self = name in ("self", "cls") and argument is next(_arguments(source.node))[0]
        what = f"a kernel has no `{name}`" if is_self else f"parameter `{name}` has no annotation"
        way_out = (
            "make it a function outside the class" if is_self else f"for example `{name}: In[f32]` or `{name}: i32`"
        )
        return Mistake(what, source.place(argument), way_out)
    place = source.place(argument.annotation)
    value = function.__annotations__[name]
    while isinstance(value, str):
        names = _names_around(function)
        try:
            value = eval(value, function.__globals__, names)  # annotations are the user's own code
        except Exception as problem:
            what = f"the annotation `{value}` of `{name}` cannot be read: {type(problem).__name__}: {problem}"
            return Mistake(what, place, _unreadable(problem, {**function.__globals__, **names}))
    meaning = _meaning(value, name)
    return Mistake(meaning.what, place, meaning.help) if isinstance(meaning, WrongAnnotation) else meaning


def _unreadable(problem: Exception, names: dict[str, Any]) -> str:
    missing = problem.name if isinstance(problem, NameError) else None
    if missing in kaio.dsl.types.__all__ or missing in kaio.dtypes.__all__:
        return f"import it: `from kaio import {missing}`"
    meant = did_you_mean(missing or "", [*names, *kaio.dtypes.__all__])
    return meant or "use names that are known where the kernel is defined"


def _names_around(function: types.FunctionType) -> dict[str, Any]:
    """The names of the functions around: those of its closure, and, while they run, all others too.

    (Under `from __future__ import annotations` a name that only an annotation uses is not in the closure.)
    """
    names: dict[str, Any] = {}
    code: types.CodeType | None = function.__code__
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if any(constant is code for constant in frame.f_code.co_consts) and frame.f_globals is function.__globals__:
            names = {**frame.f_locals, **names}
            code = frame.f_code
        frame = frame.f_back
    names |= {t.__name__: t for t in getattr(function, "__type_params__", ())}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return names


def _meaning(value: Any, name: str) -> Annotation | WrongAnnotation:
    while hasattr(value, "__metadata__") or type(value).__name__ == "TypeAliasType":
        value = value.__origin__ if hasattr(value, "__metadata__") else value.__value__
    match value:
        case BufferAnnotation():
            return _wrong_constraints(value.dtype) or value
        case WrongAnnotation() | ConstAnnotation():
            return value
        case DType():
            return ScalarAnnotation(value)
        case TypeVar():
            return _wrong_constraints(value) or ScalarAnnotation(value)
    if is_record(value):
        return _checked(parameter_type, value) or RecordAnnotation(value)
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return _checked(enum_type, value) or EnumAnnotation(value)
    return WrongAnnotation(f"`{name}: {spelled(value)}` is not the type of a kernel's parameter", _way_out(value, name))


def _checked(type_of: Callable[[Any], object], value: type) -> WrongAnnotation | None:
    """What a kernel cannot take of a class that annotates a parameter."""
    try:
        type_of(value)
    except RuleError as problem:
        return WrongAnnotation(problem.what, problem.help or "pass its fields one by one")
    return None


def _way_out(value: Any, name: str) -> str:
    if value in _BUFFERS if isinstance(value, type) else False:
        return f"say of what: `{name}: {_BUFFERS[value]}[f32]`"
    if value is Const:
        return f"say of what: `{name}: Const[int]`"
    if value is int:
        return f"`{name}: i32` or `i64` is a value passed at launch, `{name}: Const[int]` a constant of the compilation"
    if value is float:
        return f"`{name}: f32` or `f64` is a value passed at launch, `{name}: Const[float]` a constant"
    if value is bool:
        return f"`{name}: bool_` is a value passed at launch, `{name}: Const[bool]` a constant of the compilation"
    if value is DType:
        return f"`{name}: Const[DType]` takes a dtype as a constant"
    close = close_dtype(value)
    if close:
        return f"write kaio's own: `{name}: {close}`"
    looks_like_a_buffer = any(word in spelled(value).lower() for word in ("array", "buffer", "tensor", "list", "tuple"))
    if looks_like_a_buffer:
        return f"a buffer is `{name}: In[f32]`, `Out[f32]` or `InOut[f32]`, with `D2` for two dimensions: `In[f32, D2]`"
    return f"a parameter is a buffer (`{name}: In[f32]`), a number (`{name}: i32`) or a constant (`{name}: Const[int]`)"


# --- type variables ---------------------------------------------------------------------------------------------------


def _wrong_constraints(dtype: DType | TypeVar) -> WrongAnnotation | None:
    if isinstance(dtype, DType):
        return None
    name, constraints = dtype.__name__, dtype.__constraints__
    if constraints and all(isinstance(constraint, DType) for constraint in constraints):
        return None
    strange = [spelled(c) for c in constraints if not isinstance(c, DType)]
    what = (
        f"type variable `{name}` may be `{strange[0]}`, which is not a kaio dtype"
        if strange
        else f"type variable `{name}` does not list the dtypes that it stands for"
    )
    return WrongAnnotation(what, f'for example `{name} = TypeVar("{name}", f32, f64)`')


def _wrong_type_variable(annotation: Annotation, known: dict[str, TypeVar]) -> WrongAnnotation | None:
    """Two type variables of one name would be taken for one."""
    dtype = getattr(annotation, "dtype", None)
    if isinstance(dtype, TypeVar) and known.setdefault(dtype.__name__, dtype) is not dtype:
        name = dtype.__name__
        return WrongAnnotation(f"two different type variables are called `{name}`", "give each a name of its own")
    return None


# --- defaults ---------------------------------------------------------------------------------------------------------


def _wrong_default(param: Param) -> WrongAnnotation | None:
    default, annotation = param.default, param.annotation
    if default is MISSING:
        return None
    if isinstance(annotation, BufferAnnotation):
        return WrongAnnotation(f"buffer `{param.name}` cannot have a default", "pass the buffer at each launch")
    if isinstance(annotation, ConstAnnotation):
        if _fits_const(default, annotation.of):
            return None
        kind = "a dtype" if annotation.of is DType else f"an {annotation.of.__name__}"
        if issubclass(annotation.of, enum.Enum):
            kind = f"a member of {annotation.of.__name__}"
        kind = kind.replace("an f", "a f").replace("an b", "a b")
        what = f"the default of `{param.name}: {annotation!r}` must be {kind} (got {default!r})"
        return WrongAnnotation(what, f"change the default, or the annotation of `{param.name}`")
    if isinstance(annotation, EnumAnnotation | RecordAnnotation):
        return _wrong_default_value(param, annotation)
    dtype = annotation.dtype
    dtypes = (dtype,) if isinstance(dtype, DType) else dtype.__constraints__
    unfit = [dtype for dtype in dtypes if not _fits_dtype(default, dtype)]
    if not unfit:
        return None
    what = f"the default {default!r} of `{param.name}` does not fit {unfit[0]!r}"
    if unfit[0].kind in "iu" and _is_number(default, "i"):
        what += f" ({unfit[0].range[0]} to {unfit[0].range[1]})"
    return WrongAnnotation(what, f"change the default, or the annotation of `{param.name}`")


def _wrong_default_value(param: Param, annotation: EnumAnnotation | RecordAnnotation) -> WrongAnnotation | None:
    if isinstance(param.default, annotation.of):
        return None
    noun = "a member of " if isinstance(annotation, EnumAnnotation) else "a "
    what = f"the default of `{param.name}: {annotation!r}` must be {noun}{annotation!r} (got {param.default!r})"
    return WrongAnnotation(what, f"change the default, or the annotation of `{param.name}`")


def _is_number(value: Any, kinds: str) -> bool:
    """Whether the value is a Python or NumPy number of these kinds (``b i f``)."""
    kind = "b" if isinstance(value, bool | np.bool_) else "i" if isinstance(value, int | np.integer) else "f"
    is_number = isinstance(value, int | float | np.bool_ | np.integer | np.floating)
    return (is_number or (isinstance(value, np.generic) and is_float(value.dtype))) and kind in kinds


def _fits_const(value: Any, of: type) -> bool:
    if of is DType:
        return isinstance(value, DType)
    if issubclass(of, enum.Enum):
        return isinstance(value, of)
    return _is_number(value, {"int": "i", "float": "if", "bool": "b"}[of.__name__])


def _fits_dtype(value: Any, dtype: DType) -> bool:
    if dtype.kind == "c":
        parts = (value.real, value.imag) if isinstance(value, complex | np.complexfloating) else (value,)
        return all(_fits_dtype(part, dtype.parts[0][1]) for part in parts)
    if dtype.parts:  # of a vector: what a launch takes
        is_lanes = isinstance(value, tuple | list) and len(value) == len(dtype.parts)
        return is_lanes and all(map(_fits_dtype, value, (part for _, part in dtype.parts)))
    if dtype.kind == "b":
        return _is_number(value, "b")
    if dtype.is_int:
        low, high = dtype.range
        return _is_number(value, "bi") and low <= int(value) <= high
    if not _is_number(value, "bif"):
        return False
    return fits_float(dtype, float(value) if isinstance(value, np.generic) else value)
