"""Jumps of a density: found by both routes, and not seen where there are none.

Quadrature of f'²/f on a density that jumps returns a finite number; the information is infinite.
"""

import math

import numpy as np
import pytest
from scipy import integrate

from privest.noise import (
    Bump,
    CosSquared,
    GaussianMixture,
    Staircase,
    Uniform,
    from_logpdf,
)

INF = math.inf


JUMPING = [
    Uniform(),
    Uniform(30.0) + 100,
    Staircase(1.0),
    Staircase(0.1),
    Staircase(4.0, sensitivity=0.01),
    Staircase(0.5, gamma=1.0) - 3,
]


@pytest.mark.parametrize("law", JUMPING, ids=repr)
def test_a_jump_is_infinite_information_by_both_routes(law):
    assert law.fisher_information == INF
    assert law.fisher_information_estimate.error == 0
    assert law.expected_squared_curvature == INF
    assert law.jumps
    # The same density, its support known and not known, its score claimed to be zero.
    for support in {law.support, (-INF, INF)}:
        for score in (None, lambda x: np.zeros(x.shape)):
            custom = from_logpdf(law.logpdf, support=support, score=score)
            assert custom.fisher_information == INF
            assert custom.expected_squared_curvature == INF
            largest = law.jumps[len(law.jumps) // 2]
            assert min(abs(j - largest) for j in custom.jumps) < 1e-6


def test_the_plain_integral_would_have_said_zero():
    law = Uniform()
    naive, _ = integrate.quad(lambda x: float(law.pdf(x)) * float(law.score(x)) ** 2, -1, 1)
    assert naive == 0
    assert law._numbers.fisher_information.value == INF


def power(exponent, shift=0.0):
    return lambda x: -(np.abs(x - shift) ** exponent)


SMOOTH = {
    "laplace": (lambda x: -np.abs(x - 0.3), {}),
    "laplace, kink declared": (lambda x: -np.abs(x - 0.3), {"breaks": (0.3,)}),
    "narrow mixture": (
        GaussianMixture((0.5, 0.5), (0.2, 1.0), (1e-3, 1.0)).logpdf,
        {"breaks": (0.2,)},
    ),
    "narrower mixture": (
        GaussianMixture((0.01, 0.99), (0.2, 0.0), (1e-6, 1.0)).logpdf,
        {"breaks": (0.2,)},
    ),
    "bump": (Bump(2.0).logpdf, {"support": (-1, 1)}),
    "bump, support not declared": (Bump(5.0).logpdf, {}),
    "cos²": (CosSquared().logpdf, {"support": (-1, 1)}),
    "cos², support not declared": (CosSquared().logpdf, {}),
    "cusp 0.6": (power(0.6), {}),
    "cusp 0.6, declared": (power(0.6, 0.1), {"breaks": (0.1,)}),
    "cusp 0.5": (power(0.5), {}),
    "cusp 0.5, declared": (power(0.5, -2.0), {"breaks": (-2.0,)}),
    "zero inside": (lambda x: 2 * np.log(np.abs(x)) - x**2 / 2, {}),
    "steep": (lambda x: -(x**2) / 2 + np.tanh((x - 0.4) / 1e-4), {"breaks": (0.4,)}),
    "steep, landmark not given": (lambda x: -(x**2) / 2 + np.tanh((x - 0.4) / 1e-2), {}),
    "hole": (
        lambda x: np.where(
            (np.abs(x) > 1) & (np.abs(x) < 2), 4 * np.log(np.abs(np.sin(np.pi * x))), -INF
        ),
        {},
    ),
}


@pytest.mark.parametrize(("logpdf", "options"), SMOOTH.values(), ids=SMOOTH)
def test_no_jump_is_seen_where_there_is_none(logpdf, options):
    law = from_logpdf(logpdf, normalise=True, **options)
    assert law.jumps == ()


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("place", [0.0, 1.234, -3.0])
def test_small_jumps_are_seen(size, place):
    law = from_logpdf(lambda x: -(x**2) / 2 + np.where(x > place, size, 0.0), normalise=True)
    assert law.fisher_information == INF
    assert min(abs(j - place) for j in law.jumps) < 1e-6


@pytest.mark.parametrize("cut", [1.0, 5.0, 8.0])
def test_a_density_cut_off_at_an_end_jumps_there(cut):
    law = from_logpdf(lambda x: -(x**2) / 2, support=(-cut, INF), normalise=True)
    assert law.jumps == (-cut,)
    assert law.fisher_information == INF


def test_divergence_without_a_jump():
    """Continuous densities whose information diverges at a point: both verdicts are needed."""
    triangle = from_logpdf(lambda x: np.log1p(-np.abs(x)), support=(-1, 1))
    assert triangle.jumps == ()
    assert triangle.fisher_information == INF  # ∫ 1/(1 − |x|)
    cusp = from_logpdf(power(0.5), normalise=True)
    assert cusp.fisher_information == INF  # ∫ 1/(4|x|)
    for p in (0.55, 0.6, 0.75):  # E p²|x|^(2p−2)
        law = from_logpdf(power(p), normalise=True)
        exact = p**2 * math.gamma((2 * p - 1) / p) / math.gamma(1 / p)
        found = law.fisher_information_estimate
        assert abs(found.value - exact) <= found.error < 1e-2 * exact
