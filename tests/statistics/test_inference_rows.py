"""Intervals and p-values from releases alone cover, and alarm, as often as they say.

Limits: a share p over T independent trials has the deviation √(p(1 − p)/T); five of them are
allowed where p is exact, and a named band around it where a formula is approximate.
"""

import numpy as np
import pytest
import scipy

from privest.estimator.inference import (
    Scatter,
    WeightedRows,
    fit_levels,
    less_noise_p,
    row_errors,
    stated_p,
    unknown_errors,
)


def deviations(share, trials, many=5):
    return many * np.sqrt(share * (1 - share) / trials)


def half_widths(errors, confidence=0.95):
    """t·error, as a Estimate makes them."""
    size = np.sqrt(np.diagonal(errors.covariance, axis1=-2, axis2=-1))
    return scipy.special.stdtrit(errors.degrees_of_freedom, (1 + confidence) / 2) * size


@pytest.mark.parametrize(
    ("rows", "level", "trials"),
    [
        (8, 1.0, 1000),
        *(
            pytest.param(rows, level, 20_000, marks=pytest.mark.slow)
            for rows in (8, 12, 30, 200)
            for level in (10.0, 1.0, 0.1)
        ),
    ],
)
def test_students_t_from_the_release_covers(rows, level, trials):
    """σ² = 1, K = 8 to 30: exact without the floor, and at most .99 with it."""
    rng = np.random.default_rng(rows)
    H = np.column_stack([np.ones(rows), rng.normal(size=rows)])
    A, added = np.linalg.inv(H.T @ H), 1 / level
    y = rng.normal(size=(trials, rows))
    z = y + np.sqrt(added) * rng.normal(size=y.shape)
    theta = z @ H @ A
    squares = ((z - theta @ H.T) ** 2).sum(axis=1)
    covered = plain = noise = 0.0
    for k in range(trials):
        scatter = Scatter(squares[k], rows - 2, added)
        errors = unknown_errors(A, scatter)
        covered += (np.abs(theta[k]) <= half_widths(errors)).mean()
        own = scipy.special.stdtrit(rows - 2, 0.975) * np.sqrt(scatter.total * np.diag(A))
        plain += (np.abs(theta[k]) <= own).mean()
        interval = scatter.noise_interval()
        noise += interval is not None and interval[0] <= 1 <= interval[1]
    limit = deviations(0.95, trials)
    assert abs(plain / trials - 0.95) < limit
    assert 0.95 - limit < covered / trials < 0.99
    assert abs(noise / trials - 0.95) < limit


def test_p_values_of_a_known_variance_are_exact():
    trials, rng = 4000, np.random.default_rng(1)
    for freedom in (3, 100):
        drawn = 1.5 * rng.chisquare(freedom, trials)
        alarms = np.mean([stated_p(x, freedom, 1.5) < 0.01 for x in drawn])
        assert abs(alarms - 0.01) < deviations(0.01, trials)


def test_less_noise_than_stated_is_found_and_never_invented():
    trials, rng = 20000, np.random.default_rng(3)
    honest = rng.chisquare(50, trials)  # σ² = 0: the least favourable readings
    alarms = np.mean([less_noise_p(x, 50, 1.0) < 1e-3 for x in honest])
    assert alarms < 1e-3 + deviations(1e-3, trials)
    assert np.mean([less_noise_p(0.3 * x, 50, 1.0) < 1e-3 for x in honest]) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10, 30, 100])
@pytest.mark.parametrize("spread", [2.0, 4.0])
def test_reml_over_levels_covers(rows, spread):
    trials, rng = 1500, np.random.default_rng([rows, int(spread)])
    H = np.column_stack([np.ones(rows), rng.normal(size=rows)])
    added = 10 ** rng.uniform(-spread / 2, spread / 2, rows)
    covered, noise = np.zeros(2), 0.0
    for _ in range(trials):
        z = rng.normal(size=rows) * np.sqrt(1 + added)
        found = fit_levels(lambda z=z: [WeightedRows(H, z, added=added)], 2)
        covered += np.abs(found.value) <= half_widths(found.errors)
        interval = found.noise_interval
        noise += interval is not None and interval[0] <= 1 <= interval[1]
    limit = deviations(0.95, trials)
    assert (covered / trials > 0.93 - limit).all()
    assert abs(noise / trials - 0.95) < limit


@pytest.mark.slow
@pytest.mark.parametrize("level", [np.inf, 1.0, 0.1])
def test_hc3_covers_where_rows_scatter_differently(level):
    """K = 30 and 100, var w = a strong function of x: HC3 .93 to .96, classical t down to .6."""
    trials, rng = 4000, np.random.default_rng(5)
    for rows in (30, 100):
        x = rng.normal(size=rows)
        H = np.column_stack([np.ones(rows), x])
        A, size = np.linalg.inv(H.T @ H), np.exp(0.8 * np.abs(x))
        size /= np.sqrt((size**2).mean())
        covered, classical = np.zeros(2), np.zeros(2)
        for _ in range(trials):
            z = size * rng.normal(size=rows) + rng.normal(size=rows) / np.sqrt(level)
            theta = A @ H.T @ z
            rows_ = [WeightedRows(H, z, 1.0, 1 / level)]
            errors, _ = row_errors("HC3", theta, A, lambda rows_=rows_: rows_)
            covered += np.abs(theta) <= half_widths(errors)
            scatter = Scatter(float(np.sum((z - H @ theta) ** 2)), rows - 2, 1 / level)
            classical += np.abs(theta) <= half_widths(unknown_errors(A, scatter))
        limit = deviations(0.95, trials)
        assert (covered / trials > 0.925 - limit).all()
        assert (covered / trials < 0.985 + limit).all()
        if level == np.inf:
            assert classical[1] / trials < 0.85


@pytest.mark.slow
def test_survey_weights_cover_by_a_sandwich_only():
    """K = 400: HC2 .93 to .95, HC3 a little more; as inverse variances .78 to .87."""
    trials, rows, rng = 3000, 400, np.random.default_rng(6)
    x, weight = rng.normal(size=rows), np.exp(rng.normal(size=rows))
    H = np.column_stack([np.ones(rows), x])
    A = np.linalg.inv(H.T @ (H * weight[:, None]))
    covered = {"HC2": np.zeros(2), "HC3": np.zeros(2)}
    wrong = np.zeros(2)
    for _ in range(trials):
        z = rng.normal(size=rows) + rng.normal(size=rows)
        theta = A @ (H.T @ (weight * z))
        rows_ = [WeightedRows(H, z, weight, 1.0)]
        for kind, count in covered.items():
            errors, _ = row_errors(kind, theta, A, lambda rows_=rows_: rows_)
            count += np.abs(theta) <= half_widths(errors)
        left = z - H @ theta
        scale = np.sqrt((weight * left**2).sum() / (rows - 2) * np.diag(A))
        wrong += np.abs(theta) <= scipy.special.stdtrit(rows - 2, 0.975) * scale
    limit = deviations(0.95, trials)
    for count in covered.values():
        assert (np.abs(count / trials - 0.955) < 0.02 + limit).all()
    assert (wrong / trials < 0.9).all()
