"""The baseline: least squares, or the average, with noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.noise import ScalarLaw
from privest.pipeline._release import ScoreRelease
from privest.pipeline._score import LinearScore, Score
from privest.pipeline._shape import Shape


class LeastSquaresRelease(ScoreRelease):
    """The baseline: least squares (for H = 1 the average) with Gaussian or other noise.

    `noise`: the law of the release noise, scaled to the same budget: a Laplacian of the same
    information has twice the variance of a Gaussian (averaging as in Cai et al.). Its information
    is the same for every Y: the budget holds exactly, not in the limit.

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
        return LinearScore(self.law)
