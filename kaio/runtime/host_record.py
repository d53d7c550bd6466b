"""What a worker keeps of the blocks that it runs: their contexts, words, frames and shared memory."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial

from kaio import host_abi as abi
from kaio.runtime.host_faults import FaultRecord
from kaio.runtime.host_memory import HostMemory
from kaio.runtime.host_shadow import ShadowOfRecord

__all__ = ["FAULT", "Record"]

FAULT = struct.Struct("@4i2q")  # FAULT ... FAULT_SIZE
_WORDS_NBYTES = 4 * abi.WORD_COUNT * abi.WORD_STRIDE


class Record:
    """What one worker needs while it runs blocks: context, words, frames, shared memory. Kept between launches.

    Of blocks that run together there are several, each with its own, behind each other.
    """

    def __init__(self) -> None:
        self.worker = HostMemory(abi.WORKER.size)
        self.context, self.words = HostMemory(abi.CONTEXT_NBYTES), HostMemory(_WORDS_NBYTES)
        self.shared, self.frames = HostMemory(0, abi.SHARED_ALIGNMENT), HostMemory(0)
        self.shadow = ShadowOfRecord()

    def grow(self, blocks: int, shared_nbytes: int, frames_nbytes: int) -> None:
        """Make room for so many blocks of so much each."""
        if self.context.nbytes < blocks * abi.CONTEXT_NBYTES:
            self.context, self.words = HostMemory(blocks * abi.CONTEXT_NBYTES), HostMemory(blocks * _WORDS_NBYTES)
        if self.shared.nbytes < blocks * shared_nbytes:
            self.shared = HostMemory(blocks * shared_nbytes, abi.SHARED_ALIGNMENT)
        if self.frames.nbytes < blocks * frames_nbytes:
            self.frames = HostMemory(blocks * frames_nbytes)

    def faults(self) -> list[FaultRecord]:
        """What went wrong in the blocks that ran last."""
        return [fault for slot in range(self.used) if (fault := self._fault(slot)) is not None]

    @property
    def used(self) -> int:
        """How many blocks have lived here at a time, in the last launch."""
        return max(1, int(struct.unpack_from("@i", self.context.view, abi.USED)[0]))

    def _fault(self, slot: int) -> FaultRecord | None:
        context = slot * abi.CONTEXT_NBYTES
        kind, site, thread, other, index, size = FAULT.unpack_from(self.context.view, context + abi.FAULT)
        if not kind:
            return None
        block = int(struct.unpack_from("@q", self.context.view, context + abi.BLOCK)[0])
        own = FaultRecord(kind, block, site, thread, other, index, size, partial(self._word, slot))
        if kind != abi.APART:
            return own
        other_block = int(struct.unpack_from("@q", self.context.view, index * abi.CONTEXT_NBYTES + abi.BLOCK)[0])
        sites = [
            struct.unpack_from("@i", self.context.view, at * abi.CONTEXT_NBYTES + abi.SITE)[0] for at in (slot, index)
        ]
        return replace(own, site=sites[0], other=sites[1], index=other_block)

    def _word(self, slot: int, word: int, thread: int) -> int:
        at = slot * _WORDS_NBYTES + 4 * (word * abi.WORD_STRIDE + thread)
        return int(struct.unpack_from("@i", self.words.view, at)[0])
