"""Consensus between real processes: every agent is an MPI rank that talks to its neighbours only.

A distributed-graph communicator and its neighbourhood collective. Every wait has a deadline: a rank
that died or hangs is an error on its neighbours, and through their silence on all. MPI_Finalize may
then wait for ever: end the process with `os._exit` or `comm.Abort`, or run scripts by
`python -m mpi4py script.py`, which aborts.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from privest.arrays import EPS, Array, as_array, as_choice, as_count, as_positive
from privest.errors import (
    AgentSilent,
    InvalidInput,
    MissingDependency,
    NotIdentifiable,
    NumericalFailure,
)
from privest.estimator.result import Estimate
from privest.linalg import batched
from privest.network._consensus import certified
from privest.network._graph import Graph, weights_of
from privest.network._rounds import METHODS, Method, Spectrum, packed, spectrum_of, unpacked
from privest.network._sensor import Contribution

__all__ = ["AgentResult", "AgentSilent", "consensus", "world"]

T = TypeVar("T")
GAIN = 1e-20  # once the error bound has fallen by this factor, only rounding is left


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AgentResult(Estimate):
    """The estimate of this agent when all agents are certified.

    covariance       (N r_i)⁻¹ → Σ'_PPCR, with r_i = `information` (n, n), about the mean of all.
    certified_error  bound on the distance of the WORST agent from the efficient estimate, in its
                     standard errors, rounding of the mean included.
    rounds           of averaging in the estimate; `exchanges` includes those that certified it.
    """

    information: Array
    certified_error: float
    rounds: int
    exchanges: int
    agent: int
    agents: int


def consensus(
    contribution: Contribution,
    graph: Graph | object,
    *,
    comm: Any = None,  # noqa: ANN401 - mpi4py is optional
    method: Method = "chebyshev",
    tolerance: float = 1e-6,
    max_rounds: int | None = None,
    timeout: float = 30.0,
    names: Sequence[str] | None = None,
) -> AgentResult:
    """This rank's part of `network.consensus`; called by all ranks of `comm` with the same graph.

    contribution  (x_i, r_i) of this agent alone (`Sensor.contribution`).
    graph         of as many agents as ranks; agent i is rank i. Public.
    comm          MPI communicator; by default MPI.COMM_WORLD.
    timeout       seconds without a message after which a neighbour counts as lost.
    names         of the parameters, public: neighbours compare them before they begin.
    the rest      as in `network.consensus`; rounding counts with its worst case here (eight agents
                  on a ring, θ twenty standard errors: tolerances from 3e-10).
    Messages (the agent's vector, the extremes heard so far, an error bound) are functions of the
    releases alone: all of them together reveal no more than the releases (`Sensor.exposed`).
    Stopping: every `reach` rounds the agents know the spread of a past round exactly, judge it, and
    after as many more know the worst judgement; all stop at the same round.
    After an error start again with the same contribution (`mechanism.source.Kept` keeps a release).
    Raises AgentSilent if a neighbour is not heard in time, InvalidInput if neighbours were started
    with other arguments, NotIdentifiable if all agents together do not show θ.
    Source: `algo:average`.
    """
    asked, wait = as_positive(tolerance, "tolerance"), as_positive(timeout, "timeout")
    max_rounds = None if max_rounds is None else as_count(max_rounds, "max_rounds", least=0)
    as_choice(method, METHODS, "method")
    net_weights = weights_of(graph)
    comm = world() if comm is None else comm
    if comm.size != net_weights.agents:
        raise InvalidInput(
            f"the graph is for {net_weights.agents} agents, and there are {comm.size} processes: "
            f"start it with mpiexec -n {net_weights.agents}."
        )
    start, parts = _packed(contribution)
    called = None if names is None else tuple(map(str, names))
    kind = contribution.simulated  # trials and real releases do not mix
    edges, edge_weights = net_weights.graph.edges, net_weights.edge_weights
    facts = (edge_weights.tobytes(), len(start), method, asked, max_rounds, called, kind)
    known = spectrum_of(net_weights.matrix)
    neighbours, shares = net_weights.of(comm.rank)
    net = Neighbourhood(comm, [int(j) for j in neighbours], wait, net_weights.graph)
    net.greet(repr((edges.tolist(), facts)).encode())
    reach = max(net_weights.graph.reach, 1)
    limit = known.rounds(method, GAIN) + 4 * reach if max_rounds is None else max_rounds
    spectrum = None if method == "plain" else known

    def step(state: AgentState, heard: Array) -> AgentState:
        return agent_step(state, heard, shares, spectrum)

    found = _averaged(net, start, step, parts, reach, (asked, limit))
    net.close()
    return replace(found, simulated=kind, method=method)


def _averaged(
    net: Neighbourhood,
    start: Array,
    step: Callable[[AgentState, Array], AgentState],
    parts: Callable[[Array], tuple[Array, Array]],
    reach: int,
    stop: tuple[float, int],
) -> AgentResult:
    """Rounds until a snapshot of all states is certified; stop: the tolerance, the most rounds.

    While the spread of snapshot t travels, the worst error of snapshot t − 1 does. Every agent
    knows both exactly after `reach` rounds, so all decide alike.
    """
    (asked, limit), size, agents = stop, len(start), net.agents
    state = snapshot = judged = AgentState(start)
    low, high, worst = start, start, np.inf
    estimate = start[:0]
    while True:
        for _ in range(reach):
            heard = net.exchange(np.concatenate([state.now, low, high, [worst]]))
            state = step(state, heard[:, :size])
            lows, highs = heard[:, size : 2 * size], heard[:, 2 * size : -1]
            low, high = extremes_step(low, high, lows, highs)
            worst = max(worst, float(heard[:, -1].max(initial=worst)))
        if worst <= asked:
            r = parts(judged.now)[1]
            return AgentResult(
                value=estimate,
                covariance=np.linalg.inv(agents * r),
                information=r,
                certified_error=worst,
                rounds=judged.round,
                exchanges=state.round,
                agent=net.agent,
                agents=agents,
            )
        if state.round >= limit:
            raise _not_reached(parts(state.now)[1], state.round, worst, asked, agents)
        x, r = parts(snapshot.now)
        x_spread, r_spread = parts(high - low)
        trials = (-1, x.shape[-1])
        theta, errors = certified(
            x.reshape(1, *trials), r[None], x_spread.reshape(trials), r_spread, agents
        )
        judged, estimate, worst = snapshot, theta[0].reshape(x.shape), float(errors[0])
        snapshot, (low, high) = state, state.ends


def _packed(contribution: Contribution) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
    if not isinstance(contribution, Contribution) or contribution.r.ndim != 2:
        raise InvalidInput(
            f"give this agent's own Contribution; received {type(contribution).__name__}."
        )
    x, r = as_array(contribution.x, "x"), as_array(contribution.r, "r")

    def parts(vector: Array) -> tuple[Array, Array]:
        flat, half = unpacked(vector, x.shape[-1])
        return flat.reshape(x.shape), half

    return packed(x.ravel(), r), parts


def _not_reached(
    r: Array, rounds: int, worst: float, asked: float, agents: int
) -> NotIdentifiable | NumericalFailure:
    if not batched.cholesky_of_many(r[None])[1].all():
        return NotIdentifiable(
            f"after {rounds} rounds all {agents} agents together do not show all {len(r)} "
            "directions of θ."
        )
    return NumericalFailure(
        f"After {rounds} rounds the agents are certified to {worst:.2g} standard errors only "
        f"(asked: {asked:.2g}). Allow more with max_rounds, or ask for less: the rounding of "
        "all rounds counts with its worst case, since no agent can measure it."
    )


def world() -> Any:  # noqa: ANN401 - mpi4py has no types here
    """MPI.COMM_WORLD, or the extra that brings it."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as missing:  # RuntimeError: no MPI library was found
        raise MissingDependency(
            "Consensus between processes needs mpi4py and an MPI library: install the extra "
            "'mpi', for example with pip install \"privest[mpi]\"."
        ) from missing
    return MPI.COMM_WORLD


# --- one agent's steps: pure functions of its state and its neighbours' messages ------------------


@dataclass(frozen=True, eq=False)
class AgentState:
    """One agent after `round` rounds: its vector, the one before, ω, and a bound on rounding.

    drift  N times how far the rounding of this agent can have moved the mean over agents, (d,);
    last   the part of the last round.
    """

    now: Array
    before: Array | None = None
    factor: float = 1.0
    round: int = 0
    drift: Array | float = 0.0
    last: Array | float = 0.0

    @property
    def ends(self) -> tuple[Array, Array]:
        """x_i ∓ D_i: their extremes over agents enclose all x_i and the mean x̄ of the start."""
        return self.now - self.drift, self.now + self.drift


def mix(own: Array, messages: Array, weights: Array) -> Array:
    """a_ii x_i + Σ_j a_ij x_j, a_ii = 1 − Σ_j a_ij; own (d,), messages (deg, d), weights (deg,)."""
    return np.asarray((1.0 - weights.sum()) * own + weights @ messages)


def agent_step(
    state: AgentState, messages: Array, weights: Array, spectrum: Spectrum | None = None
) -> AgentState:
    """One round of plain averaging (`algo:average`) or, given the spectrum, of Chebyshev averaging.

    A step rounds by e_i ≤ (deg + 6) u (ω(|1 − Σ_j a_ij||x_i| + Σ_j a_ij|x_j|) + (ω − 1)|x_i,k−1|),
    u = eps/2, and errors of the mean go on as δ_{k+1} = (ω_{k+1} − 1)δ_k + e_k (plain: ω = 1). All
    coefficients are ≥ 0, so the mean of these bounds bounds that of the mean.
    """
    before, factor = None, 1.0
    if spectrum is not None:
        before, factor = state.before, spectrum.factor(state.factor, state.round)
        weights = weights * spectrum.stretch  # P = I + (W − I)/(1 − m)
    moved, turn = mix(state.now, messages, weights), abs(factor - 1.0)
    size = (1.0 + 2.0 * weights.sum()) * np.abs(state.now) + weights @ np.abs(messages)
    size = factor * size
    if before is not None:
        moved = factor * moved + (1.0 - factor) * before
        size = size + turn * np.abs(before)
    last = turn * state.last + (len(weights) + 6) * (EPS / 2) * size
    return AgentState(moved, state.now, factor, state.round + 1, state.drift + last, last)


def extremes_step(low: Array, high: Array, lows: Array, highs: Array) -> tuple[Array, Array]:
    """One round of min- and max-consensus: own (d,), neighbours' (deg, d)."""
    least, largest = lows.min(axis=0, initial=np.inf), highs.max(axis=0, initial=-np.inf)
    return np.minimum(low, least), np.maximum(high, largest)


# --- links, with a deadline on every wait ---------------------------------------------------------

GREETING, ALIVE = 7301, 7302  # tags
PAUSE = 1e-3  # the longest sleep between two looks at a message that has not come, seconds

# Buffers of exchanges that were given up: MPI may still write into them.
_given_up: list[object] = []


class Neighbourhood:
    """The links of this rank. Nothing here waits without a deadline."""

    comm: Any
    neighbours: list[int]
    timeout: float
    agent: int
    agents: int

    def __init__(self, comm: Any, neighbours: list[int], timeout: float, graph: Graph) -> None:  # noqa: ANN401
        self.comm, self.neighbours, self.timeout, self._name = comm, neighbours, timeout, graph.name
        self.agent, self.agents = int(comm.rank), int(comm.size)
        self._links: Any = None

    def greet(self, facts: bytes) -> None:
        """Meet the neighbours: they are there, and were started with the same public facts."""
        digest = hashlib.sha256(facts).digest()
        mine = np.frombuffer(digest, dtype=np.uint8).copy()
        theirs = np.zeros((len(self.neighbours), len(mine)), dtype=np.uint8)
        requests = [self.comm.Isend(mine, dest=j, tag=GREETING) for j in self.neighbours]
        for row, j in zip(theirs, self.neighbours):
            requests.append(self.comm.Irecv(row, source=j, tag=GREETING))
        self._finish(requests, (mine, theirs))
        for row, j in zip(theirs, self.neighbours):
            if not np.array_equal(row, mine):
                raise InvalidInput(
                    f"agent {self._name(j)} takes part with another graph, other "
                    "parameters (their number, names or order), method or tolerance: start all "
                    "agents with the same."
                )
        self._links = self._within(
            lambda: self.comm.Create_dist_graph_adjacent(self.neighbours, self.neighbours)
        )

    def exchange(self, vector: Array) -> Array:
        """Send a vector to all neighbours; theirs come back, (neighbours, d), in order."""
        heard = np.empty((len(self.neighbours), len(vector)))
        if self.neighbours:
            request = self._links.Ineighbor_allgather(vector, heard)
            self._finish([request], (vector, heard))
        return heard

    def close(self) -> None:
        if self._links is not None:
            self._within(self._links.Free)

    def _finish(self, requests: list[Any], buffers: object) -> None:
        end, pause = time.monotonic() + self.timeout, 0.0
        while not self._arrived(requests, buffers):
            if time.monotonic() > end:
                _given_up.append((requests, buffers))
                raise self._silence()
            time.sleep(pause)  # 0 gives the core to a rank that shares it
            pause = min(PAUSE, pause + 1e-5)

    def _arrived(self, requests: list[Any], buffers: object) -> bool:
        try:
            return all(request.Test() for request in requests)
        except RuntimeError as error:  # MPI.Exception: the library noticed a failure itself
            _given_up.append((requests, buffers))
            raise self._silence() from error

    def _within(self, work: Callable[[], T]) -> T:
        """A call that may block, in a thread of its own: MPI has no other deadline for it."""
        done: list[T | BaseException] = []

        def run() -> None:
            try:
                done.append(work())
            except BaseException as error:
                done.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if not done:
            raise self._silence()
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]

    def _silence(self) -> AgentSilent:
        """The silent agent: living neighbours have stopped too, and say so to each other."""
        word = np.zeros(1, dtype=np.uint8)
        silent = set(self.neighbours)
        end = time.monotonic() + min(1.0, self.timeout)
        with contextlib.suppress(RuntimeError):  # MPI's own failure: all of them count as silent
            _given_up.append([self.comm.Isend(word, dest=j, tag=ALIVE) for j in self.neighbours])
            _given_up.append(word)
            while silent and time.monotonic() < end:
                silent -= {j for j in silent if self.comm.Iprobe(source=j, tag=ALIVE)}
                time.sleep(PAUSE)
        names = [self._name(j) for j in self.neighbours if j in silent]
        who = f"agent {', '.join(names)}" if names else "an agent beyond its neighbours"
        return AgentSilent(
            f"agent {self._name(self.agent)} waited {self.timeout:g} s in vain: {who} died, hangs, "
            "or is slower than that. There is no result; start again, with a larger timeout if an "
            "agent is only slow, and with the same releases: what was sent stays sent, and a new "
            "release would be shown on top of it (mechanism.source.Kept keeps one)."
        )
