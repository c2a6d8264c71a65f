"""Attackers on mechanisms that mix the readings, and on samplers."""

import math

import numpy as np
import pytest

from privest import PrivacyLevel, audit, noise
from privest.errors import InvalidInput
from privest.mechanism import (
    CATALOGUE,
    Additive,
    Channel,
    Componentwise,
    GaussianMechanism,
    GeometricPerturbation,
)

DENSE = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.5]])
TRIALS = 4000


def attack(mechanism, y, seed=2, trials=TRIALS, **given):
    return audit.attack(mechanism, y, rng=np.random.default_rng(seed), trials=trials, **given)


def test_a_dense_level_is_attacked_reading_by_reading():
    level = PrivacyLevel(DENSE)
    mechanism = GaussianMechanism(level, 3)
    found = attack(mechanism, [1.0, 5.0, -2.0], level=level, prior=(1.0, 2.0))
    floors = np.diagonal(np.linalg.inv(DENSE))
    posterior = np.linalg.inv(DENSE + np.eye(3) / 2)
    shrunk = posterior @ (np.array([1.0, 1.0, 1.0]) - [1.0, 5.0, -2.0]) / 2  # bias of E[y|z]
    for i, one in enumerate(found):
        assert (one.target, one.output, one.attacker) == ("measurement", i, "best unbiased")
        assert one.unbiased_floor == pytest.approx(floors[i], rel=1e-9)
        assert one.level_floor == pytest.approx(floors[i], rel=1e-9)
        assert one.van_trees == pytest.approx(posterior[i, i], rel=1e-9)
        # 4.5 standard errors, 12 comparisons: false alarm 1e-4.
        assert abs(one.likelihood.mse - floors[i]) < 4.5 * one.likelihood.mse_error
        assert abs(one.likelihood.bias) < 4.5 * one.likelihood.bias_error
        assert abs(one.averaged.mse - posterior[i, i]) < 4.5 * one.averaged.mse_error
        assert abs(one.bayesian.bias - shrunk[i]) < 4.5 * one.bayesian.bias_error


def test_a_singular_level_shows_some_readings_only():
    # L = [[1, 0], [0, 2], [0, 1]]: reading 0 by itself, and one mixture of the other two.
    L = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    level = PrivacyLevel(L @ L.T)
    found = attack(GaussianMechanism(level, 3), [1.0, 5.0, -2.0], level=level, prior=(0.0, 1.0))
    posterior = np.linalg.inv(L @ L.T + np.eye(3))
    assert found[0].unbiased_floor == pytest.approx(1.0)
    assert abs(found[0].likelihood.mse - 1) < 4.5 * found[0].likelihood.mse_error
    for i in (1, 2):
        assert found[i].likelihood is None
        assert found[i].unbiased_floor == found[i].level_floor == math.inf
        assert "Not determined" in str(found[i])
    for i in range(3):
        assert found[i].van_trees == pytest.approx(posterior[i, i])
        assert abs(found[i].averaged.mse - posterior[i, i]) < 4.5 * found[i].averaged.mse_error


def test_a_sampler_is_attacked_by_regression():
    # y + N(0, 1) under N(0, 1): the posterior mean is linear, its error ½.
    def sampler(y, rng, n):
        return y + rng.standard_normal((n, 2))

    found = attack(sampler, [1.0, -2.0], prior=(0.0, 1.0), level=PrivacyLevel([1.0, 0.0]))
    assert [one.level_floor for one in found] == [1.0, math.inf]
    for i, one in enumerate(found):
        assert one.likelihood is one.unbiased_floor is one.van_trees is None
        # 8000 pairs for some 130 hats lose about 130/8000 of the prior's variance.
        assert (
            -4.5 * one.averaged.mse_error
            < one.averaged.mse - 0.5
            < (0.03 + 4.5 * one.averaged.mse_error)
        )
        assert one.bayesian.bias == pytest.approx([-0.5, 1.0][i], abs=0.15)
        assert "learnt by regression" in str(one)


def test_a_channel_without_a_density_is_attacked_by_regression():
    # A sign of y + noise: E[u|z] = ±2φ(0)v/√(v + 1), a nonlinear mechanism of two outcomes.
    channel = Channel.from_functions(
        sample=lambda u, rng: np.sign(u + rng.standard_normal(u.shape))
    )
    (one,) = attack(channel, [1.0], prior=(0.0, 4.0))
    best = 4 - (2 / math.sqrt(2 * math.pi) * 4 / math.sqrt(5)) ** 2
    assert abs(one.averaged.mse - best) < 4.5 * one.averaged.mse_error + 0.01
    both = Componentwise([channel, Additive(noise.Laplace())])
    blind, seeing = attack(both, [1.0, 0.0], prior=(0.0, 4.0), trials=200)
    assert blind.likelihood is None
    assert seeing.likelihood is not None


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_mechanism_of_the_catalogue_is_attacked(name):
    found = attack(CATALOGUE[name].example(2), [0.4, -0.8], level=1.0, prior=(0.0, 1.0), trials=300)
    assert len(found) >= 2
    for one in found:
        assert np.isfinite([one.bayesian.mse, one.averaged.mse]).all()
        if one.van_trees is not None:
            assert one.van_trees <= 1
            # False alarm 3e-6 each; E I by simulation (geometric) adds its own few percent.
            assert one.averaged.mse + 4.5 * one.averaged.mse_error > 0.9 * one.van_trees
        assert one.target in str(one)


def test_a_noisy_rotation_hides_each_reading():
    mechanism = GeometricPerturbation(2, 0.01)
    for one in attack(mechanism, [3.0, 4.0], prior=(3.0, 1.0), level=100.0, trials=400):
        assert one.likelihood is None
        assert one.unbiased_floor == math.inf
        assert one.level_floor == pytest.approx(0.01)
        assert one.averaged.mse + 4.5 * one.averaged.mse_error > one.van_trees
        assert "simulated scores" in str(one)


def test_a_rotation_is_attacked_by_regression():
    # It shows the length: E[y²|z] is sharp, E[y|z] is better than the prior's mean.
    for one in attack(
        GeometricPerturbation(3, variance=0.0),
        [3.0, 0.0, 4.0],
        prior=(1.0, 2.0),
        level=1.0,
        trials=400,
    ):
        assert one.likelihood is one.van_trees is None
        assert one.averaged.mse < 2.0  # the prior's own variance
    with pytest.raises(InvalidInput, match="state its prior"):
        attack(GeometricPerturbation(2, variance=0.0), [3.0, 0.0])
