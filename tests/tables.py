"""Tables of the documentation that are made by code, between two comments: `<!-- name -->` and `<!-- end -->`."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["check_table"]


def check_table(page: Path, name: str, made: str) -> None:
    """Whether the page has the table as it is made now; with KAIO_WRITE_DOCS=1 it is written anew."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
    wanted = f"{made}\n"
    if os.environ.get("KAIO_WRITE_DOCS"):
        text = pattern.sub(lambda m: m[1] + wanted + m[3], text)
        page.write_text(text, encoding="utf-8")
    (found,) = pattern.finditer(text)
    assert found[2] == wanted, "run this test with KAIO_WRITE_DOCS=1"
