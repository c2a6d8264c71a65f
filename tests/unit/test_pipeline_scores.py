"""Scores one by one: derivatives, moments, expectation, quantiles."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy

import privest as pv
from privest.pipeline._score import BoundedScore
from scores import likelihood_score, optimal_score, score_of

SKEWED = pv.noise.GaussianMixture([0.8, 0.2], means=[-0.5, 2.0], sds=[0.5, 1.2])
LAPLACE, CAUCHY = pv.noise.Laplace(1.0), pv.noise.Cauchy(1.0)
SCORES = {
    "linear": score_of(SKEWED, score="least_squares"),
    "bounded": BoundedScore(SKEWED),
    "bounded cauchy": BoundedScore(CAUCHY),
    "likelihood": likelihood_score(CAUCHY),
    "likelihood skewed": likelihood_score(SKEWED),
    "smoothed": likelihood_score(LAPLACE, 0.4),
    "smoothed uniform": likelihood_score(pv.noise.Uniform(1.0), 0.4),
    "smoothed skewed": likelihood_score(SKEWED, 0.4),
    "laplace": optimal_score(LAPLACE, 0.2),
    "laplace wide": optimal_score(LAPLACE, 1e6),
    "numbers": optimal_score(SKEWED, 0.2),
}


@pytest.mark.parametrize("name", SCORES)
def test_each_term_is_the_derivative_of_the_one_before(name):
    """Differences with step 1e-4: their error is 1e-9 of the third derivative and rounding."""
    score = SCORES[name]
    x = score.law.quantile(np.linspace(0.0123, 0.9876, 60))
    step = 1e-4 * float(np.ptp(score.law.quantile([0.25, 0.75])))
    low, high = score.terms(x - step), score.terms(x + step)
    at = score.terms(x)
    size = math.sqrt(score.moments.square)
    unit = size / float(np.ptp(score.law.quantile([0.25, 0.75])))
    np.testing.assert_allclose(
        (high.integral - low.integral) / (2 * step), at.value, atol=1e-5 * size
    )
    np.testing.assert_allclose((high.value - low.value) / (2 * step), at.slope, atol=1e-5 * unit)
    np.testing.assert_allclose(score(x), at.value, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(score.slope(x), at.slope)
    assert at.value.shape == x.shape


@pytest.mark.parametrize("name", SCORES)
def test_moments_by_scipy(name):
    score = SCORES[name]
    law = score.law
    ends = law.support if math.isfinite(law.support[0]) else tuple(law.quantile([1e-9, 1 - 1e-9]))
    far = [0.3, 1.0, 3.0, *np.geomspace(10.0, 1e8, 15)]
    reach = [e for e in (*[-e for e in far[::-1]], 0.0, *far) if ends[0] < e < ends[1]]

    def mean(function):
        cuts = [ends[0], *reach, ends[1]]
        parts = [
            scipy.integrate.quad(
                lambda x: float(function(np.array([x]))[0]) * float(law.pdf(x)), a, b, limit=200
            )[0]
            for a, b in itertools.pairwise(cuts)
        ]
        return sum(parts)

    size = math.sqrt(score.moments.square)
    assert abs(mean(score)) < 1e-6 * size  # unbiased
    assert mean(lambda x: score(x) ** 2) == pytest.approx(score.moments.square, rel=1e-6)
    assert mean(score.slope) == pytest.approx(score.moments.slope, rel=1e-6)
    assert mean(lambda x: score.slope(x) ** 2) == pytest.approx(
        score.moments.slope_square, rel=1e-6
    )
    assert score.cost(0.7) == pytest.approx(score.sampling + 0.7 * score.sensitivity, rel=1e-14)
    assert score.sensitivity >= 1 - 1e-12


def test_the_smoothed_likelihood_is_that_of_the_convolution():
    """f_h = f * N(0, h²), by scipy's quad; and E l'' identities of the smoothed law do not hold."""
    score = likelihood_score(LAPLACE, 0.4)

    def smooth(x):
        gauss = scipy.stats.norm(0.0, 0.4)
        return scipy.integrate.quad(
            lambda t: float(LAPLACE.pdf(t)) * gauss.pdf(x - t), x - 6, x + 6, points=[0.0, x]
        )[0]

    for x in (-2.0, -0.3, 0.1, 1.5):
        step = 1e-3
        slope = (math.log(smooth(x + step)) - math.log(smooth(x - step))) / (2 * step)
        assert score(np.array([x]))[0] == pytest.approx(-slope, rel=1e-5)
    assert score(np.array([0.0]))[0] == pytest.approx(0.0, abs=1e-12)


