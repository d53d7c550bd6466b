"""The numbered sites of a program, and the checks that leave for them, alike on both machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.print_ring import Lines
from kaio.errors import Place
from kaio.program import Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Checks", "Sites"]


class Sites:
    """The numbered sites of a program, and the lines it prints.

    One source place has one number, however often it is emitted. 0 is no site.
    """

    def __init__(self) -> None:
        self.found = [Site("none", Place("", 0))]
        self._numbers: dict[Site, int] = {}
        self.prints = Lines()

    def number(self, site: Site) -> int:
        """The number of a site, a new one where it was not seen before."""
        if site not in self._numbers:
            self._numbers[site] = len(self.found)
            self.found.append(site)
        return self._numbers[site]

    def reach(self, number: int, exits: int) -> None:
        """These exits, too, can be reached from that site."""
        self.found[number] = replace(self.found[number], reach=self.found[number].reach | exits)


class Checks:
    """As much of a `Target` as finds that something is wrong; what a thread does then is the machine's `fault`."""

    checks: bool
    sites: Sites

    def fault(self, e: Emitter, site: Site, index: llvm.Value | None = None, size: llvm.Value | None = None) -> None:
        """Record a fault and leave; ends the current block."""
        raise NotImplementedError

    def passed(self, e: Emitter) -> None:
        """All threads of the block have come here."""

    def fault_state(self, e: Emitter) -> llvm.Value | None:
        """The address of what a launch knows of its faults (`kaio/fault_abi.py`); None where there is none."""
        return None

    @property
    def checks_asserts(self) -> bool:
        """Assertions are compiled where anything is checked."""
        return self.checks

    def check_index(self, e: Emitter, index: llvm.Value, size: llvm.Value, axis: int, array: str, written: str) -> None:
        """One unsigned comparison."""
        if self.checks:
            with self.unless(e, e.b.icmp_unsigned("<", index, size)):
                is_fixed = isinstance(size, llvm.Constant)
                site = Site("index", e.place, e.trace, array, axis, is_fixed=is_fixed, written=written)
                self.fault(e, site, index, size)

    def check(self, e: Emitter, holds: llvm.Value, text: str) -> None:
        """A condition that the language demands."""
        if self.checks:
            with self.unless(e, holds):
                self.fault(e, Site("check", e.place, e.trace, text))

    def fail(self, e: Emitter, text: str) -> None:
        """An assertion did not hold."""
        self.fault(e, Site("assert", e.place, e.trace, text))

    @contextmanager
    def unless(self, e: Emitter, holds: llvm.Value) -> Iterator[None]:
        """What is emitted within runs where a condition does not hold, and does not come back."""
        good, bad = e.block("ok"), e.block("fault")
        branch = e.b.cbranch(holds, good, bad)
        if e.target.name == "host":  # of larger kernels with weights libNVVM 13.x ends the process
            branch.set_weights([1 << 20, 1])
        e.b.position_at_end(bad)
        yield
        e.b.position_at_end(good)
