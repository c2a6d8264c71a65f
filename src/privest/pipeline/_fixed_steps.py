"""An estimate that is continuous in the readings: a convex start and a fixed number of steps."""

from __future__ import annotations

from typing import Literal

import numpy as np

from privest.arrays import Array, ArrayLike, as_choice, as_count
from privest.errors import NotReleasable
from privest.model import LinearModel
from privest.pipeline._descent import Roots, descend
from privest.pipeline._optimal_score import optimal_score
from privest.pipeline._release import ScoreRelease
from privest.pipeline._roots import least_squares
from privest.pipeline._score import LikelihoodScore, Score, bounded_score
from privest.pipeline._sensitivity import Stage, root_stage, root_stages
from privest.pipeline._shape import Shape


class FixedStepsRelease(ScoreRelease):
    """A smooth start and `steps` scoring steps: no second root, no jump, for heavy tails too.

        Σ ψ₀(y_k − H_kθ₀) H_kᵀ = 0 ,   ψ₀ = (x − c)/√(1 + (x − c)²/q²)
        θ ← θ + (E ψ' ΣHᵀH)⁻¹ Σ ψ(y_k − H_kθ) H_kᵀ      `steps` times

    F₀ = Σ∫ψ₀ is strictly convex, so that θ₀ is one smooth function of Y, and so is every step: the
    matrix in front is public, ψ is smooth. The roots of ψ itself, which tie and jump, are not
    looked for. For large K one step has the error and the sensitivity of the root
    (Bickel's one-step estimate), so that loss and noise are those of the other releases; what the
    release shows of the readings at hand (`for_data_holder`, `ratios`, `simulate_scaled`) is
    computed from the derivatives of the steps themselves. So `release` takes any law.

    score   "optimal" (least loss, as `OptimalScoreRelease`) or "likelihood" (as `algo:mult`).
    steps   ≥ 1. More come nearer to a root, and with it to its jumps.

    >>> import privest as pv
    >>> model = pv.LinearModel([[1.0]] * 10, noise=pv.noise.Cauchy(1.0))
    >>> release = FixedStepsRelease(model, budget=10.0)
    >>> def at(v):
    ...     y = [0.0, 0.3, -0.4, 1.2, v, 6.0, 6.3, 5.6, 7.1, 5.2]
    ...     return float(release.estimate(y)[0])
    >>> abs(at(-0.33 + 1e-6) - at(-0.33)) < 1e-5
    True
    """

    name = "fixed steps with noise"

    def __init__(
        self,
        model: LinearModel,
        budget: float,
        *,
        score: Literal["optimal", "likelihood"] = "optimal",
        steps: int = 1,
        shape: Shape = "trace",
        weight: ArrayLike | None = None,
        safety: float = 1.0,
    ) -> None:
        self._asked = as_choice(score, ("optimal", "likelihood"), "score")
        self.steps = as_count(steps, "steps", least=1)
        super().__init__(model, budget, shape=shape, weight=weight, safety=safety)

    def _score(self) -> Score:
        if self._asked == "likelihood":
            return LikelihoodScore(self.law)
        return optimal_score(self.law, self.shape.weight)

    def solve(self, y: Array) -> Roots:
        start = bounded_score(self.law)
        first = least_squares(start.centre, self.design, y).theta
        found = descend(start, self.design, y, first)
        reached = found.reached
        for _ in range(self.steps):
            reached = reached + self._step(y, reached)
        theta = np.where(found.converged[:, None], reached, np.nan)
        return Roots(theta, found.converged, found.steps, reached)

    def _step(self, y: Array, theta: Array) -> Array:
        """(E ψ' ΣHᵀH)⁻¹ Σψ(y − Hθ)Hᵀ, (trials, n)."""
        H = self.model.matrix
        pull = self.score.value(y - theta @ H.T) @ H
        return self.design.back(self.design.whitened(pull)) / self.score.moments.slope

    def stages(self, y: Array, theta: Array) -> list[Stage]:
        """The way to θ̂ is gone again: the start and every step have a sensitivity of their own."""
        del theta
        H, start = self.model.matrix, bounded_score(self.law)
        rows = np.atleast_2d(y)
        at = descend(start, self.design, rows, least_squares(start.centre, self.design, rows).theta)
        here = np.where(at.converged[:, None], at.theta, 0.0)
        one = y.ndim == 1
        make = root_stage if one else root_stages
        found = [make(start, H, y - (here[0] if one else here) @ H.T)]
        left = self._unit / self.score.moments.slope
        for _ in range(self.steps):
            residual = y - (here[0] if one else here) @ H.T
            bend = self.score.bend(residual) if one else np.zeros(0)
            found.append(Stage(left, self.score.slope(residual), bend))
            here = here + self._step(rows, here)
        return found

    @property
    def _unit(self) -> Array:
        """(HᵀH)⁻¹."""
        return self.design.back(self.design.whitened(np.eye(self.model.parameters)))

    def _require_continuous(self) -> None:
        """So it is by construction, where ψ is a number for every residual."""
        if not self.score.everywhere:
            raise NotReleasable(
                f"ψ is not finite for every residual under {self.law!r}: there are readings "
                "without an estimate, and a release must not depend on whether they occur. Use "
                "score='optimal', which goes on outside the law."
            )

    def _tie(self, y: Array, theta: Array) -> None:
        """There is one start, and nothing to tie with."""
        return
