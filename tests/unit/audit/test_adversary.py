"""Attackers: right where the answer is known, and reported next to the right floors."""

import math

import mpmath
import numpy as np
import pytest
import scipy

from privest import PrivacyLevel, noise
from privest.audit import adversary
from privest.audit._attackers import most_likely, posterior_mean
from privest.audit._floors import unbiased_floors
from privest.errors import InvalidInput, NumericalFailure
from privest.mechanism._additive import Additive
from privest.mechanism._vector import Componentwise
from toy_channels import Shift, Sign, TriangularDither


@pytest.mark.parametrize("law", [noise.GaussianLaw(0.3), noise.Laplace(0.5), noise.Cauchy(2.0)])
def test_the_most_likely_input_of_a_shift_is_the_release(law):
    z = 5 + law.sample(500, np.random.default_rng(1))
    guess, unbounded = most_likely(Additive(law), z, 5.0)
    # Golden section: half the digits where the peak is smooth.
    assert np.abs(guess - z).max() < 1e-6 * (1 + np.abs(z).max())
    assert unbounded == 0


def test_the_most_likely_input_among_several_peaks():
    # A mixture of far peaks: the higher one must win, wherever the truth is.
    law = noise.from_logpdf(
        lambda x: np.logaddexp(np.log(0.4) - (x + 6) ** 2 / 2, np.log(0.6) - (x - 6) ** 2 / 2),
        normalise=True,
        landmarks=[-6.0, 6.0],
    )
    z = np.array([-6.0, 0.0, 6.5])
    guess, _ = most_likely(Shift(law, False), z, 0.0)
    assert np.allclose(guess, z - 6, atol=1e-6)


def test_a_single_answer_has_no_most_likely_input():
    _, unbounded = most_likely(Sign(), np.array([-1.0, 1.0]), 0.2)
    assert unbounded == 1.0


def test_the_most_likely_input_of_a_quantiser_is_the_outcome():
    z = np.array([-1.0, 0.0, 0.0, 2.0])
    guess, _ = most_likely(TriangularDither(), z, 0.3)
    assert np.allclose(guess, z, atol=1e-6)


@pytest.mark.parametrize("variance", [1e-2, 1.0, 100.0])
def test_the_posterior_mean_of_gaussians(variance):
    z = np.linspace(-3, 3, 50)
    found = posterior_mean(Additive(noise.GaussianLaw(0.5)), z, 1.0, variance)
    gain = variance / (variance + 0.5)
    assert np.allclose(found, 1 + gain * (z - 1), atol=1e-9)


def test_the_posterior_mean_of_a_sign():
    # E[u | u + d > 0] = 2φ(0)·v/√(v + 1) for u ~ N(0, v), d ~ N(0, 1).
    found = posterior_mean(Sign(), np.array([1.0, -1.0]), 0.0, 4.0)
    expected = 2 / math.sqrt(2 * math.pi) * 4 / math.sqrt(5)
    assert np.allclose(found, [expected, -expected], atol=1e-8)


def test_gaussian_noise_attains_every_floor():
    level = PrivacyLevel([2.0, 0.5])
    channels = [Additive(noise.GaussianLaw(0.5)), Additive(noise.GaussianLaw(2.0))]
    attacks = adversary(
        Componentwise(channels),
        [1.0, -2.0],
        rng=np.random.default_rng(2),
        level=level,
        prior=(0.0, 1.0),
        trials=4000,
    )
    for attack, s in zip(attacks, (2.0, 0.5)):
        # Four standard errors, eight comparisons: false alarm 5e-4.
        assert attack.level_floor == pytest.approx(1 / s)
        assert attack.unbiased_floor == pytest.approx(1 / s)
        assert abs(attack.likelihood.mse - 1 / s) < 4 * attack.likelihood.mse_error
        assert abs(attack.likelihood.bias) < 4 * attack.likelihood.bias_error
        assert attack.van_trees == pytest.approx(1 / (1 + s))
        assert abs(attack.averaged.mse - attack.van_trees) < 4 * attack.averaged.mse_error
        # The posterior mean pulls towards the prior: bias −u/(1 + s).
        shrunk = -(1.0 if attack.output == 0 else -2.0) / (1 + s)
        assert abs(attack.bayesian.bias - shrunk) < 4 * attack.bayesian.bias_error
        assert "van Trees" in str(attack)


