"""The plan of yes or no, of counts, and of pure laws: what errors to expect from a public guess.

Fisher scoring at one mean for all rows, v the variance of a reading there and a the release noise:

    binomial, poisson    cov θ̂ = (v + a)/v² · (HᵀH)⁻¹ ,   1/v · (HᵀH)⁻¹ without privacy
    numbers, Laplace     cov θ̂ = (σ² + a) · (HᵀH)⁻¹ ,   a = 2/s
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from privest.arrays import Array, as_number
from privest.bounds import classical_bound
from privest.data import meant
from privest.errors import InvalidInput
from privest.estimator.inference import coin_rows
from privest.model import LinearModel
from privest.records import standard_errors
from privest.workflow._column import Column
from privest.workflow._laws import LawOffer, offers
from privest.workflow._planning import CURVE, Plan

PROMISE = 50.0  # beyond this ε nothing is promised, and laws need not be compared


@dataclass(frozen=True, eq=False, kw_only=True)
class LawPlan(Plan):
    """What is known before a release whose readings, or whose noise, are not Gaussian.

    guess   public: the share of yes, or the mean count; None where errors do not depend on it.
    stated  whether somebody stated it, or it is what is taken otherwise.
    """

    guess: float | None
    stated: bool

    DERIVED: ClassVar[tuple[str, ...]] = (
        "epsilon", "standard_error", "classical_error", "reading_error", "usefulness",
        "effective_share", "clipping",
    )  # fmt: skip

    @property
    def _shape(self) -> Array:
        """√diag (HᵀH)⁻¹."""
        return standard_errors(classical_bound(LinearModel(self.triangle, 1.0, names=self.names)))

    def _spreads(self, column: Column) -> tuple[float | None, float]:
        """Variances that go with (HᵀH)⁻¹: without privacy (None: not known), and with it."""
        added, family = column.added(simulated=False), self.spec.family
        limits, variance = column.limits, column.noise_variance
        if family != "gaussian":
            assert self.guess is not None
            width = limits.width if family == "binomial" and limits is not None else 1.0
            own = self.guess * (1 - self.guess) if family == "binomial" else self.guess
            return 1 / own, (own + added / width**2) / own**2
        return variance, (variance or 0.0) + added

    @property
    def classical_error(self) -> Array:
        """Standard errors without privacy; NaN where nobody knows them beforehand."""
        spread = self._spreads(self.column)[0]
        return self._shape * (math.nan if spread is None else math.sqrt(spread))

    @property
    def standard_error(self) -> Array:
        """Standard errors at the plan's level."""
        return self.errors_at(self.level)

    @property
    def attained_error(self) -> Array:
        """The same: what a range clips is not undone here."""
        return self.standard_error

    @property
    def privacy_share(self) -> float:
        """The part of the variance that privacy costs; NaN where it is not known."""
        open_, private = self._spreads(self.column)
        return math.nan if open_ is None else 1 - open_ / private

    def errors_at(self, level: float) -> Array:
        """Standard errors at another level."""
        return self._shape * math.sqrt(self._spreads(replace(self.column, level=float(level)))[1])

    def curve(self) -> tuple[Array, Array]:
        """Levels around the chosen one, and the standard errors (levels, n) there."""
        low, high, count = CURVE
        levels = self.level * np.geomspace(low, high, int(count))
        return levels, np.array([self.errors_at(float(level)) for level in levels])

    @property
    def usefulness(self) -> float | None:
        """K(1 − 2q)² of coins: from some 200 on a logistic fit is of use. None for others."""
        if self.column.law != "coin":
            return None
        assert self.epsilon is not None
        return coin_rows(self.epsilon, 0.5, self.rows)[0]

    @property
    def effective_share(self) -> float | None:
        """How many rows without privacy a row is worth; None where that is not known."""
        open_, private = self._spreads(self.column)
        return None if open_ is None else open_ / private


def offered(plan: Plan) -> tuple[LawOffer, ...]:
    """What each law would cost at the ε that is asked for; () where it is none, or coins."""
    stated = plan.spec.privacy
    if stated.epsilon is None or len(plan.columns) > 1 or plan.people is not None:
        return ()
    if plan.spec.family != "gaussian" or plan.move is None or stated.epsilon > PROMISE:
        return ()
    return offers(stated.epsilon, stated.delta)


def law_plan(plan: Plan, expected: Mapping[str, float] | None) -> LawPlan:
    """The plan with what is expected of its readings, which the target's name stands for."""
    guess, stated = _guess(plan, dict(expected or {}))
    known = {one.name: getattr(plan, one.name) for one in fields(Plan)}
    found = LawPlan(**known, guess=guess, stated=stated)
    errors = found.standard_error
    if not (np.isfinite(errors).all() and (errors > 0).all()):
        raise InvalidInput(
            f"privacy: at the level {plan.level:g} the standard errors are too large or too small "
            "for numbers. State another."
        )
    return found


def _guess(plan: Plan, expected: dict[str, float]) -> tuple[float | None, bool]:
    column, family = plan.column, plan.spec.family
    needed = family != "gaussian"
    for name in expected:
        if name != column.target or not needed:
            raise InvalidInput(
                f"--expect {name}: here it says what is expected of the target, "
                f"{column.target}=0.2, say.{meant(name, (column.target,))}"
                if needed
                else f"--expect {name}: nothing depends on it at law {column.law}."
            )
    if not needed:
        return None, False
    low, high = (0.0, math.inf) if family == "poisson" else (0.0, 1.0)
    middle = 1.0 if family == "poisson" else 0.5
    guess = as_number(expected.get(column.target, middle), f"what is expected of {column.target!r}")
    if not low < guess < high:
        raise InvalidInput(
            f"--expect {column.target}={guess:g}: it lies between {low:g} and {high:g}."
        )
    return guess, bool(expected)
