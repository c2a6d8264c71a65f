"""ℓ's derivatives by every matrix of a filter, from one pass back: the adjoint (ρ, N) recursion.

With the arrays of `_sweep`: K = κc⁻¹, W = c⁻¹G, U = I − KG, P = P_{k|k}, x̂ = x̂_{k|k}, all of step
k; backwards from σ_{K−1} = 0, M_{K−1} = 0 (of the filtered state; ρ, N are of the predicted one):

    ρ_k = Wᵀζ_k + Uᵀσ_k ,     N_k = WᵀW + UᵀM_kU ,     σ_{k−1} = Aᵀρ_k ,     M_{k−1} = AᵀN_kA
    ê_k = c⁻ᵀζ_k − Kᵀσ_k ,    x^s_k = x̂_k + P_kσ_k

    ∂A_k = ρ_k x^s_{k−1}ᵀ − N_kA P_{k−1} ,   ∂(FFᵀ) = ½(ρ_kρ_kᵀ − N_k) ,   ∂shift = ρ_k
    ∂G_k = ê_k x^s_kᵀ − Kᵀ(I − M_kP_k) ,     ∂(NNᵀ) = ½(ê_kê_kᵀ − c⁻ᵀc⁻¹ − KᵀM_kK) ,   ∂offset = ê_k

Nothing but c is inverted: any rank of Q, R and cov0. (Fisher's identity needs Q⁻¹: it loses what
lies outside the range of Q, as lagged releases always have.) Where steps repeat, P and M arrive at
their limits, and their parts are counted; the rest are linear recursions over all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification._plan import Plan
from privest.dynamics._identification._steps import Derivatives, by_kind
from privest.dynamics._means import filtered_means
from privest.dynamics._observed import Observed
from privest.dynamics._recursions import backwards, recurrence, times
from privest.dynamics._sweep import Sweep, forward


class Tables(NamedTuple):
    """Of every distinct step: c⁻¹, K, W, U, UA, P_{k|k} and the P_{k−1|k−1} that it came from."""

    whiten: Array
    gain: Array
    heard: Array
    kept: Array
    closed: Array
    filtered: Array
    before: Array


class Passed(NamedTuple):
    """A filter that went over all steps, of several series with the same covariances.

    begun (N, series) are the means before step 0, filtered (K, N, series), ζ (K, r, series), and
    logs = Σ log det c_k, of one series. last: P_{K−1|K−1}. live: the step from which on series that
    say what x_0 does are 0. back: the pass back over it, for so many series of data.
    """

    begun: Array
    filtered: Array
    innovations: Array
    logs: float
    last: Array
    live: int
    back: Callable[[Passed, int], Derivatives]
    compiled: bool = False


def passed(
    seen: Observed, plan: Plan, values: Array, shift: Array, offset: Array, columns: Array
) -> Passed:
    """The filter of z̃ (K, r, series), and after them the series that start at each of `columns`
    (N, q) and show zeros: what x_0 does to the innovations. O(K N²) a series.
    """
    sweep = forward(seen)
    tables = _tables(seen, sweep)
    # A copy: the recurrence writes where its forcing was.
    means = filtered_means(seen, sweep, values.copy(), shift, offset)
    logs = np.log(np.diagonal(sweep.table.scale, axis1=1, axis2=2)).sum(axis=1)
    begun = np.repeat(seen.start[:, None], values.shape[2], axis=1)
    back = partial(_derivatives, seen, plan, sweep, tables)
    result = Passed(
        begun, means.filtered, means.innovations, float(logs[sweep.entry].sum()),
        tables.filtered[sweep.entry[-1]], seen.steps, back,
    )  # fmt: skip
    if not columns.shape[1]:
        return result
    entry, own = sweep.entry, seen.transition[sweep.kind]
    quiet = np.zeros((seen.steps, len(columns), columns.shape[1]))
    moved = recurrence(tables.closed, entry, quiet, columns)
    earlier = np.concatenate([columns[None], moved[:-1]])
    heard = -times(tables.heard @ own, entry, earlier)
    return result._replace(
        begun=np.concatenate([begun, columns], axis=1),
        filtered=np.concatenate([means.filtered, moved], axis=2),
        innovations=np.concatenate([means.innovations, heard], axis=2),
    )


def _tables(seen: Observed, sweep: Sweep) -> Tables:
    A, G = seen.transition[sweep.kind], seen.rows[sweep.kind]
    whiten = np.linalg.inv(sweep.table.scale)  # triangular, r×r
    gain = sweep.table.gain @ whiten
    kept = np.eye(A.shape[-1]) - gain @ G
    filtered = sweep.table.filtered
    # An entry that repeats came from itself, to the accuracy to which it has settled.
    before = np.concatenate([(seen.root @ seen.root.T)[None], filtered[:-1]])
    return Tables(whiten, gain, whiten @ G, kept, kept @ A, filtered, before)


def _derivatives(
    seen: Observed, plan: Plan, sweep: Sweep, tables: Tables, way: Passed, series: int
) -> Derivatives:
    """∂ℓ from one pass back: squares of all series that `way` holds, of which the first `series`
    are data; the parts of N count for those, and shifts, offsets and the start are theirs.
    """
    entry, zeta = sweep.entry, way.innovations
    sigma = _from_later(seen, sweep, tables, way)
    rho = times(_turned(tables.heard), entry, zeta) + times(_turned(tables.kept), entry, sigma)
    fresh = times(_turned(tables.whiten), entry, zeta) - times(_turned(tables.gain), entry, sigma)
    smoothed = way.filtered + times(tables.filtered, entry, sigma)
    start = seen.transition[sweep.kind[0]].T @ rho[0]
    first = way.begun + tables.before[0] @ start
    earlier = np.concatenate([first[None], smoothed[:-1]])
    expected = _expected(seen, plan, sweep, tables)
    data = slice(0, series)
    return Derivatives(
        by_kind(rho, earlier, plan) - series * expected.transition,
        0.5 * (by_kind(rho, rho, plan) - series * expected.spread),
        by_kind(fresh, smoothed, plan) - series * expected.rows,
        0.5 * (by_kind(fresh, fresh, plan) - series * expected.noise),
        rho[:, :, data].sum(axis=2),
        fresh[:, :, data].sum(axis=2),
        start[:, data].sum(axis=1),
        0.5 * (start @ start.T - series * expected.cov),
    )


def _from_later(seen: Observed, sweep: Sweep, tables: Tables, way: Passed) -> Array:
    """σ_k (K, N, series)."""
    entry = sweep.entry
    back = _turned(tables.heard @ seen.transition[sweep.kind])
    # Reversed in time: the i-th is σ_{K−1−i}, driven by the innovation that follows it.
    forcing = np.zeros_like(way.filtered)
    forcing[1:] = times(back, entry[:0:-1], way.innovations[:0:-1])
    leading = np.concatenate([entry[-1:], entry[:0:-1]])
    zero = np.zeros((forcing.shape[1], 1))
    return recurrence(_turned(tables.closed), leading, forcing, zero)[::-1]


def _expected(seen: Observed, plan: Plan, sweep: Sweep, tables: Tables) -> Derivatives:
    """What the squares are on average: the parts of N and M, summed over the steps of a kind."""
    A = seen.transition[sweep.kind]
    heard, zero = tables.heard @ A, np.zeros_like(tables.before[0])
    values, which = backwards(_turned(tables.closed), _turned(heard) @ heard, sweep.entry, zero)
    own = np.empty(len(values), dtype=np.intp)
    own[which] = sweep.entry
    count = np.bincount(which, minlength=len(values))[:, None, None]
    W, U, K = tables.heard[own], tables.kept[own], tables.gain[own]
    c, P = tables.whiten[own], tables.filtered[own]
    N = _turned(W) @ W + _turned(U) @ values @ U
    unit, kind, first = np.eye(len(zero)), sweep.kind[own], seen.transition[sweep.kind[0]]

    def total(parts: Array) -> Array:
        found = np.zeros((len(plan.own), *parts.shape[1:]))
        np.add.at(found, kind, count * parts)
        return found

    return Derivatives(
        total(N @ A[own] @ tables.before[own]),
        total(N),
        total(_turned(K) @ (unit - values @ P)),
        total(_turned(c) @ c + _turned(K) @ values @ K),
        np.zeros(0), np.zeros(0), np.zeros(0),
        first.T @ N[which[0]] @ first,
    )  # fmt: skip


def _turned(stack: Array) -> Array:
    return stack.swapaxes(-1, -2)
