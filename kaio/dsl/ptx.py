"""`kaio.ptx`: an instruction of PTX as a function that kernels call."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Never

from kaio.dsl import stores
from kaio.dsl.function import Func
from kaio.dsl.intrinsic import Body, Intrinsic, Resolved, in_place
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import BufferAnnotation
from kaio.dsl.values import NONE, ArrayType, BufferType, TupleType, Type, Weak, show
from kaio.dtypes import DType
from kaio.errors import KaioError, Place, UnsupportedFeatureError

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["InlinePtx", "ptx"]

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)(?:\[([\w, ]+)\])?\}")
_SINCE = re.compile(r"sm_\d+[af]?")
_EXAMPLE = 'for example `kaio.ptx("brev.b32 {out}, {a};", a=kaio.u32, out=kaio.u32)`'


@dataclass(frozen=True)
class _Form:
    """What inline PTX says: its text, its operands and results by name, and what it means on the host, if that is said.

    gives_tuple: whether results were named, so that a call gives a tuple
    place: where it was made
    """

    name: str
    text: str
    operands: Mapping[str, DType | BufferAnnotation]
    results: Mapping[str, DType]
    gives_tuple: bool
    host: FunctionType | None
    volatile: bool
    memory: bool
    place: Place


@dataclass(frozen=True, eq=False, repr=False)
class InlinePtx(Intrinsic):
    """An instruction of PTX as a function that kernels call; made by `kaio.ptx`."""

    form: _Form | None = None

    @property
    def text(self) -> str:
        """The PTX, with a placeholder in braces for each operand and result."""
        assert self.form is not None
        return self.form.text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `host` as ordinary Python; without one, raise KaioError: it means something only inside a kernel."""
        assert self.form is not None
        if self.form.host is not None:
            return self.form.host(*args, **kwargs)
        raise KaioError(
            f"`{self.name}` is inline PTX, which means something only inside a kernel",
            help="call it in a function decorated with `@kaio.kernel`, or say what it means: `host=function`",
        )

    def __repr__(self) -> str:
        return f"<kaio.ptx {self.text!r}>"

    def __reduce__(self) -> Never:
        raise KaioError(f"inline PTX `{self.name}` is neither copied nor pickled", help="make it where it is used")


def ptx(
    text: str,
    *,
    out: Any = None,
    since: str = "",
    host: Callable[..., Any] | None = None,
    volatile: bool = False,
    memory: bool = False,
    name: str = "",
    **operands: Any,
) -> InlinePtx:
    """Make an instruction of PTX a function that kernels call, without a change to kaio.

    In `text` each operand and each result stands as its name in braces, and other braces are PTX's own. Operands are
    keywords with their dtype, in the order of the call's arguments; `out` is the dtype of the one result, which is
    `{out}`, or a dict of several by name, of which a call gives a tuple. A `bool_` is a predicate, the 16-bit types are
    `.b16` registers, and PTX has no registers of 8 bits. An operand like `In[f32]` is a buffer or an array in shared
    memory, of which the text has the address of an element: `[{p[i]}]`, where `i` is another operand or a number.

    `since` is the first architecture that has it. `volatile=True` says that it does more than to compute its result
    from its operands (it reads a clock, it waits, it speaks to other threads): it is then neither dropped nor moved.
    `memory=True` says that it reads or writes memory. `name` is what messages call it, else its first word.

    `host` is what it means, as a Python function of the operands in the kernel language: the CPU device runs that, and
    so does a call outside a kernel. Without one the CPU device refuses it.

    KaioError if the text and the names do not fit; CompileError with the assembler's words, once a kernel that calls it
    is compiled for a GPU, if the text is no PTX.

    >>> import numpy as np, kaio
    >>> def select(a, b, selector):
    ...     both = kaio.u64(b) << 32 | a
    ...     word = kaio.u32(0)
    ...     for k in range(4):
    ...         word |= kaio.u32(both >> (selector >> 4 * k & 7) * 8 & 255) << 8 * k
    ...     return word
    >>> u32 = kaio.u32
    >>> prmt = kaio.ptx("prmt.b32 {out}, {a}, {b}, {s};", a=u32, b=u32, s=u32, out=u32, host=select)
    >>> @kaio.kernel
    ... def swap(x: kaio.InOut[kaio.u32]):
    ...     i = kaio.grid(1)
    ...     x[i] = prmt(x[i], 0, 0x0123)
    >>> x = kaio.Device("cpu").alloc_from(np.array([0x11223344], np.uint32))
    >>> swap.over(1).block(1).launch(x).wait()
    >>> hex(x.to_host()[0])
    '0x44332211'
    """
    given: Any = text
    if not isinstance(given, str) or not text.strip():
        raise KaioError(f"inline PTX is a text (got {text!r})", help=_EXAMPLE)
    if since and not _SINCE.fullmatch(str(since)):
        raise KaioError(f"`since` is the first architecture that has it (got {since!r})", help='for example `"sm_80"`')
    results = dict(out) if isinstance(out, Mapping) else {} if out is None else {"out": out}
    title = name or _first_word(text)
    for kind, named in (("operand", operands), ("result", results)):
        for key, dtype in named.items():
            if kind == "result" or not isinstance(dtype, BufferAnnotation):
                _check_dtype(title, kind, key, dtype)
    _check_placeholders(title, text, operands, results)
    form = _Form(
        title, text, operands, results, isinstance(out, Mapping), _checked_host(title, host, operands),
        bool(volatile), bool(memory), _caller(sys._getframe(1)),
    )  # fmt: skip
    parameters = [inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD) for key in operands]
    return InlinePtx(
        title, partial(_typing, form), cuda=partial(_cuda, form), host=partial(_host, form), since=since,
        doc=f"Inline PTX: `{text}`.", signature=inspect.Signature(parameters), form=form,
    )  # fmt: skip


