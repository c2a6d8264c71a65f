"""ℓ and its gradient as functions of the working parameters."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._likelihood import log_likelihood


class Objective:
    """t ↦ ℓ(t), ∂ℓ/∂t of a family on data; counts its evaluations.

    Where a model cannot be computed (a covariance overflows) ℓ is −∞.
    """

    def __init__(self, family: Family, data: list[Data]) -> None:
        self.family, self.data, self.evaluations = family, data, 0

    def value(self, t: Array) -> float:
        """ℓ(t)."""
        matrices = self.family.matrices(t)
        return sum(log_likelihood(matrices, own) for own in self.data)

    def __call__(self, t: Array) -> tuple[float, Array]:
        """ℓ(t) and ∂ℓ/∂t (p,)."""
        self.evaluations += 1
        slope: Array = np.empty(len(t))
        for i in range(len(t)):
            step = 1e-5 * np.eye(len(t))[i]
            slope[i] = (self.value(t + step) - self.value(t - step)) / 2e-5
        return self.value(t), slope
