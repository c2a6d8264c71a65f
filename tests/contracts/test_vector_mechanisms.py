"""Mechanisms on whole vectors, and a user's own, against scipy, mpmath and direct integrals.

Statistical tests have a false alarm of 1e-6 each (seeds are fixed).
"""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from privest.errors import InvalidInput, NotCalibratable
from privest.linalg import loewner
from privest.mechanism import (
    Additive,
    Channel,
    Componentwise,
    GaussianMechanism,
    GeometricPerturbation,
)
from privest.mechanism._rotation import log_average, mean_cosine
from privest.noise import Laplace
from privest.privacy import PrivacyLevel

FALSE_ALARM = 1e-6
SIX_SIGMA = stats.norm.isf(FALSE_ALARM / 2)


def radial_information(rho, m):
    """i(ρ) of a rotation of m measurements with unit noise."""
    y = np.zeros(m)
    y[0] = rho
    return GeometricPerturbation(m, variance=1.0).information(y).diagonal()[0]


def gradient(mechanism, z, y, h=1e-4):
    """Central differences of order four."""
    steps = np.eye(len(y)) * h

    def at(k):
        return np.array([mechanism.log_density(z, y + k * step) for step in steps])

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)


# --- the optimal Gaussian mechanism ---------------------------------------------------------------

LEVELS = {
    "number": 2.0,
    "diagonal": [0.5, 1.0, 4.0],
    "diagonal, a reading hidden": [0.5, 0.0, 4.0],
    "dense": [[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]],
    "rank two": [[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]],
    "rank one": np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5]),
}


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_gaussian_carries_exactly_the_level(level):
    rng = np.random.default_rng(1)
    S = PrivacyLevel(level).dense(3)
    mechanism = GaussianMechanism(level, 3)
    assert mechanism.outputs == np.linalg.matrix_rank(S)
    y = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(mechanism.information(y), S, atol=1e-15)
    np.testing.assert_allclose(mechanism.worst_information(), S, atol=1e-15)
    z = mechanism.simulate(y, rng, trials=50_000)
    # The score: derivative of ln p, mean 0, covariance S (each entry within six sigma).
    score = mechanism.score(z, y)
    np.testing.assert_allclose(score[0], gradient(mechanism, z[0], y), atol=1e-8)
    products = score[:, :, None] * score[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(z))
    assert np.all(np.abs(products.mean(axis=0) - S) <= SIX_SIGMA * error + 1e-12)
    # The paper's form z = Sy + d, d ~ N(0, S).
    paper = mechanism.score(z, np.zeros(3)) - S @ y  # L z̃
    products = paper[:, :, None] * paper[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(z))
    assert np.all(np.abs(products.mean(axis=0) - S) <= SIX_SIGMA * error + 1e-12)
    # Leading axes: one density a trial.
    assert mechanism.log_density(z, y).shape == (50_000,)
    off = z[0] - mechanism._shown(y)
    assert mechanism.log_density(z, y)[0] == pytest.approx(stats.norm.logpdf(off).sum())


def test_gaussian_differential_privacy():
    mechanism = GaussianMechanism([1.0, 4.0], 2)
    assert mechanism.level.to_mu(sensitivity=0.5) == pytest.approx(1.0)
    assert mechanism.epsilon(0.5) == math.inf


def test_gaussian_on_a_million_readings_stays_small():
    mechanism = GaussianMechanism(4.0, 1_000_000)
    z = mechanism.simulate(np.zeros(1_000_000), np.random.default_rng(1))
    assert abs(z.std() - 1) < 0.01


# --- rotation and geometric perturbation ----------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 4, 11, 60, 499])
def test_averages_over_the_sphere(m):
    """Against mpmath, 50 digits: ₀F₁(m/2; κ²/4) and its logarithmic derivative."""
    kappa = np.array([1e-9, 1e-2, 0.9, 3.0, math.sqrt(2 * m), 40.0, 900.0, 3e5, 2e8, 1e10])
    for k, log_mean, cosine in zip(kappa, log_average(kappa, m), mean_cosine(kappa, m)):
        with mpmath.workdps(50):
            if k < 1e6:
                exact = mpmath.log(mpmath.hyp0f1(mpmath.mpf(m) / 2, mpmath.mpf(k) ** 2 / 4)) - k
                ratio = mpmath.besseli(mpmath.mpf(m) / 2, k) / mpmath.besseli(
                    mpmath.mpf(m) / 2 - 1, k
                )
                assert log_mean == pytest.approx(float(exact), rel=1e-12, abs=2e-13)
                assert cosine == pytest.approx(float(ratio), rel=1e-12)
            else:  # A = 1 − (m−1)/2κ + (m−1)(m−3)/8κ² − …
                assert cosine == pytest.approx(1 - (m - 1) / (2 * k), rel=1e-10)
    # The pieces fit together: A is the derivative, across the joints too.
    for k in (math.sqrt(2 * m), 1e8):
        h = 1e-3 * k
        near = np.array([k - h, k + h])
        slope = np.diff(log_average(near, m))[0] / (2 * h) + 1
        middle = mean_cosine(np.asarray(k), m)
        assert slope == pytest.approx(float(middle), rel=1e-6)
    assert log_average(np.zeros(1), m)[0] == 0
    assert mean_cosine(np.zeros(1), m)[0] == 0


