"""The implemented pair, as it runs: realised information, efficiency, normality (`thm:opt`).

Thresholds: false alarm 1e-6 each, from the exact law of the statistic (chi-square, Kolmogorov).
Real releases have no seed and draw anew in every run: 1e-8 each. Their steps of 2⁻¹⁰ move an
empirical distribution by 2e-4, less than a hundredth of what Kolmogorov's test sees here.
"""

import itertools

import numpy as np
import pytest
import scipy.stats

import privest as pv
from strategies import psd_matrix
from theorems.test_streams import Stream

FALSE_ALARM = {"simulate": 1e-6, "release": 1e-8}
HOW = pytest.mark.parametrize("how", FALSE_ALARM)


def sent(mechanism, y, rng, how):
    return mechanism.release(y) if how == "release" else mechanism.simulate(y, rng)


def releases(level, y, rng, how="simulate"):
    return sent(pv.StreamMechanism(level), y, rng, how).values


@pytest.mark.parametrize(("sizes", "reach"), [(1, 0), (1, 3), (1, 12), (2, 2), (2, 12)])
def test_the_realised_information_is_the_level(sizes, reach):
    """I_Z̄k(Ȳk) = JᵀJ with J the Jacobian of the running mechanism (unit noise, tested below)."""
    s = Stream(2, 12, sizes, reach, 2, singular=True)
    level, y = s.level, s.rng.standard_normal(s.M)
    base = releases(level, y, np.random.default_rng(0))
    jacobian = np.stack(
        [releases(level, y + unit, np.random.default_rng(0)) - base for unit in np.eye(s.M)], axis=1
    )
    for count in (1, 5, 12):
        size = s.starts[count]
        J = jacobian[:size, :size]
        assert np.abs(jacobian[:size, size:]).max(initial=0.0) == 0  # nothing from the future
        expected = s.cumulative(count)  # the recursion eq:barS, literally
        assert np.abs(J.T @ J - expected).max() < 1e-11 * max(1.0, np.abs(expected).max())


@HOW
def test_the_noise_is_white_and_normal(how):
    level, rng = pv.StreamLevel.constant(1.0, lags=[0.5]), np.random.default_rng(3)
    trials, m = {"simulate": 20_000, "release": 4000}[how], 4
    noise = np.stack([releases(level, np.zeros(m), rng, how) for _ in range(trials)])
    values = np.linalg.eigvalsh(noise.T @ noise / trials)
    statistic = trials * (values.sum() - np.log(values).sum() - m)
    assert statistic < scipy.stats.chi2.isf(FALSE_ALARM[how], m * (m + 1) / 2)
    for column in noise.T:
        assert scipy.stats.kstest(column, "norm").pvalue > FALSE_ALARM[how]


@pytest.mark.parametrize(
    ("reach", "how", "trials"),
    [
        (0, "simulate", 2000),
        (2, "simulate", 2000),
        (15, "simulate", 2000),
        (2, "release", 1000),
        pytest.param(0, "release", 4000, marks=pytest.mark.slow),
        pytest.param(2, "release", 4000, marks=pytest.mark.slow),
        pytest.param(15, "release", 4000, marks=pytest.mark.slow),
    ],
)
def test_estimates_are_normal_and_efficient(reach, how, trials):
    """θ̂_k − θ ~ N(0, Σ_PPCR,k) at an early, a middle and the last step: all that `thm:opt` says."""
    s = Stream(6, 15, 1, reach, 2, singular=False)
    model, level, theta = s.model(), s.level, np.array([0.6, -0.7])
    bound = pv.bound(model, level)
    variances = np.diagonal(s.cov)
    cuts = (0, 3, 8, 15)
    errors = np.empty((3, trials, 2))
    for trial in range(trials):
        y = model.sample(theta, s.rng)
        mechanism = pv.StreamMechanism(level)
        rls = pv.PrivateRLS(level, 2, pv.noise.Gaussian(cov=1.0))
        for i, (a, b) in enumerate(itertools.pairwise(cuts)):
            rls.update(
                sent(mechanism, y[a:b], s.rng, how),
                s.H[a:b],
                noise=pv.noise.Gaussian(cov=variances[a:b]),
            )
            errors[i, trial] = rls.value - theta
    for i, last in enumerate(cuts[1:]):
        white = np.linalg.solve(np.linalg.cholesky(bound[last - 1].covariance), errors[i].T)
        values = np.linalg.eigvalsh(white @ white.T / trials)
        statistic = trials * (values.sum() - np.log(values).sum() - 2)
        assert statistic < scipy.stats.chi2.isf(FALSE_ALARM[how], 3)
        for component in white:
            assert scipy.stats.kstest(component, "norm").pvalue > FALSE_ALARM[how]
        # not two normal margins only: the squared length is χ² with 2 degrees of freedom
        assert scipy.stats.kstest((white**2).sum(0), "chi2", args=(2,)).pvalue > FALSE_ALARM[how]


@pytest.mark.parametrize(("how", "trials"), [("simulate", 2000), ("release", 1000)])
def test_vector_readings_with_a_singular_level_are_efficient(how, trials):
    rng = np.random.default_rng(9)
    S, sigma = psd_matrix(rng, 3, 2), psd_matrix(rng, 3)
    level, noise = pv.StreamLevel.constant(S, lags=[0.4]), pv.noise.Gaussian(cov=sigma)
    steps, theta = 6, np.array([1.0, -1.0])
    H = rng.standard_normal((3 * steps, 2))
    blocks = pv.noise.Gaussian(cov=np.broadcast_to(sigma, (steps, 3, 3)))
    bound = pv.bound(pv.LinearModel(H, noise=blocks), level.first(steps))
    errors = np.empty((trials, 2))
    for trial in range(trials):
        y = H @ theta + blocks.sample(3 * steps, rng)
        mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 2, noise)
        rls.update(sent(mechanism, y, rng, how), H)
        errors[trial] = rls.value - theta
    white = np.linalg.solve(np.linalg.cholesky(bound[steps - 1].covariance), errors.T)
    values = np.linalg.eigvalsh(white @ white.T / trials)
    statistic = trials * (values.sum() - np.log(values).sum() - 2)
    assert statistic < scipy.stats.chi2.isf(FALSE_ALARM[how], 3)
