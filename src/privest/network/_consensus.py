"""Every agent reaches the efficient estimate by talking to its neighbours only (`algo:average`).

**The certificate.** Averaging keeps the mean over agents (W symmetric and stochastic; Chebyshev
too), so in every round the mean lies between the least and the largest entry:

    |x_i − x̄| ≤ ω ,   |r_i − r̄| ≤ Ω      entry by entry,  ω, Ω = largest − least over agents.

With r_i = C Cᵀ, θ̂_i = r_i⁻¹x_i and θ* = r̄⁻¹x̄ the efficient estimate, e = θ̂_i − θ*:

    r̄ = C(I − M)Cᵀ ,  Cᵀe = C⁻¹(δx − δr θ̂_i) + M Cᵀe ,   ‖M‖ ≤ η = ‖ |C⁻¹| Ω |C⁻ᵀ| ‖_F
    √N ‖r̄^½ e‖ ≤ √N √(1 + η)/(1 − η) · ‖ |C⁻¹| (ω + Ω|θ̂_i|) ‖      if η < 1, else nothing is known.

The left side is the distance in standard errors of the efficient estimate, of covariance (N r̄)⁻¹,
for any sequence of links. Cholesky solves (r_i + E)θ = x_i with |E| ≤ 4(n + 1) eps |C||Cᵀ| (Higham
2002, theorem 10.4); Ω is widened by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, as_kind, as_positive
from privest.bounds import consensus_bound
from privest.errors import InvalidInput, NumericalFailure
from privest.estimator.result import Estimate
from privest.linalg import batched
from privest.network import _rounds
from privest.network._graph import AnyLinks, as_links
from privest.network._rounds import Method, Spectrum, packed, unpacked
from privest.network._sensor import Contribution, SensorRelease, not_identifiable
from privest.privacy import PrivacyLevel, as_level
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Consensus(Record):
    """Every agent's estimate when all of them are certified; `result(i)` is that of agent i.

    estimates        (N, n) or (N, trials, n).
    informations     (N, n, n): r_i, about the mean of all.
    rounds           exchanges with the neighbours.
    certified_errors  (N,) bounds on √((θ̂_i − θ*)ᵀ PI (θ̂_i − θ*)), the distance from the efficient
                     estimate in its standard errors.
    predicted_rounds  upper bound on `rounds` from the spectrum of W, up to 5%; None: not known.
    trace            (rounds + 1, …) estimates of every round (NaN until r_i,k > 0), if asked for.
    simulated        whether any agent's release was; None: not known.
    """

    estimates: Array
    informations: Array
    rounds: int
    certified_errors: Array
    method: Method
    agents: int
    predicted_rounds: int | None = None
    trace: Array | None = None
    simulated: bool | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("certified_error",)

    @property
    def certified_error(self) -> float:
        return float(self.certified_errors.max())

    def result(self, agent: int) -> Estimate:
        """The estimate of agent i: θ̂_i, with the covariance (N r_i)⁻¹ → Σ'_PPCR."""
        covariance = np.linalg.inv(self.agents * self.informations[agent])
        return Estimate(
            value=self.estimates[agent], covariance=covariance, simulated=self.simulated
        )

    def __repr__(self) -> str:
        return (
            f"Consensus({self.agents} agents, {self.rounds} {self.method} rounds, "
            f"certified to {self.certified_error:.2g} standard errors)"
        )


