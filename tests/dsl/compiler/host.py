"""Kernels compiled for the host and run on NumPy arrays, without a device between."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np

import kaio
from kaio import In, i32
from kaio.dsl.compiler.host import emit_host as emitter
from kaio.dsl.compiler.host import split_body
from kaio.dsl.compiler.host.emit_host import HostModule
from kaio.dsl.compiler.host.fission_regions import Refused
from kaio.dsl.compiler.host.link_host import link_host
from kaio.dsl.compiler.host.prove import Prover
from kaio.dsl.compiler.middle import Middle
from kaio.dsl.compiler.pipeline import CompileOptions, read
from kaio.errors import KernelFault
from kaio.program import Build, HostProgram
from kaio.runtime.host_kernel import HostKernel
from kaio.runtime.host_workers import WorkerPool
from kaio.runtime.stream import USUAL, RunOptions

Shape = int | tuple[int, ...]


@cache
def pool(workers: int) -> WorkerPool:
    """A pool that all tests share."""
    return WorkerPool(workers)


class Compiled:
    """A kernel on the host: call it with a grid, a block and arguments."""

    def __init__(self, module: HostModule, program: HostProgram) -> None:
        self.module, self.program = module, program
        self.kernel = HostKernel(program)

    def __call__(
        self, grid: Shape, block: Shape, *args: Any, workers: int = 1, options: RunOptions = USUAL, cluster: Shape = 1
    ) -> None:
        values: list[Any] = []
        for argument, value in zip(self.program.arguments, args, strict=True):
            if argument.is_buffer:
                values += [value.ctypes.data, *value.shape]
            else:
                values.append(argument.dtype(value).item())
        packed = self.program.block.pack(*values)
        self.kernel.run(_three(grid), _three(block), packed, pool(workers), 0, _three(cluster), options)

    def fault(self, grid: Shape, block: Shape, *args: Any, **how: Any) -> str | None:
        """The message of the fault, None where there is none."""
        try:
            self(grid, block, *args, **how)
        except KernelFault as fault:
            return str(fault)
        return None


def compiled(
    function: Callable[..., Any],
    *,
    check: bool = True,
    index_bits: Literal[32, 64] = 32,
    contract: bool = True,
    stepped: bool = False,
    counted: bool = False,
    **consts: Any,
) -> Compiled:
    """A kernel function compiled for this machine."""
    front = read(function)
    specialisation = front.signature.specialise(consts, {}, index_bits)
    typed = Middle(front, specialisation).typed
    build = Build("bounds" if check else "off", stepped=stepped, counted=counted)
    module = emitter.emit_host(typed, build=build, contract=CompileOptions(contract=contract).contract)
    return Compiled(module, link_host(module, front.signature.name, specialisation.arguments, index_bits))


class NoProof(Prover):
    """Takes nothing, so that every check and guard stays in the code."""

    def takes_index(self, index: Any, size: Any) -> bool:
        return False

    def takes_guard(self, condition: Any) -> bool | None:
        return None


def unproved(function: Callable[..., Any], monkeypatch: Any, **options: Any) -> Compiled:
    """The same without the proof."""
    with monkeypatch.context() as patch:
        patch.setattr(emitter, "Prover", NoProof)
        return compiled(function, **options)


def unsplit(function: Callable[..., Any], monkeypatch: Any, **options: Any) -> Compiled:
    """The same as a coroutine, where threads wait."""

    def refuse(*_: Any, **__: Any) -> None:
        raise Refused("asked for")

    with monkeypatch.context() as patch:
        patch.setattr(split_body, "fission", refuse)
        return compiled(function, **options)


def _three(shape: Shape) -> tuple[int, int, int]:
    x, y, z = (*(shape if isinstance(shape, tuple) else (shape,)), 1, 1)[:3]
    return x, y, z


def ramp(n: int, dtype: Any = np.float32) -> np.ndarray:
    """0, 1, 2 ..."""
    return np.arange(n, dtype=dtype)


def asserts(x: In[i32]) -> None:
    """A kernel that asserts. (In a test module pytest would rewrite its bytecode.)"""
    assert x[kaio.thread_idx.x] >= 0, "negative input"
