"""van Trees' bound: 1/(E I + 1/v) with E I over the prior; 0 where the information has no bound."""

import math

import numpy as np
import pytest
import scipy

from privest import audit, noise
from privest.mechanism import CATALOGUE, Componentwise, Inverse, ProbabilisticQuantiser
from toy_channels import Shift, Toy, TriangularDither, UniformDither

ENDLESS = {
    "gain-gaussian", "gain-uniform", "inverse-gaussian", "inverse-laplace", "staircase",
    "probabilistic-quantiser", "twin-uniform", "uniform",
}  # fmt: skip
CHANNELS = {
    name: CATALOGUE[name].example(1).channels[0]
    for name in CATALOGUE
    if name not in ("rotation", "geometric", "gaussian")
}


def attack(channel, mean=0.3, variance=1.44):
    return audit.attack(
        channel, mean, rng=np.random.default_rng(1), prior=(mean, variance), trials=2
    )[0]  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(CHANNELS) - ENDLESS))
def test_finite_averages(name):
    channel = CHANNELS[name]
    # Kinks, jumps and the peaks of the inverses all lie at multiples of ½.
    expected = sum(
        scipy.integrate.quad(
            lambda u: float(channel.information(u)) * math.exp(-(((u - 0.3) / 1.2) ** 2) / 2),
            a, a + 0.5, epsabs=1e-9, limit=200,
        )[0]
        for a in np.arange(-7, 8, 0.5)
    ) / (1.2 * math.sqrt(2 * math.pi))  # fmt: skip
    found = attack(channel).van_trees
    # Rounded up by its error; the prior beyond ±7 has 1e-8 of its mass.
    assert found <= 1 / (expected + 1 / 1.44) * (1 + 1e-6)
    assert found == pytest.approx(1 / (expected + 1 / 1.44), rel=1e-3)


@pytest.mark.parametrize(
    "channel",
    [
        *(CHANNELS[name] for name in sorted(ENDLESS)),
        ProbabilisticQuantiser(30.0),  # no pole within ten deviations
        Inverse(noise.Gaussian(0.25)),
        UniformDither(),  # by numbers: neither a formula nor a word about its worst input
        Shift(noise.Uniform()),
    ],
    ids=repr,
)
def test_without_a_bound_on_the_information_there_is_none(channel):
    found = attack(channel, mean=0.4)
    assert found.van_trees == 0
    assert "has no bound" in str(found)


class Quick(Toy):
    """I(u) of period 1e-4, between 4 and 6, by a formula: no quadrature settles."""

    def sample(self, u, rng):
        return u + rng.standard_normal(np.shape(u))

    def log_density(self, z, u):
        return -((np.asarray(z) - u) ** 2) / 2

    def information(self, u):
        return 5 + np.sin(2e4 * math.pi * np.asarray(u))

    @property
    def worst(self):
        return 6.0


def test_an_average_that_does_not_settle_is_at_most_the_supremum():
    assert 1 / (6 + 1) - 1e-12 <= attack(Quick(), 0.0, 1.0).van_trees <= 1 / (5 + 1) * 1.01


def test_without_a_formula_the_supremum_stands_in():
    assert attack(TriangularDither(claim=6.0), 0.3, 1.0).van_trees == pytest.approx(1 / 7)
    assert attack(Shift(noise.Laplace(0.5)), 0.3, 1.0).van_trees == pytest.approx(1 / 5, rel=1e-6)


def test_every_channel_of_the_catalogue_is_here():
    assert {n for n in CATALOGUE if isinstance(CATALOGUE[n].example(2), Componentwise)} == set(
        CHANNELS
    )
