"""The error of an estimate from few readings, by simulation from the public model.

    E (θ̂−θ)(θ̂−θ)ᵀ = C + E[(θ̂−θ)(θ̂−θ)ᵀ − ℓℓᵀ] ,   ℓ = (E ψ' HᵀH)⁻¹ Σ ψ(w_k) H_kᵀ

C = E ℓℓᵀ is the limit for large K, exact for ℓ at every K. Only the difference is simulated: it is
small where the limit is nearly right, and so is its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.records import Record

if TYPE_CHECKING:
    from privest.pipeline._release import ScoreRelease

ENTRIES = 2**21  # readings simulated at a time


@dataclass(frozen=True, eq=False)
class FiniteLoss(Record):
    """The loss at this number of readings.

    sampling        (r, r): E of the squared error of Tθ̂, bias included, simulated.
    loss            tr W(sampling + privacy); `standard_error`: of its simulation.
    limit           the loss for large K.
    data_sets       simulated; `without`: how many of them had no estimate, and are left out.
    """

    sampling: Array
    loss: float
    standard_error: float
    limit: float
    data_sets: int
    without: int

    DERIVED: ClassVar[tuple[str, ...]] = ("factor",)

    @property
    def factor(self) -> float:
        """loss/limit: how many times the error for large K."""
        return self.loss / self.limit


def finite_loss(release: ScoreRelease, rng: np.random.Generator, data_sets: int) -> FiniteLoss:
    """Simulate so many data sets; θ does not matter, as the estimates are equivariant."""
    H, design, score = release.model.matrix, release.design, release.score
    targets, loss = release.shape.targets, release.shape.loss
    some = max(1, ENTRIES // len(H))
    gains, squares, used = np.zeros((len(targets), len(targets))), [], 0
    for at in range(0, data_sets, some):
        y = release.law.sample((min(some, data_sets - at), len(H)), rng)
        found = release.solve(y)
        y, theta = y[found.converged], found.theta[found.converged] @ targets.T
        linear = design.back(design.whitened(score.value(y) @ H)) / score.moments.slope
        linear = linear @ targets.T
        gains += theta.T @ theta - linear.T @ linear
        squares.append(
            np.einsum("ti,ij,tj->t", theta, loss, theta)
            - np.einsum("ti,ij,tj->t", linear, loss, linear)
        )
        used += len(theta)
    if used < 2:
        raise NumericalFailure(
            f"none of {data_sets} simulated data sets has an estimate: the law and H do not go "
            "together, or there are too few readings."
        )
    sampling = release.limit_sampling + gains / used
    return FiniteLoss(
        sampling=sampling,
        loss=float(np.sum(loss * (sampling + release.privacy))),
        standard_error=float(np.concatenate(squares).std() / np.sqrt(used)),
        limit=release.limit_loss,
        data_sets=data_sets,
        without=data_sets - used,
    )
