"""θ̂ with Σ ψ(y_k − H_kθ̂) H_kᵀ = 0, for one large problem or many small ones at once.

The root returned is a minimum of F(θ) = Σ ∫ψ(y_k − H_kθ), by Newton steps that never let F rise.
ψ need not be monotone (heavy tails, skewed laws), so there may be several minima. Rule: start from
the minimum of the convex F with ψ₀ = x/√(1 + x²/q²) (q the law's half interquartile range; shifted
so that E ψ₀ = 0), which exists, is unique, and is consistent for θ whatever the tails; for up to
`FEW` readings also from exact fits of n of them; the lowest minimum reached is the estimate.

Large problems go through nested subsets of rows: almost all steps are taken on few rows, and two or
three on all of them. The subsets decide only where the last steps start.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index
from privest.errors import NotIdentifiable, NumericalFailure
from privest.estimator._starts import subsets
from privest.pipeline._descent import (
    BLOCK,
    ROWS_AT_ONCE,
    SAFE,
    TOLERANCE,
    Design,
    Roots,
    descend,
    evaluate,
    whitened_twice,
)
from privest.pipeline._score import Score, bounded_score

ROWS = (4096, 65_536)  # sizes of the nested subsets
FEW = 64  # readings up to which exact fits are tried as well
FITS, MORE_FITS = 6, 30  # for an estimate; in search of a second root


def solve(score: Score, design: Design, y: Array) -> Roots:
    """The estimates for readings y (trials, K)."""
    if score.linear is not None:
        return least_squares(score.linear[1], design, y)
    begin = starts(score, design, y)
    if len(y) > 1 or len(design.matrix) <= ROWS[-1]:
        return _best(score, design, y, begin)
    return _nested(score, design, y, begin[:, 0])


def _nested(score: Score, design: Design, y: Array, start: Array) -> Roots:
    """One problem of very many rows: down to the minimum of subsets, then on all rows."""
    theta = start
    curvature: Array | None = None
    for size in ROWS:
        rows = _some_rows(len(design.matrix), size)
        part = _part(design, rows)
        if part is None:
            continue
        some = y[:, rows]
        found = descend(score, part, some, theta)
        if found.converged.all():
            theta = found.theta
            share = len(design.matrix) / size
            curvature = share * evaluate(score, part, some, theta).curvature[0]
    if curvature is not None:
        found = _polish(score, design, y[0], theta[0], curvature)
        if found.converged.all():
            return found
    return descend(score, design, y, theta)


def _polish(score: Score, design: Design, y: Array, theta: Array, curvature: Array) -> Roots:
    """The last steps on all rows: gradients only, no look at F.

    The curvature starts as that of a subset, right to some percent, and learns from the gradients
    seen (BFGS): each step leaves a smaller part of the distance than the one before. Where one
    leaves more than a quarter, it is given up as not converged.
    """
    curved = whitened_twice(design, curvature[None])[0]
    moments = score.moments
    if np.linalg.eigvalsh(curved)[0] <= SAFE * moments.slope:
        return _lost(theta, 0)
    before, last = np.inf, None
    for taken in range(1, 20):
        gradient = np.zeros(len(theta))
        for begin in range(0, len(y), ROWS_AT_ONCE):
            rows = design.matrix[begin : begin + ROWS_AT_ONCE]
            gradient += score.value(y[begin : begin + ROWS_AT_ONCE] - rows @ theta) @ rows
        white = design.whitened(gradient)
        if last is not None:
            curved = _learnt(curved, last[0], last[1] - white)
        step = np.linalg.solve(curved, white)
        last = step, white
        promised = float(step @ white) * moments.slope / moments.square
        theta = theta + design.back(step[None])[0]
        # Superlinear: the next step would be shorter than this one by more than this one was, so
        # that what is left is below the tolerance (1e-6 standard errors).
        shrunk = promised / before if before < np.inf else 1.0
        if promised * min(shrunk, 1.0) <= TOLERANCE**2:
            return Roots(theta[None], np.ones(1, bool), taken, theta[None])
        if promised > before / 16:
            break
        before = promised
    return _lost(theta, taken)


def _lost(theta: Array, taken: int) -> Roots:
    return Roots(np.full((1, len(theta)), np.nan), np.zeros(1, bool), taken, theta[None])


def _learnt(curved: Array, step: Array, change: Array) -> Array:
    """The BFGS update of a curvature: afterwards it maps `step` to `change`."""
    along = float(step @ change)
    if along <= 0:
        return curved
    image = curved @ step
    own = np.outer(image, image) / float(step @ image)
    return np.asarray(curved - own + np.outer(change, change) / along)


def least_squares(centre: float, design: Design, y: Array) -> Roots:
    right = (y - centre) @ design.matrix  # two steps: the second repairs the rounding of the first
    theta = design.back(design.whitened(right))
    off = (y - centre - theta @ design.matrix.T) @ design.matrix
    theta = theta + design.back(design.whitened(off))
    return Roots(theta, np.ones(len(y), bool), 2, theta)


# --- starts -----------------------------------------------------------------------------------


def starts(score: Score, design: Design, y: Array) -> Array:
    """(trials, starts, n)."""
    bounded = bounded_score(score.law)
    rows = _some_rows(len(design.matrix), ROWS[0])
    part = _part(design, rows) or design
    some = y if part is design else y[:, rows]
    first = least_squares(bounded.centre, part, some).theta
    found = descend(bounded, part, some, first)
    convex = np.where(found.converged[:, None], found.theta, first)[:, None]
    if score.monotone or len(design.matrix) > FEW:
        return convex
    return np.concatenate([convex, _exact_fits(score, design, y)], axis=1)


def tie_starts(score: Score, design: Design, y: Array) -> Array | None:
    """Where a second root of readings y (K,) is looked for, (k, n); None where it is not.

    ψ that never falls has one root. Beyond 4096 readings a second root that is nearly as low would
    contradict the law in very many of them.
    """
    if score.monotone or score.linear is not None or len(design.matrix) > ROWS[0]:
        return None
    return np.asarray(_exact_fits(score, design, y[None], MORE_FITS)[0])


def _exact_fits(score: Score, design: Design, y: Array, count: int = FITS) -> Array:
    """The `count` fits of n readings with the lowest F, (trials, count, n)."""
    chosen = subsets(design.matrix)
    if not len(chosen):  # rare rows that no choice met: the convex start has to do
        return np.zeros((len(y), 0, design.matrix.shape[1]))
    inverse = np.linalg.inv(design.matrix[chosen])
    parts = []
    step = max(1, BLOCK // (len(chosen) * y.shape[1]))
    for at in range(0, len(y), step):
        block = y[at : at + step]
        theta = (inverse @ block[:, chosen][..., None])[..., 0]  # (trials, subsets, n)
        height = score.terms(block[:, None] - theta @ design.matrix.T).integral.sum(axis=-1)
        best = np.argsort(height, axis=1)[:, :count]
        parts.append(np.take_along_axis(theta, best[..., None], axis=1))
    return np.concatenate(parts)


def _best(score: Score, design: Design, y: Array, begin: Array) -> Roots:
    """Descend from every start; the lowest proper minimum wins."""
    trials, count, n = begin.shape
    if count == 1:
        return descend(score, design, y, begin[:, 0])
    found = descend(score, design, np.repeat(y, count, axis=0), begin.reshape(-1, n))
    theta = found.theta.reshape(trials, count, n)
    good = found.converged.reshape(trials, count)
    height = np.full((trials, count), np.inf)
    for j in range(count):
        ok = good[:, j]
        residual = y[ok] - theta[ok, j] @ design.matrix.T
        height[ok, j] = score.terms(residual).integral.sum(axis=1)
    best = height.argmin(axis=1)
    rows = np.arange(trials)
    reached = found.reached.reshape(trials, count, n)
    return Roots(theta[rows, best], good[rows, best], found.steps, reached[rows, best])


def _some_rows(count: int, size: int) -> Index:
    """Rows of a subset: a fixed random choice, so that no pattern of H is cut out."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(count).choice(count, size, replace=False))


def _part(design: Design, rows: Index) -> Design | None:
    if len(rows) == len(design.matrix):
        return design
    try:
        return Design(design.matrix[rows])
    except NotIdentifiable:  # rare rows carry a direction: only all of them will do
        return None


def require_converged(found: Roots) -> None:
    """One error for all the ways in which there is no estimate."""
    if found.converged.all():
        return
    which = "" if len(found.theta) == 1 else f" in {int((~found.converged).sum())} trials"
    raise NumericalFailure(
        f"the estimating equation has no proper root{which}: the curvature Σψ'HᵀH is not positive "
        "or the steps did not converge. There is too little data, or the noise law (its scale, "
        "its support) does not fit the readings. Nothing was released."
    )
