"""Other roots, and how far the readings are from a tie with one of them.

Where ψ falls again far out (Cauchy, Student-t) F(θ) = Σ ∫ψ(y_k − H_kθ) can have several minima; θ̂
is the lowest, and jumps where two are equally low. At such a tie the release shows infinite
information. Near it the formula JᵀD⁻¹J, a derivative, says nothing about the jump. What holds:

    a release with tr I_z ≤ s on the way moves by at most δ√s (in deviations of its noise) when
    the readings move by δ (Euclidean): ‖Δ‖ ≤ ∫ √(uᵀI_z u) ≤ δ√s.

A jump of a deviations at a distance δ with a > δ√s breaks the budget on that way. That counts while
the move is one that the budget is there to hide: on average it promises that nobody knows a reading
better than ± √(K/s), and readings further apart than some of these may be told apart anyway (a
Cauchy reading that is far off has a root of its own, with a tie thousands of deviations away). So a
release is refused where

    a > δ√s   and   δ ≤ 3√(K/s) .
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.pipeline._descent import Design, descend
from privest.pipeline._score import Score

SAME = 1e-3  # standard errors: nearer roots are one
NEWTON = 30  # steps towards a tie
EVEN = 1e-9  # of F: a tie
HIDDEN = 3.0  # times √(K/s): moves that the budget is there to hide


@dataclass(frozen=True, eq=False)
class Tie:
    """The second-lowest root, and the tie with it.

    second   (n,) the root.
    move     δ, Euclidean: moving the readings by this reaches the tie (at most this: the way is
             the steepest at its start, not the shortest).
    jump     (n,) θ̂ on the one side of the tie less θ̂ on the other.
    """

    second: Array
    move: float
    jump: Array

    def too_near(self, deviations: float, budget: float, readings: int) -> bool:
        """Whether the jump, so many deviations of the release noise, is more than s allows."""
        near = self.move <= HIDDEN * math.sqrt(readings / budget)
        return near and deviations > self.move * math.sqrt(budget)


def nearest_tie(score: Score, design: Design, y: Array, theta: Array, begin: Array) -> Tie | None:
    """The tie of the root `theta` of readings y (K,) with the next one reached from `begin` (k, n).

    None where they all end in the same root. Cost: k descents, and up to 60 for the tie.
    """
    found = descend(score, design, np.repeat(y[None], len(begin), axis=0), begin)
    others = found.theta[found.converged]
    others = others[[_apart(score, design, other - theta) > SAME for other in others]]
    if not len(others):
        return None
    second = others[np.argmin([_height(score, design, y, other) for other in others])]
    return _approached(score, design, y, theta, second)


def _approached(score: Score, design: Design, y: Array, first: Array, second: Array) -> Tie | None:
    """Newton steps of the readings on F(second) − F(first) = 0, both roots followed.

    Its gradient is ψ(r₂) − ψ(r₁): the roots are minima, so that their own moves do not count.
    None where one root ends before the tie: they never are equally low on this way.
    """
    H, moved, pair = design.matrix, y, np.stack([first, second])
    straight = None  # what the first step promises, where the steps do not arrive
    for _ in range(NEWTON):
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
