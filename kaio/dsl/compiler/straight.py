"""How much a thread of a kernel does at most, where that is known before it runs."""

from __future__ import annotations

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.loop_nest import back_edges

__all__ = ["straight"]


def straight(typed: ir.Typed) -> int:
    """The statements of a function and of those that it calls, each as often as it is called; 0 if any has a loop."""
    return _count(typed, {})


def _count(typed: ir.Typed, known: dict[int, int]) -> int:
    found = known.get(id(typed))
    if found is None:
        found = known[id(typed)] = 0 if back_edges(typed.function) else _sum(typed, known)
    return found


def _sum(typed: ir.Typed, known: dict[int, int]) -> int:
    total = sum(1 + len(block.body) for block in typed.function.blocks)
    for name in ir.definitions(typed.function):
        call = typed.calls.get(name)
        for callee in () if call is None else (call.callee, call.body):
            if isinstance(callee, ir.Typed):
                own = _count(callee, known)
                if not own:
                    return 0
                total += own
    return total
