"""Errors of the private filter and smoother over many trials: the bound is attained.

For N trials with Gaussian errors e ~ N(0, P), N·ê covariance is Wishart: with B Bᵀ = P the matrix
M = N·B⁻¹ĈB⁻ᵀ has tr M ~ χ²(Nn), every diagonal entry ~ χ²(N). All intervals are at 1e-6 split over
the checks made; real releases, which draw anew in every run, at 1e-7.
"""

import numpy as np
import pytest
from scipy import stats

import privest as pv
from dynamic_systems import random_psd, random_system
from privest import dynamics

TRIALS = 4000
ALPHA = 1e-6
RARE = {"simulate": ALPHA, "release": 1e-7}
HOW = pytest.mark.parametrize("how", RARE)


def sent(level, y, rng, how):
    if how == "release":
        return pv.StreamMechanism(level).release(y)
    return pv.StreamMechanism(level).simulate(y, rng)


def within_wishart(errors, P, alpha=ALPHA):
    """Whether errors (N, K, n) have covariance P (K, n, n) at every k."""
    count, steps, n = errors.shape
    white = np.linalg.solve(np.linalg.cholesky(P), errors.transpose(1, 2, 0))  # (K, n, N)
    M = white @ white.swapaxes(1, 2)
    each = alpha / (steps * (n * n + 1))
    low, high = stats.chi2.interval(1 - each, count)
    own = np.diagonal(M, axis1=1, axis2=2)
    trace_low, trace_high = stats.chi2.interval(1 - each, count * n)
    total = own.sum(axis=1)
    # (u + v)² − (u − v)² over 4 for white u, v: two independent χ²(N)/… bound the cross terms.
    largest = (high - low) / 2
    off = np.abs(M - own[:, :, None] * np.eye(n)).max()
    return bool(
        (low < own).all() and (own < high).all() and (trace_low < total).all()
        and (total < trace_high).all() and off < largest
    )  # fmt: skip


@HOW
@pytest.mark.parametrize("form", ["independent", "banded", "dense", "singular"])
def test_error_covariance_is_the_bound(form, how):
    rng = np.random.default_rng(11)
    steps, n, m = 12, 3, 2
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.95)
    level = {
        "independent": pv.StreamLevel.constant(random_psd(rng, m, m)),
        "banded": pv.StreamLevel.constant(0.5 * np.eye(m), lags=[0.5, -0.2]),
        "dense": pv.StreamLevel.from_cumulative(random_psd(rng, steps * m, 15), [m] * steps),
        "singular": pv.StreamLevel.constant(random_psd(rng, m, 1)),
    }[form]
    x, y = system.sample(steps, rng, trials=TRIALS)
    found = dynamics.filter(system, sent(level, y, rng, how), level=level)
    smoothed, limit = found.smoothed, pv.bound(system, level, steps=steps)
    assert within_wishart(found.filtered.value - x, limit.filtered, RARE[how])
    assert within_wishart(found.predicted.value - x, limit.predicted, RARE[how])
    assert within_wishart(smoothed.value - x, limit.smoothed, RARE[how])
    # The check can fail: 10 % more variance is seen; of fresh noise 20 %, 15 deviations.
    more = {"simulate": 1.1, "release": 1.2}[how] * limit.smoothed
    assert not within_wishart(smoothed.value - x, more, RARE[how])


@HOW
def test_innovations_are_white(how):
    """Unit covariance and no correlation between steps: N products of unit normals, sd 1/√N."""
    rng = np.random.default_rng(12)
    steps, m = 15, 2
    A = np.array([[0.95, 0.2], [0.0, 0.9]])
    system = dynamics.StateSpace(A, np.eye(m), 0.2, 0.3, cov0=1.0)
    level = pv.StreamLevel.constant(np.eye(m), lags=[0.5])
    _, y = system.sample(steps, rng, trials=TRIALS)
    release = sent(level, y, rng, how)
    fresh = dynamics.filter(system, release, level=level).innovations
    flat = fresh.reshape(TRIALS, -1)
    size = flat.shape[1]
    off = flat.T @ flat / TRIALS - np.eye(size)
    limit = stats.norm.isf(RARE[how] / size**2) * np.sqrt(2 / TRIALS) * 1.1  # χ² tails: + 10 %
    assert np.abs(off).max() < limit
    assert np.abs(flat.mean(axis=0)).max() < stats.norm.isf(RARE[how] / size) / np.sqrt(TRIALS)
    # A filter that believes in other dynamics shows in them.
    wrong = dynamics.StateSpace(
        0.5 * system.A, system.C, system.Q, system.R, system.mean0, system.cov0
    )
    bad = dynamics.filter(wrong, release, level=level).innovations.reshape(TRIALS, -1)
    assert np.abs(bad.T @ bad / TRIALS - np.eye(size)).max() > limit


@HOW
def test_total_level_releases_what_it_says(how):
    """The gradient of log p(z|Y) over trials has covariance S − J_Y: the level is kept exactly."""
    rng = np.random.default_rng(13)
    steps = 6
    system = dynamics.StateSpace(A=0.9, C=1.0, Q=0.2, R=0.5, cov0=1.0)
    known = pv.bounds.prior_information(system, steps=steps)
    level = pv.bounds.release_level(system, 2.5, steps=steps)
    y = np.zeros((TRIALS, steps, 1))
    e = sent(level, y, rng, how).values[:, :, 0]
    score = e @ level.rows.dense()  # Aᵀe
    sampled = score.T @ score / TRIALS
    expected = 2.5 * np.eye(steps) - known
    deviation = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / TRIALS)
    assert (np.abs(sampled - expected) < stats.norm.isf(RARE[how] / 36) * 1.1 * deviation).all()
