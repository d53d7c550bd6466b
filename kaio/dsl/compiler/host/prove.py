"""Bounds and guards proved per block, at run time, from intervals.

While the unguarded copy of a kernel is emitted, each index check and each test on the grid's index is offered to a
`Prover`. It takes those whose operands have an interval over the threads of one block: sums, products and shifts of
index registers, arguments, constants and loop variables. Then it writes the proof: code that computes these intervals
for the block at hand, and says whether every check that was taken would pass and every guard that was taken goes the
assumed way. Arithmetic is done in i64, and each step must stay within its type, so wrap-around cannot fool it.

Which way a guard is assumed to go is a guess that holds in most blocks; a wrong one costs time, never correctness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm

__all__ = ["Prover"]

I1, I32, I64 = llvm.IntType(1), llvm.IntType(32), llvm.IntType(64)
_INVERSE = {"slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt"}
_SIGN = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}

Bounds = tuple[Any, Any]
"""Lowest and highest value over the threads of the block, as i64 values of the proof's code."""


@dataclass(frozen=True, eq=False)
class _Interval:
    """How to compute the bounds of one value; `on_grid` says that it differs from block to block."""

    emit: Callable[[_Proof], Bounds]
    on_grid: bool = False
    constant: int | None = None


@dataclass(frozen=True)
class _Guard:
    operator: str
    left: _Interval
    right: _Interval


