"""Means and totals in the reader's units: expectations by quadrature."""

import math

import numpy as np
import pytest
import scipy.special

from privest.errors import InvalidInput
from privest.estimator.inference._original_scale import (
    as_percent,
    likelihood_mean,
    total_of,
)
from privest.lattice import GRID


def normal_nodes(mean, variance, count=60):
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return mean + math.sqrt(variance) * nodes, weights / weights.sum()


def test_the_mean_of_a_logarithm_is_unbiased_to_second_order():
    """η̂, σ̂² normal, covariance diag(c, d): E e^{η̂ + σ̂²/2 − (c + d/4)/2} is the mean."""
    found = likelihood_mean(0.3, 0.5, np.diag([0.02, 0.04]), freedom=50.0)
    middle, spread = 0.3 + 0.25, 0.02 + 0.01
    assert found.mean == pytest.approx(math.exp(middle - spread / 2))
    half = scipy.special.stdtrit(50, 0.975) * math.sqrt(spread)
    np.testing.assert_allclose(found.interval, np.exp([middle - half, middle + half]))
    assert found.median == pytest.approx(math.exp(0.3))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("logarithm", [True, False])
def test_totals_and_their_variances_are_unbiased_given_the_readings(law, logarithm):
    """E of total and of variance over the noise of one reading, by quadrature."""
    y, added = 1.7, 0.3
    nodes, weights = noise_nodes(law, added)
    found = [total_of([np.array([y + e])], added, logarithm=logarithm, law=law) for e in nodes]
    truth = math.exp(y) if logarithm else y
    totals = np.array([one.total for one in found])
    assert weights @ totals == pytest.approx(truth, rel=1e-8)
    variance = weights @ (totals - truth) ** 2
    squares = np.array([one.standard_error for one in found]) ** 2
    assert weights @ squares == pytest.approx(variance, rel=1e-7)
    if law == "gaussian" and logarithm:
        assert variance == pytest.approx(truth**2 * math.expm1(added), rel=1e-8)


def noise_nodes(law, added):
    if law == "gaussian":
        return normal_nodes(0.0, added, 80)
    nodes, weights = np.polynomial.laguerre.laggauss(120)
    scale = math.sqrt(added / 2)
    both = np.concatenate([-scale * nodes, scale * nodes])
    return both, np.concatenate([weights, weights]) / 2


@pytest.mark.parametrize("level", [0.05, 1.0, 9.0])
def test_on_the_grid_of_a_real_release_the_total_is_low_by_less_than_it_says(level):
    """Every law of the rounding (fractions f) and the whole discrete Gaussian, summed."""
    c, sigma2 = GRID / math.sqrt(level), GRID**-2 + 0.5
    k = np.arange(-40_000, 40_001)
    p = np.exp(-(k**2) / (2 * sigma2))
    factor = float(p @ np.exp(c * k) / p.sum())
    added = (1 + 0.75 * GRID**2) / level
    for f in (0.0, 0.1, 0.5, 0.9):
        rounded = (1 - f) * math.exp(-c * f) + f * math.exp(c * (1 - f))
        off = math.log(factor * rounded) - added / 2
        assert -(GRID**2) / (8 * level) * (1 + 1e-6) - 1e-14 < off < 1e-14 + 1e-6 * c**2
    assert off < 0


def test_totals_that_do_not_exist_are_refused():
    with pytest.raises(InvalidInput, match="no finite mean"):
        total_of([np.zeros(3)], 2.5, law="laplace")
    with pytest.raises(InvalidInput, match="no finite variance"):
        total_of([np.zeros(3)], 0.6, law="laplace")
    with pytest.raises(InvalidInput, match="'coin'"):
        total_of([np.zeros(3)], 0.5, law="coin")
    with pytest.raises(InvalidInput, match="not negative"):
        total_of([np.zeros(3)], -0.5)


def test_a_total_says_when_its_interval_is_too_short():
    rng = np.random.default_rng(7)
    y = rng.standard_normal(400) / 2
    for level, trusted in ((4.0, True), (0.25, False)):
        z = y + rng.standard_normal(400) / math.sqrt(level)
        found = total_of([z[:150], z[150:]], 1 / level)
        assert found.trusted is trusted
        assert found.rows == 400
        assert found.to_dict()["trusted"] is trusted


def test_words_for_coefficients_and_readings():
    np.testing.assert_allclose(as_percent([0.1, -0.1]), [10.517091807564771, -9.516258196404048])
