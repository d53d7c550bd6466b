"""The block scheduler of the CPU device, compiled once for this machine. `scheduling.py` is what it does."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from kaio import host_abi as abi
from kaio import shadow_abi
from kaio.dsl.compiler.host.scheduling import worker
from kaio.forking import whole_lock

__all__ = ["kept_object", "scheduler_object"]

_LOCK = whole_lock(1)


def scheduler_object() -> bytes:
    """Object code that exports ``kaio_worker``; made once per machine and version of the compiler."""
    return kept_object(worker, "kaio_worker")


def kept_object(function: Callable[..., None], name: str) -> bytes:
    """Object code of a function in kaio's language that exports it as the C function `name`, made once."""
    with _LOCK:
        return _kept_object(function, name)


@functools.cache
def _kept_object(function: Callable[..., None], name: str) -> bytes:
    from kaio.dsl.compiler.host import native as machine
    from kaio.dsl.compiler.host.store import kept

    return kept("scheduler", f"{name}|{machine.host_key()}|{_compiler_digest()}", lambda: _compile(function, name))


def _compile(function: Callable[..., None], name: str) -> bytes:
    from kaio.dsl.compiler.host import native as machine
    from kaio.dsl.compiler.host.emit_host import emit_plain
    from kaio.dsl.compiler.middle import middle_of
    from kaio.dsl.compiler.pipeline import read

    front = read(function)
    module = emit_plain(middle_of(front, front.signature.specialise()).typed, name)
    return machine.compile_object(module.text, exported=module.exported)


def _compiler_digest() -> str:
    """What the object depends on beside the machine: all of kaio's compiler."""
    digest = hashlib.sha256()
    for path in (Path(abi.__file__), Path(shadow_abi.__file__), *sorted(Path(__file__).parents[2].rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
