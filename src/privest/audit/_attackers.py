"""Attackers on one channel, many releases at once: the most likely input, the posterior mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privest.arrays import EPS, Array, Index
from privest.audit._attack import Attack, Believer, Errors, Task
from privest.audit._averaged import averaged_information
from privest.audit._door import has_density
from privest.audit._rowwise import LogWeight, row_moments
from privest.audit._simulation_attacker import LEARNT, learnt
from privest.errors import NumericalFailure
from privest.mechanism import Channel, Componentwise
from privest.mechanism._numeric_score import log_density, reach

# The likelihood is searched within so many units of the truth and of z, on a grid that widens.
WINDOW, GRID = 1000.0, 161
GOLDEN = (math.sqrt(5) - 1) / 2
ROUNDS = 48
TIE = 1e-12
# The posterior: grid points around each of three centres, peaks that are kept, rows at once.
CENTRE, PEAKS, SOME = 101, 3, 500


def attack_channels(mechanism: Componentwise, task: Task) -> list[Attack]:
    """One attack an input, by itself: z_i tells about u_i alone."""
    inputs = replace(task, truth=mechanism.inputs(task.truth))
    return [_channel(i, channel, inputs) for i, channel in enumerate(mechanism.channels)]


def _channel(i: int, channel: Channel, task: Task) -> Attack:
    u = float(task.truth[i])
    if not has_density(channel):
        (believer,) = learnt(channel.sample, replace(task, truth=task.truth[i : i + 1]))
        return task.report(i, None, None, believer, target="input", notes=(LEARNT,))
    z = channel.sample(np.full(task.trials, u), task.rng)
    guess, unbounded = most_likely(channel, z, u)
    likelihood = Errors.of(guess, u, unbounded)
    shown = channel.information_estimate(u).value
    believer, notes = _believer(channel, z, u, task)
    floor = math.inf if shown == 0 else 1 / shown
    return task.report(i, likelihood, floor, believer, target="input", notes=notes)


def _believer(channel: Channel, z: Array, u: float, task: Task) -> tuple[Believer, tuple[str, ...]]:
    if task.prior is None:
        return Believer(), ()
    mean, variance = task.prior
    drawn = task.drawn(task.prior)
    seen = channel.sample(drawn, task.rng)
    average = averaged_information(channel, mean, math.sqrt(variance))
    here = Errors.of(posterior_mean(channel, z, mean, variance, u), u)
    there = Errors.of(posterior_mean(channel, seen, mean, variance, drawn), drawn)
    notes = () if average.reason is None else (average.reason,)
    return Believer(here, there, 1 / (average.information + 1 / variance)), notes


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
    found = _golden(lambda u: log_density(channel, distinct, u), low, high)
    highest, climbed = values[rows, best], log_density(channel, distinct, found)
    guess = np.where(climbed >= highest, found, grid[rows, best])
    # Noise with a flat top: the middle of the plateau, not its edge.
    flat = values >= highest[:, None] - TIE
    begin, end = flat.argmax(axis=1), last - flat[:, ::-1].argmax(axis=1)
    middle = (grid[rows, begin] + grid[rows, end]) / 2
    plateau = (flat.sum(axis=1) == end - begin + 1) & (end > begin) & (climbed <= highest + TIE)
    plateau &= log_density(channel, distinct, middle) >= highest - TIE
    guess = np.where(plateau, middle, guess)
    # A plateau that reaches an end of the window is no maximum either.
    endless = np.maximum(values[:, 0], values[:, last]) >= highest - TIE
    return guess[back], float(endless[back].mean())


def posterior_mean(
    channel: Channel,
    z: Array,
    mean: float,
    variance: float,
    near: Array | float | None = None,
) -> Array:
    """E[u|z] for every z under the prior N(mean, variance).

    First the peaks of prior × likelihood are looked for, on grids that widen around the prior mean,
    z and `near` (the true inputs, if known: they lie where the likelihood does), and climbed. Then
    the integrals are taken over panels that are short at the prior mean and at the peaks, and
    adaptive (`row_moments`): as right for a likelihood that is a millionth as wide as the
    prior, or lies 50 deviations from its mean. Missed: peaks that fall between the grid points.
    Cost: some 500 log-densities a z, and 1000 to 5000 for the integral.
    """
    deviation = math.sqrt(variance)
    distinct, first, back = np.unique(z, return_index=True, return_inverse=True)
    truth = distinct if near is None else np.broadcast_to(near, z.shape)[first]
    result = np.empty(distinct.size)
    for begin in range(0, distinct.size, SOME):
        part = slice(begin, begin + SOME)
        result[part] = _posterior(channel, distinct[part], truth[part], mean, deviation)
    return result[back]


def _posterior(channel: Channel, z: Array, near: Array, mean: float, deviation: float) -> Array:
    def at(rows: Index, u: Array) -> Array:
        seen = log_density(channel, np.broadcast_to(z[rows][:, None], u.shape), u)
        return seen - ((u - mean) / deviation) ** 2 / 2

    every = np.arange(z.size)
    unit = _units(channel, z, near, mean, deviation)[:, None]
    middle = np.full((z.size, 1), mean)
    moves = 0.5 * np.sinh(np.linspace(-1, 1, CENTRE) * math.asinh(WINDOW / 0.5))
    grid = np.concatenate(
        [middle + deviation * moves, z[:, None] + unit * moves, near[:, None] + unit * moves],
        axis=1,
    )
    grid.sort(axis=1)
    values = at(every, grid)
    peaks = _climbed(at, grid, values)
    top = peaks[:, :1]
    wide = _widths(at, peaks, deviation)
    # Beyond the last centre by so much both factors are long past their peaks.
    far = 12 * np.maximum(deviation, unit)
    first = np.minimum(np.minimum(middle, near[:, None]), np.minimum(z[:, None], top)) - far
    last = np.maximum(np.maximum(middle, near[:, None]), np.maximum(z[:, None], top)) + far
    octaves = 4.0 ** np.arange(-1, 22)
    steps = np.concatenate([-octaves[::-1], [0.0], octaves])
    edges = np.concatenate(
        [first, last, z[:, None], near[:, None], middle + deviation * steps]
        + [peaks[:, [k]] + wide[:, [k]] * steps for k in range(peaks.shape[1])],
        axis=1,
    )
    edges = np.sort(np.clip(edges, first, last), axis=1)
    found = row_moments(at, edges, top[:, 0])
    if not (found.mass > 0).all():
        raise NumericalFailure(
            f"{np.count_nonzero(found.mass == 0)} of {z.size} releases are explained by no input "
            "that the search met: the likelihood is narrower than its grid. Give `near`."
        )
    return np.asarray(top[:, 0] + found.first / found.mass)


def _units(channel: Channel, z: Array, near: Array, mean: float, deviation: float) -> Array:
    """How far u moves at each z before ln p changes by ½: at the true input, or at the prior."""
    unit = np.full(z.shape, deviation)
    for place in (np.full(z.shape, mean), near):
        start = log_density(channel, z, place)
        live = start > -np.inf
        unit[live] = reach(channel, z[live], place[live], start[live])
    return unit


def _climbed(at: LogWeight, grid: Array, values: Array) -> Array:
    """The three highest peaks on the grid (n, 3), highest first, each climbed in its two cells."""
    padded = np.pad(values, ((0, 0), (1, 1)), constant_values=-np.inf)
    summit = (values >= padded[:, :-2]) & (values >= padded[:, 2:])
    height = np.where(summit, values, -np.inf)
    best = np.argsort(-height, axis=1, kind="stable")[:, :PEAKS]
    rows = np.repeat(np.arange(len(grid)), PEAKS)
    i = best.ravel()
    low = grid[rows, np.maximum(i - 1, 0)]
    high = grid[rows, np.minimum(i + 1, grid.shape[1] - 1)]
    found = _golden(lambda u: at(rows, u[:, None])[:, 0], low, high)
    better = at(rows, found[:, None])[:, 0] >= values[rows, i]
    return np.where(better, found, grid[rows, i]).reshape(best.shape)


def _widths(at: LogWeight, peaks: Array, most: float) -> Array:
    """How far from each peak ln w falls by about ½ (within a factor 4)."""
    rows = np.repeat(np.arange(len(peaks)), peaks.shape[1])
    u = peaks.ravel()
    start = at(rows, u[:, None])[:, 0]
    width = np.full(u.shape, most)
    todo = np.flatnonzero(start > -np.inf)
    for _ in range(60):
        sides = np.stack([u[todo] - width[todo], u[todo] + width[todo]], axis=1)
        fall = start[todo][:, None] - at(rows[todo], sides)
        todo = todo[(fall.min(axis=1) > 0.5) & (width[todo] > 16 * EPS * np.abs(u[todo]))]
        if todo.size == 0:
            break
        width[todo] /= 4
    return width.reshape(peaks.shape)


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


def _golden(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Maximise a function on [low, high], elementwise."""
    low, high = low.copy(), high.copy()
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(ROUNDS):
        go = at_left >= at_right
        low, high = np.where(go, low, left), np.where(go, right, high)
        new = np.where(go, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = function(new)
        left, right = np.where(go, new, right), np.where(go, left, new)
        at_left, at_right = np.where(go, value, at_right), np.where(go, at_left, value)
    return (low + high) / 2
