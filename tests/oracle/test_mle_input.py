"""Maximum likelihood on awkward input: units, single readings, wrong arguments."""

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.estimator._mle import maximum_likelihood
from privest.estimator.likelihood import BinaryLikelihood, VoigtLikelihood
from privest.noise import Cauchy, Gaussian, Laplace, StudentT

H = np.column_stack([np.ones(10), np.linspace(-1.0, 2.0, 10)])


def test_units_of_the_columns_do_not_matter():
    rng = np.random.default_rng(0)
    z = H @ [1.0, 0.5] + 0.3 * rng.standard_cauchy((50, 10))
    likelihood = VoigtLikelihood(0.04, scale=0.3)
    plain = maximum_likelihood(H, z, likelihood)
    unit = np.array([1.0, 1e7])
    scaled = maximum_likelihood(H * unit, z, likelihood)
    assert np.abs(scaled.log_likelihood - plain.log_likelihood).max() < 1e-6
    assert np.abs(scaled.value * unit - plain.value).max() < 1e-4


def test_a_wide_range_of_regressors():
    """A constant beside readings of ten million: no subset may be thrown out for its units."""
    rows = np.column_stack([np.ones(10), np.linspace(1e7, 2e7, 10)])
    z = rows @ [1.0, 1e-7] + 0.1 * np.random.default_rng(1).standard_cauchy((5, 10))
    assert maximum_likelihood(rows, z, VoigtLikelihood(0.04, scale=0.1)).converged.all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"starts": -1}, "starts must be ≥ 0"),
        ({"starts": np.zeros((3, 2, 2))}, "starts are for 3 trials; z has 4"),
        ({"starts": np.zeros((3, 5))}, "H has 2 columns"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        maximum_likelihood(H, np.zeros((4, 10)), VoigtLikelihood(0.04, scale=0.3), **arguments)


def test_no_trials_and_whole_numbers_of_numpy():
    likelihood = VoigtLikelihood(0.04, scale=0.3)
    with pytest.raises(InvalidInput, match="no trials"):
        maximum_likelihood(H, np.zeros((0, 10)), likelihood)
    z = np.random.default_rng(0).standard_normal((2, 10))
    assert maximum_likelihood(H, z, likelihood, starts=np.int64(3)).converged.all()


def test_laws_with_one_maximum_are_those_that_are_log_concave():
    for law in (Gaussian(0.5), Laplace(0.5)):
        assert not BinaryLikelihood(0.04, law=law).several_maxima
    for law in (Cauchy(0.5), StudentT(2.0)):
        assert BinaryLikelihood(0.04, law=law).several_maxima
