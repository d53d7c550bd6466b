"""What a device can hold: the limits of a launch, from the GPU itself or from a table of well-known ones."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from kaio.errors import DeviceNotFoundError

__all__ = ["DESCRIPTIONS", "Description", "Limits", "describe"]


@dataclass(frozen=True)
class Limits:
    """The limits of a launch; grids and blocks are x first, sizes in bytes."""

    max_threads_per_block: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_nbytes_per_block: int = 49152
    shared_nbytes_optin: int = 49152
    registers_per_block: int = 65536
    warp_size: int = 32
    multiprocessors: int = 1
    threads_per_multiprocessor: int = 2048
    blocks_per_multiprocessor: int = 32
    shared_nbytes_per_multiprocessor: int = 65536


@dataclass(frozen=True)
class Description:
    """A GPU as the CPU device imitates it: its name, its compute capability, its limits."""

    name: str
    capability: tuple[int, int]
    limits: Limits


def _row(
    name: str,
    capability: tuple[int, int],
    optin_kib: int,
    multiprocessors: int,
    threads: int,
    blocks: int,
    all_kib: int,
) -> Description:
    limits = Limits(
        shared_nbytes_optin=optin_kib * 1024,
        multiprocessors=multiprocessors,
        threads_per_multiprocessor=threads,
        blocks_per_multiprocessor=blocks,
        shared_nbytes_per_multiprocessor=all_kib * 1024,
    )
    return Description(name, capability, limits)


# CUDA C++ programming guide, "Compute capabilities": KiB of shared memory that one block may opt in to, then threads,
# blocks and KiB of shared memory of a multiprocessor. The multiprocessors (before these three) are those of the board.
DESCRIPTIONS: dict[str, Description] = {
    "sm_75": _row("T4", (7, 5), 64, 40, 1024, 16, 64),
    "sm_80": _row("A100", (8, 0), 163, 108, 2048, 32, 164),
    "sm_86": _row("RTX A6000", (8, 6), 99, 84, 1536, 16, 100),
    "sm_87": _row("Jetson AGX Orin", (8, 7), 163, 16, 1536, 16, 164),
    "sm_89": _row("L40S", (8, 9), 99, 142, 1536, 24, 100),
    "sm_90": _row("H100", (9, 0), 227, 132, 2048, 32, 228),
    "sm_100": _row("B200", (10, 0), 227, 148, 2048, 32, 228),
    "sm_103": _row("B300", (10, 3), 227, 148, 2048, 32, 228),
    "sm_120": _row("RTX PRO 6000 Blackwell", (12, 0), 99, 188, 1536, 24, 100),
}


def describe(target: Any) -> Description:
    """The description of a target such as ``sm_90``; ``sm_90a`` and ``sm_90f`` have the limits of ``sm_90``."""
    found = DESCRIPTIONS.get(target.rstrip("af")) if isinstance(target, str) else None
    if found is None:
        raise DeviceNotFoundError(f"there is no description of a device like {target!r}", help=_nearest(str(target)))
    return found


# Boards by name: compute capability of https://developer.nvidia.com/cuda-gpus. More digits may follow (RTX 3090).
_BOARDS = {
    "T4": "sm_75", "RTX20": "sm_75", "A100": "sm_80", "A800": "sm_80", "A30": "sm_80", "A2": "sm_86", "A10": "sm_86",
    "A16": "sm_86", "A40": "sm_86", "A4000": "sm_86", "A5000": "sm_86", "A6000": "sm_86", "RTX30": "sm_86",
    "ORIN": "sm_87", "L4": "sm_89", "L40": "sm_89", "L40S": "sm_89", "RTX40": "sm_89", "H20": "sm_90", "H100": "sm_90",
    "H200": "sm_90", "H800": "sm_90", "GH200": "sm_90", "B200": "sm_100", "GB200": "sm_100", "B300": "sm_103",
    "GB300": "sm_103", "RTX50": "sm_120",
}  # fmt: skip


def _nearest(target: str) -> str:
    words = target.upper().replace("NVIDIA", "").replace("GEFORCE", "").replace(" ", "").replace("-", "")
    for name in (words, words.removeprefix("RTX")):
        for board in sorted(_BOARDS, key=len, reverse=True):
            rest = name.removeprefix(board)
            if rest != name and (board.startswith("RTX") or not rest[:1].isdigit()):
                return f'that board is like="{_BOARDS[board]}"'
    near = difflib.get_close_matches(target.lower(), DESCRIPTIONS, n=1) if "sm" in target.lower() else []
    return f'did you mean like="{near[0]}"?' if near else f"use one of {', '.join(DESCRIPTIONS)}"
