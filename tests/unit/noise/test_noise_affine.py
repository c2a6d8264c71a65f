"""Shift and scale: exact rules, any order, one wrapper."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privest.noise import (
    Bump,
    Cauchy,
    CosSquared,
    Gaussian,
    GaussianMixture,
    Laplace,
    Logistic,
    Staircase,
    StudentT,
    Uniform,
    from_logpdf,
)
from privest.noise.distribution import Affine

LAWS = [
    Gaussian(2.0, 0.5),
    Laplace(0.7),
    Cauchy(1.5),
    StudentT(4.5),
    Logistic(2.0),
    GaussianMixture((0.3, 0.7), (-1.0, 2.0), (0.5, 1.0)),
    CosSquared(1.5),
    Bump(3.0),
    Uniform(2.0),
    Staircase(1.2),
    from_logpdf(lambda x: -x - np.exp(-x)),
]

shifts = st.floats(-1e3, 1e3)
scales = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3)
points = st.floats(-3, 3)


def close(a, b, scale=1.0):
    return (a == b) or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-10 * (abs(b) + scale)


@settings(deadline=None)  # the first use of a numerical law computes it
@given(law=st.sampled_from(LAWS), shift=shifts, scale=scales, t=points)
def test_affine_rules(law, shift, scale, t):
    moved = Affine(law, shift, scale)
    x = shift + scale * t
    # x is rounded to |x|·2⁻⁵³, so t comes back with that error over |scale|: step back to it.
    t = (x - shift) / scale
    assert moved.pdf(x) * abs(scale) == pytest.approx(float(law.pdf(t)), rel=1e-13, abs=0)
    assert moved.score(x) * scale == pytest.approx(float(law.score(t)), rel=1e-13, nan_ok=True)
    assert moved.curvature(x) * scale**2 == pytest.approx(
        float(law.curvature(t)), rel=1e-13, nan_ok=True
    )
    expected = law.cdf(t) if scale > 0 else 1 - law.cdf(t)
    assert moved.cdf(x) == pytest.approx(float(expected), rel=1e-13)
    assert close(moved.mean, shift + scale * law.mean)
    assert close(moved.variance, scale**2 * law.variance, 0)
    assert close(moved.fisher_information, law.fisher_information / scale**2, 0)
    assert close(moved.expected_squared_curvature, law.expected_squared_curvature / scale**4, 0)
    assert moved.support[0] < moved.support[1]
    assert len(moved.jumps) == len(law.jumps)
    estimate = moved.fisher_information_estimate
    assert close(estimate.error, law.fisher_information_estimate.error / scale**2, 0)


@settings(deadline=None)  # the first use of a numerical law computes it
@given(law=st.sampled_from(LAWS), a=shifts, b=scales, c=shifts, d=scales, t=points)
def test_operators_compose(law, a, b, c, d, t):
    """d·(c + b·(law + a)) however it is written, is one wrapper at most."""
    steps = (law.shifted(a).scaled(b).shifted(c)).scaled(d)
    wrapped = Affine(Affine(Affine(law, a, b), 0.0, 1.0), c, d)
    assert not isinstance(wrapped.law, Affine)
    assert not (isinstance(steps, Affine) and isinstance(steps.law, Affine))
    shift, scale = d * (c + b * a), d * b
    x = shift + scale * t
    # Sums of numbers up to 1e9 are rounded: compare densities where they are smooth enough.
    slack = 1e-9 * (1 + (abs(a) + abs(c / b)))
    here, expected = float(steps.cdf(x)), float(Affine(law, shift, scale).cdf(x))
    assert abs(here - expected) <= slack
    assert close(steps.variance, scale**2 * law.variance, 0)


@settings(deadline=None)  # the first use of a numerical law computes it
@given(law=st.sampled_from(LAWS), c=scales)
def test_there_and_back(law, c):
    back = (c * law) / c
    assert close(back.fisher_information, law.fisher_information, 0)
    mirrored = -law
    assert -mirrored == law
    assert (law + 2.0) - 2.0 == law


def test_numpy_numbers_are_left_to_the_law():
    assert np.float64(2) * Laplace(1) == Laplace(2)
    assert np.float64(2) + Gaussian() == Gaussian(1.0, 2.0)
    assert Laplace(1) * np.float64(2) == Laplace(2)
    assert 1 - Gaussian(1.0, 3.0) == Gaussian(1.0, -2.0)


def test_a_family_stays_a_family():
    assert -3 * Laplace(2) == Laplace(6)
    assert Cauchy(2) / 4 == Cauchy(0.5)
    assert 2 * StudentT(3, 2) == StudentT(3, 4)
    assert 2 * Logistic() == Logistic(2)
    assert 2 * CosSquared() == CosSquared(2)
    assert -2 * Uniform() == Uniform(2)
    assert 2 * Staircase(1.0) == Staircase(1.0, 2.0)
    assert 2 * (3 + Laplace()) == Affine(Laplace(2), 6.0, 1.0)
    assert 2 * Bump() == Affine(Bump(), 0.0, 2.0)
    assert Gaussian(1.0, 1.0) * -2 + 1 == Gaussian(4.0, -1.0)


def test_wanted_spread_keeps_the_origin():
    law = (5 + Laplace()).with_fisher_information(0.25)
    assert law == Affine(Laplace(2.0), 5.0, 1.0)
    assert Gaussian(4.0, 3.0).with_fisher_information(1.0) == Gaussian(1.0, 3.0)
    bump = (1 + 2 * Bump()).with_fisher_information(1.0)
    assert bump.mean == 1.0
    assert math.isclose(bump.fisher_information, 1.0)


def test_mirrored_points():
    half_line = from_logpdf(lambda x: 2 * np.log(x) - x - math.log(2), support=(0, math.inf))
    assert (1 - half_line).support == (-math.inf, 1.0)
    assert (5 - 2 * Uniform(1.0)).jumps == (3.0, 7.0)
