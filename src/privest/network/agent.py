"""One agent's part of average consensus: pure functions of its state and its neighbours' messages.

What an agent sends is its current vector (`AgentState.now`), made of its release only; nothing here
sees y. The vectorised simulation (`averaging`) and real transports run the same formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import EPS, Array, Index
from privest.errors import InvalidInput
from privest.network._spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class AgentState:
    """One agent after `round` rounds: its vector, the one before, and ω (Chebyshev)."""

    now: Array
    before: Array | None = None
    factor: float = 1.0
    round: int = 0


def metropolis_weights(own_degree: Index | int, neighbour_degrees: Index) -> Array:
    """a_ij = 1/(1 + max(d_i, d_j)) for the neighbours j of agent i."""
    return np.asarray(1.0 / (1.0 + np.maximum(own_degree, neighbour_degrees)))


def mix(own: Array, messages: Array, weights: Array) -> Array:
    """a_ii x_i + Σ_j a_ij x_j, a_ii = 1 − Σ_j a_ij; own (d,), messages (deg, d), weights (deg,).

    A neighbour that was not heard is left out of both arrays; its share stays with the agent. If it
    did not hear the agent either (a link fails both ways), the average over all agents is kept.
    """
    if len(messages) != len(weights):
        raise InvalidInput(f"{len(messages)} messages came with {len(weights)} weights.")
    if len(weights) == 0:
        return own.copy()
    return np.asarray((1.0 - weights.sum()) * own + weights @ messages)


def plain_step(state: AgentState, messages: Array, weights: Array) -> AgentState:
    """One round of plain averaging x ← W x (`algo:average`)."""
    return AgentState(mix(state.now, messages, weights), round=state.round + 1)


def chebyshev_step(
    state: AgentState, messages: Array, weights: Array, spectrum: Spectrum
) -> AgentState:
    """One round of Chebyshev averaging: the polynomial of W that is least on [λ_N, λ_2].

        x_1 = P x_0 ,   x_{k+1} = ω_{k+1} P x_k + (1 − ω_{k+1}) x_{k−1} ,   P = (W − m I)/(1 − m)
        m = (λ_2 + λ_N)/2 ,  h = (λ_2 − λ_N)/2 ,  q = h/(1 − m) ,
        ω_2 = 1/(1 − q²/2) ,  ω_{k+1} = 1/(1 − q²ω_k/4)

    The same W, the same messages as plain averaging; all agents know [λ_N, λ_2]. Assumes fixed W.
    """
    moved = mix(state.now, messages, weights * spectrum.stretch)  # P = I + (W − I)/(1 − m)
    factor = next_factor(state.factor, state.round, spectrum)
    if state.before is not None:
        moved = factor * moved + (1.0 - factor) * state.before
    return AgentState(moved, state.now, factor, state.round + 1)


def next_factor(factor: float, rounds: int, spectrum: Spectrum) -> float:
    """ω of round `rounds` + 1 from ω of the round before."""
    if rounds == 0:
        return 1.0
    squared = spectrum.ratio**2
    return 1.0 / (1.0 - squared / 2.0) if rounds == 1 else 1.0 / (1.0 - squared * factor / 4.0)


@dataclass(frozen=True, eq=False)
class Rounding:
    """How far the rounding of one agent's steps can have moved the mean over agents, N times (d,).

    total  of all rounds so far; last  what the last round added.
    """

    total: Array
    last: Array


def rounding_step(
    known: Rounding, before: AgentState, after: AgentState, messages: Array, weights: Array
) -> Rounding:
    """The bound after one more round, from what this agent computed with; `weights` as in `mix`.

    A step rounds by e_i ≤ (deg + 6) u (ω(|1 − Σ_j a_ij||x_i| + Σ_j a_ij|x_j|) + (ω − 1)|x_i,k−1|),
    u = eps/2, with |1 − Σ| ≤ 1 + Σ and the rounding of Σ itself. In exact arithmetic the steps keep
    the mean, and its moves δ go on as δ_{k+1} = (ω_{k+1} − 1)δ_k + e_k (plain: ω = 1). All
    coefficients are ≥ 0, so the mean over agents of these bounds is a bound for the mean.
    """
    turn = abs(after.factor - 1.0)
    size = (1.0 + 2.0 * weights.sum()) * np.abs(before.now) + weights @ np.abs(messages)
    size = after.factor * size
    if before.before is not None:
        size = size + turn * np.abs(before.before)
    last = turn * known.last + (len(weights) + 6) * (EPS / 2) * size
    return Rounding(known.total + last, last)


def extremes_step(low: Array, high: Array, lows: Array, highs: Array) -> tuple[Array, Array]:
    """One round of min- and max-consensus: own (d,), neighbours' (deg, d).

    After as many rounds as the graph is wide (`Graph.reach`) every agent knows the least and the
    largest entry over all agents, hence the spread that `certificate.certified` needs.
    """
    least, largest = lows.min(axis=0, initial=np.inf), highs.max(axis=0, initial=-np.inf)
    return np.minimum(low, least), np.maximum(high, largest)


def packed(x: Array, r: Array) -> Array:
    """[x, upper triangle of r] as one vector: what an agent sends. x (..., n), r (..., n, n)."""
    n = r.shape[-1]
    above = np.triu_indices(n)
    return np.concatenate([x, r[..., above[0], above[1]]], axis=-1)


def unpacked(vector: Array) -> tuple[Array, Array]:
    """(x, r) from one vector of length n + n(n+1)/2."""
    length = vector.shape[-1]
    n = (math.isqrt(9 + 8 * length) - 3) // 2
    if n * (n + 3) // 2 != length:
        raise InvalidInput(f"{length} numbers are not a vector x and the half of a matrix r.")
    return split(vector, n)


def split(values: Array, n: int) -> tuple[Array, Array]:
    """x (..., trials·n) and r (..., n, n) of vectors (..., trials·n + n(n+1)/2)."""
    flat = values.shape[-1] - n * (n + 1) // 2
    above = np.triu_indices(n)
    r = np.empty((*values.shape[:-1], n, n))
    r[..., above[0], above[1]] = r[..., above[1], above[0]] = values[..., flat:]
    return values[..., :flat], r
