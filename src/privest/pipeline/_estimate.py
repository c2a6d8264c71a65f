"""What a pipeline releases: the estimate, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import Array


@dataclass(frozen=True, eq=False)
class PrivateEstimate:
    """What is released, and how good it is: nothing here depends on the readings but `estimate`.

    estimate       z = Tθ̂ + d, (r,), or (trials, r).
    sampling       covariance of Tθ̂, for large K.
    privacy        covariance of d.
    classical      T Σ_CR Tᵀ, the bound without privacy.
    private_bound  a lower bound on tr(W·MSE) for any mechanism and unbiased estimate under
                   tr I_z(Y) ≤ s (`bounds.trace_budget_bound`); attained for Gaussian noise.
    loss           tr(W·covariance), to compare with it.
    budget         s; `safety`: the noise was made for s/safety.
    """

    estimate: Array
    sampling: Array
    privacy: Array
    classical: Array
    private_bound: float
    loss: float
    budget: float
    safety: float
    method: str

    @property
    def covariance(self) -> Array:
        """sampling + privacy."""
        return self.sampling + self.privacy

    @property
    def standard_error(self) -> Array:
        """Of each entry of the estimate."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def efficiency(self) -> float:
        """private_bound/loss ≤ 1."""
        return self.private_bound / self.loss

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        plain = {name: getattr(self, name) for name in ("private_bound", "loss", "budget")}
        arrays = {
            name: getattr(self, name).tolist()
            for name in ("estimate", "sampling", "privacy", "classical", "standard_error")
        }
        return {"method": self.method, **arrays, **plain, "efficiency": self.efficiency,
                "safety": self.safety}  # fmt: skip

    def __str__(self) -> str:
        safe = f", safety {self.safety:g}" if self.safety > 1 else ""
        lines = [f"{self.method}, budget {self.budget:g}{safe}"]
        if self.estimate.ndim == 1:
            parts = zip(
                self.estimate, self.standard_error, np.diagonal(self.sampling) ** 0.5,
                np.diagonal(self.privacy) ** 0.5,
            )  # fmt: skip
            lines += [
                f"  {value:.6g} ± {error:.3g} (sampling {own:.3g}, privacy {noise:.3g})"
                for value, error, own, noise in parts
            ]
        lines.append(
            f"  loss {self.loss:.4g}, private bound {self.private_bound:.4g}, efficiency "
            f"{self.efficiency:.3f}"
        )
        return "\n".join(lines)
