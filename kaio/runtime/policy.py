"""`Policy`: how a device tells that work is done, which stream work goes to, and who keeps streams in order."""

from __future__ import annotations

import difflib
from typing import Any, Literal, NamedTuple, get_args

from kaio.errors import KaioError

__all__ = ["USUAL_POLICY", "Ordering", "Policy", "Strategy", "StreamChoice", "read_policy"]

Strategy = Literal["adaptive", "host_fn", "polled", "sync"]
StreamChoice = Literal["one", "per_thread", "pool"]
Ordering = Literal["managed", "manual"]


class Policy(NamedTuple):
    """What a device was opened with, or a stream made with.

    completion: how waits and awaits learn of the end of work
    streams: which stream work goes to when nothing is said; a stream of its own has no use for it
    ordering: whether work waits for the work of other streams on the same memory
    """

    completion: Strategy = "adaptive"
    streams: StreamChoice = "one"
    ordering: Ordering = "managed"

    def spelled(self) -> dict[str, str]:
        """The arguments that are not the default, as `Device(…)` takes them."""
        return {name: value for name, value in self._asdict().items() if value != Policy._field_defaults[name]}


USUAL_POLICY = Policy()

_VALUES = {"completion": get_args(Strategy), "streams": get_args(StreamChoice), "ordering": get_args(Ordering)}


def read_policy(given: dict[str, Any], base: Policy | None = None) -> Policy:
    """The policy with these arguments; one that is None is as in `base`, else the default.

    Raises:
        KaioError: an argument has a value that there is not.
    """
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        known = _VALUES[name]
        if not isinstance(value, str) or value not in known:
            near = difflib.get_close_matches(value, known, n=1) if isinstance(value, str) else []
            quoted = [f'"{one}"' for one in known]
            listed = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
            raise KaioError(
                f"`{name}` is {listed} (got {value!r})", help=f'did you mean {name}="{near[0]}"?' if near else None
            )
        chosen[name] = value
    policy = (base or USUAL_POLICY)._replace(**chosen)
    if base is None and policy.streams == "pool" and policy.ordering == "manual":
        raise KaioError(
            '`streams="pool"` with `ordering="manual"` would leave work in no order at all',
            help='leave `ordering` out, or put work on streams that you name: `ordering="manual"` alone',
        )
    return policy
