"""The aggregate form: a trusted data owner publishes estimates from n noisy sums, and no rows.

What leaves is one document: coefficients, their errors, the promise; with `publish = "matrix"`
also the sums and their weights.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from privest.aggregate import (
    NOISE,
    FeatureRows,
    RowPersons,
    Split,
    SumDesign,
    SumRelease,
    person_rows,
    planned_errors,
    release_sums,
    solve_scores,
    sum_design,
)
from privest.arrays import AnyArray, Array, Index, as_choice
from privest.data.cells import Texts
from privest.data.features import Features
from privest.data.persons import Persons
from privest.data.rows import read_rows
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import RunningLeastSquares
from privest.mechanism.source import Source
from privest.privacy import Range
from privest.records import standard_errors
from privest.workflow.published import SCORES, Published, payload, splits_of
from privest.workflow.rows import Blocks, PlannedErrors, Rows, open_private, require_rows_of
from privest.workflow.spec import Spec, ends_of
from privest.workflow.survey import CHANGED, Survey, survey
from privest.workflow.terms import Column, Terms, modelled, modelled_range

if TYPE_CHECKING:
    from privest.workflow.document import TableRelease
    from privest.workflow.plan import Plan
    from privest.workflow.result import TableEstimate

NO_ROOT = (
    "The noisy score equations have no solution: the noise is too large beside so few rows. It was "
    "charged; a second release would cost privacy again. Plan with a larger ε or fewer features."
)
FEWEST = 10  # rows of a category, below which sums show the features of its members
METHODS = {
    "none": "noisy sums; the widest errors that the range allows",
    "squares": "noisy sums and squares of residuals",
    "free": "noisy sums and squares",
    "persons": "noisy sums, and squares of the sums of each person",
    SCORES: "noisy score equations",
}


class Aggregate:
    """z = √c₁·Σ ℓ_i y_i + e, n numbers, and squares of residuals: cov θ̂ = b/c₁ + a·σ²."""

    def survey(self, spec: Spec, data: object) -> Survey:
        kept = FeatureRows(len(spec.design.names))
        found = survey(spec, data, kept)
        persons = None
        if found.strata is not None:
            persons = RowPersons(kept.parts(found.strata.numbers), found.strata.leaving)
        return replace(found, sums=_design(kept, found.triangle, persons))

    def solve(self, spec: Spec, found: Survey) -> Terms:
        model, privacy, limits = spec.model, spec.privacy, list[Range]()
        for target in model.target:
            own = modelled_range(model.transform, ends_of(model, privacy, target))
            assert own is not None  # `refusals` asks for it
            limits.append(own)
        assert found.sums is not None
        variances = [one.variance for one in found.known]
        splits = splits_of(model, privacy, limits, found.sums, variances)
        columns = tuple(
            Column(target, own.level, one.variance, one.rows)
            for target, own, one in zip(model.target, splits, found.known, strict=True)
        )
        most = found.most_rows(spec)
        return Terms(model=model, privacy=privacy, columns=columns, most=most, splits=splits)

    def errors(self, plan: Plan, column: Column, level: float | None) -> PlannedErrors:
        """The planned errors; those of yes/no and counts at one mean."""
        design = plan.survey.sums
        assert design is not None
        variance, scale = column.residual_variance, 1.0
        if plan.model.family != "gaussian":
            variance = plan.mean * (1 - plan.mean) if plan.model.family == "binomial" else plan.mean
            scale = 1 / variance
        own = next(
            one for one, other in zip(plan.splits, plan.columns) if other.target == column.target
        )
        if level is not None:
            own = replace(own, level=level)
        found = planned_errors(design, own, plan.summed(column), variance)
        least = standard_errors(plan.shape) * math.sqrt(math.nan if variance is None else variance)
        return PlannedErrors(
            scale * least, scale * found["privacy"], scale * found["total"],
            None if own.kind == "none" else found["relative"],
        )  # fmt: skip

    def require_name(self, table: Path) -> None:
        from privest.workflow.document import TABLES

        name = table.name.lower()
        if not name.endswith(".json") or name.endswith(tuple(f"{one}.json" for one in TABLES)):
            raise InvalidInput(f"{table}: an aggregate release is one document, NAME.json.")

    def leaving(self, plan: Plan, noise: Source, data: object) -> LeavingSums:
        return LeavingSums(plan, noise, plan.data if data is None else data)

    def estimate(self, release: TableRelease, errors: str) -> TableEstimate:
        """As its owner computed it; correlations are NaN unless the matrix was published."""
        from privest.workflow.result import TableEstimate

        as_choice(errors, ("auto",), "errors")
        own = next(one for one in release.sums if one.target == release.column.target)
        none = () if np.isfinite(own.variance).all() else (NO_ROOT,)
        return TableEstimate(
            cautions=none,
            value=own.estimate, covariance=own.covariance, names=release.names,
            simulated=release.simulated, method=METHODS[own.kind], rows=release.rows,
            degrees_of_freedom=None if np.isinf(own.freedom).all() else own.freedom,
            dropped=release.dropped, release=release, noise_found=own.residual_variance,
            r_squared=own.r_squared,
        )  # fmt: skip


FORMS: dict[str, Rows | Aggregate] = {"rows": Rows(), "aggregate": Aggregate()}


def _design(rows: FeatureRows, triangle: Array, persons: RowPersons | None) -> SumDesign:
    """Of the rows of a table; of persons their rows over how many they have."""
    if persons is None:
        return sum_design(rows, triangle)
    scaled, inner = person_rows(rows, persons), np.zeros_like(triangle)
    for X in scaled:
        inner += X.T @ X
    return sum_design(scaled, np.linalg.cholesky(inner).T, persons)


# --- sums that leave ------------------------------------------------------------------------------


class LeavingSums:
    """What leaves of a table under a plan: `blocks` reads it once, `released` draws the noise.

    rows, dropped  used, and left out for missing values; persons: how many there are.
    """

    def __init__(self, plan: Plan, noise: Source, data: object) -> None:
        self.plan, self.noise, self.table = plan, noise, open_private(plan, data)
        self.rows, self.dropped = 0, 0
        self.persons: int | None = None
        self._values: list[Array] = []
        self._numbers: list[Index] = []

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """The public columns of each block, and a column of nothing; values are kept."""
        for H, values, numbers in self._read():
            self._values.append(values)
            self._numbers.append(numbers)
            self.rows += len(values)
            if len(H):
                yield [*H.T[int(self.plan.spec.design.intercept) :], np.zeros(len(H))]
        require_rows_of(self.plan, self.rows + self.dropped)

    def write(
        self, release: TableRelease, file: BinaryIO, blocks: Blocks
    ) -> tuple[int, tuple[Published, ...]]:
        """Into a draft: how many rows there were, and what is published."""
        for _ in blocks:
            pass
        found = self.released()
        file.write(payload(found))
        return self.rows, found

    def _beside_plan(self, rows: FeatureRows) -> Iterator[tuple[Array, Array, Index]]:
        """Private values alone, and the rows of the plan."""
        none, targets = np.zeros(0, dtype=np.intp), self.plan.spec.targets
        infinite = not self.noise.simulated
        for block in read_rows(self.table, Features(()), targets, infinite=infinite):
            yield np.zeros((0, rows.n)), block.targets, none
        for X in rows:
            yield X, np.zeros((0, len(targets))), none

    def _read(self) -> Iterator[tuple[Array, Array, Index]]:
        """H, private values and whose they are; the same rows in every pass.

        Of a file that is as it was planned with, without gaps, the values alone are read.
        """
        spec, person, found = self.plan.spec, self.plan.model.person, self.plan.survey
        assert found.sums is not None
        same = self.table.stamp is not None and self.table.stamp == found.stamp
        if same and person is None and spec.model.missing == "refuse":
            yield from self._beside_plan(found.sums.rows)
            return
        beside = {} if person is None else {person: True}
        persons, self.dropped = Persons(), 0
        for block in read_rows(
            self.table, spec.design, spec.targets, beside=beside,
            missing=spec.model.missing, infinite=not self.noise.simulated,
        ):  # fmt: skip
            self.dropped += block.dropped
            H, values, numbers = block.H, block.targets, np.zeros(0, dtype=np.intp)
            if person is not None:
                cells = block.beside[person]
                assert isinstance(cells, Texts)
                numbers = persons.numbers(cells)
                before = persons.add(numbers)
                if spec.model.most_rows is not None:
                    kept = before < spec.model.most_rows
                    H, values, numbers = H[kept], values[kept], numbers[kept]
                self.persons = persons.count
            yield H, values, numbers - 1

    def released(self) -> tuple[Published, ...]:
        """What leaves of every private column, once all blocks were read."""
        plan, design = self.plan, self._design()
        if plan.privacy.publish == "matrix":
            _require_common(plan.names, design)
        found, y = [], np.concatenate(self._values)
        self._values.clear()
        for column, own, values in zip(plan.columns, plan.splits, y.T, strict=True):
            limits, ends = plan.limits(column), plan.ends(column)
            assert limits is not None
            assert ends is not None
            clipped = design.rows.parts(modelled(plan.model.transform, np.clip(values, *ends)))
            centre = self._centre(design, clipped, limits, own)
            if centre is not None:
                clipped = [y - X @ centre for X, y in zip(design.rows, clipped, strict=True)]
            drawn = release_sums(design, clipped, plan.summed(column), own, self.noise)
            found.append(_published(plan, column, design, own, drawn, centre))
        return tuple(found)

    def _centre(
        self, design: SumDesign, values: Sequence[Array], limits: Range, own: Split
    ) -> Array | None:
        """θ₀ of the prediction that values are counted from: public, or released by a pilot."""
        if own.pilot:
            pilot = Split(own.pilot, 0.0, "none", None, own.pilot, own.stated)
            return release_sums(design, values, limits, pilot, self.noise).estimate
        if self.plan.privacy.within is None:
            return None
        expected = self.plan.spec.public.expected
        return np.array([expected.get(name, 0.0) for name in self.plan.names])

    def _design(self) -> SumDesign:
        """That of the plan, where every planned row has its values; else of the rows that have."""
        design, names = self.plan.survey.sums, self.plan.names
        assert design is not None
        if self.rows == design.rows.count:
            return design
        rows, sums = FeatureRows(len(names)), RunningLeastSquares(len(names))
        for H, _, _ in self._read():
            rows.add(H)
            sums.add_matrix(H)
        sums.require_full(names, self.table.name, rows.count)
        persons = None
        if self.plan.model.person is not None:
            numbers = np.concatenate(self._numbers)
            persons = RowPersons(rows.parts(numbers), np.bincount(numbers))
            if persons.rows.max() > (self.plan.most or 0):
                raise InvalidInput(f"{self.table.name} {CHANGED}")
        return _design(rows, sums.upper, persons)


def _require_common(names: Sequence[str], design: SumDesign) -> None:
    """Refuse a matrix in which the features of a few people can be read."""
    for name, size in zip(names, np.diagonal(design.sums.features)):
        if "=" in name and size < FEWEST:
            raise InvalidInput(
                f"{name!r} has fewer than {FEWEST} rows: the matrix would show their features. "
                'Merge categories, publish estimates only, or state "matrix of small groups".'
            )


def _published(
    plan: Plan,
    column: Column,
    design: SumDesign,
    own: Split,
    drawn: SumRelease,
    centre: Array | None,
) -> Published:
    """What leaves of a column: a function of the released sums and of H."""
    family, n = plan.model.family, design.rows.n
    moved = np.zeros(n) if centre is None else centre
    if family != "gaussian":
        theta, variance = np.full(n, np.nan), np.full(n, np.inf)
        with contextlib.suppress(NotIdentifiable):  # it leaves, and is charged, without a root too
            theta, covariance, _ = solve_scores(design, drawn.sums, own.level, family)
            variance = np.diagonal(covariance).copy()
        freedom, kind = np.full(n, np.inf), SCORES
    else:
        theta, kind = drawn.estimate + moved, own.kind
        variance, freedom = drawn.chosen()
    shown: dict[str, Array] = {}
    if plan.privacy.publish != "estimates":
        sums = drawn.sums + math.sqrt(own.level) * design.sums.cross @ moved
        shown = {"sums": sums, "cross": design.sums.cross, "gram": design.sums.gram}
        shown |= {} if drawn.squares is None else {"squares": drawn.squares}
    return Published(
        column.target, kind, own.level, theta, variance, freedom,
        **_fit(plan, design, own, drawn, theta), matrix=shown,
    )  # fmt: skip


def _fit(
    plan: Plan, design: SumDesign, own: Split, drawn: SumRelease, theta: Array
) -> dict[str, float]:
    """σ̂² that the squares show, and R², where there is an intercept; approximate."""
    if own.kind not in ("squares", "free"):
        return {}
    noise = NOISE * design.noise / own.level
    sigma2 = float(np.mean(np.maximum(drawn.variance - noise, 0.0) / design.sampling))
    found = {"residual_variance": sigma2}
    if plan.names[0] != "intercept":
        return found
    mean = design.sums.features[0] / design.rows.count
    spread = design.sums.features / design.rows.count - np.outer(mean, mean)
    inner = np.eye(len(theta)) * NOISE / own.level + sigma2 * design.sums.gram
    error = design.inverse @ inner @ design.inverse.T
    explained = max(0.0, float(theta @ spread @ theta) - float(np.sum(spread * error)))
    return found | {"r_squared": explained / (explained + sigma2)} if sigma2 > 0 else found
