"""Roots of Σ ψ(y_k − H_kθ̂) H_kᵀ = 0, for one large problem or many small ones at once; their ties.

The estimate is a minimum of F(θ) = Σ ∫ψ(y_k − H_kθ), by Newton steps that never let F rise. There
may be several: start from the unique minimum for ψ₀ (`BoundedScore`), and for up to `FEW`
measurements from exact fits of n of them; the lowest minimum reached is the estimate. Large
problems go through nested subsets of rows, which decide only where the last steps start.

**Ties.** Where two minima are equally low θ̂ jumps, and the release reveals infinite information. A
release with tr I_z ≤ s moves by at most δ√s deviations of its noise when the measurements move by
δ: ‖Δ‖ ≤ ∫ √(uᵀI_z u) ≤ δ√s. A jump of a > δ√s deviations at a distance δ breaks the budget, if the
budget is there to hide such a move (a measurement is hidden to ± √(K/s) on average). An estimate is
refused where a > δ√s and δ ≤ 3√(K/s).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.errors import NotIdentifiable, NumericalFailure
from privest.estimator.starts import subsets
from privest.linalg import weighted_roots
from privest.linalg.batched import substitute
from privest.linalg.validation import require_units
from privest.pipeline._score import LinearScore, Score

BLOCK = 2**17  # residuals at a time, of all trials together: they stay in cache
ROWS_AT_ONCE = 2**14  # rows of H at a time, for one problem
STEPS = 100
SHORTENINGS = 40  # of one step, each by a factor between these
SHORTEST, LONGEST = 0.1, 0.5
LOOKS = 400  # at F, of the steps together: beyond them whatever has not converged is given up
# Converged: a Newton step shorter than this, in standard errors of the estimate; it is taken.
TOLERANCE = 1e-6
POSITIVE = 1e-6  # curvature relative to E ψ' ΣHᵀH below which there is no proper minimum
SAFE = 0.05  # … and below which a Newton step is not trusted
ROUNDING = 1e-12  # of F
ROWS = (4096, 65_536)  # sizes of the nested subsets
FEW = 64  # measurements up to which exact fits are tried as well
FITS, MORE_FITS = 6, 30  # for an estimate; in search of a second root
SAME = 1e-3  # standard errors: nearer roots are one
TIE_STEPS = 30  # Newton steps towards a tie
EVEN = 1e-9  # of F: a tie
HIDDEN = 3.0  # times √(K/s): moves that the budget is there to hide


@dataclass(frozen=True, eq=False)
class Roots:
    """Estimates (trials, n), NaN where the steps did not converge; `reached`: where they ended."""

    theta: Array
    converged: Flags
    steps: int
    reached: Array


class Design:
    """H (K, n) with its root R, RᵀR = HᵀH; raises NotIdentifiable where it is singular."""

    def __init__(self, matrix: Array) -> None:
        require_units(matrix, "H")
        self.matrix = matrix
        root = weighted_roots(matrix, [1.0])[0]
        if root.rank < matrix.shape[1]:
            raise NotIdentifiable(
                f"H has rank {root.rank} of {matrix.shape[1]}: θ cannot be estimated.", root.hidden
            )
        self.triangle = root.triangle

    def whitened(self, rows: Array) -> Array:
        """R⁻ᵀv for row vectors v (..., n)."""
        flat = rows.reshape(-1, rows.shape[-1]).T
        return substitute(self.triangle, flat, transposed=True).T.reshape(rows.shape)

    def back(self, steps: Array) -> Array:
        """R⁻¹v for row vectors v (trials, n)."""
        return substitute(self.triangle, steps.T).T


def solve(score: Score, design: Design, y: Array) -> Roots:
    if isinstance(score, LinearScore):
        return least_squares(score.centre, design, y)
    begin = starts(score, design, y)
    if len(y) > 1 or len(design.matrix) <= ROWS[-1]:
        return _best(score, design, y, begin)
    return _nested(score, design, y, begin[:, 0])


def _nested(score: Score, design: Design, y: Array, start: Array) -> Roots:
    """One problem of very many rows: down to the minimum of subsets, then on all rows."""
    theta = start
    for size in ROWS:
        rows = _some_rows(len(design.matrix), size)
        part = _part(design, rows)
        if part is not None:
            found = descend(score, part, y[:, rows], theta)
            theta = np.where(found.converged[:, None], found.theta, theta)
    return descend(score, design, y, theta)


def least_squares(centre: float, design: Design, y: Array) -> Roots:
    right = (y - centre) @ design.matrix  # two steps: the second repairs the rounding of the first
    theta = design.back(design.whitened(right))
    off = (y - centre - theta @ design.matrix.T) @ design.matrix
    theta = theta + design.back(design.whitened(off))
    return Roots(theta, np.ones(len(y), bool), 2, theta)


# --- starts -----------------------------------------------------------------------------------


def starts(score: Score, design: Design, y: Array) -> Array:
    bounded = score.bounded
    rows = _some_rows(len(design.matrix), ROWS[0])
    part = _part(design, rows) or design
    some = y if part is design else y[:, rows]
    first = least_squares(bounded.centre, part, some).theta
    found = descend(bounded, part, some, first)
    convex = np.where(found.converged[:, None], found.theta, first)[:, None]
    if score.one_root or len(design.matrix) > FEW:
        return convex
    return np.concatenate([convex, _exact_fits(score, design, y)], axis=1)


def tie_starts(score: Score, design: Design, y: Array) -> Array | None:
    """Starts (k, n) of the search for a second root of y (K,); None where there is no search.

    Beyond 4096 measurements a second root nearly as low would contradict the law in very many.
    """
    if score.one_root or len(design.matrix) > ROWS[0]:
        return None
    return np.asarray(_exact_fits(score, design, y[None], MORE_FITS)[0])


def _exact_fits(score: Score, design: Design, y: Array, count: int = FITS) -> Array:
    """The `count` fits of n measurements with the lowest F, (trials, count, n)."""
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
    if found.converged.all():
        return
    which = "" if len(found.theta) == 1 else f" in {int((~found.converged).sum())} trials"
    raise NumericalFailure(
        f"the estimating equation has no proper root{which}: the curvature Σψ'HᵀH is not positive "
        "or the steps did not converge. There is too little data, or the noise law (its scale, "
        "its support) does not fit the measurements. Nothing was released."
    )


# --- Newton steps ---------------------------------------------------------------------------------


def descend(score: Score, design: Design, y: Array, start: Array) -> Roots:
    """Newton steps that never let F rise, from `start` (trials, n), all trials together."""
    mean_slope, mean_square = score.moments.slope, score.moments.square
    trials = len(start)
    # Residuals of the start and steps from it: a large Hθ would drown the last falls of F.
    y = y - start @ design.matrix.T
    theta = np.zeros(start.shape)
    done = np.zeros(trials, bool)

    def look(rows: Index, tried: Array) -> _At:
        return evaluate(score, design, y[rows], tried)

    at = evaluate(score, design, y, theta)
    lost = ~np.isfinite(at.height)  # a residual outside a finite support: F is infinite there
    taken, looks = 0, 0
    while taken < STEPS and looks < LOOKS:
        live = np.flatnonzero(~(done | lost))
        if not live.size:
            break
        taken += 1
        gradient = design.whitened(at.gradient[live])
        curvature = whitened_twice(design, at.curvature[live])
        least = np.linalg.eigvalsh(curvature)[:, 0] / mean_slope
        trusted = least > SAFE
        # Where the curvature is weak but positive, steps below a standard error are trusted too.
        flat = ~trusted & (least > POSITIVE)
        if flat.any():
            near = np.linalg.solve(curvature[flat], gradient[flat][..., None])[..., 0]
            trusted[flat] = (near * gradient[flat]).sum(axis=1) * mean_slope <= mean_square
        if not trusted.all():
            weak = live[~trusted]
            floor = _floored(score, design, y[weak], theta[weak], mean_slope)
            curvature[~trusted] = whitened_twice(design, floor)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        promised = (step * gradient).sum(axis=1)
        close = promised * mean_slope <= TOLERANCE**2 * mean_square
        # At a proper minimum the last step is shorter than rounding can show.
        proper = least > POSITIVE
        move = design.back(step)
        theta[live[close & proper]] += move[close & proper]
        done[live[close & proper]] = True
        lost[live[close & ~proper]] = True
        going = ~close
        if going.any():
            here = live[going]
            failed, looked = _advance(look, theta, at, here, move[going], promised[going])
            lost[here[failed]] = True
            looks += looked
    lost |= ~done
    reached = start + theta
    return Roots(np.where(lost[:, None], np.nan, reached), ~lost, taken, reached)


@dataclass(eq=False)
class _At:
    """F, Σψ H and Σψ' HᵀH at the current θ of every trial."""

    height: Array
    gradient: Array
    curvature: Array


