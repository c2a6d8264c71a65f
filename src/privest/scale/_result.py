"""The estimate from a table that no machine holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Fit:
    """θ̂ (n,) with cov θ̂ = (Σ_k h_kh_kᵀ/(σ_k² + 1/s_k))⁻¹, the bound of `thm:crbound`.

    names            of the coefficients.
    misfit           Σ_k (z_k − h_kᵀθ̂)²/(σ_k² + 1/s_k)/(K − n): about 1 if the model is right.
    without_privacy  (n,): what the standard errors would be without privacy noise.
    rows, dropped    used, and left out for gaps.
    level, noise_variance  as given: numbers, or names of columns.
    simulated        the noise was simulated during the fit: for experiments, no protection.
    """

    names: tuple[str, ...]
    estimate: Array
    covariance: Array
    misfit: float
    without_privacy: Array
    rows: int
    dropped: int
    level: float | str
    noise_variance: float | str
    simulated: bool

    @property
    def standard_error(self) -> Array:
        """Of each coefficient, privacy included."""
        return np.sqrt(np.diagonal(self.covariance))

    def interval(self, confidence: float = 0.95) -> Array:
        """(n, 2): the interval of each coefficient."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence must lie in (0, 1); received {confidence:g}.")
        half = scipy.special.ndtri((1 + confidence) / 2) * self.standard_error
        return np.column_stack([self.estimate - half, self.estimate + half])

    @property
    def doubt(self) -> str | None:
        """A sentence where the misfit is five standard deviations √(2/(K − n)) from 1."""
        freedom = self.rows - len(self.estimate)
        if freedom < 1 or abs(self.misfit - 1) <= 5 * np.sqrt(2 / freedom):
            return None
        word = "larger" if self.misfit > 1 else "smaller"
        return (
            f"The release scatters {self.misfit:.3g} times as much as the noise variance and the "
            f"level say ({word} than chance allows): the standard errors are not to be trusted."
        )

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {
            "names": list(self.names),
            "estimate": self.estimate.tolist(),
            "standard_error": self.standard_error.tolist(),
            "standard_error_without_privacy": self.without_privacy.tolist(),
            "confidence": confidence,
            "interval": self.interval(confidence).tolist(),
            "covariance": self.covariance.tolist(),
            "misfit": self.misfit,
            "doubt": self.doubt,
            "rows": self.rows,
            "dropped": self.dropped,
            "level": self.level,
            "noise_variance": self.noise_variance,
            "simulated": self.simulated,
        }

    def __repr__(self) -> str:
        return f"Fit({len(self.names)} coefficients from {self.rows} rows)"
