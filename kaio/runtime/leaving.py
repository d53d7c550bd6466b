"""What happens to unfinished work when the process ends: it is waited for, but never silently and never for good."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kaio.runtime.several import gather

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion
    from kaio.runtime.device import Device

__all__ = ["finish"]

_log = logging.getLogger("kaio")

_SILENT_S = 1.0


def finish(device: Device, work: Iterable[Completion], limit_s: float, running: Iterable[str] = ()) -> bool:
    """At exit: wait for all of `work`, and say so if it takes long; True if it is done.

    Ctrl-C leaves at once; after a Ctrl-C that ended the program there is only a short wait. `running` names what is
    waited for where the device knows that better than the completions.
    """
    tails = tuple(work)
    all_work = gather(*tails)
    try:
        if all_work._block(_SILENT_S):
            return True
        if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            return False
        names = dict.fromkeys(tuple(running) or (tail._spelled() for tail in tails if not tail.is_done))
        waited_for = f"{', '.join(names)} on {device}"
        _log.warning("waiting for %s; press Ctrl-C to leave", waited_for)
        if all_work._block(max(0.0, limit_s - _SILENT_S)):
            return True
        _log.error("%s was not done %g s after the program; it is left unfinished", waited_for, limit_s)
    except KeyboardInterrupt:
        pass
    return False