def direct_density(z, u, variance):
    """p(z|u) as the average over rotations itself: over the angle between Ru and z."""
    m, r, rho = len(u), np.linalg.norm(z), np.linalg.norm(u)

    def gauss(c):
        return math.exp(-(r**2 + rho**2 - 2 * r * rho * c) / (2 * variance))

    def integrand(angle):
        return gauss(math.cos(angle)) * math.sin(angle) ** (m - 2)

    total = integrate.quad(integrand, 0, math.pi, epsabs=0, epsrel=1e-11, limit=200)[0]
    mass = integrate.quad(lambda a: math.sin(a) ** (m - 2), 0, math.pi, epsrel=1e-12)[0]
    return total / mass / (2 * math.pi * variance) ** (m / 2)


@pytest.mark.parametrize("m", [2, 3, 7])
@pytest.mark.parametrize("size", [0.0, 0.3, 3.0, 12.0])
def test_geometric_density_and_score(m, size):
    rng = np.random.default_rng(m)
    y = rng.normal(size=m)
    y *= size / np.linalg.norm(y)
    mechanism = GeometricPerturbation(m, variance=0.7)
    z = mechanism.simulate(y, rng, trials=5)
    for one in z:
        direct = direct_density(one, y, 0.7)
        assert np.exp(mechanism.log_density(one, y)) == pytest.approx(direct, rel=1e-9)
        np.testing.assert_allclose(
            mechanism.score(one, y), gradient(mechanism, one, y, 1e-3), rtol=1e-6, atol=1e-7
        )
    # One z or five: inner products of m ≤ 7 terms add up in another order, 7·2⁻⁵² = 2e-15.
    many, one = mechanism.log_density(z, y)[1], mechanism.log_density(z[1], y)
    np.testing.assert_allclose(many, one, rtol=1e-12)


@pytest.mark.parametrize("m", [2, 5, 40])
@pytest.mark.parametrize("rho", [0.05, 1.0, 6.0, 30.0])
def test_geometric_information_is_that_of_the_length(m, rho):
    """r² is non-central χ² (scipy's): information about ρ by quad and central differences."""
    h = 1e-4 * max(rho, 1)

    def log_p(r, length):
        return stats.ncx2.logpdf(r * r, m, length * length) + math.log(2 * r)

    def integrand(r):
        slope = (log_p(r, rho + h) - log_p(r, rho - h)) / (2 * h)
        return math.exp(log_p(r, rho)) * slope**2

    centre = math.hypot(rho, math.sqrt(m))
    ends = [max(1e-9, centre - 8), centre, centre + 8]
    found = sum(integrate.quad(integrand, a, b, limit=100)[0] for a, b in pairwise(ends))
    value = radial_information(rho, m)
    assert value == pytest.approx(found, rel=2e-6)  # differences: h² times the third derivative
    y = np.zeros(m)
    y[0], y[1] = 0.6 * rho * 2, 0.8 * rho * 2
    n = y / (2 * rho)
    matrix = GeometricPerturbation(m, variance=4.0).information(y)
    np.testing.assert_allclose(matrix, value / 4 * np.outer(n, n), atol=1e-12)


def test_geometric_information_grows_to_its_limit_and_never_passes_it():
    for m in (2, 3, 20):
        values = [radial_information(rho, m) for rho in np.geomspace(1e-3, 1e4, 60)]
        assert np.all(np.diff(values) > -1e-11)
        assert values[-1] == pytest.approx(1, abs=1e-3)
        assert max(values) <= 1 + 1e-9
        assert radial_information(0.0, m) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("m", [2, 5])
def test_geometric_sampler(m):
    rng = np.random.default_rng(7)
    y = np.arange(1.0, m + 1)
    mechanism = GeometricPerturbation(m, variance=0.5)
    z = mechanism.simulate(y, rng, trials=40_000)
    square = (z**2).sum(axis=1) / 0.5
    assert stats.kstest(square, stats.ncx2(m, y @ y / 0.5).cdf).pvalue > FALSE_ALARM
    # The direction is uniform: (1 + cosine)/2 is Beta((m−1)/2, (m−1)/2) for every axis.
    cosine = z[:, 0] / np.linalg.norm(z, axis=1)
    beta = stats.beta((m - 1) / 2, (m - 1) / 2)
    assert stats.kstest((1 + cosine) / 2, beta.cdf).pvalue > FALSE_ALARM


def test_geometric_information_by_samples():
    """E score scoreᵀ = I_z(y), every entry within six sigma."""
    rng = np.random.default_rng(11)
    mechanism = GeometricPerturbation(3, variance=0.5)
    y = np.array([1.0, -0.5, 0.3])
    score = mechanism.score(mechanism.simulate(y, rng, trials=200_000), y)
    products = score[:, :, None] * score[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(score))
    found = mechanism.information(y)
    assert np.all(np.abs(products.mean(axis=0) - found) < SIX_SIGMA * error + 1e-12)
    assert loewner(found, mechanism.worst_information())


