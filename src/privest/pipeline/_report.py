"""Private exposure and public error of an output perturbation.

    I_z(Y) = JᵀTᵀD⁻¹TJ ,   J = ∂θ̂/∂Y ,   for Gaussian noise of covariance D on Tθ̂

tr I_z(Y) is a function of the private measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.pipeline._score import Score

if TYPE_CHECKING:
    from privest.pipeline._perturbation import OutputPerturbation

ENTRIES = 2**21  # measurements simulated at a time


@dataclass(frozen=True, eq=False)
class OwnerReport:
    """Private: for the data owner only. Printing it shows no number; it has no `to_dict`.

    estimate   θ̂ before noise.
    realised   tr I_z(Y) of the release at these measurements.
    worst      max_k [I_z(Y)]_kk, of the most exposed measurement; the budget is on the sum.
    budget     s.
    """

    estimate: Array
    realised: float
    worst: float
    budget: float

    def __repr__(self) -> str:
        return "OwnerReport(private: read its fields, do not release them)"

    @property
    def ratio(self) -> float:
        """tr I_z(Y)/s: above 1 for about half of all data sets."""
        return self.realised / self.budget


def owner_report(own: OutputPerturbation, y: Array, theta: Array) -> OwnerReport:
    J, precision = own.jacobian(y[None], theta[None])[0], _precision(own)
    each = np.einsum("ik,ik->k", J, precision @ J)
    return OwnerReport(theta, float(each.sum()), float(each.max()), own.budget)


def root_jacobian(score: Score, H: Array, residual: Array) -> Array:
    """∂θ̂/∂Y = (Hᵀdiag(ψ')H)⁻¹Hᵀdiag(ψ') of roots, (trials, n, K); residuals (trials, K)."""
    rows = H.T * score.slope(residual)[:, None, :]
    curvature = rows @ H
    curvature[np.linalg.eigvalsh(curvature)[:, 0] <= 0] = np.eye(H.shape[1])
    return np.asarray(np.linalg.inv(curvature) @ rows)


def simulated_ratios(own: OutputPerturbation, rng: np.random.Generator, data_sets: int) -> Array:
    """tr I_z(Y)/s of data sets drawn from the public model, of any θ; NaN without an estimate."""
    H, precision = own.model.matrix, _precision(own)
    some = max(1, ENTRIES // H.size)
    parts = []
    for at in range(0, data_sets, some):
        y = own.law.sample((min(some, data_sets - at), len(H)), rng)
        found = own.solve(y)
        J = own.jacobian(y, np.where(found.converged[:, None], found.theta, 0.0))
        ratio = np.einsum("tik,tik->t", J, precision @ J) / own.budget
        parts.append(np.where(found.converged, ratio, np.nan))
    return np.concatenate(parts)


def _precision(own: OutputPerturbation) -> Array:
    targets = own.shape.targets
    return np.asarray(targets.T @ np.linalg.solve(own.information_scale, targets))


class FiniteLoss(NamedTuple):
    """The loss at this number of measurements, simulated from the public model.

        E (θ̂−θ)(θ̂−θ)ᵀ = C + E[(θ̂−θ)(θ̂−θ)ᵀ − ℓℓᵀ] ,   ℓ = (E ψ' HᵀH)⁻¹ Σ ψ(w_k) H_kᵀ

    C = E ℓℓᵀ is the limit for large K; only the difference is simulated.

    sampling  (r, r): E of the squared error of Tθ̂, bias included.
    loss      tr W(sampling + privacy); `standard_error`: of its simulation; factor: over the limit.
    """

    sampling: Array
    loss: float
    standard_error: float
    factor: float


def finite_loss(own: OutputPerturbation, rng: np.random.Generator, data_sets: int) -> FiniteLoss:
    H, design, score = own.model.matrix, own.design, own.score
    targets, loss = own.shape.targets, own.shape.loss
    some = max(1, ENTRIES // len(H))
    gains, squares, used = np.zeros((len(targets), len(targets))), [], 0
    for at in range(0, data_sets, some):
        y = own.law.sample((min(some, data_sets - at), len(H)), rng)
        found = own.solve(y)
        y, theta = y[found.converged], found.theta[found.converged] @ targets.T
        linear = design.back(design.whitened(score(y) @ H)) / score.moments.slope
        linear = linear @ targets.T
        gains += theta.T @ theta - linear.T @ linear
        squares.append(
            np.einsum("ti,ij,tj->t", theta, loss, theta)
            - np.einsum("ti,ij,tj->t", linear, loss, linear)
        )
        used += len(theta)
    if used < 2:
        raise NumericalFailure(
            f"none of {data_sets} simulated data sets has an estimate: H does not suit the noise "
            "distribution, or there are too few measurements."
        )
    sampling = own.limit_sampling + gains / used
    total = float(np.sum(loss * (sampling + own.privacy)))
    error = float(np.concatenate(squares).std() / np.sqrt(used))
    return FiniteLoss(sampling, total, error, total / own.limit_loss)
