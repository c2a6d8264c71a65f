"""Attackers on a release of one reading vector: a report for the data owner.

On one channel: the most likely input and the posterior mean. On a linear release with Gaussian
noise: both in closed form. On any other density: Fisher scoring and importance sampling. Without a
density: regression on simulated pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Index, as_count
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
from privest.audit._density import checked_precision
from privest.audit._finding import (
    Audited,
    Sampler,
    Stated,
    as_audited,
    as_sampler,
    has_density,
    inverse_root,
    one_vector,
    stated_level,
)
from privest.audit._search import has_formula, worst_input
from privest.errors import NumericalFailure
from privest.mechanism import (
    Additive,
    AffineMechanism,
    Channel,
    Componentwise,
    GaussianMechanism,
    Mechanism,
    Rotation,
)
from privest.mechanism.numeric_score import log_density, reach
from privest.noise import GaussianLaw

# The likelihood is searched within so many units of the truth and of z, on a grid that widens.
WINDOW, GRID = 1000.0, 161
GOLDEN, ROUNDS = (math.sqrt(5) - 1) / 2, 48
TIE = 1e-12
# The posterior: grid points around each of four centres (0.08 units apart there), rows at once.
CENTRE, SOME = 101, 2000
# Draws from the prior for the posterior mean, log-densities at once, and how few of the draws may
# carry the weight before the report warns.
DRAWS, ROWS, FEW = 4000, 1_000_000, 50.0
ASCENTS, HALVINGS = 100, 30
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


def adversary(
    mechanism: Audited,
    y: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Stated | None = None,
    prior: tuple[float, float] | None = None,
    steps: int | None = None,
    trials: int = 2000,
) -> list[Attack]:
    """Release y `trials` times and attack every release.

    `prior` = (mean, variance): what the attacker believes of each number attacked, independently.

    Independent channels (`Componentwise`, or one `Channel`): z_i tells about u_i = (Ay + b)_i
      alone, so each *input* u_i is attacked by itself, with the most likely u_i and E[u_i|z_i].
    Linear with Gaussian noise, as is what users really run (`steps` as in `certify`): each
      *reading* y_i, by the best unbiased estimate and the posterior mean, both in closed form; S
      may be dense or singular. An attacker that beats the release's own floor is noted.
    Other mechanisms with a density: each reading, by its likelihood and by importance sampling.
    Samplers, rotations and channels without a density: E[·|z] learnt by regression; needs a prior.
      There is no likelihood, no floor of its own and no van Trees bound.

    `level_floor` is aᵀ S⁺ a for a (a row of A, or e_i) in the range of S, 1/s for data perturbation
    at level s. Outside the range some direction that must stay hidden is mixed in: the level allows
    no unbiased attacker at all, and the floor is inf.
    The report shows the private readings' errors: it is for the data owner only.
    Cost: per input about 1000 log-densities a trial, and as many with a prior.

    >>> import privest.noise
    >>> from privest.mechanism._additive import Additive
    >>> channel = Additive(privest.noise.GaussianLaw(variance=1.0))
    >>> rng = np.random.default_rng(1)
    >>> attack = adversary(channel, [3.0], rng=rng, level=1.0, prior=(3.0, 1.0))[0]
    >>> round(attack.unbiased_floor, 9), attack.level_floor, round(attack.van_trees, 9)
    (1.0, 1.0, 0.5)
    >>> abs(attack.averaged.mse - 0.5) < 5 * attack.averaged.mse_error
    True
    """
    audited = as_audited(mechanism, "attack", steps)
    given, floors = one_vector(y, audited), None
    if level is not None:
        rows = audited.matrix if isinstance(audited, Componentwise) else None
        S = stated_level(level, steps).dense(given.size)
        floors = unbiased_floors(np.eye(given.size) if rows is None else rows, S)
    task = Task(given, floors, as_prior(prior), as_count(trials, "trials", least=2), rng)
    if isinstance(audited, Componentwise):
        inputs = replace(task, truth=audited.inputs(given), target="input")
        return [_attack_channel(i, channel, inputs) for i, channel in enumerate(audited.channels)]
    if not isinstance(audited, Mechanism) or isinstance(audited, Rotation):
        return _attack_sampler(audited, task)
    linear = _linear_information(audited, given)
    return (
        _attack_vector(audited, task) if linear is None else _attack_linear(audited, linear, task)
    )


def unbiased_floors(rows: Array, information: Array) -> Array:
    """a_iᵀ I⁺ a_i for rows a_i in the range of I; inf for the others.

    The least variance of an unbiased estimate of a_iᵀy. Outside the range the likelihood does not
    change in some direction in which a_iᵀy does: there is no unbiased estimate of finite variance.

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
    """One attack a reading, learnt by regression."""
    draw = as_sampler(sampler)

    def release(v: Array, rng: np.random.Generator) -> Array:
        # A plain sampler takes one y at a time: a call for each.
        return np.concatenate([draw(one, rng, 1) for one in v])

    return task.readings(None, None, learnt(release, task), LEARNT)


