"""What a fit found: the parameters, how well they are known, and the floor under their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privest.arrays import Array
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._objective import Objective
from privest.estimator.result import Result


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fit(Result):
    """Maximum likelihood of a family from releases alone.

    estimate, covariance   θ̂ in natural parameters, and from −∇²ℓ (infinite where ℓ is flat).
    log_likelihood         of the releases, at θ̂.
    working                t̂ with θ̂ = natural(t̂), unbounded.
    steps, observations    K, and how many numbers were released.
    converged              the maximum is within 1e-4 standard errors.
    exposure               λmax(S̄): what the releases show of a direction in which many readings
                           move together; larger than the level of a reading where they look back.
    """

    family: Family
    log_likelihood: float
    working: Array
    curvature: Array
    steps: int
    observations: int
    converged: bool
    evaluations: int
    exposure: float
    _objective: Objective

    DERIVED: ClassVar[tuple[str, ...]] = Result.DERIVED

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.names, self.estimate))
        return f"Fit({self.family!r}: {found})"
