"""A recursive estimate from single bits, the rival of `fig:pprls-syms`.

The paper names its algorithm by a citation only (`wang2024asymptotically`), which we could not
read: this is recursive Fisher scoring with a projection, the type that the citation describes. It
may differ from that algorithm in weights, projection or start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.estimator.likelihood import BinaryLikelihood

NEWTON = 60  # at most so many steps of the projection's scalar equation
CLOSE = 1e-12  # how exactly a projected estimate lies on the sphere, relative


@dataclass(frozen=True, eq=False)
class QuasiNewton:
    """θ̂_k from bits z_k = 1{y_k + d_k ≤ C}, y_k = h_kᵀθ + w_k, one bit at a time.

        J_k = J_{k−1} + i(η_k) h_k h_kᵀ ,   η_k = h_kᵀθ̂_{k−1} ,   J_0 = I/spread²
        θ̂_k = Π_k( θ̂_{k−1} + J_k⁻¹ h_k ℓ'(z_k, η_k) ) ,   θ̂_0 = centre

        ℓ'(z, η) = (F − z) f/(F(1 − F)) ,   i(η) = f²/(F(1 − F)) ,   both at C − η

    F, f: distribution function and density of w + d (`likelihood`, one variance). Π_k projects onto
    ‖θ − centre‖ ≤ radius in the norm of J_k. The covariance of θ̂_k tends in simulation to the
    Cramér-Rao bound of the bits, (Σ i(h_kᵀθ) h_k h_kᵀ)⁻¹; not proved here.
    """

    likelihood: BinaryLikelihood
    centre: Array
    radius: float
    spread: float

    def follow(self, z: Array, rows: Array) -> Array:
        """θ̂_k after every bit, (T, K, n), from z (T, K) and h_k, (K, n) or (T, K, n)."""
        trials, n = len(z), len(self.centre)
        estimate = np.tile(self.centre, (trials, 1))
        information = np.tile(np.eye(n) / self.spread**2, (trials, 1, 1))
        path = np.empty((*z.shape, n))
        for k in range(z.shape[1]):  # a recursion: the trials are side by side, the steps are not
            h = np.broadcast_to(rows[..., k, :], estimate.shape)
            below, above, weight = self._terms(np.einsum("tn,tn->t", h, estimate))
            slope = np.where(z[:, k] > 0.5, below, above)
            information = information + weight[:, None, None] * h[:, :, None] * h[:, None, :]
            gain = np.linalg.solve(information, h[..., None])[..., 0]
            estimate = self.projected(estimate + gain * slope[:, None], information)
            path[:, k] = estimate
        return path

    def information(self, eta: Array) -> Array:
        """i(η) = Σ_z P(z) ℓ'(z, η)²: the information of one bit about η = hᵀθ."""
        return self._terms(eta)[2]

    def _terms(self, eta: Array) -> tuple[Array, Array, Array]:
        """ℓ'(1, η), ℓ'(0, η) and i(η)."""
        below = self.likelihood(np.ones_like(eta), eta)
        above = self.likelihood(np.zeros_like(eta), eta)
        weight = np.exp(below.value) * below.slope**2 + np.exp(above.value) * above.slope**2
        return below.slope, above.slope, weight

    def projected(self, estimate: Array, information: Array) -> Array:
        """argmin of (x − θ̂)ᵀJ(x − θ̂) over the ball, for those outside it.

        With J = QΛQᵀ and u = Qᵀ(θ̂ − centre): x_i = λ_i u_i/(λ_i + μ), ‖x‖ = radius. 1/‖x‖ is
        concave in μ, so Newton's steps from μ = 0 rise to the root and never pass it.
        """
        offset = estimate - self.centre
        outside = np.flatnonzero(np.linalg.norm(offset, axis=1) > self.radius)
        if not len(outside):
            return estimate
        values, vectors = np.linalg.eigh(information[outside])
        u = np.einsum("tij,ti->tj", vectors, offset[outside])
        mu = np.zeros(len(outside))
        for _ in range(NEWTON):
            shrunk = values * u / (values + mu[:, None])
            size = np.linalg.norm(shrunk, axis=1)
            far = np.abs(size / self.radius - 1.0) >= CLOSE
            if not far.any():
                break
            fall = (shrunk**2 / (values + mu[:, None])).sum(axis=1)  # −½ d‖x‖²/dμ
            # A trial that has arrived stays: no trial depends on the others beside it.
            mu += np.where(far, (size / self.radius - 1.0) * size**2 / fall, 0.0)
        else:
            raise NumericalFailure("the projection of an estimate onto the ball did not converge.")
        inside = estimate.copy()
        inside[outside] = self.centre + np.einsum("tij,tj->ti", vectors, shrunk)
        return inside
