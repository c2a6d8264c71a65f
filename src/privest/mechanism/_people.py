"""The readings of persons who have several rows, released at a level of the person.

    A   z̃ = √(s/r)·y + e          B   z̃ = √s·(I − (1 − 1/√r)P₁)·y + e ,   e ~ N(0, I_r)

for the r rows of a person (`privacy.person_statement` says what each promises). In law B puts noise
1/s on every reading and one noise of variance (r − 1)/(rs) on all of a person's; it is drawn as r
numbers, because a sum of two discrete noises is another law (lattice/PROOF.md is about Lᵀy).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, ArrayLike, Index, as_count, as_counts, as_positive
from privest.errors import InvalidInput
from privest.mechanism._missing import marked, of_size, real_numbers, split_missing
from privest.mechanism._range import as_range, clip_of
from privest.mechanism.source import Clip, Source, as_protected, as_source
from privest.privacy import EndlessLevel, GridStatement, person_statement
from privest.privacy._people import DESIGNS, Design, mixing, own_root

MOST_TOGETHER = 1000  # rows of a person under B: every number shown reads all of them


class PeopleMechanism:
    """The rows of persons, whole persons at a time: z̃ = Lᵀy + e, LLᵀ ≤ S of the design.

    level   s: of a person.
    design  "A" or "B".
    most    under A: every row has the level s/most, whatever the number of rows of its person; no
            person may have more. Under B only that last part.
    range   of the readings. Under A they are clipped to it; under B what is shown of them is
            clipped to what readings in the range could show, and never the readings: S is
            correlated, and a clipped reading would let the others show more than S.

    `steps` counts the releases that have left, a row under A and a person under B; whether a person
    comes back is for the caller to see.

    >>> mechanism = PeopleMechanism(4.0, "B")
    >>> z = mechanism.release([0.3, 0.1, 0.2], [1, 2])   # a person with a row, one with two
    >>> z.dtype.name, mechanism.readings(z * 2.0**-10 / 2, [1, 2]).shape
    ('float64', (3,))
    """

    def __init__(
        self,
        level: float,
        design: Design = "A",
        *,
        most: int | None = None,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.level = as_positive(level, "level")
        if design not in DESIGNS:
            raise InvalidInput(f'the design is "A" or "B"; received {design!r}.')
        self.design: Design = design
        self.most = None if most is None else as_count(most, "most rows of a person", least=1)
        self.range = as_range(range)
        self.steps = 0
        self._clips: dict[int, Clip | None] = {}
        self._clip_of(1 if self.most is None else self.most)  # refuses a range without room, now

    def simulate(self, y: ArrayLike, sizes: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z̃ of whole persons, one after another, `sizes` rows each, with simulated noise."""
        given, counts = self._given(y, sizes)
        return self._simulated(given, np.asarray(counts), as_source(rng))

    def simulate_rows(
        self, y: ArrayLike, rows: ArrayLike | None, rng: np.random.Generator | Source
    ) -> Array:
        """As `simulate`, under A, of rows in any order; `rows` as in `release_rows`."""
        return self._simulated(*self._single(y, rows), as_source(rng))

    def release(self, y: ArrayLike, sizes: ArrayLike, source: Source | None = None) -> Array:
        """z̃ of whole persons, one after another, `sizes` rows each, with protected noise.

        As whole numbers n = z̃/2⁻¹⁰ in doubles. I_z(y) ≤ S literally for every y. No value is
        refused or slower than another. NaN is missing; under B so is then all of that person.
        """
        given, counts = self._given(y, sizes)
        return self._protected(given, np.asarray(counts), as_protected(source))

    def release_rows(
        self, y: ArrayLike, rows: ArrayLike | None = None, source: Source | None = None
    ) -> Array:
        """As `release`, under A, of rows in any order.

        rows  for each of them how many its person has, all told; None with `most`, where it does
              not matter.
        """
        return self._protected(*self._single(y, rows), as_protected(source))

    def _simulated(self, given: Array, counts: Index, source: Source) -> Array:
        found = self._in_doubles(given, counts)
        missing = np.isnan(found)
        shown = np.where(missing, 0.0, found)
        return np.where(missing, np.nan, self._released(source, counts, lambda: shown))

    def _protected(self, given: Array, counts: Index, source: Source) -> Array:
        return self._released(source, counts, lambda: self._exactly(given, counts)) / source.grid

    def readings(self, shown: ArrayLike, sizes: ArrayLike) -> Array:
        """Readings with their noise, from z̃/√s of whole persons: L⁻ᵀz̃, whatever is in z̃.

        A: √r·z̃/√s; B: (z̃ + (√r − 1)·mean of z̃)/√s. Post-processing, in doubles.
        """
        given, rows = self._given(shown, sizes)
        if self.design == "A":
            return np.asarray(given * np.sqrt(self._levels(rows)))
        means = np.add.reduceat(given, np.cumsum(rows) - rows) / rows
        return np.asarray(given + np.repeat((np.sqrt(rows) - 1.0) * means, rows))

    def statement(self, rows: int, *, move: float, delta: float = 1e-6) -> GridStatement:
        """What is promised to a person with up to `rows` rows, each of which moves by `move`."""
        return person_statement(
            self.level, rows if self.most is None else self.most, self.design, move=move,
            capped=self.most is not None, delta=delta,
        )  # fmt: skip

    def _given(self, y: ArrayLike, sizes: ArrayLike) -> tuple[Array, Index]:
        """Readings of whole persons, and the rows of each: of every row's person under A."""
        counts = as_counts(sizes, "rows of persons", least=1)
        self._require_rows(max(counts))
        rows = np.asarray(counts)
        if self.design == "A":
            rows = np.repeat(rows, rows)
        return of_size(real_numbers(y).reshape(-1), sum(counts)), rows

    def _single(self, y: ArrayLike, rows: ArrayLike | None) -> tuple[Array, Index]:
        """Readings of rows, and how many their persons have."""
        if self.design != "A":
            raise InvalidInput("under B a person's rows leave together: release, not release_rows.")
        given = real_numbers(y).reshape(-1)
        if rows is None:
            if self.most is None:
                raise InvalidInput("how many rows does the person of each row have?")
            return given, np.full(len(given), self.most)
        counts = np.asarray(as_counts(rows, "rows of persons", least=1))
        self._require_rows(int(counts.max()))
        return of_size(given, len(counts)), counts

    def _require_rows(self, largest: int) -> None:
        if self.most is not None and largest > self.most:
            raise InvalidInput(
                f"a person has {largest} rows; at most {self.most} may leave. Leave the others out."
            )
        require_together(self.design, largest)

    def _levels(self, counts: Index) -> Index:
        """By how many rows the level of each person's rows is divided, under A."""
        return counts if self.most is None else np.full_like(counts, self.most)

    def _released(
        self, source: Source, counts: Index, shown: Callable[[], Array | lattice.Exactly]
    ) -> Array:
        """Noise on what is shown: row by row under A; under B a person's rows belong together."""
        sizes = (1,) * len(counts) if self.design == "A" else tuple(counts.tolist())
        values = source.add_noise(
            shown, shape=(sum(sizes),), at=self.steps, sizes=sizes, clip=self._clip(counts),
            fingerprint=EndlessLevel(self.level).fingerprint,
        )  # fmt: skip
        self.steps += len(sizes)
        return values

    def _in_doubles(self, given: Array, counts: Index) -> Array:
        """Lᵀy of all rows, for a simulation; NaN where a reading of them is missing."""
        y, absent = split_missing(given, finite=True)
        y = y if absent is None else np.where(absent, np.nan, y)
        if self.design == "A":
            weights = _looked_up(self._levels(counts), lambda r: own_root(self.level, r))
            return np.asarray(weights * y)
        d = _looked_up(counts, lambda r: mixing(self.level, r)[0])
        o = _looked_up(counts, lambda r: mixing(self.level, r)[1])
        totals = np.add.reduceat(y, np.cumsum(counts) - counts)
        return np.asarray(np.repeat(d - o, counts) * y + np.repeat(o * totals, counts))

    def _exactly(self, given: Array, counts: Index) -> lattice.Exactly:
        """Lᵀy of all rows, as exact sums; NaN where a reading of them is missing.

        counts  under A of the person of each row, under B of each person.
        """
        y, absent = split_missing(given, finite=False)
        if self.design == "A":
            weights = _looked_up(self._levels(counts), lambda r: own_root(self.level, r))
            return marked(lattice.sum_of_products([(weights, y)]), absent)
        starts, parts = np.cumsum(counts) - counts, []
        if absent is not None:
            absent = np.repeat(np.logical_or.reduceat(absent, starts), counts)
        for r in np.unique(counts).tolist():
            place = (starts[counts == r][:, None] + np.arange(r)).astype(np.intp)
            d, o = mixing(self.level, r)
            own = y[place]
            terms = [(np.where(np.arange(r) == k, d, o), own[:, k : k + 1]) for k in range(r)]
            parts.append((place, lattice.sum_of_products(terms)))
        return marked(_put_together(len(y), parts), absent)

    def _clip(self, counts: Index) -> Clip | None:
        """Between which multiples of the grid every number stays."""
        if self.range is None:
            return None
        keys = self._keys(counts)
        low = _looked_up(keys, lambda r: self._clip_of(r)[0])
        high = _looked_up(keys, lambda r: self._clip_of(r)[1])
        return (
            (low, high) if self.design == "A" else (np.repeat(low, counts), np.repeat(high, counts))
        )

    def _keys(self, counts: Index) -> Index:
        return self._levels(counts) if self.design == "A" else counts

    def _clip_of(self, rows: int) -> Clip:
        """Between which multiples of the grid a number of a person with r rows stays."""
        if self.range is None:
            return 0, 0
        if rows not in self._clips:
            if self.design == "A":
                weights = [np.array([own_root(self.level, rows)])]
            else:
                d, o = mixing(self.level, rows)
                weights = [np.array([d]), *[np.array([o])] * (rows - 1)]
            least, most = clip_of(weights, self.range)
            self._clips[rows] = int(least[0]), int(most[0])
        found = self._clips[rows]
        assert found is not None
        return found

    def __repr__(self) -> str:
        most = "" if self.most is None else f", most={self.most}"
        return f"PeopleMechanism({self.level:g}, {self.design!r}{most}, at step {self.steps})"