class Prover:
    """Collects what is to be proved of one function while it is emitted; `emit` writes the proof."""

    def __init__(self) -> None:
        self._found: dict[int, _Interval | None] = {}
        self._kept: list[Any] = []  # values are known by identity, so they must stay alive
        self._checks: list[tuple[_Interval, _Interval]] = []
        self._positive: list[_Interval] = []
        self._guards: list[_Guard] = []
        self._loops: set[int] = set()
        self._registers: dict[str, Any] = {}
        self._arguments: list[Any] = []

    def begin(self, registers: dict[str, Any], arguments: list[Any]) -> None:
        """The function's index registers and argument values."""
        self._registers, self._arguments = registers, arguments
        for name, value in registers.items():
            self._know(value, _register(name))
        for position, value in enumerate(arguments):
            if value.type in (I32, I64):
                self._know(value, _argument(position))

    @property
    def is_useful(self) -> bool:
        """Whether anything was taken."""
        return bool(self._checks or self._positive or self._guards)

    @property
    def counts(self) -> tuple[int, int]:
        """How many checks and how many guards were taken."""
        return len(self._checks), len(self._guards)

    def takes_index(self, index: Any, size: Any) -> bool:
        """Offer the check 0 <= index < size; True where the proof covers it."""
        at, limit = self._of(index), self._of(size)
        if at is None or limit is None:
            return False
        self._checks.append((at, limit))
        return True

    def takes_nonzero(self, condition: Any) -> bool:
        """Offer the check that a number is not 0; True where the proof covers it, by its being positive."""
        if not isinstance(condition, llvm.instructions.ICMPInstr) or condition.op != "ne":
            return False
        number, zero = condition.operands
        return isinstance(zero, llvm.Constant) and zero.constant == 0 and self.takes_positive(number)

    def takes_positive(self, number: Any) -> bool:
        """Offer the requirement that a number is above 0; True where the proof covers it."""
        known = self._of(number)
        if known is None:
            return False
        self._positive.append(known)
        return True

    def takes_guard(self, condition: Any) -> bool | None:
        """Offer a branch; which way it goes where the proof holds, None where it is not covered."""
        if _is_not(condition):
            inner = self.takes_guard(condition.operands[0])
            return None if inner is None else not inner
        if not isinstance(condition, llvm.instructions.ICMPInstr) or condition.op not in _INVERSE:
            return None
        if id(condition) in self._loops:
            return None
        left, right = (self._of(operand) for operand in condition.operands)
        if left is None or right is None or left.on_grid == right.on_grid:
            return None
        other = right if left.on_grid else left
        # Most blocks are inside: `i < n` holds, `i >= n` (early return) does not, `i >= 1` (a stencil's edge) does.
        holds = (condition.op in ("slt", "sle")) == left.on_grid or other.constant is not None
        self._guards.append(_Guard(condition.op if holds else _INVERSE[condition.op], left, right))
        return holds

    def note_range(self, value: Any, start: Any, stop: Any, step: Any, is_signed: bool, conditions: list[Any]) -> None:
        """`value` runs over range(start, stop, step) wherever the body of its loop uses it.

        `conditions` are the comparisons at the loop's head. There `value` may lie outside the range, so they are no
        guards. `is_signed`: the loop reads its numbers as signed.
        """
        self._kept += conditions
        self._loops |= {id(condition) for condition in conditions}
        first, last, by = self._of(start), self._of(stop), self._of(step)
        known = first is not None and last is not None and by is not None
        if known and not is_signed:  # an unsigned step is one up only if it is known to be small
            known = by.constant is not None and 0 < by.constant < 2**31  # type: ignore[union-attr]
        self._know(value, _range(first, last, by, is_signed) if known else None)  # type: ignore[arg-type]

    def emit(self, b: llvm.IRBuilder, registers: dict[str, Any], arguments: list[Any]) -> Any:
        """Write the proof for the block that these values describe; an i1 that says whether it holds."""
        proof = _Proof(b, registers, arguments)
        for index, size in self._checks:
            (low, high), (least, _) = proof.bounds(index), proof.bounds(size)
            proof.require(b.icmp_signed(">=", low, I64(0)))
            proof.require(b.icmp_signed("<", high, least))
        for number in self._positive:
            proof.require(b.icmp_signed(">", proof.bounds(number)[0], I64(0)))
        for guard in self._guards:
            left, right = proof.bounds(guard.left), proof.bounds(guard.right)
            worst = (left[1], right[0]) if guard.operator in ("slt", "sle") else (left[0], right[1])
            proof.require(b.icmp_signed(_SIGN[guard.operator], *worst))
        return proof.holds

    # -------------------------------------------------------------- intervals of values

    def _know(self, value: Any, interval: _Interval | None) -> None:
        self._kept.append(value)
        self._found[id(value)] = interval

    def _of(self, value: Any) -> _Interval | None:
        if id(value) not in self._found:
            self._know(value, self._find(value))
        return self._found[id(value)]

    def _find(self, value: Any) -> _Interval | None:
        if isinstance(value, llvm.Constant):
            number, bits = value.constant, getattr(value.type, "width", 0)
            if not isinstance(number, int) or not bits:
                return None
            return _constant(number - (1 << bits) if number >= 1 << bits - 1 and bits > 1 else number)
        if isinstance(value, llvm.instructions.CastInstr):
            return self._cast(value)
        if isinstance(value, llvm.instructions.SelectInstr):
            return self._select(value)
        if isinstance(value, llvm.instructions.Instruction) and value.type in (I32, I64):
            return self._arithmetic(value)
        return None

    def _cast(self, value: Any) -> _Interval | None:
        source, bits = value.operands[0], value.operands[0].type
        if value.opname not in ("sext", "zext") or not isinstance(bits, llvm.IntType):
            return None
        inner = self._of(source)
        if value.opname == "sext" and inner is not None:
            return inner
        if bits.width < 32:
            lowest = -(1 << bits.width - 1) if value.opname == "sext" else 0
            low, high = lowest, lowest + (1 << bits.width) - 1
            return _Interval(lambda proof: (I64(low), I64(high)))
        if inner is None or value.opname == "sext":
            return None

        def emit(proof: _Proof) -> Bounds:
            low, high = proof.bounds(inner)
            proof.require(proof.b.icmp_signed(">=", low, I64(0)))
            return low, high

        return _Interval(emit, inner.on_grid)

    def _select(self, value: Any) -> _Interval | None:
        """The smaller or larger of two; otherwise either of them."""
        condition, first, second = value.operands
        left, right = self._of(first), self._of(second)
        if left is None or right is None:
            return None
        picks: tuple[bool | None, bool | None] = (True, False)
        if isinstance(condition, llvm.instructions.ICMPInstr) and condition.op in _INVERSE:
            compared = [id(operand) for operand in condition.operands]
            if compared in ([id(first), id(second)], [id(second), id(first)]):
                smaller = (condition.op in ("slt", "sle")) == (compared[0] == id(first))
                picks = (smaller, smaller)

        def emit(proof: _Proof) -> Bounds:
            (low_1, high_1), (low_2, high_2) = proof.bounds(left), proof.bounds(right)
            return proof.extreme(picks[0], low_1, low_2), proof.extreme(picks[1], high_1, high_2)

        return _Interval(emit, left.on_grid or right.on_grid)

    def _arithmetic(self, value: Any) -> _Interval | None:
        if value.opname not in _OPERATIONS or len(value.operands) != 2:
            return None
        left, right = (self._of(operand) for operand in value.operands)
        if right is None or (left is None and value.opname != "and"):
            return None
        operation, needs_constant = _OPERATIONS[value.opname]
        width = value.type.width
        if needs_constant:
            least, limit = int(value.opname == "sdiv"), _LIMITS[value.opname](width)
            if right.constant is None or not least <= right.constant < limit:
                return None
        on_grid = right.on_grid or (left is not None and left.on_grid)
        return _Interval(lambda proof: operation(proof, left, right, width), on_grid)


def _is_not(value: Any) -> bool:
    return (
        isinstance(value, llvm.instructions.Instruction)
        and value.opname == "xor"
        and value.type == I1
        and isinstance(value.operands[1], llvm.Constant)
        and value.operands[1].constant in (1, -1, True)
    )


def _register(name: str) -> _Interval:
    if name.startswith("tid"):
        size = name.replace("tid", "ntid")
        return _Interval(lambda proof: (I64(0), proof.b.sub(proof.wide(proof.registers[size]), I64(1))))
    return _Interval(lambda proof: (proof.wide(proof.registers[name]),) * 2, on_grid=name.startswith("ctaid"))


