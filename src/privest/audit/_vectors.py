"""Attackers on mechanisms that mix the readings: linear ones, by any density, on rotations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.audit._attack import Attack, Believer, Errors, Prior, Task, drawn_from
from privest.audit._attackers import most_likely
from privest.audit._by_density import checked_precision
from privest.audit._floors import inverse_root, unbiased_floors
from privest.mechanism import (
    Additive,
    AffineMechanism,
    Channel,
    GaussianMechanism,
    GeometricPerturbation,
    Mechanism,
    Rotation,
    Worst,
)
from privest.mechanism._rotation import log_average, mean_cosine, radial_information
from privest.noise import GaussianLaw

# Draws from the prior for the posterior mean, log-densities at once, and how few of the draws may
# carry the weight before the report warns.
DRAWS, ROWS, FEW = 4000, 1_000_000, 50.0
ASCENTS, HALVINGS = 100, 30
# An attacker whose error is so many standard errors below the floor: by chance once in 10⁶.
SURE = 5.0
EXPOSED = (
    "This attacker does better than the release's own density allows: there is less noise in it "
    "than it claims."
)


# --- linear, with Gaussian noise ------------------------------------------------------------------


def linear_information(mechanism: Mechanism, y: Array) -> Array | None:
    """S of a release that is linear with Gaussian noise; None for any other."""
    if isinstance(mechanism, GaussianMechanism):
        checked = checked_precision(mechanism, y[None])
        return None if checked is None else checked[0]
    if isinstance(mechanism, AffineMechanism) and isinstance(mechanism.law, GaussianLaw):
        return mechanism.worst_information()
    return None


def attack_linear(mechanism: Mechanism, S: Array, task: Task) -> list[Attack]:
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


# --- by any density -------------------------------------------------------------------------------


def attack_vector(mechanism: Mechanism, task: Task) -> list[Attack]:
    """One attack a reading, and one on the length for a noisy rotation.

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
        guess = _most_likely(mechanism, z, y, information) if np.isfinite(floors).any() else None
    believers, notes = _believers(mechanism, z, task)
    attacks = task.readings(guess, floors, believers[:m], *notes)
    if isinstance(mechanism, GeometricPerturbation):
        attacks.append(_attack_length(mechanism, z, task, believers[m]))
    return attacks


def _most_likely(mechanism: Mechanism, z: Array, y: Array, information: Array) -> Array:
    if isinstance(mechanism, AffineMechanism):
        M = mechanism.inner.matrix
        assert M is not None
        if len(M) == M.shape[1] and np.linalg.cond(M) < 1e8:
            # As many outputs as readings: the most likely inputs u are reached, B⁻¹z − mode(d).
            channel = Additive(mechanism.law)
            mode = most_likely(channel, np.zeros(1), 0.0)[0][0]
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
    """One for each number of `_values`, and what to say of all of them."""
    truth = _values(mechanism, task.truth[None])[0]
    if task.prior is None:
        return [Believer()] * truth.size, ()
    drawn = drawn_from(task.prior, task.rng, task.trials, mechanism.readings)
    seen = mechanism.simulate(drawn, task.rng)
    particles = drawn_from(task.prior, task.rng, DRAWS, mechanism.readings)
    here, few = weighted_means(mechanism, z, particles)
    there, fewer = weighted_means(mechanism, seen, particles)
    effective = np.concatenate([few, fewer])
    note = (
        f"Posterior means by importance sampling from the prior: {np.median(effective):.0f} of "
        f"{DRAWS} draws are effective (median), {effective.min():.0f} at least."
    )
    if np.quantile(effective, 0.1) < FEW:
        note += " Too few for some releases: the best attacker does better than this one."
    bounds, how = _van_trees(mechanism, seen, drawn, task.prior[1])
    believers = Believer.of_each(here, truth, there, _values(mechanism, drawn), bounds)
    return believers, (note, *how)


def _van_trees(
    mechanism: Mechanism, z: Array, y: Array, variance: float
) -> tuple[list[float], list[str]]:
    """[(E I + I/v)⁻¹]_ii from pairs y, z drawn with the prior, and where E I comes from."""
    average, how = mechanism.worst_information(), ""
    if not np.isfinite(average).all():
        how = "The information has no bound: van Trees' bound is taken as 0."
        return [0.0] * mechanism.readings, [how]
    if not isinstance(mechanism, AffineMechanism):  # there: the same at every y
        score = mechanism.score(z, y)
        average = score.T @ score / len(z)
        how = f"E I in van Trees' bound is a mean over {len(z)} simulated scores."
    factor = np.linalg.inv(np.linalg.cholesky(average * variance + np.eye(mechanism.readings)))
    return (variance * (factor**2).sum(axis=0)).tolist(), [how] if how else []


