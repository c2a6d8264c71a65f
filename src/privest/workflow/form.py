"""Forms of a release: what leaves, which errors it will have, and how it is estimated from.

There is one form, "rows": a noisy value for every row (the local model). `Terms.form` chooses it by
`Privacy.form`; plan, release and estimate call nothing of a form but the methods of `Form`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.ledger import Cost, cost_of
from privest.mechanism.source import Source
from privest.privacy import OneRecord, PrivacyLevel
from privest.records import standard_errors
from privest.workflow.rows import ADDED, Leaving, Survey, survey
from privest.workflow.spec import Model, Privacy, Spec
from privest.workflow.strategies import Person
from privest.workflow.terms import DELTA, Column, Known, Terms, solve, units_of

if TYPE_CHECKING:
    from privest.workflow.document import TableRelease
    from privest.workflow.plan import Plan
    from privest.workflow.result import Estimate


ROUNDING = Fraction(1, 2**44)  # the grid reveals less by 7.6e-14, more than the split rounds


@dataclass(frozen=True, eq=False)
class PlannedErrors:
    """Standard errors of the coefficients of one column, (n,) each; NaN where unknown.

    classical   without privacy. privacy: by the privacy noise alone. total: with privacy.
    """

    classical: Array
    privacy: Array
    total: Array


class Form:
    """What a form of release supplies; `spec`, `plan` and `release` are public."""

    name: ClassVar[str]

    def survey(self, spec: Spec, data: object) -> Survey:
        """One pass over the public columns and the reference; private columns are not read."""
        raise NotImplementedError

    def solve(
        self,
        model: Model,
        privacy: Privacy,
        known: Sequence[Known],
        *,
        found: Survey | None = None,
        most: int | None = None,
    ) -> Terms | None:
        """The levels that keep the stated promise; None where they need a survey.

        known  of the residuals of each target. most: the most rows of a person, by a header.
        """
        raise NotImplementedError

    def epsilon(self, terms: Terms) -> float | None:
        """ε at the stated δ for one value, person or record; None where it is not defined."""
        raise NotImplementedError

    def information(self, terms: Terms) -> Fraction:
        """Fisher information about one value, person or record: what a budget counts."""
        raise NotImplementedError

    def cost(self, terms: Terms) -> Cost:
        """What a ledger charges for one value, person or record."""
        raise NotImplementedError

    def errors(self, plan: Plan, column: Column, level: float | None) -> PlannedErrors:
        """Standard errors to expect of a column at its level, or at another one."""
        raise NotImplementedError

    def leaving(self, plan: Plan, noise: Source, data: object) -> Leaving:
        """What leaves, block by block: the only reader of private columns."""
        raise NotImplementedError

    def table_columns(self, release: TableRelease) -> tuple[str, ...]:
        """The columns of the table, in the order in which they leave."""
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

    def solve(
        self,
        model: Model,
        privacy: Privacy,
        known: Sequence[Known],
        *,
        found: Survey | None = None,
        most: int | None = None,
    ) -> Terms | None:
        if found is None:
            counted = model.person is not None and most is None
            if privacy.standard_error or privacy.level_column or counted:
                return None
            return solve(model, privacy, known, most=most)
        largest = None if found.levels is None else found.levels.largest
        shape, most = inverse_of(found.triangle), found.most_rows(model)
        return solve(model, privacy, known, most=most, shape=shape, largest=largest)

    def epsilon(self, terms: Terms) -> float | None:
        record, delta = terms.record, terms.privacy.delta
        if record is None or (delta is None and not terms.distribution.pure):
            return None
        return terms.unit.epsilon(terms.distribution, record, delta, enforced=terms.enforced)

    def information(self, terms: Terms) -> Fraction:
        """Of several columns in units of each: Σ_j u_j²·s_j."""
        if len(terms.columns) == 1:
            return Fraction(terms.column.level)
        units = units_of(terms.model, terms.privacy)
        parts = [Fraction(c.level) * Fraction(u) ** 2 for c, u in zip(terms.columns, units)]
        return sum(parts, Fraction(0)) * (1 - ROUNDING)

    def cost(self, terms: Terms) -> Cost:
        record, unit = terms.record, terms.unit
        if isinstance(unit, Person) or len(terms.columns) > 1:
            if record is None:
                return Cost(terms.information)
            if isinstance(unit, Person):
                delta = terms.privacy.delta or DELTA
                said = unit.statement(record, delta, enforced=terms.enforced)
                mu2 = said.squared_steps * Fraction(GRID) ** 2
                return Cost(terms.column.level, mu2=mu2, rho=said.rho, move=said.about)
            levels, moves = zip(*record, strict=True)
            made = cost_of(PrivacyLevel(list(levels)), move=OneRecord(moves))
            return replace(made, information=terms.information)
        column = terms.column
        law = terms.distribution.law(column.level, terms.limits(column))
        return cost_of(column.level, move=terms.sensitivity(column), law=law)

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

    def leaving(self, plan: Plan, noise: Source, data: object) -> Leaving:
        return Leaving(plan.spec, plan, plan.found, noise, plan.data if data is None else data)

    def table_columns(self, release: TableRelease) -> tuple[str, ...]:
        z = (release.z_name(one) for one in release.columns)
        return (*release.features, *release.beside, *z)

    def estimate(self, release: TableRelease, errors: str) -> Estimate:
        from privest.workflow.estimate import fit_of

        return fit_of(release).estimate(release, errors)


FORMS: dict[str, Form] = {one.name: one for one in (Rows(),)}


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
