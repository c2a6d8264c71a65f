"""What a pipeline gives: the noisy estimate, its covariance, and the bound beside it."""

from __future__ import annotations

from dataclasses import dataclass

from privest.estimator import Result


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PrivateEstimate(Result):
    """What is released, and how good it is: nothing here depends on the readings but `estimate`.

    estimate       z = Tθ̂ + d, (r,), or (trials, r).
    sampling       covariance of Tθ̂, simulated for few readings, else that for large K; `privacy`:
                   of d.
    classical      T Σ_CR Tᵀ, the bound without privacy.
    private_bound  a lower bound on tr(W·MSE) for any mechanism and unbiased estimate under
                   tr I_z(Y) ≤ s (`bounds.trace_bound`); attained for Gaussian noise.
    loss           tr(W·covariance), to compare with it.
    budget         s; `safety`: the noise was made for s/safety.
    factor         loss over that for large K; 1 where that is what was taken.
    """

    private_bound: float
    loss: float
    budget: float
    safety: float
    method: str
    factor: float = 1.0

    @property
    def efficiency(self) -> float:
        """private_bound/loss ≤ 1."""
        return self.private_bound / self.loss

    def _errors_said(self) -> str:
        return ""  # the line above says the method, which is of the release and not of the errors

    def _heading(self) -> list[str]:
        safe = f", safety {self.safety:g}" if self.safety > 1 else ""
        few = "" if self.factor == 1 else f" ({self.factor:.3g} times that of many readings)"
        return [
            f"{self.method}, budget {self.budget:g}{safe}: loss {self.loss:.4g}{few}, private "
            f"bound {self.private_bound:.4g}, efficiency {self.efficiency:.3f}",
            *super()._heading(),
        ]