def test_geometric_needs_one_number():
    with pytest.raises(NotCalibratable, match="one number"):
        GeometricPerturbation.calibrated(PrivacyLevel([[1.0, 1.0], [1.0, 1.0]]), 2)


def test_rotation_shows_the_length_and_nothing_else():
    mechanism = GeometricPerturbation(3, variance=0.0)
    z = mechanism.simulate([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]], np.random.default_rng(1))
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), [5.0, 0.0])
    found = mechanism.information([3.0, 0.0, 4.0])
    np.testing.assert_array_equal(np.isinf(found), np.outer([1, 0, 1], [1, 0, 1]).astype(bool))
    assert np.isinf(mechanism.information([0.0, 0.0, 0.0])).all()
    many = mechanism.simulate([1.0, 0.0, 0.0], np.random.default_rng(2), trials=40_000)
    uniform = stats.uniform(-1, 2)  # Archimedes: a coordinate on the sphere in R³ is uniform
    assert stats.kstest(many[:, 2], uniform.cdf).pvalue > FALSE_ALARM


# --- a user's own ---------------------------------------------------------------------------------


def laplace_log(z, u):
    return -np.abs(z - u) - math.log(2)


def test_user_density_alone_can_be_sampled():
    channel = Channel.from_functions(log_density=laplace_log)
    z = channel.sample(np.repeat([0.0, 5.0], 20_000), np.random.default_rng(1))
    assert stats.kstest(z[:20_000], stats.laplace.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(z[20_000:] - 5, stats.laplace.cdf).pvalue > FALSE_ALARM
    assert math.isnan(channel.worst)
    assert Channel.from_functions(log_density=laplace_log, worst=1.0).worst == 1
    mechanism = Componentwise(channel, measurements=2)
    assert mechanism.log_density([0.0, 1.0], [0.0, 0.0]) == pytest.approx(-1 - 2 * math.log(2))


def test_user_information_from_the_density():
    channel = Channel.from_functions(log_density=laplace_log)
    found = channel.information_estimate(0.3)
    assert found.value == pytest.approx(1.0, rel=1e-6)
    exact = Channel.from_functions(log_density=laplace_log, score=lambda z, u: np.sign(z - u))
    assert exact.score(2.0, 1.0) == 1
    assert channel.score(2.0, 1.0) == pytest.approx(1.0, rel=1e-6)


def test_user_discrete():
    def mass(z, u):
        one = 1 / (1 + np.exp(-u))
        return np.log(np.where(z == 1, one, 1 - one))

    channel = Channel.from_functions(log_density=mass, outcomes=[0.0, 1.0])
    assert channel.discrete
    z = channel.sample(np.full(10_000, 0.5), np.random.default_rng(1))
    count = int(z.sum())
    assert stats.binomtest(count, 10_000, 1 / (1 + math.exp(-0.5))).pvalue > FALSE_ALARM
    p = 1 / (1 + math.exp(-0.5))
    assert channel.information_estimate(0.5).value == pytest.approx(p * (1 - p), rel=1e-6)
    wrong = Channel.from_functions(
        log_density=lambda z, u: mass(z, u) - 1, outcomes=lambda u: [0.0, 1.0]
    )
    with pytest.raises(InvalidInput, match=r"sum to 0\.367879"):
        wrong.sample([0.0], np.random.default_rng(1))


def test_user_sampler_alone():
    channel = Channel.from_functions(sample=lambda u, rng: u + rng.normal(size=u.shape))
    assert channel.sample(np.zeros((2, 3)), np.random.default_rng(1)).shape == (2, 3)
    assert not channel.has_density
    for question in (
        lambda: channel.log_density(0.0, 0.0),
        lambda: channel.score(0.0, 0.0),
        lambda: channel.information(0.0),
    ):
        with pytest.raises(InvalidInput, match=r"sampler only.*privest\.audit"):
            question()


def test_user_mistakes():
    with pytest.raises(InvalidInput, match="no mechanism yet"):
        Channel.from_functions()
    with pytest.raises(InvalidInput, match="must be a function"):
        Channel.from_functions(sample=3)
    with pytest.raises(InvalidInput, match="shape it is given"):
        Channel.from_functions(sample=lambda u, rng: np.zeros(7)).sample(
            [0.0], np.random.default_rng(1)
        )
    with pytest.raises(InvalidInput, match="integrate to 1"):
        Channel.from_functions(log_density=lambda z, u: -np.abs(z - u)).sample(
            [0.0], np.random.default_rng(1)
        )
    with pytest.raises(InvalidInput, match="no outcomes"):
        Channel.from_functions(log_density=laplace_log).outcomes(0.0)
    with pytest.raises(NotCalibratable, match="certify"):
        type(Channel.from_functions(log_density=laplace_log)).calibrated(1.0)


def test_channels_are_values():
    assert Additive(Laplace(0.5)) == Additive(Laplace(0.5))
    assert Additive(Laplace(0.5)).parameters == {"law": Laplace(0.5)}
