"""Native code loaded into this process, by LLVM's JITLink."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from kaio.errors import InternalError
from kaio.forking import whole_lock

__all__ = ["Library"]

_LOADING = whole_lock(3)


class Library:
    """Object code, or LLVM IR, loaded into this process; `address(name)` of its exported functions.

    Unloaded when it is dropped.
    """

    _count = 0

    def __init__(self, code: bytes | str, exported: Sequence[str]) -> None:
        from llvmlite.binding import JITLibraryBuilder

        builder = JITLibraryBuilder()
        builder = builder.add_ir(code) if isinstance(code, str) else builder.add_object_img(code)
        builder.add_current_process()
        for name in exported:
            builder.export_symbol(name)
        with _LOADING:
            Library._count += 1
            try:
                self._tracker = builder.link(_engine(), f"kaio.{Library._count}")
            except RuntimeError as problem:
                raise InternalError(f"native code does not load: {problem}") from problem

    def address(self, name: str) -> int:
        """Where an exported function lies."""
        return int(self._tracker[name])


@functools.cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # JITLink puts all sections of an object side by side, as relative addresses between them need.
    return llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)
