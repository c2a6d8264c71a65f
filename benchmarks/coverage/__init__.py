"""How often the intervals that are printed hold the truth: one table, by simulation.

Every row of it is a case: readings are drawn, released with simulated noise and estimated by the
very code of the commands, many times. `cases.CASES` has them with what is known of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Unpack

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.paper._engine import Running, Task, trials_of
from privest.records import Record

SEED = 2026
TRIALS = 1000
CHUNK = 50
WARNED = 2  # added to what `work` gives of a trial whose estimate is printed with a warning
MOSTLY = 0.95  # of the trials that miss: with so many warned an interval may miss more often
CHANCE = 3.0  # Monte Carlo errors beyond an end of what is expected that chance may do


@dataclass(frozen=True)
class Case:
    """One case: `work(rng, trials, **arguments)` gives (trials, m), 1 where an interval held the
    truth, 0 where it did not, NaN where no interval was given; WARNED more where it warned.

    topic     what is examined, with its section of the note: "1 variance from the release".
    name      which case of it.
    of        what the m columns are.
    interval  how it is made.
    known     what earlier simulations say, in their words.
    expected  (low, high): where the coverage of 95 % has to be.
    """

    topic: str
    name: str
    work: Callable[..., Array]
    of: tuple[str, ...]
    interval: str
    known: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expected: tuple[float, float] = (0.93, 0.97)

    @property
    def key(self) -> str:
        return f"{self.topic} | {self.name}"


@dataclass(frozen=True)
class Covered(Record):
    """How often one interval of a case held the truth.

    coverage  of the trials in which there was an interval; `error`: its Monte Carlo error.
    refused   the share of trials without one.
    warned    the share of the trials that missed in which a warning was printed.
    verdict   "yes": within `expected`; "warned": below it, with a warning in 95 % of the misses;
              "by chance": beyond an end by no more than three Monte Carlo errors; "wide": above
              it, which is longer than it need be and still true; "NO": below it.
    """

    topic: str
    case: str
    of: str
    interval: str
    coverage: float
    error: float
    refused: float
    trials: int
    known: str
    expected: tuple[float, float]
    warned: float = 0.0

    DERIVED: ClassVar[tuple[str, ...]] = ("verdict",)

    @property
    def verdict(self) -> str:
        low, high = self.expected
        off = max(low - self.coverage, self.coverage - high)
        if off <= 0:
            return "yes"
        if self.coverage < low and self.warned >= MOSTLY:
            return "warned"
        if off <= CHANCE * self.error:
            return "by chance"
        return "wide" if self.coverage > high else "NO"


def coverage_table(
    cases: Sequence[Case], *, trials: int = TRIALS, seed: int = SEED, **running: Unpack[Running]
) -> list[Covered]:
    """Run the cases; a row for every interval of each, in their order."""
    tasks = [Task(case.key, case.work, case.arguments) for case in cases]
    found = trials_of(tasks, trials=trials, seed=seed, chunk=CHUNK, **running)
    return [row for case in cases for row in _rows(case, found[case.key])]


def _rows(case: Case, hits: Array) -> Iterable[Covered]:
    if hits.shape[1:] != (len(case.of),):
        raise InvalidInput(f"{case.key}: {len(case.of)} intervals are named, not {hits.shape[1:]}.")
    for name, column in zip(case.of, hits.T):
        seen = column[np.isfinite(column)]
        given = seen % WARNED
        missed = seen[given == 0]
        share = float(given.mean()) if given.size else math.nan
        # Of a share of exactly 0 or 1 the plain error would be 0: one trial more on either side.
        near = (given.sum() + 1) / (given.size + 2)
        yield Covered(
            topic=case.topic, case=case.name, of=name, interval=case.interval, coverage=share,
            error=math.sqrt(near * (1 - near) / max(given.size, 1)),
            refused=float(np.isnan(column).mean()), trials=len(column), known=case.known,
            expected=case.expected, warned=float((missed >= WARNED).mean()) if missed.size else 0.0,
        )  # fmt: skip


def chosen(cases: Sequence[Case], topics: Sequence[str]) -> list[Case]:
    """The cases whose topic begins with one of these; all for none."""
    if not topics:
        return list(cases)
    found = [case for case in cases if case.topic.split()[0] in topics]
    if not found:
        known = ", ".join(dict.fromkeys(case.topic.split()[0] for case in cases))
        raise InvalidInput(f"there is no topic {', '.join(topics)}; there are {known}.")
    return found
