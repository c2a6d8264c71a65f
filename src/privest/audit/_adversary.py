"""What attackers make of a release of one reading vector: a report for the data holder."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_count, as_positive
from privest.audit._attack import Attack, Believer, Errors, Prior, Task
from privest.audit._attackers import most_likely, posterior_mean
from privest.audit._averaged import averaged_information
from privest.audit._floors import unbiased_floors
from privest.audit._gaussian import attack_linear, checked_precision
from privest.audit._information import Audited, Stated, as_audited, has_density, stated_level
from privest.audit._move_size import Sampler, checked_sampler
from privest.audit._simulation_attacker import LEARNT, learnt
from privest.audit._vectors import attack_rotation, attack_vector
from privest.errors import InvalidInput
from privest.mechanism import (
    AffineMechanism,
    Channel,
    Componentwise,
    GaussianMechanism,
    Mechanism,
    Rotation,
)
from privest.noise import GaussianLaw


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
    `GaussianMechanism`, `AffineMechanism` with Gaussian noise, what users really run
      (`StreamMechanism`, `Sensor`, a table's mechanism; `steps` as in `certify`): each *reading*
      y_i, by the best unbiased estimate and the posterior mean, both in closed form; S may be dense
      or singular. An attacker that beats the floor of the release's own density is noted.
      A reading that is not shown has no unbiased attacker, and its floor is inf.
    Other mechanisms with a density: each reading, by its likelihood and by importance sampling; a
      rotation also its *length*.
    Samplers, and channels without a density: E[·|z] learnt by regression; needs a prior. There is
      no density, so no likelihood, no floor of its own and no van Trees bound.

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
    given = np.atleast_1d(as_array(y, "y", ndim=(0, 1)))
    task = Task(given, None, _prior(prior), as_count(trials, "trials", least=2), rng)
    audited = as_audited(mechanism, "attack", steps)
    size = audited.readings if isinstance(audited, Mechanism) else given.size
    if given.size != size:
        raise InvalidInput(f"the mechanism is for {size} readings; received shape {given.shape}.")
    if level is not None:
        rows = audited.matrix if isinstance(audited, Componentwise) else None
        S = stated_level(level, steps).dense(size)
        task = replace(task, floors=unbiased_floors(np.eye(size) if rows is None else rows, S))
    if isinstance(audited, Componentwise):
        return _channels(audited, task)
    if not isinstance(audited, Mechanism):
        return _sampler(audited, task)
    linear = _linear(audited, given)
    if linear is not None:
        return attack_linear(audited, linear, task)
    if isinstance(audited, Rotation):
        return attack_rotation(audited, task)
    return attack_vector(audited, task)


def _prior(prior: tuple[float, float] | None) -> Prior | None:
    if prior is None:
        return None
    given = as_array(prior, "the prior", ndim=1)
    if given.size != 2:
        raise InvalidInput(
            f"the prior is (mean, variance), two numbers; received {given.size} of them."
        )
    return float(given[0]), as_positive(given[1], "the prior's variance")


def _linear(mechanism: Mechanism, y: Array) -> Array | None:
    """S of a release that is linear with Gaussian noise; None for any other."""
    if isinstance(mechanism, GaussianMechanism):
        checked = checked_precision(mechanism, y[None])
        return None if checked is None else checked[0]
    if isinstance(mechanism, AffineMechanism) and isinstance(mechanism.law, GaussianLaw):
        return mechanism.worst_information()
    return None


# --- channels and samplers ------------------------------------------------------------------------


def _channels(mechanism: Componentwise, task: Task) -> list[Attack]:
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


def _sampler(sampler: Sampler, task: Task) -> list[Attack]:
    draw = checked_sampler(sampler)

    def release(v: Array, rng: np.random.Generator) -> Array:
        # A plain sampler takes one y at a time: a call for each.
        return np.concatenate([draw(one, rng, 1) for one in v])

    found = learnt(release, task)
    return [task.report(i, None, None, each, notes=(LEARNT,)) for i, each in enumerate(found)]
