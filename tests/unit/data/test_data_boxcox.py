"""Box-Cox: the exponent is the maximum of its likelihood, and the transform can be undone."""

import numpy as np
import pytest
import scipy

from privest.data import BoxCox
from privest.errors import InvalidInput


def profile(exponent, x):
    """The log-likelihood of a normal law after the transform, by its definition."""
    u = np.log(x) if exponent == 0 else (x**exponent - 1) / exponent
    return -0.5 * len(x) * np.log(u.var()) + (exponent - 1) * np.log(x).sum()


@pytest.mark.parametrize("true", [-0.3, 0.0, 0.5])
def test_the_fit_is_the_maximum_of_the_likelihood(true):
    u = np.random.default_rng(3).normal(2.0, 0.2, 500)  # 1 + λu > 0 for every λ here
    x = scipy.special.inv_boxcox(u, true)
    fitted = BoxCox.fit(x).exponent
    grid = np.linspace(fitted - 0.5, fitted + 0.5, 101)
    best = grid[np.argmax([profile(g, x) for g in grid])]
    assert abs(best - fitted) <= 0.0051  # half a step of the grid
    # within 5 standard errors of the truth, the error from the likelihood's own curvature
    step = 0.02
    curvature = (
        2 * profile(fitted, x) - profile(fitted + step, x) - profile(fitted - step, x)
    ) / step**2
    assert abs(fitted - true) < 5 / np.sqrt(curvature)


@pytest.mark.parametrize("exponent", [-0.25, 0.0, 1e-9, 1.0, 2.5])
def test_there_and_back(exponent):
    x = np.array([0.5, 1.0, 84.0, 1562.0])
    transform = BoxCox(exponent)
    # the inverse loses digits with x du/dx/u = O(1/(1 + λu)) at worst: 1562^0.25 here
    np.testing.assert_allclose(transform.inverse(transform(x)), x, rtol=1e-13)
    direct = np.log(x) if abs(exponent) < 1e-6 else (x**exponent - 1) / exponent
    np.testing.assert_allclose(transform(x), direct, rtol=1e-6, atol=1e-12)


def test_refusals():
    with pytest.raises(InvalidInput, match="must be > 0"):
        BoxCox(0.5)([1.0, 0.0])
    with pytest.raises(InvalidInput, match="3 or more values that are not all equal"):
        BoxCox.fit([2.0, 2.0, 2.0])
    with pytest.raises(InvalidInput, match="3 or more"):
        BoxCox.fit([2.0, 3.0])
    with pytest.raises(InvalidInput, match=r"1 \+ λu > 0"):
        BoxCox(-0.5).inverse([2.5])
