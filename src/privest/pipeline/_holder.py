"""What a release shows about the readings at hand: for the data holder only.

With J = ∂θ̂/∂Y (`_sensitivity`) and Gaussian noise of covariance D on Tθ̂,

    I_z(Y) = JᵀTᵀD⁻¹TJ ,    tr I_z(Y) = Σ_k [I_z(Y)]_kk .

This number is itself a function of the private readings. So is the distance to a tie (`_ties`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.errors import BudgetExceeded
from privest.pipeline._sensitivity import jacobians, shown
from privest.pipeline._ties import Tie

if TYPE_CHECKING:
    from privest.pipeline._release import ScoreRelease

ENTRIES = 2**21  # readings simulated at a time


@dataclass(frozen=True, eq=False)
class HolderReport:
    """Private: for the data holder's eyes only. Printing it shows no number; it has no `to_dict`.

    estimate   θ̂ before noise.
    realised   tr I_z(Y) of the release at these readings.
    worst      max_k [I_z(Y)]_kk: what it shows about the reading that it shows most. The budget is
               on the sum; a single reading can have many times the average.
    budget     s.
    gradient   ∂ ln(realised)/∂Y, (K,): what a noise scale made from it would add.
    released   how many numbers are released.
    second     the second-lowest root of the estimating equation; None where none was found (looked
               for where ψ is not monotone, from exact fits, up to 4096 readings).
    to_tie     how far the readings are from a tie of the two, where θ̂ jumps: the length of a move
               of all readings together, in deviations of the noise w (interquartile range/1.349,
               which every law has); ∞ without a second root.
    jump       how far θ̂ jumps there, in deviations of the release noise.
    too_near   whether that is more than the budget allows for the move: a release is refused.
    """

    estimate: Array
    realised: float
    worst: float
    budget: float
    released: int
    gradient: Array = field(repr=False)
    second: Array | None = None
    to_tie: float = math.inf
    jump: float = 0.0
    too_near: bool = False

    def __repr__(self) -> str:
        return "HolderReport(private: read its fields, do not release them)"

    @property
    def ratio(self) -> float:
        """tr I_z(Y)/s: about half of all data sets have more than 1 (unless safety > 1)."""
        return self.realised / self.budget

    def require_no_tie(self) -> None:
        """Raise BudgetExceeded where a tie is too near: the jump is more than the budget allows.

        A release with tr I_z ≤ s moves by at most δ√s deviations of its noise when the readings
        move by δ; a tie at δ that jumps further breaks the budget on the way there. It counts up
        to δ = 3√(K/s): three times what the budget hides of a reading on average.
        """
        if self.too_near:
            raise BudgetExceeded(
                "the estimating equation has a second root that is almost as good: a small change "
                "of the readings would make the estimate jump, by more than the budget allows for "
                "such a change. Nothing was released. Use FixedStepsRelease, which is continuous "
                "in the readings, or a monotone score (least squares, a law with lighter tails)."
            )

    def counted(self, margin: float) -> float:
        """tr I_z(Y) with noise D(Y) = margin·ratio·D: both terms of docs/theory.md 7.

        s/margin + (q/2)‖∂ ln ratio/∂Y‖², q the numbers released.
        """
        return self.budget / margin + 0.5 * self.released * float(self.gradient @ self.gradient)

    def require_scaled(self, margin: float) -> None:
        """Raise BudgetExceeded where that is more than the budget."""
        if not self.counted(margin) <= self.budget:
            raise BudgetExceeded(
                "noise scaled to these readings would show more than the budget, its own "
                "information counted: use a larger margin, or fixed noise with a safety factor. "
                "Nothing was released."
            )


def jacobian(release: ScoreRelease, y: Array, theta: Array) -> Array:
    """∂θ̂/∂Y, (n, K), at readings y (K,) with the estimate θ̂."""
    return jacobians(release.stages(y, theta), release.model.matrix)[-1]


def realised(release: ScoreRelease, y: Array, theta: Array, tie: Tie | None) -> HolderReport:
    """The report for readings y with estimate θ̂."""
    each, gradient = shown(release.stages(y, theta), release.model.matrix, _precision(release))
    total = float(each.sum())
    second, to_tie, jump, near = None, math.inf, 0.0, False
    if tie is not None:
        second = tie.second
        to_tie = 1.349 * tie.move / float(np.ptp(release.law.quantile([0.25, 0.75])))
        jump = math.sqrt(float(tie.jump @ _precision(release) @ tie.jump))
        near = tie.too_near(jump, release.budget, len(y))
    return HolderReport(
        estimate=theta,
        realised=total,
        worst=float(each.max()),
        budget=release.budget,
        released=len(release.shape.targets),
        gradient=gradient / total,
        second=second,
        to_tie=to_tie,
        jump=jump,
        too_near=near,
    )


def simulated_ratios(release: ScoreRelease, rng: np.random.Generator, data_sets: int) -> Array:
    """tr I_z(Y)/s of so many data sets drawn from the public model; NaN without an estimate.

    θ does not matter: Y + Hδ moves θ̂ by δ and leaves the residuals.
    """
    H = release.model.matrix
    some = max(1, ENTRIES // H.size)
    parts = []
    for at in range(0, data_sets, some):
        y = release.law.sample((min(some, data_sets - at), len(H)), rng)
        found = release.solve(y)
        theta = np.where(found.converged[:, None], found.theta, 0.0)
        last = jacobians(release.stages(y, theta), H)[-1]
        ratio = np.einsum("tik,tik->t", last, _precision(release) @ last) / release.budget
        parts.append(np.where(found.converged, ratio, np.nan))
    return np.concatenate(parts)


def _precision(release: ScoreRelease) -> Array:
    """TᵀD⁻¹T."""
    targets = release.shape.targets
    return np.asarray(targets.T @ np.linalg.solve(release.information_scale, targets))
