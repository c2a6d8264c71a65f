"""Monte Carlo of networks: every agent's covariance is the bound; averages and baselines likewise.

The covariance statistic and its χ² threshold are those of test_attained.py: one false alarm in a
million, and 5 % too much in one direction is beyond it. Real releases draw anew in every run: 1e-7.
"""

import numpy as np
import pytest
import scipy.stats

import privest as pv
from network_sample import THETA, contributions, links_of_every_kind, releases, sensors
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
    found = network.consensus(parts, links_of_every_kind(count=16)[name], tolerance=1e-6)
    bound = network.fusion_bound(made).covariance
    for agent in (0, 7, 15):
        errors = found.estimates[agent] - THETA
        assert covariance_statistic(errors, bound) < threshold(3, how)
        bias = errors.mean(axis=0)
        assert TRIALS * bias @ np.linalg.solve(bound, bias) < scipy.stats.chi2.isf(RARE[how], 3)


def test_the_statistic_sees_one_sensor_missing():
    """The bound without one of 16 sensors is refused: the test above can fail."""
    made = sensors(16, seed=6)
    found = network.fuse(made, releases(made, seed=11, trials=TRIALS))
    less = network.fusion_bound(made[1:]).covariance
    assert covariance_statistic(found.estimate - THETA, less) > threshold(3)


def test_one_way_losses_are_unbiased_but_not_efficient():
    """All trials meet the same failures: θ̂ = (Σπ_i r_i)⁻¹Σπ_i x_i with one π for all of them."""
    made = sensors(16, seed=6)
    parts = contributions(made, releases(made, seed=11, trials=TRIALS))
    ring = network.metropolis(network.ring(16))
    lossy = network.Lossy(ring, 0.4, np.random.default_rng(1), both_ways=False)
    found = network.consensus(parts, lossy, tolerance=1e-6)
    errors = found.estimates[0] - THETA
    sample = np.cov(errors.T)
    bias = errors.mean(axis=0)
    assert TRIALS * bias @ np.linalg.solve(sample, bias) < scipy.stats.chi2.isf(FALSE_ALARM, 3)
    bound = network.fusion_bound(made).covariance
    squared = np.einsum("ta,ab,tb->t", errors, np.linalg.inv(bound), errors)
    assert squared.mean() - 5 * squared.std() / np.sqrt(TRIALS) > 3.0


@HOW
def test_non_gaussian_noise_is_unbiased_with_the_covariance_of_cov_w(how):
    rng = np.random.default_rng(4)
    made = [
        network.Sensor(rng.standard_normal((3, 3)), pv.noise.Laplace(0.5), pv.PrivacyLevel(2.0))
        for _ in range(8)
    ]
    found = network.fuse(made, releases(made, trials=TRIALS, how=how))
    errors = found.estimate - THETA
    # χ² only approximately (excess kurtosis of w): three times the threshold, as in test_attained
    assert covariance_statistic(errors, found.covariance) < 3 * threshold(3, how)
    floor = network.fusion_bound(made).covariance
    assert np.linalg.eigvalsh(found.covariance - floor)[0] > 0


# --- averages ------------------------------------------------------------------------------------

Y = np.linspace(-3.0, 5.0, 12)
LEVELS = np.geomspace(0.2, 8.0, 12)
RING = network.metropolis(network.ring(12))


