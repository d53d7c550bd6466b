"""Saxpy launched from C, the floor of what a launch may cost: the same cubin, on a stream of its own."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import kaio
from examples.saxpy import saxpy
from kaio.program import CudaProgram

__all__ = ["BLOCK", "CSaxpy", "N", "check"]

N, BLOCK = 1024, 256


def check(code: int) -> None:
    """Raise RuntimeError for an answer of the driver that is an error."""
    if code:
        raise RuntimeError(f"the driver answered {code}")


class CSaxpy:
    """The driver through ctypes, with what it takes to launch saxpy of N elements; `loop` is that of the C source."""

    def __init__(self, device: kaio.Device, source: str) -> None:
        program = saxpy.compile(device.target)
        assert isinstance(program, CudaProgram)
        self.loop = _compiled(source)
        self.driver = driver = ctypes.CDLL("libcuda.so.1")
        self.function, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        check(driver.cuInit(0))
        check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(driver.cuCtxSetCurrent(context))
        image = ctypes.create_string_buffer(program.cubin, len(program.cubin))
        check(driver.cuModuleLoadData(ctypes.byref(module), image))
        check(driver.cuModuleGetFunction(ctypes.byref(self.function), module, program.name.encode()))
        check(driver.cuStreamCreate(ctypes.byref(self.stream), 1))

        x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
        device.wait()
        values = [
            ctypes.c_uint64(x.pointer),
            ctypes.c_int32(N),
            ctypes.c_uint64(y.pointer),
            ctypes.c_int32(N),
            ctypes.c_float(2),
        ]
        self.arguments = (ctypes.c_void_p * 5)(*[ctypes.addressof(value) for value in values])
        self._alive = x, y, values, image

    def wait(self) -> None:
        """Wait for the stream."""
        check(self.driver.cuStreamSynchronize(self.stream))


def _compiled(source: str) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        text, library = Path(directory, "loop.c"), Path(directory, "loop.so")
        text.write_text(source)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, text], check=True)
        return ctypes.CDLL(str(library)).loop
