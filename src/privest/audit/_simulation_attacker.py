"""An attacker that can only simulate: the posterior mean, learnt by regression."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privest.arrays import Array
from privest.audit._attack import Attack, Believer, Errors, Task
from privest.audit._door import Sampler, checked_sampler
from privest.audit._score_regression import Splines, solved
from privest.errors import InvalidInput

# (u (n, m), rng) → z (n, q): one release for every row.
Releases = Callable[[Array, np.random.Generator], Array]
PAIRS = 8000
LEAST = 1e-10  # next to nothing, of the variance of the strongest combination of hats
LEARNT = (
    f"No density: E[y|z] was learnt by regression on {PAIRS} simulated pairs. An attacker "
    "who knows more does at least as well: a large error here is no evidence of privacy, "
    "run certify. No attacker without a prior was run."
)


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
    y = rng.normal(task.prior[0], math.sqrt(task.prior[1]), (PAIRS, size))
    guess = _regression(y, release(y, rng), task.prior[0])
    drawn = task.drawn(task.prior, size)
    here = guess(release(np.tile(task.truth, (task.trials, 1)), rng))
    there = guess(release(drawn, rng))
    errors = zip(Errors.of_each(here, task.truth), Errors.of_each(there, drawn))
    return [Believer(*each) for each in errors]


def _regression(y: Array, z: Array, mean: float) -> Callable[[Array], Array]:
    basis = Splines.through(z, len(z))
    centre, covariance = basis.moments(z)
    both = basis.features(z).T @ (y - mean) / len(z) - np.outer(centre, y.mean(axis=0) - mean)
    weights = solved(covariance, both, LEAST)
    start = y.mean(axis=0)
    return lambda seen: start + (basis.features(seen) - centre) @ weights


def attack_sampler(sampler: Sampler, task: Task) -> list[Attack]:
    """One attack a reading."""
    draw = checked_sampler(sampler)

    def release(v: Array, rng: np.random.Generator) -> Array:
        # A plain sampler takes one y at a time: a call for each.
        return np.concatenate([draw(one, rng, 1) for one in v])

    found = learnt(release, task)
    return [task.report(i, None, None, each, notes=(LEARNT,)) for i, each in enumerate(found)]
