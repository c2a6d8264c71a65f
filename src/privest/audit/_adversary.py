"""What attackers make of a release of one reading vector: a report for the data holder."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_number
from privest.audit._attack import Attack, Errors, Prior
from privest.audit._attackers import most_likely, posterior_mean
from privest.audit._averaged import averaged_information
from privest.audit._checks import as_count
from privest.audit._floors import unbiased_floors
from privest.audit._information import Audited
from privest.audit._linear import attack_linear
from privest.audit._move_size import Sampler, checked_sampler
from privest.audit._quadratic import checked_precision
from privest.audit._rotations import attack_rotation
from privest.audit._simulation_attacker import PAIRS, Releases, learnt_mean, learnt_note
from privest.audit._vectors import attack_vector
from privest.errors import InvalidInput
from privest.mechanism._affine import AffineMechanism
from privest.mechanism._channel import Channel
from privest.mechanism._gaussian import GaussianMechanism
from privest.mechanism._rotation import Rotation
from privest.mechanism._vector import Componentwise, Mechanism
from privest.noise import GaussianLaw
from privest.privacy import PrivacyLevel


def adversary(
    mechanism: Audited,
    y: ArrayLike,
    *,
    rng: np.random.Generator,
    level: PrivacyLevel | float | None = None,
    prior: tuple[float, float] | None = None,
    trials: int = 2000,
) -> list[Attack]:
    """Release y `trials` times and attack every release.

    `prior` = (mean, variance): what the attacker believes of each number attacked, independently.

    Independent channels (`Componentwise`, or one `Channel`): z_i tells about u_i = (Ay + b)_i
      alone, so each *input* u_i is attacked by itself, with the most likely u_i and E[u_i|z_i].
    `GaussianMechanism`, `AffineMechanism` with Gaussian noise: each *reading* y_i, by the best
      unbiased estimate and the posterior mean, both in closed form; S may be dense or singular.
      A reading that is not shown has no unbiased attacker, and its floor is inf.
    Other mechanisms with a density: each reading, by `audit.vectors`; a rotation also its *length*.
    Samplers, and channels without a density: E[·|z] learnt by regression (`audit.learnt`); needs a
      prior. There is no density, so no likelihood, no floor of its own and no van Trees bound.

    `level_floor` is aᵀ S⁺ a for a (a row of A, or e_i) in the range of S, 1/s for data perturbation
    at level s. Outside the range some direction that must stay hidden is mixed in: the level allows
    no unbiased attacker at all, and the floor is inf.
    `van_trees` is 0, with the reason in `notes`, where the averaged information is infinite.
    The report shows the private readings' errors: it is for the data holder only.
    Cost: per input about 2000 log-densities a trial, and up to 10⁴ more with a prior.

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
    count = as_count(trials, "trials", least=2)
    believed = _prior(prior)
    given = np.atleast_1d(as_array(y, "y", ndim=(0, 1)))
    if isinstance(mechanism, Channel):
        mechanism = Componentwise(mechanism, readings=1)
    if not isinstance(mechanism, Mechanism) and not callable(mechanism):
        raise InvalidInput(
            "attack a Mechanism, a Channel or a sampler f(y, rng, n); received "
            f"{type(mechanism).__name__}."
        )
    size = mechanism.readings if isinstance(mechanism, Mechanism) else given.size
    if given.size != size:
        raise InvalidInput(f"the mechanism is for {size} readings; received shape {given.shape}.")
    S = None if level is None else _dense(level, size)
    if isinstance(mechanism, Componentwise):
        rows = np.eye(size) if mechanism.matrix is None else mechanism.matrix
        floors = None if S is None else unbiased_floors(rows, S)
        return _channels(mechanism, given, floors, believed, count, rng)
    floors = None if S is None else unbiased_floors(np.eye(size), S)
    if not isinstance(mechanism, Mechanism):
        return _sampler(mechanism, given, floors, _needed(believed), count, rng)
    linear = _linear(mechanism, given)
    if linear is not None:
        return attack_linear(mechanism, linear, given, floors, believed, count, rng)
    if isinstance(mechanism, Rotation):
        return attack_rotation(mechanism, given, floors, believed, count, rng)
    return attack_vector(mechanism, given, floors, believed, count, rng)


def _linear(mechanism: Mechanism, y: Array) -> Array | None:
    """S of a release that is linear with Gaussian noise; None for any other."""
    if isinstance(mechanism, GaussianMechanism):
        checked = checked_precision(mechanism, y[None])
        return None if checked is None else checked[0]
    if isinstance(mechanism, AffineMechanism) and isinstance(mechanism.law, GaussianLaw):
        return mechanism.worst_information()
    return None


