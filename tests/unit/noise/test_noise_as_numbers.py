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
        (0.0, np.zeros(3)),
        (0, np.zeros((3, 3))),
        (pv.noise.Gaussian(cov=0.0), np.zeros(3)),
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
    assert (found.covariance == wanted.covariance).all()
    assert (found.classical == wanted.classical).all()
    assert repr(pv.LinearModel(H, noise=given)).startswith(
        "LinearModel(3 measurements, 2 parameters"
    )


@pytest.mark.parametrize(
    "given", [-0.04, [0.1, -0.2, 0.3], [], "0.04", True, [[1.0, 2.0], [3.0]], object(), None]
)
def test_anything_else_is_refused(given):
    with pytest.raises(InvalidInput):
        pv.LinearModel(H, noise=given)


def test_no_noise_at_every_door():
    """A stream of readings without noise: the sum of what is shown, whatever the size of a step."""
    rng = np.random.default_rng(0)
    level = pv.StreamLevel([np.eye(2), np.eye(1)])
    fits = []
    for noise in (0.0, pv.noise.Gaussian(cov=0.0)):
        fitted = pv.PrivateRLS(level, 2, noise)
        release = pv.StreamMechanism(level).simulate(H @ [1.0, 2.0], np.random.default_rng(1))
        fitted.update(release, H)
        fits.append(fitted.value)
    assert (fits[0] == fits[1]).all()
    model = pv.NonlinearModel(lambda t: H @ t, noise=0.0)
    assert (model.at([1.0, 2.0]).noise.sample(3, rng) == 0).all()


def test_laws_in_a_row_stay_laws():
    laws = [pv.noise.Laplace(1.0), pv.noise.Gaussian(0.5), pv.noise.Logistic(1.0)]
    assert pv.noise.as_joint(laws).laws == tuple(laws)
