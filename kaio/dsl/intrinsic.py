"""One name that a kernel may use is one record: its Python signature and doc, its types, its CUDA and its host rule.

    @intrinsic(typing=_nothing, cuda=_barrier_cuda, host=_barrier_host, suspends=True)
    def bar_sync() -> None:
        '''Wait until every thread of the block is here.'''

`typing(*argument_types)` gives a `Resolved`, or raises RuleError. A rule is called as ``rule(e, call, *values)`` with
the emitter, the resolved call and one value per argument; `emit` is a rule that both targets share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar

from kaio.dsl.values import Type
from kaio.errors import KaioError, is_message

__all__ = ["STANDARD", "Body", "Intrinsic", "Namespace", "Resolved", "in_place", "intrinsic", "primitive", "standard"]

__tracebackhide__ = is_message

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Body:
    """A function in the kernel language that a rule lowers in place, and the types that it is called with there."""

    function: FunctionType
    parameters: tuple[Type, ...]


@dataclass(frozen=True)
class Resolved:
    """What a call means: the types its arguments are converted to, its result, and what the rules need to know.

    A `body` is typed with the call, and its rule finds it as `call.body`; without a `result` the call gives what the
    body does. `rounded` is what the call gives, of narrower floats, where the rules compute `result` in f32.
    """

    operands: tuple[Type, ...]
    result: Type | None
    static: tuple[Any, ...] = ()
    body: Body | None = None
    rounded: Type | None = None


def in_place(e: Any, call: Any, *values: Any) -> Any:
    """The rule of a record that is written in the kernel language: its body, lowered where it is called."""
    return e.convert(e.inline(call.body, values), call.body.result, call.result)


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """The record of one intrinsic; called outside a kernel it says so.

    example: statements of a kernel that use it, over the buffers of `tests/dsl/test_records.py`, which runs them
    ptx: an instruction that the example's PTX holds
    since: the first architecture that has it (``sm_80``), empty where all have
    same_bits: whether both devices give the same bits
    constants: the parameters whose values are known when compiling: `typing` gets an ObjectType of each
    observes: whether a call sees what other threads write meanwhile, so that a loop of it may wait for them
    """

    name: str
    typing: Callable[..., Resolved] | None = None
    emit: Rule | None = None
    cuda: Rule | None = None
    host: Rule | None = None
    suspends: bool = False
    doc: str = ""
    signature: inspect.Signature | None = None
    example: str = ""
    ptx: str = ""
    since: str = ""
    same_bits: bool = True
    constants: tuple[str, ...] = ()
    observes: Callable[[Any], bool] | None = None

    @property
    def __name__(self) -> str:
        """The name, as a function has it."""
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise KaioError: it means something only inside a kernel."""
        raise KaioError(
            f"`kaio.{self.name}` means something only inside a kernel",
            help="call it in a function decorated with `@kaio.kernel`",
        )

    def rule(self, target: str) -> Rule:
        """The rule for a target, ``cuda`` or ``host``."""
        rule = self.emit or (self.cuda if target == "cuda" else self.host)
        assert rule is not None, f"{self.name} has no rule for {target}"
        return rule

    @property
    def call_line(self) -> str:
        """The line of the example that calls it."""
        return next((line for line in self.example.splitlines() if f"{self.name}(" in line), "").strip()

    def __repr__(self) -> str:
        return f"kaio.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class _Doc:
    """The doc of the class, and of a record what the reference says of it."""

    def __init__(self, of_class: str) -> None:
        self.of_class = of_class

    def __get__(self, record: Intrinsic | None, owner: type) -> str:
        from kaio.dsl.reference import describe

        return self.of_class if record is None else describe(record)


Intrinsic.__doc__ = _Doc(Intrinsic.__doc__ or "")  # type: ignore[assignment]

STANDARD: dict[Any, Intrinsic] = {}
"""Python's own functions that kernels may call (`min`, `math.sin`), each with its record."""

F = TypeVar("F", bound=Callable[..., Any])


def intrinsic(
    typing: Callable[..., Resolved],
    *,
    emit: Rule | None = None,
    cuda: Rule | None = None,
    host: Rule | None = None,
    suspends: bool = False,
    stands_for: tuple[Any, ...] = (),
    example: str = "",
    ptx: str = "",
    since: str = "",
    same_bits: bool = True,
    constants: tuple[str, ...] = (),
    observes: Callable[[Any], bool] | None = None,
) -> Callable[[F], F]:
    """Make a record from a signature and its doc.

    `stands_for` are functions of Python that mean the same. Who miscalls it is shown the example's line that calls it.
    """

    def record(function: F) -> F:
        doc = inspect.getdoc(function) or ""
        signature = inspect.signature(function)
        made = Intrinsic(
            function.__name__,
            typing,
            emit,
            cuda,
            host,
            suspends,
            doc,
            signature,
            example,
            ptx,
            since,
            same_bits,
            constants,
            observes,
        )
        for name, value in (("__signature__", made.signature), ("__module__", function.__module__)):
            object.__setattr__(made, name, value)
        for python in stands_for:
            STANDARD[python] = made
        return made  # type: ignore[return-value]

    return record


def standard(
    python: Any,
    typing: Callable[..., Resolved],
    emit: Rule,
    like: Callable[..., None],
    doc: str,
    *,
    name: str = "",
    example: str = "",
    ptx: str = "",
    same_bits: bool = True,
) -> Intrinsic:
    """Make the record of one of Python's own functions, with the signature of `like`; `name` where it has another."""
    record = Intrinsic(
        name or python.__name__,
        typing,
        emit,
        doc=doc,
        signature=inspect.signature(like),
        example=example,
        ptx=ptx,
        same_bits=same_bits,
    )
    STANDARD[python] = record
    return record


def primitive(name: str, *, cuda: Rule, host: Rule) -> Intrinsic:
    """A step that records are built of and that the targets spell differently; kernels cannot name it."""
    return Intrinsic(name, cuda=cuda, host=host)


@dataclass(frozen=True)
class Namespace:
    """`thread_idx` and its kin: three positions read as attributes."""

    name: str
    register: str
    doc: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)

    def __getattr__(self, attribute: str) -> int:
        if attribute in ("x", "y", "z"):
            raise KaioError(
                f"`kaio.{self.name}.{attribute}` means something only inside a kernel",
                help="read it in a function decorated with `@kaio.kernel`",
            )
        raise AttributeError(f"`{self.name}` has x, y and z, no {attribute}")

    def __repr__(self) -> str:
        return f"kaio.{self.name}"

    def __reduce__(self) -> str:
        return self.name
