"""The average of the information over a prior: right where finite, infinite where it must be."""

import math

import numpy as np
import pytest
import scipy

from privest import noise
from privest.audit import adversary
from privest.audit._averaged import averaged_information
from privest.mechanism import (
    CATALOGUE,
    Componentwise,
    Inverse,
    ProbabilisticQuantiser,
    TriangularQuantiser,
)
from privest.mechanism._channel import Worst
from toy_channels import Shift, Sign, Toy, TriangularDither, UniformDither

ENDLESS = {
    "gain-gaussian", "gain-uniform", "inverse-gaussian", "inverse-laplace", "staircase",
    "probabilistic-quantiser", "twin-uniform", "uniform",
}  # fmt: skip
CHANNELS = {
    name: CATALOGUE[name].example(1).channels[0]
    for name in CATALOGUE
    if name not in ("rotation", "geometric", "gaussian")
}


class Pole(Toy):
    """I(u) = |u − 0.7|^-α: integrable for α < 1 only."""

    def __init__(self, power):
        self.power = power

    def log_density(self, z, u):
        raise AssertionError("it has a formula")

    def information(self, u):
        with np.errstate(divide="ignore"):
            return np.abs(np.asarray(u) - 0.7) ** -self.power


@pytest.mark.parametrize("name", sorted(set(CHANNELS) - ENDLESS))
def test_finite_averages(name):
    channel = CHANNELS[name]
    found = averaged_information(channel, 0.3, 1.2)
    assert found.reason is None
    # Kinks, jumps and the peaks of the inverses all lie at multiples of ½.
    expected = sum(
        scipy.integrate.quad(
            lambda u: float(channel.information(u)) * scipy.stats.norm.pdf(u, 0.3, 1.2),
            a, a + 0.5, epsabs=1e-9, limit=200,
        )[0]
        for a in np.arange(-7, 8, 0.5)
    )  # fmt: skip
    # The prior beyond ±7 has 1e-8 of its mass.
    assert found.information == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_infinite_averages_of_the_catalogue(name):
    found = averaged_information(CHANNELS[name], 0.3, 1.2)
    assert found.information == math.inf
    assert "infinite" in found.reason


@pytest.mark.parametrize(
    ("channel", "mean"),
    [
        (ProbabilisticQuantiser(1e-5), 0.3),
        (ProbabilisticQuantiser(30.0), 14.0),  # no pole within ten deviations
        (Inverse(noise.GaussianLaw(0.25)), 100.0),
        (UniformDither(), 0.3),  # by numbers: neither a formula nor a word about its worst input
        (UniformDither(0.4), 0.3),
        (Shift(noise.Uniform()), 0.0),
    ],
)
def test_infinite_averages_elsewhere(channel, mean):
    assert averaged_information(channel, mean, 1.0).information == math.inf


@pytest.mark.parametrize(("power", "endless"), [(0.5, False), (0.9, False), (1.0, True), (2, True)])
def test_a_pole_that_nobody_named(power, endless):
    found = averaged_information(Pole(power), 0.0, 1.0)
    assert math.isinf(found.information) == endless
    if not endless:
        # Both sides of the pole by the weight |x|^-α, which scipy integrates exactly.
        expected = sum(
            scipy.integrate.quad(
                lambda x, side=side: math.exp(-((0.7 + side * x) ** 2) / 2), 0, 12,
                weight="alg", wvar=(-power, 0),
            )[0]
            for side in (-1, 1)
        ) / math.sqrt(2 * math.pi)  # fmt: skip
        # A pole of power α keeps ε^(1−α) of its mass within ε of it: 0.03 within 1e-15 at 0.9.
        assert found.information == pytest.approx(expected, rel=0.05 if power > 0.5 else 1e-6)


def test_a_quantiser_far_finer_than_the_prior():
    # Many periods: the average over one, E (4 + 4s²/(3/4 − s²)) = −4·... by quadrature.
    found = averaged_information(TriangularQuantiser(1e-4), 0.3, 1.0).information
    one = scipy.integrate.quad(lambda s: 4 + 4 * s**2 / (0.75 - s**2), -0.5, 0.5)[0]
    assert found == pytest.approx(1e8 * one, rel=1e-3)


def test_numbers_without_a_formula_are_rounded_up():
    one = scipy.integrate.quad(lambda s: 4 + 4 * s**2 / (0.75 - s**2), -0.5, 0.5)[0]
    found = averaged_information(TriangularDither(), 0.3, 3.0).information
    assert 0.99 * one < found < 1.3 * one
    assert averaged_information(Shift(noise.Laplace(0.5)), 0.3, 1.0).information == pytest.approx(4)
    u = np.linspace(-12, 12, 4001)
    p = scipy.special.ndtr(u)
    information = np.exp(-(u**2)) / (2 * math.pi) / (p * scipy.special.ndtr(-u))
    expected = scipy.integrate.trapezoid(information * np.exp(-(u**2) / 2), u) / np.sqrt(2 * np.pi)
    found = averaged_information(Sign(), 0.0, 1.0).information
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", ["probabilistic-quantiser", "inverse-gaussian"])
def test_the_report_says_why_the_bound_is_nothing(name):
    attack = adversary(
        CATALOGUE[name].example(1), [0.4], rng=np.random.default_rng(1), prior=(0.0, 1.0),
        trials=200,
    )[0]  # fmt: skip
    assert attack.van_trees == 0
    assert "pole at input 0" in str(attack)


def test_a_worst_input_is_where_a_pole_is_looked_for_first():
    class Told(Pole):
        @property
        def worst(self):
            return Worst(math.inf, 0.7)

    assert "0.7" in averaged_information(Told(1.0), 40.0, 1e-3).reason


def test_every_channel_of_the_catalogue_is_here():
    assert {n for n in CATALOGUE if isinstance(CATALOGUE[n].example(2), Componentwise)} == set(
        CHANNELS
    )
