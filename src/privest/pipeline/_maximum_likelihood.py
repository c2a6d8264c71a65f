"""The paper's algorithm for non-Gaussian noise (`algo:mult`)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from privest.arrays import as_positive
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.pipeline._likelihood_score import (
    LikelihoodScore,
    SmoothedLikelihoodScore,
    best_bandwidth,
)
from privest.pipeline._release import ScoreRelease
from privest.pipeline._score import Score
from privest.pipeline._shape import Shape


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
