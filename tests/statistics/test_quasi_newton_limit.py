"""The quasi-Newton estimate reaches the Cramér-Rao bound of its bits, on synthetic data.

T trials, errors near N(0, Σ): the mean of eᵀΣ⁻¹e/n has standard deviation √(2/(nT)); five of them
are allowed (false alarm 6e-7), and 10 n/k for what the recursion lacks at finite k: that it falls
like n/k is expected, the factor 10 is chosen, not derived.
"""

import numpy as np
import pytest

from privest.estimator.likelihood import BinaryLikelihood
from privest.noise import Gaussian, Laplace
from privest.paper._quasi_newton import QuasiNewton

THETA = np.array([0.4, -0.8, 0.5])
VARIANCE, THRESHOLD = 0.5, 0.3


def whitened(law, steps, trials, seed=5, assumed=VARIANCE):
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(steps), rng.uniform(-1, 1, (steps, 2))])
    y = H @ THETA + np.sqrt(VARIANCE) * rng.standard_normal((trials, steps))
    z = (y + law.sample((trials, steps), rng) <= THRESHOLD).astype(float)
    bits = BinaryLikelihood(assumed, law=law, threshold=THRESHOLD)
    method = QuasiNewton(bits, np.zeros(3), radius=3.0, spread=3.0)
    errors = method.follow(z, H)[:, -1] - THETA
    information = (H.T * method.information(H @ THETA)) @ H
    return float(np.einsum("ti,ij,tj->", errors, information, errors)) / (3 * trials)


@pytest.mark.parametrize("law", [Gaussian(cov=2 / np.pi), Laplace(1.0)])
def test_asymptotic_variance(law):
    steps, trials = 1500, 600
    ratio = whitened(law, steps, trials)
    assert abs(ratio - 1.0) < 5 * np.sqrt(2 / (3 * trials)) + 10 * 3 / steps


def test_the_test_can_fail():
    """With a wrong noise variance the estimate is biased, and the error is seen to be too large."""
    ratio = whitened(Gaussian(cov=2 / np.pi), 1500, 600, assumed=4 * VARIANCE)
    assert ratio > 1.0 + 5 * np.sqrt(2 / 1800) + 10 * 3 / 1500


@pytest.mark.slow
@pytest.mark.parametrize("law", [Gaussian(cov=2 / np.pi), Laplace(1.0)])
def test_asymptotic_variance_long(law):
    steps, trials = 8000, 2000
    ratio = whitened(law, steps, trials)
    assert abs(ratio - 1.0) < 5 * np.sqrt(2 / (3 * trials)) + 10 * 3 / steps
