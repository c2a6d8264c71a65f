"""The bias of clipping at a range, and an estimate without it where it matters.

Least squares of E clip(y_k) − h_kθ̂ on H is the bias of θ̂. From a twentieth of a standard error on,
θ and σ² are fitted by the likelihood of clipped values (normal errors, one variance). Where the
release does not determine that fit, least squares stays, with a warning. Where all values may lie
beyond one end, no interval is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator import (
    LAPLACE_SQUARES,
    NORMAL_SQUARES,
    ClippedCheck,
    ClippedResult,
    ClippedRows,
    EndTest,
    Estimate,
    clipped_moments,
    estimate_clipped,
    reaches,
)
from privest.estimator.inference import stated_p, without_noise
from privest.lattice import GRID, literal_root
from privest.mechanism import clip_of
from privest.privacy import Range
from privest.workflow.document import ReleasedRows, TableRelease
from privest.workflow.fit import added_at, added_of, freedom_of, new_sums_of
from privest.workflow.result import SMALL, TableEstimate, share_text

Clipped = tuple[float, float] | tuple[Array, Array]

CONTRADICTED = 0.01  # p-values of the check of the clipped likelihood below this are told
AS_CLIPPED = (
    "The intervals are for the values as clipped to the range. They do not include what clipping "
    "moved the coefficients by."
)


def undo_clipping(found: TableEstimate, limits: Range, errors: str = "auto") -> TableEstimate:
    """Least squares of values clipped at a range, or maximum likelihood where it matters."""
    bias, share = clipping_bias(found, limits)
    plain = replace(found, clipped=share, clipping_bias=worst_bias(bias, found.standard_error))
    if (plain.clipping_bias or 0.0) < SMALL:
        return plain
    side = _all_beyond(found, limits)
    if side is not None:
        return _unbounded(plain, side)
    if not found.release.distribution.normal or found.release.model.weights is not None:
        return _left_biased(plain)  # the likelihood of clipped rows is not that of the release
    if errors not in ("auto", "stated"):
        raise InvalidInput(
            f"{found.release.path}: the range clips so much that the estimate is maximum "
            f"likelihood of clipped values, which has no {errors!r} errors. Leave them out."
        )
    stated = errors == "stated" and found.release.column.residual_variance is not None
    try:
        fit = _fitted(found, limits, known=stated)
    except (NotIdentifiable, NumericalFailure):
        return _left_biased(plain)
    return _of_likelihood(plain, fit, stated=stated)


def worst_bias(bias: Array, errors: Array) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(np.abs(bias) / errors, nan=0.0).max())


def _row_ends(levels: Array, limits: Range) -> tuple[Array, Array]:
    """The values at which rows of these levels were clipped: multiples of the grid."""
    root = literal_root(levels)
    least, most = clip_of([root], (limits.low, limits.high))
    return least * GRID / root, most * GRID / root


def _ends_of(release: TableRelease, limits: Range) -> Callable[[ReleasedRows], Clipped]:
    """The values at which rows were clipped: all at the same, or each at its own."""
    if release.privacy.level_column is None:
        low, high = _row_ends(np.array([release.column.level]), limits)
        ends = float(low[0]), float(high[0])
        return lambda part: ends
    return lambda part: _row_ends(np.asarray(part.levels), limits)


def _all_beyond(found: TableEstimate, limits: Range) -> str | None:
    """The end beyond which all values may lie, "below" or "above"; None: they do not."""
    release, ends = found.release, _ends_of(found.release, limits)
    test = EndTest(NORMAL_SQUARES if release.distribution.normal else LAPLACE_SQUARES)
    for part in release.shown_blocks():
        test.add(part.z[:, 0], added_at(release, part), *ends(part))
    side = test.side()
    reached = side is not None and reaches(lambda: (part.H for part in release.shown_blocks()))
    return side if reached else None


def _left_biased(plain: TableEstimate) -> TableEstimate:
    return replace(
        plain, noise_found=None, noise_interval=None, misfit=None, misfit_p=None,
        cautions=(*plain.cautions, AS_CLIPPED),
    )  # fmt: skip


def _unbounded(plain: TableEstimate, side: str) -> TableEstimate:
    n = len(plain.names)
    return replace(
        _left_biased(plain),
        covariance=np.diag(np.full(n, np.inf)),
        sampling=None,
        classical=None,
        bound=None,
        degrees_of_freedom=None,
        floor=None if plain.floor is None else np.full(n, np.inf),
        method="none, all values may lie beyond the range",
        cautions=plain.cautions,
        clipped=None,
        beyond=side,
    )


def clipping_bias(found: TableEstimate, limits: Range) -> tuple[Array, float]:
    """The bias of least squares by clipping, and the share that is clipped, by the fit.

    With σ² one deviation above what the release shows; rows with levels by their weights.
    """
    release, ends = found.release, _ends_of(found.release, limits)
    variance = _variance(found)
    sigma = math.sqrt(variance)
    sums, share, rows = new_sums_of(release), 0.0, 0
    for part in release.shown_blocks():
        outside, shift, _ = clipped_moments(part.H @ found.value, sigma, *ends(part))
        moved = np.column_stack([part.H, shift])
        if part.levels is not None:
            moved /= np.sqrt(variance + added_at(release, part))[:, None]
        sums.add(np.asfortranarray(moved))
        share, rows = share + float(outside.sum()), rows + len(part)
    return sums.solution(), share / rows


def _variance(found: TableEstimate) -> float:
    release, added = found.release, added_of(found.release)
    freedom = max(found.rows - len(found.names), 1)
    shown = found.noise_found
    if release.privacy.level_column is not None:
        assert shown is not None  # the route of levels looks for it
        upper = shown if found.noise_interval is None else found.noise_interval[1]
        return max((shown + upper) / 2, release.column.residual_variance or 0.0)
    if shown is None:
        squares = sum(
            float(np.square(part.z[:, 0] - part.H @ found.value).sum()) for part in release.blocks()
        )
        shown = max(squares / freedom - added, 0.0)
    shown += math.sqrt(2 / freedom) * (shown + added)
    return max(shown, release.column.residual_variance or 0.0)


def _fitted(found: TableEstimate, limits: Range, *, known: bool) -> ClippedResult:
    release, variance = found.release, found.release.column.residual_variance
    freedom, ends = freedom_of(release), _ends_of(found.release, limits)

    def blocks() -> Iterator[ClippedRows]:
        for part in release.shown_blocks():
            size = 1.0 if variance is None or not known else variance
            level = release.column.level if part.levels is None else part.levels
            yield ClippedRows(part.H, part.z[:, 0], size, level, *ends(part))

    fit = estimate_clipped(
        blocks,
        noise_variance=release.unit_variance,
        reference=freedom,
        names=release.names,
        variance_known=known,
        reference_variance=None if freedom is None else variance,
    )
    return replace(fit, simulated=release.simulated)


def _of_likelihood(plain: TableEstimate, fit: ClippedResult, *, stated: bool) -> TableEstimate:
    fit = _robust(fit)
    known = {field.name: getattr(fit, field.name) for field in fields(Estimate)}
    return replace(
        plain,
        **known,
        **_misfit(plain, fit, stated=stated),
        clipped=fit.clipped,
        cautions=(*plain.cautions, _assumed(fit.check)),
        likelihood=fit,
        noise_found=fit.noise_variance,
        noise_interval=fit.noise_interval(),
    )


def _robust(fit: ClippedResult) -> ClippedResult:
    if fit.joint is None or fit.sandwich is None:
        return fit
    joint, kept = fit.joint.copy(), slice(0, len(fit.sandwich))
    joint[kept, kept] += without_noise(fit.sandwich, joint[kept, kept])
    n = len(fit.names)
    return replace(
        fit, covariance=joint[:n, :n], joint=joint, noise_error=math.sqrt(joint[n, n]),
        method=f"{fit.method}; sandwich",
    )  # fmt: skip


def _assumed(check: ClippedCheck) -> str:
    against = ""
    if check.p < CONTRADICTED:
        against = (
            f" This release contradicts it (p = {check.p:.1g}; {share_text(check.seen)} of the "
            f"values look clipped, the fit says {share_text(check.fitted)})."
        )
    return (
        "The intervals assume normal errors with the same variance in every row, because clipping "
        "hides the rest. Where that is wrong they miss the truth more often than they say."
        f"{against}"
    )


def _misfit(plain: TableEstimate, fit: ClippedResult, *, stated: bool) -> dict[str, Any]:
    """Whether σ² as stated is the one that the release shows.

    Where σ² was fitted: σ̂² + 1/s against σ² + 1/s, by a χ² with the degrees of freedom that the
    error of σ̂² gives it.
    """
    freedom, variance = fit.readings - len(fit.names), plain.release.column.residual_variance
    if stated and freedom > 0:
        return {"misfit": fit.misfit, "misfit_p": stated_p(fit.misfit * freedom, freedom, 1.0)}
    if variance is None or plain.release.column.reference_rows is not None or not fit.noise_error:
        return {"misfit": None, "misfit_p": None}
    assert fit.noise_variance is not None
    assert fit.added is not None
    total, expected = fit.noise_variance + fit.added, variance + fit.added
    own = max(round(2 * (total / fit.noise_error) ** 2), 1)
    return {"misfit": total / expected, "misfit_p": stated_p(own * total, own, expected)}
