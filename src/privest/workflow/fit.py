"""Fits of independent rows: least squares, survey weights, levels by row, likelihoods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privest.arrays import Array, as_choice
from privest.errors import InvalidInput
from privest.estimator import pooled_variance
from privest.estimator.inference import (
    CHOICES,
    ENOUGH,
    Errors,
    Prepared,
    Scatter,
    SecondPass,
    WeightedRows,
    fit_family,
    fit_huber,
    fit_levels,
    less_noise_p,
    misfit_p,
    prepared,
    reference_p,
    row_errors,
    second_pass,
    stated_errors,
    stated_p,
)
from privest.linalg import RunningLeastSquares, tall_triangle
from privest.linalg.tolerances import rank_tolerance
from privest.workflow.document import ReleasedRows, TableRelease
from privest.workflow.result import STATED, TableEstimate

EQUAL_VARIANCES = (
    "Student's t assumes one residual variance for all rows, and few rows cannot show it. Errors "
    "'HC3' do not assume it; with few rows their intervals are wider."
)


def estimate_rows(release: TableRelease, how: str = "auto") -> TableEstimate:
    """Least squares, with errors "auto", "t", "HC3", "HC2" or "stated"; or Huber's estimate.

    auto: HC3 from 25 degrees of freedom on, Student's t below (pooled with a reference set).
    """
    as_choice(how, CHOICES, "errors")
    first = first_pass(release)
    if how == "huber":
        return _estimate_huber(release, first)
    errors, seen = _errors(release, first, how)
    more = said_of_noise(release, first, seen)
    if how == "auto" and errors.method.startswith("Student"):
        more |= {"cautions": (EQUAL_VARIANCES,)}
    if errors.method in STATED and errors.sampling is not None:  # Gaussian and known: the floor
        more |= {"bound": errors.sampling + first.inverse / release.column.level}
    return estimated(release, first.value, errors, **more)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """θ̂, A = (HᵀH)⁻¹ and the residuals; `scatter` None: as many coefficients as rows."""

    value: Array
    inverse: Array
    scatter: Scatter | None


def first_pass(release: TableRelease, *, weighted: bool = False) -> FirstPass:
    sums, n, rows = new_sums_of(release), len(release.names), 0
    for part in release.blocks():
        root = np.sqrt(part.weights) if weighted and part.weights is not None else 1.0
        sums.add(tall_triangle(part.H, part.z[:, 0], root, root, 0.0))
        rows += len(part)
    require_rows(release, rows)
    sums.require_full(release.names, str(release.path), rows)
    scatter = Scatter(sums.misfit, rows - n, added_of(release)) if rows > n else None
    return FirstPass(sums.solution(), sums.inverse(), scatter)


def _errors(release: TableRelease, first: FirstPass, how: str) -> tuple[Errors, SecondPass | None]:
    scatter = first.scatter
    few = scatter is None or scatter.freedom < ENOUGH
    pooled = few and release.column.reference_rows is not None
    bare = scatter is None and release.column.residual_variance is not None
    if how == "stated" or (how == "auto" and (bare or pooled)):
        return _stated(release, first), None
    if scatter is None:
        raise too_few(release)
    errors, seen = row_errors(how, first.value, first.inverse, lambda: plain_rows(release), scatter)
    errors = replace(errors, classical=_without_privacy(release, first, scatter))
    if seen is None and states_variance(release):
        seen = second_pass(plain_rows(release), first.value, first.inverse)
    return errors, seen


def _without_privacy(release: TableRelease, first: FirstPass, scatter: Scatter) -> Array | None:
    """σ²(HᵀH)⁻¹, σ² as stated or shown; None where the release does not tell σ² from 0."""
    variance, interval = release.column.residual_variance, scatter.noise_interval()
    if variance is None and interval is not None and interval[0] > 0:
        variance = scatter.noise_variance
    return None if variance is None else variance * first.inverse


def _estimate_huber(release: TableRelease, first: FirstPass) -> TableEstimate:
    scatter = first.scatter
    if scatter is None:
        raise too_few(release)
    found = fit_huber(lambda: plain_rows(release), first.value, first.inverse, scatter.added)
    remark = found.remark(scatter.noise_variance, scatter.added)
    more = said_of_noise(release, first, None) | {"remark": remark}
    return estimated(release, found.value, found.errors, **more)


def plain_rows(release: TableRelease) -> Iterator[WeightedRows]:
    added = added_of(release)
    return (WeightedRows(part.H, part.z[:, 0], 1.0, added) for part in release.blocks())


def states_variance(release: TableRelease) -> bool:
    """Whether σ² is stated, and not from a reference, whose own few rows would have to count."""
    return release.column.residual_variance is not None and release.column.reference_rows is None


def too_few(release: TableRelease) -> InvalidInput:
    stated = states_variance(release)
    instead = "Take errors 'stated', by the stated residual variance, or ask" if stated else "Ask"
    return InvalidInput(
        f"{release.path}: as many coefficients as rows: nothing is left over to see the noise by. "
        f"{instead} for a release with more rows or fewer features."
    )


def _stated(release: TableRelease, first: FirstPass) -> Errors:
    variance, added = release.column.residual_variance, added_of(release)
    if variance is None:
        raise InvalidInput(
            f"{release.path}: the header states no residual variance for errors 'stated'. "
            "Errors 'auto' come from the release itself, which needs more rows than coefficients."
        )
    reference = freedom_of(release)
    if reference is None:
        return stated_errors(first.inverse, variance, added)
    scatter = first.scatter
    squares, left = (0.0, 0) if scatter is None else (scatter.squares, scatter.freedom)
    variance, freedom = pooled_variance(variance, reference, squares, left, added)
    known = stated_errors(first.inverse, variance, added).fields()
    known |= {"degrees_of_freedom": freedom, "method": "reference set and release pooled"}
    return Errors(**known)


def said_of_noise(
    release: TableRelease, first: FirstPass, seen: SecondPass | None
) -> dict[str, Any]:
    scatter, variance = first.scatter, release.column.residual_variance
    if scatter is None:
        return {"misfit": None}
    squares, freedom, added = scatter.squares, scatter.freedom, scatter.added
    found: dict[str, Any] = {"misfit": None}
    if variance is not None:
        total, reference = variance + added, freedom_of(release)
        if reference is not None:
            chance = reference_p(squares, freedom, variance, reference, added)
        elif seen is None:
            chance = stated_p(squares, freedom, total)
        else:  # by Σe², Σe⁴ heavy tails are told from a wrong σ²
            chance = misfit_p(squares, freedom, total, seen.moments, release.rows)
        found = {"misfit": scatter.total / total, "misfit_p": chance}
    if not release.distribution.normal:  # the intervals of σ² are those of Gaussian noise
        return found
    return found | {
        "less_noise_p": less_noise_p(squares, freedom, added),
        "noise_found": scatter.noise_variance,
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
    return release.distribution.variance(
        column.level, release.limits(column), simulated=release.simulated
    )


def added_at(release: TableRelease, part: ReleasedRows) -> Array:
    if part.levels is None:
        return np.full(len(part), added_of(release))
    return added_of(release) * release.column.level / part.levels


def freedom_of(release: TableRelease) -> int | None:
    if release.column.reference_rows is None:
        return None
    return max(release.column.reference_rows - len(release.names), 1)


def require_rows(release: TableRelease, rows: int) -> None:
    if rows != release.rows:
        raise InvalidInput(
            f"{release.path} has {rows} rows, its header says {release.rows}: one was changed."
        )


# --- survey weights ---


def estimate_weighted(release: TableRelease, how: str = "auto") -> TableEstimate:
    """θ̂ = (HᵀWH)⁻¹HᵀWz with a sandwich (HC3), W the survey weights, a public column."""
    first, added = first_pass(release), added_of(release)
    if first.scatter is None:
        raise too_few(release)
    more = said_of_noise(release, first, None) | {"misfit": None, "misfit_p": None}
    own = first_pass(release, weighted=True)

    def weighted() -> Iterator[WeightedRows]:
        for part in release.blocks():
            assert part.weights is not None
            yield WeightedRows(part.H, part.z[:, 0], part.weights, added)

    errors, _ = row_errors(how, own.value, own.inverse, weighted)
    errors = replace(errors, method=f"{errors.method}, survey weights")
    return estimated(release, own.value, errors, **more)


# --- level columns ---


Rows = Callable[[], Iterator[WeightedRows]]


def estimate_levels(release: TableRelease, how: str = "auto") -> TableEstimate:
    """Weighted least squares at the levels of the rows; `how`: "auto", or "stated".

    auto    σ² by restricted maximum likelihood, errors of Knapp and Hartung, never below those of
            the known noise, with Satterthwaite's degrees of freedom (`fit_levels`).
    stated  σ² of the header: errors are the bound.
    """
    as_choice(how, ("auto", "stated"), "errors")
    n = len(release.names)
    inverse, rows = _looked_at(release)

    def shown() -> Iterator[WeightedRows]:
        for part in release.shown_blocks():
            yield WeightedRows(part.H, part.z[:, 0], added=added_at(release, part))

    if rows <= n:
        raise too_few(release)
    first = prepared(shown, n)
    found = fit_levels(shown, n)
    more = _levels_misfit(release, first, shown) | {
        "noise_found": found.noise_variance,
        "noise_interval": found.noise_interval,
        "less_noise_p": less_noise_p(found.least_noise, found.freedom, 1.0),
    }
    if how == "stated":
        return estimated(release, *_stated_levels(release, first, inverse), **more)
    errors = replace(found.errors, classical=found.noise_variance * inverse)
    return estimated(release, found.value, errors, **more)


def _looked_at(release: TableRelease) -> tuple[Array, int]:
    every, own, rows, shown = new_sums_of(release), new_sums_of(release), 0, 0
    for part in release.blocks():
        every.add_matrix(part.H)
        rows += len(part)
        seen = part.shown
        shown += len(seen)
        if len(seen):
            own.add(tall_triangle(seen.H, seen.z[:, 0], 1.0, 1.0, 0.0))
    require_rows(release, rows)
    own.require_full(release.names, str(release.path), shown)
    return every.inverse(), shown


def _stated_levels(release: TableRelease, first: Prepared, inverse: Array) -> tuple[Array, Errors]:
    """θ̂ and its errors by the noise variance of the header, which is taken to be right."""
    variance = release.column.residual_variance
    if variance is None or not states_variance(release):
        raise InvalidInput(
            f"{release.path}: its rows have levels of their own, and its header has no residual "
            "variance that is known (a reference set knows it to its few rows only). Errors 'auto' "
            "come from the release itself."
        )
    sums, scale = first.sums(np.array([variance])), first.scale
    errors = Errors(
        covariance=scale @ sums.inverse[0] @ scale.T,
        degrees_of_freedom=None,
        floor=None,
        sampling=variance * scale @ sums.spread[0] @ scale.T,
        classical=variance * inverse,
        method=STATED[0],
    )
    return first.start + scale @ sums.shift[0], errors


def _levels_misfit(release: TableRelease, first: Prepared, shown: Rows) -> dict[str, Any]:
    """Whether the release scatters as a stated σ² and the levels say, heavy tails apart."""
    variance = release.column.residual_variance
    if variance is None or not states_variance(release):
        return {"misfit": None}
    sums = first.sums(np.array([variance]))
    theta, quadratic = first.start + first.scale @ sums.shift[0], float(sums.quadratic[0])
    moments = np.zeros(2)
    for part in shown():
        square = np.square(part.z - part.H @ theta) / (variance + part.added)
        moments += [square.sum(), square @ square]
    chance = misfit_p(
        quadratic, first.freedom, 1.0, (float(moments[0]), float(moments[1])), first.rows
    )
    return {"misfit": quadratic / first.freedom, "misfit_p": chance}


# --- yes/no and counts ---


HOW = {"model": "model", "auto": None, "hc3": "HC3"}


def estimate_family(release: TableRelease, errors: str = "auto") -> TableEstimate:
    """Logistic or Poisson regression (`fit_family`), with errors "model", "HC3" or "auto".

    auto: those of the model for yes/no, HC3 for counts and with weights.
    """
    how = errors.lower()
    if how not in HOW:
        raise InvalidInput(
            f'errors of family {release.model.family} are "model" or "HC3"; received {errors!r}.'
        )
    low, width, added, limits = 0.0, 1.0, added_of(release), release.limits(release.column)
    if release.model.family == "binomial" and limits is not None:  # yes is the upper end
        low, width = limits.low, limits.width

    def rows() -> Iterator[WeightedRows]:
        for part in release.blocks():
            weight = 1.0 if part.weights is None else part.weights
            yield WeightedRows(part.H, (part.z[:, 0] - low) / width, weight)

    found = fit_family(rows, release.model.family, added / width**2, errors=HOW[how])  # type: ignore[arg-type]
    require_rows(release, found.rows)
    return estimated(release, found.value, found.errors)
