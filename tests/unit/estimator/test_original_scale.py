"""Means and totals in the reader's units: expectations by quadrature, functions by mpmath.

An estimate is unbiased when the integral of it over its law is the truth: no Monte Carlo is needed
where η̂ is normal and v̂ a χ². Gauss rules with 30 nodes: their error is below 1e-9 here, or
the identities would not hold to it; for polynomials 8 nodes are exact.
"""

import math

import mpmath
import numpy as np
import pytest
import scipy.special

from privest.errors import InvalidInput
from privest.estimator.inference._original_scale import (
    as_factor,
    as_percent,
    likelihood_mean,
    log_hyp0f1,
    lognormal_mean,
    reading_factor,
    smeared_mean,
)
from privest.estimator.inference._totals import noise_factor, total_of
from privest.lattice import GRID


def normal_nodes(mean, variance, count=60):
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return mean + math.sqrt(variance) * nodes, weights / weights.sum()


def chi_square_nodes(variance, freedom, count=60):
    """Nodes of v̂ ~ v χ²_f/f, by generalised Laguerre."""
    nodes, weights = scipy.special.roots_genlaguerre(count, freedom / 2 - 1)
    return 2 * variance * nodes / freedom, weights / weights.sum()


def expected(estimate, eta, leverage, variance, freedom, count=30):
    """E estimate(η̂, v̂) under least squares."""
    etas, of_eta = normal_nodes(eta, variance * leverage, count)
    scatters, of_scatter = chi_square_nodes(variance, freedom, count)
    return sum(
        p * q * estimate(e, v) for e, p in zip(etas, of_eta) for v, q in zip(scatters, of_scatter)
    )


@pytest.mark.parametrize("b", [0.5, 1.5, 5.0, 218.5, 5e3, 5e6])
@pytest.mark.parametrize("t", [1e-8, 0.01, 0.5, 5.0, 60.0, 1e3])
def test_the_logarithm_of_0f1_against_mpmath(b, t):
    """To 2⁻⁵³ a term, of which there are fewer than 2000, and of the value itself."""
    with mpmath.workdps(40):
        exact = float(mpmath.log(mpmath.hyp0f1(mpmath.mpf(b), mpmath.mpf(b) * mpmath.mpf(t))))
    assert log_hyp0f1(b, b * t) == pytest.approx(exact, rel=4e-13, abs=1e-15)


def test_0f1_where_nothing_scatters_and_where_all_does():
    assert log_hyp0f1(3.0, 0.0) == 0.0
    with pytest.raises(InvalidInput, match="scatters too much"):
        log_hyp0f1(5.0, 1e14)


@pytest.mark.parametrize(("freedom", "leverage"), [(5, 0.3), (27, 0.1), (197, 0.02), (9, 1.0)])
@pytest.mark.parametrize("level", [1.0, 4.0])
def test_the_mean_of_a_logarithm_is_exactly_unbiased(freedom, leverage, level):
    eta, own = 0.7, 0.25
    variance = own + 1 / level

    def mean(e, v):
        return lognormal_mean(e, leverage, v, freedom, 1 / level).mean

    truth = math.exp(eta + own / 2)
    found = expected(mean, eta, leverage, variance, freedom)
    assert found == pytest.approx(truth, rel=1e-9)
    # What it replaces is not: with v̂ for σ² the mean is too large by e^{1/2s} and more.
    naive = expected(lambda e, v: math.exp(e + v / 2), eta, leverage, variance, freedom)
    assert naive > truth * math.exp(0.4 / level)


def test_intervals_cover_what_they_say():
    """95 % of 3000 tables; 5 standard deviations of a share are .02. Few rows at a low level, where
    the floor makes it more.
    """
    rng, trials, rows = np.random.default_rng(3), 3000, 40
    H = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    theta, row, own = np.array([1.0, 0.3, -0.2]), np.array([1.0, 0.5, -1.0]), 0.25
    leverage, freedom = float(row @ np.linalg.inv(H.T @ H) @ row), rows - 3
    for level, most in ((0.5, 0.99), (4.0, 0.97)):
        w = math.sqrt(own + 1 / level) * rng.standard_normal((trials, rows))
        fits = (H @ theta + w) @ np.linalg.pinv(H).T
        scatter = ((H @ theta + w - fits @ H.T) ** 2).sum(axis=1) / freedom
        found = [
            lognormal_mean(e, leverage, v, freedom, 1 / level) for e, v in zip(fits @ row, scatter)
        ]
        for ends, truth in (
            ([one.interval for one in found], math.exp(row @ theta + own / 2)),
            ([one.median_interval for one in found], math.exp(row @ theta)),
        ):
            low, high = np.array(ends).T
            assert 0.93 < ((low < truth) & (truth < high)).mean() < most


def test_rows_far_from_the_table_are_refused():
    with pytest.raises(InvalidInput, match="can be negative"):
        lognormal_mean(0.0, 1.01, 1.0, 10, 0.5)
    with pytest.raises(InvalidInput, match="not negative"):
        lognormal_mean(0.0, 0.5, -1.0, 10, 0.5)


