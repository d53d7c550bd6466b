"""Programs of an isolated device: what each worker is sent of them, once."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

from kaio.runtime.isolated.link import Link
from kaio.runtime.isolated.printing import IsolatedPrints

if TYPE_CHECKING:
    from kaio.runtime.isolated.device import IsolatedDevice

__all__ = ["IsolatedLoaded", "pointers_in"]

_numbers = itertools.count(1)


class IsolatedLoaded:
    """A program, with what the driver says about it; in the worker it goes by a number."""

    __slots__ = (
        "_device", "_sent", "dynamic_nbytes", "max_threads", "name", "number", "program", "registers",
        "shared_nbytes", "state_at",
    )  # fmt: skip

    def __init__(self, device: IsolatedDevice, program: Any) -> None:
        self._device, self.program, self.name, self.number = device, program, program.name, next(_numbers)
        # Where its argument block has the address of a state (`kaio/fault_abi.py`); None of a program without checks.
        self.state_at = -(-program.block.size // 8) * 8 if program.sites else None
        self.dynamic_nbytes = 0
        self._sent = 0  # to the worker with this number
        self.max_threads: int | None = None
        what = f"kernel `{self.name}` for {program.target}"
        self.max_threads, self.registers, self.shared_nbytes, self.dynamic_nbytes = device.ask(what, self._load)

    def _load(self, link: Link) -> Any:
        facts = link.ask("load", *self._message(link))
        self._sent = link.number
        return facts

    def _message(self, link: Link) -> tuple[Any, ...]:
        program, binding = self.program, None
        if program.prints:
            link.prints = link.prints or IsolatedPrints(self._device, link)
            binding = link.prints.bind(program)
        pointers = pointers_in(program.block.format)
        return self.number, self.name, program.cubin, pointers, self.state_at, binding, self.dynamic_nbytes

    def send_to(self, link: Link) -> None:
        """See to it that a worker has it; one that replaces another is sent it when it is launched there."""
        if self._sent != link.number:
            with self._device.loading:
                if self._sent != link.number:
                    link.tell("load", *self._message(link))
                    self._sent = link.number

    def resident_blocks(self, device: Any, threads: int, shared_nbytes: int) -> int:
        """How many blocks of this size one multiprocessor runs at once."""

        def ask(link: Link) -> Any:
            self.send_to(link)
            return link.ask("resident_blocks", self.number, threads, shared_nbytes)

        return int(self._device.ask(f"kernel `{self.name}`", ask))

    def allow(self, shared_nbytes: int) -> None:
        """Opt in to more dynamic shared memory than a block has by default."""

        def ask(link: Link) -> Any:
            self.send_to(link)
            return link.ask("allow", self.number, shared_nbytes)

        self._device.ask(f"kernel `{self.name}`", ask)
        self.dynamic_nbytes = shared_nbytes


def pointers_in(layout: str) -> tuple[int, ...]:
    """The places of addresses in what a layout of `struct` packs.

    >>> pointers_in("@PiPif")
    (0, 16)
    """
    return tuple(
        struct.calcsize(layout[: at + 1]) - struct.calcsize("P") for at, code in enumerate(layout) if code == "P"
    )
