"""The front door: a model, a mechanism and its releases; against dense formulas and by hand."""

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import estimate_release, maximum_likelihood
from privest.estimator.likelihood import ClippedLikelihood, LaplaceLikelihood, likelihood_of
from privest.mechanism import (
    Additive,
    Componentwise,
    GaussianMechanism,
    GeometricPerturbation,
    PrivacyWeights,
    calibrate,
)
from privest.mechanism.source import Source
from privest.model import LinearModel
from privest.noise import Cauchy, Gaussian, Laplace

RNG = np.random.default_rng(3)
H = RNG.uniform(-1, 1, (8, 3))
THETA = np.array([1.0, -2.0, 0.5])
ROOT = RNG.standard_normal((8, 8))
DENSE = ROOT @ ROOT.T / 8 + 0.1 * np.eye(8)
SHIFT = RNG.standard_normal(8)


def normal_fit(G, V, z):
    """Generalised least squares and its log-density, written out."""
    W = np.linalg.inv(V)
    theta = np.linalg.solve(G.T @ W @ G, G.T @ W @ z.T).T
    law = scipy.stats.multivariate_normal(np.zeros(len(V)), V)
    return theta, law.logpdf(z - theta @ G.T)


class ZeroNoise(Source):
    simulated = True

    def add_noise(self, shown, **_):
        return np.array(shown() if callable(shown) else shown)


def gaussian_cases():
    low = RNG.standard_normal((8, 5))
    A, b = RNG.standard_normal((6, 8)), RNG.standard_normal(6)
    level = GaussianMechanism(low @ low.T, 8)  # singular
    L = np.stack([level.simulate(e, ZeroNoise()) for e in np.eye(8)], axis=1)
    partly = GaussianMechanism(np.diag([1.0, 2.0, 0.0, 4.0, 1.0, 0.0, 3.0, 1.0]), 8)
    P = np.stack([partly.simulate(e, ZeroNoise()) for e in np.eye(8)], axis=1)
    law = Gaussian(0.7, mean=0.2)
    return {
        "dense S": (level, L, np.zeros(5), np.eye(5)),
        "diagonal S with zeros": (partly, P, np.zeros(6), np.eye(6)),
        "channels": (Componentwise(Additive(law), A, b), A, b + 0.2, 0.7 * np.eye(6)),
        "readings": (
            Componentwise([Additive(Gaussian(0.1 * k + 0.1)) for k in range(8)]),
            np.eye(8),
            np.zeros(8),
            np.diag(0.1 * np.arange(8) + 0.1),
        ),
    }


CASES = gaussian_cases()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("sigma", "grid"), [(0.04, 0.0), ("diagonal", 0.0), ("dense", 0.0), (0.04, 0.5), ("dense", 0.5)]
)
def test_gaussian_mechanisms_are_generalised_least_squares(case, sigma, grid):
    """`grid`: of a real release, whose noise is 3g²/4 wider (0.5: so that it is seen)."""
    mechanism, A, b, noise = CASES[case]
    noise = noise * (1 + 0.75 * grid**2)
    cov = {"diagonal": np.linspace(0.1, 2.0, 8), "dense": DENSE}.get(sigma, sigma)
    mean = 0.3 if sigma == 0.04 else SHIFT
    model = LinearModel(H, noise=Gaussian(cov=cov, mean=mean))
    z = mechanism.simulate(model.sample(THETA, RNG, trials=20), RNG)
    found = estimate_release(z, model, mechanism, grid=grid)
    full = np.broadcast_to(np.asarray(cov, dtype=float), (8,)) if np.ndim(cov) < 2 else cov
    S = np.diag(full) if np.ndim(full) == 1 else full
    theta, height = normal_fit(A @ H, A @ S @ A.T + noise, z - b - A @ np.broadcast_to(mean, (8,)))
    assert np.abs(found.value - theta).max() < 1e-9 * (1 + np.abs(theta).max())
    assert np.abs(found.log_likelihood - height).max() < 1e-9 * (1 + np.abs(height).max())
    assert found.converged.all()


@pytest.mark.parametrize("combined", [False, True])
def test_laplace_releases_count_what_the_grid_adds(combined):
    """As measurement noise of variance 3g²b²/4; at 2⁻¹⁰ a release is used by its grid."""
    rng, b, grid = np.random.default_rng(0), 0.3, 0.5
    A = 2 * np.linalg.qr(rng.standard_normal((8, 8)))[0][:6] if combined else None
    model, unit = LinearModel(H, noise=Gaussian(cov=0.04)), 0.16 if combined else 0.04
    mechanism = Componentwise(Additive(Laplace(b)), A, measurements=8)
    z = mechanism.release(model.sample(THETA, rng, trials=30))
    found = estimate_release(z, model, mechanism, grid=grid)
    rows = H if A is None else A @ H
    plain = maximum_likelihood(rows, z, LaplaceLikelihood(unit + 0.75 * grid**2 * b**2, scale=b))
    assert np.abs(found.log_likelihood - plain.log_likelihood).max() < 1e-8
    assert np.abs(found.value - plain.value).max() < 1e-6
    other = estimate_release(z, model, mechanism)
    assert np.abs(found.log_likelihood - other.log_likelihood).max() > 1e-3
    real = estimate_release(z, model, mechanism, grid=2.0**-10)
    assert np.abs(real.value - other.value).max() < 1e-4


def test_a_grid_is_for_laws_that_are_released():
    model = LinearModel(H, noise=Gaussian(cov=0.04))
    with pytest.raises(InvalidInput, match="grid is for real releases"):
        estimate_release(np.zeros((1, 8)), model, Additive(Cauchy(0.3)), grid=2.0**-10)


