"""Rows of persons who have several, released at a level of the person: z̃ = √(s/r)·y + e.

e ~ N(0, 1) for each of the r rows of a person (`privacy.person_statement` says what it promises).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, ArrayLike, Index, as_count, as_counts, as_positive
from privest.errors import InvalidInput
from privest.mechanism._missing import marked, of_size, real_numbers, split_missing
from privest.mechanism._range import as_range, clip_of
from privest.mechanism.source import Clip, Source, as_protected, as_source
from privest.privacy import EndlessLevel, GridStatement, person_statement
from privest.privacy._people import person_root


class PeopleMechanism:
    """Rows of persons, in any order: each at its share of the level of its person.

    level   s: of a person.
    most    every row has the level s/most, whatever the number of rows of its person; no person may
            have more. None: s over the rows of its own person.
    range   of the readings, which are clipped to it.

    `rows` says for each reading how many rows its person has, all told; None with `most`, where it
    does not matter. `steps` counts the rows that have left; whether a person comes back is for the
    caller to see.

    >>> mechanism = PeopleMechanism(4.0)
    >>> z = mechanism.release([0.3, 0.1, 0.2], [1, 2, 2])   # a person with a row, one with two
    >>> z.dtype.name, mechanism.readings(z * 2.0**-10 / 2, [1, 2, 2]).shape
    ('float64', (3,))
    """

    def __init__(
        self,
        level: float,
        *,
        most: int | None = None,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.level = as_positive(level, "level")
        self.most = None if most is None else as_count(most, "most rows of a person", least=1)
        self.range = as_range(range)
        self.steps = 0
        self._clips: dict[int, Clip] = {}
        self._clip_of(1 if self.most is None else self.most)  # refuses a range without room, now

    def simulate(
        self, y: ArrayLike, rows: ArrayLike | None, rng: np.random.Generator | Source
    ) -> Array:
        """z̃ of rows, with simulated noise."""
        given, counts = self._given(y, rows)
        reading, missing = split_missing(given, finite=True)
        shown = np.asarray(self._roots(counts) * reading)
        found = self._released(as_source(rng), counts, lambda: shown)
        return found if missing is None else np.where(missing, np.nan, found)

    def release(
        self, y: ArrayLike, rows: ArrayLike | None = None, source: Source | None = None
    ) -> Array:
        """z̃ of rows, with protected noise: whole numbers n = z̃/2⁻¹⁰ in doubles; NaN is missing.

        I_z(y) ≤ S literally for every y. No value is refused; the time that it takes may depend on
        values (lattice/PROOF.md §8) and is no part of the promise.
        """
        given, counts = self._given(y, rows)
        source = as_protected(source)
        return self._released(source, counts, lambda: self._exactly(given, counts)) / source.grid

    def readings(self, shown: ArrayLike, rows: ArrayLike | None = None) -> Array:
        """Readings with their noise, √r·z̃/√s, from z̃/√s of rows. Post-processing, in doubles."""
        given, counts = self._given(shown, rows)
        return np.asarray(given * np.sqrt(counts))

    def statement(self, rows: int, *, move: float, delta: float = 1e-6) -> GridStatement:
        """What is promised to a person with up to `rows` rows, each of which moves by `move`."""
        return person_statement(
            self.level, rows if self.most is None else self.most, move=move,
            capped=self.most is not None, delta=delta,
        )  # fmt: skip

    def _given(self, y: ArrayLike, rows: ArrayLike | None) -> tuple[Array, Index]:
        """Readings, and by how much the level of each is below that of its person."""
        given = real_numbers(y).reshape(-1)
        if rows is None:
            if self.most is None:
                raise InvalidInput("how many rows does the person of each row have?")
            return given, np.full(len(given), self.most)
        counts = np.asarray(as_counts(rows, "rows of persons", least=1))
        if self.most is not None:
            if counts.max() > self.most:
                raise InvalidInput(
                    f"a person has {counts.max()} rows; at most {self.most} may leave. Leave the "
                    "others out."
                )
            counts = np.full_like(counts, self.most)
        return of_size(given, len(counts)), counts

    def _roots(self, counts: Index) -> Array:
        return _looked_up(counts, lambda r: person_root(self.level, r))

    def _released(
        self, source: Source, counts: Index, shown: Callable[[], Array | lattice.Exactly]
    ) -> Array:
        values = source.add_noise(
            shown, shape=(len(counts),), at=self.steps, sizes=(1,) * len(counts),
            clip=self._clip(counts), fingerprint=EndlessLevel(self.level).fingerprint,
        )  # fmt: skip
        self.steps += len(counts)
        return values

    def _exactly(self, given: Array, counts: Index) -> lattice.Exactly:
        """√(s/r)·y of all rows, as exact products; NaN where a reading is missing."""
        y, absent = split_missing(given, finite=False)
        return marked(lattice.sum_of_products([(self._roots(counts), y)]), absent)

    def _clip(self, counts: Index) -> Clip | None:
        """Between which multiples of the grid every number stays."""
        if self.range is None:
            return None
        return (
            _looked_up(counts, lambda r: self._clip_of(r)[0]),
            _looked_up(counts, lambda r: self._clip_of(r)[1]),
        )

    def _clip_of(self, rows: int) -> Clip:
        """The same, of a row of a person with r rows."""
        if self.range is None:
            return 0, 0
        if rows not in self._clips:
            least, most = clip_of([np.array([person_root(self.level, rows)])], self.range)
            self._clips[rows] = int(least[0]), int(most[0])
        return self._clips[rows]

    def __repr__(self) -> str:
        most = "" if self.most is None else f", most={self.most}"
        return f"PeopleMechanism({self.level:g}{most}, at step {self.steps})"


def _looked_up(keys: Index, value: Callable[[int], Any]) -> AnyArray:
    """value(key) for every key, computed once for each different one."""
    distinct, place = np.unique(keys, return_inverse=True)
    return np.array([value(int(key)) for key in distinct])[place]
