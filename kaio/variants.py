"""The compiled variants of one kernel: made on first use, once, and made again when a captured value changed."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.options import CompileOptions
from kaio.dtypes import DType
from kaio.errors import CompileError, DeviceNotFoundError, KaioError, LaunchError, UnsupportedFeatureError, is_message
from kaio.forking import fork_lock
from kaio.launch.arguments import Parameters
from kaio.launch.call import Call
from kaio.program import UNCHECKED, Build
from kaio.record_classes import is_record, names_of
from kaio.runtime import Device
from kaio.runtime.stream import Loaded

if TYPE_CHECKING:
    from kaio.dsl.compiler.pipeline import Compiled, Front

__all__ = ["Built", "IndexBits", "Variant", "Variants", "compiler_target", "same_value"]

__tracebackhide__ = is_message

IndexBits = Literal[32, 64]
_FROM_PTX = "cpu from "  # a target: the PTX of the architecture that follows, on the CPU device


class Variants:
    """What one kernel was compiled to so far, for each target, specialisation and index width."""

    def __init__(self, front: Front, options: CompileOptions, parameters: Parameters) -> None:
        self._front = front
        self._options = options
        self._parameters = parameters
        self._built: dict[tuple[Any, ...], Built] = {}
        self._loaded: dict[tuple[Any, ...], Variant] = {}
        self._lock = fork_lock()
        self._failures = 0
        self._failed: dict[tuple[Any, ...], tuple[int, KaioError]] = {}  # which failure it was, and its error

    def find(self, device: Device, build: Build, key: tuple[Any, ...], wide: bool) -> Variant | None:
        """The variant, if it is loaded and what it captured is unchanged."""
        found = self._loaded.get((device, build, key, wide))
        return found if found is not None and found.built.is_fresh() else None

    def make(self, device: Device, build: Build, call: Call, wide: bool) -> Variant:
        """Compile and load a variant; threads that ask for it at the same time wait for the first."""
        __tracebackhide__ = is_message
        if sys.meta_path is None:  # nothing can be imported any more, and the compiler imports as it goes
            raise LaunchError(
                f"kernel `{self._parameters.kernel}` cannot be compiled any more: Python is shutting down",
                help="launch it once before that",
            )
        target, compiled = compiler_target(device, build)
        consts, dtypes = self._parameters.consts(call), self._parameters.generic_dtypes(call)
        built = self.build(target, compiled, consts, dtypes, 64 if wide else 32)
        variant = self._loaded[device, build, call.key, wide] = Variant(built, device.load(built.compiled.program))
        return variant

    def build(
        self,
        target: str,
        build: Build,
        consts: dict[str, Any],
        dtypes: dict[str, DType],
        index_bits: IndexBits,
        link: bool = True,
    ) -> Built:
        """The compiled program of one specialisation, compiled if it is not there yet.

        Threads that ask at the same time wait for the first, and share its error if it fails.
        Without `link` a CUDA program has its PTX and no cubin: that is all there is to look at.
        """
        __tracebackhide__ = is_message
        # A float is told apart by its bits, so that -0.0 is not 0.0 and NaN is itself.
        parts = [value.hex() if isinstance(value, float) else value for value in consts.values()]
        key = (target, build, *dtypes.values(), *parts, index_bits, link)
        failures = self._failures
        with self._lock:
            found = self._built.get(key)
            if found is None or not found.is_fresh():
                number, error = self._failed.get(key, (0, None))
                if error is not None and number > failures:  # another thread has tried while this one waited
                    raise copy.copy(error)
                try:
                    compiled = self._compile(target, build, consts, dtypes, index_bits, link)
                except KaioError as problem:
                    self._failures += 1
                    # A copy, as its own traceback would keep what its frames hold.
                    self._failed[key] = self._failures, copy.copy(problem)
                    raise
                found = self._built[key] = Built(compiled)
            return found

    def _compile(
        self,
        target: str,
        build: Build,
        consts: dict[str, Any],
        dtypes: dict[str, DType],
        index_bits: IndexBits,
        link: bool,
    ) -> Compiled:
        __tracebackhide__ = is_message
        from kaio.dsl.compiler import pipeline  # loaded since the first kernel was decorated

        specialisation = self._front.signature.specialise(consts, dtypes, index_bits)
        if target == "cpu":
            return pipeline.compile_host(self._front, specialisation, self._options, build)
        if target.startswith(_FROM_PTX):
            like = target.removeprefix(_FROM_PTX)
            return pipeline.compile_ptx_for_host(self._front, specialisation, self._options, build, like)
        return pipeline.compile_cuda(self._front, specialisation, self._options, target, link, build)


class Built:
    """One specialisation, compiled, and what it captured."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._watch(compiled.captures)

    def _watch(self, captures: tuple[Capture, ...]) -> None:
        self._captures = captures
        # What a name means now, as one call without a Python frame where it is a global: each launch looks at all.
        self._means = tuple((capture.reader(), capture.name, capture.value) for capture in captures)

    def is_fresh(self) -> bool:
        """True unless a captured global, closure variable or module attribute has another value now."""
        for read, name, value in self._means:
            if read(name) is not value:
                return self._has_equal_values()
        return True

    def _has_equal_values(self) -> bool:
        now = [capture.current() for capture in self._captures]
        if not all(same_value(capture.seen, value) for capture, value in zip(self._captures, now, strict=True)):
            return False
        # The objects are new but equal: from here on these are the ones to know by identity.
        captures = zip(self._captures, now, strict=True)
        self._watch(tuple(Capture(capture.namespace, capture.name, value) for capture, value in captures))
        return True


