"""Monte Carlo of networks: every agent's covariance is the bound; averages likewise.

The covariance statistic and its χ² threshold are those of test_attained.py: one false alarm in a
million, and 5 % too much in one direction is beyond it. Real releases draw anew in every run: 1e-7.
"""

import numpy as np
import pytest
import scipy.stats

import privest as pv
from network_sample import (
    THETA,
    contributions,
    linear_information,
    links_of_every_kind,
    metropolis,
    releases,
    sensors,
)
from privest import network

TRIALS = 40_000
FALSE_ALARM = 1e-6
RARE = {"simulate": FALSE_ALARM, "release": 1e-7}
HOW = pytest.mark.parametrize("how", RARE)


def covariance_statistic(errors, covariance):
    trials, n = errors.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), errors.T)
    values = np.linalg.eigvalsh(white @ white.T / trials)
    return trials * (values.sum() - np.log(values).sum() - n)


def threshold(n, how="simulate"):
    return scipy.stats.chi2.isf(RARE[how], n * (n + 1) / 2)


def variance_is(errors, variance, alpha=FALSE_ALARM):
    """Two-sided χ² test of the mean square of Gaussian errors."""
    total = (errors**2).sum() / variance
    law = scipy.stats.chi2(errors.size)
    return law.isf(1 - alpha / 2) < total < law.isf(alpha / 2)


@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, "simulate") for name in links_of_every_kind(count=16)), ("ring", "release")],
)
def test_every_agents_covariance_is_the_bound(name, how):
    made = sensors(16, seed=6)
    parts = contributions(made, releases(made, seed=11, trials=TRIALS, how=how))
    found = network.consensus(parts, links_of_every_kind(count=16)[name], tolerance=1e-4)
    bound = pv.bound(*network.joint_model(made)).covariance
    for agent in (0, 7, 15):
        errors = found.estimates[agent] - THETA
        assert covariance_statistic(errors, bound) < threshold(3, how)
        bias = errors.mean(axis=0)
        assert TRIALS * bias @ np.linalg.solve(bound, bias) < scipy.stats.chi2.isf(RARE[how], 3)


def test_the_statistic_sees_one_sensor_missing():
    """The bound without one of 16 sensors is refused: the test above can fail."""
    made = sensors(16, seed=6)
    found = network.fuse(made, releases(made, seed=11, trials=TRIALS))
    less = pv.bound(*network.joint_model(made[1:])).covariance
    assert covariance_statistic(found.value - THETA, less) > threshold(3)


@HOW
def test_non_gaussian_noise_is_unbiased_with_the_covariance_of_cov_w(how):
    rng = np.random.default_rng(4)
    made = [
        network.Sensor(rng.standard_normal((3, 3)), pv.noise.Laplace(0.5), pv.PrivacyLevel(2.0))
        for _ in range(8)
    ]
    found = network.fuse(made, releases(made, trials=TRIALS, how=how))
    errors = found.value - THETA
    # χ² only approximately (excess kurtosis of w): three times the threshold, as in test_attained
    assert covariance_statistic(errors, found.covariance) < 3 * threshold(3, how)
    floor = pv.bound(*network.joint_model(made)).covariance
    assert np.linalg.eigvalsh(found.covariance - floor)[0] > 0


# --- averages ------------------------------------------------------------------------------------

Y = np.linspace(-3.0, 5.0, 12)
LEVELS = np.geomspace(0.2, 8.0, 12)
RING = network.Graph.ring(12)


@pytest.mark.parametrize(
    ("kind", "how"), [("fixed", "simulate"), ("lossy", "simulate"), ("fixed", "release")]
)
def test_the_private_average_attains_the_bound(kind, how):
    rng = np.random.default_rng(21)
    links = RING if kind == "fixed" else network.TimeVarying([RING], loss=0.3, rng=2)
    level = pv.PrivacyLevel(LEVELS)
    y = np.broadcast_to(Y, (TRIALS, 12))
    sensor = network.Sensor(np.ones((12, 1)), 1.0, level)
    release = sensor.release(y) if how == "release" else sensor.simulate(y, rng)
    found = network.average(release, links, tolerance=1e-4)
    errors = found.estimates[..., 0].T - Y.mean()
    floor = pv.bounds.consensus_bound(level)
    stated = floor if how == "simulate" else floor * (1 + 0.75 * 2.0**-20)
    assert found.result(0).covariance[0, 0] == pytest.approx(stated, rel=1e-12)
    for agent in (0, 5, 11):
        assert variance_is(errors[:, agent], floor, RARE[how])
        largest = scipy.stats.norm.isf(RARE[how] / 2)
        assert abs(errors[:, agent].mean()) < largest * np.sqrt(floor / TRIALS)
    # 5 % is 7 deviations; of fresh noise 10 %, 14 deviations, are seen without fail
    assert not variance_is(errors[:, 0], {"simulate": 1.05, "release": 1.1}[how] * floor, RARE[how])


@HOW
def test_what_an_eavesdropper_measures(how):
    """Its best unbiased guess of y_i from all messages is the first one: variance 1/S_i."""
    rng, many = np.random.default_rng(22), np.broadcast_to(Y, (TRIALS, 12))
    mechanism, W = pv.mechanism.GaussianMechanism(LEVELS, 12), metropolis(RING)
    z = mechanism.release(many) if how == "release" else mechanism.simulate(many, rng)
    heard = z / np.sqrt(LEVELS)
    second = heard @ W.T
    # Best linear unbiased guess from two rounds of messages, by generalised least squares.
    A = np.vstack([np.eye(12), W])
    half = np.vstack([np.diag(LEVELS**-0.5), W @ np.diag(LEVELS**-0.5)])
    weight = np.linalg.pinv(half @ half.T, rcond=1e-12)
    guess = np.linalg.solve(A.T @ weight @ A, A.T @ weight)
    errors = np.hstack([heard, second]) @ guess.T - Y
    assert covariance_statistic(errors, np.diag(1 / LEVELS)) < threshold(12, how)
    information = linear_information(A, half)
    assert np.allclose(information, np.diag(LEVELS), rtol=1e-9, atol=1e-9)
