"""Every agent reaches the efficient estimate by talking to its neighbours only (`algo:average`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from privest.arrays import Array, Flags, Index, as_positive
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.linalg import batched
from privest.network import _averaging as averaging
from privest.network._certificate import NetworkMean, certified
from privest.network._links import AnyLinks, Links, as_links
from privest.network._sensor import Contribution, Contributions
from privest.network._spectrum import Method, Spectrum
from privest.network.agent import packed, split
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Round(Record):
    """What every agent holds after `number` rounds: x (N, n) or (N, trials, n), r (N, n, n)."""

    number: int
    x: Array
    r: Array

    @property
    def ready(self) -> Flags:
        """(N,) which agents have an estimate: r_i,k > 0."""
        return batched.cholesky_of_many(self.r)[1]

    @property
    def estimates(self) -> Array:
        """θ̂_i,k = r_i,k⁻¹x_i,k, shape of x; NaN for agents whose r_i,k is not yet > 0.

        (Chebyshev weights are negative in early rounds, so r_i,k can be indefinite.)
        """
        lower, ready = batched.cholesky_of_many(self.r)
        x = self.x if self.x.ndim == 3 else self.x[:, None]
        found = batched.solve_of_many(lower, x)
        found[~ready] = np.nan
        return found.reshape(self.x.shape)


@dataclass(frozen=True, eq=False)
class ConsensusResult(Record):
    """Every agent's estimate when all of them are certified; `result(i)` is that of agent i.

    estimates        (N, n) or (N, trials, n): row i is what agent i knows.
    rounds           exchanges with the neighbours.
    certified_errors (N,) bound on the distance of each agent's estimate from the efficient one, in
                     standard errors of the efficient one: √((θ̂_i − θ*)ᵀ PI (θ̂_i − θ*)).
    disagreement     the same for all agents and without `drift`: what comes of the spread alone.
    drift            how far the mean over agents moved, in standard errors: rounding only, unless
                     links fail one way, where it is the error of the whole network.
    method, agents   as used.
    predicted_rounds what the error bound of the method (`Spectrum`) predicts for this tolerance, an
                     upper bound up to the 5 % between two looks; None where λ_2 is not known.
    trace            (rounds + 1, …) estimates of every round (NaN until r_i,k > 0), if asked for.
    simulated        whether any agent's release was; None where nobody said.
    """

    estimates: Array
    informations: Array
    rounds: int
    certified_errors: Array
    disagreement: float
    drift: float
    method: Method
    agents: int
    predicted_rounds: int | None = None
    trace: Array | None = None
    simulated: bool | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("certified_error",)

    @property
    def certified_error(self) -> float:
        """The largest over agents."""
        return float(self.certified_errors.max())

    def result(self, agent: int) -> Result:
        """What agent i knows: θ̂_i, and for its covariance (N r_i)⁻¹ → Σ'_PPCR."""
        covariance = np.linalg.inv(self.agents * self.informations[agent])
        return Result(
            estimate=self.estimates[agent], covariance=covariance, simulated=self.simulated
        )

    def __repr__(self) -> str:
        return (
            f"ConsensusResult({self.agents} agents, {self.rounds} {self.method} rounds, "
            f"certified to {self.certified_error:.2g} standard errors)"
        )


def rounds(
    contributions: Sequence[Contribution] | Contributions,
    links: AnyLinks,
    *,
    method: Method | None = None,
    spectrum: Spectrum | None = None,
) -> Iterator[Round]:
    """The rounds of `algo:average`, one after another and without end: each agent's view of each.

    Arguments as in `consensus`.
    """
    stack, net, way, values = _prepared(contributions, links, method)
    for k, now in enumerate(averaging.states(values, net, way, spectrum)):
        yield _round(k, now.copy(), stack.x.shape)  # its memory is used again


