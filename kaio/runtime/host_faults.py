"""What went wrong in a block on the CPU device, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kaio import host_abi as abi
from kaio.errors import KernelFault, Mistake
from kaio.program import Program, Site
from kaio.runtime.guard import as_written, guard_help
from kaio.runtime.host_addresses import outside
from kaio.runtime.stream import USUAL, RunOptions

__all__ = ["FaultRecord", "fault_error", "position", "replayable"]

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class FaultRecord:
    """What a block has recorded (`host_abi.FAULT` and on), and the words of its threads by word and thread."""

    kind: int
    block: int
    site: int
    thread: int
    other: int
    index: int
    size: int
    word: Callable[[int, int], int]


def fault_error(
    program: Program,
    record: FaultRecord,
    grid: Dim3,
    block: Dim3,
    options: RunOptions = USUAL,
    arguments: bytes = b"",
) -> KernelFault:
    """The error that says what a record means; `arguments` are the packed ones of the launch."""
    return _Teller(program, record, grid, block, options, arguments).error()


def replayable(fault: KernelFault, schedule: int | None) -> KernelFault:
    """A fault that tells the seed of the launch, which finds it again; itself where the launch had none."""
    if schedule is None:
        return fault
    *others, last = fault.mistakes
    again = f"`.options(schedule={schedule})` runs the threads in this order again"
    last = replace(last, help=f"{last.help}\n  help: {again}" if last.help else again)
    return KernelFault([*others, last], **fault.facts, schedule=schedule)


class _Teller:
    """One fault with the names of everything that it is about."""

    def __init__(
        self, program: Program, record: FaultRecord, grid: Dim3, block: Dim3, options: RunOptions, arguments: bytes
    ) -> None:
        self.program, self.record, self.grid, self.options = program, record, grid, options
        self.arguments = arguments
        self.kernel = f"kernel `{program.name}`"
        self.facts: dict[str, Any] = {
            "kind": "divergence",
            "kernel": program.name,
            "block": position(record.block, grid),
            "thread": position(record.thread, block),
        }
        self.thread = f"thread {self.facts['thread']} of block {self.facts['block']}"
        self.other = f"thread {position(record.other, block)}"

    def error(self) -> KernelFault:
        if self.record.kind == abi.FAILED:
            return self._failed(self.program.sites[self.record.site])
        if self.record.kind == abi.STUCK:
            return self._stuck()
        if self.record.kind == abi.SHORT:
            return self._short()
        if self.record.kind == abi.APART:
            return self._apart()
        if self.record.kind in (abi.ENDLESS, abi.DRY):
            return self._endless(self.program.sites[self.record.site])
        return self._barrier()

    def _at(self, here: Site, what: str, way_out: str | None = None) -> KernelFault:
        """Something wrong at one site."""
        return self._made(here, Mistake(what, here.place, way_out, here.trace))

    def _between(self, here: Site, what: str, there: Site, other: str, way_out: str) -> KernelFault:
        """Something wrong between who waits at one site and the `other` who waits at another."""
        second = Mistake(f"{other} waits here", there.place, way_out, there.trace)
        return self._made(here, Mistake(what, here.place, trace=here.trace), second)

    def _made(self, here: Site, *mistakes: Mistake) -> KernelFault:
        return KernelFault(mistakes, line=here.place.line, **self.facts)

    # ------------------------------------------------------------------ a check of one thread
    def _failed(self, site: Site) -> KernelFault:
        self.facts["kind"] = site.kind
        if site.kind == "index":
            return self._index(site)
        if site.kind == "lane":
            return self._lane(site)
        if site.kind == "address":
            return self._address(site)
        what = f"{site.text} in {self.kernel}"
        if site.kind == "assert":
            what = f"assertion failed in {self.kernel}" + (f": {site.text}" if site.text else "")
        return self._at(site, f"{what}\n  {self.thread}")

    def _index(self, site: Site) -> KernelFault:
        index, size = as_written(site, self.record.index, self.record.size), self.record.size
        self.facts |= {"array": site.text, "axis": site.axis, "index": index, "size": size}
        axis = f"axis {site.axis} of `{site.text}` (size {size})"
        what = f"index {index} is out of range for {axis} in {self.kernel}\n  {self.thread}"
        return self._at(site, what, guard_help(site, index, size))

    def _address(self, site: Site) -> KernelFault:
        found, facts = outside(self.program, site, self.record.index, self.record.size, self.arguments)
        self.facts |= {"kind": "index", **facts}
        way_out = 'on `kaio.Device("cpu")` the same launch names the array, the axis and the index'
        return self._at(site, f"{self.kernel} {found}\n  {self.thread}", way_out)

    def _lane(self, site: Site) -> KernelFault:
        lane, own, members = self.record.index, self.record.thread % 32, self.record.size
        what = (
            f"`{site.text}` reads lane {lane}, which does not take part, in {self.kernel}\n"
            f"  {self.thread} (lane {own}); lanes {lanes(members)} take part"
        )
        way_out = "read a lane of the mask that has not returned; of a warp that is not full, those are its first lanes"
        if (group := _group(site)) is not None:
            self.facts["kind"] = "divergence"
            way_out = (
                f"every thread of a {group} has to reach `{site.text}(…)`: put a guard round the work, not a `return`, "
                "and let a thread without data give what changes nothing"
            )
        return self._at(site, what, way_out)

    # ------------------------------------------------------------------ loops
    def _endless(self, site: Site) -> KernelFault:
        self.facts["kind"] = "endless"
        if self.record.kind == abi.DRY:
            turns = f"{self.options.fuel} turn" + "s" * (self.options.fuel != 1)
            what = f"a thread ran out of fuel in {self.kernel}\n  {self.thread} has taken {turns} of loops, and is here"
            return self._at(site, what, "where that is not too many, give it more: `.options(fuel=…)`")
        what = (
            f"a loop never ends in {self.kernel}\n  {self.thread} is in it, and for {self.options.patience_s:g} s no "
            "thread has returned or got past a barrier"
        )
        way_out = "let its condition become false in every thread"
        if site.kind == "pause":
            way_out = "another thread has to write what it waits for, and to be alive at the same time"
        return self._at(site, what, f"{way_out}; where it only takes long: `.options(timeout_s=…)`")

    # ------------------------------------------------------------------ threads that wait
    def _site_of(self, thread: int) -> Site:
        return self.program.sites[self.record.word(abi.STATE, thread)]

    def _barrier(self) -> KernelFault:
        here = self._site_of(self.record.thread)
        if self.record.kind == abi.DIVERGED:
            there = self._site_of(self.record.other)
            what = f"threads of one block wait at different barriers in {self.kernel}"
            name = here.text or "bar_sync"
            way_out = f"every thread of a block has to reach the same `{name}()`: take it out of the branch"
            return self._between(here, f"{what}\n  {self.thread} waits here", there, self.other, way_out)
        is_round = here.reach == 1 << (-1 - self.record.word(abi.STATE, self.record.other))
        if here.kind in ("cluster", "grid") or (here.kind == "whole" and not is_round):
            whom = "block" if here.kind == "whole" else here.kind
            what = f"not all threads of a {whom} reach `{here.text}()` in {self.kernel}\n  {self.thread} waits here"
            way_out = f"no thread may return before `{here.text}()`: put a guard round the work, not a `return`"
            return self._at(here, f"{what}; {self.other} has returned", way_out)
        what = f"not all threads of a block reach a barrier in {self.kernel}"
        what += f"\n  {self.thread} waits here; {self.other} went round it and finished"
        name = here.text or "bar_sync"
        way_out = f"every thread of a block has to reach the `{name}()`: take it out of the branch or loop"
        if here.kind == "barrier":
            way_out += ", or let threads that have finished count as arrived: `.options(partial_barriers=True)`"
        return self._at(here, what, way_out)

    def _short(self) -> KernelFault:
        here, there = self._site_of(self.record.thread), self._site_of(self.record.other)
        number, wanted = self.record.size >> 32, self.record.size & 0xFFFFFFFF
        what = (
            f"named barrier {number} is never completed in {self.kernel}\n"
            f"  {self.thread} waits here for {wanted} threads; {self.record.index} have come, and no other can"
        )
        way_out = "count all warps that come to it, those of `named_bar_arrive` too"
        if there is here:
            return self._at(here, what, way_out)
        return self._between(here, what, there, self.other, way_out)

    def _apart(self) -> KernelFault:
        """Blocks that wait for each other: `site` and `other` of the record are where the two are."""
        here, other = self.program.sites[self.record.site], position(self.record.index, self.grid)
        whom = "blocks of one cluster" if here.kind == "cluster" else "blocks of the grid"
        what = f"{whom} wait at different places in {self.kernel}\n  block {self.facts['block']} waits here"
        way_out = f"every thread of every one has to reach the same `{here.text}()`"
        if self.record.other <= 0:
            what = f"`{here.text}()` can never be completed in {self.kernel}\n  block {self.facts['block']} waits here"
            return self._at(here, f"{what}; block {other} has returned", way_out)
        there = self.program.sites[self.record.other]
        return self._between(here, what, there, f"block {other}", way_out)

    def _stuck(self) -> KernelFault:
        thread, other = self.record.thread, self.record.other
        here, there = self._site_of(thread), self._site_of(other)
        mask, is_masked = self.record.index & 0xFFFFFFFF, self.record.index >> 32 != 0
        lane, whom = thread % 32, f"lanes {lanes(mask)}" if is_masked else "all lanes of its warp"
        what = f"`{here.text}` can never be completed in {self.kernel}\n  {self.thread} (lane {lane})"
        if not mask >> lane & 1:
            way_out = "a lane that takes part has its own bit set in the mask"
            what += f" waits here for {whom}, of which it is none"
            return self._at(here, what, way_out)
        what += f" waits here for {whom}"
        if there is here:
            way_out = "all lanes of a mask have to name the same mask"
            its = lanes(self.record.word(abi.MASK, other) & 0xFFFFFFFF)
            what += f"; {self.other} (lane {other % 32}) waits here for lanes {its}"
            return self._at(here, what, way_out)
        name = here.text
        way_out = f"all lanes have to reach the same `{name}(…)`: take it out of the branch"
        if _group(here) is None:
            way_out += ", or name those that do: `mask=`"
        return self._between(here, what, there, f"{self.other} (lane {other % 32})", way_out)


def _group(site: Site) -> str | None:
    """Whose collective operation this is (`block_reduce_sum` is a block's); None of one that takes a mask of lanes."""
    group, _, rest = site.text.partition("_")
    return group if group in ("warp", "block") and rest.startswith(("reduce", "scan", "broadcast")) else None


def lanes(mask: int) -> str:
    """The lanes of a mask in words.

    >>> lanes(0xFFFF), lanes(0x80000001), lanes(0x0000F0F1)
    ('0-15 (mask 0x0000ffff)', '0, 31 (mask 0x80000001)', '0, 4-7, 12-15 (mask 0x0000f0f1)')
    """
    spans: list[list[int]] = []
    for lane in range(32):
        if mask >> lane & 1:
            if spans and spans[-1][1] == lane - 1:
                spans[-1][1] = lane
            else:
                spans.append([lane, lane])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans) or "none"
    return f"{text} (mask {mask:#010x})"


def position(number: int, shape: Dim3) -> Dim3:
    """The place of a thread in its block, or of a block in the grid, x first."""
    x, y, _ = shape
    return number % x, number // x % y, number // x // y
