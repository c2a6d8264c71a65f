"""A source of noise that spends first: what it returns is in the ledger before it returns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privest.arrays import Array, Flags
from privest.errors import InvalidInput
from privest.ledger._budget import Cost
from privest.ledger._entries import Entry, Integers
from privest.ledger._shown import Runs
from privest.mechanism.source import Clip, Law, Shown, Source, as_protected
from privest.mechanism.source._base import clip_fact, law_fact, numbers, shape_of

if TYPE_CHECKING:
    from privest.ledger._ledger import Ledger

Costs = Cost | Callable[[int, int], Cost]


class LedgerSource(Source):
    """Noise of `source` (protected if None), spent and written ahead: `Ledger.source` makes one.

    Index start + at of the account is the first that a release shows: of a stream its steps, else
    the entries of what is shown (one index where the cost is a matrix). A release that is in the
    ledger is sent again as it was, whatever the readings are now, and NaN where they were missing
    then; `resent` says so. `entry` is the last entry. `facts` are public (level, name of a
    column): with others the range is refused. `marks` are hashes of what is public of the rows of
    the next release, as in `Ledger.spend_and_write`.
    """

    simulated = False

    def __init__(
        self,
        ledger: Ledger,
        subject: str,
        cost: Costs,
        *,
        start: int | None,
        key: str,
        source: Source | None,
        known: int | None,
        facts: Mapping[str, Any],
    ) -> None:
        self.ledger, self.subject, self.cost = ledger, subject, cost
        self.start, self.key, self.known, self.facts = start, key, known, dict(facts)
        self.source = as_protected(source)
        if not self.source.grid:
            raise InvalidInput("a ledger keeps integers: its source must be on a grid.")
        self.grid = self.source.grid
        self.entry: Entry | None = None
        self.resent = False
        self.marks: Mapping[str, str] | None = None

    def add_noise(
        self,
        shown: Shown,
        *,
        shape: tuple[int, ...] | None = None,
        at: int = 0,
        sizes: Sequence[int] | None = None,
        law: Law = "gaussian",
        clip: Clip | None = None,
        fingerprint: str | None = None,
    ) -> Array:
        """The release of before, else a new one that is now in the ledger."""
        given = shown if callable(shown) else numbers(shown)
        size = shape_of(given) if shape is None and not callable(given) else shape
        if size is None:
            size = shape_of(numbers(given))
        first = None if self.start is None else self.start + at
        count = self._indices(size, sizes)
        cost = self.cost
        if callable(cost):
            if first is None:
                raise InvalidInput("costs that change with the index need start=.")
            cost = cost(first, first + count)
        facts = self.facts | {
            "shape": list(size), "sizes": None if sizes is None else list(sizes),
            "law": law_fact(law), "grid": self.grid, "clip": clip_fact(clip),
            "fingerprint": fingerprint,
        }  # fmt: skip

        def draw() -> tuple[Integers, Flags | None]:
            values = self.source.add_noise(
                given, shape=size, at=at, sizes=sizes, law=law, clip=clip, fingerprint=fingerprint
            )
            absent = ~np.isfinite(values)  # no other float becomes an integer
            integers = np.rint(np.where(absent, 0.0, values) / self.grid).astype(np.int64)
            return integers, absent if absent.any() else None

        written = self.ledger.spend_and_write(
            self.subject, cost, first, count, facts, draw, key=self.key, known=self.known,
            marks=self.marks,
        )  # fmt: skip
        if written.resent and callable(given):
            numbers(given)  # a stream remembers its readings, whatever is sent
        self.entry, self.resent = written.entry, written.resent
        values = np.asarray(written.integers * self.grid)
        if written.missing is not None:
            values[written.missing] = np.nan
        return values

    def _indices(self, shape: tuple[int, ...], sizes: Sequence[int] | None) -> int:
        """How many indices of the account a release covers."""
        if sizes is not None:
            return len(sizes)
        information = None if callable(self.cost) else self.cost.information
        if isinstance(information, tuple):
            return 1
        if isinstance(information, Runs):
            return information.count
        if len(shape) != 1:
            raise InvalidInput(
                f"what is shown has shape {shape}: a ledger counts one release at a time, a "
                "vector with one index an entry, or a matrix cost for all of it."
            )
        return shape[0]