def _advance(
    look: Callable[[Index, Array], _At], theta: Array, at: _At, rows: Index, move: Array,
    promised: Array,
) -> tuple[Flags, int]:  # fmt: skip
    """Step, or as far of it as lets F fall; which rows could not move, and how often F was seen."""
    length = np.ones(len(rows))
    waiting = np.ones(len(rows), bool)
    looks = 0
    while waiting.any() and looks < SHORTENINGS:
        looks += 1
        now = np.flatnonzero(waiting)
        tried = theta[rows[now]] + length[now, None] * move[now]
        new = look(rows[now], tried)
        old = at.height[rows[now]]
        fall = old - new.height
        slack = ROUNDING * np.abs(old)
        good = fall >= 1e-4 * length[now] * promised[now] - slack
        won = rows[now[good]]
        theta[won] = tried[good]
        at.height[won], at.gradient[won] = new.height[good], new.gradient[good]
        at.curvature[won] = new.curvature[good]
        waiting[now[good]] = False
        bad = now[~good]
        length[bad] *= _shorter(length[bad] * promised[bad], fall[~good])
    return waiting, looks


def _shorter(whole: Array, fall: Array) -> Array:
    """The part of a failed step to try next: the minimum of a parabola, a tenth to a half."""
    finite = np.isfinite(fall)
    ideal = whole / (2 * (whole - np.where(finite, fall, 0.0)))
    return np.clip(np.where(finite, ideal, SHORTEST), SHORTEST, LONGEST)


