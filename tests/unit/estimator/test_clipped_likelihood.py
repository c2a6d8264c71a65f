"""The likelihood of a clipped and released reading, against high precision and quadrature."""

import itertools

import mpmath as mp
import numpy as np
import pytest
import scipy.integrate

from privest.errors import InvalidInput
from privest.estimator.likelihood import ClippedLikelihood, GaussianLikelihood
from privest.estimator.likelihood._clipped import (
    DEGREE,
    INSIDE,
    OUTSIDE,
    InformationTable,
    clipped_information,
    clipped_moments,
    clipped_terms,
    direct_information,
)

DIGITS = 80


def in_high_precision(z, eta, sigma, tau, low, high):
    """ℓ, ℓ', −ℓ'' from the three masses in 80 digits, and differences of them."""
    with mp.workdps(DIGITS):
        z, eta, s, t, a, b = (mp.mpf(float(x)) for x in (z, eta, sigma, tau, low, high))

        def upper(x):
            return mp.erfc(x / mp.sqrt(2)) / 2

        def normal(x, sd):
            return mp.exp(-((x / sd) ** 2) / 2) / (sd * mp.sqrt(2 * mp.pi))

        def log_density(m):
            v = mp.sqrt(s**2 + t**2)
            c, w = (s**2 * z + t**2 * m) / v**2, s * t / v
            first, last = (a - c) / w, (b - c) / w
            side = 1 if first > 0 else -1  # upper tails are small numbers, not 1 − small
            middle = abs(upper(side * first) - upper(side * last))
            clipped = upper((m - a) / s) * normal(z - a, t) + upper((b - m) / s) * normal(z - b, t)
            return mp.log(clipped + normal(z - m, v) * middle)

        h = mp.mpf(10) ** -25
        here, up, down = log_density(eta), log_density(eta + h), log_density(eta - h)
        return float(here), float((up - down) / (2 * h)), float(-(up - 2 * here + down) / h**2)


def points():
    """All orders of size, and the corners that §6 names: |z|, |η| = 40, and ten times as far."""
    rng = np.random.default_rng(1)
    for _ in range(150):
        sigma, tau = 10 ** rng.uniform(-1, 1, 2)
        low = rng.uniform(-3, 0)
        z, eta = rng.standard_normal(2) * 10 ** rng.uniform(-1, 1.7)
        yield z, eta, sigma, tau, low, low + 10 ** rng.uniform(-1, 1)
    for size in (40.0, 400.0, 4e4):
        for z in (-size, 0.3, size):
            for eta in (-size, 0.3, size):
                yield z, eta, 1.0, 0.7, -1.0, 1.5


def test_value_slope_and_curvature_in_80_digits():
    """Rounding: eps of 1 + |ℓ|; means and variances eps·max(A², 1/d) with A ≤ 100, d ≥ 0.01."""
    given = np.array(list(points()))
    value, slope, spread, _ = clipped_terms(*given.T)
    sigma = given[:, 2]
    for k, point in enumerate(given):
        exact, first, second = in_high_precision(*point)
        assert abs(value[k] - exact) <= 1e-14 * (1 + abs(exact)), point
        assert abs(slope[k] - first) * sigma[k] <= 4e-12 * (1 + abs(first) * sigma[k]), point
        assert abs((1 - spread[k]) / sigma[k] ** 2 - second) * sigma[k] ** 2 <= 1e-10, point


def test_the_density_is_that_of_an_integral():
    """Independent route: ∫ φ_τ(z − clip(y)) φ_σ(y − η) dy by quad, 1e-13 of it."""
    sigma, tau, low, high = 1.3, 0.7, -1.0, 1.5
    for eta in (-2.0, 0.4, 3.0):
        for z in (-2.5, -1.0, 0.3, 1.5, 2.2):

            def integrand(y, z=z, eta=eta):
                e, w = (z - min(max(y, low), high)) / tau, (y - eta) / sigma
                return np.exp(-0.5 * (e * e + w * w)) / (2 * np.pi * sigma * tau)

            cuts = [eta - 14 * sigma, low, high, eta + 14 * sigma]
            cuts = sorted([*cuts, *(eta + k * sigma for k in (-6, -3, -1, 0, 1, 3, 6))])
            whole = sum(
                scipy.integrate.quad(integrand, a, b, epsabs=0, epsrel=2e-14)[0]
                for a, b in itertools.pairwise(cuts)
            )
            found = np.exp(clipped_terms(z, eta, sigma, tau, low, high)[0])
            assert abs(found / whole - 1) < 1e-13, (z, eta)


