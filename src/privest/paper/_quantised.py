"""A recursive estimate from single bits: quasi-Newton, efficient in the end.

The rival of `fig:pprls-syms`: one scalar correction a bit, no data kept, many independent trials
side by side. The paper names its algorithm only by a citation (`wang2024asymptotically`), which we
could not read: this is recursive Fisher scoring with a projection, the type that the citation
describes, not a transcription. It may differ from that algorithm in weights, projection or start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_positive
from privest.errors import InvalidInput, NumericalFailure
from privest.estimator.likelihood import BinaryLikelihood
from privest.linalg import root_of_rows

NEWTON = 60  # at most so many steps of the projection's scalar equation
CLOSE = 1e-12  # how exactly a projected estimate lies on the sphere, relative


@dataclass(frozen=True, eq=False)
class QuasiNewtonState:
    """After some bits, for every trial: θ̂ (T, n), P (T, n, n), and J = P⁻¹ (T, n, n)."""

    estimate: Array
    covariance: Array
    information: Array


class QuasiNewton:
    """θ̂_k from bits z_k = 1{y_k + d_k ≤ C}, y_k = h_kᵀθ + w_k, one bit at a time.

        J_k = J_{k−1} + i(η_k) h_k h_kᵀ ,   P_k = J_k⁻¹ ,   η_k = h_kᵀθ̂_{k−1}
        θ̂_k = Π_k( θ̂_{k−1} + P_k h_k ℓ'(z_k, η_k) )

        ℓ'(z, η) = (F − z) f/(F(1 − F)) ,   i(η) = f²/(F(1 − F)) ,   both at C − η

    F, f: distribution function and density of w + d. Π_k projects onto ‖θ − centre‖ ≤ radius in
    the norm of J_k.

    Symbols: `likelihood` the law of a bit (`BinaryLikelihood`, one variance for all readings);
    `parameters` = n; `centre` the first estimate, (n,), zero if left out; `radius` of the ball in
    which θ is known to lie; `spread`: P_0 = spread² I, the knowledge of θ that the start claims.
    A small spread or radius is a prior: it lowers the error near `centre` and biases it elsewhere.
    Limit: for rows that keep exciting every direction, and θ inside the ball, the covariance of
    θ̂_k is expected to tend to the Cramér-Rao bound of the bits, (Σ i(h_kᵀθ) h_k h_kᵀ)⁻¹ (`limit`).
    Seen in simulation (tests/statistics), not proved here. Nothing is said for small k: the
    information is evaluated at estimates.
    Cost: O(n³) a bit and trial, P_k being updated as a sum of squares.
    Source: ours, after the description in the paper (see the head of this file). P_k h is the
    same as P_{k−1}h/(1 + i hᵀP_{k−1}h).

    >>> from privest.noise import GaussianLaw
    >>> bits = BinaryLikelihood(0.5, law=GaussianLaw(variance=0.5))
    >>> method = QuasiNewton(bits, 1, radius=5.0)
    >>> method.follow([1.0], [[1.0]]).round(6).tolist()  # −2φ(0)/(1/100 + 2/π)
    [[-1.233932]]
    """

    def __init__(
        self,
        likelihood: BinaryLikelihood,
        parameters: int,
        *,
        radius: float,
        centre: ArrayLike | None = None,
        spread: float = 10.0,
    ) -> None:
        if not isinstance(likelihood, BinaryLikelihood):
            raise InvalidInput(
                f"likelihood must be a BinaryLikelihood; received {type(likelihood).__name__}."
            )
        if likelihood.variance.ndim:
            raise InvalidInput(
                "the quasi-Newton estimate takes bits one at a time: give the likelihood one "
                f"variance for all readings; received {likelihood.variance.size}."
            )
        if not isinstance(parameters, int | np.integer) or parameters < 1:
            raise InvalidInput("parameters must be a whole number ≥ 1: the length of θ.")
        self.likelihood, self.parameters = likelihood, int(parameters)
        self.radius, self.spread = as_positive(radius, "radius"), as_positive(spread, "spread")
        given = np.zeros(self.parameters) if centre is None else centre
        self.centre = as_array(given, "centre", ndim=1)
        if len(self.centre) != self.parameters:
            raise InvalidInput(
                f"centre must have length {self.parameters}; received {len(self.centre)}."
            )

    def start(self, trials: int) -> QuasiNewtonState:
        """Before the first bit: θ̂_0 = centre, P_0 = spread² I."""
        if trials < 1:
            raise InvalidInput(f"trials must be at least 1; received {trials}.")
        shape = (trials, self.parameters, self.parameters)
        unit = np.broadcast_to(np.eye(self.parameters), shape)
        estimate = np.tile(self.centre, (trials, 1))
        return QuasiNewtonState(estimate, self.spread**2 * unit, unit / self.spread**2)

    def step(self, state: QuasiNewtonState, z: Array, h: Array) -> QuasiNewtonState:
        """One more bit for every trial: z (T,), its row h (n,), or (T, n) where trials differ."""
        rows = np.broadcast_to(h, state.estimate.shape)
        eta = np.einsum("tn,tn->t", rows, state.estimate)
        below, above, weight = self._terms(eta)
        slope = np.where(z > 0.5, below, above)
        gain = np.einsum("tij,tj->ti", state.covariance, rows)
        gain /= (1.0 + weight * np.einsum("tn,tn->t", rows, gain))[:, None]  # P_k h
        half = np.sqrt(weight)[:, None]
        information = state.information + (half * rows)[:, :, None] * (half * rows)[:, None, :]
        # P_k = (I − i P_k h hᵀ) P_{k−1} (…)ᵀ + i P_k h hᵀ P_k: a sum of squares, never negative.
        keep = np.eye(self.parameters) - (weight[:, None] * gain)[:, :, None] * rows[:, None, :]
        covariance = keep @ state.covariance @ keep.transpose(0, 2, 1)
        covariance += (half * gain)[:, :, None] * (half * gain)[:, None, :]
        moved = state.estimate + gain * slope[:, None]
        return QuasiNewtonState(self._inside(moved, information), covariance, information)

    def follow(self, z: ArrayLike, rows: ArrayLike) -> Array:
        """θ̂_k after every bit, (T, K, n): z is (T, K), or (K,) for one trial (then (K, n)).

        `rows` are the h_k, (K, n) for all trials or (T, K, n).
        """
        bits, H = as_array(z, "z", ndim=(1, 2)), as_array(rows, "the rows of H", ndim=(2, 3))
        many = np.atleast_2d(bits)
        trials, count = many.shape
        allowed = {(count, self.parameters), (trials, count, self.parameters)}
        if H.shape not in allowed:
            raise InvalidInput(
                f"the rows of H must have shape {(count, self.parameters)} or "
                f"{(trials, count, self.parameters)}; received {H.shape}."
            )
        if not ((many == 0) | (many == 1)).all():
            raise InvalidInput("z must hold bits, 0 or 1.")
        state, path = self.start(trials), np.empty((trials, count, self.parameters))
        for k in range(count):  # a recursion: the trials are side by side, the steps are not
            state = self.step(state, many[:, k], H[..., k, :])
            path[:, k] = state.estimate
        return path[0] if bits.ndim == 1 else path

    def information(self, eta: ArrayLike) -> Array:
        """i(η) = Σ_z P(z) ℓ'(z, η)²: what one bit says about η = hᵀθ."""
        return self._terms(as_array(eta, "eta"))[2]

    def limit(self, theta: ArrayLike, rows: ArrayLike) -> Array:
        """(Σ_k i(h_kᵀθ) h_k h_kᵀ)⁻¹, (n, n): the Cramér-Rao bound of these bits, for simulations.

        It needs θ: nobody who has only the bits can compute it. Raises NotIdentifiable.
        """
        H, vector = as_array(rows, "the rows of H", ndim=2), as_array(theta, "theta", ndim=1)
        if H.shape[1] != self.parameters or len(vector) != self.parameters:
            raise InvalidInput(
                f"rows and theta must have {self.parameters} columns; received shapes {H.shape} "
                f"and {vector.shape}."
            )
        weight = self.information(H @ vector)
        return root_of_rows(np.sqrt(weight)[:, None] * H).inverse()

    def _terms(self, eta: Array) -> tuple[Array, Array, Array]:
        """ℓ'(1, η), ℓ'(0, η) and i(η)."""
        below = self.likelihood(np.ones_like(eta), eta)
        above = self.likelihood(np.zeros_like(eta), eta)
        weight = np.exp(below.value) * below.slope**2 + np.exp(above.value) * above.slope**2
        return below.slope, above.slope, weight

    def _inside(self, estimate: Array, information: Array) -> Array:
        """argmin of (x − θ̂)ᵀJ(x − θ̂) over the ball, for those outside it.

        With J = QΛQᵀ and u = Qᵀ(θ̂ − centre): x_i = λ_i u_i/(λ_i + μ), ‖x‖ = radius. 1/‖x‖ is a
        concave function of μ, so Newton's steps from μ = 0 rise to the root and never pass it.
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
            # Who has arrived stays: no trial depends on the others beside it.
            mu += np.where(far, (size / self.radius - 1.0) * size**2 / fall, 0.0)
        else:
            raise NumericalFailure("the projection of an estimate onto the ball did not converge.")
        inside = estimate.copy()
        inside[outside] = self.centre + np.einsum("tij,tj->ti", vectors, shrunk)
        return inside