def test_likelihood_and_least_squares_agree_where_rows_are_many():
    """η̂ and v̂ independent: cov (η̂, σ̂²) = diag(va, 2v²/f); means differ by order 1/f²."""
    f, a, v, added = 1e5, 1e-4, 0.7, 0.4
    exact = lognormal_mean(0.3, a, v, f, added)
    other = likelihood_mean(0.3, v - added, np.diag([v * a, 2 * v**2 / f]), freedom=f)
    assert other.mean == pytest.approx(exact.mean, rel=1e-8)
    np.testing.assert_allclose(other.interval, exact.interval, rtol=1e-9)
    np.testing.assert_allclose(other.median_interval, exact.median_interval, rtol=1e-12)


def test_smearing_is_right_where_readings_are_skewed():
    """Exponential w: E e^w = 1/(1 − .3). Within 5 deviations; the lognormal mean is 3 % off."""
    rng, trials, rows, level = np.random.default_rng(4), 4000, 200, 4.0
    w = 0.3 * (rng.exponential(size=(trials, rows)) - 1)
    z = 1.0 + w + rng.standard_normal((trials, rows)) / math.sqrt(level)
    eta = z.mean(axis=1)
    average = np.exp(z - eta[:, None]).mean(axis=1)
    found = np.array(
        [smeared_mean(e, m, noise_factor("gaussian", 1 / level)) for e, m in zip(eta, average)]
    )
    truth = math.exp(1.0 - 0.3) / 0.7
    # Its own bias is of order v/K: a part in 400 at most.
    assert abs(found.mean() / truth - 1) < 5 * found.std() / truth / math.sqrt(trials) + 1 / 400
    assert abs(found.mean() * math.exp(1 / (2 * level)) / truth - 1) > 0.1  # without it


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("logarithm", [True, False])
def test_totals_and_their_variances_are_unbiased_given_the_readings(law, logarithm):
    """E of total and of variance over the noise of one reading, by quadrature."""
    y, added = 1.7, 0.3
    nodes, weights = noise_nodes(law, added)
    found = [total_of([np.array([y + e])], added, logarithm=logarithm, law=law) for e in nodes]
    truth = math.exp(y) if logarithm else y
    totals = np.array([one.total for one in found])
    assert weights @ totals == pytest.approx(truth, rel=1e-8)
    variance = weights @ (totals - truth) ** 2
    squares = np.array([one.standard_error for one in found]) ** 2
    assert weights @ squares == pytest.approx(variance, rel=1e-7)
    if law == "gaussian" and logarithm:
        assert variance == pytest.approx(truth**2 * math.expm1(added), rel=1e-8)


def noise_nodes(law, added):
    if law == "gaussian":
        return normal_nodes(0.0, added, 80)
    nodes, weights = np.polynomial.laguerre.laggauss(120)
    scale = math.sqrt(added / 2)
    both = np.concatenate([-scale * nodes, scale * nodes])
    return both, np.concatenate([weights, weights]) / 2


@pytest.mark.parametrize("level", [0.05, 1.0, 9.0])
def test_on_the_grid_of_a_real_release_the_total_is_low_by_less_than_it_says(level):
    """Every law of the rounding (fractions f) and the whole discrete Gaussian, summed."""
    c, sigma2 = GRID / math.sqrt(level), GRID**-2 + 0.5
    k = np.arange(-40_000, 40_001)
    p = np.exp(-(k**2) / (2 * sigma2))
    factor = float(p @ np.exp(c * k) / p.sum())
    added = (1 + 0.75 * GRID**2) / level
    for f in (0.0, 0.1, 0.5, 0.9):
        rounded = (1 - f) * math.exp(-c * f) + f * math.exp(c * (1 - f))
        off = math.log(factor * rounded) - added / 2
        assert -(GRID**2) / (8 * level) * (1 + 1e-6) - 1e-14 < off < 1e-14 + 1e-6 * c**2
    assert off < 0


def test_totals_that_do_not_exist_are_refused():
    with pytest.raises(InvalidInput, match="no finite mean"):
        total_of([np.zeros(3)], 2.5, law="laplace")
    with pytest.raises(InvalidInput, match="no finite variance"):
        total_of([np.zeros(3)], 0.6, law="laplace")
    with pytest.raises(InvalidInput, match="'coin'"):
        total_of([np.zeros(3)], 0.5, law="coin")
    with pytest.raises(InvalidInput, match="not negative"):
        total_of([np.zeros(3)], -0.5)


def test_a_total_says_when_its_interval_is_too_short():
    rng = np.random.default_rng(7)
    y = rng.standard_normal(400) / 2
    for level, trusted in ((4.0, True), (0.25, False)):
        z = y + rng.standard_normal(400) / math.sqrt(level)
        found = total_of([z[:150], z[150:]], 1 / level)
        assert found.trusted is trusted
        assert found.rows == 400
        assert found.to_dict()["trusted"] is trusted


def test_words_for_coefficients_and_readings():
    np.testing.assert_allclose(as_percent([0.1, -0.1]), [10.517091807564771, -9.516258196404048])
    np.testing.assert_allclose(as_factor(np.log([2.0, 0.25])), [2.0, 0.25])
    assert reading_factor(25.0) == pytest.approx(1.2214027581601699)
