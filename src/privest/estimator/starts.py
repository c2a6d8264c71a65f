"""Starts for a likelihood with several maxima: exact fits of n rows, ranked cheaply.

With heavy-tailed noise a maximum lies near the fit of some n good rows. All subsets of n rows (or a
fixed random choice) are fitted at once; the best by the likelihood are kept.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from privest.arrays import Array, Index
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood

# Subsets tried for each trial; of more a random choice, the same for every trial. The more readings
# a fit needs, the fewer fits hold good ones only: beyond MANY parameters more are tried, and twice
# as many are climbed from. Cauchy noise, 20 readings, 10 parameters: of 1200 trials some 10 ended
# in a poorer maximum with 300 and 15, at most 1 with 1000 and 30, at three times the cost.
SUBSETS, MORE_SUBSETS, MANY = 300, 1000, 5
# The screening keeps so many times the starts asked for; the likelihood then decides.
SCREENED = 2
# Subsets whose rows are nearly dependent fit nothing: condition number.
CONDITION = 1e6
SEED = 20250


def subsets(H: Array) -> Index:
    """Rows (k, n) of H that determine θ: all choices, or `SUBSETS` of them (`MORE_SUBSETS`)."""
    m, n = H.shape
    most = SUBSETS if n <= MANY else MORE_SUBSETS
    if math.comb(m, n) <= most:
        chosen = np.array(list(itertools.combinations(range(m), n)))
    else:
        rng = np.random.default_rng(SEED)
        chosen = rng.random((most, m)).argsort(axis=1)[:, :n]
    size = np.linalg.norm(H, axis=0)  # in units in which no column decides
    values = np.linalg.svd(H[chosen] / np.where(size > 0, size, 1.0), compute_uv=False)
    return chosen[values[:, -1] * CONDITION > values[:, 0]]


def usual_fits(likelihood: Likelihood, parameters: int) -> int:
    """How many fits are climbed from where nobody says: `likelihood.fits`, twice for many θ."""
    if not likelihood.several_maxima:
        return 0
    return likelihood.fits * (1 if parameters <= MANY else 2)


class Fits:
    """The exact fits of all subsets of H, made once: θ of each is linear in the centres."""

    def __init__(self, H: Array) -> None:
        self.matrix = H
        self.rows = subsets(H)  # (k, n)
        self.inverses = np.linalg.inv(H[self.rows]) if len(self.rows) else np.zeros((0, *H.T.shape))
        # (k, n, m) with zeros at unused rows
        self.to_theta = np.zeros((len(self.rows), H.shape[1], len(H)))
        if len(self.rows):
            where = np.broadcast_to(self.rows[:, None, :], self.inverses.shape)
            np.put_along_axis(self.to_theta, where, self.inverses, axis=2)
        self.to_eta = (H @ self.to_theta).reshape(-1, len(H)).T

    def __len__(self) -> int:
        return len(self.rows)


def best_starts(
    fits: Fits,
    z: Array,
    centre: Array,
    likelihood: Likelihood,
    count: int,
    backend: Backend = NUMPY,
) -> Array:
    """The `count` exact fits of largest likelihood, (trials, count, n), of twice as many by
    `rough`.
    """
    xp, m = backend.xp, len(fits.matrix)
    if not len(fits):
        nothing: Array = xp.zeros((len(z), 0, fits.matrix.shape[1]))
        return nothing
    to_theta, to_eta = xp.asarray(fits.to_theta), xp.asarray(fits.to_eta)
    kept, count = min(count * SCREENED, len(fits)), min(count, len(fits))
    step = max(1, backend.entries() // fits.to_eta.shape[1])
    parts = []
    for at in range(0, len(z), step):
        block, here = z[at : at + step, None], centre[at : at + step]
        eta = xp.reshape(here @ to_eta, (-1, len(fits), m))
        score = xp.sum(likelihood.rough(block, eta, backend), axis=2)
        humps = likelihood.hump(block, eta, backend)
        if humps is not None:
            score = distinct(score, humps, backend)
        first = backend.largest(score, kept)
        trial = xp.arange(len(here))[:, None]
        height = xp.sum(likelihood.value(block, eta[trial, first], backend), axis=2)
        best = first[trial, backend.sorted(-height)[:, :count]]
        parts.append((to_theta[best] @ here[:, None, :, None])[..., 0])
    joined: Array = xp.concat(parts)
    return joined


def distinct(score: Array, humps: Index, backend: Backend = NUMPY) -> Array:
    """New scores (trials, k): first the best fit on each combination of humps, then the others."""
    xp = backend.xp
    drawn = np.random.default_rng(SEED).integers(1, 2**62, humps.shape[-1])
    with np.errstate(over="ignore"):
        # whole numbers, modulo 2^64: equal for equal humps only
        label = xp.sum(humps * xp.asarray(drawn), axis=-1)
    trial = xp.arange(len(score))[:, None]
    falling = backend.sorted(-score)
    rank = backend.sorted(falling)
    # By label, and among equal labels by rank.
    order = falling[trial, backend.sorted(label[trial, falling])]
    labels = label[trial, order]
    first = xp.ones(score.shape, dtype=bool)
    first[:, 1:] = labels[:, 1:] != labels[:, :-1]
    leads = xp.zeros(score.shape, dtype=bool)
    leads[trial, order] = first
    scores: Array = xp.where(leads, 0.0, -float(score.shape[1])) - rank
    return scores
