"""Which errors are taken where nobody says: those that cover at this number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator.inference._errors import Errors
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
Rows = Callable[[], Iterable[WeightedRows]]


def require_choice(how: str, choices: tuple[str, ...] = CHOICES) -> None:
    """Refuse a way of finding errors that does not exist, or not here."""
    if how not in choices:
        raise InvalidInput(f"errors are one of {', '.join(choices)}; received {how!r}.")


def row_errors(
    how: str, estimate: Array, inverse: Array, scatter: Scatter, rows: Rows
) -> tuple[Errors, SecondPass | None]:
    """Errors of least squares on independent rows at one level, σ² unknown.

    "auto" is HC3 from 25 degrees of freedom on, which holds whatever the variances of the rows are,
    and exact t below; also where a row stands alone and HC3 does not exist. `rows` gives the rows
    again, for leverages; also returned is what that second look saw, where there was one.
    """
    require_choice(how, ("auto", "t", *POWERS))
    if how == "t" or (how == "auto" and scatter.freedom < ENOUGH):
        return unknown_errors(inverse, scatter), None
    kind = "HC3" if how == "auto" else how
    seen = second_pass(rows(), estimate, inverse, (kind,))
    if how == "auto" and seen.alone:
        return unknown_errors(inverse, scatter), seen
    return sandwich_errors(kind, inverse, seen, scatter.added), seen


def survey_errors(
    how: str, estimate: Array, inverse: Array, scatter: Scatter, rows: Rows
) -> Errors:
    """Errors of weighted least squares with survey weights, A = (HᵀWH)⁻¹ = `inverse`.

    Always a sandwich: HC3 from 25 degrees of freedom on, HC2 with those of Bell and McCaffrey below
    and where a row stands alone. `scatter`: of least squares without weights, for σ̂².
    """
    require_choice(how, ("auto", *POWERS))
    kind = "HC3" if how == "auto" else how
    seen = second_pass(rows(), estimate, inverse, (kind,))
    if how != "auto" or (scatter.freedom >= ENOUGH and not seen.alone):
        return sandwich_errors(kind, inverse, seen, scatter.added, survey=True)
    found = row_clusters(rows(), estimate, inverse)
    known = inverse @ seen.weighted @ inverse
    own = None
    if not found.refused.any():
        own = without_noise(found.covariance, known, scatter.added)
    return Errors(
        covariance=found.covariance,
        degrees_of_freedom=found.degrees_of_freedom,
        floor=np.sqrt(scatter.added * np.diagonal(known)),
        sampling=own,
        classical=own,
        method="HC2 with Bell-McCaffrey degrees of freedom, survey weights",
    )
