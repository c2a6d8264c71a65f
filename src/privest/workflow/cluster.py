"""The fit of persons with several rows: whitened by the public noise, errors by persons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, Index, as_choice
from privest.errors import InvalidInput
from privest.estimator import clipped_moments
from privest.estimator.inference import (
    Errors,
    PeopleEstimate,
    PeopleNoise,
    PeopleSums,
    group_sums,
    less_noise_p,
)
from privest.privacy import Range
from privest.release import extra_variance
from privest.workflow.clipping import AS_CLIPPED, worst_bias
from privest.workflow.document import HELD, TableRelease, as_numbers
from privest.workflow.fit import require_rows
from privest.workflow.result import SMALL, TableEstimate
from privest.workflow.strategies import Person

TOGETHER = 4096  # persons at a time: their sums stay in cache


def estimate_people(release: TableRelease, errors: str = "auto") -> TableEstimate:
    """θ̂ = (Σ HᵀSH)⁻¹ Σ HᵀSz, S the precision of the public noise of a person's rows.

    Errors: CR2 with Bell-McCaffrey degrees of freedom over persons.
    """
    as_choice(errors.lower(), ("auto", "cr2"), "errors of persons with several rows")
    return _People(release).estimate()


def person_rows(release: TableRelease) -> Iterator[tuple[Array, Array, Array, Index]]:
    """H, z, the variance of the noise and the person (from 1) of every row, in blocks."""
    people, n = _People(release), len(release.names)
    counts = np.zeros(people.count + 1, dtype=np.intp)
    for _, who in people.rows():
        counts += np.bincount(who, minlength=len(counts))
    for rows, who in people.rows():
        z = rows[:, n] * np.sqrt(people.noise.divided(counts[who]))
        yield rows[:, :n], z, people.noise.variances(counts[who]), who


class _People:
    def __init__(self, release: TableRelease) -> None:
        unit = release.unit
        assert isinstance(unit, Person)
        assert release.persons is not None
        # What the grid adds is noise of every number that is shown, and counts as such.
        level = release.column.level / (1.0 + extra_variance(release.grid))
        self.release, self.count = release, release.persons
        self.noise = PeopleNoise(level, unit.most if unit.capped else None)
        self.width = len(release.names) + 2
        self._held: Array | None = None

    def rows(self) -> Iterator[tuple[Array, Index]]:
        """[H, z̃/√s, 1] in blocks, and the number of each row's person, from 1."""
        for block in self.release.blocks():
            assert block.people is not None
            numbers = as_numbers(block.people)
            if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= self.count:
                raise InvalidInput(
                    f"the column of persons has numbers beyond 1 to {self.count}, which its header "
                    "states: it was changed."
                )
            yield np.column_stack([block.H, block.z, np.ones(len(block))]), numbers

    # --- sums of persons --------------------------------------------------------------------------

    def parts(self, by: Array | None = None) -> Iterator[tuple[Array, Index]]:
        """Sums of [H, z, 1] of some persons at a time, and how many rows each has.

        `by`: of [H, v, 1]·by, which leaves v and 1 as they are.
        """
        for part in self._sums(by):
            counts = part[:, -1, -1].astype(np.intp)
            yield self.noise.readings(part, counts), counts

    def _sums(self, by: Array | None) -> Iterator[Array]:
        """XᵀX (some persons, m, m) of the rows X·by, each person once.

        Few persons, or scattered rows: the sums of all are held. Else the table is read again.
        """
        if self._is_streamed:
            yield from self._streamed(by)
            return
        if self._held is None:
            self._held = np.zeros((self.count, self.width, self.width))
            for X, numbers in self.rows():
                present, place = np.unique(numbers, return_inverse=True)
                self._held[present - 1] += group_sums(X, place, len(present))
        for at in range(0, self.count, TOGETHER):
            part = self._held[at : at + TOGETHER]
            yield part if by is None else by.T @ part @ by

    @cached_property
    def _is_streamed(self) -> bool:
        """Whether there are many persons, and the rows of each are one after another."""
        if self.count * self.width**2 <= HELD:
            return False
        ordered, last, rows = True, 0, 0
        for _, numbers in self.rows():
            ordered &= bool(numbers[0] >= last and (np.diff(numbers) >= 0).all())
            last, rows = int(numbers[-1]), rows + len(numbers)
        require_rows(self.release, rows)
        return ordered

    def _streamed(self, by: Array | None) -> Iterator[Array]:
        last, rest = 0, np.zeros((self.width, self.width))
        for X, numbers in self.rows():
            place = np.concatenate([[0], np.cumsum(np.diff(numbers) > 0)])
            sums = group_sums(X if by is None else X @ by, place, int(place[-1]) + 1)
            if numbers[0] == last:
                sums[0] += rest
            elif last:
                sums = np.concatenate([rest[None], sums])
            last, rest = int(numbers[-1]), sums[-1].copy()
            yield sums[:-1]
        if last:
            yield rest[None]

    # --- the estimate -----------------------------------------------------------------------------

    def estimate(self) -> TableEstimate:
        release, n = self.release, len(self.release.names)
        sums, rows = PeopleSums(n, self.noise), []
        for part, counts in self.parts():
            sums.add(part, counts)
            rows.append(counts)
        require_rows(release, sums.rows)
        first = sums.solve(release.names)
        found = self._clustered(sums, first)
        limits = release.limits(release.column)
        if limits is not None and first.variance > 0:
            found |= self._range(found, first, np.concatenate(rows), limits)
        freedom = sums.rows - n
        # Values can only add to what the known noise scatters.
        audit = less_noise_p(first.misfit * freedom, freedom, 1.0) if freedom > 0 else None
        return TableEstimate(
            **found, names=release.names, simulated=release.simulated, rows=sums.rows,
            dropped=release.dropped, less_noise_p=audit, release=release,
        )  # fmt: skip

    def _range(
        self, found: dict[str, Any], first: PeopleEstimate, rows: Index, limits: Range
    ) -> dict[str, Any]:
        n = len(self.release.names)
        weights, moved, clipped = 1 / self.noise.variances(rows), np.zeros(n), 0.0
        for X, numbers in self.rows():
            eta, sigma = X[:, :n] @ found["value"], math.sqrt(first.variance)
            outside, shift, _ = clipped_moments(eta, sigma, limits.low, limits.high)
            clipped += float(outside.sum())
            moved += X[:, :n].T @ (weights[numbers - 1] * shift)
        bias = worst_bias(first.floor @ moved, np.sqrt(np.diagonal(found["covariance"])))
        cautions = (AS_CLIPPED,) if bias >= SMALL else ()
        share = clipped / self.release.rows
        return {"clipped": share, "clipping_bias": bias, "cautions": cautions}

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
