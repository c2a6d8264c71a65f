"""Every channel of the catalogue has a likelihood, and closed forms agree with the quadrature."""

import numpy as np
import pytest

from privest.estimator.likelihood import QuadratureLikelihood, likelihood_of
from privest.mechanism import CATALOGUE, BinaryQuantiser, Inverse
from privest.noise import Cauchy, Gaussian, Laplace

VARIANCE = 0.3


@pytest.mark.parametrize(
    ("channel", "z", "breaks"),
    [
        (BinaryQuantiser(Gaussian(0.5), 0.2), [0.0, 1.0], ()),
        (BinaryQuantiser(Laplace(0.5), 0.2), [0.0, 1.0], (0.2,)),
        (BinaryQuantiser(Cauchy(0.5), 0.2), [0.0, 1.0], ()),
        (Inverse(Gaussian(1.7), 0.8), [-2.0, 0.3, 1.5], (-0.8, 0.0, 0.8)),
        (Inverse(Gaussian(1.7)), [-2.0, 0.3, 1.5], (0.0,)),
    ],
)
def test_closed_forms_equal_the_quadrature(channel, z, breaks):
    closed = likelihood_of(channel, VARIANCE)
    assert not isinstance(closed, QuadratureLikelihood)
    numbers = QuadratureLikelihood(channel, VARIANCE, breaks=breaks)
    eta = np.linspace(-2.0, 2.0, 9)
    for one in z:
        given = np.full((1, len(eta)), one)
        first, second = closed(given, eta[None]), numbers(given, eta[None])
        assert np.abs(first.value - second.value).max() < 1e-7
        assert np.abs(first.slope - second.slope).max() < 1e-6


@pytest.mark.parametrize("name", [n for n, e in CATALOGUE.items() if e.channel is not None])
def test_every_channel_has_a_likelihood(name):
    """Finite terms at releases that the channel really gives."""
    mechanism = CATALOGUE[name].example(4)
    rng = np.random.default_rng(0)
    eta = rng.standard_normal((3, 4))
    z = mechanism.simulate(eta + 0.5 * rng.standard_normal((3, 4)), rng)
    terms = likelihood_of(mechanism, 0.25)(z, eta)
    for array in terms:
        assert np.isfinite(array).all()
    assert (terms.weight > 0).all()
