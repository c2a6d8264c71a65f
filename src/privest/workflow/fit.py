"""Fits of independent rows: least squares, survey weights, levels by row, likelihoods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privest.arrays import Array, as_choice
from privest.data.features import INTERCEPT
from privest.errors import InvalidInput
from privest.estimator import clipped_moments
from privest.estimator.inference import (
    CHOICES,
    Errors,
    Scatter,
    WeightedRows,
    fit_family,
    fit_levels,
    less_noise_p,
    row_errors,
)
from privest.linalg import RunningLeastSquares, tall_triangle
from privest.linalg.tolerances import rank_tolerance
from privest.privacy import Range
from privest.records import quantile
from privest.workflow.document import ReleasedRows, TableRelease
from privest.workflow.result import SMALL, TableEstimate

AS_CLIPPED = (
    "The intervals are for the values as clipped to the range. They do not include what clipping "
    "moved the coefficients by."
)
EQUAL_VARIANCES = (
    "Student's t assumes one residual variance for all rows, and few rows cannot show it. Errors "
    "'HC3' do not assume it; with few rows their intervals are wider."
)


def estimate_rows(release: TableRelease, how: str = "auto") -> TableEstimate:
    """Least squares, with errors "auto", "t", "HC3" or "HC2".

    auto: HC3 from 25 degrees of freedom on, Student's t below.
    """
    as_choice(how, CHOICES, "errors")
    first, added = first_pass(release), added_of(release)

    def rows() -> Iterator[WeightedRows]:
        return (WeightedRows(part.H, part.z, 1.0, added) for part in release.blocks())

    errors, _ = row_errors(how, first.value, first.inverse, rows, first.scatter)
    errors = replace(errors, classical=_without_privacy(release, first))
    more = said_of_noise(release, first.scatter)
    more |= {"r_squared": _explained(release, first, errors.covariance)}
    if how == "auto" and errors.method.startswith("Student"):
        more |= {"cautions": (EQUAL_VARIANCES,)}
    return estimated(release, first.value, errors, **more)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """θ̂, A = (HᵀH)⁻¹, R with RᵀR = HᵀH, and the residuals."""

    value: Array
    inverse: Array
    upper: Array
    scatter: Scatter


def first_pass(release: TableRelease, *, weighted: bool = False) -> FirstPass:
    sums, n, rows = new_sums_of(release), len(release.names), 0
    for part in release.blocks():
        root = np.sqrt(part.weights) if weighted and part.weights is not None else 1.0
        sums.add(tall_triangle(part.H, part.z, root, root, 0.0))
        rows += len(part)
    require_rows(release, rows)
    sums.require_full(release.names, str(release.path), rows)
    if rows <= n:
        raise too_few(release)
    scatter = Scatter(sums.misfit, rows - n, added_of(release))
    return FirstPass(sums.solution(), sums.inverse(), sums.upper, scatter)


def _without_privacy(release: TableRelease, first: FirstPass) -> Array | None:
    """σ²(HᵀH)⁻¹, σ² as stated or shown; None where the release does not tell σ² from 0."""
    variance, interval = release.column.residual_variance, first.scatter.noise_interval()
    if variance is None and interval is not None and interval[0] > 0:
        variance = first.scatter.noise_variance
    return None if variance is None else variance * first.inverse


def _explained(release: TableRelease, first: FirstPass, covariance: Array) -> float | None:
    """R², the share of the variance of y that the features explain; less what θ̂'s errors add.

    The rows of Rθ below that of the intercept, which is first, hold Σ (h_iθ − mean)². None without
    an intercept, or where the release does not tell σ² from 0.
    """
    interval = first.scatter.noise_interval()
    if release.names[0] != INTERCEPT or interval is None or not interval[0] > 0:
        return None
    rows = first.scatter.freedom + len(release.names)
    R = first.upper[1:] / math.sqrt(rows)
    share = max(0.0, float(np.sum((R @ first.value) ** 2) - np.trace(R @ covariance @ R.T)))
    return share / (share + first.scatter.noise_variance)


def too_few(release: TableRelease) -> InvalidInput:
    return InvalidInput(
        f"{release.path}: as many coefficients as rows: nothing is left over to see the noise by. "
        "Ask for a release with more rows or fewer features."
    )


def said_of_noise(release: TableRelease, scatter: Scatter) -> dict[str, Any]:
    if not release.distribution.normal:  # the intervals of σ² are those of Gaussian noise
        return {}
    return {
        "less_noise_p": less_noise_p(scatter.squares, scatter.freedom, scatter.added),
        "noise_found": scatter.noise_variance,
        "noise_freedom": scatter.noise_freedom,
        "noise_interval": scatter.noise_interval(),
    }


def estimated(release: TableRelease, estimate: Array, errors: Errors, **more: Any) -> TableEstimate:  # noqa: ANN401
    return TableEstimate(
        value=estimate, **errors.fields(), names=release.names, simulated=release.simulated,
        rows=release.rows, dropped=release.dropped, release=release, **more,
    )  # fmt: skip


# --- what routes share ----------------------------------------------------------------------------


def new_sums_of(release: TableRelease) -> RunningLeastSquares:
    n = len(release.names)
    return RunningLeastSquares(n, rank_tolerance(n))


def added_of(release: TableRelease) -> float:
    """The variance of the privacy noise on a value; of a level column on one of the largest."""
    column = release.column
    if release.drawn is None:
        return release.distribution.variance_before(column.level, release.limits(column))
    if release.privacy.level_column is not None:
        return float(release.drawn.variances(np.array([column.level]))[0])
    return release.drawn.variance


def added_at(release: TableRelease, part: ReleasedRows) -> Array:
    if part.levels is None:
        return np.full(len(part), added_of(release))
    if release.drawn is not None:
        return release.drawn.variances(part.levels)
    return added_of(release) * release.column.level / part.levels


def require_rows(release: TableRelease, rows: int) -> None:
    if rows != release.rows:
        raise InvalidInput(
            f"{release.path} has {rows} rows, its header says {release.rows}: one was changed."
        )


# --- survey weights ---


def estimate_weighted(release: TableRelease, how: str = "auto") -> TableEstimate:
    """θ̂ = (HᵀWH)⁻¹HᵀWz with a sandwich (HC3), W the survey weights, a public column."""
    first, added = first_pass(release), added_of(release)
    more = said_of_noise(release, first.scatter)
    own = first_pass(release, weighted=True)

    def weighted() -> Iterator[WeightedRows]:
        for part in release.blocks():
            assert part.weights is not None
            yield WeightedRows(part.H, part.z, part.weights, added)

    errors, _ = row_errors(how, own.value, own.inverse, weighted)
    errors = replace(errors, method=f"{errors.method}, survey weights")
    return estimated(release, own.value, errors, **more)


# --- level columns ---


def estimate_levels(release: TableRelease, how: str = "auto") -> TableEstimate:
    """Weighted least squares at the levels of the rows.

    σ² by restricted maximum likelihood, errors of Knapp and Hartung, never below those of the known
    noise, with Satterthwaite's degrees of freedom (`fit_levels`).
    """
    as_choice(how, ("auto",), "errors of a level per row (always HC3)")
    n = len(release.names)
    inverse, rows = _looked_at(release)

    def shown() -> Iterator[WeightedRows]:
        for part in release.shown_blocks():
            yield WeightedRows(part.H, part.z, added=added_at(release, part))

    if rows <= n:
        raise too_few(release)
    found = fit_levels(shown, n)
    errors = replace(found.errors, classical=found.noise_variance * inverse)
    low, high = found.noise_interval or (0.0, 0.0)
    deviation = (high - low) / (2 * quantile(found.confidence))  # of σ̂², where above 0
    freedom = 2 * (found.noise_variance / deviation) ** 2 if low > 0 else 0.0
    return estimated(
        release, found.value, errors, noise_found=found.noise_variance,
        noise_interval=found.noise_interval, noise_freedom=freedom,
        less_noise_p=less_noise_p(found.least_noise, found.freedom, 1.0),
    )  # fmt: skip


def _looked_at(release: TableRelease) -> tuple[Array, int]:
    every, own, rows, shown = new_sums_of(release), new_sums_of(release), 0, 0
    for part in release.blocks():
        every.add_matrix(part.H)
        rows += len(part)
        seen = part.shown
        shown += len(seen)
        if len(seen):
            own.add(tall_triangle(seen.H, seen.z, 1.0, 1.0, 0.0))
    require_rows(release, rows)
    own.require_full(release.names, str(release.path), shown)
    return every.inverse(), shown


# --- yes/no and counts ---


HOW: dict[str, str | None] = {"model": "model", "auto": None, "hc3": "HC3"}


def estimate_family(release: TableRelease, errors: str = "auto") -> TableEstimate:
    """Logistic or Poisson regression (`fit_family`), with errors "model", "HC3" or "auto".

    auto: those of the model for yes/no, HC3 for counts and with weights.
    """
    how = errors.lower()
    if how not in HOW:
        raise InvalidInput(
            f'errors of family {release.model.family} are "model" or "HC3"; received {errors!r}.'
        )

    def rows() -> Iterator[WeightedRows]:
        for part in release.blocks():
            weight = 1.0 if part.weights is None else part.weights
            yield WeightedRows(part.H, part.z, weight)

    found = fit_family(rows, release.model.family, added_of(release), errors=HOW[how])  # type: ignore[arg-type]
    require_rows(release, found.rows)
    return estimated(release, found.value, found.errors)


# --- a range ---


def tell_clipping(found: TableEstimate, limits: Range) -> TableEstimate:
    """The estimate with the share of its values that the range clips, and the bias of that.

    Least squares of E clip(y_k) − h_kθ̂ on H is the bias, σ² one deviation above what the release
    shows. From a twentieth of a standard error on a warning says that values are clipped.
    """
    bias, share = _clipping_bias(found, limits)
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = float(np.nan_to_num(np.abs(bias) / found.standard_error, nan=0.0).max())
    told = replace(found, clipped=share, clipping_bias=worst)
    if worst < SMALL:
        return told
    return replace(
        told, noise_found=None, noise_interval=None, cautions=(*told.cautions, AS_CLIPPED)
    )


def _clipping_bias(found: TableEstimate, limits: Range) -> tuple[Array, float]:
    release, variance = found.release, _largest_variance(found)
    sums, share, rows = new_sums_of(release), 0.0, 0
    for part in release.shown_blocks():
        eta = part.H @ found.value
        outside, shift, _ = clipped_moments(eta, math.sqrt(variance), limits.low, limits.high)
        moved = np.column_stack([part.H, shift])
        if part.levels is not None:
            moved /= np.sqrt(variance + added_at(release, part))[:, None]
        sums.add(np.asfortranarray(moved))
        share, rows = share + float(outside.sum()), rows + len(part)
    return sums.solution(), share / rows


def _largest_variance(found: TableEstimate) -> float:
    """σ² one deviation above what the release shows, and at least that of the header."""
    release, shown, added = found.release, found.noise_found, added_of(found.release)
    stated = release.column.residual_variance or 0.0
    freedom = max(found.rows - len(found.names), 1)
    if release.privacy.level_column is not None:
        assert shown is not None  # `estimate_levels` looks for it
        upper = shown if found.noise_interval is None else found.noise_interval[1]
        return max((shown + upper) / 2, stated)
    if shown is None:
        squares = sum(
            float(np.square(part.z - part.H @ found.value).sum()) for part in release.blocks()
        )
        shown = max(squares / freedom - added, 0.0)
    return max(shown + math.sqrt(2 / freedom) * (shown + added), stated)