def test_other_noise_stays_above_the_floors():
    attack = adversary(
        Additive(noise.Laplace(1.0)),
        0.7,
        rng=np.random.default_rng(3),
        level=1.0,
        prior=(0.0, 4.0),
    )[0]
    assert attack.likelihood.mse - 4 * attack.likelihood.mse_error > attack.level_floor  # 2 > 1
    assert attack.averaged.mse - 4 * attack.averaged.mse_error > attack.van_trees
    assert attack.van_trees == pytest.approx(0.8)


def test_floors_follow_the_matrix():
    A = np.array([[1.0, 1.0]])
    mechanism = Componentwise(Additive(noise.GaussianLaw(1.0)), A)
    attack = adversary(
        mechanism, [1.0, 2.0], rng=np.random.default_rng(4), level=PrivacyLevel([1.0, 4.0])
    )[0]
    assert attack.level_floor == pytest.approx(1.25)  # aᵀS⁻¹a
    assert attack.bayesian is None
    hidden = adversary(
        mechanism, [1.0, 2.0], rng=np.random.default_rng(4), level=PrivacyLevel([1.0, 0.0])
    )[0]
    assert hidden.level_floor == math.inf


def test_a_flat_top_is_taken_in_its_middle():
    # u + uniform noise on (−1, 1): every u within 1 of z is equally likely. The best is z itself,
    # up to the spacing of the grid at a distance of 1.
    z = np.linspace(4.2, 5.9, 7)
    guess, unbounded = most_likely(Additive(noise.Uniform()), z, 5.0)
    assert unbounded == 0
    assert np.abs(guess - z).max() < 0.2


def test_a_level_floor_inside_the_range_of_a_singular_level():
    # S = ggᵀ, g = (2, 1): aᵀS⁺a = 1 for a = g, and nothing but multiples of g may be shown.
    S = PrivacyLevel([[4.0, 2.0], [2.0, 1.0]])
    mechanism = Componentwise(Additive(noise.GaussianLaw(1.0)), [[2.0, 1.0], [2.0, 1.1]])
    attacks = adversary(mechanism, [1.0, 2.0], rng=np.random.default_rng(4), level=S, trials=50)
    assert attacks[0].level_floor == pytest.approx(1.0, rel=1e-9)
    assert attacks[1].level_floor == math.inf


def test_very_different_levels_do_not_hide_each_other():
    S = np.array([[1e8, 0.0], [0.0, 1e-8]])
    assert unbiased_floors(np.eye(2), S) == pytest.approx([1e-8, 1e8])
    L = np.array([[1e6, 0.0], [1.0, 2.0], [1e-6, 1e-6]])
    rows = np.vstack([L.T, np.eye(3)])
    floors = unbiased_floors(rows, L @ L.T)
    assert floors[:2] == pytest.approx([1.0, 1.0], rel=1e-9)
    assert np.isinf(floors[2:]).all()


def test_refusals():
    rng = np.random.default_rng(1)
    channel = Additive(noise.Laplace())
    with pytest.raises(InvalidInput, match="variance must be > 0"):
        adversary(channel, 0.0, rng=rng, prior=(0.0, 0.0))
    for prior in ((0.0,), (0.0, 1.0, 2.0)):
        with pytest.raises(InvalidInput, match="two numbers"):
            adversary(channel, 0.0, rng=rng, prior=prior)
    for trials in (0, 1, -3, 2.5, True):
        with pytest.raises(InvalidInput, match="trials must be a whole number ≥ 2"):
            adversary(channel, 0.0, rng=rng, trials=trials)
    with pytest.raises(InvalidInput, match="received int"):
        adversary(3, 0.0, rng=rng)
    with pytest.raises(InvalidInput, match="for 1 readings"):
        adversary(channel, [0.0, 1.0], rng=rng)
    with pytest.raises(InvalidInput, match="3 readings"):
        adversary(channel, 0.0, rng=rng, level=PrivacyLevel([1.0, 2.0, 3.0]))
    with pytest.raises(InvalidInput, match="state its prior"):
        adversary(lambda y, rng, n: y + rng.standard_normal((n, 1)), 0.0, rng=rng)