def evaluate(score: Score, design: Design, y: Array, theta: Array) -> _At:
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
    """Σ max(|ψ'|, least) HᵀH > 0, so that the step descends whatever ψ is.

    least = |ψ/(x − c)| within 1e-9 and 0.1 of E ψ': far out the secant, as in reweighted least
    squares.
    """
    H = design.matrix
    centre = score.bounded.centre
    pairs = _pairs(H) if len(theta) > 1 else None
    result = np.empty((len(theta), H.shape[1], H.shape[1]))
    some = max(1, BLOCK // len(H))
    for begin in range(0, len(theta), some):
        few = slice(begin, begin + some)
        residual = y[few] - theta[few] @ H.T
        terms = score.terms(residual)
        secant = np.abs(terms.value) / np.maximum(np.abs(residual - centre), 1e-300)
        least = np.clip(secant, 1e-9 * mean_slope, 0.1 * mean_slope)
        slope = np.maximum(np.abs(terms.slope), least)
        if pairs is None:
            result[few] = (H.T * slope[0]) @ H
        else:
            result[few] = (slope @ pairs).reshape(-1, H.shape[1], H.shape[1])
    return result


def _pairs(H: Array) -> Array:
    """Rows h ⊗ h."""
    return np.asarray((H[:, :, None] * H[:, None, :]).reshape(len(H), -1))


def whitened_twice(design: Design, matrices: Array) -> Array:
    """R⁻ᵀ A R⁻¹."""
    once = design.whitened(matrices)
    return design.whitened(np.swapaxes(once, -1, -2))


# --- ties -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tie:
    """The second-lowest root and the tie with it.

    move     δ: a Euclidean move of the measurements by at most this reaches the tie.
    jump     (n,) of θ̂ there.
    """

    second: Array
    move: float
    jump: Array

    def too_near(self, deviations: float, budget: float, count: int) -> bool:
        """Whether a jump by `deviations` of the privacy noise is more than s allows (K = count)."""
        near = self.move <= HIDDEN * math.sqrt(count / budget)
        return near and deviations > self.move * math.sqrt(budget)


def nearest_tie(score: Score, design: Design, y: Array, theta: Array, begin: Array) -> Tie | None:
    """The tie of the root `theta` of y (K,) with the next from `begin` (k, n); None: one root."""
    found = descend(score, design, np.repeat(y[None], len(begin), axis=0), begin)
    others = found.theta[found.converged]
    others = others[[_apart(score, design, other - theta) > SAME for other in others]]
    if not len(others):
        return None
    second = others[np.argmin([_height(score, design, y, other) for other in others])]
    return _approached(score, design, y, theta, second)


def _approached(score: Score, design: Design, y: Array, first: Array, second: Array) -> Tie | None:
    """Newton steps of the measurements on F(second) − F(first) = 0, of gradient ψ(r₂) − ψ(r₁).

    None where one root ends before the tie.
    """
    H, moved, pair = design.matrix, y, np.stack([first, second])
    straight = None  # what the first step promises, where the steps do not arrive
    for _ in range(TIE_STEPS):
        terms = score.terms(moved - pair @ H.T)
        low, high = terms.integral.sum(axis=1)
        gap, slope = high - low, terms.value[1] - terms.value[0]
        size = float(slope @ slope)
        if size == 0.0:
            return None
        if straight is None:
            straight = abs(gap) / np.sqrt(size)
        if abs(gap) <= EVEN * (1 + abs(low)):
            return Tie(second, float(np.linalg.norm(moved - y)), pair[0] - pair[1])
        moved = moved - (gap / size) * slope
        found = descend(score, design, np.stack([moved, moved]), pair)
        if not found.converged.all() or _apart(score, design, np.diff(found.theta, axis=0)) <= SAME:
            return None
        pair = found.theta
    return Tie(second, float(straight or 0.0), first - second)


def _apart(score: Score, design: Design, off: Array) -> float:
    """‖R(θ₁ − θ₂)‖ in standard errors of the estimate."""
    return float(np.linalg.norm(design.triangle @ np.ravel(off)) / np.sqrt(score.sampling))


def _height(score: Score, design: Design, y: Array, theta: Array) -> float:
    return float(score.terms(y - design.matrix @ theta).integral.sum())
