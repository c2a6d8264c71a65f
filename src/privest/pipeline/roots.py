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

from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index
from privest.errors import NotIdentifiable, NumericalFailure
from privest.estimator.starts import subsets
from privest.linalg.root import weighted_roots
from privest.pipeline.score import Score, bounded_score

ROWS = (4096, 65_536)  # sizes of the nested subsets
BLOCK = 2**17  # residuals at a time, of all trials together: they stay in cache
ROWS_AT_ONCE = 2**14  # rows of H at a time, for one problem
FEW = 64  # readings up to which exact fits are tried as well
FITS = 6
STEPS = 100
# Converged: a Newton step shorter than this, in standard errors of the estimate. It is still taken;
# what is left is of the order of its square.
TOLERANCE = 1e-6
POSITIVE = 1e-6  # curvature relative to E ψ' ΣHᵀH below which there is no proper minimum
SAFE = 0.05  # … and below which a Newton step is not trusted
ROUNDING = 1e-12  # of F


@dataclass(frozen=True, eq=False)
class Roots:
    """Estimates (trials, n); where the steps did not converge to a proper minimum, NaN."""

    theta: Array
    converged: Flags
    steps: int


class Design:
    """H (K, n) with its root R, RᵀR = HᵀH; raises NotIdentifiable where it is singular."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        root = weighted_roots(matrix, [1.0])[0]
        if root.rank < matrix.shape[1]:
            raise NotIdentifiable(
                f"H has rank {root.rank} of {matrix.shape[1]}: θ cannot be estimated.", root.hidden
            )
        self.triangle = root.triangle

    def whitened(self, rows: Array) -> Array:
        """R⁻ᵀv for row vectors v (..., n): gradients in units in which HᵀH is the identity."""
        flat = rows.reshape(-1, rows.shape[-1]).T
        solved = scipy.linalg.solve_triangular(self.triangle, flat, trans="T", check_finite=False)
        return np.asarray(solved.T.reshape(rows.shape))

    def back(self, steps: Array) -> Array:
        """θ from whitened coordinates: R⁻¹v for row vectors v (trials, n)."""
        solved = scipy.linalg.solve_triangular(self.triangle, steps.T, check_finite=False)
        return np.asarray(solved.T)


def solve(score: Score, design: Design, y: Array) -> Roots:
    """The estimates for readings y (trials, K)."""
    if score.linear is not None:
        return _least_squares(score.linear[1], design, y)
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
            curvature = share * _evaluate(score, part, some, theta).curvature[0]
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
    curved = _whitened_twice(design, curvature[None])[0]
    moments = score.moments
    if np.linalg.eigvalsh(curved)[0] <= SAFE * moments.slope:
        return Roots(np.full((1, len(theta)), np.nan), np.zeros(1, bool), 0)
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
        # Superlinear: the next step would be shorter than this one by more than this one was.
        shrunk = promised / before if before < np.inf else 1.0
        if promised * min(shrunk, 1.0) <= TOLERANCE**2:
            return Roots(theta[None], np.ones(1, bool), taken)
        if promised > before / 16:
            break
        before = promised
    return Roots(np.full((1, len(theta)), np.nan), np.zeros(1, bool), taken)


def _learnt(curved: Array, step: Array, change: Array) -> Array:
    """The BFGS update of a curvature: afterwards it maps `step` to `change`."""
    along = float(step @ change)
    if along <= 0:
        return curved
    image = curved @ step
    own = np.outer(image, image) / float(step @ image)
    return np.asarray(curved - own + np.outer(change, change) / along)


def _least_squares(centre: float, design: Design, y: Array) -> Roots:
    right = (y - centre) @ design.matrix  # two steps: the second repairs the rounding of the first
    theta = design.back(design.whitened(right))
    off = (y - centre - theta @ design.matrix.T) @ design.matrix
    theta = theta + design.back(design.whitened(off))
    return Roots(theta, np.ones(len(y), bool), 2)


# --- starts -----------------------------------------------------------------------------------


def starts(score: Score, design: Design, y: Array) -> Array:
    """(trials, starts, n)."""
    bounded = bounded_score(score.law)
    rows = _some_rows(len(design.matrix), ROWS[0])
    part = _part(design, rows) or design
    some = y if part is design else y[:, rows]
    first = _least_squares(bounded.centre, part, some).theta
    found = descend(bounded, part, some, first)
    convex = np.where(found.converged[:, None], found.theta, first)[:, None]
    if score.monotone or len(design.matrix) > FEW:
        return convex
    return np.concatenate([convex, _exact_fits(score, design, y)], axis=1)


def _exact_fits(score: Score, design: Design, y: Array) -> Array:
    """The fits of n readings with the lowest F, (trials, FITS, n)."""
    chosen = subsets(design.matrix)
    inverse = np.linalg.inv(design.matrix[chosen])
    parts = []
    step = max(1, BLOCK // (len(chosen) * y.shape[1]))
    for at in range(0, len(y), step):
        block = y[at : at + step]
        theta = (inverse @ block[:, chosen][..., None])[..., 0]  # (trials, subsets, n)
        height = score.terms(block[:, None] - theta @ design.matrix.T).integral.sum(axis=-1)
        best = np.argsort(height, axis=1)[:, :FITS]
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
    return Roots(theta[rows, best], good[rows, best], found.steps)


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


# --- descent ----------------------------------------------------------------------------------


def descend(score: Score, design: Design, y: Array, start: Array) -> Roots:
    """Newton steps that never let F rise, from `start` (trials, n), all trials together."""
    mean_slope, mean_square = score.moments.slope, score.moments.square
    trials = len(start)
    # In residuals of the start and steps from it: a large Hθ would drown the last falls of F.
    y = y - start @ design.matrix.T
    theta = np.zeros(start.shape)
    done = np.zeros(trials, bool)
    at = _evaluate(score, design, y, theta)
    lost = ~np.isfinite(at.height)  # a residual outside a finite support: F is infinite there
    taken = 0
    while taken < STEPS:
        live = np.flatnonzero(~(done | lost))
        if not live.size:
            break
        taken += 1
        gradient = design.whitened(at.gradient[live])
        curvature = _whitened_twice(design, at.curvature[live])
        least = np.linalg.eigvalsh(curvature)[:, 0] / mean_slope
        trusted = least > SAFE
        if not trusted.all():
            weak = live[~trusted]
            floor = _floored(score, design, y[weak], theta[weak], mean_slope)
            curvature[~trusted] = _whitened_twice(design, floor)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        promised = (step * gradient).sum(axis=1)
        close = promised * mean_slope <= TOLERANCE**2 * mean_square
        # At a proper minimum the last step is taken unseen: it is shorter than rounding can show.
        proper = least > POSITIVE
        move = design.back(step)
        theta[live[close & proper]] += move[close & proper]
        done[live[close & proper]] = True
        lost[live[close & ~proper]] = True
        going = ~close
        if going.any():
            here = live[going]
            failed = _advance(score, design, y, theta, at, here, move[going], promised[going])
            lost[here[failed]] = True
    lost |= ~done
    theta[lost] = np.nan
    return Roots(start + theta, ~lost, taken)


@dataclass(eq=False)
class _At:
    """F, Σψ H and Σψ' HᵀH at the current θ of every trial."""

    height: Array
    gradient: Array
    curvature: Array


