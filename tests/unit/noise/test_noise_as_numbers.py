"""Noise given as numbers: a variance, variances, a covariance, at every door."""

import numpy as np
import pandas as pd
import pytest

import privest as pv
from privest.errors import InvalidInput

H = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
VARIANCES = np.array([0.1, 0.2, 0.3])
MATRIX = np.diag(VARIANCES) + 0.05


@pytest.mark.parametrize(
    ("given", "cov"),
    [
        (0.04, 0.04),
        (np.float64(0.04), 0.04),
        (np.array(0.04), 0.04),
        (VARIANCES, VARIANCES),
        (VARIANCES.tolist(), VARIANCES),
        (tuple(VARIANCES), VARIANCES),
        (pd.Series(VARIANCES), VARIANCES),
        (MATRIX, MATRIX),
        (MATRIX.tolist(), MATRIX),
        (pd.DataFrame(MATRIX), MATRIX),
    ],
)
def test_numbers_are_gaussian_noise(given, cov):
    found = pv.bound(pv.LinearModel(H, noise=given), 1.0)
    wanted = pv.bound(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov)), 1.0)
    assert (found.ppcrlb == wanted.ppcrlb).all()
    assert (found.classical == wanted.classical).all()


@pytest.mark.parametrize(
    "given", [-0.04, 0.0, [0.1, -0.2, 0.3], [], "0.04", True, [[1.0, 2.0], [3.0]], object(), None]
)
def test_anything_else_is_refused(given):
    with pytest.raises(InvalidInput):
        pv.LinearModel(H, noise=given)


def test_laws_in_a_row_stay_laws():
    laws = [pv.noise.Laplace(1.0), pv.noise.GaussianLaw(0.5), pv.noise.Logistic(1.0)]
    assert pv.noise.as_joint(laws).laws == tuple(laws)
