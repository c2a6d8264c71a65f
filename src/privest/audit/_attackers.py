"""Attackers on a release of one measurement vector: a report for the data owner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_count
from privest.audit._attack import (
    PAIRS,
    Attack,
    Believer,
    Errors,
    Prior,
    Task,
    as_prior,
    drawn_from,
    learnt,
)
from privest.audit._density import checked_precision, has_formula, worst_input
from privest.audit._terms import (
    Audited,
    Sampler,
    Stated,
    as_audited,
    as_sampler,
    generator_of,
    has_density,
    inverse_root,
    one_vector,
    stated_level,
)
from privest.errors import NumericalFailure
from privest.mechanism import (
    Channel,
    Componentwise,
    GaussianMechanism,
    GeometricPerturbation,
    Mechanism,
)
from privest.mechanism.numerics import log_density, reach
from privest.mechanism.running import RunningMechanism

# The likelihood is searched within so many units of the truth and of z, on a grid that widens.
WINDOW, GRID = 1000.0, 161
GOLDEN, ROUNDS = (math.sqrt(5) - 1) / 2, 48
TIE = 1e-12
# The posterior: grid points around each of four centres (0.08 units apart there), rows at once.
CENTRE, SOME = 101, 2000
SCORES = 4000  # simulated for van Trees' bound
# A direction that leans out of the range of a matrix by more than this is outside of it:
# eigenvectors are known to eps over the gap, 1e-16/1e-12 at worst, typically 1e-15.
LEANS = 1e-7
# An attacker whose error is so many standard errors below the floor: by chance once in 10⁶.
SURE = 5.0
EXPOSED = (
    "This attacker does better than the release's own density allows: there is less noise in it "
    "than it claims."
)
LEARNT = (
    f"No density: E[y|z] was learnt by regression on {PAIRS} simulated pairs. An attacker "
    "who knows more does at least as well: a large error here is no evidence of privacy, "
    "run certify. No attacker without a prior was run."
)
NO_BOUND = "The information has no bound: van Trees' bound is taken as 0."
NO_ATTACKER = "No attacker without a prior is known for this mechanism: state a prior."
BY_REGRESSION = (
    f"E[y|z] was learnt by regression on {PAIRS} simulated pairs: the best attacker does better."
)


def attack(
    mechanism: Audited,
    y: ArrayLike,
    *,
    rng: np.random.Generator | int,
    level: Stated | None = None,
    prior: tuple[float, float] | None = None,
    trials: int = 2000,
) -> list[Attack]:
    """Attack `trials` releases of y (`obj:adv`): one `Attack` per number attacked.

    `prior` = (mean, variance): the attacker's belief about each number attacked, independently.

    Independent channels: each *input* u_i = (Ay + b)_i, by the most likely u_i and E[u_i|z_i].
    Linear with Gaussian noise, as is running code: each *measurement* y_i, by the best unbiased
      estimate and the posterior mean, both in closed form.
    Other mechanisms with a density: each measurement, by E[y_i|z] learnt by regression; needs a
      prior. Floors and van Trees' bound are those of the density.
    Samplers, rotations and channels without a density: the same without floors of their own
      (`thm:Ocrbound`).

    `level_floor` is aᵀ S⁺ a for a (a row of A, or e_i) in the range of S, outside it inf.
    The report contains the errors of private measurements: it is for the data owner only.
    Cost: per input about 1000 log-densities per trial, and as many with a prior.

    >>> import privest.noise
    >>> from privest.mechanism import Additive
    >>> channel = Additive(privest.noise.Gaussian(cov=1.0))
    >>> found = attack(channel, [3.0], rng=1, level=1.0, prior=(3.0, 1.0))[0]
    >>> round(found.unbiased_floor, 9), found.level_floor, round(found.van_trees, 9)
    (1.0, 1.0, 0.5)
    >>> abs(found.averaged.mse - 0.5) < 5 * found.averaged.mse_error
    True
    """
    audited, rng = as_audited(mechanism), generator_of(rng)
    given, floors = one_vector(y, audited), None
    channels = audited if isinstance(audited, Componentwise) else None
    if isinstance(audited, RunningMechanism):  # linear, with Gaussian noise
        channels = None
    if level is not None:
        rows = None if channels is None else channels.matrix
        S = stated_level(level).dense(given.size)
        floors = unbiased_floors(np.eye(given.size) if rows is None else rows, S)
    task = Task(given, floors, as_prior(prior), as_count(trials, "trials", least=2), rng)
    if channels is not None:
        inputs = replace(task, truth=channels.inputs(given), target="input")
        return [_attack_channel(i, channel, inputs) for i, channel in enumerate(channels.channels)]
    turned = isinstance(audited, GeometricPerturbation) and audited.variance == 0
    if turned or not isinstance(audited, Mechanism):
        return _attack_sampler(audited, task)
    linear = _linear_information(audited, given)
    return (
        _attack_vector(audited, task) if linear is None else _attack_linear(audited, linear, task)
    )


def unbiased_floors(rows: Array, information: Array) -> Array:
    """The least variance of an unbiased estimate of a_iᵀy: a_iᵀ I⁺ a_i, inf outside the range of I.

    >>> unbiased_floors(np.array([[2.0, 1.0], [1.0, 0.0]]), np.array([[4.0, 2.0], [2.0, 1.0]]))
    array([ 1., inf])
    """
    root, hidden = inverse_root(information)
    size = np.sqrt(np.diagonal(information))
    unit = np.where(size > 0, size, 1.0)
    value = ((rows @ root) ** 2).sum(axis=1)
    # h is orthogonal to the range; lean in the same units in which the rank was decided.
    scaled = hidden * unit[:, None]
    scaled /= np.linalg.norm(scaled, axis=0)
    lean = np.abs((rows / unit) @ scaled).max(axis=1, initial=0.0)
    outside = lean > LEANS * np.linalg.norm(rows / unit, axis=1)
    return np.asarray(np.where(outside, np.inf, value))


def _attack_sampler(sampler: Mechanism | Sampler, task: Task) -> list[Attack]:
    draw = as_sampler(sampler)

    def release(v: Array, rng: np.random.Generator) -> Array:
        # A plain sampler takes one y at a time: a call for each.
        return np.concatenate([draw(one, rng, 1) for one in v])

    return task.measurements(None, None, learnt(release, task), LEARNT)


# --- one channel ----------------------------------------------------------------------------------


def _attack_channel(i: int, channel: Channel, task: Task) -> Attack:
    """Input i by itself: z_i depends on u_i alone."""
    u = float(task.truth[i])
    if not has_density(channel):
        (believer,) = learnt(channel.sample, replace(task, truth=task.truth[i : i + 1]))
        return task.report(i, None, None, believer, LEARNT)
    z = channel.sample(np.full(task.trials, u), task.rng)
    guess, unbounded = _most_likely(channel, z, u)
    likelihood = Errors.of(guess, u, unbounded)
    shown = channel.information_estimate(u).value
    floor = math.inf if shown == 0 else 1 / shown
    if task.prior is None:
        return task.report(i, likelihood, floor, Believer())
    mean, variance = task.prior
    drawn = drawn_from(task.prior, task.rng, task.trials)
    seen = channel.sample(drawn, task.rng)
    average = _averaged_information(channel, mean, math.sqrt(variance))
    here = Errors.of(_posterior_mean(channel, z, task.prior, np.full(z.shape, u)), u)
    there = Errors.of(_posterior_mean(channel, seen, task.prior, drawn), drawn)
    notes = (NO_BOUND,) if math.isinf(average) else ()
    return task.report(
        i, likelihood, floor, Believer(here, there, 1 / (average + 1 / variance)), *notes
    )


def _averaged_information(channel: Channel, mean: float, deviation: float) -> float:
    """E I(u), u ~ N(mean, deviation²), rounded up by its error: at most the supremum of I."""
    supremum, at = channel.worst, channel.worst_input
    if math.isnan(supremum):
        supremum = worst_input(channel, np.array([mean])).best.value
    if math.isinf(supremum) or not has_formula(channel):
        return supremum
    peak = 0.0 if at is None else (at - mean) / deviation
    value, error, *_ = scipy.integrate.quad(
        lambda x: float(channel.information(mean + deviation * x)) * math.exp(-(x**2) / 2), -9, 9,
        points=sorted({-abs(peak), 0.0, abs(peak)}) if abs(peak) < 9 else (0.0,),
        limit=500, full_output=1,
    )  # fmt: skip
    return min((value + error) / math.sqrt(2 * math.pi), supremum)


def _most_likely(channel: Channel, z: Array, near: float) -> tuple[Array, float]:
    """argmax_u p(z|u) for every z, and the share of z with no maximum inside the window.

    A grid around the true input and around z, then golden section in the best cell.
    """
    distinct, back = np.unique(z, return_inverse=True)
    centres = np.column_stack([np.full(distinct.size, near), distinct])
    grid = _widening(centres, _scale(channel, distinct, near), GRID)
    values = log_density(channel, np.broadcast_to(distinct[:, None], grid.shape), grid)
    best, rows, last = values.argmax(axis=1), np.arange(distinct.size), grid.shape[1] - 1
    low, high = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, last)]
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


def _posterior_mean(channel: Channel, z: Array, prior: Prior, near: Array) -> Array:
    """E[u|z] for every z under the prior, by the trapezoid rule; `near`: the true inputs."""
    distinct, first, back = np.unique(z, return_index=True, return_inverse=True)
    found = [
        _posterior(channel, distinct[i : i + SOME], near[first[i : i + SOME]], *prior)
        for i in range(0, distinct.size, SOME)
    ]
    return np.concatenate(found)[back]


def _posterior(channel: Channel, z: Array, near: Array, mean: float, variance: float) -> Array:
    deviation = math.sqrt(variance)

    def at(u: Array) -> Array:
        seen = log_density(channel, np.broadcast_to(z[:, None], u.shape), u)
        return np.asarray(seen - (u - mean) ** 2 / (2 * variance))

    # How far u moves before ln p changes by ½: at the true input, or at the prior.
    unit = np.full(z.shape, deviation)
    for place in (np.full(z.shape, mean), near):
        start = log_density(channel, z, place)
        live = start > -np.inf
        unit[live] = reach(channel, z[live], place[live], start[live])
    centres = np.column_stack([np.full(z.size, mean), z, near])
    grid = _widening(centres, np.column_stack([np.full(z.size, deviation), unit, unit]), CENTRE)
    top = grid[np.arange(z.size), at(grid).argmax(axis=1)][:, None]
    finer = _widening(top, np.minimum(unit, deviation)[:, None], CENTRE)
    grid = np.sort(np.concatenate([grid, finer], axis=1), axis=1)
    height = at(grid)
    highest = height.max(axis=1, keepdims=True)
    if np.isneginf(highest).any():
        raise NumericalFailure(
            f"{np.count_nonzero(np.isneginf(highest))} of {z.size} releases are explained by no "
            "input that the search met: the likelihood is narrower than its grid."
        )
    weight = np.exp(height - highest)
    away = np.trapezoid(weight * (grid - top), grid, axis=1) / np.trapezoid(weight, grid, axis=1)
    return np.asarray(top[:, 0] + away)


def _scale(channel: Channel, z: Array, near: float) -> float:
    some = z[:: max(1, z.size // 200)]
    start = log_density(channel, some, near)
    some, start = some[start > -np.inf], start[start > -np.inf]
    if some.size == 0:
        return max(abs(near), 1.0)
    return float(np.median(reach(channel, some, np.full(some.shape, near), start)))


def _widening(centres: Array, units: Array | float, count: int) -> Array:
    """A grid a row: `count` points around each of its centres, ever further apart."""
    moves = 0.5 * np.sinh(np.linspace(-1, 1, count) * math.asinh(WINDOW / 0.5))
    grid = centres[:, :, None] + np.broadcast_to(units, centres.shape)[:, :, None] * moves
    return np.sort(grid.reshape(len(centres), -1), axis=1)


def _golden(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
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


# --- linear, with Gaussian noise ------------------------------------------------------------------


def _linear_information(mechanism: Mechanism, y: Array) -> Array | None:
    if isinstance(mechanism, GaussianMechanism):
        checked = checked_precision(mechanism, y[None])
        return None if checked is None else checked[0]
    if isinstance(mechanism, RunningMechanism):
        return np.asarray(mechanism.worst_information())
    return None


def _attack_linear(mechanism: Mechanism, S: Array, task: Task) -> list[Attack]:
    """One attack per measurement, on ln p(z|y) = pᵀy − ½yᵀSy + const with p = score(z|0).

    best unbiased     ŷ = S⁺p (generalised least squares), of variance e_iᵀS⁺e_i
    posterior mean    (S + I/v)⁻¹(p + μ/v), of variance [(S + I/v)⁻¹]_ii, which is van Trees' bound
    """
    root, _ = inverse_root(S)
    floors = unbiased_floors(np.eye(len(S)), S)
    p = mechanism.score(task.releases(mechanism), np.zeros(len(S)))
    believers = _linear_believers(mechanism, S, task, p)
    asked = replace(task, attacker="best unbiased")
    attacks = asked.measurements(p @ root @ root.T, floors, believers)
    return [replace(a, notes=(EXPOSED,)) if _exposed(a) else a for a in attacks]


def _exposed(attack: Attack) -> bool:
    best, floor = attack.likelihood, attack.unbiased_floor
    return bool(best and floor and best.mse + SURE * best.mse_error < floor)


def _linear_believers(mechanism: Mechanism, S: Array, task: Task, p: Array) -> list[Believer]:
    if task.prior is None:
        return [Believer()] * len(S)
    mean, variance = task.prior
    # In units of the prior: S·v + I has no eigenvalue below 1.
    inverse = np.linalg.inv(np.linalg.cholesky(S * variance + np.eye(len(S))))
    covariance = variance * inverse.T @ inverse
    drawn = drawn_from(task.prior, task.rng, task.trials, len(S))
    other = mechanism.score(mechanism.simulate(drawn, task.rng), np.zeros(len(S)))
    here, there = ((seen + mean / variance) @ covariance for seen in (p, other))
    return Believer.of_each(here, task.truth, there, drawn, np.diagonal(covariance).tolist())


# --- any density ----------------------------------------------------------------------------------


def _attack_vector(mechanism: Mechanism, task: Task) -> list[Attack]:
    """One attack per measurement, the posterior mean by regression (`learnt`).

    Van Trees' bound is [(E I + I/v)⁻¹]_ii, E I the mean of s sᵀ over draws.
    """
    y, m = task.truth, task.truth.size
    information = np.asarray(mechanism.information(y))
    floors = None
    if np.isfinite(information).all():
        floors = unbiased_floors(np.eye(m), information)
    if task.prior is None:
        return task.measurements(None, floors, [Believer()] * m, NO_ATTACKER)
    found = learnt(mechanism.simulate, task)
    bounds, how = _van_trees(mechanism, task)
    believers = [one._replace(bound=bound) for one, bound in zip(found, bounds)]
    return task.measurements(None, floors, believers, BY_REGRESSION, how)


def _van_trees(mechanism: Mechanism, task: Task) -> tuple[list[float], str]:
    assert task.prior is not None
    m = mechanism.measurements
    if not np.isfinite(mechanism.worst_information()).all():
        return [0.0] * m, NO_BOUND
    y = drawn_from(task.prior, task.rng, SCORES, m)
    score = mechanism.score(mechanism.simulate(y, task.rng), y)
    average = score.T @ score / SCORES
    how = f"E I in van Trees' bound is a mean over {SCORES} simulated scores."
    factor = np.linalg.inv(np.linalg.cholesky(average * task.prior[1] + np.eye(m)))
    return (task.prior[1] * (factor**2).sum(axis=0)).tolist(), how
