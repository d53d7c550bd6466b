"""Every construct of Python's grammar is in a kernel that runs, or in a program that is refused with its message."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.dsl.compiler.test_check import REJECTS
from tests.dsl.test_statements import BODIES

KINDS = (ast.stmt, ast.expr, ast.pattern, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)

ONLY_IN_ASYNC = {"AsyncFor", "AsyncWith", "Await"}  # inside an `async def`, which is refused as a whole
OF_OTHER_NODES = {"FormattedValue", "Interpolation"}  # a part of an f-string or template
OLD_NAMES = {
    "Num",
    "Str",
    "Bytes",
    "NameConstant",
    "Ellipsis",
    "Index",
    "ExtSlice",
    "Suite",
    "AugLoad",
    "AugStore",
    "Param",
}


def constructs() -> set[str]:
    """The names of the classes of the grammar of this Python."""

    def below(kind: type) -> Iterator[type]:
        for found in kind.__subclasses__():
            yield found
            yield from below(found)

    return {found.__name__ for kind in KINDS for found in below(kind)} - OLD_NAMES


def used(text: str) -> set[str]:
    try:
        return {type(node).__name__ for node in ast.walk(ast.parse(text))}
    except SyntaxError:  # of a newer Python
        return set()


def test_every_construct_is_in_a_program() -> None:
    shown = set[str]().union(*(used(body) for body in BODIES.values()))
    shown |= set[str]().union(*(used(path.read_text(encoding="utf-8")) for path in REJECTS.glob("*.py")))
    assert constructs() - shown - ONLY_IN_ASYNC - OF_OTHER_NODES == set()
