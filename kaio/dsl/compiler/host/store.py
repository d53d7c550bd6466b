"""What is made once per machine and kept: a folder of files named by the digest of their key.

The folder is ``$KAIO_CACHE_DIR``, else the user's cache folder. One that cannot be written costs time, nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["cache_folder", "kept"]

_DIGEST_NBYTES = 32


def cache_folder() -> Path:
    """Where kaio keeps what it made: `KAIO_CACHE_DIR`, or `kaio` in the cache folder of the user."""
    named = os.environ.get("KAIO_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "kaio" / "cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/kaio").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kaio"


def kept(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """The bytes kept under `kind` and `key`, made now if there are none. A damaged file counts as none."""
    path = cache_folder() / kind / hashlib.sha256(key.encode()).hexdigest()[:32]
    found = _read(path)
    if found is None:
        found = make()
        _write(path, found)
    return found


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, body = content[:_DIGEST_NBYTES], content[_DIGEST_NBYTES:]
    return body if hashlib.sha256(body).digest() == digest else None


def _write(path: Path, body: bytes) -> None:
    """Write beside and rename, so that nobody ever reads half a file."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink()
            raise