# --- the posterior mean, far away and in narrow places ------------------------------------------


@pytest.mark.parametrize("away", [0.0, 50.0, -1e4])
@pytest.mark.parametrize("noise_variance", [1e-12, 1e-4, 1.0, 1e6])
def test_the_posterior_mean_of_gaussians_anywhere(away, noise_variance):
    mean, variance = 2.0, 4.0
    truth = mean + away * math.sqrt(variance)
    z = truth + math.sqrt(noise_variance) * np.linspace(-3, 3, 41)
    found = posterior_mean(Additive(noise.GaussianLaw(noise_variance)), z, mean, variance, truth)
    gain = variance / (variance + noise_variance)
    # Quadrature to 1e-9 of the posterior's width; z − u is known to rounding of z.
    width = math.sqrt(noise_variance * gain)
    assert np.abs(found - (mean + gain * (z - mean))).max() < 1e-8 * width + 8e-16 * abs(truth)


@pytest.mark.parametrize("scale", [1e-5, 0.5, 20.0])
@pytest.mark.parametrize("z", [-3.0, 0.5, 8.0, 60.0])
def test_the_posterior_mean_under_laplace_noise(scale, z):
    # Two Gaussian pieces: e^{−|z−u|/b} tilts N(m, v) to means m ± v/b on either side of z.
    m, v = 0.5, 4.0
    found = posterior_mean(Additive(noise.Laplace(scale)), np.array([z]), m, v)[0]
    with mpmath.workdps(60):
        b, root = mpmath.mpf(scale), mpmath.sqrt(v)
        parts = []
        for side in (1, -1):  # u < z, u > z
            centre = m + side * v / b
            edge = side * (z - centre) / root
            mass = mpmath.exp((centre**2 - m**2) / (2 * v) - side * z / b) * mpmath.ncdf(edge)
            fall = mpmath.npdf(edge) / mpmath.ncdf(edge)
            parts.append((mass, centre - side * root * fall))
        expected = sum(w * x for w, x in parts) / sum(w for w, _ in parts)
    assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


def test_the_posterior_mean_under_noise_that_jumps():
    # Uniform noise: a prior cut at z ± 1, wherever the cuts fall between the nodes.
    z = np.random.default_rng(1).normal(0.5, 2.5, 300)
    found = posterior_mean(Additive(noise.Uniform(1.0)), z, 0.5, 4.0)
    a, b = (z - 1.5) / 2, (z + 0.5) / 2
    assert np.abs(found - scipy.stats.truncnorm.mean(a, b, 0.5, 2.0)).max() < 1e-7


def test_the_posterior_mean_between_two_far_peaks():
    # Cauchy noise 15 prior deviations away: a peak at the prior and one at z.
    z, law = np.array([30.0, 36.0]), noise.Cauchy(1.0)
    found = posterior_mean(Additive(law), z, 0.5, 4.0)
    for one, value in zip(z, found):
        w = [
            scipy.integrate.quad(
                lambda u, k=k, one=one: u**k * law.pdf(one - u) * np.exp(-((u - 0.5) ** 2) / 8),
                -20, 60, points=[0.5, one], limit=500, epsabs=0, epsrel=1e-11,
            )[0]
            for k in (0, 1)
        ]  # fmt: skip
        assert value == pytest.approx(w[1] / w[0], rel=1e-8)


def test_a_posterior_that_nothing_explains_is_an_error():
    with pytest.raises(NumericalFailure, match="1 of 1 releases"):
        posterior_mean(Nowhere(), np.array([1e3]), 0.0, 1e-6)


class Nowhere(Sign):
    def log_density(self, z, u):
        return np.full(np.broadcast_shapes(np.shape(z), np.shape(u)), -np.inf)
