"""Coefficients in per cent, where a logarithm was modelled."""

import numpy as np

from privest.estimator.inference import as_percent


def test_percentages_of_coefficients():
    np.testing.assert_allclose(as_percent([0.1, -0.1]), [10.517091807564771, -9.516258196404048])
