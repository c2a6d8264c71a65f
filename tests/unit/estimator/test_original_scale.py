"""Means in the reader's units, where a logarithm was modelled."""

import math

import numpy as np
import pytest
import scipy.special

from privest.estimator.inference import as_percent, likelihood_mean


def test_the_mean_of_a_logarithm_is_unbiased_to_second_order():
    """η̂, σ̂² normal, covariance diag(c, d): E e^{η̂ + σ̂²/2 − (c + d/4)/2} is the mean."""
    found = likelihood_mean(0.3, 0.5, np.diag([0.02, 0.04]), freedom=50.0)
    middle, spread = 0.3 + 0.25, 0.02 + 0.01
    assert found.mean == pytest.approx(math.exp(middle - spread / 2))
    half = scipy.special.stdtrit(50, 0.975) * math.sqrt(spread)
    np.testing.assert_allclose(found.interval, np.exp([middle - half, middle + half]))
    assert found.median == pytest.approx(math.exp(0.3))


def test_percentages_of_coefficients():
    np.testing.assert_allclose(as_percent([0.1, -0.1]), [10.517091807564771, -9.516258196404048])
