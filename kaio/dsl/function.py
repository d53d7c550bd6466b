"""`@kaio.func`: a device function, which also runs as ordinary Python."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from kaio.errors import KaioError

__all__ = ["Func", "by_import_name", "func"]

P = ParamSpec("P")
R = TypeVar("R")


class Func(Generic[P, R]):
    """A Python function that kernels call; made by `@kaio.func`. `function` is the Python function itself."""

    __name__: str
    function: Callable[P, R]

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.__dict__["function"] = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it as ordinary Python."""
        return self.function(*args, **kwargs)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(f"device function `{self.__name__}` is immutable")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"<kaio.func {self.__name__}{inspect.signature(self.function)}>"

    def __reduce__(self) -> str:
        return by_import_name(self, "device function")

    def __copy__(self) -> Func[P, R]:
        return self  # immutable, as a Python function to `copy`

    def __deepcopy__(self, memo: dict[int, object]) -> Func[P, R]:
        return self


def func(function: Callable[P, R]) -> Func[P, R]:
    """Mark a function that kernels call.

    It is compiled into each kernel that uses it, for the types it is called with there; an annotation on a parameter
    (`x: kaio.f32`) fixes the type, and an argument of another type converts as in a store. Called from Python it
    runs as ordinary Python, so that it can be tested by itself.

    >>> import kaio
    >>> @kaio.func
    ... def lerp(a: kaio.f32, b: kaio.f32, t: kaio.f32):
    ...     return a + (b - a) * t
    >>> lerp(2.0, 4.0, 0.5)
    3.0
    """
    if not inspect.isfunction(function):
        raise KaioError(
            f"`@kaio.func` takes a Python function (got {function!r})",
            help="write it as `@kaio.func` above `def`, without arguments",
        )
    return Func(function)


def by_import_name(what: Any, noun: str) -> str:
    """The name under which `pickle` finds `what` again, or PicklingError where importing does not give `what`."""
    found: Any = sys.modules.get(what.__module__)
    for part in what.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not what:
        raise pickle.PicklingError(
            f"{noun} `{what.__name__}` cannot be pickled: it is pickled by its import name, and "
            f"`{what.__module__}.{what.__qualname__}` is not it\n"
            f"  help: define it at the top of a module, under its own name"
        )
    return str(what.__qualname__)
