"""Batched maximum likelihood against scipy.optimize, one trial at a time, and against theory."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import _mle
from privest.estimator._mle import maximum_likelihood
from privest.estimator.likelihood import (
    BinaryLikelihood,
    ConvolvedLikelihood,
    GaussianLikelihood,
    InverseGaussianLikelihood,
    LaplaceLikelihood,
    VoigtLikelihood,
    likelihood_of,
)
from privest.estimator.starts import best_starts, subsets
from privest.mechanism import calibrate
from privest.noise import Cauchy, CosSquared, Gaussian, Laplace, StudentT
from privest.paper._methods import DEVIATION, THETA, setting_of

VARIANCE = DEVIATION**2
H = setting_of().model.matrix


def measurements(rng, trials, theta=THETA, matrix=H):
    noise = DEVIATION * rng.standard_normal((trials, len(matrix)))
    return theta @ matrix.T + noise


def by_scipy(likelihood, z, start):
    """BFGS on one trial, with the exact gradient: the highest of several starts."""

    def fall(theta):
        terms = likelihood(z[None], (H @ theta)[None])
        return -terms.value.sum(), -(terms.slope[0] @ H)

    ends = [scipy.optimize.minimize(fall, s, jac=True, method="BFGS").fun for s in start]
    return -min(ends)


def truncated(y, sd, edge, rng):
    up = rng.random(y.shape) < (edge + y) / (2 * edge)
    u = np.where(np.abs(y) < edge, np.where(up, edge, -edge), y)
    return u / (1 + sd * rng.standard_normal(y.shape))


CASES = {
    "Laplace": (
        LaplaceLikelihood(VARIANCE, scale=1.0),
        lambda y, rng: y + rng.laplace(size=y.shape),
        60,
    ),
    "Cauchy": (
        VoigtLikelihood(VARIANCE, scale=0.5**0.5),
        lambda y, rng: y + 0.5**0.5 * rng.standard_cauchy(y.shape),
        25,
    ),
    "cos²": (
        ConvolvedLikelihood(CosSquared(math.pi), VARIANCE),
        lambda y, rng: y + CosSquared(math.pi).sample(y.shape, rng),
        25,
    ),
    "Student": (
        ConvolvedLikelihood(StudentT(3.0), VARIANCE),
        lambda y, rng: y + StudentT(3.0).sample(y.shape, rng),
        20,
    ),
    "multiplicative": (
        InverseGaussianLikelihood(VARIANCE, sd=1.3, truncation=0.6),
        lambda y, rng: truncated(y, 1.3, 0.6, rng),
        10,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_never_below_bfgs_from_many_starts(case):
    likelihood, release, trials = CASES[case]
    rng = np.random.default_rng(7)
    z = release(measurements(rng, trials), rng)
    # The multiplicative likelihood has many maxima close in height: all 252 exact fits.
    found = maximum_likelihood(H, z, likelihood, starts=252 if case == "multiplicative" else None)
    assert found.converged.all()
    for t in range(trials):
        starts = [np.linalg.lstsq(H, likelihood.centre(z[t]))[0], THETA]
        if likelihood.several_maxima:
            starts += list(THETA + 2 * rng.standard_normal((8, 5)))
        assert found.log_likelihood[t] >= by_scipy(likelihood, z[t], starts) - 1e-7
    height = likelihood(z, found.value @ H.T).value.sum(axis=1)
    assert np.abs(height - found.log_likelihood).max() < 1e-9


def test_laplace_estimates_are_those_of_bfgs():
    """One maximum: the same point, to what BFGS resolves (gradient 1e-5 of curvature about 1)."""
    rng = np.random.default_rng(8)
    likelihood = LaplaceLikelihood(VARIANCE, scale=0.5)
    z = measurements(rng, 30) + rng.laplace(scale=0.5, size=(30, 10))
    found = maximum_likelihood(H, z, likelihood)
    for t in range(30):

        def fall(theta, t=t):
            terms = likelihood(z[t][None], (H @ theta)[None])
            return -terms.value.sum(), -(terms.slope[0] @ H)

        peer = scipy.optimize.minimize(fall, found.value[t] + 0.1, jac=True, method="BFGS")
        assert np.abs(peer.x - found.value[t]).max() < 2e-3


def test_gaussian_is_weighted_least_squares():
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.1, 4, 10)
    z = 5 * rng.standard_normal((50, 10))
    found = maximum_likelihood(H, z, GaussianLikelihood(variance, noise=0.5, shift=0.3))
    W = np.diag(1 / (variance + 0.5))
    expected = np.linalg.solve(H.T @ W @ H, H.T @ W @ (z - 0.3).T).T
    assert np.abs(found.value - expected).max() < 1e-10
    assert found.converged.all()


def test_laplace_covariance_approaches_the_inverse_information():
    """m = 400 readings, 3 parameters: E(θ̂ − θ)(θ̂ − θ)ᵀ → (HᵀH i)⁻¹, i the information of one z.

    The trace of N trials has a relative standard error √(2/(3N)) or so: 5 of them, N = 1500,
    plus 3/m·(a few) for what m = 400 still lacks.
    """
    rng = np.random.default_rng(1)
    matrix, theta, trials = rng.uniform(-1, 1, (400, 3)), np.array([0.5, -1.0, 2.0]), 1500
    likelihood = LaplaceLikelihood(VARIANCE, scale=0.5)

    def integrand(r):
        terms = likelihood(np.array([r]), np.zeros(1))
        return float(np.exp(terms.value[0]) * terms.slope[0] ** 2)

    information = 2 * scipy.integrate.quad(integrand, 0, 15, points=[0.2, 1.0])[0]
    z = measurements(rng, trials, theta, matrix) + rng.laplace(scale=0.5, size=(trials, 400))
    found = maximum_likelihood(matrix, z, likelihood)
    assert found.converged.all()
    error = found.value - theta
    bound = np.linalg.inv(matrix.T @ matrix * information)
    ratio = np.trace(error.T @ error / trials @ np.linalg.inv(bound)) / 3
    assert abs(ratio - 1) < 5 * math.sqrt(2 / (3 * trials)) + 0.03
    assert np.abs(error.mean(axis=0) / np.sqrt(np.diag(bound) / trials)).max() < 5


def test_several_starts_are_needed_for_cauchy_and_said_to_disagree():
    rng = np.random.default_rng(2)
    likelihood = VoigtLikelihood(VARIANCE, scale=0.5**0.5)
    z = measurements(rng, 120) + 0.5**0.5 * rng.standard_cauchy((120, 10))
    one = maximum_likelihood(H, z, likelihood, starts=0)
    many = maximum_likelihood(H, z, likelihood)
    every = maximum_likelihood(H, z, likelihood, starts=252)
    assert (one.log_likelihood < many.log_likelihood - 1e-3).mean() > 0.1  # about 18 %
    assert (many.log_likelihood >= every.log_likelihood - 1e-6).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["truncated-inverse-gaussian", "truncated-inverse-laplace"])
def test_default_starts_nearly_always_reach_the_best_of_all_exact_fits(name):
    """A ratio has a hump on each side of 0. Misses of 1 % would pass 5 of 100 once in 2000 runs."""
    rng = np.random.default_rng(6)
    mechanism = calibrate(name, 1.0, model=10)
    likelihood = likelihood_of(mechanism, VARIANCE)
    z = mechanism.simulate(measurements(rng, 100), rng)
    found = maximum_likelihood(H, z, likelihood)
    every = maximum_likelihood(H, z, likelihood, starts=252)
    assert found.converged.all()
    assert (found.log_likelihood < every.log_likelihood - 1e-6).sum() <= 5


def test_given_starts():
    rng = np.random.default_rng(3)
    likelihood = VoigtLikelihood(VARIANCE, scale=1.0)
    z = measurements(rng, 20) + rng.standard_cauchy((20, 10))
    same = maximum_likelihood(H, z, likelihood, starts=THETA[None])
    each = maximum_likelihood(H, z, likelihood, starts=np.tile(THETA, (20, 1, 1)))
    assert np.array_equal(same.value, each.value)
    alone = maximum_likelihood(H, z[3], likelihood, starts=THETA[None])
    assert np.abs(alone.value[0] - same.value[3]).max() < 1e-9
    assert len(alone.value) == 1


def test_a_maximum_that_does_not_exist_is_not_called_converged():
    """All bits agree with a half-space: the likelihood rises for ever."""
    for law in (Gaussian(1.0), Laplace(1.0), Cauchy(1.0)):
        likelihood = BinaryLikelihood(VARIANCE, law=law)
        matrix = np.array([[1.0], [1.0], [1.0]])
        bits = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
        found = maximum_likelihood(matrix, bits, likelihood)
        assert found.converged.tolist() == [False, True]
    # Two of three below: G(−θ) = 2/3, for the Gaussian θ = −Φ⁻¹(2/3)·√(1 + σ²).
    gaussian = maximum_likelihood(matrix, bits, BinaryLikelihood(VARIANCE, law=Gaussian(1.0)))
    assert gaussian.value[1, 0] == pytest.approx(-0.4307272993 * math.sqrt(1.04), abs=1e-9)


def test_too_few_iterations_are_said(monkeypatch):
    monkeypatch.setattr(_mle, "ITERATIONS", 2)
    rng = np.random.default_rng(4)
    z = measurements(rng, 50) + rng.laplace(size=(50, 10))
    found = maximum_likelihood(H, z, LaplaceLikelihood(VARIANCE, scale=1.0))
    assert not found.converged.all()


def test_starts_are_exact_fits():
    rng = np.random.default_rng(5)
    z = measurements(rng, 4) + rng.standard_cauchy((4, 10))
    likelihood = VoigtLikelihood(VARIANCE, scale=1.0)
    starts = best_starts(H, np.zeros(10), subsets(H), z, z, likelihood, 6)
    assert starts.shape == (4, 6, 5)
    residual = np.abs(starts @ H.T - z[:, None])
    assert (np.sort(residual, axis=2)[..., :5] < 1e-9 * np.abs(z).max()).all()
    assert len(subsets(rng.standard_normal((40, 5)))) == 300
    twice = np.repeat(np.eye(2), 2, axis=0)  # rows 0 and 1 equal: no fit from them
    assert len(subsets(twice)) == 4


def test_refusals():
    likelihood = LaplaceLikelihood(np.full(10, VARIANCE), scale=1.0)
    with pytest.raises(InvalidInput, match="10 measurements and H 9 rows"):
        maximum_likelihood(H[:9], np.zeros((2, 10)), likelihood)
    with pytest.raises(InvalidInput, match="for 10 measurements"):
        maximum_likelihood(H[:9], np.zeros((2, 9)), likelihood)
    with pytest.raises(InvalidInput, match="columns"):
        maximum_likelihood(H, np.zeros((2, 10)), likelihood, starts=np.zeros((1, 4)))
    with pytest.raises(NotIdentifiable):
        maximum_likelihood(H[:, [0, 0]], np.zeros((2, 10)), likelihood)
