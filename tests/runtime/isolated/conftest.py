"""The isolated device, and kernels that end badly. The fake driver knows them by their names, a GPU by their PTX."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32, i32
from kaio.program import Argument, CudaProgram
from kaio.runtime.stream import Launch, RunOptions
from tests.runtime.test_cuda import FAULT, SAXPY

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
TRAP = HEAD + ".visible .entry trap()\n{\n    trap;\n    ret;\n}\n"
ENDLESS = (
    HEAD
    + """
.visible .entry endless(.param .u64 x)
{
    .reg .b64 %d1;
    .reg .b32 %r1;
    ld.param.u64 %d1, [x];
    mov.u32 %r1, 1;
again:
    red.global.add.u32 [%d1], %r1;
    bra again;
}
"""
)
HUNGRY = (
    HEAD
    + """
.visible .entry hungry(.param .u64 x)
{
    .local .align 4 .b8 own[500000];
    .reg .b64 %d<4>;
    .reg .b32 %r<3>;
    ld.param.u64 %d1, [x];
    ld.global.u32 %r1, [%d1];
    mov.u64 %d2, own;
    cvt.u64.u32 %d3, %r1;
    add.s64 %d2, %d2, %d3;
    st.local.u32 [%d2], %r1;
    ld.local.u32 %r2, [%d2];
    st.global.u32 [%d1], %r2;
    ret;
}
"""
)


def program(name: str, ptx: str, *arguments: Argument) -> CudaProgram:
    """PTX as a program: the driver takes it where it takes a cubin."""
    return CudaProgram(name, "sm_80", arguments, 32, 0, ptx="", cubin=ptx.encode() + b"\0")


_WORD = Argument("x", i32, 0, "InOut")  # type: ignore[arg-type]
PROGRAMS = {
    "fault": program("fault", FAULT),
    "trap": program("trap", TRAP),
    "endless": program("endless", ENDLESS, _WORD),
    "hungry": program("hungry", HUNGRY, _WORD),
    "saxpy": program(
        "saxpy", SAXPY, Argument("x", f32, 1), Argument("y", f32, 1, "InOut"), Argument("a", f32)  # type: ignore[arg-type]
    ),
}  # fmt: skip
ONE = (1, 1, 1)


class Lab:
    """The device, data that is to stay as it is, and launches on it."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.x = gpu.alloc_from(np.arange(1000, dtype=np.float32))
        self.word = gpu.alloc_zeros((), i32)

    def saxpy(self, y: Any, a: float = 1.0, stream: Any = None, x: Any = None) -> Any:
        """Launch `y += a * x`."""
        x = self.x if x is None else x
        block = PROGRAMS["saxpy"].block.pack(x.pointer, x.size, y.pointer, y.size, a)
        stream = stream or self.gpu.current_stream()
        return stream.launch(Launch(
            self.gpu.load(PROGRAMS["saxpy"]), (4, 1, 1), (256, 1, 1), block, ((x, "In"), (y, "InOut"))
        ))  # fmt: skip

    def launch(self, name: str, *uses: Any, stream: Any = None, timeout_s: float | None = None) -> Any:
        """Launch what ends badly; one that takes a buffer is given `word`."""
        found = PROGRAMS[name]
        block = found.block.pack(*[self.word.pointer] * len(found.arguments))
        stream = stream or self.gpu.current_stream()
        uses = (*uses, (self.word, "InOut")) if found.arguments else uses
        return stream.launch(Launch(
            self.gpu.load(found), ONE, ONE, block, uses, options=RunOptions(timeout_s=timeout_s)
        ))  # fmt: skip

    def check_data(self) -> None:
        """The data is as it was, and a kernel runs on it."""
        assert self.x.to_host().tolist() == list(range(1000))
        y = self.gpu.alloc_zeros(1000, f32)
        self.saxpy(y, 2.0).wait(60)
        assert (y.to_host() == 2 * self.x.to_host()).all()


@pytest.fixture
def gpu() -> Any:
    """The first GPU, isolated."""
    return kaio.Device(0, isolated=True)


@pytest.fixture
def lab(gpu: Any) -> Any:
    """The device with data."""
    return Lab(gpu)


@pytest.fixture
def device(gpu: Any) -> Any:
    """For `latch`."""
    return gpu


def until(is_so: Callable[[], bool]) -> bool:
    """Wait for what another process does, for a minute at most."""
    end = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_alive(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