def _advance(
    score: Score, design: Design, y: Array, theta: Array, at: _At, rows: Index, move: Array,
    promised: Array,
) -> Flags:  # fmt: skip
    """Step, or as far of it as lets F fall; which rows could not move."""
    length = np.ones(len(rows))
    waiting = np.ones(len(rows), bool)
    for _ in range(40):
        now = np.flatnonzero(waiting)
        tried = theta[rows[now]] + length[now, None] * move[now]
        new = _evaluate(score, design, y[rows[now]], tried)
        old = at.height[rows[now]]
        fall = old - new.height
        slack = ROUNDING * np.abs(old)
        good = fall >= 1e-4 * length[now] * promised[now] - slack
        won = rows[now[good]]
        theta[won] = tried[good]
        at.height[won], at.gradient[won] = new.height[good], new.gradient[good]
        at.curvature[won] = new.curvature[good]
        waiting[now[good]] = False
        if not waiting.any():
            break
        # Where a parabola through F, its slope and the failed value has its minimum.
        missed = np.where(np.isfinite(new.height), old - new.height, -np.inf)[~good]
        bad = now[~good]
        whole = length[bad] * promised[bad]
        shorter = np.where(np.isfinite(missed), whole / (2 * (whole - missed)), 0.1)
        length[bad] *= np.clip(shorter, 0.1, 0.5)
    return waiting


def _evaluate(score: Score, design: Design, y: Array, theta: Array) -> _At:
    """F, gradient and curvature, in blocks that stay in cache."""
    H = design.matrix
    trials, n = theta.shape
    at = _At(np.zeros(trials), np.zeros((trials, n)), np.zeros((trials, n, n)))
    if trials == 1:
        for begin in range(0, len(H), ROWS_AT_ONCE):
            rows = H[begin : begin + ROWS_AT_ONCE]
            terms = score.terms(y[0, begin : begin + ROWS_AT_ONCE] - rows @ theta[0])
            at.height[0] += terms.integral.sum()
            at.gradient[0] += terms.value @ rows
            at.curvature[0] += (rows.T * terms.slope) @ rows
        return at
    pairs = _pairs(H)
    some = max(1, BLOCK // len(H))
    for begin in range(0, trials, some):
        few = slice(begin, begin + some)
        terms = score.terms(y[few] - theta[few] @ H.T)
        at.height[few] = terms.integral.sum(axis=1)
        at.gradient[few] = terms.value @ H
        at.curvature[few] = (terms.slope @ pairs).reshape(-1, n, n)
    return at


def _floored(score: Score, design: Design, y: Array, theta: Array, mean_slope: float) -> Array:
    """Σ max(|ψ'|, least) HᵀH: positive, so that the step descends whatever ψ is.

    least = min(E ψ'/10, |ψ/(x − c)|), c the centre of the law: far out the secant, so that steps
    are as long as the residuals (reweighted least squares) and not as long as the law is wide.
    """
    H = design.matrix
    centre = bounded_score(score.law).centre
    pairs = _pairs(H) if len(theta) > 1 else None
    result = np.empty((len(theta), H.shape[1], H.shape[1]))
    some = max(1, BLOCK // len(H))
    for begin in range(0, len(theta), some):
        few = slice(begin, begin + some)
        residual = y[few] - theta[few] @ H.T
        terms = score.terms(residual)
        secant = np.abs(terms.value) / np.maximum(np.abs(residual - centre), 1e-300)
        slope = np.maximum(np.abs(terms.slope), np.minimum(secant, 0.1 * mean_slope))
        if pairs is None:
            result[few] = (H.T * slope[0]) @ H
        else:
            result[few] = (slope @ pairs).reshape(-1, H.shape[1], H.shape[1])
    return result


def _pairs(H: Array) -> Array:
    """Rows h ⊗ h."""
    return np.asarray((H[:, :, None] * H[:, None, :]).reshape(len(H), -1))


def _whitened_twice(design: Design, matrices: Array) -> Array:
    """R⁻ᵀ A R⁻¹."""
    once = design.whitened(matrices)
    return design.whitened(np.swapaxes(once, -1, -2))


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
