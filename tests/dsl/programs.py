"""The kernels of the examples and of the demo as texts, each with all that it needs of its file."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.reference import records

__all__ = ["EXAMPLES", "FILES", "PARAMETERS", "Program", "programs", "programs_of_records"]

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FILES = [*EXAMPLES, ROOT / "kaio" / "demo" / "kernels.py"]


@dataclass(frozen=True)
class Program:
    """One kernel with all that it needs of its file: a text to run by itself."""

    name: str
    before: str
    kernel: str

    def text(self, kernel: str) -> str:
        """The program with another text of its kernel."""
        return f"{self.before}\n\n{kernel}\n"


def programs(files: list[Path] = FILES) -> Iterator[Program]:
    """Every kernel of the files, in their order."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        statements = ast.parse(text).body
        for node in statements:
            if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in node.decorator_list):
                before = [_text(text, s) for s in _needed(node, statements)]
                yield Program(f"{file.stem}.{node.name}", "\n".join(before), _text(text, node))


PARAMETERS = "x: In[f32], y: In[f32], d: In[f64], n: In[i32], out: InOut[f32], wide: InOut[f64], counts: InOut[i32]"
"""What the example of a record may use, beside the number `i` of its thread."""


def programs_of_records() -> Iterator[Program]:
    """The example of every record as a kernel."""
    for name, record in records().items():
        if isinstance(record, Intrinsic) and record.example:
            body = textwrap.indent(record.example.strip(), "    " * 2)
            head = f"@kaio.kernel\ndef k({PARAMETERS}, m: i32):\n    i = kaio.grid(1)\n    if i < out.size:\n"
            yield Program(name, "import cmath\nimport math\nimport kaio\nfrom kaio import *", head + body)


def _text(text: str, node: ast.stmt) -> str:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _needed(kernel: ast.FunctionDef, statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements before a kernel that set a name which it uses, itself or through others."""
    used = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)}
    found: list[ast.stmt] = []
    for node in reversed(statements[: statements.index(kernel)]):
        if _sets(node) & used:
            found.insert(0, node)
            used |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found


def _sets(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
