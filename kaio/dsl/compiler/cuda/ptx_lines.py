"""Line information in PTX: `.loc` lines that point at the user's file, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.errors import Place
from kaio.source import Source

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Lines"]


class Lines:
    """The debug metadata of one module, whose kernel has this source; device functions in place have theirs."""

    def __init__(self, module: llvm.Module, source: Source) -> None:
        self.module, self.source = module, source
        self.files: dict[str, Any] = {}
        self.scopes: dict[tuple[str, str], Any] = {}
        self.locations: dict[tuple[int, int, str, str, int], Any] = {}
        file = self._file(source.filename)
        self.unit = module.add_debug_info(
            "DICompileUnit",
            {"language": llvm.DIToken("DW_LANG_C_plus_plus"), "file": file, "producer": "kaio", "runtimeVersion": 0,
             "isOptimized": True, "emissionKind": llvm.DIToken("DebugDirectivesOnly")},
            is_distinct=True,
        )  # fmt: skip
        module.add_named_metadata("llvm.dbg.cu").add(self.unit)
        flags = [llvm.IntType(32)(2), llvm.MetaDataString(module, "Debug Info Version"), llvm.IntType(32)(3)]
        module.add_named_metadata("llvm.module.flags").add(module.add_metadata(flags))

    def _file(self, path: str) -> Any:
        if path not in self.files:
            parts = Path("".join(letter if letter.isprintable() and letter != '"' else "_" for letter in path))
            self.files[path] = self.module.add_debug_info(
                "DIFile", {"filename": parts.name, "directory": str(parts.parent)}
            )
        return self.files[path]

    def _scope(self, source: Source) -> Any:
        key = source.filename, source.name
        if key not in self.scopes:
            where, line = self._file(source.filename), source.first_line
            type_ = self.module.add_debug_info("DISubroutineType", {"types": self.module.add_metadata([])})
            self.scopes[key] = self.module.add_debug_info(
                "DISubprogram",
                {"name": source.name, "linkageName": source.name, "file": where, "line": line, "type": type_,
                 "isLocal": False, "isDefinition": True, "scopeLine": line, "isOptimized": True, "unit": self.unit},
                is_distinct=True,
            )  # fmt: skip
        return self.scopes[key]

    def attach(self, function: llvm.Function) -> None:
        """Say that a function is the kernel."""
        function.set_metadata("dbg", self._scope(self.source))

    def locate(self, e: Emitter) -> None:
        """The following instructions come from `e.place`, through the calls that led there."""
        at = None
        for place, source in reversed([(e.place, e.source), *e.callers]):
            at = self._location(place, source, at)
        e.b.debug_metadata = at

    def _location(self, place: Place, source: Source, inlined_at: Any) -> Any:
        key = place.line, place.column, source.filename, source.name, id(inlined_at)
        if key not in self.locations:
            facts = {"line": max(place.line, 1), "column": place.column + 1, "scope": self._scope(source)}
            if inlined_at is not None:
                facts["inlinedAt"] = inlined_at
            self.locations[key] = self.module.add_debug_info("DILocation", facts)
        return self.locations[key]
