"""All cases, by the module they stand in."""

from __future__ import annotations

from tests.corpus import (
    bounds,
    collectives_old,
    correct,
    divergence,
    endless,
    granules,
    hidden,
    outputs,
    races_async,
    races_barriers,
    races_flags,
    races_global,
    races_shared,
    races_warp,
    uninitialised,
)
from tests.corpus.case import Case

_MODULES = (
    races_shared, races_warp, races_barriers, races_global, races_async, races_flags, collectives_old, granules,
    hidden, uninitialised, divergence, endless, bounds, outputs, correct,
)  # fmt: skip

BY_SUBJECT: dict[str, list[Case]] = {module.__name__.rpartition(".")[2]: module.CASES for module in _MODULES}
CASES: list[Case] = [case for cases in BY_SUBJECT.values() for case in cases]
PLANTED: list[Case] = [case for case in CASES if case.planted is not None]
