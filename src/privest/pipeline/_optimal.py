"""The best release of this kind, for any noise law (docs/theory.md 7)."""

from __future__ import annotations

from privest.pipeline._optimal_score import optimal_score
from privest.pipeline._release import ScoreRelease
from privest.pipeline._score import Score


class OptimalScoreRelease(ScoreRelease):
    """The least loss of all z = θ̂_ψ + d: the score that weighs sampling against privacy.

        Σ ψ*(y_k − H_kθ̂) H_kᵀ = 0 ,   ψ* − λ(ψ*'' + (f'/f)ψ*') = −f'/f ,   MSE = J*·(ΣHᵀH)⁻¹

    Exists for every density: also where maximum likelihood moves one for one with a single
    reading (Laplacian) or the score jumps. J* ≤ J(ML), equal only for Gaussian noise.

    >>> import privest as pv
    >>> model = pv.LinearModel([[1.0]] * 100, noise=pv.noise.Laplace(1.0))
    >>> release = OptimalScoreRelease(model, budget=100.0)
    >>> round(release.loss * 100, 6)  # b² + λ/2 + b√(λ + λ²/4b²), λ = 1/100
    1.105125
    """

    name = "optimal score with noise"

    def _score(self) -> Score:
        return optimal_score(self.law, self.shape.weight)