class Variant:
    """One specialisation, loaded on one device."""

    __slots__ = ("built", "grid_ranks", "loaded", "pack")

    def __init__(self, built: Built, loaded: Loaded) -> None:
        self.built = built
        self.loaded = loaded
        self.grid_ranks = built.compiled.grid_ranks
        self.pack: Callable[..., bytes] = built.compiled.program.block.pack


def same_value(one: Any, two: Any) -> bool:
    """True if a kernel that captured `one` is right for `two`: same type, same value to the bit."""
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return bool(one.hex() == two.hex())
    if isinstance(one, bool | int | str | bytes | np.dtype):
        return bool(one == two)
    if is_record(type(one)):
        return all(same_value(getattr(one, name), getattr(two, name)) for name in names_of(type(one)))
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(same_value, one, two))
    if isinstance(one, np.ndarray | np.generic):
        return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())
    return False  # functions and other objects are known by identity alone


def compiler_target(target: Any, build: Build | None = None) -> tuple[str, Build]:
    """The compiler's target and build for a target's name, a device, or None (the first GPU, else sm_90)."""
    if target is None:
        try:
            return Device("cuda:0").target, UNCHECKED
        except DeviceNotFoundError:
            return "sm_90", UNCHECKED
    if isinstance(target, Device):
        build = build or Build(target.check)
        if target.kind == "cuda" and build.check == "full":
            raise UnsupportedFeatureError(
                f'`check="full"` is for the CPU device: {target} finds what `check="bounds"` does',
                help='run the kernel on `kaio.Device("cpu", check="full")`',
            )
        if build.check == "full" and target.route == "ptx":
            raise UnsupportedFeatureError(
                f'check="full" is not supported on {target}: PTX has no arrays',
                help='use `kaio.Device("cpu")`, which runs the kernel\'s own operations',
            )
        if target.kind == "cuda":
            return target.target, build
        return (_FROM_PTX + target.target if target.route == "ptx" else "cpu"), build
    if target == "cpu":
        return "cpu", Build()
    if isinstance(target, str) and re.fullmatch(r"sm_\d{2,3}[af]?", target):
        return target, UNCHECKED
    raise CompileError(f"{target!r} is not a target", help='for example "sm_90", "cpu", or a device')
