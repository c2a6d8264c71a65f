"""ℓ and its gradient as functions of the working parameters."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._likelihood import log_likelihood, value_and_gradient
from privest.dynamics._identification._matrices import along
from privest.errors import NumericalFailure


class Objective:
    """t ↦ ℓ(t), ∂ℓ/∂t of a family on data; counts its evaluations.

    Where a model cannot be computed (a covariance overflows) ℓ is −∞.
    """

    def __init__(self, family: Family, data: list[Data]) -> None:
        self.family, self.data, self.evaluations = family, data, 0

    def value(self, t: Array) -> float:
        """ℓ(t)."""
        matrices = self.family.matrices(t)
        try:
            return sum(log_likelihood(matrices, own) for own in self.data)
        except NumericalFailure:
            return -np.inf

    def __call__(self, t: Array) -> tuple[float, Array]:
        """ℓ(t) and ∂ℓ/∂t (p,)."""
        self.evaluations += 1
        matrices, slopes = self.family.matrices(t), self.family.slopes(t)
        total, slope = 0.0, np.zeros(len(t))
        for own in self.data:
            try:
                value, gradient = value_and_gradient(matrices, own)
            except NumericalFailure:
                return -np.inf, np.zeros(len(t))
            total, slope = total + value, slope + along(gradient, slopes)
        return total, slope