def _argument(position: int) -> _Interval:
    return _Interval(lambda proof: (proof.wide(proof.arguments[position]),) * 2)


def _constant(number: int) -> _Interval:
    return _Interval(lambda proof: (I64(number),) * 2, constant=number)


def _range(start: _Interval, stop: _Interval, step: _Interval, is_signed: bool) -> _Interval:
    def emit(proof: _Proof) -> Bounds:
        first, last = proof.bounds(start), proof.bounds(stop)
        if not is_signed:  # below the sign bit both readings of the numbers are the same
            proof.require(proof.b.icmp_signed(">=", first[0], I64(0)))
            proof.require(proof.b.icmp_signed(">=", last[0], I64(0)))
        if step.constant is not None and step.constant < 0:
            return proof.b.add(last[0], I64(1)), first[1]
        if step.constant is None:
            proof.require(proof.b.icmp_signed(">", proof.bounds(step)[0], I64(0)))
        highest = proof.b.sub(last[1], I64(1))
        if step.constant is not None and step.constant > 1 and first[0] is first[1]:
            turns = proof.b.sdiv(proof.b.sub(highest, first[0]), I64(step.constant))
            highest = proof.b.add(first[0], proof.b.mul(turns, I64(step.constant)))
        return first[0], highest

    return _Interval(emit, start.on_grid or stop.on_grid)


class _Proof:
    """The code of one proof being written."""

    def __init__(self, b: llvm.IRBuilder, registers: dict[str, Any], arguments: list[Any]) -> None:
        self.b, self.registers, self.arguments = b, registers, arguments
        self.holds: Any = I1(1)
        self._bounds: dict[_Interval, Bounds] = {}

    def bounds(self, interval: _Interval) -> Bounds:
        """The bounds of an interval, computed once."""
        if interval not in self._bounds:
            self._bounds[interval] = interval.emit(self)
        return self._bounds[interval]

    def require(self, condition: Any) -> None:
        """The proof holds only if this does."""
        self.holds = self.b.and_(self.holds, condition)

    def wide(self, value: Any) -> Any:
        """As i64."""
        return value if value.type == I64 else self.b.sext(value, I64)

    def extreme(self, smaller: bool | None, left: Any, right: Any) -> Any:
        """The smaller, or the larger, of two."""
        return self.b.select(self.b.icmp_signed("<" if smaller else ">", left, right), left, right)

    def step(self, name: str, left: Any, right: Any, width: int) -> Any:
        """One operation of a type of that width, required not to wrap."""
        if width == 32:
            result = getattr(self.b, name)(left, right)
            self.require(self.b.icmp_signed(">=", result, I64(-(2**31))))
            self.require(self.b.icmp_signed("<", result, I64(2**31)))
            return result
        pair = getattr(self.b, f"s{name}_with_overflow")(left, right)
        self.require(self.b.not_(self.b.extract_value(pair, 1)))
        return self.b.extract_value(pair, 0)


_LIMITS: dict[str, Callable[[int], int]] = {
    "shl": lambda width: min(width - 1, 62), "ashr": lambda width: width,
    "and": lambda width: 1 << width - 1, "sdiv": lambda width: 1 << width - 1,
}  # fmt: skip


def _add(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    (a, b), (c, d) = proof.bounds(left), proof.bounds(right)
    return proof.step("add", a, c, width), proof.step("add", b, d, width)


def _sub(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    (a, b), (c, d) = proof.bounds(left), proof.bounds(right)
    return proof.step("sub", a, d, width), proof.step("sub", b, c, width)


def _mul(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    (a, b), (c, d) = proof.bounds(left), proof.bounds(right)
    pairs = [(x, y) for x in ([a] if a is b else [a, b]) for y in ([c] if c is d else [c, d])]
    products = [proof.step("mul", x, y, width) for x, y in pairs]
    low = high = products[0]
    for product in products[1:]:
        low, high = proof.extreme(True, low, product), proof.extreme(False, high, product)
    return low, high


def _shl(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    assert right.constant is not None
    return _mul(proof, left, _constant(1 << right.constant), width)


def _ashr(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    (a, b), by = proof.bounds(left), proof.bounds(right)[0]
    return proof.b.ashr(a, by), proof.b.ashr(b, by)


def _and(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    return I64(0), proof.bounds(right)[0]


def _sdiv(proof: _Proof, left: _Interval, right: _Interval, width: int) -> Bounds:
    (a, b), by = proof.bounds(left), proof.bounds(right)[0]
    return proof.b.sdiv(a, by), proof.b.sdiv(b, by)


_OPERATIONS: dict[str, tuple[Callable[..., Bounds], bool]] = {
    "add": (_add, False), "sub": (_sub, False), "mul": (_mul, False), "shl": (_shl, True), "ashr": (_ashr, True),
    "and": (_and, True), "sdiv": (_sdiv, True),
}  # fmt: skip
