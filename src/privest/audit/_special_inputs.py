"""Inputs at which p(z|·) jumps, has a kink or loses an outcome: found from the density alone.

By bisecting the density, its score and the set of outcomes as functions of u: no integral at all.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from privest.arrays import Array
from privest.mechanism import Channel
from privest.mechanism._numeric_score import log_density
from privest.noise._numerics.differences import find_jumps

MOST_SPECIAL = 12


def _segments(grid: Array) -> tuple[Array, Array]:
    """Between the points of the grid, a little widened: what lies on a point is inside."""
    return grid[:-1] - 1e-3 * np.diff(grid), grid[1:] + 1.3e-3 * np.diff(grid)


def jump(channel: Channel, grid: Array) -> float | None:
    """An input at which p(z|·) jumps, for some z: the information there is infinite."""
    places = grid[(np.array([0.07, 0.31, 0.5, 0.64, 0.93]) * (grid.size - 1)).astype(int)]
    if channel.discrete:
        probes = np.unique(np.concatenate([channel.outcomes(float(u)) for u in places]))[:12]
    else:
        probes = np.unique(channel.sample(places, np.random.default_rng(11)))

    def seen(z: float, u: Array) -> Array:
        return np.asarray(np.exp(log_density(channel, np.full(u.shape, z), u)))

    def least(a: Array, b: Array) -> Array:
        return 1e-6 * np.maximum(a, b) + 1e-200

    width = 1e-12 * float(np.abs(grid).max())
    low, high = _segments(grid)
    for z in probes.tolist():
        found = find_jumps(partial(seen, z), low, high, width=width, least=least, kept=0.9)
        if found:
            return float(found[0])
    return None


def special_inputs(channel: Channel, grid: Array) -> Array:
    """Inputs at which p(z|·) has a kink or a zero for several z at once."""
    found = _edges(channel, grid)
    if channel.discrete:
        found = np.concatenate([found, _vanishing(channel, grid)])
    if found.size > MOST_SPECIAL:
        found = found[np.argsort(np.abs(found), kind="stable")[:MOST_SPECIAL]]
    return np.sort(found)


def _edges(channel: Channel, grid: Array) -> Array:
    """Where the score jumps as a function of u, at the same u for two different z or more."""
    places = grid[(np.array([0.13, 0.31, 0.56, 0.64, 0.89]) * grid.size).astype(int)]
    probes = np.unique(channel.sample(places, np.random.default_rng(7)))
    size = float(np.abs(grid).max())
    width = 1e-9 * size

    def score(z: float, u: Array) -> Array:
        h = 1e-10 * np.maximum(np.abs(u), 1e-3 * size)
        there = np.full(u.shape, z)
        with np.errstate(all="ignore"):
            rise = log_density(channel, there, u + h) - log_density(channel, there, u - h)
            slope = np.asarray(rise / (2 * h))
        return np.where(np.isfinite(slope), slope, 0.0)

    def least(a: Array, b: Array) -> Array:
        return np.asarray(1e-3 * (np.abs(a) + np.abs(b)) + 1e-6 / size)

    points: list[float] = []
    for z in probes.tolist():
        seen = partial(score, z)
        points += find_jumps(seen, *_segments(grid), width=width, least=least, kept=0.5, zoom=100)
    every = np.sort(np.array(points))
    same = every[:-1][np.diff(every) < 4 * width]
    apart = np.concatenate([[True], np.diff(same) > 8 * width])[: same.size]
    return np.array([_corner(channel, probes, p, 8 * width) for p in same[apart]])


def _corner(channel: Channel, z: Array, point: float, near: float) -> float:
    """Where two lines meet: ln p(z|·) from the left and from the right of a kink.

    Good to rounding of ln p over the jump of its slope, which no bisection of slopes is.
    """
    for h in (near, near / 100):  # the second time without the curvature of the sides
        x = point + h * np.array([-2.0, -1.0, 1.0, 2.0])[:, None]
        with np.errstate(all="ignore"):
            a, b, c, d = log_density(channel, np.broadcast_to(z, (4, z.size)), x)
            left, right = (b - a) / h, (d - c) / h
            meet = (c - b - h * (right + left)) / (left - right)
        good = meet[np.abs(meet) < h]
        point += float(np.median(good)) if good.size else 0.0
    return point


def _vanishing(channel: Channel, grid: Array) -> Array:
    """Where an outcome stops to be possible, by bisection between grid points."""
    points: list[float] = []
    for a, b in pairwise(grid.tolist()):
        z = np.setxor1d(channel.outcomes(a), channel.outcomes(b))[:8]
        if z.size == 0:
            continue
        low, high = np.full(z.size, a), np.full(z.size, b)
        alive = log_density(channel, z, low) > -np.inf
        changes = alive != (log_density(channel, z, high) > -np.inf)
        for _ in range(60):
            middle = (low + high) / 2
            same = (log_density(channel, z, middle) > -np.inf) == alive
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        points += low[changes].tolist()
    size = float(np.abs(grid).max())  # in its units: a fine grid has its own
    return size * np.unique(np.round(np.array(points) / size, 13))
