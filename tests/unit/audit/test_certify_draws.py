"""What is drawn, next to the stated density: leaks are seen, sound samplers are not accused."""

import math

import numpy as np
import pytest
import scipy

from privest import PrivacyLevel, noise
from privest.audit import certify, fisher_information
from privest.audit._draws import (
    EACH,
    chance_distance,
    drawn_as_stated,
    not_by_chance,
    vectors_drawn_as_stated,
)
from privest.audit._terms import Found, Span
from privest.mechanism import CATALOGUE, Additive, Channel, Componentwise, Mechanism
from privest.mechanism._gaussian import GaussianMechanism
from privest.noise import Quadrature


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
    "twice the input in 1e-3 of the draws": rarely(1e-3, lambda u, z: 2 * u),
    "hardly any noise in 1e-3 of the draws": rarely(1e-3, lambda u, z: u + 1e-8 * (z - u)),
    "the input itself beyond 10": lambda u, z, rng: np.where(np.abs(u) > 10, u, z),
    "the input itself between 37 and 37.1": lambda u, z, rng: np.where((u > 37) & (u < 37.1), u, z),
    "hardly any noise between 20 and 21": lambda u, z, rng: np.where(
        (u > 20) & (u < 21), u + (z - u) / 10, z
    ),
    "half the noise between 36 and 60": lambda u, z, rng: np.where(
        (u > 36) & (u < 60), (u + z) / 2, z
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_sampler_that_is_not_its_density_never_holds(how):
    samples = 200_000 if "1e-4" in how or "21" in how else 20_000
    found = certify(Drawing(BROKEN[how]), 1.0, samples=samples, rng=np.random.default_rng(1))
    assert found.verdict != "holds", str(found)
    assert found.sampler == "contradicts"
    if "input itself" in how or "half" in how or "1e-4" in how:
        assert found.verdict == "violated", str(found)


def test_a_leak_is_infinite_and_half_the_noise_is_four_times_the_information():
    leak = certify(Drawing(BROKEN["the input in 1e-4 of the draws"]), 1e9)
    assert leak.margin == math.inf
    assert "returns the input itself" in str(leak)
    half = Drawing(BROKEN["half the noise"])
    found = certify(half, 1.0, samples=20_000, rng=np.random.default_rng(2))
    # From samples, with the allowance of splines: 32 %.
    assert found.margin == pytest.approx(4, rel=0.32)


def test_a_sound_sampler_is_said_to_agree_and_with_which_power():
    found = certify(Drawing(lambda u, z, rng: z), 1.0)
    assert found.verdict == "holds"
    assert found.sampler == "agrees"
    assert "would have been seen with probability 0.99" in str(found)
    assert "200000 draws at each of 3 inputs" in str(found)
    assert "at all inputs of a stretch" in str(found)
    assert found.to_dict()["sampler"] == "agrees"


def test_a_density_without_a_sampler_says_so():
    channel = Channel.from_functions(log_density=Drawing(None).log_density, worst=1.0)
    found = certify(channel, 1.0)
    assert found.sampler == "not examined"
    assert "no sampler of its own" in str(found)


def test_the_stated_leak_is_seen_with_the_stated_probability():
    # 2e4 draws: stated 6.6/2e4. Exactly at that rate at most 1 % of 200 are missed, 9 with
    # probability 1e-3 (binomial).
    n, missed = 20_000, 0
    rate = float(scipy.special.gammaincinv(2, 0.99)) / n
    channel = Drawing(rarely(rate, lambda u, z: u))
    seen = Found(Quadrature(1.0, 0.0), 3.0, False, 1, span=Span(-64.0, 64.0))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        missed += drawn_as_stated(channel, seen, np.zeros(0), n, rng).wrong_at is None
    # Two looks (at one input, and over the range) each miss 1 % at most.
    assert missed <= scipy.stats.binom.isf(1e-6, 40, 0.01)


def test_chance_is_what_it_is_called():
    for expected in (1e-9, 0.08, 3.0, 1e4):
        count = not_by_chance(expected)
        assert scipy.stats.poisson.sf(count, expected) <= EACH
        assert count == 0 or scipy.stats.poisson.sf(count - 1, expected) > EACH
    # Kolmogorov's limit law has 2 exp(−2nd²) as its tail.
    assert scipy.special.kolmogorov(chance_distance(10**6) * 1e3) == pytest.approx(EACH, rel=1e-6)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_no_mechanism_of_the_catalogue_is_accused(name):
    mechanism = CATALOGUE[name].example(2)
    rng = np.random.default_rng(3)
    if isinstance(mechanism, Componentwise):
        channel = mechanism.channels[0]
        inputs, shift = np.array([-7.3, 0.21, 4.0]), isinstance(channel, Additive)
        seen = Found(Quadrature(1.0, 0.0), 1.3, shift, 1, span=Span(-9.0, 9.0))
        found = drawn_as_stated(channel, seen, inputs, 20_000, rng)
    else:
        found = vectors_drawn_as_stated(mechanism, np.array([[0.3, -2.0]]), 20_000, rng)
    assert found.wrong_at is None, found.said
    assert found.examined == (name != "rotation")


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
    assert found.verdict != "holds"


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
    assert found.verdict != "holds", str(found)
    assert found.sampler == "contradicts"
    mechanism.part = 1.0
    assert certify(mechanism, level, samples=20_000).sampler == "agrees"


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


def test_a_false_score_of_a_channel_is_told_even_where_the_level_is_kept():
    law = noise.Laplace(0.1)
    channel = Channel.from_functions(
        log_density=lambda z, u: law.logpdf(z - u),
        score=lambda z, u: 0.0 * (z + u),
        sample=lambda u, rng: u + law.sample(u.shape, rng),
        worst=100.0,
    )
    found = certify(channel, 200.0)
    assert found.verdict == "undecided"
    assert "score is not the derivative" in str(found)
    assert found.margin == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("y", [[0.3, -2.0], [1e-3, 0.0], [30.0, 4.0]])
def test_scores_of_the_catalogue_are_derivatives(y):
    rng = np.random.default_rng(2)
    found = fisher_information(CATALOGUE["geometric"].example(2), y, samples=100, rng=rng)
    assert "score is not the derivative" not in str(found)
