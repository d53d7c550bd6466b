"""The block scheduler of the CPU device, compiled once for this machine. `scheduling.py` is what it does."""

from __future__ import annotations

import functools
import hashlib
import threading
from pathlib import Path

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
    from kaio.dsl.compiler.middle import middle_of
    from kaio.dsl.compiler.pipeline import read

    front = read(worker)
    module = emit_plain(middle_of(front, front.signature.specialise()).typed, "kaio_worker")
    return machine.compile_object(module.text, exported=module.exported)


def _compiler_digest() -> str:
    """What the object depends on beside the machine: all of kaio's compiler."""
    digest = hashlib.sha256()
    for path in (Path(abi.__file__), *sorted(Path(__file__).parents[2].rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