# --- one channel ----------------------------------------------------------------------------------


def _attack_channel(i: int, channel: Channel, task: Task) -> Attack:
    """Input i by itself: z_i tells about u_i alone."""
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
    """E I(u), u ~ N(mean, deviation²), rounded up by its error: at most the supremum of I.

    By quadrature where the channel has a formula for I(u); else the supremum stands in.
    """
    supremum, at = channel.worst.information, channel.worst.at
    if math.isnan(supremum):
        supremum = worst_input(channel, np.array([mean])).information
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

    A grid around the true input and around z (an attacker without the truth needs a wider one;
    the maximum is the same), then golden section in the best cell. Equal releases, as of a
    quantiser, are solved once. The maximum is global up to peaks narrower than the grid:
    a tenth of a unit close to both centres.
    """
    distinct, back = np.unique(z, return_inverse=True)
    centres = np.column_stack([np.full(distinct.size, near), distinct])
    grid = _widening(centres, _scale(channel, distinct, near), GRID)
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


def _posterior_mean(channel: Channel, z: Array, prior: Prior, near: Array) -> Array:
    """E[u|z] for every z under the prior, by the trapezoid rule; `near`: the true inputs.

    On grids that widen around the prior mean, z, the true input and the highest point of these.
    Its error is far below that of the trials. Missed: peaks that fall between the grid points.
    """
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


# --- linear, with Gaussian noise ------------------------------------------------------------------


def _linear_information(mechanism: Mechanism, y: Array) -> Array | None:
    """S of a release that is linear with Gaussian noise; None for any other."""
    if isinstance(mechanism, GaussianMechanism):
        checked = checked_precision(mechanism, y[None])
        return None if checked is None else checked[0]
    if isinstance(mechanism, AffineMechanism) and isinstance(mechanism.law, GaussianLaw):
        return mechanism.worst_information()
    return None


def _attack_linear(mechanism: Mechanism, S: Array, task: Task) -> list[Attack]:
    """One attack a reading on ln p(z|y) = pᵀy − ½yᵀSy + const, where p = score(z|0) is sufficient.

    best unbiased     ŷ = S⁺p (generalised least squares), of variance e_iᵀS⁺e_i; it exists for the
                      readings with e_i in the range of S.
    posterior mean    (S + I/v)⁻¹(p + μ/v), of variance [(S + I/v)⁻¹]_ii, which is van Trees' bound
    S may be dense and singular. Cost: m³, and m² a trial.
    """
    root, _ = inverse_root(S)
    floors = unbiased_floors(np.eye(len(S)), S)
    p = mechanism.score(task.releases(mechanism), np.zeros(len(S)))
    believers = _linear_believers(mechanism, S, task, p)
    asked = replace(task, attacker="best unbiased")
    attacks = asked.readings(p @ root @ root.T, floors, believers)
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
    """One attack a reading.

    most likely value  the nearest maximum of p(z|·): damped Fisher scoring from the truth, which
                       favours the attacker; an affine release with a square A is solved exactly.
                       For readings that the information at y shows (e_i in its range).
    posterior mean     Σ w_j y_j, w_j ∝ p(z|y_j), of 4000 draws y_j from the prior: importance
                       sampling. The effective number of draws (Σw)²/Σw² is reported; with few of
                       them the true posterior mean does better than what is shown.
    van Trees          [(E I + I/v)⁻¹]_ii, E I the mean of s sᵀ over draws (affine: known).
    Cost: 4000 log-densities a trial, twice.
    """
    y, m = task.truth, task.truth.size
    z = task.releases(mechanism)
    information = mechanism.information(y).matrix
    floors = guess = None
    if np.isfinite(information).all():
        floors = unbiased_floors(np.eye(m), information)
        guess = _climbed(mechanism, z, y, information) if np.isfinite(floors).any() else None
    believers, notes = _believers(mechanism, z, task)
    return task.readings(guess, floors, believers, *notes)


def _climbed(mechanism: Mechanism, z: Array, y: Array, information: Array) -> Array:
    """The nearest maximum of p(z|·) for every z (n, m)."""
    if isinstance(mechanism, AffineMechanism):
        M = mechanism.inner.matrix
        assert M is not None
        if len(M) == M.shape[1] and np.linalg.cond(M) < 1e8:
            # As many outputs as readings: the most likely inputs u are reached, B⁻¹z − mode(d).
            channel = Additive(mechanism.law)
            mode = _most_likely(channel, np.zeros(1), 0.0)[0][0]
            inputs = np.linalg.solve(mechanism.spread, z.T).T + mode
            return np.asarray(np.linalg.solve(M, (inputs - mechanism.inner.offset).T).T)
    root, _ = inverse_root(information)
    return _ascended(mechanism, z, np.broadcast_to(y, (len(z), y.size)).copy(), root @ root.T)


def _ascended(mechanism: Mechanism, z: Array, guess: Array, inverse: Array) -> Array:
    """Damped Fisher scoring y + t·I⁺s, all trials at once; a step is taken only if p rises."""
    height = mechanism.log_density(z, guess)
    step = np.ones(len(z))
    alive = np.arange(len(z))
    for _ in range(ASCENTS):
        move = mechanism.score(z[alive], guess[alive]) @ inverse
        rising = np.zeros(alive.size, dtype=bool)
        for _ in range(HALVINGS):
            left = ~rising
            new = guess[alive[left]] + step[alive[left], None] * move[left]
            value = mechanism.log_density(z[alive[left]], new)
            up = value > height[alive[left]]
            at = alive[left][up]
            guess[at], height[at] = new[up], value[up]
            rising[np.flatnonzero(left)[up]] = True
            step[alive[left][~up]] /= 2
            if rising.all():
                break
        small = np.abs(step[alive, None] * move).max(axis=1) <= 1e-9 * (
            np.abs(guess[alive]).max(axis=1) + 1e-300
        )
        step[alive] = np.minimum(2 * step[alive], 1.0)
        alive = alive[rising & ~small]
        if alive.size == 0:
            break
    return guess


def _believers(
    mechanism: Mechanism, z: Array, task: Task
) -> tuple[list[Believer], tuple[str, ...]]:
    """One for each reading, and what to say of all of them."""
    if task.prior is None:
        return [Believer()] * task.truth.size, ()
    drawn = drawn_from(task.prior, task.rng, task.trials, mechanism.readings)
    seen = mechanism.simulate(drawn, task.rng)
    particles = drawn_from(task.prior, task.rng, DRAWS, mechanism.readings)
    here, few = _weighted_means(mechanism, z, particles)
    there, fewer = _weighted_means(mechanism, seen, particles)
    effective = np.concatenate([few, fewer])
    note = (
        f"Posterior means by importance sampling from the prior: {np.median(effective):.0f} of "
        f"{DRAWS} draws are effective (median), {effective.min():.0f} at least."
    )
    if np.quantile(effective, 0.1) < FEW:
        note += " Too few for some releases: the best attacker does better than this one."
    bounds, how = _van_trees(mechanism, seen, drawn, task.prior[1])
    believers = Believer.of_each(here, task.truth, there, drawn, bounds)
    return believers, (note, *how)


def _van_trees(
    mechanism: Mechanism, z: Array, y: Array, variance: float
) -> tuple[list[float], list[str]]:
    """[(E I + I/v)⁻¹]_ii from pairs y, z drawn with the prior, and where E I comes from."""
    average, how = mechanism.worst_information(), ""
    if not np.isfinite(average).all():
        return [0.0] * mechanism.readings, [NO_BOUND]
    if not isinstance(mechanism, AffineMechanism):  # there: the same at every y
        score = mechanism.score(z, y)
        average = score.T @ score / len(z)
        how = f"E I in van Trees' bound is a mean over {len(z)} simulated scores."
    factor = np.linalg.inv(np.linalg.cholesky(average * variance + np.eye(mechanism.readings)))
    return (variance * (factor**2).sum(axis=0)).tolist(), [how] if how else []


def _weighted_means(mechanism: Mechanism, z: Array, particles: Array) -> tuple[Array, Array]:
    """E[y|z] from draws of the prior, and (Σw)²/Σw².

    Where no draw explains z (bounded noise) the mean is that of the prior, with 0 effective draws.
    """
    result, effective = np.empty((len(z), particles.shape[1])), np.empty(len(z))
    some = max(ROWS // len(particles), 1)
    for begin in range(0, len(z), some):
        part = slice(begin, begin + some)
        log = mechanism.log_density(z[part, None, :], particles)
        top = log.max(axis=1, keepdims=True)
        lost = np.isneginf(top)[:, 0]
        w = np.exp(np.where(lost[:, None], 0.0, log - np.where(lost[:, None], 0.0, top)))
        w /= w.sum(axis=1, keepdims=True)
        result[part] = w @ particles
        effective[part] = np.where(lost, 0.0, 1 / (w**2).sum(axis=1))
    return result, effective