# ---------------------------------------------------------------------- checks where it is made
def _first_word(text: str) -> str:
    """The instruction that a text begins with, behind declarations of registers, labels and predicates."""
    bare = re.sub(r"//.*|/\*.*?\*/|[A-Za-z_$%][\w$]*:(?!:)|@!?\s*%?\w+", "", _PLACEHOLDER.sub("_", text))
    words = re.findall(r"(?:^|[;{}\n])\s*([a-z][\w.:]*)", bare)
    return str(words[0]) if words else "inline PTX"


def _check_dtype(title: str, kind: str, key: str, dtype: Any) -> None:
    if not isinstance(dtype, DType):
        raise KaioError(f"{kind} `{key}` of inline PTX `{title}` is a dtype (got {dtype!r})", help=_EXAMPLE)
    if dtype.bits == 8 and dtype.kind != "b":
        raise KaioError(
            f"{kind} `{key}` of inline PTX `{title}` is {show(dtype)}, and PTX has no registers of 8 bits",
            help="make it a u16 or u32, and cast where it is called",
        )
    if dtype.kind not in "biuf" or dtype.bits > 64:
        raise KaioError(
            f"{kind} `{key}` of inline PTX `{title}` is {show(dtype)}, which is not one register",
            help="make an operand of each of its parts",
        )


def _names_in(text: str) -> dict[str, None]:
    """The operands and results that a text names, those in the indices of others too."""
    found: dict[str, None] = {}
    for name, indices in _PLACEHOLDER.findall(text):
        found |= dict.fromkeys([name, *(index for index in _indices(indices) if not index.isdigit())])
    return found


