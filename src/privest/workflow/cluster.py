"""The fit of persons with several rows: whitened by the public noise, errors by persons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from privest.arrays import Array, Index, as_choice
from privest.errors import InvalidInput
from privest.estimator import clipped_moments
from privest.estimator.inference import (
    EffectSums,
    Errors,
    PeopleEstimate,
    PeopleNoise,
    PeopleSums,
    group_sums,
    less_noise_p,
)
from privest.release import extra_variance
from privest.workflow.clipping import AS_CLIPPED, worst_bias
from privest.workflow.document import HELD, TableRelease, as_numbers
from privest.workflow.fit import require_rows
from privest.workflow.result import SMALL, TableEstimate
from privest.workflow.strategies import Person

RANGE_HIDDEN = (
    "There are too few persons, or rows of a person, to see how much the range clips: values "
    "beyond it count as its ends."
)


def estimate_people(release: TableRelease, errors: str = "auto") -> TableEstimate:
    """θ̂ = (Σ HᵀSH)⁻¹ Σ HᵀSz, S the precision of the public noise of a person's rows.

    errors  "cr2" ("auto"): CR2 with Bell-McCaffrey degrees of freedom over persons, whatever
            correlation the rows of a person have.
    """
    as_choice(errors.lower(), ("auto", "cr2"), "errors of persons with several rows")
    people = _People(release)
    try:
        return people.estimate()
    except Scattered:
        people.gather()
        return people.estimate()


def person_rows(release: TableRelease) -> Iterator[tuple[Array, Array, Array, Index]]:
    """H, z, the variance of the noise and the person (from 1) of every row, in blocks."""
    people, n = _People(release), len(release.names)
    counts = np.zeros(people.count + 1, dtype=np.intp)
    for _, who in _rows(release):
        counts += np.bincount(who, minlength=len(counts))
    for rows, who in _rows(release):
        divided = people.noise.divided(counts[who])
        z = rows[:, n] * np.sqrt(divided)
        yield rows[:, :n], z, people.noise.variances(counts[who]), who


class _People:
    """The persons of a release, gone through once or twice."""

    def __init__(self, release: TableRelease) -> None:
        column, unit = release.column, release.unit
        assert isinstance(unit, Person)
        assert release.persons is not None
        most = unit.most if unit.capped else None
        # What the grid adds is noise of every number that is shown, and counts as such.
        level = column.level / (1.0 + extra_variance(release.grid))
        self.release, self.count = release, release.persons
        self.noise = PeopleNoise(level, most)
        self.width = len(release.names) + 2
        self.persons = PersonSums(lambda: _rows(release), self.count, self.width)

    def gather(self) -> None:
        """Rows of a person are far apart: put them in order, or keep the sums of all persons."""
        if self.release.rows * self.width <= HELD:
            self.persons = PersonSums(in_order(_rows(self.release)), self.count, self.width)
        else:
            self.persons.hold()

    def parts(self, by: Array | None = None) -> Iterator[tuple[Array, Index]]:
        """Sums of [H, z, 1] of some persons at a time, and how many rows each has.

        `by`: of [H, v, 1]·by, which leaves v and 1 as they are.
        """
        for part in self.persons.turned(by):
            counts = part[:, -1, -1].astype(np.intp)
            yield self.noise.readings(part, counts), counts

    def estimate(self) -> TableEstimate:
        release, n = self.release, len(self.release.names)
        sums, effects, rows = PeopleSums(n, self.noise), EffectSums(n), []
        limits = release.limits(release.column)
        ranged = limits is not None
        for part, counts in self.parts():
            sums.add(part, counts)
            if ranged:
                effects.add(part, counts, self.noise.variances(counts))
                rows.append(counts)
        require_rows(release, sums.rows)
        first = sums.solve(release.names)
        found = self._clustered(sums, first)
        if ranged:
            found |= self._range(found, first, effects, np.concatenate(rows))
        freedom = sums.rows - n
        # Readings can only add to what the known noise scatters.
        audit = less_noise_p(first.misfit * freedom, freedom, 1.0) if freedom > 0 else None
        return TableEstimate(
            **found, names=release.names,
            simulated=release.simulated, rows=sums.rows, dropped=release.dropped,
            less_noise_p=audit, release=release,
        )  # fmt: skip

    def _range(
        self, found: dict[str, Any], first: PeopleEstimate, effects: EffectSums, rows: Index
    ) -> dict[str, Any]:
        """The effect of the range on the estimate, by random effects; `rows` of each person."""
        release, n = self.release, len(self.release.names)
        limits = release.limits(release.column)
        assert limits is not None
        try:
            fitted = effects.fit()
        except InvalidInput:  # too few persons or rows: the estimate itself needs no such fit
            return {"remark": " ".join(filter(None, (found["remark"], RANGE_HIDDEN)))}
        variance = fitted.within + fitted.between
        if not variance > 0:
            return {}
        weights, moved, clipped = self.noise.precision(rows)[0], np.zeros(n), 0.0
        for X, numbers in _rows(release):
            eta, sigma = X[:, :n] @ found["value"], math.sqrt(variance)
            outside, shift, _ = clipped_moments(eta, sigma, limits.low, limits.high)
            clipped += float(outside.sum())
            moved += X[:, :n].T @ (weights[numbers - 1] * shift)
        bias = worst_bias(first.floor @ moved, np.sqrt(np.diagonal(found["covariance"])))
        cautions = (AS_CLIPPED,) if bias >= SMALL else ()
        return {"clipped": clipped / release.rows, "clipping_bias": bias, "cautions": cautions}

    def _clustered(self, sums: PeopleSums, first: PeopleEstimate) -> dict[str, Any]:
        """CR2 errors, not below those of the noise: the second time through the persons."""
        second = sums.errors()
        for part, counts in self.parts(sums.turned(second)):
            sums.add_errors(second, first.value, part, counts)
        made = second.errors()
        method = f"CR2, {self.count:,} persons"
        errors = Errors.above(first.floor, made.covariance, made.degrees_of_freedom, method)
        remark = made.reason(self.release.names, "person")
        return errors.fields() | {"value": first.value, "classical": None, "remark": remark}


def _rows(release: TableRelease) -> Rows:
    """[H, z̃/√s, 1] in blocks, and whose rows they are."""
    for block in release.blocks():
        assert block.people is not None
        rows = np.column_stack([block.H, block.z, np.ones(len(block))])
        yield rows, as_numbers(block.people)


# --- sums of persons ---


Rows = Iterator[tuple[Array, Index]]  # X (rows, m), and the number of each row's person, from 1
TOGETHER = 4096  # persons at a time: their sums stay in cache
SIZE = 1 << 16  # rows at a time


class Scattered(Exception):
    """The rows of a person are not one after another."""


class PersonSums:
    """XᵀX (m, m) of every person, to be gone through as often as needed.

    rows    opens the table anew: blocks of X (rows, m) with the persons' numbers.
    people  how many there are, m the width of X.

    Few persons (HELD numbers): their sums are kept. Many, with their rows one after another: the
    table is read for every pass. Many and scattered (`Scattered`): `hold`, or `in_order`.
    """

    def __init__(self, rows: Callable[[], Rows], people: int, width: int) -> None:
        self._rows, self.people, self.width = rows, people, width
        self._held: Array | None = None
        self._keep = people * width**2 <= HELD

    def hold(self) -> None:
        """From now on keep the sums of all persons."""
        self._keep = True

    def turned(self, by: Array | None) -> Iterator[Array]:
        """Sums (some persons, m, m) of the rows X·by, by (m, m); None: of X. Each person once."""
        if not self._keep:
            yield from self._streamed(by)
            return
        if self._held is None:
            self._held = self._gathered()
        for at in range(0, self.people, TOGETHER):
            part = self._held[at : at + TOGETHER]
            yield part if by is None else by.T @ part @ by

    def _gathered(self) -> Array:
        sums = np.zeros((self.people, self.width, self.width))
        for X, numbers in self._rows():
            self._require_known(numbers)
            present, place = np.unique(numbers, return_inverse=True)
            sums[present - 1] += group_sums(X, place, len(present))
        return sums

    def _streamed(self, by: Array | None) -> Iterator[Array]:
        """Persons as they end; the one that is open at the end of a block goes on in the next."""
        last, rest = 0, np.zeros((self.width, self.width))
        for X, numbers in self._rows():
            self._require_known(numbers)
            steps = np.diff(numbers)
            if numbers[0] < last or (steps < 0).any():
                raise Scattered
            first = numbers[0]
            sums = group_sums(X if by is None else X @ by, *_places(steps))
            if first == last:
                sums[0] += rest
            elif last:
                sums = np.concatenate([rest[None], sums])
            last, rest = int(numbers[-1]), sums[-1].copy()
            yield sums[:-1]
        if last:
            yield rest[None]

    def _require_known(self, numbers: Index) -> None:
        if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= self.people:
            raise InvalidInput(
                f"the column of persons has numbers beyond 1 to {self.people}, which its header "
                "states: it was changed."
            )


def _places(steps: Index) -> tuple[Index, int]:
    """Which of the different numbers each of ascending ones is, and how many there are."""
    place = np.zeros(len(steps) + 1, dtype=np.intp)
    np.cumsum(steps > 0, out=place[1:])
    return place, int(place[-1]) + 1


def in_order(blocks: Rows) -> Callable[[], Rows]:
    """The same rows, all of them in memory, those of a person one after another."""
    parts, held = zip(*blocks)
    numbers = np.concatenate(held)
    order = np.argsort(numbers, kind="stable")
    rows, numbers = np.concatenate(parts)[order], numbers[order]
    return lambda: (
        (rows[at : at + SIZE], numbers[at : at + SIZE]) for at in range(0, len(rows), SIZE)
    )
