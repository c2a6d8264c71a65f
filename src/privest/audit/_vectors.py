"""Attackers on any mechanism with a density that mixes the readings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privest.arrays import Array
from privest.audit._attack import NOT_SHOWN, Attack, Errors, Prior
from privest.audit._attackers import most_likely
from privest.audit._floors import inverse_root, unbiased_floors
from privest.audit._rotations import attack_length, input_length
from privest.mechanism._additive import Additive
from privest.mechanism._affine import AffineMechanism
from privest.mechanism._rotation import GeometricPerturbation
from privest.mechanism._vector import Mechanism

# Draws from the prior for the posterior mean, log-densities at once, and how few of the draws may
# carry the weight before the report warns.
DRAWS, ROWS, FEW = 4000, 1_000_000, 50.0
ASCENTS, HALVINGS = 100, 30


def attack_vector(
    mechanism: Mechanism,
    y: Array,
    floors: Array | None,
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> list[Attack]:
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
    m = y.size
    z = mechanism.simulate(y, rng, trials=trials)
    information = mechanism.information(y).matrix
    finite = bool(np.isfinite(information).all())
    mine = unbiased_floors(np.eye(m), information) if finite else np.zeros(m)
    shown = np.isfinite(mine)
    guess = _most_likely(mechanism, z, y, information) if finite and shown.any() else None
    truths = _values(mechanism, y[None])[0].tolist()
    here, there, bounds, notes = _bayesian(mechanism, z, truths, prior, trials, rng)
    attacks = [
        Attack(
            i,
            None if guess is None or not shown[i] else Errors.of(guess[:, i], truths[i]),
            float(mine[i]) if finite else None,
            None if floors is None else float(floors[i]),
            prior,
            here[i],
            there[i],
            bounds[i],
            target="reading",
            notes=notes if shown[i] else (NOT_SHOWN, *notes),
        )
        for i in range(m)
    ]
    if isinstance(mechanism, GeometricPerturbation):
        attacks.append(attack_length(mechanism, z, truths[-1], here[-1], there[-1], prior))
    return attacks


# --- the most likely value ----------------------------------------------------------------------


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


# --- with a prior -------------------------------------------------------------------------------

Bayesian = tuple[
    Sequence[Errors | None], Sequence[Errors | None], Sequence[float | None], tuple[str, ...]
]


def _bayesian(
    mechanism: Mechanism,
    z: Array,
    truths: list[float],
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> Bayesian:
    m, count = mechanism.readings, len(truths)
    if prior is None:
        return [None] * count, [None] * count, [None] * count, ()
    mean, variance = prior
    drawn = rng.normal(mean, math.sqrt(variance), (trials, m))
    seen = mechanism.simulate(drawn, rng)
    particles = rng.normal(mean, math.sqrt(variance), (DRAWS, m))
    here, few = weighted_means(mechanism, z, particles)
    there, fewer = weighted_means(mechanism, seen, particles)
    values = _values(mechanism, drawn)
    effective = np.concatenate([few, fewer])
    note = (
        f"Posterior means by importance sampling from the prior: {np.median(effective):.0f} of "
        f"{DRAWS} draws are effective (median), {effective.min():.0f} at least."
    )
    if np.quantile(effective, 0.1) < FEW:
        note += " Too few for some releases: the best attacker does better than this one."
    notes = [note]
    if np.isfinite(mechanism.worst_information()).all():
        if isinstance(mechanism, AffineMechanism):
            average = mechanism.worst_information()  # the same at every y
        else:
            score = mechanism.score(seen, drawn)
            average = score.T @ score / trials
            notes.append(f"E I in van Trees' bound is a mean over {trials} simulated scores.")
        factor = np.linalg.inv(np.linalg.cholesky(average * variance + np.eye(m)))
        bounds: list[float | None] = (variance * (factor**2).sum(axis=0)).tolist()
    else:
        bounds = [0.0] * m
        notes.append("The information has no bound: van Trees' bound is taken as 0.")
    return (
        [Errors.of(here[:, i], truths[i]) for i in range(count)],
        [Errors.of(there[:, i], values[:, i]) for i in range(count)],
        [*bounds, *([None] * (count - m))],
        tuple(notes),
    )


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
    return np.column_stack([y, input_length(mechanism, y)])
