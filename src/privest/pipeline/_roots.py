"""Roots of Σ ψ(y_k − H_kθ̂) H_kᵀ = 0, for one large problem or many small ones at once.

The estimate is a minimum of F(θ) = Σ ∫ψ(y_k − H_kθ), by Newton steps that never let F rise, from
the unique minimum for ψ₀ (`BoundedScore`). Where ψ falls again there may be several minima, and θ̂
jumps where the one that is reached changes: such estimates are simulated, never released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.errors import NotIdentifiable, NumericalFailure
from privest.linalg import require_units, weighted_roots
from privest.linalg.batched import substitute
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
        self.triangle: Array = root.triangle

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
    return descend(score, design, y, convex_start(score, design, y).reached)


def convex_start(score: Score, design: Design, y: Array) -> Roots:
    """The roots of the bounded score ψ₀: one for every y, which it depends on continuously."""
    first = least_squares(score.bounded.centre, design, y).theta
    return descend(score.bounded, design, y, first)


def least_squares(centre: float, design: Design, y: Array) -> Roots:
    right = (y - centre) @ design.matrix  # two steps: the second repairs the rounding of the first
    theta = design.back(design.whitened(right))
    off = (y - centre - theta @ design.matrix.T) @ design.matrix
    theta = theta + design.back(design.whitened(off))
    return Roots(theta, np.ones(len(y), bool), 2, theta)


def require_converged(found: Roots) -> None:
    if found.converged.all():
        return
    which = "" if len(found.theta) == 1 else f" in {int((~found.converged).sum())} trials"
    raise NumericalFailure(
        f"the estimating equation has no proper root{which}: the curvature Σψ'HᵀH is not positive "
        "or the steps did not converge. There is too little data, or the noise distribution "
        "(its scale, its support) does not fit the measurements. Nothing was released."
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