def weighted_means(mechanism: Mechanism, z: Array, particles: Array) -> tuple[Array, Array]:
    """E[y|z] (and E[‖Ay‖|z] for a noisy rotation) from draws of the prior, and (Σw)²/Σw².

    Where no draw explains z (bounded noise) the mean is that of the prior, with 0 effective draws.
    """
    values = _values(mechanism, particles)
    result, effective = np.empty((len(z), values.shape[1])), np.empty(len(z))
    some = max(ROWS // len(particles), 1)
    for begin in range(0, len(z), some):
        part = slice(begin, begin + some)
        log = mechanism.log_density(z[part, None, :], particles)
        top = log.max(axis=1, keepdims=True)
        lost = np.isneginf(top)[:, 0]
        w = np.exp(np.where(lost[:, None], 0.0, log - np.where(lost[:, None], 0.0, top)))
        w /= w.sum(axis=1, keepdims=True)
        result[part] = w @ values
        effective[part] = np.where(lost, 0.0, 1 / (w**2).sum(axis=1))
    return result, effective


def _values(mechanism: Mechanism, y: Array) -> Array:
    """What is attacked (n, k): the readings, and for a noisy rotation ‖Ay‖ after them."""
    if not isinstance(mechanism, GeometricPerturbation):
        return y
    return np.column_stack([y, _norm(y if mechanism.matrix is None else y @ mechanism.matrix.T)])


# --- rotations: the length is shown, the direction is not -----------------------------------------


def attack_rotation(mechanism: Rotation, task: Task) -> list[Attack]:
    """One attack a reading, one on the length: z = Ry shows ‖y‖ = ‖z‖ exactly and nothing else.

    No T(z) is unbiased for a reading: E T depends on ‖y‖ alone. The posterior of y ~ N(μ1, vI) is
    the prior on the sphere of radius r = ‖z‖, a von Mises-Fisher law about the direction 1/√m:

        E[y_i|z] = r A_m(r √m |μ|/v) sign(μ)/√m      (A_m: `mean_cosine`)

    van Trees' bound is 0: the information along y is infinite at every y.
    """
    m = task.truth.size
    radius = _norm(task.releases(mechanism))
    believers, notes = [Believer()] * m, []
    if task.prior is not None:
        drawn = drawn_from(task.prior, task.rng, task.trials, m)
        seen = _norm(mechanism.simulate(drawn, task.rng))
        here, there = (
            np.repeat(posterior_on_sphere(r, m, task.prior)[:, None], m, axis=1)
            for r in (radius, seen)
        )
        believers = Believer.of_each(here, task.truth, there, drawn, [0.0] * m)
        notes = ["The information along y is infinite: van Trees' bound is 0."]
    exact = Errors.of(radius, float(np.linalg.norm(task.truth)))
    length = Attack(0, exact, 0.0, target="length", attacker="length of z")
    return [*task.readings(None, np.full(m, math.inf), believers, *notes), length]


def posterior_on_sphere(radius: Array, dimension: int, prior: Prior) -> Array:
    """E[y_i | ‖y‖ = r], the same for every i, for y ~ N(μ1, vI)."""
    mean, variance = prior
    root = math.sqrt(dimension)
    cosine = mean_cosine(radius * root * abs(mean) / variance, dimension)
    return np.asarray(radius * cosine * np.sign(mean) / root)


class Radius(Channel):
    """ρ → r = ‖z − t‖ of a noisy rotation, in units of σ: what it shows of ‖Ay‖, as a channel."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        """‖ρn + e‖, e standard normal."""
        rho = as_array(u, "u")
        noise = rng.standard_normal((*rho.shape, self.dimension))
        noise[..., 0] += rho
        return np.asarray(np.linalg.norm(noise, axis=-1))

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln p(r|ρ), for |ρ|."""
        r, rho, q = np.asarray(z), np.abs(u), self.dimension
        constant = (1 - q / 2) * math.log(2.0) - math.lgamma(q / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (q - 1) * np.log(r) - 0.5 * (r - rho) ** 2 + log_average(r * rho, q)
        return np.where(r > 0, constant + inside, -np.inf)

    @property
    def worst(self) -> Worst:
        return Worst(1.0, attained=False)


def _attack_length(
    mechanism: GeometricPerturbation, z: Array, task: Task, believer: Believer
) -> Attack:
    """The most likely ρ = ‖Ay‖ from r = ‖z − t‖, which is sufficient, next to 1/I(ρ) = σ²/i(ρ)."""
    sigma = math.sqrt(mechanism.variance)
    length = float(_values(mechanism, task.truth[None])[0, -1])
    r = _norm(z - mechanism.translation) / sigma
    guess, unbounded = most_likely(Radius(mechanism.outputs), r, length / sigma)
    shown = radial_information(length / sigma, mechanism.outputs)[0]
    floor = math.inf if shown <= 0 else mechanism.variance / shown
    likelihood = Errors.of(sigma * np.abs(guess), length, unbounded)
    return Attack(0, likelihood, floor, None, task.prior, *believer, "length", "most likely ρ")


def _norm(x: Array) -> Array:
    return np.asarray(np.linalg.norm(x, axis=-1))
