"""Where to start a likelihood with several maxima: exact fits of as few readings as possible.

With heavy-tailed noise most readings are good and a few are far off; a maximum lies near the
fit of some n good readings. All subsets of n rows (or a fixed random choice of them) are
fitted at once and ranked by something cheaper than the likelihood; the best of them by the
likelihood itself are kept.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from privest.arrays import Array, Index
from privest.estimator.likelihood._terms import Likelihood
from privest.linalg._root import least_squares

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
ENTRIES = 2**17  # numbers held at a time


def least_squares_start(H: Array, centre: Array) -> Array:
    """Least squares (trials, n) on the first guesses of Hθ. Raises NotIdentifiable."""
    solution, _ = least_squares(H, centre.T)
    return np.asarray(solution.T)


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


def best_starts(H: Array, z: Array, centre: Array, likelihood: Likelihood, count: int) -> Array:
    """The `count` exact fits of largest likelihood, (trials, count, n).

    All fits are ranked by `likelihood.rough`; twice as many as asked for by the likelihood itself.
    Cost: `rough` for each trial, subset and reading.
    """
    chosen = subsets(H)
    if not len(chosen):
        return np.zeros((len(z), 0, H.shape[1]))
    inverse = np.linalg.inv(H[chosen])
    # θ of every subset is linear in the centres: (k, n, m) with zeros at unused rows.
    fits = np.zeros((len(chosen), H.shape[1], len(H)))
    np.put_along_axis(fits, np.broadcast_to(chosen[:, None, :], inverse.shape), inverse, axis=2)
    to_eta = (H @ fits).reshape(-1, len(H)).T
    kept, count = min(count * SCREENED, len(chosen)), min(count, len(chosen))
    step = max(1, ENTRIES // to_eta.shape[1])
    parts = []
    for at in range(0, len(z), step):
        block, here = z[at : at + step, None], centre[at : at + step]
        eta = (here @ to_eta).reshape(-1, len(chosen), len(H))
        score = likelihood.rough(block, eta).sum(axis=2)
        humps = likelihood.hump(block, eta)
        if humps is not None:
            score = distinct(score, humps)
        first = np.argpartition(-score, kept - 1, axis=1)[:, :kept]
        height = likelihood.value(block, np.take_along_axis(eta, first[..., None], axis=1))
        order = np.argsort(-height.sum(axis=2), axis=1)[:, :count]
        best = np.take_along_axis(first, order, axis=1)
        parts.append((fits[best] @ here[:, None, :, None])[..., 0])
    return np.concatenate(parts)


def distinct(score: Array, humps: Index) -> Array:
    """New scores (trials, k): first the best fit on each combination of humps, then the others."""
    weights = np.random.default_rng(SEED).integers(1, 2**62, humps.shape[-1])
    with np.errstate(over="ignore"):
        label = humps @ weights  # whole numbers, modulo 2^64: equal for equal humps only
    rank = np.argsort(np.argsort(-score, axis=1, kind="stable"), axis=1)
    order = np.lexsort((rank, label), axis=1)
    sorted_labels = np.take_along_axis(label, order, axis=1)
    first = np.ones(score.shape, dtype=bool)
    first[:, 1:] = sorted_labels[:, 1:] != sorted_labels[:, :-1]
    leads = np.empty_like(first)
    np.put_along_axis(leads, order, first, axis=1)
    return np.asarray(np.where(leads, 0.0, -score.shape[1]) - rank)
