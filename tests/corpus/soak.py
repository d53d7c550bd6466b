"""A soak of the correct corpus: random launches over shapes, blocks, schedules, workers and levels of checks.

`python -m tests.corpus.soak 10000 --seed 1` makes so many and says what it found: false reports, wrong results, and
what memory was left behind. Each launch is a function of the seed and its number, which are told where one fails.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import kaio
from tests.corpus.case import Case, Manner, Size, check_results, run
from tests.corpus.cases import CASES
from tests.corpus.pending import PENDING
from tests.live import settled

SOUND = [case for case in CASES if f"twin of {case}" not in PENDING]
_PAGE = 4096


@dataclass
class Soak:
    """What a soak came to."""

    launches: int = 0
    seconds: float = 0.0
    failures: list[str] = None  # type: ignore[assignment]
    buffers_left: int = 0
    grown_nbytes: int = 0  # of resident memory, from half of the launches to the end

    def __str__(self) -> str:
        left = f"{self.buffers_left} buffers left, {self.grown_nbytes / 2**20:.1f} MiB more at the end than half-way"
        told = "\n".join(["", *self.failures])
        return f"{self.launches} launches in {self.seconds:.0f} s: {len(self.failures)} failures, {left}{told}"


def draw(seed: int, number: int, cases: Sequence[Case] = ()) -> tuple[Case, Size, Manner]:
    """The launch of that number."""
    chance = random.Random(f"{seed} {number}")
    case = chance.choice(cases or SOUND)
    size = Size(chance.randint(1, max(case.blocks)), chance.choice(list(case.threads)), chance.randrange(2**31))
    schedule = chance.choice([None, chance.randrange(2**31)])
    return case, size, Manner(chance.choice(["full", "full", "bounds"]), schedule, chance.randint(1, 4))


def soak(count: int, seed: int = 0, cases: Sequence[Case] = (), stop_at: int = 10) -> Soak:
    """Make so many launches, until `stop_at` of them have failed."""
    device, found = kaio.Device("cpu"), Soak(failures=[])
    live, start, half = _live(device), time.perf_counter(), 0
    for number in range(count):
        case, size, manner = draw(seed, number, cases)
        try:
            launch = case.twin_launch(size)
            check_results(run(case.mended, launch, device, manner), launch, case.mended)
        except (kaio.KaioError, AssertionError) as problem:
            found.failures.append(f"{seed} {number}: {case} {size} {manner}\n{problem}")
            if len(found.failures) >= stop_at:
                break
        found.launches += 1
        if number == count // 2:
            half = _resident_nbytes()
    found.seconds = time.perf_counter() - start
    found.buffers_left, found.grown_nbytes = _live(device) - live, _resident_nbytes() - half
    return found


def _live(device: kaio.Device) -> int:
    return int(settled(device).live_buffers)


def _resident_nbytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="only of this one")
    given = parser.parse_args()
    print(soak(given.count, given.seed, [case for case in CASES if str(case) == given.case]))


if __name__ == "__main__":
    main()
