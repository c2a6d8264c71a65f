"""Releases, one a score: least squares, maximum likelihood, the best one (docs/theory.md 7)."""

from __future__ import annotations

import numpy as np

from privest.arrays import ArrayLike, as_positive
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.noise import ScalarLaw
from privest.pipeline._optimal_score import optimal_score
from privest.pipeline._release import ScoreRelease
from privest.pipeline._score import (
    LikelihoodScore,
    LinearScore,
    Score,
    SmoothedLikelihoodScore,
    best_bandwidth,
)
from privest.pipeline._shape import Shape


class LeastSquaresRelease(ScoreRelease):
    """The baseline: least squares (for H = 1 the average) with Gaussian or other noise.

    `noise`: the law of the release noise scaled to the same budget: a Laplacian of the same
    information has twice the variance of a Gaussian (averaging as in Cai et al.). Its information
    is the same for every Y: the budget holds exactly, not in the limit. Measurement noise without
    a finite variance (Cauchy, Student-t up to two degrees of freedom) is refused.

    >>> import privest as pv
    >>> model = pv.LinearModel([[1.0]] * 100, noise=pv.noise.Laplace(1.0))
    >>> gaussian = LeastSquaresRelease(model, budget=100.0)
    >>> laplace = LeastSquaresRelease(model, budget=100.0, noise=pv.noise.Laplace(1.0))
    >>> round(float(laplace.privacy[0, 0] / gaussian.privacy[0, 0]), 12)
    2.0
    """

    name = "least squares with noise"

    def __init__(
        self,
        model: LinearModel,
        budget: float,
        *,
        noise: ScalarLaw | None = None,
        shape: Shape = "trace",
        weight: ArrayLike | None = None,
        safety: float = 1.0,
    ) -> None:
        if noise is not None:
            if not np.isfinite(noise.fisher_information):
                raise InvalidInput(f"{noise!r} has infinite information: no budget allows it.")
            mean, variance = noise.mean, noise.variance
            if not (np.isfinite(variance) and abs(mean) <= 1e-9 * np.sqrt(variance)):
                raise InvalidInput(
                    f"release noise needs mean 0 and a finite variance; {noise!r} has mean "
                    f"{mean:g} and variance {variance:g}."
                )
            self.noise = noise
        super().__init__(model, budget, shape=shape, weight=weight, safety=safety)

    def _score(self) -> Score:
        if not np.isfinite(self.law.variance):
            raise InvalidInput(
                f"{self.law!r} has no finite variance: the error of least squares would be "
                "infinite. Use OptimalScoreRelease, or FixedStepsRelease."
            )
        return LinearScore(self.law)


class MaximumLikelihoodRelease(ScoreRelease):
    """The paper's algorithm (`algo:mult`): maximum likelihood on the raw data, then Gaussian noise.

        z = θ̂_ML + d,   cov d = (E l''²/(E l'')²)·D₀ ,   D₀ = (n/s)(ΣHᵀH)⁻¹ for shape="paper"

    Exists only where E l''² < ∞. For laws with kinks or jumps (Laplacian) give `bandwidth`: the
    likelihood of the density smoothed by N(0, h²) is maximised instead, with moments under the
    law itself; "best" takes the h of least loss.
    Source: `thm:rate_attainablility`. For another noise shape see `ScoreRelease`.

    >>> import privest as pv
    >>> model = pv.LinearModel([[1.0]] * 100, noise=pv.noise.Logistic(1.0))
    >>> release = MaximumLikelihoodRelease(model, budget=100.0)
    >>> release.sampling.round(12).tolist()  # 1/(K·I), I = 1/3
    [[0.03]]
    """

    name = "maximum likelihood with noise (algo:mult)"

    def __init__(
        self,
        model: LinearModel,
        budget: float,
        *,
        bandwidth: float | str | None = None,
        shape: Shape = "trace",
        weight: ArrayLike | None = None,
        safety: float = 1.0,
    ) -> None:
        if isinstance(bandwidth, str) and bandwidth != "best":
            raise InvalidInput(f"bandwidth is a number or 'best'; received {bandwidth!r}.")
        self._asked = bandwidth
        super().__init__(model, budget, shape=shape, weight=weight, safety=safety)

    @property
    def bandwidth(self) -> float | None:
        """h of the smoothed likelihood; None: the likelihood itself."""
        return getattr(self.score, "bandwidth", None)

    def _score(self) -> Score:
        if self._asked is None:
            return LikelihoodScore(self.law)
        if self._asked == "best":
            return SmoothedLikelihoodScore(self.law, best_bandwidth(self.law, self.shape.weight))
        return SmoothedLikelihoodScore(self.law, as_positive(float(self._asked), "bandwidth"))


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
