"""Attackers on one channel: the most likely input, the posterior mean; and on samplers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privest.arrays import EPS, Array, Index
from privest.audit._attack import Attack, Believer, Errors, Task, drawn_from
from privest.audit._averaged import LogWeight, averaged_information, row_moments
from privest.audit._door import Sampler, as_sampler, has_density
from privest.audit._score_regression import Splines, solved
from privest.errors import InvalidInput, NumericalFailure
from privest.mechanism import Channel, Componentwise
from privest.mechanism._numeric_score import log_density, reach

# The likelihood is searched within so many units of the truth and of z, on a grid that widens.
WINDOW, GRID = 1000.0, 161
GOLDEN = (math.sqrt(5) - 1) / 2
ROUNDS = 48
TIE = 1e-12
# The posterior: grid points around each of three centres, peaks that are kept, rows at once.
CENTRE, PEAKS, SOME = 101, 3, 500
# (u (n, m), rng) → z (n, q): one release for every row.
Releases = Callable[[Array, np.random.Generator], Array]
# Pairs to learn from; combinations of hats that vary by less than this part are left out.
PAIRS, LEAST = 8000, 1e-10
LEARNT = (
    f"No density: E[y|z] was learnt by regression on {PAIRS} simulated pairs. An attacker "
    "who knows more does at least as well: a large error here is no evidence of privacy, "
    "run certify. No attacker without a prior was run."
)


def attack_channels(mechanism: Componentwise, task: Task) -> list[Attack]:
    """One attack an input, by itself: z_i tells about u_i alone."""
    inputs = replace(task, truth=mechanism.inputs(task.truth), target="input")
    return [_channel(i, channel, inputs) for i, channel in enumerate(mechanism.channels)]


def _channel(i: int, channel: Channel, task: Task) -> Attack:
    u = float(task.truth[i])
    if not has_density(channel):
        (believer,) = learnt(channel.sample, replace(task, truth=task.truth[i : i + 1]))
        return task.report(i, None, None, believer, LEARNT)
    z = channel.sample(np.full(task.trials, u), task.rng)
    guess, unbounded = most_likely(channel, z, u)
    likelihood = Errors.of(guess, u, unbounded)
    shown = channel.information_estimate(u).value
    floor = math.inf if shown == 0 else 1 / shown
    believer, notes = _believer(channel, z, u, task)
    return task.report(i, likelihood, floor, believer, *notes)


def _believer(channel: Channel, z: Array, u: float, task: Task) -> tuple[Believer, tuple[str, ...]]:
    if task.prior is None:
        return Believer(), ()
    mean, variance = task.prior
    drawn = drawn_from(task.prior, task.rng, task.trials)
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
    centres = np.column_stack([np.full(distinct.size, near), distinct])
    grid = _widening(centres, scale(channel, distinct, near), GRID)
    values = log_density(channel, np.broadcast_to(distinct[:, None], grid.shape), grid)
    best, rows, last = values.argmax(axis=1), np.arange(distinct.size), grid.shape[1] - 1
    found = _golden(lambda u: log_density(channel, distinct, u), *_cells(grid, rows, best))
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
    channel: Channel, z: Array, mean: float, variance: float, near: Array | float | None = None
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

    unit = _units(channel, z, near, mean, deviation)
    units = np.column_stack([np.full(z.size, deviation), unit, unit])
    centres = np.column_stack([np.full(z.size, mean), z, near])
    grid = _widening(centres, units, CENTRE)
    peaks = _climbed(at, grid, at(np.arange(z.size), grid))
    top = peaks[:, 0]
    # Beyond the last centre by so much both factors are long past their peaks.
    far = 12 * np.maximum(deviation, unit)[:, None]
    ends = np.column_stack([centres, top])
    first, last = ends.min(axis=1, keepdims=True) - far, ends.max(axis=1, keepdims=True) + far
    octaves = 4.0 ** np.arange(-1, 22)
    steps = np.concatenate([-octaves[::-1], [0.0], octaves])
    places = np.column_stack([centres[:, :1], peaks])
    wide = np.column_stack([units[:, :1], _widths(at, peaks, deviation)])
    around = (places[:, :, None] + wide[:, :, None] * steps).reshape(z.size, -1)
    edges = np.concatenate([first, last, centres[:, 1:], around], axis=1)
    found = row_moments(at, np.sort(np.clip(edges, first, last), axis=1), top)
    if not (found.mass > 0).all():
        raise NumericalFailure(
            f"{np.count_nonzero(found.mass == 0)} of {z.size} releases are explained by no input "
            "that the search met: the likelihood is narrower than its grid. Give `near`."
        )
    return np.asarray(top + found.first / found.mass)


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
    found = _golden(lambda u: at(rows, u[:, None])[:, 0], *_cells(grid, rows, i))
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


def _widening(centres: Array, units: Array | float, count: int) -> Array:
    """A grid a row, in order: so many points around each of its centres, ever further apart."""
    moves = 0.5 * np.sinh(np.linspace(-1, 1, count) * math.asinh(WINDOW / 0.5))
    grid = centres[:, :, None] + np.broadcast_to(units, centres.shape)[:, :, None] * moves
    return np.sort(grid.reshape(len(centres), -1), axis=1)


def _cells(grid: Array, rows: Index, i: Index) -> tuple[Array, Array]:
    """The neighbours of the points i on the grid."""
    return grid[rows, np.maximum(i - 1, 0)], grid[rows, np.minimum(i + 1, grid.shape[1] - 1)]


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


# --- without a density: learnt by simulation ------------------------------------------------------


def learnt(release: Releases, task: Task) -> list[Believer]:
    """E[y|z], learnt from simulated pairs (y drawn from the prior, z), for each number attacked.

    Least squares of y on hat functions of each output and of the length of z (`Splines`): piecewise
    linear, constant beyond what was met. Its error on fresh pairs is that of a real attacker,
    and never below that of the true posterior mean on average.
    Cost: 8000·K² flops, K at most a few hundred.
    """
    if task.prior is None:
        raise InvalidInput(
            "without a density the attacker learns from simulated pairs: state its prior, "
            "prior=(mean, variance)."
        )
    rng, size = task.rng, task.truth.size
    y = drawn_from(task.prior, rng, PAIRS, size)
    guess = _regression(y, release(y, rng), task.prior[0])
    drawn = drawn_from(task.prior, rng, task.trials, size)
    here = guess(release(np.tile(task.truth, (task.trials, 1)), rng))
    return Believer.of_each(here, task.truth, guess(release(drawn, rng)), drawn)


def _regression(y: Array, z: Array, mean: float) -> Callable[[Array], Array]:
    basis = Splines.through(z, len(z))
    centre, covariance = basis.moments(z)
    both = basis.features(z).T @ (y - mean) / len(z) - np.outer(centre, y.mean(axis=0) - mean)
    weights = solved(covariance, both, LEAST)
    start = y.mean(axis=0)
    return lambda seen: start + (basis.features(seen) - centre) @ weights


def attack_sampler(sampler: Sampler, task: Task) -> list[Attack]:
    """One attack a reading."""
    draw = as_sampler(sampler)

    def release(v: Array, rng: np.random.Generator) -> Array:
        # A plain sampler takes one y at a time: a call for each.
        return np.concatenate([draw(one, rng, 1) for one in v])

    return task.readings(None, None, learnt(release, task), LEARNT)
