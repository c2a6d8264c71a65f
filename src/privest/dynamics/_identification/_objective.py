"""ℓ and its gradient as functions of the working parameters."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.dynamics._releases import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._kalman import log_likelihood, value_and_gradient
from privest.dynamics._steps import along
from privest.errors import NumericalFailure


class Objective:
    """t ↦ ℓ(t), ∂ℓ/∂t of a family on data; counts its evaluations.

    Where a model cannot be computed (a covariance overflows) ℓ is −∞: no search stays there.
    """

    def __init__(self, family: Family, data: list[Data]) -> None:
        self.family, self.data, self.evaluations = family, data, 0

    def value(self, t: Array) -> float:
        """ℓ(t)."""
        self.evaluations += 1
        try:
            matrices = self.family.matrices(t)
            return sum(log_likelihood(matrices, own) for own in self.data)
        except NumericalFailure:
            return -math.inf

    def __call__(self, t: Array) -> tuple[float, Array]:
        """ℓ(t) and ∂ℓ/∂t (p,)."""
        self.evaluations += 1
        total, slope = 0.0, np.zeros(len(t))
        try:
            matrices, slopes = self.family.matrices(t), self.family.slopes(t)
            for own in self.data:
                value, gradient = value_and_gradient(matrices, own)
                total += value
                slope += along(gradient, slopes)
        except NumericalFailure:
            return -math.inf, np.zeros(len(t))
        return total, slope
