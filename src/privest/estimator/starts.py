"""Starts for a likelihood with several maxima: exact fits of n rows, the best by the likelihood."""

from __future__ import annotations

import itertools
import math

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
        chosen = np.array([rng.choice(m, n, replace=False) for _ in range(most)])
    size = np.linalg.norm(H, axis=0)  # in units in which no column decides
    values = np.linalg.svd(H[chosen] / size, compute_uv=False)
    return chosen[values[:, -1] * CONDITION > values[:, 0]]


def best_starts(
    matrix: Array,
    offset: Array,
    rows: Index,
    z: Array,
    centre: Array,
    likelihood: Likelihood,
    count: int,
    backend: Backend = NUMPY,
) -> Array:
    """The exact fits of largest likelihood, (trials, count, n), of twice as many by `rough`.

    η = Hθ + offset; `rows` (k, n): those that each fit is exact at.
    """
    xp = backend.xp
    H, rows, inverses = (xp.asarray(a) for a in (matrix, rows, np.linalg.inv(matrix[rows])))
    kept = min(count * SCREENED, len(rows))
    step = max(1, backend.entries() // (len(H) * len(rows)))
    parts = []
    for at in range(0, len(z), step):
        block, here = z[at : at + step, None], centre[at : at + step]
        theta = (inverses @ here[:, rows, None])[..., 0]  # (trials, k, n)
        eta = theta @ H.T + offset
        score = xp.sum(likelihood.rough(block, eta, backend), axis=2)
        humps = likelihood.hump(block, eta, backend)
        if humps is not None:
            score = distinct(score, humps, backend)
        first = backend.sorted(-score)[:, :kept]
        trial = xp.arange(len(here))[:, None]
        height = xp.sum(likelihood.value(block, eta[trial, first], backend), axis=2)
        best = first[trial, backend.sorted(-height)[:, :count]]
        parts.append(theta[trial, best])
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
