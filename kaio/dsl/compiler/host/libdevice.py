"""NVIDIA's math library on the host, so that `sin` is the same function on both devices.

`libdevice.10.bc` is LLVM bitcode for a GPU. Preparing it for the host, once per machine: its intrinsics
(``llvm.nvvm.*``) are renamed into plain functions and defined from `ptx_arithmetic`, its inline PTX likewise, and its
questions about the target (`__nvvm_reflect`) get the answers that libNVVM gives by default. Each function is then cut
out with what it calls, and kept: a kernel links only what it uses.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from kaio.dsl.compiler.emission.declared import call
from kaio.dsl.compiler.host import native
from kaio.dsl.compiler.host.ptx_arithmetic import emit_instruction, emit_wide
from kaio.dsl.compiler.host.store import kept
from kaio.errors import InternalError
from kaio.forking import whole_lock

__all__ = ["functions"]

_VERSION = "3"  # raise it when this file or ptx_arithmetic changes what is kept
_NVVM, _OURS = "llvm.nvvm.", "kaio.nvvm."
# __nvvm_reflect: keep subnormals, exact square roots and divisions, a recent architecture.
_REFLECTIONS = {"__CUDA_FTZ": 0, "__CUDA_PREC_SQRT": 1, "__CUDA_PREC_DIV": 1, "__CUDA_ARCH": 900}
_TYPES = {"float": ir.FloatType(), "double": ir.DoubleType(), **{f"i{n}": ir.IntType(n) for n in (8, 16, 32, 64)}}
I32, I64 = ir.IntType(32), ir.IntType(64)
_LOCK = whole_lock(2)


def functions(wanted: Iterable[str]) -> list[bytes]:
    """Bitcode that defines the functions of these names (``__nv_sinf``), with everything they call inside."""
    return [_function(name) for name in sorted(set(wanted))]


@functools.cache
def _function(name: str) -> bytes:
    return kept("libdevice", f"{_key()}|{name}", lambda: _cut(name))


@functools.cache
def _source() -> bytes:
    from kaio.dsl.compiler.cuda.toolchain import libdevice_path

    return libdevice_path().read_bytes()


@functools.cache
def _key() -> str:
    return f"{_VERSION}|{hashlib.sha256(_source()).hexdigest()}|{native.host_key()}"


def _cut(name: str) -> bytes:
    """One function with what it reaches, optimised; nothing else stays visible."""
    with _LOCK:
        module = llvm.parse_bitcode(_prepared())
    if name not in {f.name for f in module.functions}:
        raise InternalError(f"libdevice has no function `{name}`")
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    native.optimise(module, native.new_machine(), level=2)
    bitcode: bytes = module.as_bitcode()
    return bitcode


@functools.cache
def _prepared() -> bytes:
    """The whole library for the host; functions that it cannot run stay undefined, and say so when they are linked."""
    return kept("libdevice", f"{_key()}|all", lambda: _prepare(_source()))


def _prepare(source: bytes) -> bytes:
    module = llvm.parse_bitcode(source)
    _check_reflections(module)
    definitions = ir.Module("kaio.nvvm")
    _define_reflect(definitions)
    for function in module.functions:
        if function.name.startswith((_NVVM, "llvm.tanh.")):
            # A declaration whose name is no intrinsic's is a plain function, which can be defined.
            function.name = function.name.replace("llvm.", "kaio.", 1)
            _define_intrinsic(definitions, function)
    module = _without_assembly(module, definitions)
    native.add_triple(module, native.new_machine())
    module.link_in(native.parse(str(definitions)))
    bitcode: bytes = module.as_bitcode()
    return bitcode


# ------------------------------------------------------------------ intrinsics


def _define_intrinsic(definitions: ir.Module, function: Any) -> None:
    kind = function.global_value_type
    try:
        result, *parameters = (_TYPES[str(t)] for t in (kind.get_function_return(), *kind.get_function_parameters()))
    except KeyError:
        return
    if function.name == "kaio.tanh.f32":
        with _body(definitions, function.name, result, parameters) as (b, args):
            b.ret(call(b, "__nv_tanhf", result, args))
        return
    _define(definitions, function.name, result, parameters, function.name.removeprefix(_OURS), emit_instruction)


def _instruction_parts(text: str) -> list[str]:
    return [{"f32": "f", "f64": "d"}.get(part, part) for part in text.split(".")]


def _define(definitions: ir.Module, name: str, result: Any, parameters: list[Any], text: str, emit: Any) -> bool:
    """Define `name` as one instruction; False, and a declaration only, where there is no host meaning."""
    function = ir.Function(definitions, ir.FunctionType(result, parameters), name)
    scratch = ir.IRBuilder(function.append_basic_block("entry"))
    value = emit(scratch, _instruction_parts(text) if emit is emit_instruction else text, list(function.args), result)
    if value is None:
        function.blocks.clear()
        return False
    scratch.ret(value)
    function.linkage = "linkonce_odr"
    function.attributes.add("alwaysinline")
    return True


class _body:
    """`with _body(...) as (builder, args)`: a small function that is always inlined."""

    def __init__(self, module: ir.Module, name: str, result: Any, parameters: list[Any]) -> None:
        self.function = ir.Function(module, ir.FunctionType(result, parameters), name)
        self.function.linkage = "linkonce_odr"
        self.function.attributes.add("alwaysinline")

    def __enter__(self) -> tuple[ir.IRBuilder, list[Any]]:
        return ir.IRBuilder(self.function.append_basic_block("entry")), list(self.function.args)

    def __exit__(self, *error: object) -> None:
        return None


def _check_reflections(module: Any) -> None:
    for variable in module.global_variables:
        text = str(variable)
        if variable.name.startswith(".str") and not any(f'"{name}\\00"' in text for name in _REFLECTIONS):
            raise InternalError(f"libdevice asks something that kaio does not know: {text}")


def _define_reflect(definitions: ir.Module) -> None:
    """The questions differ in their eighth letter (both that begin with PREC have the answer 1)."""
    with _body(definitions, "__nvvm_reflect", ir.IntType(32), [ir.PointerType()]) as (b, (question,)):
        letter = b.load(b.gep(question, [ir.IntType(64)(7)], source_etype=ir.IntType(8)), typ=ir.IntType(8))
        answer = ir.IntType(32)(0)
        for name, value in _REFLECTIONS.items():
            is_it = b.icmp_unsigned("==", letter, ir.IntType(8)(ord(name[7])))
            answer = b.select(is_it, ir.IntType(32)(value), answer)
        b.ret(answer)


# ------------------------------------------------------------------ inline assembly


def _without_assembly(module: Any, definitions: ir.Module) -> Any:
    """The module with each inline-assembly callee replaced by a function of the same type.

    LLVM cannot exchange a callee through llvmlite; what it prints for the callee is a constant, found by walking the
    instructions, and stands in the module's text exactly so.
    """
    text, declared = str(module), []
    for number, (callee, result, parameters) in enumerate(_assembly(module)):
        name = f"kaio.asm.{number}"
        printed = callee.removeprefix("ptr ")
        text = text.replace(printed + "(", f"@{name}(")
        declared.append(f"declare {result} @{name}({', '.join(parameters)})")
        _define_assembly(definitions, name, printed, result, parameters)
    text = _with_shifts_of_ptx(text, definitions)
    # Inlining is left to the optimiser: libdevice asks for all of it, which a kernel of many calls pays for twice.
    text = text.replace("{ alwaysinline nounwind", "{ nounwind")
    return native.parse("\n".join((text, *declared)))


_SHIFT = re.compile(r"= (shl|lshr|ashr)(?: nuw| nsw| exact)* (i32|i64) (\S+), (%\S+?)(?=,? |$)", re.MULTILINE)


def _with_shifts_of_ptx(text: str, definitions: ir.Module) -> str:
    """The text with shifts by what is not known as those of PTX: by the width or more nothing is left but the sign.

    Some of libdevice's functions rely on it (whether a huge exponent of `pow` is odd), and to LLVM it is poison.
    """
    for name in ("shl", "lshr", "ashr"):
        for kind in (I32, I64):
            with _body(definitions, f"kaio.{name}.{kind}", kind, [kind, kind]) as (b, (value, by)):
                last = kind(kind.width - 1)
                is_over = b.icmp_unsigned(">", by, last)
                if name == "ashr":
                    b.ret(b.ashr(value, b.select(is_over, last, by)))
                else:
                    b.ret(b.select(is_over, kind(0), getattr(b, name)(value, b.and_(by, last))))
    shifts = sorted({(m[1], m[2]) for m in _SHIFT.finditer(text)})
    text = _SHIFT.sub(r"= call \2 @kaio.\1.\2(\2 \3, \2 \4)", text)
    return "\n".join((text, *(f"declare {kind} @kaio.{name}.{kind}({kind}, {kind})" for name, kind in shifts)))


def _assembly(module: Any) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each inline assembly of the module once: as printed, with the types of its result and arguments."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if instruction.opcode != "call":
                    continue
                *args, callee = instruction.operands
                if callee.name:
                    continue
                printed = str(callee)
                if printed.startswith("ptr asm "):
                    found.setdefault(printed, (str(instruction.type), tuple(str(a.type) for a in args)))
    yield from ((printed, result, parameters) for printed, (result, parameters) in found.items())


def _define_assembly(definitions: ir.Module, name: str, printed: str, result: str, parameters: tuple[str, ...]) -> None:
    kinds = [_TYPES[p] for p in parameters]
    first = _first_instruction(printed)
    if result.startswith("{"):
        _define(definitions, name, ir.LiteralStructType([kinds[0], kinds[0]]), kinds, first, emit_wide)
    elif first == "setp.equ.f64":
        _define(definitions, name, _TYPES[result], kinds, first, emit_wide)
    else:
        _define(definitions, name, _TYPES[result], kinds, first, emit_instruction)


def _first_instruction(printed: str) -> str:
    """The first mnemonic that computes: ``mad.lo.cc.u32`` of a braced sequence."""
    body = printed.split('"')[1].replace("\\0A", "\n").replace("\\09", " ")
    for line in body.replace("{ ", "{\n", 1).splitlines():
        words = line.split()
        if words and not words[0].startswith(("{", ".reg", "mov.")):
            return words[0]
    return ""
