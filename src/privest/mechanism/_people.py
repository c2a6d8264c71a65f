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
        source, given, counts = as_source(rng), *self._given(y, sizes)
        found = self._exactly(given, counts, finite=True)
        missing = np.isnan(found.high)
        shown = np.where(missing, 0.0, found.high)
        return np.where(missing, np.nan, self._released(source, counts, lambda: shown))

    def release(self, y: ArrayLike, sizes: ArrayLike, source: Source | None = None) -> Array:
        """z̃ of whole persons, one after another, `sizes` rows each, with protected noise.

        As whole numbers n = z̃/2⁻¹⁰ in doubles. I_z(y) ≤ S literally for every y. No value is
        refused or slower than another. NaN is missing; under B so is then all of that person.
        """
        protected, given, counts = as_protected(source), *self._given(y, sizes)
        released = self._released(protected, counts, lambda: self._exactly(given, counts))
        return released / protected.grid

    def readings(self, shown: ArrayLike, sizes: ArrayLike) -> Array:
        """Readings with their noise, from z̃/√s of whole persons: L⁻ᵀz̃, whatever is in z̃.

        A: √r·z̃/√s; B: (z̃ + (√r − 1)·mean of z̃)/√s. Post-processing, in doubles.
        """
        given, counts = self._given(shown, sizes)
        rows = np.asarray(counts)
        if self.design == "A":
            return np.asarray(given * np.sqrt(np.repeat(self._levels(rows), rows)))
        means = np.add.reduceat(given, _starts(counts)) / rows
        return np.asarray(given + np.repeat((np.sqrt(rows) - 1.0) * means, rows))

    def statement(self, rows: int, *, move: float, delta: float = 1e-6) -> GridStatement:
        """What is promised to a person with up to `rows` rows, each of which moves by `move`."""
        return person_statement(
            self.level, rows if self.most is None else self.most, self.design, move=move,
            capped=self.most is not None, delta=delta,
        )  # fmt: skip

    def _given(self, y: ArrayLike, sizes: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        counts = as_counts(sizes, "rows of persons", least=1)
        largest = max(counts)
        if self.most is not None and largest > self.most:
            raise InvalidInput(
                f"a person has {largest} rows; at most {self.most} may leave. Leave the others out."
            )
        if self.design == "B" and largest > MOST_TOGETHER:
            raise InvalidInput(
                f"a person has {largest:,} rows: design B shows all of them in every number, and "
                f"takes {MOST_TOGETHER} at most. State a largest number of rows, which is public "
                "(person most), or take design A."
            )
        return of_size(real_numbers(y).reshape(-1), sum(counts)), counts

    def _levels(self, counts: Index) -> Index:
        """By how many rows the level of each person's rows is divided, under A."""
        return counts if self.most is None else np.full_like(counts, self.most)

    def _released(
        self, source: Source, counts: tuple[int, ...], shown: Callable[[], Array | lattice.Exactly]
    ) -> Array:
        total = sum(counts)
        # Under A rows are shown one by one; under B a person's belong together.
        sizes = (1,) * total if self.design == "A" else counts
        values = source.add_noise(
            shown, shape=(total,), at=self.steps, sizes=sizes, clip=self._clip(counts),
            fingerprint=EndlessLevel(self.level).fingerprint,
        )  # fmt: skip
        self.steps += len(sizes)
        return values

    def _exactly(
        self, given: Array, counts: tuple[int, ...], *, finite: bool = False
    ) -> lattice.Exactly:
        """Lᵀy of all rows, as exact sums; NaN where a reading of them is missing."""
        y, absent = split_missing(given, finite=finite)
        if absent is not None and self.design == "B":
            absent = np.repeat(np.logical_or.reduceat(absent, _starts(counts)), counts)
        return marked(self._mixed(y, np.asarray(counts)), absent)

    def _mixed(self, y: Array, rows: Index) -> lattice.Exactly:
        if self.design == "A":
            weights = _looked_up(self._levels(rows), lambda r: own_root(self.level, r))
            return lattice.sum_of_products([(np.repeat(weights, rows), y)])
        starts, parts = np.cumsum(rows) - rows, []
        for r in np.unique(rows).tolist():
            place = (starts[rows == r][:, None] + np.arange(r)).astype(np.intp)
            d, o = mixing(self.level, r)
            own = y[place]
            terms = [(np.where(np.arange(r) == k, d, o), own[:, k : k + 1]) for k in np.arange(r)]
            parts.append((place, lattice.sum_of_products(terms)))
        return _put_together(len(y), parts)

    def _clip(self, counts: tuple[int, ...]) -> Clip | None:
        if self.range is None:
            return None
        rows = np.asarray(counts)
        keys = self._keys(rows)
        low = _looked_up(keys, lambda r: self._clip_of(r)[0])
        high = _looked_up(keys, lambda r: self._clip_of(r)[1])
        return np.repeat(low, rows), np.repeat(high, rows)

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


def _starts(counts: tuple[int, ...]) -> Index:
    return np.cumsum([0, *counts[:-1]])


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