def consensus(
    contributions: Sequence[Contribution] | Contributions,
    links: AnyLinks,
    *,
    method: Method | None = None,
    tolerance: float = 1e-6,
    spectrum: Spectrum | None = None,
    max_rounds: int | None = None,
    trace: bool = False,
) -> ConsensusResult:
    """Average consensus of (x_i, r_i) until every agent is certified: the efficient estimate.

        x_{i,k} = Σ_j a_ij x_{j,k−1} ,  r_{i,k} = Σ_j a_ij r_{j,k−1} ,  θ̂_{i,k} = r_{i,k}⁻¹x_{i,k}

    Symbols
        contributions  (x_i, r_i) of every agent, made of its release only (`Sensor.contribution`).
        links          Weights, a graph (Metropolis weights), `TimeVarying` or `Lossy`.
        method         "plain", or "chebyshev" (the default where W is fixed): same messages, about
                       √gap times the rounds.
        tolerance      in standard errors of the efficient estimate, for every agent and trial.
                       Double precision reaches 1e-9 with a hundred agents, 1e-7 with 10⁵.
        spectrum       λ_N and λ_2 of W if you know them (Chebyshev; else they are computed).
        max_rounds     give up after so many: NumericalFailure, never a silent half result.
    Guarantees: |θ̂_i − θ*| ≤ `certified_errors` (see `network._certificate`), whatever the spectrum.
    No agent has an estimate while its r_i,k is not positive definite.
    Counting: agents learn the spread that the certificate needs by max-consensus, at most
    `Graph.reach` more rounds, which may run alongside; `rounds` does not include them.
    Raises NotIdentifiable if all sensors together do not show θ.
    Cost: one product W X a round, X (N, trials·n + n(n+1)/2); θ̂ is solved for once, at the end.
    Source: `algo:average`, `thm:eff/fusion` and its time-varying remark; Chebyshev is ours.
    """
    asked = as_positive(tolerance, "tolerance")
    stack, net, way, values = _prepared(contributions, links, method)
    shape = stack.x.shape
    mean = NetworkMean(values, shape)
    mean.require_reachable(asked)
    known = averaging.known_spectrum(net, way, spectrum)
    predicted = mean.predicted(asked, way, known)
    limit = averaging.most_rounds(max_rounds, predicted, spectrum)
    values, net, order = averaging.cache_friendly(values, net)
    passing, seen = averaging.states(values, net, way, known), list[Array]()
    if trace:
        passing = _traced(passing, shape, order, seen)

    def judge(k: int, now: Array, wide: Array) -> tuple[float, ConsensusResult | None]:
        apart = mean.error(wide)
        # The mean costs more than the spread: it is not looked at every time.
        if apart <= asked or predicted is None or k >= predicted:
            drift = mean.drift(now)
            if net.keeps_average:
                mean.require_kept(mean.error(drift), asked)
        if apart > asked:
            return apart, None
        # Each agent judges by its own r_i; the common test came first because it is cheap.
        found = _result(_round(k, now, shape), mean, wide, drift, order, way)
        return found.certified_error if net.keeps_average else apart, found

    what = f"{way} rounds the estimates are"
    found = averaging.certified_round(passing, mean.radius, judge, asked, limit, what)[2]
    assert found is not None
    traced = np.stack(seen) if trace else None
    return replace(found, predicted_rounds=predicted, trace=traced, simulated=stack.simulated)


def _traced(
    passing: Iterator[Array], shape: tuple[int, ...], order: Index | None, seen: list[Array]
) -> Iterator[Array]:
    """The same states; every agent's estimates of every round go into `seen`."""
    for k, now in enumerate(passing):
        seen.append(averaging.restored(_round(k, now, shape).estimates, order))
        yield now


def _result(
    view: Round, mean: NetworkMean, wide: Array, drift: Array, order: Index | None, way: Method
) -> ConsensusResult:
    """Every agent's estimate of this round, certified from the spread and the drift."""
    x = view.x.reshape(len(view.x), -1, view.x.shape[-1])
    theta, errors = certified(x, view.r, *mean.parts(wide + drift))
    return ConsensusResult(
        estimates=averaging.restored(theta.reshape(view.x.shape), order),
        informations=averaging.restored(view.r, order),
        rounds=view.number,
        certified_errors=averaging.restored(errors, order),
        disagreement=mean.error(wide),
        drift=mean.error(drift),
        method=way,
        agents=mean.agents,
    )


def _prepared(
    contributions: Sequence[Contribution] | Contributions,
    links: AnyLinks,
    method: Method | None,
) -> tuple[Contributions, Links, Method, Array]:
    """The start X_0 (N, trials·n + n(n+1)/2): row i is what agent i sends first."""
    stack, net = Contributions.of(contributions), as_links(links)
    if net.agents != stack.agents:
        raise InvalidInput(f"{stack.agents} agents contribute, the links are for {net.agents}.")
    start = packed(stack.x.reshape(stack.agents, -1), stack.r)
    return stack, net, averaging.chosen(method, net), start


def _round(number: int, now: Array, shape: tuple[int, ...]) -> Round:
    x, r = split(now, shape[-1])
    return Round(number, x.reshape(-1, *shape[1:]), r)
