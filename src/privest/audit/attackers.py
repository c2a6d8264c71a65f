"""Attackers on one channel, many releases at once: the most likely input, the posterior mean."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.mechanism.channel import Channel
from privest.mechanism.numeric_score import log_density, reach

# The likelihood is searched within so many units of the truth and of z, on a grid that widens.
WINDOW, GRID = 1000.0, 161
GOLDEN = (math.sqrt(5) - 1) / 2
ROUNDS = 48
# Grid of the posterior: so many prior standard deviations, steps of 1/4 of the likelihood's unit.
SIGMAS, MOST_NODES = 9.0, 4001
ROWS = 2_000_000


def most_likely(channel: Channel, z: Array, near: float) -> tuple[Array, float]:
    """argmax_u p(z|u) for every z, and the share of z with no maximum inside the window.

    A grid around the true input and around z (an attacker without the truth needs a wider one;
    the maximum is the same), then golden section in the best cell. Equal releases, as of a
    quantiser, are solved once. The maximum is global up to peaks narrower than the grid:
    a tenth of a unit close to both centres.
    """
    distinct, back = np.unique(z, return_inverse=True)
    unit = scale(channel, distinct, near)
    moves = unit * np.sinh(np.linspace(-1, 1, GRID) * math.asinh(WINDOW / 0.5)) * 0.5
    wide = np.sort(near + moves)
    own = distinct[:, None] + moves
    grid = np.sort(np.concatenate([np.broadcast_to(wide, own.shape), own], axis=1), axis=1)
    values = _by_rows(channel, distinct, grid)
    best = values.argmax(axis=1)
    last = grid.shape[1] - 1
    rows = np.arange(distinct.size)
    low = grid[rows, np.maximum(best - 1, 0)]
    high = grid[rows, np.minimum(best + 1, last)]
    found = _golden(channel, distinct, low, high)
    top = grid[rows, best]
    better = log_density(channel, distinct, found) >= values[rows, best]
    guess = np.where(better, found, top)
    # A plateau that reaches an end of the window is no maximum either.
    endless = np.maximum(values[:, 0], values[:, last]) >= values[rows, best] - 1e-12
    return guess[back], float(endless[back].mean())


def posterior_mean(channel: Channel, z: Array, mean: float, variance: float) -> Array:
    """E[u|z] for u ~ N(mean, variance): sums over an even grid, exact for smooth likelihoods.

    Steps are a quarter of the distance over which the likelihood changes, at most 4001 nodes: a
    likelihood far narrower than that makes the mean off by a step at most.
    """
    deviation = math.sqrt(variance)
    distinct, back = np.unique(z, return_inverse=True)
    step = min(scale(channel, distinct, mean), deviation) / 4
    count = min(int(2 * SIGMAS * deviation / step) | 1, MOST_NODES)
    offset = np.linspace(-SIGMAS, SIGMAS, max(count, 201))
    nodes = mean + deviation * offset
    result = np.empty(distinct.size)
    rows = max(ROWS // nodes.size, 1)
    for begin in range(0, distinct.size, rows):
        some = distinct[begin : begin + rows]
        weight = _by_rows(channel, some, np.broadcast_to(nodes, (some.size, nodes.size)))
        weight = weight - offset**2 / 2
        weight = np.exp(weight - weight.max(axis=1, keepdims=True))
        result[begin : begin + rows] = weight @ nodes / weight.sum(axis=1)
    return result[back]


def scale(channel: Channel, z: Array, near: float) -> float:
    """How far u typically moves before ln p(z|u) changes by ½, over the releases at hand."""
    some = z[:: max(1, z.size // 200)]
    start = log_density(channel, some, near)
    some, start = some[start > -np.inf], start[start > -np.inf]
    if some.size == 0:
        return max(abs(near), 1.0)
    return float(np.median(reach(channel, some, np.full(some.shape, near), start)))


def _by_rows(channel: Channel, z: Array, u: Array) -> Array:
    """ln p(z_i|u_ij)."""
    return log_density(channel, np.broadcast_to(z[:, None], u.shape), u)


def _golden(channel: Channel, z: Array, low: Array, high: Array) -> Array:
    """Maximise ln p(z|·) on [low, high], all z together."""
    low, high = low.copy(), high.copy()
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = log_density(channel, z, left), log_density(channel, z, right)
    for _ in range(ROUNDS):
        go = at_left >= at_right
        low, high = np.where(go, low, left), np.where(go, right, high)
        new = np.where(go, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = log_density(channel, z, new)
        left, right = np.where(go, new, right), np.where(go, left, new)
        at_left, at_right = np.where(go, value, at_right), np.where(go, at_left, value)
    return (low + high) / 2
