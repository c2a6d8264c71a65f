"""Attackers: right where the answer is known, and reported next to the right floors."""

import math

import numpy as np
import pytest

from privest import PrivacyLevel, noise
from privest.audit import adversary
from privest.audit.attackers import most_likely, posterior_mean
from privest.errors import InvalidInput
from privest.mechanism.additive import Additive
from privest.mechanism.vector import Componentwise, Mechanism
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


def test_refusals():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="variance must be > 0"):
        adversary(Additive(noise.Laplace()), 0.0, rng=rng, prior=(0.0, 0.0))

    class Other(Mechanism):
        simulate = log_density = score = information = worst_information = parameters = None

    with pytest.raises(InvalidInput, match="Other"):
        adversary(Other(), 0.0, rng=rng)
