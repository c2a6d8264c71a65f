"""Forms of a release: what leaves, which errors it will have, and how it is estimated from.

"rows": a noisy value for every row (the local model); "aggregate": estimates from noisy sums.
`Terms.form` chooses by `Privacy.form`; plan, release and estimate call nothing of a form but the
methods of `Form`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol

import numpy as np
import scipy

from privest.arrays import AnyArray, Array
from privest.data import table_writer
from privest.errors import InvalidInput
from privest.mechanism.source import Source
from privest.records import standard_errors
from privest.workflow.published import Published
from privest.workflow.rows import ADDED, Leaving, Survey, survey
from privest.workflow.spec import Spec
from privest.workflow.strategies import Person
from privest.workflow.terms import Column, Terms, solve

if TYPE_CHECKING:
    from privest.workflow.document import TableRelease
    from privest.workflow.plan import Plan
    from privest.workflow.result import Estimate


Blocks = Iterator[Sequence[AnyArray]]


@dataclass(frozen=True, eq=False)
class PlannedErrors:
    """Standard errors of the coefficients of one column, (n,) each; NaN where unknown.

    classical   without privacy. privacy: by the privacy noise alone. total: with privacy.
    relative    of noisy squares: sd of their noise over the variance that they show; else None.
    """

    classical: Array
    privacy: Array
    total: Array
    relative: Array | None = None


class Leaves(Protocol):
    """What leaves of a table: rows left out for missing values, and persons, if any."""

    dropped: int
    persons: int | None

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """Columns of the table, block by block: the private values are read."""


class Form:
    """What a form of release supplies; `spec`, `plan` and `release` are public."""

    name: ClassVar[str]

    def survey(self, spec: Spec, data: object) -> Survey:
        """One pass over the public columns and the reference; private columns are not read."""
        raise NotImplementedError

    def solve(self, spec: Spec, found: Survey) -> Terms:
        """The levels that keep the stated promise."""
        raise NotImplementedError

    def errors(self, plan: Plan, column: Column, level: float | None) -> PlannedErrors:
        """Standard errors to expect of a column at its level, or at another one."""
        raise NotImplementedError

    def require_name(self, table: Path) -> None:
        """Refuse a file that this form is not written to."""
        raise NotImplementedError

    def write(
        self,
        leaving: Any,  # noqa: ANN401 - its own kind
        release: TableRelease,
        file: BinaryIO,
        blocks: Blocks,
    ) -> tuple[int, tuple[Published, ...]]:
        """Into a draft: how many rows there were, and of the aggregate form what is published."""
        raise NotImplementedError

    def leaving(self, plan: Plan, noise: Source, data: object) -> Leaves:
        """What leaves, block by block: the only reader of private columns."""
        raise NotImplementedError

    def estimate(self, release: TableRelease, errors: str) -> Estimate:
        """The estimate of a release of one private column."""
        raise NotImplementedError


class Rows(Form):
    """A noisy value for every row, beside its public columns.

    With A = (HᵀH)⁻¹, residual variance σ² and a(s) the variance of the privacy noise on a value,

        cov θ̂ = (σ² + a(s))·A      (`thm:crbound` for Gaussian noise, a = 1/s and the grid's part)

    and for yes/no and counts, by Fisher scoring at one mean with variance v, (v + a)/v²·A.
    """

    name = "rows"

    def survey(self, spec: Spec, data: object) -> Survey:
        return survey(spec, data)

    def solve(self, spec: Spec, found: Survey) -> Terms:
        return solve(
            spec.model, spec.privacy, found.known, most=found.most_rows(spec),
            shape=inverse_of(found.triangle),
            largest=None if found.levels is None else found.levels.largest,
        )  # fmt: skip

    def errors(self, plan: Plan, column: Column, level: float | None) -> PlannedErrors:
        if plan.survey.levels is not None:
            return _level_column_errors(plan, column, level)
        s = column.level if level is None else level
        if isinstance(plan.unit, Person):
            return _person_errors(plan, column, s)
        root, limits = standard_errors(plan.shape), plan.limits(column)
        added = plan.distribution.variance(s, limits, simulated=False)
        if plan.model.family == "gaussian":
            own = math.nan if column.residual_variance is None else column.residual_variance
            return PlannedErrors(*(root * math.sqrt(x) for x in (own, added, own + added)))
        own, width = plan.mean, 1.0
        if plan.model.family == "binomial":
            assert limits is not None
            own, width = own * (1 - own), limits.width
        total = (own + added / width**2) / own**2
        return PlannedErrors(*(root * math.sqrt(x) for x in (1 / own, total - 1 / own, total)))

    def require_name(self, table: Path) -> None:
        table_writer(table)

    def write(
        self, leaving: Leaving, release: TableRelease, file: BinaryIO, blocks: Blocks
    ) -> tuple[int, tuple[Published, ...]]:
        return table_writer(Path(release.table))(file, release.table_columns, blocks), ()

    def leaving(self, plan: Plan, noise: Source, data: object) -> Leaving:
        return Leaving(plan.spec, plan, plan.found, noise, plan.data if data is None else data)

    def estimate(self, release: TableRelease, errors: str) -> Estimate:
        from privest.workflow.estimate import fit_of

        return fit_of(release).estimate(release, errors)


def inverse_of(triangle: Array) -> Array:
    """(RᵀR)⁻¹ of a triangle R."""
    inverse = scipy.linalg.lapack.dtrtri(triangle)[0]
    return np.asarray(inverse @ inverse.T)


def _level_column_errors(plan: Plan, column: Column, level: float | None) -> PlannedErrors:
    if level is not None:
        raise InvalidInput(
            "the levels of this plan are a column of its table: change them there, and plan again."
        )
    assert plan.survey.levels is not None
    total = standard_errors(inverse_of(plan.survey.levels.triangle))
    if column.residual_variance is None:
        none = np.full(len(plan.names), np.nan)
        return PlannedErrors(none, total, none)
    classical = math.sqrt(column.residual_variance) * standard_errors(plan.shape)
    return PlannedErrors(classical, np.sqrt(np.maximum(total**2 - classical**2, 0.0)), total)


def _person_errors(plan: Plan, column: Column, level: float) -> PlannedErrors:
    """Of persons, if half of the residual variance is between them.

    The r rows of a person have the covariance V = (σ² + noise)·I + τ²·11ᵀ, and generalised least
    squares has (Σ HᵀV⁻¹H)⁻¹.
    """
    strata, unit = plan.survey.strata, plan.unit
    assert strata is not None
    assert isinstance(unit, Person)
    noise = unit.divided(strata.rows) * ADDED / level
    half = (column.residual_variance or 0.0) / 2
    none = np.full(strata.inner.shape[-1], np.nan)

    def errors(within: Array, between: float) -> Array:
        k = between / (within + strata.rows * between)
        information = np.tensordot(1 / within, strata.inner, 1)
        information -= np.tensordot(k / within, strata.outer, 1)
        scale = 1 / np.sqrt(information.diagonal())
        inverse = np.linalg.inv(information * scale * scale[:, None])
        return standard_errors(inverse * scale * scale[:, None])

    return PlannedErrors(
        none if not half else errors(np.full(len(noise), half), half),
        errors(noise, 0.0),
        none if not half else errors(noise + half, half),
    )
