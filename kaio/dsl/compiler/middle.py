"""The stages that both machines share: translate and infer, made once for a specialisation."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.check import check, check_specialisation
from kaio.dsl.compiler.ir import Function, Typed
from kaio.dsl.compiler.own import is_own, translate_own
from kaio.dsl.compiler.parse import parse
from kaio.dsl.types import BufferAnnotation, ConstAnnotation, Specialisation, value_type
from kaio.dsl.values import BufferType, ObjectType, Type, Weak, index_type
from kaio.errors import KaioError, KernelTypeError, Mistake, Place, is_message

if TYPE_CHECKING:
    from kaio.dsl.compiler.pipeline import Front

__all__ = ["Middle", "middle_of"]

__tracebackhide__ = is_message

_UNKNOWN = object()


def middle_of(front: Front, specialisation: Specialisation) -> Middle:
    """The typed IR of a specialisation: made once for both machines, and anew when a captured value changed."""
    key = _identity(specialisation)
    found = front.middles.get(key)
    if found is None or not all(capture.is_current() for capture in found.captures.values()):
        found = front.middles[key] = Middle(front, specialisation)
    return found


def _identity(specialisation: Specialisation) -> tuple[Any, ...]:
    """A key that tells 1 from True and 0.0 from -0.0."""
    consts = tuple((name, type(value), repr(value)) for name, value in specialisation.consts)
    return consts, specialisation.dtypes, specialisation.index_bits


class Middle:
    """The stages that both machines share: translate and infer, for a kernel and the functions it calls."""

    typed: Typed

    def __init__(self, front: Front, specialisation: Specialisation) -> None:
        self.front, self.specialisation = front, specialisation
        self.index = index_type(specialisation.index_bits)
        self.captures: dict[tuple[int, str], Capture] = {}
        self.functions: dict[Any, Typed] = {}
        self.active: list[types.FunctionType] = []
        self.stages: dict[str, object] = {"source": front.source, "signature": front.signature}
        self.typed = self._type()

    def _type(self) -> Typed:
        __tracebackhide__ = is_message
        from kaio.dsl.compiler.translate import translate

        consts, dtypes = dict(self.specialisation.consts), dict(self.specialisation.dtypes)
        check_specialisation(self.front.function, self.front.source, self.front.signature, {**consts, **dtypes})
        translated = translate(self.front.function, self.front.source, consts, dtypes)
        self.stages["ir"] = translated.function
        self._note(translated.captures)
        arguments = self._argument_types()
        typed = self._infer(self.front.function, translated.function, arguments)
        self.stages["types"] = typed
        return typed

    def _argument_types(self) -> dict[str, Type]:
        found: dict[str, Type] = {}
        for param in self.front.signature.params:
            match param.annotation:
                case BufferAnnotation(access, _, ndim, strided) as annotation:
                    dtype = self.specialisation.dtype(annotation)
                    found[param.name] = BufferType(dtype, ndim, access, self.index, strided=strided)
                case ConstAnnotation():
                    pass
                case annotation:
                    found[param.name] = value_type(annotation, self.specialisation)
        return found

    def _infer(self, function: types.FunctionType, translated: Function, arguments: Mapping[str, Type]) -> Typed:
        from kaio.dsl.compiler.infer import infer

        __tracebackhide__ = is_message
        self.active.append(function)
        try:
            own = is_own(function.__code__.co_filename)
            return infer(translated, arguments, self.index, self._callee, {} if own else self.captures)
        finally:
            self.active.pop()

    def _callee(self, function: types.FunctionType, parameters: Mapping[str, Type], place: Place) -> Typed:
        """Type a device function for these argument types; a literal or an object is part of the specialisation."""
        self._check_recursion(function, place)
        key = function, tuple(parameters.items())
        if key not in self.functions:
            self.functions[key] = self._type_function(function, parameters)
        return self.functions[key]

    def _check_recursion(self, function: types.FunctionType, place: Place) -> None:
        if function in self.active:
            names = [f.__name__ for f in self.active[self.active.index(function) :]] + [function.__name__]
            what = f"recursion: {' → '.join(f'`{n}`' for n in names)}"
            raise KernelTypeError([Mistake(what, place, "write it as a loop; a kernel has no call stack")])

    def _type_function(self, function: types.FunctionType, parameters: Mapping[str, Type]) -> Typed:
        from kaio.dsl.compiler.translate import translate

        consts = {name: known for name, type_ in parameters.items() if (known := _known(type_)) is not _UNKNOWN}
        if is_own(function.__code__.co_filename):
            return self._infer(function, translate_own(function, consts), parameters)
        try:
            source = parse(function)
            check(function, source, None, consts)
        except KaioError as problem:
            raise KernelTypeError(problem.mistakes) from problem
        translated = translate(function, source, consts, dict(self.specialisation.dtypes))
        parts = ("__code__", "__defaults__", "__kwdefaults__")
        self._note(tuple(Capture(function, part, getattr(function, part)) for part in parts))
        self._note(translated.captures)
        return self._infer(function, translated.function, parameters)

    def _note(self, captures: tuple[Capture, ...]) -> None:
        for capture in captures:
            self.captures[id(capture.namespace), capture.name] = capture


def _known(type_: Type) -> Any:
    """The value of an argument that only the compiler sees."""
    if isinstance(type_, ObjectType):
        return type_.value
    if isinstance(type_, Weak) and type_.value is not None:
        return type_.value
    return _UNKNOWN
