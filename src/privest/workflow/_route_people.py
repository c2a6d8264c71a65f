"""The estimate of persons with several rows: whitened by the public noise, errors by persons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.estimator.inference import (
    EffectSums,
    Errors,
    PeopleEstimate,
    PeopleNoise,
    PeopleSums,
    less_noise_p,
)
from privest.release import extra_variance
from privest.workflow._estimate import Estimate
from privest.workflow._header import TableRelease
from privest.workflow._held import HELD
from privest.workflow._people_range import range_remark
from privest.workflow._person_sums import PersonSums, Rows, Scattered, as_numbers, in_order
from privest.workflow._route_rows import require_rows

RANGE_HIDDEN = (
    "There are too few persons, or rows of a person, to see how much the range clips: readings "
    "beyond it count as its ends."
)
KINDS = ("auto", "cr2", "reml")


def estimate_people(release: TableRelease, errors: str = "auto") -> Estimate:
    """θ̂ = (Σ HᵀSH)⁻¹ Σ HᵀSz, S the precision of the public noise of a person's rows.

    errors  "cr2" ("auto"): CR2 with Bell-McCaffrey degrees of freedom over persons, whatever
            correlation the rows of a person have; "reml": generalised least squares with the
            variances of random person effects, and the same errors.
    """
    if errors.lower() not in KINDS:
        raise InvalidInput(
            f'errors of persons with several rows are "cr2" (the default) or "reml" (random person '
            f"effects); received {errors!r}."
        )
    people = _People(release)
    try:
        return people.estimate(reml=errors.lower() == "reml")
    except Scattered:
        people.gather()
        return people.estimate(reml=errors.lower() == "reml")


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
        column = release.column
        assert column.person is not None
        assert release.persons is not None
        most = column.person.rows if column.person.capped else None
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

    def estimate(self, *, reml: bool) -> Estimate:
        release, n = self.release, len(self.release.names)
        sums, effects, rows = PeopleSums(n, self.noise), EffectSums(n), []
        ranged = release.limits is not None
        for part, counts in self.parts():
            sums.add(part, counts)
            if reml or ranged:
                effects.add(part, counts, self.noise.variances(counts))
            if ranged:
                rows.append(counts)
        require_rows(release, sums.rows)
        first = sums.solve(release.names)
        found = self._random(effects, first) if reml else self._clustered(sums, first, first.floor)
        if ranged:
            found["remark"] = self._with_range(found, first, effects, np.concatenate(rows))
        freedom, column = sums.rows - n, release.column
        # Readings can only add to what the known noise scatters.
        audit = less_noise_p(first.misfit * freedom, freedom, 1.0) if freedom > 0 else None
        return Estimate(
            **found, names=release.names,
            simulated=release.simulated, level=column.level, noise=column.noise_variance,
            rows=sums.rows, dropped=release.dropped, misfit=None, less_noise_p=audit,
            reference_rows=release.reference_rows, release=release, trail=None,
        )  # fmt: skip

    def _with_range(
        self, found: dict[str, Any], first: PeopleEstimate, effects: EffectSums, rows: Index
    ) -> str | None:
        """The remark, with what the range does to the estimate; `rows` of persons 1, 2, ..."""
        limits, errors = self.release.limits, np.sqrt(np.diagonal(found["covariance"]))
        assert limits is not None
        try:
            fitted = effects.fit()
        except InvalidInput:  # too few persons or rows: the estimate itself needs no such fit
            return " ".join(filter(None, (found["remark"], RANGE_HIDDEN)))
        said = range_remark(
            _rows(self.release), self.noise.precision(rows)[0], first.floor, found["estimate"],
            fitted.within + fitted.between, limits, errors, self.release.names,
        )  # fmt: skip
        return " ".join(filter(None, (found["remark"], said))) or None

    def _clustered(self, sums: PeopleSums, first: PeopleEstimate, known: Array) -> dict[str, Any]:
        """CR2 errors, not below those of the noise: the second time through the persons."""
        second = sums.errors()
        for part, counts in self.parts(sums.turned(second)):
            sums.add_turned_errors(second, first.estimate, part, counts)
        made = second.errors()
        method = f"CR2, {self.count:,} persons"
        errors = Errors.above(known, made.covariance, made.degrees_of_freedom, method).fields()
        remark = made.reason(self.release.names, "person")
        return errors | {"estimate": first.estimate, "classical": None, "remark": remark}

    def _random(self, effects: EffectSums, plain: PeopleEstimate) -> dict[str, Any]:
        """Generalised least squares by random person effects; errors are CR2 all the same.

        Whatever linear estimate there is, the noise makes it no better than `plain.floor`.
        """
        made = effects.fit()
        noise = replace(self.noise, within=made.within, between=made.between)
        sums = PeopleSums(len(self.release.names), noise)
        for part, counts in self.parts():
            sums.add(part, counts)
        found = self._clustered(sums, sums.solve(self.release.names), plain.floor)
        said = (
            f"Weights of random person effects (REML): variance between persons {made.between:.3g},"
            f" within persons {made.within:.3g}. Errors are CR2, which hold where persons also "
            "differ in slopes."
        )
        remark = " ".join(filter(None, (said, found["remark"])))
        return found | {"method": f"REML weights, {found['method']}", "remark": remark}


def _rows(release: TableRelease) -> Rows:
    """[H, z̃/√s, 1] in blocks, and whose rows they are."""
    for block in release.blocks():
        assert block.people is not None
        rows = np.column_stack([block.H, block.z, np.ones(len(block))])
        yield rows, as_numbers(block.people)
