"""Loops of PTX are its branches back, and one that looks at what others write may wait for them."""

from __future__ import annotations

import pytest

from kaio.dsl.compiler.ptx.cycles import spinning
from kaio.dsl.compiler.ptx.parse import parse

HEAD = ".version 9.0\n.target sm_90\n.visible .entry k()\n{ .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<3>;\n"


@pytest.mark.parametrize(
    ("body", "loops"),
    [
        ("bra on; on: ret;", {}),
        ("again: add.s32 %r1, %r1, 1; @%p1 bra again; ret;", {"again": False}),
        ("again: ld.global.u32 %r1, [%rd1]; bra again;", {"again": False}),
        ("again: ld.volatile.global.u32 %r1, [%rd1]; bra again;", {"again": True}),
        ("again: ld.acquire.gpu.u32 %r1, [%rd1]; @%p1 bra again; ret;", {"again": True}),
        ("again: atom.global.cas.b32 %r1, [%rd1], 0, 1; @%p1 bra again; ret;", {"again": True}),
        ("again: red.global.add.u32 [%rd1], 1; @%p1 bra again; ret;", {"again": False}),
        ("outer: inner: atom.global.exch.b32 %r1, [%rd1], 1; @%p1 bra inner; bra outer;",
         {"inner": True, "outer": True}),
        ("one: table: .branchtargets one, two; brx.idx %r1, table; two: ret;", {"one": False}),
    ],
)  # fmt: skip
def test_loops_are_found_with_whether_they_may_wait(body: str, loops: dict[str, bool]) -> None:
    assert spinning(parse(f"{HEAD}{body}\n}}\n").entry) == loops
