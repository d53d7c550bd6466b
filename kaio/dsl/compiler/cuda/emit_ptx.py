"""Typed IR to PTX: the emitter's walk with CUDA's spelling, then libNVVM.

The PTX is fit to read: the entry has the kernel's name, parameters have theirs (`x_ptr`, `x_size`), a header says which
source and signature it came from, and `.loc` lines point at the user's file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.cuda import ptx_memory, toolchain
from kaio.dsl.compiler.cuda.assembly import Written, mark
from kaio.dsl.compiler.cuda.ptx_faults import STATE, FaultExit
from kaio.dsl.compiler.cuda.ptx_lines import Lines
from kaio.dsl.compiler.cuda.ptx_names import distinct, entry_name, variable_name
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.checks import Checks, Sites
from kaio.dsl.compiler.emission.constant_arrays import ConstantArrays
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.compiler.emission.emit import Emitter
from kaio.dsl.compiler.emission.notes import Notes
from kaio.dsl.compiler.emission.orders import Orders
from kaio.dsl.compiler.emission.scalars import extent, nbytes
from kaio.dsl.compiler.emission.target import Axis, BufferValue
from kaio.dsl.compiler.loop_nest import Loop
from kaio.dsl.compiler.options import CompileOptions
from kaio.dsl.records import scalars_of
from kaio.dsl.sync import named_bar_sync
from kaio.dsl.values import ArrayType, BufferType, Type
from kaio.errors import Place
from kaio.print_abi import Line
from kaio.program import SHARED_ALIGNMENT, UNCHECKED, Build, DynamicArray, Site, aligned
from kaio.source import Source

__all__ = ["Ptx", "emit_ptx"]

_STATIC_SHARED_NBYTES = 48 * 1024  # PTX has no more static shared memory, whatever the GPU
_AXES: tuple[Axis, Axis, Axis] = ("x", "y", "z")

_DATA_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-"
    "f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
# (lowest value, one above the highest) of the special registers, which lets LLVM drop sign extensions
_RANGES = {"tid": (0, 1024), "ntid": (1, 1025), "ctaid": (0, 2**31 - 1), "nctaid": (1, 2**31 - 1)}
_RANGES_Z = {"tid": (0, 64), "ntid": (1, 65)}
_RANGES_YZ = {"ctaid": (0, 65535), "nctaid": (1, 65536)}


@dataclass(frozen=True)
class Ptx:
    """PTX text, the LLVM text it came from, and what goes with it.

    shared_nbytes, has_static, dynamic: the shared memory it uses (see `CudaProgram`)
    written: inline PTX by its marks
    prints: its lines
    sites: what its checks find, if it has any
    """

    text: str
    llvm: str
    shared_nbytes: int
    has_static: bool
    dynamic: tuple[DynamicArray, ...]
    written: Mapping[int, Written] = field(default_factory=dict, repr=False)
    prints: tuple[Line, ...] = field(default=(), repr=False)
    sites: tuple[Site, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text


def emit_ptx(typed: ir.Typed, target: str, options: CompileOptions, signature: str, build: Build = UNCHECKED) -> Ptx:
    """Compile a typed kernel to PTX for an architecture such as ``sm_90``; `build` says what is checked."""
    name = entry_name(typed.function.name)
    machine = _emitted(name, typed, options, target, build, has_static=True)
    if machine.shared_nbytes > _STATIC_SHARED_NBYTES:
        machine = _emitted(name, typed, options, target, build, has_static=False)
    text = str(machine.module)
    flags = ("-opt=3", "-fma=0", *(("-ftz=1", "-prec-div=0", "-prec-sqrt=0") if options.fastmath else ()))
    ptx = toolchain.compile_nvvm(text, name, target, flags, '@"__nv_' in text)
    taken = {name, *map(str, machine.module.globals)}
    readable = _readable(ptx, name, distinct(machine.parameters, taken), signature, typed.function.source)
    dynamic = machine.inputs.dynamic
    return Ptx(
        readable,
        text,
        machine.shared_nbytes,
        machine.has_static,
        dynamic,
        machine.written,
        machine.sites.prints.found,
        tuple(machine.sites.found) if machine.checks else (),
    )


def _emitted(
    name: str, typed: ir.Typed, options: CompileOptions, target: str, build: Build, *, has_static: bool
) -> CudaTarget:
    module = llvm.Module(name)
    module.triple, module.data_layout = "nvptx64-nvidia-cuda", _DATA_LAYOUT
    machine = CudaTarget(module, typed, options, target, build, has_static)
    machine.emit()
    return machine


class CudaTarget(Checks):
    """A CUDA kernel being filled; without `has_static` its static arrays lie in dynamic shared memory."""

    name: Literal["cuda", "host"] = "cuda"

    def __init__(
        self,
        module: llvm.Module,
        typed: ir.Typed,
        options: CompileOptions,
        architecture: str,
        build: Build,
        has_static: bool = True,
    ) -> None:
        self.architecture, self.checks, self.sites = architecture, build.check != "off", Sites()
        self.failed: FaultExit | None = None
        self.module, self.typed, self.options, self.contract = module, typed, options, options.contract
        self.notes, self.orders = Notes(), Orders()
        params = zip(typed.function.params, typed.arguments, strict=True)
        self.inputs, self.has_static = Inputs(typed), has_static
        self.parameters = [name for param, type_ in params for name in _parameter_names(param, type_)]
        self.parameters += self.inputs.names() + ["fault_state"] * self.checks
        self.shared_nbytes = 0
        self._constants = ConstantArrays(module, space=4)
        self.scratches: dict[int, Any] = {}
        self.lines = Lines(module, typed.function.source)
        self.written: dict[int, Written] = {}

    # ------------------------------------------------------------------ the kernel
    def emit(self) -> None:
        """Fill the module."""
        kinds = argument_types(self.inputs.types, space=1) + [STATE] * self.checks
        function = llvm.Function(self.module, llvm.FunctionType(llvm.VoidType(), kinds), self.module.name)
        for argument, name in zip(function.args, self.parameters, strict=True):
            argument.name = name
        self.lines.attach(function)
        self._mark(function)
        e = Emitter(llvm.IRBuilder(function.append_basic_block("entry")), self)
        own = function.args
        if self.checks:
            *own, state = own
            self.failed = FaultExit(state, traps=_counts_warps(self.typed))
        e.function(self.typed, self.inputs.arguments(e, own), lambda _: e.b.ret_void())
        if self.failed is not None:
            self.failed.emit(e)

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
    def has(self, architecture: str) -> bool:
        """One with a letter (``sm_90a``) is had by itself only; another by all that came later."""
        if not architecture[-1].isdigit():
            return self.architecture == architecture
        return int(re.sub(r"\D", "", self.architecture)) >= int(architecture[3:])

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

    def fault(self, e: Emitter, site: Site, index: Any = None, size: Any = None) -> None:
        assert self.failed is not None
        self.failed.leave(e, self.sites.number(site), index, size)

    def passed(self, e: Emitter) -> None:
        if self.failed is not None:
            self.failed.count(e)

    def fault_state(self, e: Emitter) -> Any:
        return None if self.failed is None else self.failed.state

    def shared(self, e: Emitter, array: ArrayType, name: str) -> Any:
        element, count = extent(array)
        return self._place(e, self._reserve(element, count, name), element)

    def scratch(self, e: Emitter, part: int, count: int) -> Any:
        word = llvm.IntType(32)
        if part not in self.scratches:
            self.scratches[part] = self._reserve(word, count, f"scratch_{part}")
        return self._place(e, self.scratches[part], word)

    def _reserve(self, element: llvm.Type, count: int, name: str) -> Any:
        """A static array: a variable of its own, or an offset into dynamic shared memory."""
        offset = aligned(self.shared_nbytes)
        self.shared_nbytes = offset + count * nbytes(element)
        if not self.has_static:
            return llvm.IntType(32)(offset)
        array = llvm.ArrayType(element, count)
        # in a function that is called twice there are two
        unique = variable_name(f"{self.module.name}_{name}", self.module.globals)
        made = llvm.GlobalVariable(self.module, array, unique, addrspace=3)
        made.linkage, made.initializer = "internal", llvm.Constant(array, llvm.Undefined)
        made.align = SHARED_ALIGNMENT
        return made

    def _place(self, e: Emitter, reserved: Any, element: llvm.Type) -> Any:
        if not self.has_static:
            return self._in_dynamic(e, reserved, element)
        return e.b.gep(reserved, [llvm.IntType(32)(0), llvm.IntType(32)(0)], inbounds=True)

    def dynamic_shared(self, e: Emitter, name: str, element: llvm.Type) -> BufferValue:
        offset, size = self.inputs.places[name]
        return BufferValue(self._in_dynamic(e, offset, element), (size,))

    def constant(self, e: Emitter, array: ArrayType, name: str) -> Any:
        return self._constants.pointer(e, array, name)

    def _in_dynamic(self, e: Emitter, offset: Any, element: llvm.Type) -> Any:
        """A place in the memory whose size a launch says."""
        name = f"{self.module.name}_shared_memory"
        memory = self.module.globals.get(name)
        if memory is None:
            memory = llvm.GlobalVariable(self.module, llvm.ArrayType(llvm.IntType(8), 0), name, addrspace=3)
            memory.linkage, memory.align = "external", SHARED_ALIGNMENT
        place = e.b.gep(memory, [llvm.IntType(32)(0), offset], inbounds=True)
        return e.b.bitcast(place, element.as_pointer(3))

    def local(self, e: Emitter, array: ArrayType, name: str) -> Any:
        element, count = extent(array)
        with e.b.goto_entry_block():
            made = e.b.alloca(llvm.ArrayType(element, count))
            size = nbytes(element) * (1 << max(0, int(math.log2(count))))
            made.align = min(16, 1 << size.bit_length() - 1)
            return e.b.gep(made, [llvm.IntType(32)(0), llvm.IntType(32)(0)], inbounds=True)

    def load(self, e: Emitter, pointer: Any, access: Access) -> Any:
        if access.how:
            return ptx_memory.load(e, pointer, access.how, access.space)
        loaded = e.b.load(pointer)
        if access.read_only:  # nobody writes it while the kernel runs: a launch checks that
            loaded.set_metadata("invariant.load", self.module.add_metadata([]))
        return loaded

    def store(self, e: Emitter, value: Any, pointer: Any, access: Access) -> None:
        if access.how:
            ptx_memory.store(e, value, pointer, access.how, access.space)
        else:
            e.b.store(value, pointer)

    def touch(self, e: Emitter, pointer: Any, access: Access) -> None:
        """Nobody looks."""

    def decide(self, e: Emitter, condition: Any) -> bool | None:
        return None

    def note_range(self, e: Emitter, value: Any, start: Any, stop: Any, step: Any, is_signed: bool) -> None:
        """Nothing to prove here."""

    def unroll(self, e: Emitter, branch: Any, count: int) -> None:
        said = ["llvm.loop.unroll.count", llvm.IntType(32)(count)] if count > 1 else ["llvm.loop.unroll.disable"]
        texts = [llvm.MetaDataString(self.module, part) if isinstance(part, str) else part for part in said]
        wanted = self.module.add_metadata(texts)
        loop = llvm.values.MDValue(self.module, [], name=str(len(self.module.metadata)))
        loop.operands = (loop, wanted)  # its own first operand, which is what makes it this loop's alone
        branch.set_metadata("llvm.loop", loop)

    def go_round(self, e: Emitter, place: Place, loop: Loop) -> None:
        """A loop that never ends is not found here."""

    def begin_loop(self, e: Emitter, place: Place, is_inner: bool, turns: Callable[[], Any]) -> None:
        """Nobody counts."""

    def begin_turn(self, e: Emitter, place: Place) -> None:
        """Nobody counts."""

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        raise NotImplementedError("threads of a GPU wait by themselves")

    def exchange(self, e: Emitter, words: Sequence[Any], mask: Any = None, what: str = "", kind: str = "") -> Any:
        raise NotImplementedError("the records spell CUDA's warp operations")

    def check_lane(self, e: Emitter, holds: Any, lane: Any, peers: Any, what: str) -> None:
        """Unchecked: the CPU device finds it."""

    def give(self, e: Emitter, words: Sequence[Any]) -> None:
        raise NotImplementedError("the records spell CUDA's barriers")

    def field(self, e: Emitter, offset: int, index: Any = None) -> Any:
        raise NotImplementedError("a block of a GPU has no context")

    def set_field(self, e: Emitter, offset: int, index: Any, value: Any) -> None:
        raise NotImplementedError("a block of a GPU has no context")

    def linear_thread(self, e: Emitter) -> Any:
        x, y, z = (self.special_register(e, "tid", axis) for axis in _AXES)
        width, height = (self.special_register(e, "ntid", axis) for axis in _AXES[:2])
        row = e.b.add(e.b.mul(z, height, flags=("nuw", "nsw")), y, flags=("nuw", "nsw"))
        return e.b.add(e.b.mul(row, width, flags=("nuw", "nsw")), x, flags=("nuw", "nsw"))

    def alone(self, e: Emitter) -> Any:
        return None

    def number_line(self, e: Emitter, line: Line) -> int:
        """The number of a line that the program prints."""
        return self.sites.prints.number(line)

    def note_written(self, e: Emitter, name: str, text: str, place: Place) -> str:
        """Note a user's inline PTX, which was written in `place`; gives the comment to put in front of it.

        It is the same for each call of one, so that equal calls of what is not volatile are one.
        """
        for number, known in self.written.items():
            if (known.text, known.place) == (text, place):
                return mark(number, name)
        number = len(self.written) + 1
        self.written[number] = Written(name, text, place, e.place, e.trace)
        return mark(number, name)

    def leave(self, e: Emitter) -> None:
        e.b.ret_void()


def _counts_warps(typed: ir.Typed) -> bool:
    """Whether a thread may wait for a number of warps, also of those whose threads have ended."""
    return any(call.callee is named_bar_sync for _, call in ir.calls_of(typed))


def _parameter_names(param: str, type_: Type | None) -> list[str]:
    if isinstance(type_, BufferType):
        axes = [""] if type_.ndim == 1 else [str(axis) for axis in range(type_.ndim)]
        numbers = ("size", "stride") if type_.strided else ("size",)
        return [f"{param}_ptr", *(f"{param}_{number}{axis}" for number in numbers for axis in axes)]
    return [] if type_ is None else [name.replace(".", "_") for name, _ in scalars_of(type_, param)]


def _readable(ptx: str, entry: str, parameters: list[str], signature: str, source: Source) -> str:
    """libNVVM numbers the parameters; give them their names, and say what this is."""
    ptx = re.sub(rf"\b{entry}_param_(\d+)\b", lambda match: parameters[int(match[1])], ptx)
    header = f"{signature}\n{source.file}:{source.first_line}"
    return "".join(f"// {line}\n" for line in header.splitlines()) + ptx