def consensus(
    contributions: Sequence[Contribution] | Contribution,
    graph: AnyLinks,
    *,
    method: Method | None = None,
    tolerance: float = 1e-6,
    max_rounds: int | None = None,
    trace: bool = False,
) -> Consensus:
    """Average consensus of (x_i, r_i) until every agent is certified: the efficient estimate.

        x_{i,k} = Σ_j a_ij x_{j,k−1} ,  r_{i,k} = Σ_j a_ij r_{j,k−1} ,  θ̂_{i,k} = r_{i,k}⁻¹x_{i,k}

    contributions  (x_i, r_i) of every agent, made of its release only (`Sensor.contribution`).
    graph          a Graph, a networkx graph, or `TimeVarying` links; with Metropolis weights.
    method         "plain", or "chebyshev" (the default where W is fixed): about √gap the rounds.
    tolerance      in standard errors of the efficient estimate, for every agent and trial. Double
                   precision reaches 1e-9 with a hundred agents, 1e-7 with 10⁵.
    max_rounds     the most rounds; then NumericalFailure.
    Guarantees: |θ̂_i − θ*| ≤ `certified_errors`, whatever the spectrum. `rounds` does not count the
    max-consensus of the certificate, which may run alongside.
    Raises NotIdentifiable if all sensors together do not show θ.
    Source: `algo:average`, `thm:eff/fusion` and its time-varying remark; Chebyshev is ours.
    """
    asked = as_positive(tolerance, "tolerance")
    stack, net = Contribution.stack(contributions), as_links(graph)
    if net.agents != len(stack.x):
        raise InvalidInput(f"{len(stack.x)} agents contribute, the graph is for {net.agents}.")
    way, shape = _rounds.chosen(method, net), stack.x.shape
    start = packed(stack.x.reshape(len(stack.x), -1), stack.r)
    mean = NetworkMean(start, shape)
    mean.require_reachable(asked)
    spectrum = _rounds.known_spectrum(net, way)
    predicted = None if spectrum is None else mean.predicted(asked, way, spectrum)
    limit = _rounds.most_rounds(max_rounds, predicted)
    passing, seen = _rounds.states(start, net, way, spectrum), list[Array]()
    if trace:
        passing = _traced(passing, shape, seen)

    def judge(k: int, now: Array, wide: Array) -> tuple[float, tuple[Array, Array, Array] | None]:
        apart = mean.error(wide)
        # The mean costs more than the spread: it is not looked at every time.
        if apart <= asked or predicted is None or k >= predicted:
            drift = mean.drift(now)
            mean.require_kept(mean.error(drift), asked)
        if apart > asked:
            return apart, None
        # Each agent judges by its own r_i; the common test is cheap.
        x, r = unpacked(now, shape[-1])
        x = x.reshape(len(x), -1, shape[-1])
        theta, errors = certified(x, r, *mean.parts(wide + drift))
        return float(errors.max()), (theta, r, errors)

    k, found = _rounds.certified_round(passing, mean.radius, judge, asked, limit)
    assert found is not None
    theta, r, errors = found
    return Consensus(
        estimates=theta.reshape(shape),
        informations=r,
        rounds=k,
        certified_errors=errors,
        method=way,
        agents=len(theta),
        predicted_rounds=predicted,
        trace=np.stack(seen) if trace else None,
        simulated=stack.simulated,
    )


def average(
    release: SensorRelease,
    graph: AnyLinks,
    *,
    level: PrivacyLevel | ArrayLike | None = None,
    method: Method | None = None,
    tolerance: float = 1e-6,
    max_rounds: int | None = None,
) -> Consensus:
    """The average of the agents' values with the least error that the level allows.

        x_i,0 = y_i + d_i ,  d_i ~ N(0, 1/S_i) ;   then average consensus of the x_i

    release  of the values y (N,), one for each agent, at a number or a diagonal (S_i)
             (`Sensor(np.ones((N, 1)), noise, level).simulate(y, rng)`). An agent without a value
             (NaN) passes messages on; the average is that of the others.
    level    of a release that was read from a record; the rest as in `consensus`.
    Guarantees: `estimates` (N, 1) are unbiased for (1/N)Σ y_i with the variance (v/N²)Σ 1/S_i, the
    floor of `coro:consensus` for v = 1 (a real release has v = 1 + 3g²/4), up to `tolerance`
    standard errors. I_Z(Y) = diag(S_i) for all messages of all rounds, functions of the x_j,0.
    Raises NotIdentifiable if an agent has level 0, InvalidInput for a level that is not diagonal.
    Source: `coro:consensus`; the page on networks of sensors.
    """
    as_kind(release, SensorRelease, "give the release of all agents")
    own = release.level if level is None else as_level(level)
    if own is None:
        raise InvalidInput("this release was read from a record: give its level.")
    release.require(own.fingerprint)
    agents = own.size or max(release.values.shape[-1], 1)
    matrix = own.for_size(agents)
    if matrix.pointwise is None:
        raise InvalidInput("agents draw noise of their own: the level is a number or a diagonal.")
    consensus_bound(own, agents=agents)  # 1/S_i must exist
    S = np.asarray(matrix.diagonal())
    there = ~np.isnan(np.atleast_2d(release.values))
    if not there[0].any() or not (there == there[0]).all():
        raise InvalidInput("some agent must have a value, and the same ones in all trials.")
    count = int(there[0].sum())
    variance = release.unit_variance * float(np.sum(there[0] / S)) / count**2
    r = there[0] / (count * variance)  # N r̄ = 1/variance
    x = np.where(there, np.atleast_2d(release.values) / np.sqrt(S), 0.0) * r
    x = x.T[:, 0, None] if release.values.ndim == 1 else x.T[:, :, None]
    parts = Contribution(x, r[:, None, None], release.simulated)
    return consensus(parts, graph, method=method, tolerance=tolerance, max_rounds=max_rounds)


