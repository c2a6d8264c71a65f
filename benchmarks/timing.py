"""Ratios of two pieces of work, timed in turns so that both meet the same noise."""

import statistics
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: `ratio` = time of the work / time of the reference."""

    name: str
    reference: str
    seconds: float
    reference_seconds: float
    ratio: float
    limit: float | None  # at most this (None: for information)
    at_least: float | None = None  # or at least this, for speed-ups (reference / work)

    @property
    def verdict(self):
        if self.limit is not None:
            return "ok" if self.ratio <= self.limit else "OVER"
        if self.at_least is not None:
            return "ok" if 1 / self.ratio >= self.at_least else "SLOW"
        return ""

    def to_dict(self):
        return asdict(self) | {"verdict": self.verdict}


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(name, work, reference_name, reference, *, limit=None, at_least=None, repeats=9):
    """Median over rounds of time(work) / time(reference), each timed once a round, in turns."""
    work(), reference()
    rounds = [(seconds(work), seconds(reference)) for _ in range(repeats)]
    return Row(
        name=name,
        reference=reference_name,
        seconds=statistics.median(w for w, _ in rounds),
        reference_seconds=statistics.median(r for _, r in rounds),
        ratio=statistics.median(w / r for w, r in rounds),
        limit=limit,
        at_least=at_least,
    )
