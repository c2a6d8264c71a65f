"""Vector mechanisms refuse what does not fit together."""

import numpy as np
import pytest

import privest as pv
from privest.mechanism import CATALOGUE, Additive, Componentwise, calibrate
from privest.noise import Laplace

CHANNEL = Additive(Laplace(1.0))


def on_estimate(level, H):
    return calibrate("laplace", level, model=pv.LinearModel(H, noise=1.0), on="estimate")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Componentwise(CHANNEL, [[1.0, 1.0, 1.0]], offset=[1.0, 2.0, 3.0]),
            "b must have 1",
        ),
        (lambda: Componentwise(CHANNEL, [[1.0, 1.0]], measurements=3), "A has 2 columns"),
        (lambda: calibrate("laplace", 4.0, model=0), "model must be a whole number ≥ 1"),
        (lambda: calibrate("laplace", 4.0, model=-1), "model must be a whole number ≥ 1"),
        (
            lambda: on_estimate(pv.PrivacyLevel([1.0, 2.0]), np.eye(2)),
            "one number",
        ),
        (lambda: CATALOGUE["studentt"], "there is no mechanism 'studentt'; there are: gaussian"),
    ],
)
def test_one_clear_error(make, message):
    with pytest.raises(pv.errors.PrivestError, match=message):
        make()


def test_output_perturbation_needs_an_estimate():
    for H in (np.ones((5, 2)), np.ones((2, 5))):
        with pytest.raises(pv.errors.NotIdentifiable, match="no single least-squares estimate"):
            on_estimate(1.0, H)
    H = np.random.default_rng(0).standard_normal((6, 2)) * [1.0, 1e-9]  # units do not matter
    found = on_estimate(pv.PrivacyLevel(2.0), H).worst_information()
    projection = H @ np.linalg.lstsq(H, np.eye(6))[0]
    assert np.abs(found - 2.0 * projection).max() < 1e-6
