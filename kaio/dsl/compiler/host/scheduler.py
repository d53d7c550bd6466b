"""The block scheduler of the CPU device, compiled once for this machine. `scheduling.py` is what it does."""

from __future__ import annotations

import functools
import hashlib
import threading
from pathlib import Path
from typing import Any

from kaio import host_abi as abi
from kaio.dsl.compiler.host.scheduling import worker

__all__ = ["scheduler_object"]

_LOCK = threading.Lock()


def scheduler_object() -> bytes:
    """Object code that exports ``kaio_worker``; made once per machine and version of the compiler."""
    with _LOCK:
        return _scheduler_object()


@functools.cache
def _scheduler_object() -> bytes:
    from kaio.dsl.compiler.host import native as machine
    from kaio.dsl.compiler.host.store import kept

    return kept("scheduler", f"{machine.host_key()}|{_compiler_digest()}", _compile)


def _compile() -> bytes:
    from kaio.dsl.compiler.host import native as machine
    from kaio.dsl.compiler.host.emit_host import emit_plain

    module = emit_plain(_typed(worker), "kaio_worker")
    return machine.compile_object(module.text, exported=module.exported)


def _typed(function: Any) -> Any:
    """Type a function by its annotations, and those that it calls by their arguments."""
    from kaio.dsl import index as _ranges  # noqa: F401  (the records of `range` and `min`)
    from kaio.dsl import numeric  # noqa: F401
    from kaio.dsl.compiler.infer import infer
    from kaio.dsl.compiler.parse import parse
    from kaio.dsl.compiler.signature import signature
    from kaio.dsl.compiler.translate import translate
    from kaio.dsl.values import BufferType, index_type

    index = index_type(32)

    typed: dict[Any, Any] = {}  # calls are typed again each time that a loop around them is

    def type_callee(callee: Any, types: Any, place: Any) -> Any:
        key = callee, tuple(types.items())
        if key not in typed:
            typed[key] = infer(translate(callee, parse(callee), {}).function, types, index, type_callee, {})
        return typed[key]

    source = parse(function)
    arguments = signature(function, source).specialise().arguments
    types = {a.name: a.dtype if a.ndim is None else BufferType(a.dtype, a.ndim, a.access, index) for a in arguments}
    return infer(translate(function, source, {}).function, types, index, type_callee, {})


def _compiler_digest() -> str:
    """What the object depends on beside the machine: all of kaio's compiler."""
    digest = hashlib.sha256()
    for path in (Path(abi.__file__), *sorted(Path(__file__).parents[2].rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
