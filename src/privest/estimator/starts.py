"""Starts for a likelihood with several maxima: exact fits of n rows, the best by the likelihood."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np

from privest.arrays import Array, Index
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood

# Subsets tried; of more a random choice, the same for every trial. Beyond MANY parameters more are
# tried, and twice as many are climbed from. Cauchy noise, 20 measurements, 10 parameters: of 1200
# trials some 10 ended in a poorer maximum with 300 and 15, at most 1 with 1000 and 30.
SUBSETS, MORE_SUBSETS, MANY = 300, 1000, 5
# The screening keeps so many times the starts asked for; the likelihood then decides.
SCREENED = 2
# Subsets whose rows are nearly dependent fit nothing: condition number.
CONDITION = 1e6
SEED = 20250


def subsets(H: Array) -> Index:
    """Rows (k, n) of H that determine θ: all choices, or this number of them."""
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
    if not likelihood.several_maxima:
        return 0
    return likelihood.fits * (1 if parameters <= MANY else 2)


class Fits:
    """The exact fits of all subsets of rows of H, η = Hθ + offset: θ is linear in the centres."""

    matrix: Array
    offset: Array | float

    def __init__(self, H: Array, offset: Array | float = 0.0) -> None:
        self.matrix, self.offset = H, offset

    @cached_property
    def rows(self) -> Index:
        return subsets(self.matrix)

    @cached_property
    def to_theta(self) -> Array:
        """(k, n, m), with zeros at unused rows."""
        H, rows = self.matrix, self.rows
        found = np.zeros((len(rows), H.shape[1], len(H)))
        if len(rows):
            inverses = np.linalg.inv(H[rows])
            np.put_along_axis(found, np.broadcast_to(rows[:, None, :], inverses.shape), inverses, 2)
        return found

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
    """The exact fits of largest likelihood, (trials, count, n), of twice as many by `rough`."""
    xp, m = backend.xp, len(fits.matrix)
    made = (fits.matrix @ fits.to_theta).reshape(-1, m).T
    to_theta, to_eta = xp.asarray(fits.to_theta), xp.asarray(made)
    kept, count = min(count * SCREENED, len(fits)), min(count, len(fits))
    step = max(1, backend.entries() // made.shape[1])
    parts = []
    for at in range(0, len(z), step):
        block, here = z[at : at + step, None], centre[at : at + step]
        eta = xp.reshape(here @ to_eta, (-1, len(fits), m)) + fits.offset
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
    """Scores (trials, k) that rank the best fit on each combination of humps before the others."""
    xp = backend.xp
    drawn = np.random.default_rng(SEED).integers(np.iinfo(np.int64).max, size=humps.shape[-1])
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
