"""Clipped releases: least squares is biased as predicted, maximum likelihood attains its bound.

The table of safe-release.md 6: σ = 1, τ = .7, three coefficients, 12 % and 21 % clipped. Thresholds
follow from the number of trials: means within 5 of their standard deviations (one run in 600,000
an entry), covariances by the χ² of `test_attained`.
"""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from privest.estimator import ClippedRows, cost_of_rows, estimate_clipped, maximum_likelihood
from privest.estimator.likelihood import ClippedLikelihood

THETA, TAU = np.array([0.15, 0.75, -0.6]), 0.7
LEVEL = TAU**-2


def require_covariance(errors, covariance):
    """N(tr A − log det A − n) ~ χ², A = C^-½ Ĉ C^-½: one false alarm in a million."""
    trials, n = errors.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), errors.T)
    values = np.linalg.eigvalsh(white @ white.T / trials)
    statistic = trials * (values.sum() - np.log(values).sum() - n)
    assert statistic < scipy.stats.chi2.isf(1e-6, n * (n + 1) / 2)


def design(rows):
    rng = np.random.default_rng(0)
    return np.column_stack([np.ones(rows), rng.uniform(-1, 1, (rows, 2))])


def range_for(H, share):
    """The symmetric range that clips this share."""

    def off(end):
        return cost_of_rows(H, THETA, 1.0, LEVEL, (-end, end)).share - share

    end = scipy.optimize.brentq(off, 0.5, 5.0)
    return -end, end


def clipped_releases(H, limits, trials, seed):
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        y = H @ THETA + rng.standard_normal(len(H))
        yield np.clip(y, *limits) + TAU * rng.standard_normal(len(H))


def require_table(share, rows, trials):
    """Errors of both estimators against what `clipping_cost` and J say; their mean squares."""
    H = design(rows)
    limits = range_for(H, share)
    cost = cost_of_rows(H, THETA, 1.0, LEVEL, limits)
    fits, naive = [], []
    inverse = np.linalg.pinv(H)
    for z in clipped_releases(H, limits, trials, 1):
        fits.append(estimate_clipped(ClippedRows(H, z, 1.0, LEVEL, *limits)))
        naive.append(inverse @ z - THETA)
    errors, naive = np.array([fit.value - THETA for fit in fits]), np.array(naive)
    for found, bias in ((errors, 0.0), (naive, cost.bias)):
        deviation = found.std(axis=0) / np.sqrt(trials)
        assert (np.abs(found.mean(axis=0) - bias) < 5 * deviation).all(), (share, bias)
    covariance = np.mean([fit.covariance for fit in fits], axis=0)
    require_covariance(errors, covariance)
    # At θ̂ and not at θ: the mean of that is off by the second order, a few times 1/rows.
    ratio = np.sqrt(np.diagonal(covariance)) / cost.standard_error
    assert np.abs(ratio - 1).max() < 10 / rows
    squares = (naive**2).sum(axis=1)
    predicted = cost.least_squares_ratio @ np.diagonal(fits[0].bound)
    assert abs(squares.mean() - predicted) < 5 * squares.std() / np.sqrt(trials)
    return squares.mean(), (errors**2).sum(axis=1).mean(), fits[0], cost


@pytest.mark.parametrize("share", [0.12, 0.21])
def test_maximum_likelihood_is_unbiased_where_least_squares_is_not(share):
    _, _, fit, cost = require_table(share, rows=600, trials=250)
    # The bias must be there for the test to be worth anything: many of its standard deviations.
    assert (np.abs(cost.bias[1:]) > 10 * np.sqrt(np.diagonal(fit.bound)[1:] / 250)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("share", "loss", "times"), [(0.12, 0.145, 2.7), (0.21, 0.279, 5.9)])
def test_the_table_in_full(share, loss, times):
    """2000 rows, 3000 runs. ML/bound as in the table: 1 within 5 Monte Carlo errors of a mean
    square, √(2/3)/√3000 each; the loss and the factor of least squares are those of another
    design there, and agree to a tenth of what is lost, and to a fifth.
    """
    trials = 3000
    naive, own, fit, cost = require_table(share, 2000, trials)
    bound = np.square(cost.standard_error).sum()
    assert abs(own / bound - 1) < 5 * np.sqrt(2 / 3 / trials)
    lost = bound / np.trace(fit.bound) - 1
    assert lost == pytest.approx(loss, rel=0.1)
    assert naive / own == pytest.approx(times, rel=0.2)


def test_many_trials_at_once_agree():
    """Newton, batched, on the same likelihood: the same maxima, to 1e-5 standard errors."""
    H = design(300)
    limits = range_for(H, 0.21)
    z = np.array(list(clipped_releases(H, limits, 40, 2)))
    likelihood = ClippedLikelihood(1.0, noise=TAU**2, low=limits[0], high=limits[1])
    together = maximum_likelihood(H, z, likelihood, starts=0)
    assert together.converged.all()
    for release, theta in zip(z, together.value):
        alone = estimate_clipped(ClippedRows(H, release, 1.0, LEVEL, *limits))
        assert np.abs((alone.value - theta) / alone.standard_error).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "trials"), [(200, 300), (2000, 150)])
@pytest.mark.parametrize("share", [0.06, 0.12, 0.21])
def test_intervals_cover_where_the_noise_variance_is_not_known(share, rows, trials):
    """95 %, each coefficient within 4 deviations of a share of so many trials (.05, .07).

    t_f on least squares covers less than .3 of a coefficient at 21 % with 2000 rows.
    """
    H = design(rows)
    limits = range_for(H, share)
    covered, plain, of_variance = np.zeros(3), np.zeros(3), 0
    inverse = np.linalg.pinv(H)
    root = scipy.stats.t.ppf(0.975, rows - 3) * np.sqrt((inverse**2).sum(axis=1) / (rows - 3))
    for z in clipped_releases(H, limits, trials, 5):
        found = estimate_clipped(ClippedRows(H, z, 1.0, LEVEL, *limits), variance_known=False)
        naive = inverse @ z
        plain += np.abs(naive - THETA) < root * np.linalg.norm(z - H @ naive)
        low, high = found.interval().T
        covered += (low < THETA) & (high > THETA)
        least, most = found.noise_interval()
        of_variance += least < 1 < most
    allowed = 4 * np.sqrt(0.95 * 0.05 / trials)
    assert (np.abs(covered / trials - 0.95) < allowed).all(), covered / trials
    assert abs(of_variance / trials - 0.95) < allowed, of_variance / trials
    if (share, rows) == (0.21, 2000):
        assert plain.min() < 0.3 * trials, plain / trials
