"""Typed IR to PTX: the emitter's walk with CUDA's spelling, then libNVVM.

The PTX is fit to read: the entry has the kernel's name, parameters have theirs (`x_ptr`, `x_size`), a header says which
source and signature it came from, and `.loc` lines point at the user's file.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir, scalars, toolchain
from kaio.dsl.compiler.emit import Emitter
from kaio.dsl.compiler.options import CompileOptions
from kaio.dsl.compiler.target import Axis, BufferValue
from kaio.dsl.values import BufferType, Type
from kaio.dtypes import DType, bool_
from kaio.errors import Place

__all__ = ["Ptx", "emit_ptx"]

_DATA_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-"
    "f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
# (lowest value, one above the highest) of the special registers, which lets LLVM drop sign extensions
_RANGES = {"tid": (0, 1024), "ntid": (1, 1025), "ctaid": (0, 2**31 - 1), "nctaid": (1, 2**31 - 1)}
_RANGES_Z = {"tid": (0, 64), "ntid": (1, 65)}
_RANGES_YZ = {"ctaid": (0, 65535), "nctaid": (1, 65536)}
# opcodes and the predefined constant are reserved words for the assembler of PTX, and a name has more than `_`
_RESERVED_WORDS = (
    "abs add addc and atom bar bfe bfi bra brev brkpt brx call clz cnot copysign cos cp cvt cvta discard "
    "div ex2 exit fma fns ld ldu lg2 lop3 mad mad24 madc match max mbarrier membar min mov mul mul24 neg "
    "not or pmevent popc prefetch prmt rcp red redux rem ret rsqrt sad selp set setp shf shfl shl shr sin "
    "slct sqrt st sub subc suld sured sust szext tanh testp tex tld4 trap txq vote xor WARP_SZ _"
)
_RESERVED = frozenset(_RESERVED_WORDS.split())


@dataclass(frozen=True)
class Ptx:
    """PTX text, the LLVM text it came from, and the static shared memory it uses."""

    text: str
    llvm: str
    shared_nbytes: int

    def __str__(self) -> str:
        return self.text


def emit_ptx(typed: ir.Typed, target: str, options: CompileOptions, signature: str) -> Ptx:
    """Compile a typed kernel to PTX for an architecture such as ``sm_90``."""
    name = entry_name(typed.function.name)
    module = llvm.Module(name)
    module.triple, module.data_layout = "nvptx64-nvidia-cuda", _DATA_LAYOUT
    machine = CudaTarget(module, typed, options)
    machine.emit()
    text = str(module)
    flags = ("-opt=3", "-fma=0", *(("-ftz=1", "-prec-div=0", "-prec-sqrt=0") if options.fastmath else ()))
    ptx = toolchain.compile_nvvm(text, name, target, flags, '@"__nv_' in text)
    taken = {name, *map(str, module.globals)}
    readable = _readable(ptx, name, _distinct(machine.parameters, taken), signature, typed.function.source)
    return Ptx(readable, text, machine.shared_nbytes)


def spelled(name: str) -> str:
    """A name of Python's as PTX takes it: letters beyond ASCII by their number.

    >>> spelled("gain"), spelled("größe")
    ('gain', 'gr_f6__df_e')
    """
    return "".join(letter if letter.isascii() else f"_{ord(letter):x}_" for letter in name)


def entry_name(name: str) -> str:
    """The name of a kernel in PTX, where `_` alone is no name and `WARP_SZ` is a constant."""
    return spelled(name) + ("_0" if name in ("_", "WARP_SZ") else "")


def _distinct(parameters: list[str], taken: set[str]) -> list[str]:
    """The parameters' names in PTX, none of them a reserved word or the name of something else.

    Inside the entry a parameter would hide a shared array of its name, without a word from the assembler.
    """
    names: list[str] = []
    for name in map(spelled, parameters):
        while name in _RESERVED or name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names


class CudaTarget:
    """A CUDA kernel being filled."""

    name: Literal["cuda", "host"] = "cuda"
    checks_asserts = False

    def __init__(self, module: llvm.Module, typed: ir.Typed, options: CompileOptions) -> None:
        self.module, self.typed, self.options, self.contract = module, typed, options, options.contract
        self.parameters: list[str] = []
        self.shared_nbytes = 0
        self.lines = _Lines(module, typed)

    # ------------------------------------------------------------------ the kernel
    def emit(self) -> None:
        """Fill the module."""
        kinds: list[llvm.Type] = []
        for param, type_ in zip(self.typed.function.params, self.typed.arguments, strict=True):
            names, types = _flatten(param, type_) if type_ is not None else ([], [])
            self.parameters += names
            kinds += types
        function = llvm.Function(self.module, llvm.FunctionType(llvm.VoidType(), kinds), self.module.name)
        for argument, name in zip(function.args, self.parameters, strict=True):
            argument.name = name
        self.lines.attach(function)
        self._mark(function)
        e = Emitter(llvm.IRBuilder(function.append_basic_block("entry")), self)
        e.function(self.typed, self._arguments(e, function), lambda _: e.b.ret_void())

    def _arguments(self, e: Emitter, function: llvm.Function) -> tuple[Any, ...]:
        flat = iter(function.args)
        return tuple(_assemble(e, type_, flat) if type_ is not None else None for type_ in self.typed.arguments)

    def _mark(self, function: llvm.Function) -> None:
        self._annotate(function, "kernel", 1)
        if self.options.launch_bounds is not None:
            self._annotate(function, "maxntidx", self.options.launch_bounds)
        if self.options.max_registers is not None:
            self._annotate(function, "maxnreg", self.options.max_registers)
        pointer = llvm.IntType(8).as_pointer()
        used = llvm.GlobalVariable(self.module, llvm.ArrayType(pointer, 1), "llvm.used")
        used.linkage, used.section = "appending", "llvm.metadata"
        used.initializer = llvm.Constant(used.value_type, [function.bitcast(pointer)])
        version = self.module.add_metadata(
            [llvm.IntType(32)(n) for n in (2, 0, 3, 2)]
        )  # NVVM IR and its debug metadata
        self.module.add_named_metadata("nvvmir.version").add(version)

    def _annotate(self, function: llvm.Function, key: str, value: int) -> None:
        entry = self.module.add_metadata([function, llvm.MetaDataString(self.module, key), llvm.IntType(32)(value)])
        self.module.add_named_metadata("nvvm.annotations").add(entry)

    # ------------------------------------------------------------------ what CUDA spells its own way
    def locate(self, e: Emitter) -> None:
        """Say where in the source the following instructions come from."""
        self.lines.locate(e)

    def special_register(self, e: Emitter, register: str, axis: Axis) -> Any:
        low, high = _RANGES_YZ.get(register, _RANGES[register]) if axis != "x" else _RANGES[register]
        if axis == "z":
            low, high = _RANGES_Z.get(register, (low, high))
        value = e.call(f"llvm.nvvm.read.ptx.sreg.{register}.{axis}", llvm.IntType(32), [])
        value.set_metadata("range", self.module.add_metadata([llvm.IntType(32)(low), llvm.IntType(32)(high)]))
        return value

    def check_index(self, e: Emitter, index: Any, size: Any, axis: int, array: str, written: str) -> None:
        """Unchecked: the CPU device finds it."""

    def check(self, e: Emitter, holds: Any, text: str) -> None:
        """Unchecked."""

    def fail(self, e: Emitter, text: str) -> None:
        """Never reached: assertions are not compiled."""
        e.b.unreachable()

    def shared(self, e: Emitter, element: llvm.Type, count: int, name: str) -> Any:
        array = llvm.ArrayType(element, count)
        plain = spelled(f"{self.module.name}_{name}".replace("$", "_").replace(".", "_"))
        numbered = (f"{plain}_{number}" for number in itertools.count(1))  # in a function that is called twice
        unique = next(name for name in itertools.chain([plain], numbered) if name not in self.module.globals)
        made = llvm.GlobalVariable(self.module, array, unique, addrspace=3)
        made.linkage, made.initializer, made.align = "internal", llvm.Constant(array, llvm.Undefined), 16
        self.shared_nbytes = -(-self.shared_nbytes // 16) * 16 + count * _nbytes(element)
        return e.b.gep(made, [llvm.IntType(32)(0), llvm.IntType(32)(0)], inbounds=True)

    def local(self, e: Emitter, element: llvm.Type, count: int, name: str) -> Any:
        with e.b.goto_entry_block():
            made = e.b.alloca(llvm.ArrayType(element, count))
            made.align = min(16, _nbytes(element) * (1 << max(0, int(math.log2(count)))))
            return e.b.gep(made, [llvm.IntType(32)(0), llvm.IntType(32)(0)], inbounds=True)

    def load(self, e: Emitter, pointer: Any, read_only: bool) -> Any:
        loaded = e.b.load(pointer)
        if read_only:  # nobody writes it while the kernel runs: a launch checks that
            loaded.set_metadata("invariant.load", self.module.add_metadata([]))
        return loaded

    def decide(self, e: Emitter, condition: Any) -> bool | None:
        return None

    def note_range(self, e: Emitter, value: Any, start: Any, stop: Any, step: Any) -> None:
        """Nothing to prove here."""

    def suspend(self, e: Emitter, kind: str, **values: Any) -> Any:
        raise NotImplementedError("threads of a GPU wait by themselves")

    def atomic(self, e: Emitter, operation: str, pointer: Any, value: Any) -> Any:
        raise NotImplementedError("the records spell CUDA's atomics")

    def leave(self, e: Emitter) -> None:
        e.b.ret_void()


def _nbytes(element: llvm.Type) -> int:
    if isinstance(element, llvm.IntType):
        return max(1, int(element.width) // 8)
    return 4 if isinstance(element, llvm.FloatType) else 8


def _flatten(param: str, type_: Type) -> tuple[list[str], list[llvm.Type]]:
    """A buffer is a pointer and its sizes; a bool is a byte."""
    if isinstance(type_, BufferType):
        sizes = [f"{param}_size"] if type_.ndim == 1 else [f"{param}_size{axis}" for axis in range(type_.ndim)]
        index = scalars.llvm_type(type_.index)
        return [f"{param}_ptr", *sizes], [scalars.memory_type(type_.dtype).as_pointer(1), *[index] * type_.ndim]
    assert isinstance(type_, DType)
    return [param], [scalars.memory_type(type_)]


def _assemble(e: Emitter, type_: Type, flat: Any) -> Any:
    if isinstance(type_, BufferType):
        return BufferValue(next(flat), tuple(next(flat) for _ in range(type_.ndim)))
    value = next(flat)
    return scalars.from_memory(e, value, type_) if type_ is bool_ else value  # type: ignore[arg-type]


class _Lines:
    """Line information: `.loc` lines and nothing else, also inside device functions lowered in place."""

    def __init__(self, module: llvm.Module, typed: ir.Typed) -> None:
        self.module, self.typed = module, typed
        self.files: dict[str, Any] = {}
        self.scopes: dict[tuple[str, str], Any] = {}
        file = self.file(typed.function.source.filename)
        self.unit = module.add_debug_info(
            "DICompileUnit",
            {"language": llvm.DIToken("DW_LANG_C_plus_plus"), "file": file, "producer": "kaio", "runtimeVersion": 0,
             "isOptimized": True, "emissionKind": llvm.DIToken("DebugDirectivesOnly")},
            is_distinct=True,
        )  # fmt: skip
        module.add_named_metadata("llvm.dbg.cu").add(self.unit)
        flags = [llvm.IntType(32)(2), llvm.MetaDataString(module, "Debug Info Version"), llvm.IntType(32)(3)]
        module.add_named_metadata("llvm.module.flags").add(module.add_metadata(flags))

    def file(self, path: str) -> Any:
        if path not in self.files:
            parts = Path("".join(letter if letter.isprintable() and letter != '"' else "_" for letter in path))
            self.files[path] = self.module.add_debug_info(
                "DIFile", {"filename": parts.name, "directory": str(parts.parent)}
            )
        return self.files[path]

    def scope(self, file: str, function: str, line: int) -> Any:
        if (file, function) not in self.scopes:
            where = self.file(file)
            type_ = self.module.add_debug_info("DISubroutineType", {"types": self.module.add_metadata([])})
            self.scopes[file, function] = self.module.add_debug_info(
                "DISubprogram",
                {"name": function, "linkageName": function, "file": where, "line": line, "type": type_,
                 "isLocal": False, "isDefinition": True, "scopeLine": line, "isOptimized": True, "unit": self.unit},
                is_distinct=True,
            )  # fmt: skip
        return self.scopes[file, function]

    def attach(self, function: llvm.Function) -> None:
        source = self.typed.function.source
        function.set_metadata("dbg", self.scope(source.filename, source.name, source.first_line))

    def locate(self, e: Emitter) -> None:
        at = None
        for place, source in reversed([(e.place, e.source), *e.callers]):
            at = self.location(place, source, at)
        e.b.debug_metadata = at

    def location(self, place: Place, source: Any, inlined_at: Any) -> Any:
        facts = {
            "line": max(place.line, 1), "column": place.column + 1,
            "scope": self.scope(source.filename, source.name, source.first_line),
        }  # fmt: skip
        if inlined_at is not None:
            facts["inlinedAt"] = inlined_at
        return self.module.add_debug_info("DILocation", facts)


def _readable(ptx: str, entry: str, parameters: list[str], signature: str, source: Any) -> str:
    """libNVVM numbers the parameters; give them their names, and say what this is."""
    ptx = re.sub(rf"\b{entry}_param_(\d+)\b", lambda match: parameters[int(match[1])], ptx)
    header = f"{signature}\n{source.file}:{source.first_line}"
    return "".join(f"// {line}\n" for line in header.splitlines()) + ptx