def require_together(design: Design, largest: int) -> None:
    """Refuse so many rows of a person that they cannot be shown together."""
    if design == "B" and largest > MOST_TOGETHER:
        raise InvalidInput(
            f"a person has {largest:,} rows: design B shows all of them in every number, and takes "
            f"{MOST_TOGETHER:,} at most. State a largest number of rows, which is public (person "
            "most, --most-rows), or take design A."
        )


def _looked_up(keys: Index, value: Callable[[int], Any]) -> AnyArray:
    """value(key) for every key, computed once for each different one."""
    distinct, place = np.unique(keys, return_inverse=True)
    return np.array([value(int(key)) for key in distinct])[place]


def _put_together(size: int, parts: list[tuple[Index, lattice.Exactly]]) -> lattice.Exactly:
    """Exact numbers of several groups of entries as one; each is at the places given."""
    high, low, slack = np.empty(size), np.empty(size), np.empty(size)
    owner, inside = np.empty(size, dtype=np.intp), np.empty(size, dtype=np.intp)
    for number, (place, part) in enumerate(parts):
        high[place], low[place] = part.high, part.low
        slack[place] = part.slack
        owner[place], inside[place] = number, np.arange(place.size).reshape(place.shape)

    def exact(i: int) -> Fraction:
        _, own = parts[int(owner[i])]
        return own.exact(int(inside[i]))

    return lattice.Exactly(high, low, slack, exact)