def test_small_bandwidths_lead_back_to_maximum_likelihood():
    """For a smooth law h → 0 gives J(ML); for Laplace λE ψ'² grows like 1/h."""
    logistic = pv.noise.Logistic(1.0)
    assert likelihood_score(logistic, 0.01).cost(1.0) == pytest.approx(
        likelihood_score(logistic).cost(1.0), rel=1e-3
    )
    sharp, sharper = (likelihood_score(LAPLACE, h).sensitivity for h in (0.02, 0.01))
    assert sharper / sharp == pytest.approx(2.0, rel=0.05)


def test_the_best_bandwidth_is_equivariant():
    one = likelihood_score(LAPLACE, "best", 0.05).bandwidth
    other = likelihood_score(pv.noise.Laplace(7.0), "best", 0.05 * 49).bandwidth
    assert other == pytest.approx(7 * one, rel=0.01)


def test_the_bounded_score_is_unbiased_and_convex():
    score = BoundedScore(SKEWED)
    assert abs(SKEWED.expect(score).value) < 1e-10
    assert score.centre != pytest.approx(float(SKEWED.quantile(0.5)), abs=1e-3)
    x = np.linspace(-1e6, 1e6, 1001)
    assert (score.slope(x) > 0).all()
    assert np.abs(score(x)).max() <= score.q * (1 + 1e-12)


def test_one_root_is_said_where_it_is_so():
    assert optimal_score(pv.noise.Logistic(1.0), 0.1).one_root
    assert optimal_score(pv.noise.Uniform(1.0), 0.1).one_root
    assert not optimal_score(CAUCHY, 0.1).one_root
    apart = pv.noise.GaussianMixture([0.5, 0.5], means=[-3.0, 3.0], sds=[1.0, 1.0])
    assert not optimal_score(apart, 0.01).one_root


# --- quantiles and expectations of laws -----------------------------------------------------------


@dataclass(frozen=True)
class Sech(pv.noise.Distribution):
    def logpdf(self, x):
        return -np.logaddexp(x, -np.asarray(x)) + np.log(2 / np.pi)


INVERSES = {
    "cauchy": (CAUCHY, scipy.stats.cauchy.ppf),
    "laplace": (LAPLACE, scipy.stats.laplace.ppf),
    "logistic": (pv.noise.Logistic(1.0), scipy.stats.logistic.ppf),
    "t3": (pv.noise.StudentT(3.0), scipy.stats.t(3.0).ppf),
    "uniform": (pv.noise.Uniform(1.0), scipy.stats.uniform(-1, 2).ppf),
    "sech": (Sech(), lambda u: np.log(np.tan(np.pi * u / 2))),
}


@pytest.mark.parametrize("name", INVERSES)
def test_quantiles(name):
    """F is right to 1e-13, so x to 1e-13/f(x)."""
    law, inverse = INVERSES[name]
    u = np.array([[1e-6, 0.01, 0.25], [0.5, 0.9, 1 - 1e-6]])
    x = law.quantile(u)
    assert x.shape == u.shape
    allowed = 1e-12 / np.asarray(law.pdf(x)) + 1e-12
    assert (np.abs(x - inverse(u)) < allowed).all()
    moved = law.scaled(3.0).shifted(-2.0)
    np.testing.assert_allclose(moved.quantile(u), 3 * x - 2, rtol=1e-5, atol=1e-10)
    mirrored = law.scaled(-1.0)
    np.testing.assert_allclose(mirrored.quantile(0.25), -law.quantile(0.75), atol=1e-10)


@pytest.mark.parametrize("u", [0.0, 1.0, -0.1, 1.5, [0.5, 1.0], math.nan])
def test_quantiles_lie_inside(u):
    with pytest.raises(pv.errors.InvalidInput):
        CAUCHY.quantile(u)


def test_expectations():
    assert CAUCHY.expect(lambda x: 1 / (1 + x**2)).value == pytest.approx(0.5, abs=1e-12)
    assert LAPLACE.expect(np.abs).value == pytest.approx(1.0, abs=1e-12)
    assert LAPLACE.expect(lambda x: np.exp(0.5 * x)).value == pytest.approx(4 / 3, rel=1e-10)
    assert pv.noise.Uniform(2.0).expect(lambda x: x**4).value == pytest.approx(16 / 5, rel=1e-12)
    assert CAUCHY.expect(lambda x: x**2).value == math.inf
    assert math.isnan(CAUCHY.expect(lambda x: x).value)
    jump = LAPLACE.expect(lambda x: (x > 0.3).astype(float))
    assert abs(jump.value - math.exp(-0.3) / 2) <= max(jump.error, 1e-9)
