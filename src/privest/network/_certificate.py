"""How far an agent's estimate can be from the efficient one, from what agents can know.

Averaging keeps the mean over agents (W symmetric and stochastic; Chebyshev too), so in every round
and every coordinate the mean lies between the least and the largest entry:

    |x_i − x̄| ≤ ω ,   |r_i − r̄| ≤ Ω      entry by entry,  ω, Ω = largest − least over agents.

With r_i = C Cᵀ, θ̂_i = r_i⁻¹x_i and θ* = r̄⁻¹x̄ the efficient estimate, e = θ̂_i − θ*:

    r̄ = C(I − M)Cᵀ ,  Cᵀe = C⁻¹(δx − δr θ̂_i) + M Cᵀe ,   ‖M‖ ≤ η = ‖ |C⁻¹| Ω |C⁻ᵀ| ‖_F
    √N ‖r̄^½ e‖ ≤ √N √(1 + η)/(1 − η) · ‖ |C⁻¹| (ω + Ω|θ̂_i|) ‖      if η < 1, else nothing is known.

The left side is the distance in standard errors of the efficient estimate (its covariance is
(N r̄)⁻¹): no units, no spectrum of W, any sequence of links. Agents learn ω and Ω by min- and
max-consensus (`agent.extremes_step`), exactly, in at most `Graph.reach` rounds.
The solution itself is rounded: Cholesky solves (r_i + E)θ = x_i with |E| ≤ 4(n + 1) eps |C||Cᵀ|
(Higham 2002, theorem 10.4), and Ω is widened by that.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import EPS, Array
from privest.errors import NotIdentifiable, NumericalFailure
from privest.linalg import batched
from privest.linalg.tolerances import rank_tolerance
from privest.network._spectrum import Method, Spectrum
from privest.network.agent import split


def spread(values: Array) -> Array:
    """Largest minus least over agents, (d,)."""
    return np.asarray(values.max(axis=0) - values.min(axis=0))


def centre(values: Array) -> Array:
    """The mean over agents, summed in extended precision: the yardstick of what rounding moved."""
    total = values.sum(axis=0, dtype=np.longdouble)
    return np.asarray(total / len(values), dtype=np.float64)


def radius(start: Array, mean: Array) -> Array:
    """2‖X_0 − X̄‖, column by column (d,), with room for rounding: no spread is ever larger."""
    far = np.linalg.norm(start - mean, axis=0)
    return np.asarray(2.0 * far * (1.0 + 1e-6) + 1e-6 * np.abs(mean))


def certified(
    x: Array, r: Array, x_spread: Array, r_spread: Array, agents: int | None = None
) -> tuple[Array, Array]:
    """Every agent's estimate (N, trials, n) and its certificate (N,), the largest over trials.

    NaN and inf where nothing is known yet. x (N, trials, n), r (N, n, n); x_spread ω (trials, n),
    r_spread Ω (n, n). For one agent alone: N = 1 and `agents` the number of agents of the network.
    """
    count = len(x) if agents is None else agents
    lower, ready = batched.cholesky_of_many(r)
    theta = batched.solve_of_many(lower, x)
    size = np.abs(batched.triangular_inverse_of_many(lower))
    turned = size.swapaxes(-1, -2)
    wide = r_spread + _solution_rounding(lower)
    moved = x_spread + np.abs(theta) @ wide
    length = np.linalg.norm(moved @ turned, axis=-1).max(axis=-1)
    eta = np.linalg.norm(size @ wide @ turned, axis=(-2, -1))
    known = ready & (eta < 1.0)
    shrink = np.where(known, 1.0 - eta, 1.0)
    errors = np.sqrt(count) * np.sqrt(1.0 + eta) / shrink * length
    theta[~ready] = np.nan
    return theta, np.where(known, errors, np.inf)


def common_error(x: Array, r: Array, x_spread: Array, r_spread: Array, agents: int) -> float:
    """The same for all agents at once, from the mean: x (trials, n), r (n, n) positive definite.

        √N ‖r̄^½ e‖ ≤ √N ‖ |C⁻¹| (ω + Ω|θ*|) ‖ / (1 − η) ,   r̄ = C Cᵀ

    One small factorisation instead of N: the simulation looks at this before it asks every agent.
    """
    rounded = _solution_rounding(np.linalg.cholesky(r))
    length, eta = slopes(x, r, x_spread, r_spread + rounded, agents)
    return length / (1.0 - eta) if eta < 1.0 else float("inf")


def slopes(
    x: Array, r: Array, x_spread: Array, r_spread: Array, agents: int
) -> tuple[float, float]:
    """(√N ‖ |C⁻¹| (ω + Ω|θ*|) ‖, η): both are proportional to the spreads."""
    inverse = np.linalg.inv(np.linalg.cholesky(r))
    size = np.abs(inverse)
    theta = (x @ inverse.T) @ inverse
    moved = x_spread + np.abs(theta) @ r_spread
    length = np.sqrt(agents) * np.linalg.norm(moved @ size.T, axis=-1).max()
    return float(length), float(np.linalg.norm(size @ r_spread @ size.T))


def _solution_rounding(lower: Array) -> Array:
    """4(n + 1) eps |C||Cᵀ|."""
    size = np.abs(lower)
    return np.asarray(4.0 * (lower.shape[-1] + 1) * EPS * size @ size.swapaxes(-1, -2))


class NetworkMean:
    """What a simulation knows and agents do not: the mean over all agents, and distances from it.

    x̄ and r̄ of the start X_0 (N, d); distances in standard errors of θ* = r̄⁻¹x̄.

    Raises NotIdentifiable if all agents together do not show θ.
    """

    def __init__(self, values: Array, shape: tuple[int, ...]) -> None:
        self.shape, self.agents = shape, shape[0]
        self.mean = centre(values)
        self.radius = radius(values, self.mean)
        self.x, self.r = self.parts(self.mean)
        if not batched.cholesky_of_many(self.r[None])[1]:
            raise _hidden(self.r, self.agents)

    def parts(self, vector: Array) -> tuple[Array, Array]:
        """(trials, n) and (n, n) of one vector (d,)."""
        x, r = split(vector, self.shape[-1])
        return x.reshape(-1, self.shape[-1]), r

    def error(self, spread: Array) -> float:
        """The certificate that all agents share, for entries within `spread` (d,) of the mean."""
        return common_error(self.x, self.r, *self.parts(spread), self.agents)

    def drift(self, values: Array) -> Array:
        """How far the mean over agents has moved since the start, (d,)."""
        return np.abs(centre(values) - self.mean)

    def require_reachable(self, tolerance: float) -> None:
        """Refuse a tolerance that the rounding of r⁻¹x alone exceeds."""
        floor = self.error(np.zeros_like(self.mean))
        if floor > tolerance / 2:
            raise NumericalFailure(
                f"Rounding alone is {floor:.2g} standard errors here: ask for a tolerance above "
                f"{2 * floor:.1g} (received {tolerance:.2g})."
            )

    def require_kept(self, moved: float, tolerance: float) -> None:
        """The average of links that keep it moves by rounding only, and never comes back."""
        if moved > tolerance:
            raise NumericalFailure(
                f"Rounding has moved the average over the agents by {moved:.2g} standard errors, "
                f"more than the tolerance ({tolerance:.2g}): ask for less. (It grows with the "
                "rounds, and in standard errors with the root of the number of agents.)"
            )

    def predicted(self, tolerance: float, method: Method, spectrum: Spectrum | None) -> int | None:
        """Rounds after which the bound ‖X_k − X̄‖ ≤ c_k‖X_0 − X̄‖ alone meets the certificate.

        The spread of a coordinate is at most 2‖X_k − X̄‖; for spreads 2c‖X_0 − X̄‖ the certificate
        is c a/(1 − c b), so that c = t/(a + t b) meets a tolerance t. None without a spectrum.
        """
        if spectrum is None:
            return None
        wide = self.parts(self.radius)
        a, b = slopes(self.x, self.r, *wide, self.agents)
        factor = tolerance / (a + tolerance * b) if a > 0 else 1.0
        return 0 if factor >= 1.0 else spectrum.rounds(method, factor)


def _hidden(r: Array, agents: int) -> NotIdentifiable:
    diagonal = np.diagonal(r)
    unit = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    values, vectors = np.linalg.eigh(r * unit[:, None] * unit)
    hidden = values <= rank_tolerance(len(r))
    hidden[0] = True
    return NotIdentifiable(
        f"all {agents} agents together show {len(r) - int(hidden.sum())} of {len(r)} directions of "
        "θ (better than 1e-11 of the others).",
        np.linalg.qr(vectors[:, hidden] * unit[:, None])[0],
    )