def _traced(passing: Iterator[Array], shape: tuple[int, ...], seen: list[Array]) -> Iterator[Array]:
    """The same states; the estimates θ̂_i,k of every round, NaN until r_i,k > 0, go into `seen`."""
    for now in passing:
        x, r = unpacked(now, shape[-1])
        lower, ready = batched.cholesky_of_many(r)
        theta = batched.solve_of_many(lower, x.reshape(len(x), -1, shape[-1]))
        theta[~ready] = np.nan
        seen.append(theta.reshape(shape))
        yield now


# --- the certificate ------------------------------------------------------------------------------


def centre(values: Array) -> Array:
    """The mean over agents, summed in extended precision."""
    total = values.sum(axis=0, dtype=np.longdouble)
    return np.asarray(total / len(values), dtype=np.float64)


def radius(start: Array, mean: Array) -> Array:
    """2‖X_0 − X̄‖ by columns (d,), with a margin for rounding: no spread is ever larger."""
    far = np.linalg.norm(start - mean, axis=0)
    return np.asarray(2.0 * far * (1.0 + 1e-6) + 1e-6 * np.abs(mean))


def certified(
    x: Array, r: Array, x_spread: Array, r_spread: Array, agents: int | None = None
) -> tuple[Array, Array]:
    """Estimates (N, trials, n), certificates (N,) of the worst trial; NaN and inf: not known.

    x (N, trials, n), r (N, n, n), ω (trials, n), Ω (n, n); `agents` of the network, if not N.
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
    """x̄ and r̄ of the start X_0 (N, d), and distances in standard errors of θ* = r̄⁻¹x̄.

    Raises NotIdentifiable if all agents together do not show θ.
    """

    def __init__(self, values: Array, shape: tuple[int, ...]) -> None:
        self.shape, self.agents = shape, shape[0]
        self.mean = centre(values)
        self.radius = radius(values, self.mean)
        self.x, self.r = self.parts(self.mean)
        if not batched.cholesky_of_many(self.r[None])[1]:
            raise not_identifiable(self.r, f"all {self.agents} agents")

    def parts(self, vector: Array) -> tuple[Array, Array]:
        x, r = unpacked(vector, self.shape[-1])
        return x.reshape(-1, self.shape[-1]), r

    def error(self, spread: Array) -> float:
        return common_error(self.x, self.r, *self.parts(spread), self.agents)

    def drift(self, values: Array) -> Array:
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
        """Refuse an average that has moved: rounding alone moves it, and nothing moves it back."""
        if moved > tolerance:
            raise NumericalFailure(
                f"Rounding has moved the average over the agents by {moved:.2g} standard errors, "
                f"more than the tolerance ({tolerance:.2g}): ask for less. (It grows with the "
                "rounds, and in standard errors with the root of the number of agents.)"
            )

    def predicted(self, tolerance: float, method: Method, spectrum: Spectrum) -> int:
        """Rounds after which the bound ‖X_k − X̄‖ ≤ c_k‖X_0 − X̄‖ meets the certificate t.

        It is c a/(1 − c b) for spreads 2c‖X_0 − X̄‖, so that c = t/(a + t b).
        """
        wide = self.parts(self.radius)
        a, b = slopes(self.x, self.r, *wide, self.agents)
        factor = tolerance / (a + tolerance * b)
        return 0 if factor >= 1.0 else spectrum.rounds(method, factor)