@pytest.mark.parametrize(("eta", "tau"), [(0.2, 0.7), (-3.0, 0.1), (1.4, 5.0)])
def test_it_integrates_to_one_and_the_score_to_zero(eta, tau):
    """Gauss panels of half a τ (10 points): far beyond their error is rounding, 1e-13 in all."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    edges = np.linspace(-1.0 - 12 * tau, 1.5 + 12 * tau, 2 + int(2 * (2.5 + 24 * tau) / tau))
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half + half * nodes).ravel()
    weight = (half * weights).ravel()
    value, slope, _, _ = clipped_terms(z, eta, 1.3, tau, -1.0, 1.5)
    mass = np.exp(value) * weight
    assert abs(mass.sum() - 1) < 1e-13
    assert abs((mass * slope).sum()) < 1e-12
    exact = clipped_information(np.array([eta]), 1.3, tau, -1.0, 1.5)
    by_variance = 0.5 * (-(1 - clipped_terms(z, eta, 1.3, tau, -1.0, 1.5)[2]) / 1.69 + slope**2)
    assert abs((mass * slope**2).sum() / exact[0][0] - 1) < 1e-8
    assert abs((mass * slope * by_variance).sum() - exact[1][0]) < 1e-8
    assert abs((mass * by_variance**2).sum() / exact[2][0] - 1) < 1e-7
    assert abs((mass * by_variance).sum()) < 1e-12


def test_the_slope_in_the_variance_is_half_the_second_derivative_in_the_mean():
    """The heat equation under the mixed information, by a central difference (h² ~ 1e-9)."""
    z, eta, variance, h = np.linspace(-2, 2, 9), 0.4, 1.7, 3e-5

    def value(v):
        return clipped_terms(z, eta, np.sqrt(v), 0.7, -1.0, 1.5)[0]

    by_difference = (value(variance + h) - value(variance - h)) / (2 * h)
    _, slope, spread, _ = clipped_terms(z, eta, np.sqrt(variance), 0.7, -1.0, 1.5)
    assert np.abs(by_difference - 0.5 * ((spread - 1) / variance + slope**2)).max() < 1e-8


@pytest.mark.parametrize("width", [0.1, 1.0, 5.0, 1e6])
@pytest.mark.parametrize("tau", [0.01, 0.1, 0.7, 30.0])
def test_the_table_of_the_information(width, tau):
    """Interpolation: a function that is analytic within one σ of a panel of half-width ½ falls as
    (2 + √5)^-15 = 4e-10; the quadrature as stated. At points of no table, and reflected."""
    table = InformationTable(width, tau)
    x = np.linspace(-4.0, min(width / 2, 6.0), 23)
    square, mixed, own = table(x)
    exact, exact_mixed, exact_own = direct_information(x, width, tau)
    assert np.abs(square / exact - 1).max() < 1e-8
    assert np.abs(own - exact_own).max() < 1e-7 * exact_own.max()  # it bends more
    scale = 1 / (1 + tau**2)
    assert np.abs(mixed - exact_mixed).max() < 1e-8 * scale
    again, other, _ = table(width - x)
    # width − x has lost the digits of x beyond those of the width.
    assert np.abs(again - square).max() <= 1e-9 * scale
    assert np.abs(other + mixed).max() <= 1e-9 * scale
    assert (square <= scale * (1 + 1e-9)).all()
    assert (table(np.array([-OUTSIDE - 0.1]))[0] == 0).all()


def test_each_reading_may_have_its_own_numbers():
    """Many readings by a table, twenty others one by one: the same as alone."""
    rng = np.random.default_rng(2)
    many = int((OUTSIDE + INSIDE) * (DEGREE + 1)) + 5
    eta = rng.uniform(-2, 2, many + 20)
    tau = np.concatenate([np.full(many, 0.7), np.linspace(0.3, 2.0, 20)])
    found = clipped_information(eta, 1.3, tau, -1.0, 1.5)
    for k in (0, 7, many, many + 1, many + 19):
        alone = clipped_information(eta[k : k + 1], 1.3, float(tau[k]), -1.0, 1.5)
        assert abs(found[0][k] - alone[0][0]) < 1e-8
        assert abs(found[1][k] - alone[1][0]) < 1e-8
        assert abs(found[2][k] - alone[2][0]) < 1e-8


def test_a_wide_range_is_no_range():
    """ℓ, its slopes and I are those of N(η, σ² + τ²); the moments those of N(η, σ²)."""
    z, eta = np.array([[2.0, -3.0]]), np.array([[1.0, 0.5]])
    clipped = ClippedLikelihood(0.5, noise=1.5, low=-80.0, high=90.0)(z, eta)
    plain = GaussianLikelihood(0.5, noise=1.5)(z, eta)
    for a, b in zip(clipped, plain[:3]):
        assert np.abs(a - b).max() < 1e-13
    square, mixed, own = clipped_information(eta[0], 0.5**0.5, 1.5**0.5, -80.0, 90.0)
    assert np.abs(square - 0.5).max() < 1e-9
    assert np.abs(mixed).max() < 1e-9
    assert np.abs(own - 1 / 8).max() < 1e-9  # 1/2v²
    outside, shift, spread = clipped_moments(eta[0], 0.5**0.5, -80.0, 90.0)
    assert (outside == 0).all()
    assert np.abs(shift).max() < 1e-14
    assert np.abs(spread - 0.5).max() < 1e-14


def test_moments_by_quadrature():
    """Against quad on clip(y) φ(y − η), 1e-12."""
    sigma, low, high = 1.3, -1.0, 1.5
    for eta in (-4.0, 0.2, 9.0):

        def expected(power, centre, eta=eta):
            def integrand(y):
                value = (min(max(y, low), high) - centre) ** power
                return value * np.exp(-0.5 * ((y - eta) / sigma) ** 2) / sigma / np.sqrt(2 * np.pi)

            cuts = sorted([eta - 12 * sigma, eta, eta + 12 * sigma, low, high])
            return sum(
                scipy.integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-13)[0]
                for a, b in itertools.pairwise(cuts)
            )

        mean = expected(1, 0.0)
        outside, shift, spread = clipped_moments(np.array([eta]), sigma, low, high)
        assert abs(eta + shift[0] - mean) < 1e-12
        assert abs(spread[0] - expected(2, mean)) < 1e-12
        assert 0 < outside[0] < 1


@pytest.mark.parametrize(
    "bad", [{"noise": 0.0}, {"low": 1.0}, {"low": np.nan}, {"high": [0.5, -2.0]}]
)
def test_bad_numbers_are_told(bad):
    with pytest.raises(InvalidInput):
        ClippedLikelihood(1.0, **({"noise": 1.0, "low": -1.0, "high": 1.0} | bad))
