"""`pv.estimate` of one release needs memory and time in proportion to m, not to m²."""

import time
import tracemalloc

import numpy as np
import pytest

import privest as pv
from privest.mechanism import Additive, Componentwise, GaussianMechanism
from privest.noise import Cauchy, Gaussian, Laplace

THETA = np.array([1.0, -2.0, 0.5])


def case(kind, m):
    """A release of m measurements, its model and its mechanism."""
    rng = np.random.default_rng(5)
    H = rng.uniform(-1, 1, (m, 3))
    variance = np.linspace(0.02, 0.06, m)
    model = pv.LinearModel(H, noise=Gaussian(cov=variance))
    mechanism = {
        "Gaussian": lambda: GaussianMechanism(2.0, m),
        "Gaussian, a level each": lambda: GaussianMechanism(np.linspace(1.0, 3.0, m)),
        "Gaussian channels": lambda: Componentwise(Additive(Gaussian(0.5)), measurements=m),
        "Laplace": lambda: Componentwise(Additive(Laplace(0.5)), measurements=m),
        "Cauchy": lambda: Componentwise(Additive(Cauchy(0.3)), measurements=m),
    }[kind]()
    y = H @ THETA + np.sqrt(variance) * rng.standard_normal(m)
    return mechanism.simulate(y, rng), model, mechanism


def peak(work):
    """The most bytes held at once, and the result."""
    tracemalloc.start()
    try:
        found = work()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Doubles a row: twenty vectors; 60 numbers a row of ℓ for each of 1 or 16 starts that are climbed.
NEEDED = {"Laplace": 100, "Cauchy": 16 * 100}
KINDS = ("Gaussian", "Gaussian, a level each", "Gaussian channels", "Laplace", "Cauchy")
BUFFERS = 2**24  # bytes: chunks, whatever m is


@pytest.mark.parametrize("kind", KINDS)
def test_memory_grows_like_m(kind):
    m = 600 if kind == "Cauchy" else 3000
    z, model, mechanism = case(kind, m)
    found, used = peak(lambda: pv.estimate(z, model, mechanism=mechanism))
    assert used < 8 * m * NEEDED.get(kind, 20) + BUFFERS
    assert np.abs((found.value - THETA) / found.standard_error).max() < 5


def dense_fit(H, V, z):
    W = np.linalg.inv(V)
    return np.linalg.solve(H.T @ W @ H, H.T @ W @ z)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_it_is_generalised_least_squares(kind):
    """Next to the inverse of V = Σ + S⁻¹, whose condition is below 10: 60·10·eps is below 1e-12."""
    z, model, mechanism = case(kind, 60)
    precision = mechanism.worst_information().diagonal()
    unit = np.sqrt(precision) if isinstance(mechanism, GaussianMechanism) else 1.0
    V = np.diag(model.covariance.diagonal() + 1 / precision)
    found = pv.estimate(z, model, mechanism=mechanism)
    np.testing.assert_allclose(found.value, dense_fit(model.matrix, V, z / unit), rtol=1e-12)
    PI = model.matrix.T @ np.linalg.inv(V) @ model.matrix
    np.testing.assert_allclose(found.covariance, np.linalg.inv(PI), rtol=1e-12)


def test_gaussian_releases_of_a_million_measurements():
    z, model, mechanism = case("Gaussian", 10**6)
    found, used = peak(lambda: pv.estimate(z, model, mechanism=mechanism))
    assert used < 8 * 10**6 * 20
    assert np.abs((found.value - THETA) / found.standard_error).max() < 5


def test_cauchy_releases_of_twenty_thousand_measurements():
    """A few seconds; the limit is for a machine ten times slower."""
    z, model, mechanism = case("Cauchy", 20_000)
    start = time.perf_counter()
    found = pv.estimate(z, model, mechanism=mechanism)
    assert time.perf_counter() - start < 60
    assert found.converged
    assert np.abs((found.value - THETA) / found.standard_error).max() < 5


def test_information_of_channels_is_a_diagonal():
    m = 20_000
    mechanism = Componentwise(Additive(Laplace(0.5)), measurements=m)
    for ask in (mechanism.worst_information, lambda: mechanism.information(np.zeros(m))):
        found, used = peak(ask)
        assert used < 8 * m * 20
        assert np.array_equal(found.diagonal(), np.full(m, 4.0))
    few = Componentwise(Additive(Laplace(0.5)), measurements=3)
    assert np.array_equal(np.asarray(few.worst_information()), 4 * np.eye(3))
