"""Private average consensus that attains `coro:consensus`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_choice, as_number, as_positive
from privest.bounds import consensus_bound
from privest.errors import InvalidInput
from privest.mechanism import GaussianMechanism
from privest.mechanism.rows import real_numbers
from privest.mechanism.source import Source, as_protected, as_source
from privest.network import _rounds
from privest.network._consensus import centre, radius
from privest.network._graph import AnyLinks, as_links
from privest.network._rounds import METHODS, Method
from privest.privacy import PrivacyLevel, as_level
from privest.reading import read_count
from privest.release import Release, extra_variance


@dataclass(frozen=True, eq=False)
class PrivateAverage(Release):
    """The value of every agent at the end, (N,) or (trials, N), and what was promised.

    variance         (v/N²)Σ 1/S_i: the mean-square error around the true average. v is 1 for a
                     simulation: the floor of `coro:consensus` in its joint form, attained exactly;
                     1 + 3g²/4 for a real release (`unit_variance`).
    fingerprint      of S = diag(S_i) ≥ I_Z(Y), all messages of all rounds together.
    rounds, certified_error   as in Consensus; the error in units of √variance.
    """

    KIND: ClassVar[str] = "private average"
    NDIM: ClassVar[tuple[int, ...]] = (1, 2)

    values: Array
    fingerprint: str
    simulated: bool
    variance: float
    rounds: int
    certified_error: float
    method: Method
    grid: float = 0.0

    ON_GRID: ClassVar[bool] = False  # averages of what is

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        record = super()._checked(record)
        as_array(record["values"], "the values of a private average")
        record["rounds"] = read_count(record["rounds"], "rounds")
        as_choice(record["method"], METHODS, "method")
        record["variance"] = as_positive(record["variance"], "variance")
        record["certified_error"] = as_number(record["certified_error"], "certified_error")
        if record["certified_error"] < 0 or not record["values"].size:
            raise InvalidInput("a private average has values, and a certified error ≥ 0.")
        return record


def private_average(
    y: ArrayLike,
    level: PrivacyLevel | ArrayLike,
    graph: AnyLinks,
    rng: np.random.Generator | Source,
    *,
    method: Method | None = None,
    tolerance: float = 1e-6,
    max_rounds: int | None = None,
) -> PrivateAverage:
    """The average of the agents' values with the least error that the level allows, simulated.

        x_i,0 = y_i + d_i ,  d_i ~ N(0, 1/S_i) once ;   then exact averaging of the x_i

    Guarantees: E x = (1/N)Σ y_i and E(x − (1/N)Σ y_i)² = (1/N²)Σ 1/S_i at every agent (up to
    `tolerance` standard errors). I_Z(Y) = diag(S_i): every later message is a function of the
    x_j,0, so a whole run costs no more than the first message. Every run and every trial draws
    new noise: each costs diag(S_i), two runs on the same y cost 2 diag(S_i).
    The floor is meant jointly, I_Z(Y) ≤ diag(S_i). Under per-agent constraints [I_Z(Y)]_ii ≤ S_i
    alone it is not a floor: correlated (secretly shared) noise beats it by up to a factor N.
    Symbols: y (N,) or (trials, N); `level` a number or a diagonal (independent agents).
    Raises NotIdentifiable if an agent has level 0, InvalidInput for a level that is not diagonal.
    Source: `coro:consensus`; docs/networks.md. `release_average` is the real one.
    """
    given, S, source = (
        as_array(y, "the agents' values", ndim=(1, 2)),
        as_level(level),
        as_source(rng),
    )
    run = _Run(graph, given.shape[-1], method, tolerance, max_rounds)
    mechanism, root = _mechanism(S, given.shape[-1], None)
    return run.average(mechanism.simulate(given, source) / root, S, source)


def release_average(
    y: ArrayLike,
    level: PrivacyLevel | ArrayLike,
    graph: AnyLinks,
    source: Source | None = None,
    *,
    range: tuple[float, float] | None = None,
    method: Method | None = None,
    tolerance: float = 1e-6,
    max_rounds: int | None = None,
) -> PrivateAverage:
    """The private average (`private_average`) with protected noise; it has no seed.

    I_Z(Y) ≤ diag(S_i) literally; the error is v/N² Σ 1/S_i, v = 1 + 3·2⁻²² (discrete noise and
    rounding). With `mechanism.source.Kept(path)` for the source the x_i,0 are on disk before the
    first round, and a run after one that failed begins with the same: both cost diag(S_i) once.
    Nothing is refused because of a value: beyond the public `range` it is clipped; an agent
    without a value (NaN, public) passes messages on, and the average is that of the others; where
    a value is so large that rounding keeps the rounds from `tolerance`, `certified_error` says how
    far they came. Refused: no agent has a value.
    """
    given, S, protected = _values(y), as_level(level), as_protected(source)
    if np.isnan(given).all(axis=-1).any():
        raise InvalidInput("no agent has a value: there is no average.")
    run = _Run(graph, given.shape[-1], method, tolerance, max_rounds)
    mechanism, root = _mechanism(S, given.shape[-1], range)
    return run.average(mechanism.release(given, protected) / root, S, protected)


class _Run:
    """How the agents average: checked before any noise is drawn."""

    def __init__(
        self, graph: AnyLinks, count: int, method: Method | None, tolerance: float,
        max_rounds: int | None,
    ) -> None:  # fmt: skip
        self.tolerance, self.net = as_positive(tolerance, "tolerance"), as_links(graph)
        if self.net.agents != count:
            raise InvalidInput(f"{count} agents have a value, the graph is for {self.net.agents}.")
        self.way, self.max_rounds = _rounds.chosen(method, self.net), max_rounds

    def average(self, first: Array, level: PrivacyLevel, source: Source) -> PrivateAverage:
        """From x_i,0 (N,) or (trials, N), NaN where an agent has no value."""
        net, way = self.net, self.way
        weight, variance = _of_those_there(first, level)
        variance *= 1.0 + extra_variance(source.grid)
        unit = float(np.sqrt(variance))
        start = np.where(np.isnan(first), 0.0, first * weight).reshape(-1, net.agents).T
        start, net, order = _rounds.cache_friendly(np.ascontiguousarray(start), net)
        mean = centre(start)
        reach = radius(start, mean)
        known = _rounds.known_spectrum(net, way)
        predicted = None
        if known is not None:  # the spread is at most 2‖x_k − x̄‖
            factor = min(self.tolerance * unit / float(reach.max()), 0.5) if reach.any() else 0.5
            predicted = known.rounds(way, factor)
        limit = _rounds.most_rounds(self.max_rounds, predicted)

        def judge(_: int, now: Array, wide: Array) -> tuple[float, Array]:
            return float((wide + np.abs(centre(now) - mean)).max() / unit), now

        passing = _rounds.states(start, net, way, known)
        k, error, now = _rounds.certified_round(
            passing, reach, judge, self.tolerance, limit, f"{way} rounds the average is",
            insist=source.simulated,
        )  # fmt: skip
        values = _rounds.restored(now, order).T.reshape(first.shape)
        return PrivateAverage(
            values, level.fingerprint, source.simulated, variance, k, error, way, source.grid
        )


def _of_those_there(first: Array, level: PrivacyLevel) -> tuple[Array | float, float]:
    """N over the number of agents that have a value, (trials, 1), and the variance of their mean.

    Of several trials the largest variance.
    """
    agents = first.shape[-1]
    least = consensus_bound(level, agents=agents)
    there = ~np.isnan(first)
    if there.all():
        return 1.0, least
    count = there.sum(axis=-1, keepdims=True)
    spread = (there / _diagonal(level, agents)).sum(axis=-1, keepdims=True) / count**2
    return agents / count, float(spread.max())


def _values(y: ArrayLike) -> Array:
    """The agents' values (N,) or (trials, N) as they are."""
    given = real_numbers(y)
    if given.ndim not in (1, 2) or given.size == 0:
        raise InvalidInput(
            f"the agents' values are (N,) or (trials, N); received shape {given.shape}."
        )
    return given


def _mechanism(
    level: PrivacyLevel, count: int, range: tuple[float, float] | None
) -> tuple[GaussianMechanism, Array]:
    """What every agent's value goes through, and √S_i (N,)."""
    root = np.sqrt(_diagonal(level, count))
    return GaussianMechanism(level, count, range=range), root


def _diagonal(level: PrivacyLevel, count: int) -> Array:
    """S_i > 0 of every agent, (N,)."""
    matrix = level.for_size(count)
    if matrix.pointwise is None:
        raise InvalidInput(
            "agents draw their noise independently, so the level must be a number or a diagonal "
            "(one S_i an agent)."
        )
    consensus_bound(level, agents=count)  # 1/S_i must exist
    return np.asarray(matrix.diagonal())
