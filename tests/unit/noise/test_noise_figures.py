"""Printed figures: numbers of one table, and numbers a reader can check by hand."""

import math

import numpy as np
import pytest

from privest.noise import (
    Bump,
    Cauchy,
    CosSquared,
    Gaussian,
    GaussianMixture,
    Laplace,
    Logistic,
    Staircase,
    StudentT,
    Uniform,
)


@pytest.mark.parametrize(
    ("p", "information", "variance"),
    [(2, 15.115, 0.09824), (3, 19.301, 0.07099), (5, 28.361, 0.04559)],
)
def test_bump(p, information, variance):
    law = Bump(p)
    # Half a unit of the last printed digit.
    assert abs(law.fisher_information - information) <= 0.5e-3
    assert abs(law.variance - variance) <= 0.5e-5


def test_the_trapezoidal_rule_of_the_bump_has_converged():
    from scipy import integrate

    for p in (2.0, 2.7, 60.0):
        law = Bump(p)
        mass, _ = integrate.quad(
            lambda x, p=p: math.exp(1 - (1 - x * x) ** -p), -1, 1, epsabs=0, epsrel=1e-13, limit=200
        )
        assert math.isclose(float(law.logpdf(0.0)), -math.log(mass), abs_tol=1e-12)


@pytest.mark.parametrize("b", [0.1, 1.0, 7.0])
def test_laplace(b):
    law = Laplace(b)
    assert math.isclose(law.fisher_information, 1 / b**2)
    assert math.isclose(law.variance, 2 * b**2)
    assert law.expected_squared_curvature == math.inf
    assert law.curvature(1.0) == 0
    assert law.score(0.0) == 0
    assert not np.signbit(law.score(0.0))


@pytest.mark.parametrize("g", [0.1, 1.0, 7.0])
def test_cauchy(g):
    assert math.isclose(Cauchy(g).fisher_information, 1 / (2 * g**2))
    assert math.isclose(Cauchy(g).expected_squared_curvature, 7 / (8 * g**4))


@pytest.mark.parametrize("a", [0.1, 1.0, 7.0])
def test_cos_squared(a):
    law = CosSquared(a)
    assert math.isclose(law.fisher_information, math.pi**2 / a**2)
    assert math.isclose(law.variance, a**2 * (1 / 3 - 2 / math.pi**2))
    # `mech:trigonometry` with lower end −a and upper end a: (2/2a) cos²(πd/2a).
    x = np.linspace(-a, a, 11)
    np.testing.assert_allclose(law.pdf(x), np.cos(np.pi * x / (2 * a)) ** 2 / a, atol=1e-15 / a)


def test_jumps_are_infinite_information():
    assert Uniform().fisher_information == math.inf
    assert Staircase(1.0).fisher_information == math.inf
    assert math.isclose(Uniform(3.0).variance, 3.0)


def test_logistic():
    assert math.isclose(Logistic().fisher_information, 1 / 3)
    assert math.isclose(Logistic().expected_squared_curvature, 2 / 15)
    assert math.isclose(Logistic().variance, math.pi**2 / 3)


def test_student_between_cauchy_and_gaussian():
    cauchy, student = Cauchy(2.0), StudentT(1.0, 2.0)
    x = np.linspace(-9, 9, 25)
    for name in ("logpdf", "score", "curvature", "cdf"):
        np.testing.assert_allclose(
            getattr(student, name)(x), getattr(cauchy, name)(x), rtol=1e-12, atol=1e-14
        )
    assert math.isclose(student.fisher_information, cauchy.fisher_information)
    assert math.isclose(student.expected_squared_curvature, cauchy.expected_squared_curvature)
    # The first difference to a Gaussian is of order x⁴/4ν.
    np.testing.assert_allclose(StudentT(1e12).logpdf(x), Gaussian().logpdf(x), atol=3e-9)
    assert math.isclose(StudentT(1e12).expected_squared_curvature, 1, rel_tol=1e-10)


def test_a_mixture_of_one_and_of_equals_is_gaussian():
    gaussian = Gaussian(4.0, 1.0)
    x = np.linspace(-20, 20, 17)
    for mixture in (
        GaussianMixture([1.0], [1.0], [2.0]),
        GaussianMixture(np.array([0.25, 0.75]), (1, 1), (2, 2)),
    ):
        for name in ("logpdf", "score", "curvature", "cdf"):
            np.testing.assert_allclose(
                getattr(mixture, name)(x), getattr(gaussian, name)(x), rtol=1e-12, atol=1e-14
            )
        assert math.isclose(mixture.fisher_information, 0.25, rel_tol=1e-12)
        assert math.isclose(mixture.expected_squared_curvature, 1 / 16, rel_tol=1e-12)


def test_far_apart_components_keep_their_own_information():
    # 200 standard deviations apart: I = Σ w_i/σ_i², E l''² = Σ w_i/σ_i⁴ up to e^-5000.
    law = GaussianMixture((0.25, 0.75), (-100.0, 100.0), (1.0, 0.5))
    assert math.isclose(law.fisher_information, 0.25 + 0.75 * 4, rel_tol=1e-12)
    assert math.isclose(law.expected_squared_curvature, 0.25 + 0.75 * 16, rel_tol=1e-12)


class TestStaircase:
    def test_the_ratio_at_distance_delta_is_epsilon_everywhere(self):
        law = Staircase(0.7, sensitivity=2.0)
        x = np.linspace(-30, 30, 2001) + 1e-4
        ratio = law.logpdf(x) - law.logpdf(x + 2.0)
        # Rounding decides on the exact step edges only.
        np.testing.assert_array_less(np.abs(ratio), 0.7 + 1e-12)
        assert math.isclose(np.abs(ratio).max(), 0.7, rel_tol=1e-12)

    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0, 1400.0])
    def test_default_gamma_minimises_the_mean_absolute_error(self, epsilon):
        law = Staircase(epsilon)
        assert 0 < law.gamma <= 0.5
        if epsilon > 100:  # γ = e^-700: positive, not 1/(1 + inf)
            return
        best = _mean_absolute(law)
        # E|X| = e^{ε/2}/(e^ε − 1) at the optimum (Geng and Viswanath, Theorem 4).
        assert math.isclose(best, math.exp(epsilon / 2) / math.expm1(epsilon), rel_tol=1e-9)
        for factor in (0.9, 1.1):
            assert _mean_absolute(Staircase(epsilon, gamma=factor * law.gamma)) > best

    def test_jumps_listed(self):
        law = Staircase(1.0, sensitivity=2.0, gamma=0.25)
        assert law.jumps[31:33] == (-0.5, 0.5)
        assert law.jumps[33] == 2.5
        for j in law.jumps[32:]:
            inside, outside = law.logpdf([j - 1e-9, j + 1e-9])
            assert math.isclose(inside - outside, 1.0, rel_tol=1e-12)


def _mean_absolute(law):
    """E|X| from the definition: stairs times places."""
    b, gamma = math.exp(-law.epsilon), law.gamma
    c = gamma + b * (1 - gamma)
    return b / (1 - b) + (gamma**2 + b * (1 - gamma**2)) / (2 * c)
