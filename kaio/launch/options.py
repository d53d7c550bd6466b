"""The options of a launch: read and checked, and which of them a device has."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from kaio.errors import LaunchError, UnsupportedFeatureError, is_message
from kaio.launch.geometry import is_whole_number
from kaio.program import Build, Level
from kaio.runtime import Device
from kaio.runtime.stream import USUAL, RunOptions

__all__ = ["build_for", "read_check", "read_flag", "read_run", "shown"]

__tracebackhide__ = is_message


def read_check(check: Any) -> Level:
    """The option `check`."""
    if isinstance(check, bool):
        return "bounds" if check else "off"
    if isinstance(check, str) and check in ("off", "bounds", "full"):
        return check  # type: ignore[return-value]
    raise LaunchError(
        f'`options(check=…)` takes "off", "bounds" or "full" (got {check!r})',
        help='docs/host.md says what each finds; `check=True` is `"bounds"`',
    )


def read_flag(name: str, value: Any) -> bool:
    """An option that is on or off."""
    if not isinstance(value, bool):
        raise LaunchError(
            f"`options({name}=…)` takes True or False (got {value!r})", help=f"for example `.options({name}=True)`"
        )
    return value


def read_run(options: RunOptions, given: dict[str, Any]) -> RunOptions:
    """Options with those changed that were given; None of these leaves what is there."""
    changes: dict[str, Any] = {name: _READERS[name](name, value) for name, value in given.items() if value is not None}
    return options._replace(**changes) if changes else options


def _seed(name: str, value: Any) -> int:
    way_out = "for example `.options(schedule=1)`: the same seed gives the same order again"
    return _whole(name, value, 0, "a seed, an int of 0 or more", way_out)


def _turns(name: str, value: Any) -> int:
    way_out = "for example `.options(fuel=1_000_000)`; leave it out for any number"
    return _whole(name, value, 1, "a number of turns of loops, an int above 0", way_out)


def _whole(name: str, value: Any, least: int, wanted: str, way_out: str) -> int:
    if not is_whole_number(value) or value < least:
        raise LaunchError(f"`options({name}=…)` takes {wanted} (got {value!r})", help=way_out)
    return int(value)


def _seconds(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not value > 0:
        raise LaunchError(
            f"`options({name}=…)` takes a time in seconds, a number above 0 (got {value!r})",
            help=f'for example `.options({name}=60)`; `float("inf")` is no limit',
        )
    return math.inf if value > sys.float_info.max else float(value)


_READERS = {
    "schedule": _seed, "fuel": _turns, "timeout_s": _seconds, "coverage": read_flag, "partial_barriers": read_flag,
}  # fmt: skip


def build_for(kernel: str, device: Device, check: Level | None, options: RunOptions) -> Build:
    """How a kernel is compiled to run so on a device; UnsupportedFeatureError for what the device does not have."""
    build = Build(
        check or device.check,
        stepped=options.schedule is not None,
        traced=options.watch is not None,
        covered=options.coverage,
        counted=options.fuel is not None,
    )
    if device.kind == "cuda":
        _check_gpu(kernel, device, options)
    if options.coverage and device.route == "ptx":
        raise UnsupportedFeatureError(
            f"kernel `{kernel}` is launched on {device} with `coverage=True`: PTX has no arrays",
            help='run it on `kaio.Device("cpu")`, which runs the kernel\'s own operations',
        )
    return build


def _check_gpu(kernel: str, device: Device, options: RunOptions) -> None:
    for name, value in shown(options).items():
        if name == "timeout_s" and device.is_isolated:
            continue
        if name in _NOT_ON_GPU:
            raise UnsupportedFeatureError(
                f"kernel `{kernel}` is launched on {device} with `{name}={value!r}`, which is for the CPU device",
                help=f'{_NOT_ON_GPU[name]}: `device = kaio.Device("cpu")`',
            )


# Every barrier of a GPU is as `partial_barriers` says, so that one is no lie there.
_NOT_ON_GPU = {
    "schedule": "a GPU runs threads in an order of its own; run it there",
    "fuel": "a GPU does not count turns of loops; run it there",
    "timeout_s": "limit the wait, `done.wait(timeout_s=…)`, use `Device(0, isolated=True)`, or run it there",
    "coverage": "a GPU does not note who writes; run it there",
}


def shown(options: RunOptions) -> dict[str, Any]:
    """The options that are not as usual."""
    return {
        name: value for name, value, usual in zip(RunOptions._fields, options, USUAL, strict=True) if value != usual
    }
