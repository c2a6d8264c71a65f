"""The set-up of the paper's first experiment (`fig:ppcr`): H 10×5, five parameters.

H is drawn uniformly from [−1, 1]^{10×5}; the paper does not print its draw, ours has a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.bounds import Bound, bound
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.privacy import PrivacyLevel

THETA = np.array([0.63, 0.81, -0.75, 0.83, 0.26])
READINGS = 10
NOISE_DEVIATION = 0.2
SEED = 2025


def first_model() -> LinearModel:
    """y = Hθ + w, w ~ N(0, 0.2² I)."""
    rng = np.random.default_rng(SEED)
    matrix = rng.uniform(-1.0, 1.0, size=(READINGS, len(THETA)))
    return LinearModel(matrix, noise=Gaussian(cov=NOISE_DEVIATION**2))


def paper_levels() -> Array:
    """s = 0.1, 0.2, …, 10 in S = sI."""
    return np.arange(1, 101) / 10


@dataclass(frozen=True, eq=False)
class LevelCurve:
    """The bound against the privacy level s, S = sI."""

    levels: Array
    bounds: list[Bound]

    @property
    def traces(self) -> Array:
        """tr Σ_PPCR at each level."""
        return np.array([np.trace(b.ppcrlb) for b in self.bounds])

    @property
    def costs(self) -> Array:
        """tr (Σ_PPCR − Σ_CR) at each level."""
        return np.array([np.trace(b.privacy_cost) for b in self.bounds])

    @property
    def classical(self) -> float:
        """tr Σ_CR."""
        return float(np.trace(self.bounds[0].classical))


def level_curve(model: LinearModel, levels: Array) -> LevelCurve:
    """The bound at every level."""
    return LevelCurve(levels, [bound(model, PrivacyLevel(float(s))) for s in levels])