# --- channels -----------------------------------------------------------------------------------


def _channels(
    mechanism: Componentwise,
    y: Array,
    floors: Array | None,
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> list[Attack]:
    attacks = []
    for i, (channel, value) in enumerate(zip(mechanism.channels, mechanism.inputs(y).tolist())):
        floor = None if floors is None else float(floors[i])
        dense = getattr(channel, "has_density", True)
        attack = _channel if dense else _blind_channel
        attacks.append(attack(i, channel, value, floor, prior, trials, rng))
    return attacks


def _channel(
    i: int,
    channel: Channel,
    u: float,
    floor: float | None,
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> Attack:
    z = channel.sample(np.full(trials, u), rng)
    guess, unbounded = most_likely(channel, z, u)
    likelihood = Errors.of(guess, u, unbounded)
    mine = _inverse(channel.information_estimate(u).value)
    if prior is None:
        return Attack(i, likelihood, mine, floor)
    mean, variance = prior
    drawn = rng.normal(mean, math.sqrt(variance), trials)
    seen = channel.sample(drawn, rng)
    average = averaged_information(channel, mean, math.sqrt(variance))
    return Attack(
        i,
        likelihood,
        mine,
        floor,
        prior,
        Errors.of(posterior_mean(channel, z, mean, variance, u), u),
        Errors.of(posterior_mean(channel, seen, mean, variance, drawn), drawn),
        1 / (average.information + 1 / variance),
        notes=() if average.reason is None else (average.reason,),
    )


# --- samplers -----------------------------------------------------------------------------------


def _blind_channel(
    i: int,
    channel: Channel,
    u: float,
    floor: float | None,
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> Attack:
    found = _learnt(channel.sample, np.array([u]), _needed(prior), trials, rng)
    return Attack(
        i, None, None, floor, prior, found[0][0], found[1][0], notes=(learnt_note(PAIRS),)
    )


def _sampler(
    sampler: Sampler,
    y: Array,
    floors: Array | None,
    prior: Prior,
    trials: int,
    rng: np.random.Generator,
) -> list[Attack]:
    draw = checked_sampler(sampler)

    def release(v: Array, rng: np.random.Generator) -> Array:
        # A plain sampler takes one y at a time: a call for each.
        return np.concatenate([draw(one, rng, 1) for one in v])

    here, there = _learnt(release, y, prior, trials, rng)
    return [
        Attack(
            i, None, None, None if floors is None else float(floors[i]), prior,
            here[i], there[i], target="reading", notes=(learnt_note(PAIRS),),
        )
        for i in range(y.size)
    ]  # fmt: skip


def _learnt(
    release: Releases, y: Array, prior: Prior, trials: int, rng: np.random.Generator
) -> tuple[list[Errors], list[Errors]]:
    mean, deviation = prior[0], math.sqrt(prior[1])
    guess = learnt_mean(release, mean, deviation, y.size, rng)
    drawn = rng.normal(mean, deviation, (trials, y.size))
    here = guess(release(np.tile(y, (trials, 1)), rng))
    there = guess(release(drawn, rng))
    return (
        [Errors.of(here[:, i], float(y[i])) for i in range(y.size)],
        [Errors.of(there[:, i], drawn[:, i]) for i in range(y.size)],
    )


# --- what was asked -------------------------------------------------------------------------------


def _prior(prior: tuple[float, float] | None) -> Prior | None:
    if prior is None:
        return None
    given = as_array(prior, "the prior", ndim=1)
    if given.size != 2:
        raise InvalidInput(
            f"the prior is (mean, variance), two numbers; received {given.size} of them."
        )
    mean, variance = (as_number(part, "the prior") for part in given)
    if not variance > 0:
        raise InvalidInput(f"the prior's variance must be > 0; received {variance:g}.")
    return mean, variance


def _needed(prior: Prior | None) -> Prior:
    if prior is None:
        raise InvalidInput(
            "without a density the attacker learns from simulated pairs: state its prior, "
            "prior=(mean, variance)."
        )
    return prior


def _dense(level: PrivacyLevel | float, readings: int) -> Array:
    return (level if isinstance(level, PrivacyLevel) else PrivacyLevel(level)).dense(readings)


def _inverse(information: float) -> float:
    return math.inf if information == 0 else 1 / information
