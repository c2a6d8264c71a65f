"""Which errors are taken where nobody says: those that cover at this number of rows."""

from __future__ import annotations

from privest.arrays import Array, as_choice
from privest.estimator.inference._errors import Errors
from privest.estimator.inference._sandwich import (
    POWERS,
    Rows,
    SecondPass,
    row_clusters,
    sandwich_errors,
    second_pass,
)
from privest.estimator.inference._unknown import Scatter, unknown_errors

CHOICES = ("auto", "t", "HC3", "HC2", "stated", "huber")
ENOUGH = 25  # degrees of freedom from which HC3 covers; below it t is exact for equal variances


def row_errors(
    how: str, estimate: Array, inverse: Array, rows: Rows, scatter: Scatter | None = None
) -> tuple[Errors, SecondPass | None]:
    """Errors of weighted least squares on independent rows, A = (HᵀWH)⁻¹ = `inverse`.

    "auto" is HC3, which holds whatever the variances of the rows are. scatter: of least squares
    without weights at one level, where Student's t is exact if the variances are equal: then it is
    taken below 25 degrees of freedom, and where a row stands alone. Elsewhere such a row has its
    coefficients refused (NaN). Also returned is what the second look at the rows saw.
    """
    as_choice(how, ("auto", *(("t",) if scatter else ()), *POWERS), "errors")
    if scatter and (how == "t" or (how == "auto" and scatter.freedom < ENOUGH)):
        return unknown_errors(inverse, scatter), None
    kind = "HC3" if how == "auto" else how
    seen = second_pass(rows(), estimate, inverse, kind)
    if how == "auto" and seen.alone:
        if scatter:
            return unknown_errors(inverse, scatter), seen
        found = row_clusters(rows(), estimate, inverse)
        freedom = found.degrees_of_freedom
        return Errors.above(seen.known, found.covariance, freedom, "HC2, Bell-McCaffrey"), seen
    return sandwich_errors(kind, inverse, seen, rows), seen
