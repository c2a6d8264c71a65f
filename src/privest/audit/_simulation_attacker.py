"""An attacker that can only simulate: the posterior mean, learnt by regression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privest.arrays import Array
from privest.audit._attack import Attack, Believer, Task, drawn_from
from privest.audit._door import Sampler, as_sampler
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
