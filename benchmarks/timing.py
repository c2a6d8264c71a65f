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
    items: int | None = None  # steps or samples in the work
    limit_us: float | None = None  # and at most so many microseconds for each of them

    @property
    def per_item_us(self):
        return None if self.items is None else self.seconds / self.items * 1e6

    @property
    def verdict(self):
        if self.limit_us is not None and self.per_item_us > self.limit_us:
            return "OVER"
        if self.limit is not None and self.ratio > self.limit:
            return "OVER"
        if self.at_least is not None and 1 / self.ratio < self.at_least:
            return "SLOW"
        limits = (self.limit, self.at_least, self.limit_us)
        return "" if all(limit is None for limit in limits) else "ok"

    @property
    def limits(self):
        """All limits in words."""
        parts = [
            self.limit is not None and f"≤ {self.limit:g}",
            self.at_least is not None and f"≤ 1/{self.at_least:g}",
            self.limit_us is not None and f"≤ {self.limit_us:g} µs each",
        ]
        return ", ".join(part for part in parts if part)

    def to_dict(self):
        return asdict(self) | {"per_item_us": self.per_item_us, "verdict": self.verdict}


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(
    name, work, reference_name, reference, *,
    limit=None, at_least=None, items=None, limit_us=None, scale=1.0, again=1, repeats=9,
):  # fmt: skip
    """Median over rounds of time(work) / time(reference), each timed once a round, in turns.

    `scale`: the reference does 1/scale of the work and its time is multiplied.
    `again`: times the work is timed a round (median), where the reference takes far longer.
    """
    work(), reference()

    def once():
        return statistics.median(seconds(work) for _ in range(again)), scale * seconds(reference)

    rounds = [once() for _ in range(repeats)]
    return Row(
        name=name,
        reference=reference_name,
        seconds=statistics.median(w for w, _ in rounds),
        reference_seconds=statistics.median(r for _, r in rounds),
        ratio=statistics.median(w / r for w, r in rounds),
        limit=limit,
        at_least=at_least,
        items=items,
        limit_us=limit_us,
    )


def report(rows):
    """Print rows as they come: one module by itself, `python -m benchmarks.bench_files`."""
    for row in rows:
        print(f"{row.name}: {row.seconds * 1e3:.0f} ms, {row.ratio:.2f} of", end=" ")
        print(f"{row.reference} ({row.reference_seconds * 1e3:.0f} ms)", row.limits, row.verdict)
