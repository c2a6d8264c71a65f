"""scipy.stats and mpmath as oracles for densities and distribution functions."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from privest.noise import Cauchy, CosSquared, Gaussian, Laplace, Logistic, StudentT, Uniform
from privest.noise._unbounded import _log_gamma_step

PAIRS = [
    (Gaussian(6.25, -1.0), stats.norm(-1.0, 2.5)),
    (Laplace(0.3), stats.laplace(0, 0.3)),
    (Cauchy(2.0), stats.cauchy(0, 2.0)),
    (StudentT(0.4), stats.t(0.4)),
    (StudentT(2.5, 3.0), stats.t(2.5, 0, 3.0)),
    (StudentT(40), stats.t(40)),
    (Logistic(0.7), stats.logistic(0, 0.7)),
    (Uniform(2.0), stats.uniform(-2, 4)),
    (2.0 + 3 * StudentT(5), stats.t(5, 2, 3)),
    (CosSquared(math.pi), None),
]


@pytest.mark.parametrize(("law", "oracle"), PAIRS, ids=lambda v: repr(v)[:40])
def test_logpdf_and_cdf(law, oracle):
    x = np.concatenate([np.linspace(-12, 12, 97), [-300.0, 45.0, 1e5]])
    if oracle is None:  # scipy's raised cosine is (1 + cos x)/2π on [−π, π]
        oracle = stats.cosine()
        x = np.linspace(-3.1, 3.1, 41)
    expected = oracle.logpdf(x)
    # scipy's Laplace takes the logarithm of a density that has underflowed.
    usable = np.isfinite(expected) | (law.pdf(x) == 0) & np.isinf(law.logpdf(x))
    assert usable.sum() >= 40
    np.testing.assert_allclose(law.logpdf(x)[usable], expected[usable], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(law.cdf(x), oracle.cdf(x), rtol=1e-12, atol=1e-15)
    if math.isfinite(law.variance):
        assert math.isclose(law.variance, oracle.var(), rel_tol=1e-13)
        assert math.isclose(law.mean, oracle.mean(), abs_tol=1e-13)


def test_left_tails_keep_their_digits():
    # F(−x) = arctan(1/x)/π for Cauchy: no cancellation at x = 1e9.
    assert math.isclose(float(Cauchy().cdf(-1e9)), 1e-9 / math.pi, rel_tol=1e-14)
    assert math.isclose(float(Laplace().cdf(-300.0)), math.exp(-300) / 2, rel_tol=1e-13)
    assert math.isclose(float(Logistic().cdf(-300.0)), math.exp(-300), rel_tol=1e-13)


@pytest.mark.parametrize("z", [1e-3, 0.5, 3.0, 39.999, 40.0, 123.4, 1e4, 1e9, 1e15])
def test_log_gamma_step(z):
    with mpmath.workdps(60):
        exact = mpmath.loggamma(mpmath.mpf(z) + 0.5) - mpmath.loggamma(mpmath.mpf(z))
        # Below 40 it is a difference of two log-gammas of size up to 106, each right to an ulp.
        assert abs(_log_gamma_step(z) - exact) <= 4e-16 * max(
            abs(float(exact)), 110 if z < 40 else 1
        )


@pytest.mark.parametrize("df", [3.0, 250.0, 1e7])
def test_student_density_in_high_precision(df):
    with mpmath.workdps(50):
        nu, x = mpmath.mpf(df), mpmath.mpf("1.7")
        exact = (
            mpmath.loggamma((nu + 1) / 2)
            - mpmath.loggamma(nu / 2)
            - mpmath.log(nu * mpmath.pi) / 2
            - (nu + 1) / 2 * mpmath.log1p(x**2 / nu)
        )
    assert math.isclose(float(StudentT(df).logpdf(1.7)), float(exact), rel_tol=1e-14)