@pytest.mark.parametrize(
    ("kind", "how"), [("fixed", "simulate"), ("lossy", "simulate"), ("fixed", "release")]
)
def test_the_private_average_attains_the_bound(kind, how):
    rng = np.random.default_rng(21)
    links = RING if kind == "fixed" else network.Lossy(RING, 0.3, np.random.default_rng(2))
    level = pv.PrivacyLevel(LEVELS)
    y = np.broadcast_to(Y, (TRIALS, 12))
    if how == "release":
        found = network.release_average(y, level, links, tolerance=1e-6)
    else:
        found = network.private_average(y, level, links, rng, tolerance=1e-6)
    errors = found.values - Y.mean()
    floor = pv.bounds.consensus_bound(level)
    assert found.variance == (floor if how == "simulate" else floor * (1 + 0.75 * 2.0**-20))
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
    if how == "release":
        heard = network.release_masked(many, LEVELS)
    else:
        heard = network.masked(many, pv.PrivacyLevel(LEVELS), rng)
    second = heard @ RING.matrix.toarray().T
    # Best linear unbiased guess from two rounds of messages, by generalised least squares.
    W = RING.matrix.toarray()
    A = np.vstack([np.eye(12), W])
    half = np.vstack([np.diag(LEVELS**-0.5), W @ np.diag(LEVELS**-0.5)])
    weight = np.linalg.pinv(half @ half.T, rcond=1e-12)
    guess = np.linalg.solve(A.T @ weight @ A, A.T @ weight)
    errors = np.hstack([heard, second]) @ guess.T - Y
    assert covariance_statistic(errors, np.diag(1 / LEVELS)) < threshold(12, how)
    information = network.linear_information(A, half)
    assert np.allclose(information, np.diag(LEVELS), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("law", "kept", "decay"),
    [("laplace", 1.0, 0.5), ("laplace", 0.7, 0.6), ("gaussian", 0.7, 0.3**0.5)],
)
def test_decaying_noise_has_the_error_of_its_formula(law, kept, decay):
    rng = np.random.default_rng(23)
    probe = network.DecayingNoise(1.0, decay, kept, law=law)
    scale = np.sqrt(probe.information(1)[0] / LEVELS)  # calibrated: I_Z(Y) = diag(LEVELS)
    noisy = network.DecayingNoise(scale, decay, kept, law=law)
    assert np.allclose(noisy.information(12), LEVELS, rtol=1e-12)
    # 200 rounds: ρ^200 < 1e-8 and q^200 < 1e-20 of a standard error are left.
    trials = TRIALS // 4
    values = noisy.simulate(np.broadcast_to(Y, (trials, 12)), RING, rng, rounds=200)
    errors = values - Y.mean()
    assert np.ptp(values, axis=1).max() < 1e-3
    squared = errors[:, 3] ** 2
    expected = noisy.mean_square_error(12)
    assert abs(squared.mean() - expected) < 5 * squared.std() / np.sqrt(trials)
    floor = pv.bounds.consensus_bound(pv.PrivacyLevel(LEVELS))
    assert expected == pytest.approx(noisy.inefficiency * floor, rel=1e-12)
    if law == "laplace":
        assert squared.mean() - 5 * squared.std() / np.sqrt(trials) > 1.5 * floor
    else:
        assert expected == pytest.approx(floor, rel=1e-12)


def test_damped_noise_is_exact_and_tells_all():
    rng = np.random.default_rng(24)
    damped = network.DampedNoise(1.0, 0.8)
    values = damped.simulate(np.broadcast_to(Y, (2000, 12)), RING, rng, rounds=300)
    assert np.abs(values - Y.mean()).max() < 1e-6
    # The eavesdropper: y_i = m_0 − η_0 and η_0 = −Σ_{k≥1} η_k, all of which it can compute.
    W, now, before = RING.matrix.toarray(), Y.copy(), np.zeros(12)
    rng = np.random.default_rng(25)
    first, public, known = None, None, np.zeros(12)
    for k in range(60):
        fresh = 0.8**k * rng.normal(size=12)
        message = now + fresh - before
        if k == 0:
            first = message
        else:
            known += message - public  # η_k: x_k = W m_{k−1} is public
        public = W @ message
        now, before = W @ message, fresh
    reading = first + known
    assert np.abs(reading - Y).max() < 6 * 0.8**59  # its error is φ^59 v_59: six deviations
    assert damped.information(12, 59)[0] > 0.8**-118
