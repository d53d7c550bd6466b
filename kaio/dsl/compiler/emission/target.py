"""What a machine must know to receive a typed function, and the values that exist while it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from llvmlite import ir as llvmlite_ir

from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.notes import Notes
from kaio.dsl.compiler.emission.orders import Orders
from kaio.errors import Place
from kaio.print_abi import Line

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.host.host_exchange import Peers
    from kaio.dsl.compiler.loop_nest import Loop
    from kaio.dsl.values import ArrayType

__all__ = ["ArrayValue", "Axis", "BufferValue", "Target"]

Axis = Literal["x", "y", "z"]


class Target(Protocol):
    """What a machine must know to receive a typed function."""

    contract: bool
    orders: Orders
    notes: Notes  # who is told what a thread does

    @property
    def name(self) -> Literal["cuda", "host"]:
        """Which of an intrinsic's rules are this machine's."""

    def has(self, architecture: str) -> bool:
        """Whether this machine has what came with an architecture (``sm_80``); the host has everything."""

    def locate(self, e: Emitter) -> None:
        """The following instructions come from `e.place` (of `e.source`, called from `e.callers`)."""

    def special_register(self, e: Emitter, register: str, axis: Axis) -> llvmlite_ir.Value:
        """`tid`, `ntid`, `ctaid` or `nctaid` of one axis, as i32."""

    def check_index(
        self, e: Emitter, index: llvmlite_ir.Value, size: llvmlite_ir.Value, axis: int, array: str, written: str
    ) -> None:
        """Leave with a fault unless 0 <= index < size (both i32 or both i64); nothing where unchecked.

        `written` says how the source has the index: see `Site.written`.
        """

    def check(self, e: Emitter, holds: llvmlite_ir.Value, text: str) -> None:
        """Leave with a fault unless `holds`; nothing where unchecked."""

    def fail(self, e: Emitter, text: str) -> None:
        """End the current block: an assertion did not hold. Only reached where `checks_asserts`."""

    def passed(self, e: Emitter) -> None:
        """All threads of the block have come here (CUDA rules only: on the host they suspend)."""

    def fault_state(self, e: Emitter) -> llvmlite_ir.Value | None:
        """The address of what a launch knows of its faults (`kaio/fault_abi.py`); None where there is none."""

    @property
    def checks_asserts(self) -> bool:
        """Whether assertions are compiled at all."""

    def shared(self, e: Emitter, array: ArrayType, name: str) -> llvmlite_ir.Value:
        """A pointer to the elements of an array that the threads of a block share."""

    def dynamic_shared(self, e: Emitter, name: str, element: llvmlite_ir.Type) -> BufferValue:
        """The array of that name, whose place in shared memory and size are arguments of the kernel."""

    def constant(self, e: Emitter, array: ArrayType, name: str) -> llvmlite_ir.Value:
        """A pointer to the elements of a constant array, which `name` says what it is called."""

    def scratch(self, e: Emitter, part: int, count: int) -> llvmlite_ir.Value:
        """A pointer to `count` i32 of shared memory, which are the same ones wherever that part is asked for."""

    def local(self, e: Emitter, array: ArrayType, name: str) -> llvmlite_ir.Value:
        """A pointer to the elements of an array of this thread's own."""

    def load(self, e: Emitter, pointer: llvmlite_ir.Value, access: Access) -> llvmlite_ir.Value:
        """Load one element from memory."""

    def store(self, e: Emitter, value: llvmlite_ir.Value, pointer: llvmlite_ir.Value, access: Access) -> None:
        """Store one element in memory."""

    def touch(self, e: Emitter, pointer: llvmlite_ir.Value, access: Access) -> None:
        """The next instructions make this access to what `pointer` points to, in a way of their own."""

    def alone(self, e: Emitter) -> llvmlite_ir.Value | None:
        """i1, at run time: nobody but this thread's worker runs the launch; None where that is never known."""

    def decide(self, e: Emitter, condition: llvmlite_ir.Value) -> bool | None:
        """A branch that is known to go one way in this version of the code; None where it is not."""

    def note_range(
        self,
        e: Emitter,
        value: llvmlite_ir.Value,
        start: llvmlite_ir.Value,
        stop: llvmlite_ir.Value,
        step: llvmlite_ir.Value,
        is_signed: bool,
    ) -> None:
        """`value` is what a `for` loop over range(start, stop, step) is at."""

    def unroll(self, e: Emitter, branch: llvmlite_ir.Instruction, count: int) -> None:
        """The branch back to the head of a loop of which so many turns are to be done at a time."""

    def go_round(self, e: Emitter, place: Place, loop: Loop) -> None:
        """The loop at `place` goes back to its head here."""

    def begin_loop(
        self, e: Emitter, place: Place, is_inner: bool, turns: Callable[[], llvmlite_ir.Value | int]
    ) -> None:
        """A loop begins that says how many turns it has, unsigned, and for which there will be no `go_round`.

        `is_inner`: it is inside of another.
        """

    def begin_turn(self, e: Emitter, place: Place) -> None:
        """A turn of the loop at `place` begins here."""

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """Let the other threads run until they are all here (host rules only)."""

    def exchange(
        self,
        e: Emitter,
        words: Sequence[llvmlite_ir.Value],
        mask: llvmlite_ir.Value | None = None,
        what: str = "",
        kind: str = "",
    ) -> Peers:
        """Give i32 words to the lanes of `mask` (an i32; None: all of the warp) and get theirs (host rules only)."""

    def check_lane(
        self, e: Emitter, holds: llvmlite_ir.Value, lane: llvmlite_ir.Value, peers: Peers, what: str
    ) -> None:
        """Leave with a fault unless `holds`: lane `lane` takes part in the operation; nothing where unchecked."""

    def give(self, e: Emitter, words: Sequence[llvmlite_ir.Value]) -> None:
        """Leave i32 words for the scheduler, before `suspend` (host rules only)."""

    def field(self, e: Emitter, offset: int, index: llvmlite_ir.Value | None = None) -> llvmlite_ir.Value:
        """An i32 of the block's context, of an array there the one at `index` (host rules only)."""

    def set_field(self, e: Emitter, offset: int, index: llvmlite_ir.Value, value: llvmlite_ir.Value) -> None:
        """Set an element of an array in the block's context (host rules only)."""

    def linear_thread(self, e: Emitter) -> llvmlite_ir.Value:
        """The thread's number in its block, x first, as i32; 32 in a row are a warp."""

    def number_line(self, e: Emitter, line: Line) -> int | None:
        """The number of a line that the program prints; None where nothing can be printed."""

    def leave(self, e: Emitter) -> None:
        """End the current block: the kernel returns here."""


@dataclass(frozen=True)
class BufferValue:
    """A buffer: the address of its first element, and its sizes as values of the index type.

    strides: from one element to the next along each axis, in elements; empty for one that is C-contiguous
    """

    pointer: llvmlite_ir.Value
    sizes: tuple[llvmlite_ir.Value, ...]
    strides: tuple[llvmlite_ir.Value, ...] = ()


@dataclass(frozen=True)
class ArrayValue:
    """A shared or local array."""

    pointer: llvmlite_ir.Value
