"""GaussianMechanism: audited without random numbers, attacked reading by reading."""

import math

import numpy as np
import pytest

from privest import PrivacyLevel
from privest.audit import attack, certify, fisher_information
from privest.errors import InvalidInput
from privest.mechanism._gaussian import GaussianMechanism

LEVELS = [
    (PrivacyLevel(0.7), 3),
    (PrivacyLevel([2.0, 1e-6, 1e6]), 3),
    (PrivacyLevel([1.0, 0.0]), 2),
    (PrivacyLevel([[2.0, 0.5], [0.5, 1.0]]), 2),
    (PrivacyLevel([[4.0, 2.0], [2.0, 1.0]]), 2),
]


class Sharper(GaussianMechanism):
    """States S and has the density of noise that is half as wide."""

    def simulate(self, y, rng, trials=None):
        shown = super().simulate(y, rng, trials)
        mean = self._shown(y)
        return mean + (shown - mean) / 2

    def log_density(self, z, y):
        return -2 * (self.noise(z, y) ** 2).sum(axis=-1)

    def score(self, z, y):
        return 4 * super().score(z, y)


class Lopsided(GaussianMechanism):
    """Shows twice what it states of the reading that is least shown."""

    def log_density(self, z, y):
        rest = self._outputs(z) - self._shown(np.asarray(y) * [1.0, 2.0**0.5])
        return -0.5 * (rest**2).sum(axis=-1)


class Wavy(GaussianMechanism):
    """Not quadratic in y."""

    def log_density(self, z, y):
        return super().log_density(z, y) + 1e-4 * np.cos(np.asarray(y)).sum(axis=-1)


@pytest.mark.parametrize(("level", "size"), LEVELS)
def test_its_information_is_the_level_without_random_numbers(level, size):
    mechanism = GaussianMechanism(level, size)
    found = certify(mechanism, level)
    assert found.verdict == "holds"
    assert abs(found.margin - 1) < 1e-12
    assert found.error < 1e-12
    assert found.method == "closed form supremum"
    assert found.worst_y is None
    assert certify(mechanism, level, search=np.full((1, size), 1e4))
    S = level.dense(size)
    information = fisher_information(mechanism, np.full(size, 3.0))
    assert np.allclose(information.matrix, S, rtol=1e-12, atol=0)
    assert information.confidence is None


def test_it_is_violated_at_a_lower_level():
    mechanism = GaussianMechanism(1.0, 2)
    assert certify(mechanism, 0.8).verdict == "violated"
    assert certify(mechanism, 0.8).margin == pytest.approx(1.25, rel=1e-12)
    assert certify(mechanism, PrivacyLevel([1.0, 0.0])).margin == math.inf


def test_a_density_that_does_not_fit_is_not_believed():
    for kind in (Sharper, Wavy):
        with pytest.raises(InvalidInput, match="rng"):  # back to simulated scores
            certify(kind(1.0, 2), 1.0)
        with pytest.raises(InvalidInput, match="rng"):
            fisher_information(kind(1.0, 2), [0.0, 0.0])
    with pytest.raises(InvalidInput, match="rng"):
        certify(Lopsided([1e8, 1e-6], 2), PrivacyLevel([1e8, 1e-6]))
    found = certify(Sharper(1.0, 2), 1.0, samples=20_000, rng=np.random.default_rng(1))
    assert found.verdict == "violated"
    assert "is wrong" in str(found)


def test_it_is_attacked_reading_by_reading():
    level = PrivacyLevel([2.0, 0.0, 0.5])
    attacks = attack(
        GaussianMechanism(level, 3), [1.0, 5.0, -2.0],
        rng=np.random.default_rng(2), level=level, prior=(0.0, 1.0), trials=4000,
    )  # fmt: skip
    hidden = attacks.pop(1)  # nothing is released about it
    assert hidden.likelihood is None
    assert hidden.unbiased_floor == hidden.level_floor == math.inf
    assert hidden.van_trees == 1
    for one, s in zip(attacks, (2.0, 0.5), strict=True):
        # Four standard errors, four comparisons: false alarm 3e-4.
        assert one.unbiased_floor == pytest.approx(1 / s)
        assert one.level_floor == pytest.approx(1 / s)
        assert one.van_trees == pytest.approx(1 / (1 + s))
        assert abs(one.likelihood.mse - 1 / s) < 4 * one.likelihood.mse_error
        assert abs(one.averaged.mse - 1 / (1 + s)) < 4 * one.averaged.mse_error


def test_a_density_that_does_not_fit_is_attacked_as_it_is():
    # Not quadratic: no closed form is used, and the report says how the posterior was found.
    attacks = attack(
        Wavy(1.0, 2), [0.0, 0.5], rng=np.random.default_rng(1), prior=(0.0, 1.0),
        trials=100,
    )  # fmt: skip
    assert "by regression" in str(attacks[0])
