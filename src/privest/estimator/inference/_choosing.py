"""Which errors are taken where nobody says: those that cover at this number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from privest.arrays import Array, as_choice
from privest.estimator.inference._errors import Errors
from privest.estimator.inference._row_freedom import row_freedom
from privest.estimator.inference._sandwich import (
    POWERS,
    SecondPass,
    WeightedRows,
    row_clusters,
    sandwich_errors,
    second_pass,
    without_noise,
)
from privest.estimator.inference._unknown import Scatter, unknown_errors

CHOICES = ("auto", "t", "HC3", "HC2", "stated", "huber")
ENOUGH = 25  # degrees of freedom from which HC3 covers: .938 to .949; below it t is exact
# Rows that must decide a coefficient for HC3 to cover as much. Of a category that m of many rows
# have HC3 is m/(m − 1) times the mean square of its readings: it covers P(|t_{m−1}| < 1.96√(m/(m −
# 1))): .78 at m = 2, .91 at 6, .938 from 15 on.
DECIDED = 15
BELL = "HC2, Bell-McCaffrey"
Rows = Callable[[], Iterable[WeightedRows]]


def row_errors(
    how: str, estimate: Array, inverse: Array, scatter: Scatter, rows: Rows
) -> tuple[Errors, SecondPass | None]:
    """Errors of least squares on independent rows at one level, σ² unknown.

    "auto" is HC3 from 25 degrees of freedom on, which holds whatever the variances of the rows are,
    and exact t below; also where a row stands alone and HC3 does not exist. Where few rows decide a
    coefficient (a category with two) HC3 with t_f would cover .8: HC2 with the degrees of freedom
    of Bell and McCaffrey. `rows` gives the rows again, for leverages; also returned is what that
    second look saw, where there was one.
    """
    as_choice(how, ("auto", "t", *POWERS), "errors")
    if how == "t" or (how == "auto" and scatter.freedom < ENOUGH):
        return unknown_errors(inverse, scatter), None
    kind = "HC3" if how == "auto" else how
    seen = second_pass(rows(), estimate, inverse, (kind,))
    if how == "auto" and seen.alone:
        return unknown_errors(inverse, scatter), seen
    if how == "auto" and few_decide(seen):
        return bell_mccaffrey(estimate, inverse, rows, scatter.added), seen
    return sandwich_errors(kind, inverse, seen, scatter.added), seen


def survey_errors(
    how: str, estimate: Array, inverse: Array, scatter: Scatter, rows: Rows
) -> Errors:
    """Errors of weighted least squares with survey weights, A = (HᵀWH)⁻¹ = `inverse`.

    Always a sandwich: HC3 from 25 degrees of freedom on, HC2 with those of Bell and McCaffrey
    below, where few rows decide a coefficient and where a row stands alone. `scatter`: of least
    squares without weights, for σ̂².
    """
    as_choice(how, ("auto", *POWERS), "errors")
    kind = "HC3" if how == "auto" else how
    seen = second_pass(rows(), estimate, inverse, (kind,))
    if how == "auto" and seen.alone:
        return _with_some_refused(estimate, inverse, seen, rows, scatter.added)
    if how == "auto" and (scatter.freedom < ENOUGH or few_decide(seen)):
        return bell_mccaffrey(estimate, inverse, rows, scatter.added, survey=True)
    return sandwich_errors(kind, inverse, seen, scatter.added, survey=True)


def few_decide(seen: SecondPass) -> bool:
    """Whether some coefficient is decided by so few rows that HC3 with t_f does not cover."""
    return bool((seen.deciding < DECIDED).any())


def bell_mccaffrey(
    estimate: Array, inverse: Array, rows: Rows, added: float, *, survey: bool = False
) -> Errors:
    """HC2 with Student's t of Bell and McCaffrey's degrees of freedom, one a coefficient.

    Two more passes. Coverage of 95 % for a category that m of 200 rows have: .985 (m = 2), .959
    (3), .948 (6); of a slope with strongly unequal noise, K = 30: .93 to .95.
    """
    seen = second_pass(rows(), estimate, inverse, ("HC2",))
    found = sandwich_errors("HC2", inverse, seen, added, survey=survey)
    return replace(
        found,
        degrees_of_freedom=row_freedom(rows(), inverse),
        method=f"{BELL}, survey weights" if survey else BELL,
    )


def where_few_decide(found: Errors, inverse: Array, rows: Rows) -> Errors:
    """`found`, HC3 of a family, or HC2 with Bell-McCaffrey's t where few rows decide a coefficient.

    rows  whitened: hμ'/√V and the residuals (z − μ)/√V, so that `inverse` is (Σwμ'²/V·hhᵀ)⁻¹.
    """
    none = np.zeros(len(inverse))
    seen = second_pass(rows(), none, inverse, ("HC2",))
    if not few_decide(seen):
        return found
    return replace(
        found,
        covariance=inverse @ seen.meat["HC2"] @ inverse,
        degrees_of_freedom=row_freedom(rows(), inverse),
        method=BELL,
    )


def _with_some_refused(
    estimate: Array, inverse: Array, seen: SecondPass, rows: Rows, added: float
) -> Errors:
    """The same where a row stands alone: its coefficients are NaN, and only they."""
    found = row_clusters(rows(), estimate, inverse)
    known = inverse @ seen.weighted @ inverse
    own = None
    if not found.refused.any():
        own = without_noise(found.covariance, known, added)
    return Errors(
        covariance=found.covariance,
        degrees_of_freedom=found.degrees_of_freedom,
        floor=np.sqrt(added * np.diagonal(known)),
        sampling=own,
        classical=own,
        method=f"{BELL}, survey weights",
    )
