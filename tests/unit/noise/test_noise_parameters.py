"""What a law refuses, and how it says so; what it is otherwise."""

import dataclasses
import math

import numpy as np
import pytest

from privest.errors import InvalidInput, PrivestError
from privest.noise import (
    Bump,
    Cauchy,
    CosSquared,
    Distribution,
    Gaussian,
    GaussianMixture,
    Laplace,
    Logistic,
    Staircase,
    StudentT,
    Uniform,
)

POSITIVE = [
    (Laplace, "scale"),
    (Cauchy, "scale"),
    (lambda **k: StudentT(**{"df": 3.0} | k), "df"),
    (lambda **k: StudentT(**{"df": 3.0} | k), "scale"),
    (Logistic, "scale"),
    (CosSquared, "half_width"),
    (Uniform, "half_width"),
    (lambda **k: Staircase(**{"epsilon": 1.0} | k), "epsilon"),
    (lambda **k: Staircase(**{"epsilon": 1.0} | k), "sensitivity"),
    (lambda **k: Staircase(**{"epsilon": 1.0} | k), "gamma"),
]


@pytest.mark.parametrize(("make", "name"), POSITIVE)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "wide", [1.0, 2.0], 1j])
def test_a_positive_number_is_wanted(make, name, value):
    with pytest.raises(InvalidInput, match=name):
        make(**{name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, "left", [0.0]])
def test_a_finite_location_is_wanted(value):
    with pytest.raises(InvalidInput, match="mean must"):
        Gaussian(1.0, mean=value)


@pytest.mark.parametrize("p", [1.999, 0, -3, math.nan, "big"])
def test_bump_exponent(p):
    with pytest.raises(InvalidInput, match="p must"):
        Bump(p)


def test_staircase_epsilon_beyond_floating_point():
    with pytest.raises(InvalidInput, match="epsilon must be at most 1400; received 1500"):
        Staircase(1500.0)


def test_staircase_gamma_above_one():
    with pytest.raises(InvalidInput, match=r"gamma must be in \(0, 1\]; received 1.1"):
        Staircase(1.0, gamma=1.1)


@pytest.mark.parametrize(
    ("weights", "means", "sds", "message"),
    [
        ((0.5, 0.6), (0, 1), (1, 1), "sum to 1.1"),
        ((0.5, 0.5), (0, 1, 2), (1, 1), "one entry for each component; received 2, 3 and 2"),
        ((), (), (), "received 0, 0 and 0"),
        ((1.5, -0.5), (0, 1), (1, 1), "weights must be > 0"),
        ((1.0, 0.0), (0, 1), (1, 1), "weights must be > 0"),
        ((0.5, 0.5), (0, 1), (1, 0), "sds must be > 0"),
        ((0.5, 0.5), (0, math.nan), (1, 1), "means must be finite"),
        (0.5, (0, 1), (1, 1), "weights must be 1-dimensional"),
        (("a", "b"), (0, 1), (1, 1), "weights must hold real numbers"),
    ],
)
def test_mixture(weights, means, sds, message):
    with pytest.raises(InvalidInput, match=message):
        GaussianMixture(weights, means, sds)


@pytest.mark.parametrize("value", [0, 0.0, math.nan, "twice", math.inf])
def test_scale_factors(value):
    for act in (
        lambda: Laplace().scaled(value),
        lambda: value * SKEW,
    ):
        with pytest.raises((InvalidInput, TypeError)):
            act()
    with pytest.raises(InvalidInput, match="scale factor"):
        Laplace().scaled(value)


SKEW = GaussianMixture((0.5, 0.5), (0, 1), (1, 2))


def test_shift_must_be_a_number():
    with pytest.raises(InvalidInput, match="The shift must"):
        Laplace() + "one"
    with pytest.raises(InvalidInput, match="The shift must"):
        Laplace() + Laplace()
    with pytest.raises(InvalidInput, match="The shift must"):
        Gaussian() + math.nan


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, "one"])
def test_wanted_variance_and_information(value):
    with pytest.raises(InvalidInput, match="information must"):
        Laplace().with_fisher_information(value)


def test_errors_are_value_errors_of_the_package():
    with pytest.raises(PrivestError) as caught:
        Laplace(-2.0)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == "scale must be > 0; received -2."


def test_laws_are_values():
    assert Laplace(2) == Laplace(2.0)
    assert Laplace(2) != Laplace(3)
    assert hash(StudentT(3)) == hash(StudentT(3.0))
    assert repr(StudentT(3)) == "StudentT(df=3.0, scale=1.0)"
    assert GaussianMixture([1.0], np.array([0]), (2,)) == GaussianMixture((1.0,), (0.0,), (2.0,))
    law = Bump(2)
    _ = law.variance, law.cdf(0.1)  # what was computed is no part of the value
    assert law == Bump(2.0)
    assert hash(law) == hash(Bump(2.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        law.p = 3.0


def test_the_base_cannot_be_made():
    with pytest.raises(TypeError, match="logpdf"):
        Distribution()


def test_sampling_shapes():
    rng = np.random.default_rng(1)
    for law in (Laplace(), Bump(), 2 + Bump(), SKEW, Staircase(1.0), CosSquared()):
        assert law.sample(4, rng).shape == (4,)
        assert law.sample((2, 3), rng).shape == (2, 3)
        assert law.sample((), rng).shape == ()
        assert law.sample(0, rng).shape == (0,)
