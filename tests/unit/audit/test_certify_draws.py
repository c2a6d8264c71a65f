"""What is drawn, next to the stated density: leaks are seen, sound samplers are not accused."""

import math

import numpy as np
import pytest

from privest import PrivacyLevel
from privest.audit import certify, fisher_information
from privest.mechanism import CATALOGUE, Channel, Mechanism
from privest.mechanism._gaussian import GaussianMechanism


class Drawing(Channel):
    """Says that z = u + N(0, 1); draws what it is told to."""

    def __init__(self, draw):
        self.draw = draw

    def sample(self, u, rng):
        u = np.asarray(u, dtype=float)
        return self.draw(u, u + rng.standard_normal(u.shape), rng)

    def log_density(self, z, u):
        return -((np.asarray(z) - np.asarray(u)) ** 2) / 2 - math.log(2 * math.pi) / 2

    @property
    def worst(self):
        return 1.0


def rarely(p, leak):
    return lambda u, z, rng: np.where(rng.random(u.shape) < p, leak(u, z), z)


BROKEN = {
    "the input itself": lambda u, z, rng: u,
    "half the noise": lambda u, z, rng: (u + z) / 2,
    "the input in 1e-4 of the draws": rarely(1e-4, lambda u, z: u),
    "the input itself beyond 10": lambda u, z, rng: np.where(np.abs(u) > 10, u, z),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_sampler_that_is_not_its_density_never_holds(how):
    samples = 200_000 if "1e-4" in how else 20_000
    found = certify(Drawing(BROKEN[how]), 1.0, samples=samples, rng=np.random.default_rng(1))
    assert not found.verdict.startswith("holds"), str(found)
    assert found.sampler == "contradicts"
    assert found.verdict == "violated", str(found)


def test_a_leak_is_infinite_and_half_the_noise_is_four_times_the_information():
    leak = certify(Drawing(BROKEN["the input in 1e-4 of the draws"]), 1e9)
    assert leak.margin == math.inf
    assert "returns a measurement itself" in str(leak)
    half = Drawing(BROKEN["half the noise"])
    found = certify(half, 1.0, samples=20_000, rng=np.random.default_rng(2))
    # From samples, with the allowance of splines: 32 %.
    assert found.margin == pytest.approx(4, rel=0.32)


def test_a_sound_sampler_is_not_broken_which_proves_nothing():
    found = certify(Drawing(lambda u, z, rng: z), 1.0)
    assert found.verdict == "holds on the examined domain"
    assert found.sampler == found.to_dict()["sampler"] == "not broken"
    assert "not broken, which proves nothing: 200000 draws at each of 4" in str(found)
    assert "confidence 0.999 together" in str(found)


def test_a_density_without_a_sampler_says_so():
    channel = Channel.from_functions(log_density=Drawing(None).log_density, worst=1.0)
    found = certify(channel, 1.0)
    assert found.sampler == "not examined"
    assert "Sampler not examined" in str(found)


def test_sound_samplers_are_accused_as_rarely_as_the_confidence_says():
    """At 0.9: more than 14 of 40 with probability 1e-5 (binomial)."""
    honest = Drawing(lambda u, z, rng: z)
    found = [certify(honest, 1.0, samples=2000, rng=k, confidence=0.9) for k in range(40)]
    assert sum(one.sampler == "contradicts" for one in found) <= 14


def test_frequencies_of_outcomes():
    class Coin(Channel):
        """1 with probability w(u); drawn with another."""

        discrete = True

        def sample(self, u, rng):
            u = np.asarray(u)
            return np.where(rng.random(u.shape) < 1 / (1 + np.exp(-2 * u)), 1.0, 0.0)

        def log_density(self, z, u):
            return -np.logaddexp(0, np.where(np.asarray(z) == 1, -1, 1) * np.asarray(u))

        def outcomes(self, u):
            return np.array([0.0, 1.0])

        @property
        def worst(self):
            return 0.25

    found = certify(Coin(), 0.25, domain=(-3, 3))
    assert found.sampler == "contradicts"
    assert not found.verdict.startswith("holds")


# --- mechanisms that mix readings -----------------------------------------------------------------


class Scaled(GaussianMechanism):
    """Draws with a part of its noise."""

    def simulate(self, y, rng, trials=None):
        drawn, mean = super().simulate(y, rng, trials), self._shown(y)
        return mean + self.part * (drawn - mean)


@pytest.mark.parametrize("part", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("level", [PrivacyLevel(0.7), PrivacyLevel([[4.0, 2.0], [2.0, 1.0]])])
def test_gaussian_noise_that_is_not_drawn(level, part):
    mechanism = Scaled(level, 2)
    mechanism.part = part
    found = certify(mechanism, level, samples=20_000)
    assert not found.verdict.startswith("holds"), str(found)
    assert found.sampler == "contradicts"
    mechanism.part = 1.0
    assert certify(mechanism, level, samples=20_000).sampler == "not broken"


def test_a_reading_that_comes_out_now_and_then():
    class Leaky(GaussianMechanism):
        def simulate(self, y, rng, trials=None):
            z = super().simulate(y, rng, trials)
            return np.where(rng.random((*z.shape[:-1], 1)) < 1e-4, np.asarray(y), z)

    found = certify(Leaky(1.0, 2), 1.0)
    assert found.margin == math.inf
    assert found.verdict == "violated"


class Scoreless(Mechanism):
    """Noise of a tenth, information 100; says 0 with its score and 1 with its supremum."""

    measurements = outputs = 2
    parameters = None

    def simulate(self, y, rng, trials=None):
        return self._given(y) + 0.1 * rng.standard_normal((trials, 2))

    def log_density(self, z, y):
        return -50 * ((np.asarray(z) - np.asarray(y)) ** 2).sum(axis=-1)

    def score(self, z, y):
        return np.zeros(np.shape(z))

    def information(self, y):
        return np.zeros((2, 2))

    def worst_information(self):
        return np.eye(2)


def test_a_score_is_compared_with_the_density():
    rng = np.random.default_rng(1)
    found = certify(Scoreless(), 1.0, samples=4000, rng=rng, search=[[0.0, 0.0], [3.0, 1.0]])
    assert found.verdict == "violated"
    assert found.margin == pytest.approx(
        100, rel=0.2
    )  # the larger of two means of 1000 squares: ± 4.5 %
    assert "score is not the derivative" in str(found)
    lenient = certify(Scoreless(), 1000.0, samples=4000, rng=rng, search=[[0.0, 0.0]])
    assert lenient.verdict == "undecided"
    assert "score is not the derivative" in str(lenient)
    there = fisher_information(Scoreless(), [0.3, 1.0], samples=4000, rng=rng)
    assert (np.abs(there.matrix - 100 * np.eye(2)) <= 2 * there.error).all()
    assert "score is not the derivative" in str(there)


def test_without_a_density_a_score_is_its_own_word():
    class Silent(Scoreless):
        def log_density(self, z, y):
            raise NotImplementedError

    found = certify(Silent(), 1.0, samples=4000, rng=np.random.default_rng(1))
    assert found.verdict == "undecided"
    assert found.sampler == "not examined"


@pytest.mark.parametrize("y", [[0.3, -2.0], [1e-3, 0.0], [30.0, 4.0]])
def test_scores_of_the_catalogue_are_derivatives(y):
    rng = np.random.default_rng(2)
    found = fisher_information(CATALOGUE["geometric"].example(2), y, samples=100, rng=rng)
    assert "score is not the derivative" not in str(found)