def _indices(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def _check_placeholders(title: str, text: str, operands: Mapping[str, Any], results: Mapping[str, DType]) -> None:
    both = operands.keys() & results.keys()
    if both:
        raise KaioError(f"`{min(both)}` of inline PTX `{title}` is an operand and a result", help="rename one of them")
    used = _names_in(text)
    known = [*results, *operands]
    for key in used:
        if key not in known:
            listed = f"it has {', '.join(f'`{{{name}}}`' for name in known)}" if known else "it has no operands"
            raise KaioError(f"inline PTX `{title}` has no operand for `{{{key}}}`", help=f"{listed}; {_EXAMPLE}")
    for key in known:
        if key not in used:
            raise KaioError(f"`{key}` is not in the text of inline PTX `{title}`", help=f"write it as `{{{key}}}`")
    for name, written in _PLACEHOLDER.findall(text):
        _check_address(title, operands, name, _indices(written))


def _check_address(title: str, operands: Mapping[str, Any], name: str, indices: list[str]) -> None:
    buffer = operands.get(name)
    if not isinstance(buffer, BufferAnnotation):
        if indices:
            raise KaioError(f"`{name}` of inline PTX `{title}` is no buffer, and has no elements", help=f"`{{{name}}}`")
        return
    if len(indices) != buffer.ndim:
        example = ", ".join("ijkl"[: buffer.ndim])
        raise KaioError(
            f"`{name}` of inline PTX `{title}` is {buffer!r}, of which the text has the address of an element",
            help=f"write `[{{{name}[{example}]}}]`, with operands or numbers as indices",
        )
    for index in indices:
        dtype = operands.get(index)
        if not index.isdigit() and not (isinstance(dtype, DType) and dtype.is_int):
            raise KaioError(f"index `{index}` of `{name}` in inline PTX `{title}` is no integer operand")


def _checked_host(title: str, host: Any, operands: Mapping[str, DType]) -> FunctionType | None:
    function = host.function if isinstance(host, Func) else host
    if function is None:
        return None
    if not inspect.isfunction(function):
        raise KaioError(
            f"`host` of inline PTX `{title}` is a Python function (got {host!r})", help="write it with `def`"
        )
    try:
        inspect.signature(function).bind(*operands)
    except TypeError:
        takes = f"({', '.join(operands)})"
        raise KaioError(
            f"`host` of inline PTX `{title}` takes its operands {takes}, and "
            f"`{function.__name__}{inspect.signature(function)}` does not",
            help=f"write it as `def {function.__name__}{takes}:`",
        ) from None
    return function


def _caller(frame: Any) -> Place:
    from kaio.dsl.compiler.parse import shown_file

    file, line = frame.f_code.co_filename, frame.f_lineno
    return Place(shown_file(file), line, text=linecache.getline(file, line).rstrip())


# ---------------------------------------------------------------------- calls
def _typing(form: _Form, *types: Type) -> Resolved:
    operands: list[Type] = []
    for (key, dtype), given in zip(form.operands.items(), types, strict=True):
        if isinstance(dtype, BufferAnnotation):
            _check_buffer(form, key, dtype, given)
            operands.append(given)
            continue
        operands.append(dtype)
        if not isinstance(given, DType | Weak):
            raise RuleError(f"operand `{key}` of `{form.name}` is {show(dtype)}, not {show(given)}")
        try:
            stores.store(given, dtype)
        except RuleError as problem:
            way_out = f"cast it: `kaio.{dtype!r}({key})`" if problem.help == stores.CAST_IT else problem.help
            raise RuleError(f"operand of `{form.name}`: {problem.what}", way_out) from None
    results = tuple(form.results.values())
    result = TupleType(results) if form.gives_tuple else results[0] if results else NONE
    body = Body(form.host, tuple(operands)) if form.host is not None else None
    return Resolved(tuple(operands), result, body=body)


def _check_buffer(form: _Form, key: str, annotation: BufferAnnotation, given: Type) -> None:
    """Whether an operand is the buffer or the shared array that the text means."""
    if not isinstance(given, BufferType | ArrayType) or given.space not in ("global", "shared"):
        raise RuleError(f"operand of `{form.name}` is {annotation!r}, not {show(given)}")
    if given.dtype is not annotation.dtype or given.ndim != annotation.ndim:
        raise RuleError(f"operand of `{form.name}` is {annotation!r}, not {show(given)}")
    if annotation.access != "In" and isinstance(given, BufferType) and given.access == "In":
        raise RuleError(
            f"`{key}` is an `In` buffer, which a kernel only reads, and `{form.name}` writes it",
            f"annotate it `{key}: InOut[{given.dtype!r}]`",
        )
    spaces = {space for space in ("global", "shared") if re.search(rf"\.{space}\b", form.text)}
    if len(spaces) == 1 and given.space not in spaces:
        raise RuleError(f"`{form.name}` is of {spaces.pop()} memory, and `{key}` is in {given.space} memory")


def _cuda(form: _Form, e: Any, call: TypedCall, *values: Any) -> Any:
    from kaio.dsl.compiler.cuda.assembly import assemble

    given = dict(zip(form.operands, zip(values, call.operands, strict=True), strict=True))
    operands: dict[str, Any] = {}  # by placeholder
    for match in _PLACEHOLDER.finditer(form.text):
        if match[0] not in operands and match[1] not in form.results:
            value, type_ = given[match[1]]
            operands[match[0]] = _address(form, e, value, type_, match, given) if match[2] else value
    places = [f"{{{key}}}" for key in form.results] + list(operands)
    text = _PLACEHOLDER.sub(lambda match: f"${places.index(match[0])}", form.text.replace("$", "$$"))
    marked = f"{e.target.note_written(e, form.name, form.text, form.place)}\n{text}"
    made = assemble(
        e,
        marked,
        [_register(e.llvm(dtype)) for dtype in form.results.values()],
        [e.b.bitcast(value, _register(value.type)) for value in operands.values()],
        volatile=form.volatile,
        memory=form.memory,
    )
    results = tuple(e.b.bitcast(v, e.llvm(dtype)) for v, dtype in zip(made, form.results.values(), strict=True))
    return results if form.gives_tuple else results[0] if results else None


def _address(form: _Form, e: Any, array: Any, type_: Type, match: re.Match[str], given: Mapping[str, Any]) -> Any:
    """The address of an element: of 32 bits in shared memory where the text says `.shared`, else of 64."""
    from llvmlite import ir as llvm

    indices = _indices(match[2])
    values = tuple(None if index.isdigit() else given[index][0] for index in indices)
    types = tuple(Weak("i", (int(index),)) if index.isdigit() else given[index][1] for index in indices)
    pointer = e.address(array, type_, values, TupleType(types), match[1])
    if pointer.type.addrspace != 3:
        return e.b.ptrtoint(pointer, llvm.IntType(64))
    if re.search(r"\.shared\b", form.text):
        return e.b.ptrtoint(pointer, llvm.IntType(32))
    return e.b.ptrtoint(e.b.addrspacecast(pointer, pointer.type.pointee.as_pointer()), llvm.IntType(64))


def _register(kind: Any) -> Any:
    """The LLVM type of a register: 16-bit floats are in those of 16-bit integers."""
    from llvmlite import ir as llvm

    is_register = isinstance(kind, llvm.IntType | llvm.FloatType | llvm.DoubleType)
    return kind if is_register else llvm.IntType(16)


def _host(form: _Form, e: Emitter, call: TypedCall, *values: Any) -> Any:
    if call.body is None:
        operands = ", ".join(form.operands)
        raise UnsupportedFeatureError(
            f"inline PTX `{form.name}` has no meaning on the CPU device",
            place=e.place,
            help=f"give it one in {form.place}: `host=function`, a Python function of ({operands}) in the kernel "
            "language",
        )
    return in_place(e, call, *values)
