"""Huber's estimate at the end of a stream, with errors by blocks of time."""

import numpy as np
import pytest
import scipy

import privest as pv
from privest.errors import InvalidInput
from privest.estimator._stream_conclusion import conclude
from privest.estimator._stream_guard import conclude_huber
from privest.estimator.inference import WeightedRows
from privest.estimator.inference._robust import fit_huber
from serial_streams import hourly, remembering

NAMES = ("intercept", "temperature", "evening", "weekend")
THETA = np.array([1.0, -0.05, 0.4, 0.2])
LEVEL, COUNT = pv.EndlessLevel(4.0), 336
H = hourly(COUNT)


def learnt(y, rng, level=LEVEL):
    """An estimator that knows no noise variance, and the releases that it has seen."""
    rls = pv.PrivateRLS(level, 4, pv.noise.Gaussian(cov=np.zeros(1)), blocks=True, compiled=False)
    release = pv.StreamMechanism(level).simulate(y, rng)
    rls.update(release, H)
    return rls, release


def both(noise, rng):
    """(least squares, Huber) of a stream with this noise."""
    rls, release = learnt(H @ THETA + noise, rng)
    shown = COUNT if release.missing is None else COUNT - int(release.missing.sum())
    plain = conclude(rls, shown, NAMES, known=False)
    return plain, conclude_huber(rls, release, H, NAMES, known=False)


def wild(rng, shape, how="spread"):
    """5 % of the readings are off by 10σ."""
    size = 10 * (rng.standard_normal(shape) if how == "spread" else 1.0)
    return size * (rng.random(shape) < 0.05)


def covered(found):
    low, high = found.interval().T
    return (low <= THETA) & (high >= THETA)


def trials(rng, noises):
    """Estimates and hits of least squares and of Huber, (2, trials, n) each."""
    pairs = [both(noise, rng) for noise in noises]
    estimates = np.array([[found.estimate for found in pair] for pair in pairs])
    hits = np.array([[covered(found) for found in pair] for pair in pairs])
    return estimates.swapaxes(0, 1), hits.swapaxes(0, 1)


def deviations(hits, share):
    """How far a number of hits is from its share, in standard deviations."""
    count = hits.shape[0]
    return (hits.mean(axis=0) - share) / np.sqrt(share * (1 - share) / count)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_wild_readings_cost_least_squares_its_accuracy_and_huber_little(correlation):
    """At sσ² = 4, 5 % of the readings off by 10σ: six noise variances for least squares."""
    rng, count = np.random.default_rng(5), 100
    clean = remembering(rng, (count, COUNT), correlation)
    estimates, hits = trials(rng, clean + wild(rng, clean.shape))
    squares = np.square(estimates - THETA).mean(axis=1)
    # without memory 3.5 to 4.5 times the variance; the log of a ratio of two mean squares of 100
    # trials has deviation 2/√100 at most, and is four of these off in one of 10⁴ cases
    most = np.exp(4 * 2 / np.sqrt(count))
    ratio = squares[0] / squares[1]
    assert (ratio > (3.5 if correlation == 0 else 1.6) / most).all()
    # .93 to .97 by blocks, .90 where they remember (real-tables.md 6)
    assert (deviations(hits[1], 0.95 if correlation == 0 else 0.91) > -4).all()
    clean_estimates, clean_hits = trials(rng, clean)
    kept = np.square(clean_estimates - THETA).mean(axis=1)
    assert (kept[0] / kept[1] > 0.95 / most).all()  # 95 % efficient
    assert (deviations(clean_hits[1], 0.95 if correlation == 0 else 0.91) > -4).all()


def test_readings_off_to_one_side_move_least_squares_and_not_huber():
    """Its intercept is off by .05·10 = .5, and its intervals miss; Huber's is off by a tenth."""
    rng, count = np.random.default_rng(6), 80
    noises = rng.standard_normal((count, COUNT)) + wild(rng, (count, COUNT), "one side")
    estimates, hits = trials(rng, noises)
    spread = estimates.std(axis=1) / np.sqrt(count)
    off = (estimates - THETA).mean(axis=1)
    assert off[0, 0] > 0.5 - 4 * spread[0, 0]
    assert off[1, 0] < 0.5 / 3
    assert deviations(hits[1], 0.9)[0] > -4
    assert hits[1].mean(axis=0)[0] > hits[0].mean(axis=0)[0]


