"""From the arguments of `Device(…)` to the device."""

from __future__ import annotations

import difflib
import logging
from typing import Any

from kaio.errors import DeviceNotFoundError, KaioError, UnsupportedFeatureError
from kaio.forking import fork_rlock
from kaio.program import Level
from kaio.runtime.device import Device, Route
from kaio.runtime.elsewhere import refuse_arguments
from kaio.runtime.policy import USUAL_POLICY, Policy, read_policy

__all__ = ["devices", "open_device"]

_log = logging.getLogger("kaio")
_lock = fork_rlock()
_opened: dict[Any, Device] = {}
_CHECKS: dict[Any, Level | None] = {
    None: None,
    True: "bounds",
    False: "off",
    "off": "off",
    "bounds": "bounds",
    "full": "full",
}


def open_device(
    which: int | str | None,
    *,
    like: str | None = None,
    check: str | bool | None = None,
    route: Route = "ir",
    isolated: bool = False,
    completion: str | None = None,
    streams: str | None = None,
    ordering: str | None = None,
    **unknown: Any,
) -> Device:
    """Find or open the device; see `Device`."""
    if unknown:
        names = ("like", "check", "route", "isolated", "completion", "streams", "ordering")
        near = difflib.get_close_matches(next(iter(unknown)), names, n=1)
        refuse_arguments("Device", unknown, f"`{near[0]}=…`" if near else "`like=…` or `check=…`")
    checks = _read_check(check)
    if route not in ("ir", "ptx"):
        raise KaioError(f'`route` is "ir" or "ptx" (got {route!r})')
    policy = read_policy({"completion": completion, "streams": streams, "ordering": ordering})
    ordinal = _read_which(which)
    with _lock:
        if which is None and not _has_driver():
            _log.info("there is no NVIDIA driver: Device() is the CPU device")
            ordinal = None
        if ordinal is None:
            if isolated and which is not None:
                raise UnsupportedFeatureError(
                    "`isolated=True` is for a GPU",
                    help="leave it out: the CPU device finds faults before they do harm",
                )
            return _cpu(like, checks, route, policy)
        return _cuda(ordinal, like, checks, route, policy, isolated)


def _read_check(check: Any) -> Level | None:
    if (check is None or isinstance(check, str | bool)) and check in _CHECKS:
        return _CHECKS[check]
    raise KaioError(f'`check` is "off", "bounds" or "full" (got {check!r})')


def _read_which(which: Any) -> int | None:
    """The ordinal of a GPU, None for the CPU device."""
    if which is None:
        return 0
    if isinstance(which, int) and not isinstance(which, bool) and which >= 0:
        return which
    if isinstance(which, str):
        kind, colon, ordinal = which.strip().lower().partition(":")
        if kind in ("cuda", "gpu") and (ordinal.isdecimal() or not colon):
            return int(ordinal or 0)
        if kind == "cpu" and (ordinal == "0" or not colon):
            return None
    raise DeviceNotFoundError(
        f"there is no device {which!r}", help='write `Device(0)`, `Device("cuda:0")` or `Device("cpu")`'
    )


def _cpu(like: str | None, check: Level | None, route: Route, policy: Policy) -> Device:
    if check == "full" and route == "ptx":
        raise UnsupportedFeatureError(
            '`check="full"` is not supported with `route="ptx"`: PTX has no arrays',
            help='leave `route="ptx"` out: the kernel\'s own operations are checked',
        )
    from kaio.runtime.cpu_device import CpuDevice

    key = "cpu", like or "sm_90", check or "bounds", route, policy
    if key not in _opened:
        _opened[key] = CpuDevice.open(like=key[1], check=key[2], route=route, policy=policy)
    return _opened[key]


def _cuda(
    ordinal: int, like: str | None, check: Level | None, route: Route, policy: Policy, isolated: bool = False
) -> Device:
    if route != "ir":
        raise UnsupportedFeatureError(
            "a GPU runs PTX anyway", help='leave `route="ptx"` out, or write `Device("cpu", route="ptx")`'
        )
    if like is not None:
        raise UnsupportedFeatureError(
            f"a GPU cannot be like another (got like={like!r})", help=f'write `Device("cpu", like="{like}")`'
        )
    if check == "full":
        raise UnsupportedFeatureError(
            '`check="full"` is for the CPU device', help='`Device("cpu", check="full")` runs the same kernels'
        )
    key = "cuda", ordinal, check or "off", policy, isolated
    if key not in _opened:
        if not _has_driver():
            raise DeviceNotFoundError(
                f"there is no device cuda:{ordinal}: this machine has no NVIDIA driver",
                help='`Device("cpu")` runs the same kernels',
            )
        from kaio.runtime.cuda.device import CudaDevice

        if isolated:
            from kaio.runtime.isolated.device import IsolatedDevice

            owner = _cuda(ordinal, None, None, "ir", USUAL_POLICY)
            assert isinstance(owner, CudaDevice)
            _opened[key] = IsolatedDevice.open(owner, key[2], policy)
        else:
            _opened[key] = CudaDevice.open(ordinal, key[2], policy)
    return _opened[key]


def _has_driver() -> bool:
    """Whether the library of the NVIDIA driver is installed, working or not."""
    import ctypes
    import sys

    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def devices() -> list[Device]:
    """The devices of this machine: the GPUs, then the CPU device. A driver that does not work is logged.

    >>> devices()[-1]
    Device('cpu')
    """
    found = []
    if _has_driver():
        from kaio.runtime.cuda.driver import count_devices

        try:
            found = [Device(ordinal) for ordinal in range(count_devices())]
        except DeviceNotFoundError as problem:
            _log.warning("the GPUs of this machine cannot be used: %s", problem)
    return [*found, Device("cpu")]
