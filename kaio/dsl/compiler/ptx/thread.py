"""The function of one thread whose kernel is PTX: what the rules of opcodes ask of their target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.compiler.emission.notes import Notes
from kaio.dsl.compiler.emission.orders import Orders
from kaio.dsl.compiler.host.host_context import field_of
from kaio.dsl.compiler.host.host_threads import Thread
from kaio.dsl.compiler.ptx.extents import Extents, Stretch
from kaio.dsl.compiler.ptx.memory_map import MemoryMap
from kaio.dsl.compiler.ptx.opcodes import Step
from kaio.dsl.compiler.ptx.registers import Registers, as_kind, number
from kaio.dsl.compiler.ptx.specials import special
from kaio.dsl.compiler.ptx.syntax import Address, Immediate, Operand, Register, Special, Symbol
from kaio.errors import InternalError, Place, UnsupportedFeatureError
from kaio.print_abi import VARIABLE
from kaio.program import Build, Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter
    from kaio.dsl.compiler.ptx.walk import Walk

__all__ = ["WAY_OUT", "PtxThread"]

_I1, _I8, _I32, _I64 = (llvm.IntType(bits) for bits in (1, 8, 32, 64))
_POINTER = _I8.as_pointer()
WAY_OUT = 'run it on `kaio.Device("cpu")`, which runs the kernel\'s own operations instead of its PTX'
"""What a user can do where this route does not know something."""


class PtxThread(Thread):
    """The function of a thread being built from PTX.

    registers: of the function that is being walked; `parameters` is its memory of ``.param`` by name
    """

    contract = checks_asserts = False
    notes, orders = Notes(), Orders()
    walk: Walk

    def __init__(
        self,
        module: llvm.Module,
        name: str,
        sites: Sites,
        inputs: Inputs,
        memory: MemoryMap,
        *,
        waits: bool,
        spins: bool,
        build: Build,
    ) -> None:
        super().__init__(module, name, sites, inputs, waits=waits, spins=spins, build=build)
        self.memory, self.virtual = memory, Registers({})
        self.shared_nbytes = memory.shared_nbytes
        self.parameters: Mapping[str, Any] = {}
        self._exit_count = 0
        self._carry: Any = None
        self._local: Any = None

    def start(self, e: PtxEmitter) -> None:
        """What the checks of addresses need, where the function begins."""
        if self.checks:
            ring = self.memory.globals.get(VARIABLE)
            self.extents = Extents(e, self.inputs, self.arguments, self.memory.shared_nbytes, ring)

    # ------------------------------------------------------------------ operands
    def read(self, e: PtxEmitter, operand: Operand, kind: str) -> Any:
        """The value of an operand as a type."""
        match operand:
            case Register(name=name, negated=negated):
                value = as_kind(e, self.virtual.read(e, name), kind)
                return e.b.not_(value) if negated else value
            case Immediate():
                return number(operand, kind)
            case Special(name=name):
                rule = special(name)
                if rule is None:
                    raise UnsupportedFeatureError(
                        f'`route="ptx"` does not know the register `{name}`', place=e.place, help=WAY_OUT
                    )
                return as_kind(e, rule(e), kind)
            case Symbol(name=name, offset=offset):
                return as_kind(e, e.b.add(self._start(e, name), _I64(offset)), kind)
        raise InternalError(f"PTX has the operand {operand} where a value of {kind} was expected")

    def write(self, e: PtxEmitter, operand: Operand, value: Any, kind: str) -> None:
        """Set a register to a value of a type; ``_`` is none."""
        if not isinstance(operand, Register):
            raise InternalError(f"PTX has the operand {operand} where a register was expected")
        if operand.name != "_":
            self.virtual.write(e, operand.name, value, kind)

    def carry(self, e: PtxEmitter) -> Any:
        """The carry of the last sum that kept it, i1."""
        return e.b.load(self._carry_slot(e))

    def set_carry(self, e: PtxEmitter, value: Any) -> None:
        """Keep a carry."""
        e.b.store(value, self._carry_slot(e))

    def _carry_slot(self, e: PtxEmitter) -> Any:
        if self._carry is None:
            with e.b.goto_entry_block():
                self._carry = e.b.alloca(_I1, name="carry")
        return self._carry

    def refuse(self, e: PtxEmitter, i: Step, what: str) -> None:
        """Raise UnsupportedFeatureError: an instruction in a form that is not known."""
        text = f'`route="ptx"` does not run `{i.instruction.opcode}`: {what}'
        raise UnsupportedFeatureError(text, place=e.place, help=WAY_OUT)

    # ------------------------------------------------------------------ memory
    def _start(self, e: PtxEmitter, name: str) -> Any:
        """The address of a variable as an i64, in its own space."""
        if name in self.memory.globals:
            return e.b.ptrtoint(self.memory.globals[name], _I64)
        if name in self.parameters:
            return e.b.ptrtoint(self.parameters[name], _I64)
        if name not in self.memory.offsets:
            raise InternalError(f"PTX names `{name}`, which it does not declare")
        return _I64(self.memory.offsets[name])

    def start_of(self, e: PtxEmitter, space: str) -> Any:
        """The generic address at which a space starts, as an i64."""
        return _I64(0) if space in ("global", "param") else e.b.ptrtoint(self._base(e, space), _I64)

    def _base(self, e: PtxEmitter, space: str) -> Any:
        if space.startswith("shared"):
            return self.shared_start
        if space == "const":
            return e.b.bitcast(self.memory.bank, _POINTER)
        if self._local is None:
            with e.b.goto_entry_block():
                array = e.b.alloca(llvm.ArrayType(_I8, max(1, self.memory.local_nbytes)), name="local")
                array.align = 16
                self._local = e.b.bitcast(array, _POINTER)
        return self._local

    def address(self, e: PtxEmitter, operand: Operand, space: str, nbytes: int, access: str, counts: Any = None) -> Any:
        """A pointer to so many bytes; where addresses are checked, they are in that space (empty: in any).

        access: what is done there, ``read``, ``write`` or ``atomic``: also a read that looks at what others update
        counts: i1, whether the address is one that counts
        """
        assert isinstance(operand, Address)
        base = operand.base
        name = base.name if isinstance(base, Symbol) else ""
        if name in self.parameters:
            return e.b.gep(self.parameters[name], [_I64(operand.offset)])
        value = self.read(e, base, "u32" if isinstance(base, Register) and self._is_short(e, base) else "u64")
        value = e.b.zext(value, _I64) if value.type == _I32 else value
        value = e.b.add(value, _I64(operand.offset)) if operand.offset else value
        if self.checks and name not in self.memory.globals:
            self._check_address(e, value, space, nbytes, access, counts)
        if space in ("", "global", "param"):
            return e.b.inttoptr(value, _POINTER)
        return e.b.gep(self._base(e, space), [value])

    def _is_short(self, e: PtxEmitter, register: Register) -> bool:
        return bool(self.virtual.read(e, register.name).type == _I32)

    def _check_address(self, e: PtxEmitter, value: Any, space: str, nbytes: int, access: str, counts: Any) -> None:
        limit, is_word = self._limit(space), access == "atomic" and nbytes == 4
        if limit is not None and is_word:
            limit = e.b.and_(e.b.add(limit, _I64(3)), _I64(-4))
        if limit is not None:
            holds = self.extents.within(e, value, limit, nbytes)
        else:
            stretches = self.extents.words(e) if is_word else self.extents.buffers
            if space != "global":
                stretches = [*stretches, *self._elsewhere(e)]
            holds = self.extents.within_any(e, value, stretches, nbytes)
        if counts is not None:
            holds = e.b.or_(holds, e.b.not_(counts))
        with self.unless(e, holds):
            site = Site("address", e.place, e.trace, space or "generic", words=nbytes, written=access)
            self.fault(e, site, value, limit)

    def _limit(self, space: str) -> Any:
        """How many bytes a space has that addresses count from 0; None of another."""
        if space.startswith("shared"):
            return self.extents.shared
        return {"local": _I64(self.memory.local_nbytes), "const": _I64(self.memory.constant_nbytes)}.get(space)

    def _elsewhere(self, e: PtxEmitter) -> list[Stretch]:
        """What a generic address may be in beside buffers: memory of the cluster's blocks, and of this thread."""
        stride = e.b.zext(self.field(e, abi.SHARED_STRIDE), _I64)
        rank = e.b.zext(self.field(e, abi.CLUSTER_RANK), _I64)
        first = e.b.sub(self.start_of(e, "shared"), e.b.mul(rank, stride))
        found = [(first, e.b.mul(stride, e.b.zext(self.cluster_size(e), _I64)))]
        found.append((e.b.ptrtoint(self.workspace(e), _I64), _I64(_WORKSPACE_NBYTES)))
        if self.memory.local_nbytes:
            found.append((self.start_of(e, "local"), _I64(self.memory.local_nbytes)))
        if self.memory.bank is not None:
            found.append((self.start_of(e, "const"), _I64(self.memory.constant_nbytes)))
        return found

    def is_in(self, e: PtxEmitter, space: str, address: Any) -> Any:
        """i1: a generic address is one of that space."""
        sizes = {"local": self.memory.local_nbytes, "const": self.memory.constant_nbytes}
        if space in sizes and not sizes[space]:
            return _I1(0)
        if space.startswith("shared"):
            stride = e.b.zext(self.field(e, abi.SHARED_STRIDE), _I64)
            return e.b.icmp_unsigned("<", e.b.sub(address, self.start_of(e, "shared")), stride)
        if space in sizes:
            return e.b.icmp_unsigned("<", e.b.sub(address, self.start_of(e, space)), _I64(sizes[space]))
        elsewhere = [self.is_in(e, other, address) for other in ("shared", "local", "const")]
        return e.b.not_(e.b.or_(e.b.or_(*elsewhere[:2]), elsewhere[2]))

    def workspace(self, e: PtxEmitter) -> Any:
        """A pointer to zeroed memory of the launch, for a barrier of its grid."""
        launch = e.b.load(field_of(e.b, self.context, abi.LAUNCH, _POINTER))
        return e.b.gep(launch, [_I64(abi.WORKSPACE)])

    def cluster_size(self, e: PtxEmitter) -> Any:
        """How many blocks the cluster has, as i32."""
        x, y, z = (self.field(e, abi.CLUSTER_DIM + 4 * axis) for axis in range(3))
        return e.b.mul(e.b.mul(x, y), z)

    # ------------------------------------------------------------------ what rules of the typed IR ask for
    def has(self, architecture: str) -> bool:
        """Everything is there."""
        return True

    def locate(self, e: PtxEmitter) -> None:
        """Places travel in the sites."""

    def touch(self, e: PtxEmitter, pointer: Any, access: Access) -> None:
        """Addresses were checked where they were computed."""

    def load(self, e: PtxEmitter, pointer: Any, access: Access) -> Any:
        """A plain load."""
        return e.b.load(pointer, align=1)

    def store(self, e: PtxEmitter, value: Any, pointer: Any, access: Access) -> None:
        """A plain store."""
        e.b.store(value, pointer, align=1)

    # ------------------------------------------------------------------ the way through the code
    def go(self, e: PtxEmitter, label: str) -> None:
        """End the current block with a branch."""
        self.walk.go(label)

    def go_by_number(self, e: PtxEmitter, number: Any, table: str) -> None:
        """End the current block with a branch to one of the labels of a table."""
        self.walk.go_by_number(number, table)

    def end(self, e: PtxEmitter) -> None:
        """End the current block: the function that is being walked returns."""
        self.walk.end()

    def exit_of(self, place: Place) -> int:
        """Each way out of the kernel is one: what the source wrote several times, the compiler may have joined."""
        self._exit_count += 1
        return min(self._exit_count - 1, abi.MAX_EXITS)

    def trap(self, e: PtxEmitter) -> None:
        """A place that no thread gets to."""
        self.fault(e, Site("check", e.place, e.trace, "`trap` is reached"))


_WORKSPACE_NBYTES = 16