def test_three_readings_of_a_broken_sensor():
    rng = np.random.default_rng(7)
    noise = rng.standard_normal(COUNT)
    noise[[20, 21, 200]] += 1e5
    plain, found = both(noise, rng)
    assert np.abs(plain.estimate - THETA).max() > 100
    assert (np.abs(found.estimate - THETA) < 5 * found.stated_error).all()
    width = np.diff(found.interval())[:, 0]
    assert (width < np.diff(plain.interval())[:, 0] / 100).all()
    assert "% of the rows count for less than one" in found.remark


def test_errors_are_those_of_the_dense_sandwich():
    """ψ and ψ′ of every row, blocks of 32 hours, one of them shorter, and two readings missing."""
    rng = np.random.default_rng(8)
    y = H @ THETA + remembering(rng, (COUNT,), 0.5) + wild(rng, COUNT)
    y[[40, 41]] = np.nan
    rls, release = learnt(y, rng)
    found = conclude_huber(rls, release, H, NAMES, known=False)
    seen, A = ~np.isnan(y), np.linalg.inv(H.T @ H)
    z = release.values / 2
    scale = fit_huber(lambda: [WeightedRows(H[seen], z[seen])], rls.estimate, A, 0.25).scale
    left = np.where(seen, z - H @ found.estimate, 0.0)
    median = np.median(np.abs(left[seen])) / scipy.stats.norm.ppf(0.75)
    assert scale == pytest.approx(median, rel=5e-3)  # it was read off a histogram
    inside, rows = seen & (np.abs(left) <= 1.345 * scale), int(seen.sum())
    mean = inside.sum() / rows
    kappa = 1 + 4 / rows * (1 - mean) / mean
    scores = kappa * np.clip(left, -1.345 * scale, 1.345 * scale)[:, None] * H
    assert (np.abs(scores.sum(axis=0)) < 1e-6 * np.abs(scores).sum(axis=0)).all()  # SETTLED
    blocks = np.split(np.arange(COUNT), range(32, COUNT, 32))
    slopes = np.stack([H[b].T @ (H[b] * inside[b, None]) for b in blocks])
    A = np.linalg.inv(slopes.sum(axis=0))
    meat = np.zeros((4, 4))
    for M, block in zip(slopes, blocks):  # (I − M_bA)^{-½} g_b, which is C⁻ᵀ(I − CᵀM_bC)^{-½}Cᵀg_b
        turned = np.linalg.inv(scipy.linalg.sqrtm(np.eye(4) - M @ A)).real
        score = turned @ scores[block].sum(axis=0)
        meat += np.outer(score, score)
    expected = np.sqrt((A @ meat @ A).diagonal())
    np.testing.assert_allclose(found.by_blocks.standard_error, expected, rtol=1e-9)
    assert (found.by_blocks.blocks, found.by_blocks.length) == (11, 32)
    assert found.noise_variance == pytest.approx(scale**2 - 0.25)


def test_a_feature_at_which_readings_scatter_more_keeps_its_interval():
    """With mean ψ′ in place of each row's own it would cover .53 of 95 %."""
    rng, count = np.random.default_rng(9), 100
    noises = rng.standard_normal((count, COUNT)) * np.where(H[:, 2] > 0, 12.0, 2.0)
    _, hits = trials(rng, noises)
    assert (deviations(hits[1], 0.95) > -4).all()


def test_what_cannot_be_fitted_is_least_squares_and_says_so():
    rng = np.random.default_rng(10)
    level = pv.EndlessLevel(4.0, lags=[0.5])
    rls, release = learnt(H @ THETA, rng, level)
    with pytest.raises(InvalidInput, match="shown one by one"):
        conclude_huber(rls, release, H, NAMES)
    few = pv.PrivateRLS(LEVEL, 2, pv.noise.Gaussian(cov=np.zeros(1)), blocks=True)
    release = pv.StreamMechanism(LEVEL).simulate([1.0, 2.0], rng)
    rows = np.array([[1.0, 0.0], [1.0, 1.0]])
    few.update(release, rows)
    found = conclude_huber(few, release, rows, ("a", "b"), known=False)
    assert "not Huber's: there are as many coefficients as readings" in " ".join(found.warnings)
    np.testing.assert_allclose(found.estimate, few.estimate)
