from __future__ import annotations

import pytest

from tests.filecheck import CheckError, check

TEXT = """\
entry saxpy
\tld.global.nc.f32  %f1, [a]
\tld.global.f32  %f2, [b]
\tfma.rn.f32  %f3
ret
"""


@pytest.mark.parametrize(
    "patterns",
    [
        "CHECK: saxpy\nCHECK: ret",
        "CHECK-COUNT-2: ld.global\nCHECK-NOT: ld.global\nCHECK: fma",
        "CHECK: ld.global{{(.nc)?}}.f32 %f1\nCHECK-NEXT: ld.global.f32 %f2",
        "CHECK-NOT: st.global",
        "CHECK: ret\nCHECK-NOT: fma",
    ],
)
def test_accepts_a_text_in_the_order_of_its_patterns(patterns: str) -> None:
    check(TEXT, patterns)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("CHECK: ret\nCHECK: saxpy", "`saxpy` is not after this point"),
        ("CHECK-COUNT-3: ld.global", "`ld.global` is not after this point"),
        ("CHECK: saxpy\nCHECK-NEXT: fma", "`fma` is not on the next line"),
        ("CHECK: saxpy\nCHECK-NOT: ld.global\nCHECK: fma", "`ld.global` must not be here"),
        ("CHECK: fma\nCHECK-NOT: ret", "`ret` must not be here"),
        ("CHECK: ldXglobal", "`ldXglobal` is not after this point"),
        ("nothing", "there is no CHECK line"),
    ],
)
def test_refuses_any_other(patterns: str, message: str) -> None:
    with pytest.raises(CheckError) as caught:
        check(TEXT, patterns)
    assert message in str(caught.value)


def test_never_looks_at_the_whole_text() -> None:
    with pytest.raises(CheckError) as caught:
        check(TEXT, "CHECK: ret", never=["nc.f32"])
    assert "`nc.f32` must not be here" in str(caught.value)
