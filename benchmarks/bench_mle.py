"""Batched maximum likelihood against scipy.optimize's BFGS a trial at a time: Experiment A, s = 1.

BFGS is what a user would write: the same log-likelihood in scipy.special on ten numbers, no
gradient, from least squares. It is timed on some trials and scaled to all of them, which favours
nobody: every trial is a separate call. Quality rows say how often the best optimum is found.
"""

import functools
import time
from dataclasses import replace

import numpy as np
import scipy.optimize
import scipy.special

import privest as pv
from benchmarks.timing import Row, compare
from privest.estimator._mle import maximum_likelihood
from privest.estimator.likelihood import LaplaceLikelihood, VoigtLikelihood
from privest.paper._methods import DEVIATION, THETA, setting_of

TRIALS, TIMED = 2000, 150
LEVEL = 1.0
SD = DEVIATION
B, GAMMA = LEVEL**-0.5, (2 * LEVEL) ** -0.5
H = setting_of().model.matrix
CHECKED = 100  # trials in which BFGS starts from many points


def laplace_objective(theta, z):
    r, k = z - H @ theta, SD / B
    a = -r / B + scipy.special.log_ndtr(r / SD - k)
    b = r / B + scipy.special.log_ndtr(-r / SD - k)
    return -(np.logaddexp(a, b) + k * k / 2 - np.log(2 * B)).sum()


def cauchy_objective(theta, z):
    return -np.log(scipy.special.voigt_profile(z - H @ theta, SD, GAMMA)).sum()


def bfgs(objective, z, start):
    return scipy.optimize.minimize(objective, start, args=(z,), method="BFGS")


def scaled(row):
    """The reference time of the trials timed, for all of them."""
    factor = TRIALS / TIMED
    return replace(row, reference_seconds=row.reference_seconds * factor, ratio=row.ratio / factor)


def measurements(seed):
    rng = np.random.default_rng(seed)
    return rng, THETA @ H.T + SD * rng.standard_normal((TRIALS, len(H)))


def against_bfgs(name, z, likelihood, objective, at_least, starts):
    first = np.linalg.lstsq(H, z[:TIMED].T)[0].T

    def peer():
        for release, start in zip(z[:TIMED], first):
            bfgs(objective, release, start)

    return scaled(
        compare(
            f"{name}, {TRIALS} trials",
            lambda: maximum_likelihood(H, z, likelihood, starts=starts),
            f"BFGS from least squares, {TIMED} trials × {TRIALS / TIMED:.3g}",
            peer,
            at_least=at_least,
            repeats=3,
        )
    )


def quality(name, z, likelihood, objective, *, bfgs_starts, fits):
    """Trials at the best known optimum: the best of ours, of BFGS from several starts on the first
    `CHECKED` trials, and of ours from `fits` exact fits on all. 1/ratio is the part that reach it.
    """
    start = time.perf_counter()
    found = maximum_likelihood(H, z, likelihood)
    took = time.perf_counter() - start
    best = np.maximum(
        found.log_likelihood, maximum_likelihood(H, z, likelihood, starts=fits).log_likelihood
    )
    rng = np.random.default_rng(9)
    single, success = np.empty(CHECKED), np.empty(CHECKED, dtype=bool)
    peer_error = np.empty(CHECKED)
    for t in range(CHECKED):
        one = bfgs(objective, z[t], np.linalg.lstsq(H, z[t])[0])
        single[t], success[t] = -one.fun, one.success
        peer_error[t] = ((one.x - THETA) ** 2).sum()
        others = THETA + 3 * rng.standard_normal((bfgs_starts - 1, 5))
        best[t] = max(best[t], single[t], *(-bfgs(objective, z[t], s).fun for s in others))
    checked = time.perf_counter() - start - took
    reached = (found.log_likelihood >= best - 1e-6).mean()
    stuck = single < best[:CHECKED] - 1e-3
    error = ((found.value - THETA) ** 2).sum(axis=1)
    return Row(
        name=f"{name}: reach the best known optimum in {reached:.2%} of {TRIALS} trials; squared "
        f"error mean {error.mean():.3g}, median {np.median(error):.3g}",
        reference=f"BFGS from least squares: {1 - stuck.mean():.0%} of {CHECKED}, success said in "
        f"{success[stuck].mean() if stuck.any() else 0:.0%} of the rest; "
        f"mean {peer_error.mean():.3g}, median {np.median(peer_error):.3g}",
        seconds=took,
        reference_seconds=checked,
        ratio=1 / reached,
        limit=None,
        at_least=0.999,
    )


@functools.cache
def releases():
    rng, y = measurements(11)
    return y + rng.laplace(scale=B, size=y.shape), y + GAMMA * rng.standard_cauchy(y.shape)


def many_measurements():
    """One release of many measurements: time in proportion to m."""
    rng = np.random.default_rng(12)
    m, n, few = 10**6, 5, 20_000
    H, theta = rng.standard_normal((m, n)), np.ones(n)
    y = H @ theta + SD * rng.standard_normal(m)
    model, mechanism = pv.LinearModel(H, noise=SD**2), pv.GaussianMechanism(LEVEL, m)
    z = mechanism.simulate(y, rng)
    yield compare(
        f"Gaussian release, m = {m:,}, n = {n}",
        lambda: pv.estimate(z, model, mechanism=mechanism),
        "one pass HᵀH",
        lambda: H.T @ H,
        limit=3,
        repeats=25,
    )
    channel = pv.mechanism.Additive(pv.noise.Cauchy(GAMMA))
    part, noisy = pv.LinearModel(H[:few], noise=SD**2), channel.sample(y[:few], rng)
    yield compare(
        f"Cauchy release, m = {few:,}, n = {n}",
        lambda: pv.estimate(noisy, part, mechanism=channel),
        "one pass HᵀH of 1,000,000 rows",
        lambda: H.T @ H,
        items=few,
        limit_us=250,  # five seconds together
        repeats=3,
    )


def rows():
    yield from many_measurements()
    laplace, cauchy = releases()
    one = LaplaceLikelihood(SD**2, scale=B)
    many = VoigtLikelihood(SD**2, scale=GAMMA)
    yield against_bfgs("Laplace ML", laplace, one, laplace_objective, 100, 0)
    yield against_bfgs("Cauchy ML, one start", cauchy, many, cauchy_objective, 50, 0)
    yield against_bfgs("Cauchy ML, 16 starts", cauchy, many, cauchy_objective, 5, None)
    yield quality("Laplace ML", laplace, one, laplace_objective, bfgs_starts=2, fits=5)
    yield quality("Cauchy ML", cauchy, many, cauchy_objective, bfgs_starts=30, fits=252)


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name}: {row.seconds * 1e3:.1f} ms, 1/{1 / row.ratio:.4g} of", end=" ")
        print(f"{row.reference} ({row.reference_seconds:.2f} s)", row.verdict)
