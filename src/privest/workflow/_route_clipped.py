"""What clipping at a range does to an estimate, and undoing it where it matters.

The ordinary estimate (least squares) is made first. At its fit the mean of clipped readings is off
by E clip(y_k) − h_kθ̂, and least squares of that on H is what clipping does to θ̂. Below a twentieth
of a standard error in every coefficient it is left alone: t, HC3 and CR2 hold. Otherwise θ and σ²
are fitted by the likelihood of clipped readings. Where all readings may lie beyond one end there is
no finite interval, and none is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.estimator import ClippedResult, ClippedRows, Result, estimate_clipped
from privest.estimator._beyond_range import LAPLACE_SQUARES, NORMAL_SQUARES, EndTest, reaches
from privest.estimator._clipped_unknown import VarianceHidden
from privest.estimator.inference import stated_p
from privest.estimator.likelihood._clipped_information import clipped_moments
from privest.privacy import Range
from privest.workflow._estimate import Estimate
from privest.workflow._header import ReleasedRows, TableRelease
from privest.workflow._modelled import row_ends
from privest.workflow._original_units import SMALL
from privest.workflow._route_rows import added_at, added_of, freedom_of, new_sums_of

Clipped = tuple[float, float] | tuple[Array, Array]

LARGE = 1.0  # standard errors: with a bias beyond it an interval says nothing


def undo_clipping(found: Estimate, limits: Range, errors: str = "auto") -> Estimate:
    """The ordinary estimate `found` of a release that clipped at a range, or a better one.

    errors "stated": σ² is that of the header, where it has one; else it is estimated with θ, and a
    reference set counts beside the release. The likelihood is that of Gaussian noise and of rows
    that are independent, one reading a person, without survey weights: elsewhere, and where the
    release does not tell σ², the ordinary estimate is returned with its bias (`range_sentence`);
    without intervals where σ² is hidden and the bias a standard error or more, by the fit.
    """
    bias, share = clipping_bias(found, limits)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.nan_to_num(np.abs(bias) / found.standard_error, nan=0.0)
    worst = float(off.max())
    plain = replace(found, clipped=share, clipping_bias=worst)
    if worst < SMALL:
        return plain
    side = _all_beyond(found, limits)
    if side is not None:
        why = "all readings may lie beyond the range"
        return replace(_unbounded(plain, why), clipped=None, beyond=side)
    if not _likelihood_holds(found):
        return _left_biased(plain)
    stated = errors == "stated" and found.release.noise_variance is not None
    try:
        fit = _fitted(found, limits, known=stated)
    except VarianceHidden:
        if found.release.noise_variance is None:
            hidden = "the release does not tell the noise variance"
            return _left_biased(plain) if worst < LARGE else _unbounded(plain, hidden)
        fit, stated = _fitted(found, limits, known=True), True
    return _of_likelihood(plain, fit, stated=stated)


def _ends_of(release: TableRelease, limits: Range) -> Callable[[ReleasedRows], Clipped]:
    """The readings at which some rows were clipped: all at the same, or each at its own."""
    if release.column.levels is None:
        same = row_ends(np.array([release.level]), limits)
        ends = float(same[0][0]), float(same[1][0])
        return lambda part: ends
    return lambda part: row_ends(np.asarray(part.levels), limits)


def _all_beyond(found: Estimate, limits: Range) -> str | None:
    """Where all readings may lie: "below" or "above"; None: not all do, or nobody can tell."""
    release, ends = found.release, _ends_of(found.release, limits)
    laplace = str(release.column.law) == "laplace"
    test = EndTest(LAPLACE_SQUARES if laplace else NORMAL_SQUARES)
    for part in release.shown_blocks():
        test.add(part.z[:, 0], added_at(release, part), *ends(part))
    side = test.side()
    reached = side is not None and reaches(lambda: (part.H for part in release.shown_blocks()))
    return side if reached else None


def _left_biased(plain: Estimate) -> Estimate:
    """Least squares as it is; what clipped readings scatter is not σ², and is not said to be."""
    return replace(plain, noise_found=None, noise_interval=None, misfit=None, misfit_p=None)


def _unbounded(plain: Estimate, why: str) -> Estimate:
    """Least squares of what was clipped, with errors that say that it tells nothing."""
    n = len(plain.names)
    return replace(
        _left_biased(plain),
        covariance=np.diag(np.full(n, np.inf)),
        sampling=None,
        classical=None,
        bound=None,
        degrees_of_freedom=None,
        floor=None if plain.floor is None else np.full(n, np.inf),
        method=f"none, {why}",
        trail=None,
    )


def _likelihood_holds(found: Estimate) -> bool:
    """Whether the likelihood of clipped rows is that of the release."""
    release = found.release
    alone = release.people is None and release.weights is None
    return str(release.column.law) == "gaussian" and alone


def clipping_bias(found: Estimate, limits: Range) -> tuple[Array, float]:
    """What clipping does to the coefficients of least squares, and the share that is clipped.

    By the fit, with σ² one deviation above what the release shows; of rows with levels of their
    own by their weights. Cost: one pass, and another where σ² was not looked for.
    """
    release, ends = found.release, _ends_of(found.release, limits)
    variance = _variance(found)
    sigma = math.sqrt(variance)
    sums, share, rows = new_sums_of(release), 0.0, 0
    for part in release.shown_blocks():
        outside, shift, _ = clipped_moments(part.H @ found.estimate, sigma, *ends(part))
        moved = np.column_stack([part.H, shift])
        if part.levels is not None:
            moved /= np.sqrt(variance + added_at(release, part))[:, None]
        sums.add(np.asfortranarray(moved))
        share, rows = share + float(outside.sum()), rows + len(part)
    return sums.solution(), share / rows


def _variance(found: Estimate) -> float:
    """σ² to the safe side: the larger of what is stated and what the release shows."""
    release, added = found.release, added_of(found.release)
    freedom = max(found.rows - len(found.names), 1)
    shown = found.noise_found
    if release.column.levels is not None:
        assert shown is not None  # the route of levels looks for it
        upper = shown if found.noise_interval is None else found.noise_interval[1]
        return max((shown + upper) / 2, release.noise_variance or 0.0)
    if shown is None:
        squares = sum(
            float(np.square(part.z[:, 0] - part.H @ found.estimate).sum())
            for part in release.blocks()
        )
        shown = max(squares / freedom - added, 0.0)
    shown += math.sqrt(2 / freedom) * (shown + added)
    return max(shown, release.noise_variance or 0.0)


def _fitted(found: Estimate, limits: Range, *, known: bool) -> ClippedResult:
    """θ̂ by the likelihood of clipped readings."""
    release, variance = found.release, found.release.noise_variance
    freedom, ends = freedom_of(release), _ends_of(found.release, limits)

    def blocks() -> Iterator[ClippedRows]:
        for part in release.shown_blocks():
            size = 1.0 if variance is None or not known else variance
            level = release.level if part.levels is None else part.levels
            yield ClippedRows(part.H, part.z[:, 0], size, level, *ends(part))

    return estimate_clipped(
        blocks,
        noise_variance=release.unit_variance,
        reference=freedom,
        names=release.names,
        simulated=release.simulated,
        variance_known=known,
        reference_variance=None if freedom is None else variance,
    )


def _of_likelihood(plain: Estimate, fit: ClippedResult, *, stated: bool) -> Estimate:
    """The estimate with what the likelihood found in place of least squares."""
    known = {field.name: getattr(fit, field.name) for field in fields(Result)}
    return replace(
        plain,
        **known,
        **_misfit(plain, fit, stated=stated),
        trail=None,
        clipped=fit.clipped,
        likelihood=fit,
        noise_found=fit.noise_variance,
        noise_interval=fit.noise_interval(),
    )


def _misfit(plain: Estimate, fit: ClippedResult, *, stated: bool) -> dict[str, Any]:
    """Whether σ² as the header states it is the one that the release shows.

    Where σ² was fitted: σ̂² + 1/s against σ² + 1/s, by a χ² with the degrees of freedom that the
    error of σ̂² gives it; not for a reference set, which the fit has used.
    """
    freedom, variance = fit.readings - len(fit.names), plain.release.noise_variance
    if stated and freedom > 0:
        return {"misfit": fit.misfit, "misfit_p": stated_p(fit.misfit * freedom, freedom, 1.0)}
    if variance is None or plain.reference_rows is not None or not fit.noise_error:
        return {"misfit": None, "misfit_p": None}
    assert fit.noise_variance is not None
    assert fit.added is not None
    total, expected = fit.noise_variance + fit.added, variance + fit.added
    own = max(round(2 * (total / fit.noise_error) ** 2), 1)
    return {"misfit": total / expected, "misfit_p": stated_p(own * total, own, expected)}
