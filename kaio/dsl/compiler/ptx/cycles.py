"""The loops of a PTX function: branches back, and whether what lies between may wait for another thread."""

from __future__ import annotations

from kaio.dsl.compiler.ptx.syntax import Function, Instruction, Item, Label, Symbol, Table

__all__ = ["spinning"]


def spinning(function: Function) -> dict[str, bool]:
    """The labels that are branched back to, each with whether the loop looks at what other threads may write.

    Every way round a function takes a branch back in the text. What lies between label and branch is the loop, which is
    right for the code of a compiler that keeps loops together.
    """
    places = {item.name: k for k, item in enumerate(function.body) if isinstance(item, Label)}
    tables = {item.name: item.labels for item in function.body if isinstance(item, Table)}
    found: dict[str, bool] = {}
    for k, item in enumerate(function.body):
        for label in _targets(item, tables):
            start = places[label]
            if start <= k:
                found[label] = found.get(label, False) or any(map(_looks, function.body[start:k]))
    return found


def _targets(item: Item, tables: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if not isinstance(item, Instruction) or item.opcode.partition(".")[0] not in ("bra", "brx"):
        return ()
    target = item.operands[-1]
    assert isinstance(target, Symbol)
    return tables.get(target.name, (target.name,))


def _looks(item: Item) -> bool:
    """Whether an instruction sees what another thread has just written."""
    if not isinstance(item, Instruction):
        return False
    name, *rest = item.opcode.split(".")
    return name in ("atom", "mbarrier") or (
        name == "ld" and any(word in ("volatile", "relaxed", "acquire") for word in rest)
    )
