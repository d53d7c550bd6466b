"""What is said where something is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kaio
from kaio import KaioError, KernelTypeError, LaunchError

__all__ = ["first_mistake", "refusal"]


def refusal(call: Callable[..., object], *args: Any, error: type[KaioError] = LaunchError, **kwargs: Any) -> str:
    """The whole text of the error that a call ends in."""
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def first_mistake(
    made: kaio.Kernel, target: str = "cpu", *, error: type[KaioError] = KernelTypeError, **given: Any
) -> str:
    """What is wrong first with a kernel that does not compile, and in a second line the way out."""
    with pytest.raises(error) as caught:
        made.compile(target, **given)
    found = caught.value.mistakes[0]
    return f"{found.what}\n{found.help}"
