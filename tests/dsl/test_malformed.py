"""A kernel with random mistakes compiles for both machines, or is refused with the line, in kaio's own words."""

from __future__ import annotations

import faulthandler
import os
import random
import sys
from collections import Counter

from tests.dsl.malformed import malformed, outcome
from tests.dsl.programs import programs, programs_of_records

COUNT = int(os.environ.get("KAIO_MALFORMED", "100"))
"""How many kernels are tried; of thousands, some take the compiler where a hundred do not."""

SEED = int(os.environ.get("KAIO_MALFORMED_SEED", "1"))
EXPECTED = {"compiled", "refused", "python"}
POOL = [*programs(), *programs_of_records()]


def test_the_kernels_themselves_compile() -> None:
    """Those of records are compiled by the tests of the records."""
    found = {program.name: outcome(program.text(program.kernel), "<program>") for program in programs()}
    assert found == dict.fromkeys(found, "compiled")


def test_a_malformed_kernel_compiles_or_is_refused_in_kaio_s_words() -> None:
    rng = random.Random(SEED)
    found: Counter[str] = Counter()
    wrong: list[str] = []
    while found["compiled"] + found["refused"] + len(wrong) < COUNT:
        text = malformed(rng, rng.choice(POOL))
        faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)  # a compiler that hangs
        result = outcome(text, f"<malformed {found.total()}>")
        faulthandler.cancel_dump_traceback_later()
        found[result if result in EXPECTED else "wrong"] += 1
        if result not in EXPECTED:
            wrong.append(f"{result}\n--- of ---\n{text}")
    assert not wrong, f"{len(wrong)} of {COUNT}:\n\n" + "\n\n".join(wrong)
    assert found["refused"] > COUNT // 4
