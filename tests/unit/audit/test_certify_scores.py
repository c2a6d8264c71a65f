"""Certificates of mechanisms that mix readings, hidden readings, and channels of unusual make."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy

from privest import PrivacyLevel, noise
from privest.audit import certify
from privest.audit._terms import relative
from privest.mechanism import (
    Additive,
    Channel,
    Componentwise,
    Mechanism,
)
from toy_channels import Shift

S = np.array([[1.0, 0.98], [0.98, 1.0]])


class Stated(Mechanism):
    """z = y + N(0, C⁻¹), C the information it has and states; by its scores only."""

    def __init__(self, information):
        self.C = np.asarray(information)
        self.measurements = self.outputs = len(self.C)
        self.root = np.linalg.cholesky(np.linalg.inv(self.C))

    def simulate(self, y, rng, trials=None):
        return self._given(y) + rng.standard_normal((trials, self.measurements)) @ self.root.T

    def log_density(self, z, y):
        rest = np.asarray(z) - np.asarray(y)
        return -((rest @ self.C) * rest).sum(axis=-1) / 2

    def score(self, z, y):
        return (np.asarray(z) - np.asarray(y)) @ self.C

    def information(self, y):
        return self.C

    def worst_information(self):
        return self.C


def test_a_correlated_level_is_not_refuted_by_noise():
    # Exactly at the level along (1, −1), at 0.3 of it along (1, 1). At confidence 0.98 a false
    # alarm has probability 0.01 (one side); more than `most` of 40 have probability 1e-4.
    most = int(scipy.stats.binom.isf(1e-4, 40, 0.01))
    one, other = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    mechanism = Stated((0.3 * 1.98 * one + 0.02 * other) / 2)
    found = [
        certify(
            mechanism, PrivacyLevel(S), search=[[0.0, 0.0]], samples=2000,
            rng=np.random.default_rng(seed), confidence=0.98,
        )
        for seed in range(40)
    ]  # fmt: skip
    assert sum(one.verdict == "violated" for one in found) <= most
    missed = sum(abs(one.margin - 1) > one.error for one in found)
    # From 1000 squares of Gaussians with a plugged-in deviation: 4 % instead of 2 %.
    assert missed <= scipy.stats.binom.isf(1e-4, 40, 0.04)
    assert all(one.error < 0.2 for one in found)  # and it says something


def test_luck_in_the_choice_of_a_direction_is_not_a_violation():
    # Twelve readings, 200 + 200 scores: the largest eigenvalue of their mean is about
    # (1 + √(12/400))² = 1.38 at a level that is met exactly; the interval is ±0.23.
    found = [
        certify(
            Stated(np.eye(12)), 1.0, search=np.zeros((1, 12)), samples=400,
            rng=np.random.default_rng(seed), confidence=0.98,
        )
        for seed in range(30)
    ]  # fmt: skip
    assert sum(one.verdict == "violated" for one in found) <= scipy.stats.binom.isf(1e-4, 30, 0.01)


def test_the_direction_that_shows_most_is_found():
    worse = S + 0.02 * np.array([[1.0, -1.0], [-1.0, 1.0]])  # 1 + 0.04/0.02 along (1, −1)
    found = certify(
        Stated(worse), PrivacyLevel(S), search=[[0.0, 0.0]], samples=20_000,
        rng=np.random.default_rng(1),
    )  # fmt: skip
    assert found.verdict == "violated"
    assert abs(found.margin - 3) <= found.error < 0.3


def test_the_confidence_is_for_all_places_together():
    # The same y 50 times: the interval of each is that at 1 − (1 − c)/50.
    wide = {}
    for count in (1, 50):
        found = certify(
            Stated([[1.0]]), 1.0, search=np.zeros((count, 1)), samples=20_000,
            rng=np.random.default_rng(2), confidence=0.9,
        )  # fmt: skip
        wide[count] = found.error
    expected = scipy.stats.norm.ppf(1 - 0.05 / 50) / scipy.stats.norm.ppf(0.95)
    # The deviation of χ²₁ from 10⁴ draws is known to 2 % (kurtosis 15): 4 of these, twice.
    assert wide[50] / wide[1] == pytest.approx(expected, rel=0.12)
    assert expected > 1.8


def test_a_hidden_reading_is_judged_by_its_own_scale():
    # 1e6 next to 1e-12: a part 1e-18 of the largest entry, and yet not nothing.
    both = Componentwise([Additive(noise.Laplace(1e-3)), Additive(noise.Laplace(1e6))])
    found = certify(both, PrivacyLevel([1e6, 0.0]))
    assert found.margin == math.inf
    assert found.verdict == "violated"
    assert certify(both, PrivacyLevel([1e6, 1e-12])).verdict == "holds"


def test_hidden_directions_of_a_singular_level():
    g = np.array([2.0, 1.0, 1e-3])
    level = PrivacyLevel(np.outer(g, g)).for_size(3)
    assert relative(level, np.outer(g, g)) == pytest.approx(1.0, rel=1e-9)
    assert relative(level, 2 * np.outer(g, g)) == pytest.approx(2.0, rel=1e-9)
    other = np.array([2.0, 1.0, 1e-3 + 1e-6])
    assert relative(level, np.outer(other, other)) == math.inf
    assert relative(PrivacyLevel([1.0, 1e-15]).for_size(2), np.diag([1.0, 4e-15])) == pytest.approx(
        4.0
    )


class Plain(Channel):
    """Not a data class and not a shift: N(u, 1 + u²/10)."""

    def sample(self, u, rng):
        u = np.asarray(u)
        return u + np.sqrt(1 + u**2 / 10) * rng.standard_normal(u.shape)

    def log_density(self, z, u):
        v = 1 + np.asarray(u) ** 2 / 10
        return -((np.asarray(z) - u) ** 2) / (2 * v) - np.log(2 * np.pi * v) / 2

    @property
    def worst(self):
        return 1.2


def test_a_channel_that_is_not_a_data_class():
    assert Plain().parameters == {}
    found = certify(Plain(), 1.2)
    assert found.verdict == "holds on the examined domain"
    # 1/v + (v'/v)²/2 with v = 1 + u²/10: 1 at u = 0.
    u = np.linspace(-5, 5, 2001)
    v = 1 + u**2 / 10
    assert found.margin == pytest.approx((1 / v + (u / 5 / v) ** 2 / 2).max() / 1.2, rel=1e-6)


@dataclass(frozen=True)
class Spike(Shift):
    """Unit noise, except for inputs within 1e-7 of 0.123: a tenth of it. It names the place."""

    @property
    def worst(self):
        return 1.0

    def landmarks(self, u):
        return (u, 0.123)

    def log_density(self, z, u):
        scale = np.where(np.abs(np.asarray(u) - 0.123) < 1e-7, 0.1, 1.0)
        return -np.abs((np.asarray(z) - np.asarray(u)) / scale) - np.log(2 * scale)


def test_landmarks_that_stay_are_looked_at():
    # It passes for a shift wherever one looks, unless one looks there.
    found = certify(Spike(noise.Laplace()), 1.0)
    assert found.verdict == "violated"
    assert found.worst_y[0] == pytest.approx(0.123)
    assert found.margin > 50
