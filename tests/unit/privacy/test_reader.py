"""The ordinary reader and the attacker: every formula against an attack that is run, a dense
computation or an integral."""

import math

import numpy as np
import pytest
import scipy

from privest.errors import InvalidInput
from privest.privacy import exposure, exposures, gdp

SIGMA = 0.2**0.5


def test_a_reader_who_fits_and_shrinks_has_the_sd_of_the_formula():
    """Least squares on the release, then the best linear guess; before: without that row."""
    rng, s, K, n = np.random.default_rng(1), 4.0, 40, 4
    H = np.column_stack([np.ones(K), rng.standard_normal((K, n - 1))])
    hat = H @ np.linalg.solve(H.T @ H, H.T)
    h = hat.diagonal()
    g = s * SIGMA**2 / (1 + s * SIGMA**2)
    found = [exposures.reader_sds(s, SIGMA, float(one)) for one in h]
    before, after = [], []
    for _ in range(4000):
        y = H @ np.ones(n) + SIGMA * rng.standard_normal(K)
        z = y + rng.standard_normal(K) / math.sqrt(s)
        fitted = hat @ z
        after.append(y - fitted - g * (z - fitted))
        before.append(y - (fitted - h * z) / (1 - h))  # the fit of all other rows
    assert np.std(after, axis=0) == pytest.approx([x[1] for x in found], rel=0.04)
    assert np.std(before, axis=0) == pytest.approx([x[0] for x in found], rel=0.04)
    plain = exposures.reader_sds(s, SIGMA)
    assert plain == pytest.approx((SIGMA, 1 / math.sqrt(s + 1 / SIGMA**2)))


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 3.0, 20.0, 500.0])
def test_the_posterior_mean_under_laplace_noise(a):
    """By integrating over the value for every released number: sd 1, noise of scale 1/a."""
    y = np.linspace(-9, 9, 4001)
    z = np.concatenate([np.linspace(0, 9, 300), 9 + np.geomspace(1e-3, 60 / a, 300)])
    prior = scipy.stats.norm.pdf(y)
    joint = prior * scipy.stats.laplace.pdf(z[:, None] - y, scale=1 / a)
    weight = np.trapezoid(joint, y, axis=1)
    mean = np.trapezoid(joint * y, y, axis=1) / weight
    spread = np.trapezoid(joint * y**2, y, axis=1) / weight - mean**2
    expected = math.sqrt(2 * np.trapezoid(weight * spread, z))
    found = exposures.laplace_sd(a * a, 1.0)
    assert found == pytest.approx(expected, rel=2e-3 if a < 100 else 0.05)
    assert 1 / math.sqrt(1 + a * a) <= found <= 1 / math.sqrt(1 + a * a / 2)


def test_a_stream_by_dense_algebra():
    s, phi, sd, K = 1.3, 0.9, 0.8, 401
    Sigma = sd**2 * phi ** np.abs(np.subtract.outer(range(K), range(K)))
    shown = np.full(K, s)
    inverse = np.linalg.inv(Sigma)
    whole = np.linalg.inv(inverse + np.diag(shown))[K // 2, K // 2]
    shown[K // 2] = 0.0
    without = np.linalg.inv(inverse + np.diag(shown))[K // 2, K // 2]
    expected = sd, math.sqrt(without), math.sqrt(whole)
    assert exposures.stream_sds(s, phi, sd) == pytest.approx(expected)


@pytest.mark.parametrize("prior", [0.5, 0.3, 0.1])
def test_the_likelihood_ratio_attack_on_two_values(prior):
    """Gaussian and Laplace noise, and answers: the better guess of 200,000 releases."""
    rng, count, d = np.random.default_rng(3), 200_000, 0.9
    upper = rng.random(count) < prior
    y = np.where(upper, d, 0.0)

    def rate(score):  # ln of the likelihood ratio, upper against lower
        return np.mean((score + scipy.special.logit(prior) > 0) == upper)

    z = y + rng.standard_normal(count)
    assert rate(d * z - d * d / 2) == pytest.approx(exposures.chance_of_mu(d, prior), abs=0.004)
    z = y + rng.laplace(size=count)
    found = exposures.laplace_chance(d, prior)
    assert rate(np.abs(z) - np.abs(z - d)) == pytest.approx(found, abs=0.004)
    t = math.e / (1 + math.e)
    yes = np.where(rng.random(count) < t, upper, ~upper)
    found = exposures.coin_chance(1.0, prior)
    assert rate(np.where(yes, 1.0, -1.0)) == pytest.approx(found, abs=0.004)
    for released, belief in zip((True, False), exposures.answer_beliefs(prior, 1.0)):
        assert np.mean(upper[yes == released]) == pytest.approx(belief, abs=0.006)


@pytest.mark.parametrize(("level", "width"), [(4.0, 5.0), (0.04, 5.0), (1.0, 1.0)])
def test_epsilon_is_that_of_the_integrated_privacy_profile(level, width):
    """δ(ε) = ∫ (p − e^ε q)₊ of two Gaussians a range apart; the grid adds up to a step."""
    found = exposure(level, sd=1.0, range=(0.0, width), delta=1e-6)
    mu = width * math.sqrt(level)

    def delta(epsilon):
        edge = mu / 2 + epsilon / mu  # where the density at μ is e^ε times that at 0
        z = np.linspace(edge, max(edge, mu) + 12, 200_001)
        p = scipy.stats.norm.pdf(z - mu)
        return np.trapezoid(p * -np.expm1(epsilon + mu * mu / 2 - mu * z), z)

    assert delta(found.epsilon) <= 1e-6 * (1 + 1e-4)  # noise on the grid is a little wider
    assert delta(found.epsilon * (1 - 3e-3)) > 1e-6 * 0.9


def test_a_suspicion_of_ten_percent_and_how_often_it_is_exceeded():
    rng, epsilon, delta = np.random.default_rng(4), 2.0, 1e-3
    mu = gdp.mu_of(epsilon, delta)
    z = mu + rng.standard_normal(400_000)  # the suspicion is true: it grows the most
    belief = scipy.special.expit(math.log(0.1 / 0.9) + mu * z - mu * mu / 2)
    beyond = np.mean(belief > exposures.suspicion_after(epsilon))
    assert beyond == pytest.approx(exposures.odds_beyond(mu, epsilon), rel=0.05)
    assert beyond > 2 * delta  # δ is no failure probability


def test_the_higher_of_two_people_is_named_as_often_as_said():
    rng, s = np.random.default_rng(5), 4.0
    y = SIGMA * rng.standard_normal((2, 200_000))
    z = y + rng.standard_normal(y.shape) / math.sqrt(s)
    right = np.mean((y[0] > y[1]) == (z[0] > z[1]))
    assert right == pytest.approx(exposures.chance_of_side(s, SIGMA), abs=0.003)


def test_gaussian_noise_is_best_at_equal_attack_rates_up_to_95_percent_only():
    def ratio(p):  # of variances: Laplace over Gaussian, ends a width apart
        epsilon = -2 * math.log(2 * (1 - p))
        return 2 / epsilon**2 * exposures.mu_for_chance(p) ** 2

    assert all(ratio(p) > 1 for p in (0.55, 0.7, 0.9, 0.95))
    assert ratio(0.96) < 1


def test_an_unknown_distribution_is_not_taken_for_gaussian():
    with pytest.raises(InvalidInput, match="distribution must be one of gaussian, laplace"):
        exposure(4.0, sd=0.4, range=5.0, distribution="cauchy")
