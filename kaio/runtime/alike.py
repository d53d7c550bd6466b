"""Whether all blocks of a launch do alike in memory that threads share: the numbers of a launch in `Alike`'s formulas.

A formula is taken apart into so much for each number of the block, so much for each of the thread, and the rest, of
which it is known where it lies. What may not fit 32 bits on the way is not taken apart: it might wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from kaio.program import Formula, HostProgram

__all__ = ["count_alike", "tells_apart"]

Dim3 = tuple[int, int, int]
_LIMIT = 2**31
_NO_STEPS = (0,) * 6


class _Part(NamedTuple):
    """A number that is a sum: of the numbers of the block and of the thread, so many times each, and of a rest.

    steps: for `ctaid` x, y, z and `tid` x, y, z
    low, high: where the rest lies, which is the same for the threads of one number in all blocks
    """

    steps: tuple[int, ...]
    low: int
    high: int

    @property
    def of_block(self) -> tuple[int, ...]:
        """The steps from block to block."""
        return self.steps[:3]


def count_alike(program: HostProgram, grid: Dim3, block: Dim3, arguments: Any) -> int:
    """For how many blocks of a launch the first one shows what the full checks find: for all, all but one, or none.

    `arguments` is the argument block.
    """
    shadow, blocks = program.shadow, prod(grid)
    if shadow is None or shadow.alike is None:
        return 0
    values = program.block.unpack_from(arguments)
    whole = _Shape(grid, block, values, grid)
    are_apart = all(
        tells_apart(axes, grid, block) or (formulas is not None and whole.keeps_apart(formulas))
        for axes, formulas in zip(shadow.apart, shadow.alike.places, strict=True)
    )
    if not are_apart:
        return 0
    if whole.are_same(shadow.alike.same):
        return blocks
    # Of a grid over so many elements the last block has threads that are left over.
    is_line = grid[0] == blocks > 1
    return blocks - 1 if is_line and _Shape((blocks - 1, 1, 1), block, values, grid).are_same(shadow.alike.same) else 0


def tells_apart(axes: tuple[str, ...] | None, grid: Dim3, block: Dim3) -> bool:
    """Whether no two threads of a launch have the same place along these axes of the grid."""
    if axes is None:
        return False
    for axis, blocks, threads in zip("xyz", grid, block, strict=True):
        named = [name for name in axes if name[0] == axis]
        if blocks * threads > 1 and named not in ([axis], [f"{axis}{threads}"]):
            return False
    return True


class _Shape:
    """The blocks of a launch whose numbers are below `part`, and the values of its argument block."""

    def __init__(self, part: Dim3, block: Dim3, values: Sequence[Any], grid: Dim3) -> None:
        self._sizes, self._values = (*part, *block), values
        names = [f"{register}.{axis}" for register in ("ctaid", "tid") for axis in "xyz"]
        self._leaves = {name: self._digit(k) for k, name in enumerate(names)}
        for axis, blocks, threads in zip("xyz", grid, block, strict=True):
            self._leaves[f"ntid.{axis}"], self._leaves[f"nctaid.{axis}"] = _number(threads), _number(blocks)
        rows = _scale(self._leaves["tid.y"], block[0]), _scale(self._leaves["tid.z"], block[0] * block[1])
        self._leaves["thread"] = _add(self._leaves["tid.x"], _add(*rows))

    def part(self, formula: Formula) -> _Part | None:
        """A formula taken apart; None where that cannot be done."""
        found = self._part(formula)
        if found is None:
            return None
        least, most = self._bounds(found)
        return found if least >= -_LIMIT and most < _LIMIT else None

    def are_same(self, formulas: tuple[Formula, ...]) -> bool:
        """Whether all of these are the same in each block."""
        parts = map(self.part, formulas)
        return all(part is not None and not any(part.of_block) for part in parts)

    def keeps_apart(self, places: tuple[Formula, ...]) -> bool:
        """Whether no two blocks have one of these places in common, and each has the same but for where they begin."""
        parts = [self.part(formula) for formula in places]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or len({part.of_block for part in known}) > 1:
            return False
        if len({part.steps for part in known}) > 1:
            known = [self._closed(part) for part in known]
        if not known:
            return True
        return self._are_digits(
            known[0].steps, max(part.high for part in known) - min(part.low for part in known)
        )  # fmt: skip

    def _are_digits(self, steps: tuple[int, ...], reach: int) -> bool:
        """Whether a place tells the numbers of its block: as digits do, each step is more than all below it make.

        A step of the thread's may be less while there is none of a block below it.
        """
        numbers = ((abs(step), k < 3, n) for k, (step, n) in enumerate(zip(steps, self._sizes, strict=True)) if n > 1)
        has_block = False
        for step, is_of_block, size in sorted(numbers):
            if step <= reach and (is_of_block or (has_block and step > 0)):
                return False
            reach += step * (size - 1)
            has_block |= is_of_block
        return True

    def _part(self, formula: Formula) -> _Part | None:
        if isinstance(formula, int):
            return _number(formula)
        if isinstance(formula, str):
            return self._leaves[formula]
        sign, *operands = formula
        if sign == "argument":
            value = self._values[operands[0]]
            return _number(value) if isinstance(value, int) else None
        if sign == "range":
            return self._range_of(*map(self.part, operands))
        left, right = map(self.part, operands)
        if left is None or right is None:
            return None
        if sign in _SUMS:
            return _SUMS[sign](left, right)
        if sign == "*":
            return self._multiply(left, right)
        if sign == "<":
            return self._compare(_subtract(left, right))
        return _low_bits(self._closed(left), right.low) if sign == "&" else _shifted(self._closed(left), right.low)

    def _range_of(self, start: _Part | None, stop: _Part | None, step: _Part | None) -> _Part | None:
        """What a loop that goes up is at, which has the same turns in each block."""
        if start is None or stop is None or step is None:
            return None
        if any(any(part.of_block) for part in (start, stop, step)) or self._bounds(step)[0] <= 0:
            return None
        low = self._bounds(start)[0]
        return _Part(_NO_STEPS, low, max(low, self._bounds(stop)[1] - 1))

    def _multiply(self, left: _Part, right: _Part) -> _Part | None:
        for one, other in ((left, right), (right, left)):
            if not any(one.steps) and one.low == one.high:
                return _scale(other, one.low)
        if any(left.of_block) or any(right.of_block):
            return None
        (a, b), (c, d) = self._bounds(left), self._bounds(right)
        products = [x * y for x in (a, b) for y in (c, d)]
        return _Part(_NO_STEPS, min(products), max(products))

    def _compare(self, difference: _Part) -> _Part | None:
        """Whether it is below 0: 1 or 0, where no block makes a difference."""
        least, most = self._bounds(difference)
        if least >= 0 or most < 0:
            return _number(int(most < 0))
        return None if any(difference.of_block) else _Part(_NO_STEPS, 0, 1)

    def _closed(self, part: _Part) -> _Part:
        """The same with what threads add in the rest."""
        low, high = self._bounds(part._replace(steps=(0, 0, 0, *part.steps[3:])))
        return _Part((*part.of_block, 0, 0, 0), low, high)

    def _bounds(self, part: _Part) -> tuple[int, int]:
        """The least and the most that it is for any thread of any block."""
        ways = [step * (n - 1) for step, n in zip(part.steps, self._sizes, strict=True)]
        return part.low + sum(min(0, way) for way in ways), part.high + sum(max(0, way) for way in ways)

    def _digit(self, at: int) -> _Part:
        """The number of that position in `steps`, which is 0 where there is one alone."""
        return _Part(tuple(int(k == at and self._sizes[k] > 1) for k in range(6)), 0, 0)


def _number(value: int) -> _Part:
    return _Part(_NO_STEPS, value, value)


def _add(left: _Part, right: _Part) -> _Part:
    steps = tuple(a + b for a, b in zip(left.steps, right.steps, strict=True))
    return _Part(steps, left.low + right.low, left.high + right.high)


def _subtract(left: _Part, right: _Part) -> _Part:
    return _add(left, _scale(right, -1))


def _scale(part: _Part, by: int) -> _Part:
    low, high = sorted((part.low * by, part.high * by))
    return _Part(tuple(step * by for step in part.steps), low, high)


def _shifted(part: _Part, by: int) -> _Part | None:
    """Shifted right, which the steps of the blocks must bear without a remainder."""
    if any(step % (1 << by) for step in part.steps):
        return None
    return _Part(tuple(step >> by for step in part.steps), part.low >> by, part.high >> by)


def _low_bits(part: _Part, mask: int) -> _Part | None:
    """The bits of a mask, of which the steps of the blocks must change none."""
    if any(step % (mask + 1) for step in part.steps):
        return None
    if part.low // (mask + 1) == part.high // (mask + 1):
        return _Part(_NO_STEPS, part.low & mask, part.high & mask)
    return _Part(_NO_STEPS, 0, mask)


_SUMS: dict[str, Callable[[_Part, _Part], _Part]] = {
    "+": _add, "-": _subtract, "<<": lambda left, right: _scale(left, 1 << right.low),
}  # fmt: skip