def test_a_clipped_release_counts_it():
    model = LinearModel(H, noise=Gaussian(cov=0.04))
    mechanism = GaussianMechanism(4.0, 8, range=(-1.0, 1.0))
    z = mechanism.release(model.sample(THETA, RNG, trials=3))
    found = estimate_release(z, model, mechanism, grid=0.5)
    low, high = mechanism.ends
    likelihood = ClippedLikelihood(0.16, noise=1.1875, low=low, high=high)
    plain = maximum_likelihood(2 * H, z, likelihood)
    assert np.abs(found.log_likelihood - plain.log_likelihood).max() < 1e-8


def test_channels_on_combinations_and_an_offset():
    """A with AΣAᵀ diagonal: AH, the variances of Aw, and b taken off."""
    rng = np.random.default_rng(0)
    orthogonal = np.linalg.qr(rng.standard_normal((8, 8)))[0][:6]
    b = rng.standard_normal(6)
    model = LinearModel(H, noise=Gaussian(cov=0.04))
    mechanism = Componentwise(Additive(Cauchy(0.3)), 2 * orthogonal, b)
    z = mechanism.simulate(model.sample(THETA, rng, trials=30), rng)
    found = estimate_release(z, model, mechanism)
    plain = maximum_likelihood(
        2 * orthogonal @ H, z - b, likelihood_of(Additive(Cauchy(0.3)), 0.16)
    )
    assert np.abs(found.log_likelihood - plain.log_likelihood).max() < 1e-8
    assert np.abs(found.value - plain.value).max() < 1e-6
    # Not a location family: the offset must enter η.
    weights = Componentwise(PrivacyWeights(0.25, 0.1), offset=5.0, measurements=8)
    z = weights.simulate(model.sample(THETA, rng, trials=4), rng)
    found = estimate_release(z, model, weights)
    eta = found.value @ H.T + 5.0
    direct = likelihood_of(PrivacyWeights(0.25, 0.1), 0.04)(z, eta).value.sum(axis=1)
    assert np.abs(found.log_likelihood - direct).max() < 1e-9
    assert found.converged.all()


def test_output_perturbation():
    rng = np.random.default_rng(1)
    model = LinearModel(H, noise=Gaussian(cov=0.04))
    out = calibrate("laplace", 1.0, model=model, on="estimate")
    z = out.simulate(model.sample(THETA, rng, trials=10), rng)
    best = estimate_release(z, model, out)  # as many readings as parameters: an exact fit
    assert np.abs(best.value @ (out.matrix @ H).T - z).max() < 1e-6


def test_one_channel_for_all_readings_and_different_variances():
    rng = np.random.default_rng(2)
    variances = np.linspace(0.01, 0.5, 8)
    model = LinearModel(H, noise=Gaussian(cov=variances))
    z = rng.standard_normal((5, 8))
    found = estimate_release(z, model, Additive(Laplace(0.5)))
    plain = maximum_likelihood(H, z, LaplaceLikelihood(variances, scale=0.5))
    assert np.array_equal(found.value, plain.value)


def test_refusals():
    model = LinearModel(H, noise=Gaussian(cov=0.04))
    z = np.zeros((2, 8))
    for mechanism in (GeometricPerturbation(8, variance=0.0), GeometricPerturbation(8)):
        with pytest.raises(NotIdentifiable, match="uniform and fresh for each y"):
            estimate_release(z, model, mechanism)
    skew = Componentwise(Additive(Laplace(1.0)), np.tril(np.ones((8, 8))))
    with pytest.raises(InvalidInput, match="channels 0 and 1 have correlated"):
        estimate_release(z, model, skew)
    dense = LinearModel(H, noise=Gaussian(cov=DENSE))
    with pytest.raises(InvalidInput, match="AΣAᵀ is not diagonal"):
        estimate_release(z, dense, Additive(Laplace(1.0)))
    with pytest.raises(InvalidInput, match="Gaussian measurement noise"):
        estimate_release(z, LinearModel(H, noise=Laplace(1.0)), Additive(Laplace(1.0)))
    silent = LinearModel(H, noise=Gaussian(cov=np.array([0.0] + [0.1] * 7)))
    with pytest.raises(InvalidInput, match="1 of 8 inputs"):
        estimate_release(z, silent, Additive(Laplace(1.0)))
    with pytest.raises(InvalidInput, match="the mechanism has 5"):
        estimate_release(z, model, Componentwise(Additive(Laplace(1.0)), measurements=5))
    with pytest.raises(InvalidInput, match="7 entries; the mechanism has 8"):
        estimate_release(z[:, :7], model, Additive(Laplace(1.0)))
    with pytest.raises(InvalidInput, match="there is no likelihood for str"):
        estimate_release(z, model, "laplace")
    with pytest.raises(InvalidInput, match="state `mechanism`"):
        estimate_release(z, model)
    hidden = GaussianMechanism(np.diag([1.0, 1.0, 0, 0, 0, 0, 0, 0]), 8)
    with pytest.raises(NotIdentifiable):
        estimate_release(z[:, :2], model, hidden)


def test_a_release_says_its_grid_itself():
    level, y = pv.StreamLevel.constant(2.0), np.linspace(0.0, 1.0, 5)
    made = pv.StreamMechanism(level).release(y)
    model = LinearModel(np.ones((5, 1)), noise=0.25)
    mechanism = GaussianMechanism(2.0, 5)
    said = pv.estimate(made, model)
    stated = estimate_release(made.values, model, mechanism, grid=made.grid)
    bare = estimate_release(made.values, model, mechanism)
    np.testing.assert_allclose(said.covariance, stated.covariance, rtol=1e-12)
    assert stated.log_likelihood != bare.log_likelihood
