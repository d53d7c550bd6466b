"""Native launches: a builtin that holds everything of a launch but its arguments, and takes those as bytes.

A call of the driver from Python costs mostly what it takes to turn eleven Python objects into C. A thunk has them in C
already: its one call costs some 40 ns beside the driver's own. It is a dozen instructions, made by LLVM once a process
when the first kernel is launched, and a builtin method around them whose `self` is a bytes object with the launch.
Python's functions go in by address, so that nothing has to be linked, and all of them are in the stable ABI.

The GIL is released while the driver works: `cuLaunchKernel` blocks while the queue of the GPU is full, loads modules at
first use, and waits for the kernel under a debugger, and other threads of Python must be able to go on, among them
one that a kernel waits for. That is 20 ns of the 40.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.forking import whole_lock
from kaio.runtime.cuda.calls import call_together
from kaio.runtime.cuda.driver import done, driver
from kaio.runtime.host_library import Library

if TYPE_CHECKING:
    from kaio.runtime.stream import Dims, Together

__all__ = ["Call", "launch_call"]

Call = Callable[[bytes], int]
"""Launches with this argument block, and gives the driver's code: 0 is success."""

_log = logging.getLogger("kaio")
_MAKING = whole_lock(2)

_METH_O = 8  # CPython: methodobject.h
_make_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_ATTRIBUTE_NBYTES = 72  # CUlaunchAttribute: cuda.h
_FIRST_WITH_CONFIG = 11060  # CUDA 11.6: `cuLaunchKernelEx`
_FIRST = 4000

# `self` as in C: CUlaunchConfig (cuda.h), the function, then the attributes of the launch.
_CONFIG = struct.Struct("@7IPPIP")
_FUNCTION_AT = _CONFIG.size - struct.calcsize("P")

_IR = """
define ptr @{name}(ptr %self, ptr %arguments) {{
  %extra = alloca [5 x ptr]
  %nbytes = alloca i64
  %config = alloca [{function_at} x i8], align 8
  %data = call ptr inttoptr (i64 {PyBytes_AsString} to ptr)(ptr %arguments)
  %is_wrong = icmp eq ptr %data, null
  br i1 %is_wrong, label %wrong, label %right
right:
  %size = call i64 inttoptr (i64 {PyBytes_Size} to ptr)(ptr %arguments)
  store i64 %size, ptr %nbytes
  store ptr inttoptr (i64 1 to ptr), ptr %extra
  %value = getelementptr ptr, ptr %extra, i64 1
  store ptr %data, ptr %value
  %next = getelementptr ptr, ptr %extra, i64 2
  store ptr inttoptr (i64 2 to ptr), ptr %next
  %length = getelementptr ptr, ptr %extra, i64 3
  store ptr %nbytes, ptr %length
  %end = getelementptr ptr, ptr %extra, i64 4
  store ptr null, ptr %end
  %is_empty = icmp eq i64 %size, 0
  %block = select i1 %is_empty, ptr null, ptr %extra
  %launch = call ptr inttoptr (i64 {PyBytes_AsString} to ptr)(ptr %self)
  %function_at = getelementptr i8, ptr %launch, i64 {function_at}
  %function = load ptr, ptr %function_at
  %thread = call ptr inttoptr (i64 {PyEval_SaveThread} to ptr)()
{call}
  call void inttoptr (i64 {PyEval_RestoreThread} to ptr)(ptr %thread)
  %wide = zext i32 %code to i64
  %answer = call ptr inttoptr (i64 {PyLong_FromSsize_t} to ptr)(i64 %wide)
  ret ptr %answer
wrong:
  ret ptr null
}}
"""

_PLAIN = (
    "\n".join(
        f"  %at{k} = getelementptr i32, ptr %launch, i64 {k}\n  %size{k} = load i32, ptr %at{k}" for k in range(7)
    )
    + """
  %stream_at = getelementptr i8, ptr %launch, i64 32
  %stream = load ptr, ptr %stream_at
  %code = call i32 inttoptr (i64 {address} to ptr)(ptr %function, i32 %size0, i32 %size1, i32 %size2, i32 %size3,
                                                   i32 %size4, i32 %size5, i32 %size6, ptr %stream, ptr null,
                                                   ptr %block)
"""
)

_TOGETHER = """
  call void @llvm.memcpy.p0.p0.i64(ptr %config, ptr %launch, i64 {function_at}, i1 false)
  %attributes_at = getelementptr i8, ptr %config, i64 40
  %attributes = getelementptr i8, ptr %launch, i64 {attributes_at}
  store ptr %attributes, ptr %attributes_at
  %code = call i32 inttoptr (i64 {address} to ptr)(ptr %config, ptr %function, ptr null, ptr %block)
"""

_DECLARED = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def launch_call(
    function: Any, grid: Dims, block: Dims, shared_nbytes: int, stream: Any, together: Together | None
) -> Call | None:
    """What launches this with the arguments that it is given; None where native code cannot be made."""
    methods = _methods()
    if methods is None:
        return None
    attributes = _attributes(together)
    config = _CONFIG.pack(
        *grid, *block, shared_nbytes, int(stream), 0, len(attributes) // _ATTRIBUTE_NBYTES, int(function)
    )
    made: Call = _make_builtin(ctypes.addressof(methods[together is not None]), config + attributes, None)
    return made


def _attributes(together: Together | None) -> bytes:
    """The attributes of such a launch as they lie in memory."""
    if together is None:
        return b""
    config = call_together(0, (1, 1, 1), (1, 1, 1), 0, 0, 0, together)[0]
    return b"".join(ctypes.string_at(attribute.getPtr(), _ATTRIBUTE_NBYTES) for attribute in config.attrs)


def _methods() -> tuple[_MethodDef, _MethodDef] | None:
    """The definitions of a plain launch and of one whose blocks run together; they and their code live on."""
    with _MAKING:  # of two that are made at a time, the code of one would be unloaded while launches go through it
        return _made()


@functools.cache
def _made() -> tuple[_MethodDef, _MethodDef] | None:
    try:
        names = ("PyBytes_AsString", "PyBytes_Size", "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromSsize_t")
        known: dict[str, int] = {name: _address(getattr(ctypes.pythonapi, name)) for name in names}
        known |= {"function_at": _FUNCTION_AT, "attributes_at": _CONFIG.size}
        text = _DECLARED
        for name, call, entry, version in (
            ("plain", _PLAIN, b"cuLaunchKernel", _FIRST),
            ("together", _TOGETHER, b"cuLaunchKernelEx", _FIRST_WITH_CONFIG),
        ):
            address = int(done(driver.cuGetProcAddress(entry, version, 0))[0])
            text += _IR.format(name=name, call=call.format(address=address, **known), **known)
        library = Library(text, ("plain", "together"))
    except Exception as problem:  # whatever it is: launches go through the bindings then, and work
        _log.debug("launches are not native: %s", problem)
        return None
    plain, together = (_MethodDef(b"launch", library.address(n), _METH_O, None) for n in ("plain", "together"))
    plain.library = library
    return plain, together


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
