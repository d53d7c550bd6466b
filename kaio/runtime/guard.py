"""The guard that an index out of range lacked, in the words of the source."""

from __future__ import annotations

import ast

from kaio.program import Site

__all__ = ["as_written", "guard_help"]

_MOST_CHARACTERS = 60  # a longer condition is no help


def as_written(site: Site, index: int, size: int) -> int:
    """The index as the source has it: the check sees the signed position from the start."""
    if site.written == "from_end":
        return index - size
    return index % (1 << int(site.written[1:])) if site.written[:1] == "u" else index


def guard_help(site: Site, index: int, size: int) -> str:
    """The way out of an index out of range at a site of kind ``index``."""
    if site.written == "from_end":
        return f"a negative literal counts from the end, and axis {site.axis} has {size} elements"
    if index < 0:
        return "only a negative literal counts from the end; a computed index must not be negative"
    condition = _condition(site, size)
    if condition is None or len(condition) > _MOST_CHARACTERS:
        limit = str(size) if site.is_fixed else f"`{site.text}.shape[{site.axis}]`"
        return f"guard the access: the index of axis {site.axis} must be below {limit}"
    return f"guard the access, for example with `if {condition}:`"


def _condition(site: Site, size: int) -> str | None:
    """`r < y.shape[0] and c < y.shape[1]` for `y[r, c]`; None where the text does not say what the indices are."""
    found = _access(site.place.text[site.place.column : site.place.end_column], site.text)
    if found is None:
        return None
    array, indices = found
    if site.axis >= len(indices):
        return None
    if site.written[:1] == "+":  # of several elements along the last axis this is the last
        limit = size if site.is_fixed else f"{ast.unparse(array)}.{_limit(site.axis, len(indices))}"
        return f"{_operand(indices[site.axis])} {site.written[0]} {site.written[1:]} < {limit}"
    if site.is_fixed:
        return f"{_operand(indices[site.axis])} < {size}"
    name = ast.unparse(array)
    limits = [f"{name}.{_limit(axis, len(indices))}" for axis in range(len(indices))]
    pairs = zip(indices, limits, strict=True)
    return " and ".join(f"{_operand(index)} < {limit}" for index, limit in pairs if not _is_literal(index)) or None


def _limit(axis: int, axes: int) -> str:
    return "size" if axes == 1 else f"shape[{axis}]"


def _access(text: str, name: str) -> tuple[ast.expr, list[ast.expr]] | None:
    """The array and its indices in `y[r, c]`, or in a call that takes them: `atomic_add(y, (r, c), 1)`."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:  # it goes on in the next line
        return None
    match node:
        case ast.Call(args=[_, _, ast.Name(id=other) as array, index, *_]) if other == name:
            pass
        case ast.Subscript(value=array, slice=index) | ast.Call(args=[array, index, *_]):
            pass
        case _:
            return None
    return array, index.elts if isinstance(index, ast.Tuple) else [index]


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.IfExp | ast.BoolOp | ast.Compare) else text


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)
