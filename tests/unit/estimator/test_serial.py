"""Errors by blocks of time: against dense formulas, whatever the rows come in, and coverage."""

import itertools

import numpy as np
import pytest
import scipy

import privest as pv
from privest.errors import CheckpointError, InvalidInput
from privest.estimator._stream_conclusion import conclude
from privest.estimator.inference._cluster import cluster_errors
from privest.estimator.inference._serial import LAGS, BlockSums, serial_errors
from serial_streams import dense_cr2, hourly, remembering

RNG = np.random.default_rng(20)


def summed(rows, *parts):
    sums = BlockSums(rows.shape[1] - 1)
    for part in np.split(rows, parts):
        sums.add(part)
    return sums


def noisy(count, correlation=0.8):
    H = hourly(count)
    noise = remembering(RNG, (count,), correlation) + RNG.standard_normal(count)
    return H, H @ [1.0, 0.1, 0.5, -0.3] + noise


@pytest.mark.parametrize(("count", "length", "blocks"), [(16, 1, 16), (17, 2, 9), (336, 32, 11)])
def test_sixteen_blocks_at_most_of_equal_length(count, length, blocks):
    sums = summed(RNG.standard_normal((count, 3)))
    assert (sums.length, len(sums.counts), sums.steps) == (length, blocks, count)
    assert set(sums.counts[:-1]) == {length}
    every = [len(summed(np.ones((k, 2))).counts) for k in range(16, 400)]
    assert (min(every), max(every)) == (9, 16)


@pytest.mark.parametrize("count", [150, 336])
def test_errors_are_those_of_the_dense_formula(count):
    H, z = noisy(count)
    sums = summed(np.column_stack([H, z]), 1, 7, 50)
    estimate = np.linalg.lstsq(H, z)[0]
    found = serial_errors(sums, estimate)
    ends = np.cumsum([0, *sums.counts])
    groups = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    covariance, freedom = dense_cr2(H, z, groups)
    # both routes lose about cond(HᵀH)·eps ≈ 1e4·1e-16·K
    shown = ~found.alone
    assert shown.any()
    np.testing.assert_allclose(
        found.covariance[np.ix_(shown, shown)], covariance[np.ix_(shown, shown)], rtol=1e-8
    )
    np.testing.assert_allclose(found.degrees_of_freedom[shown], freedom[shown], rtol=1e-8)
    residual = z - H @ estimate
    lags = [residual[: count - lag] @ residual[lag:] for lag in range(LAGS + 1)]
    told = sum(lags[1:9]) > 3 * np.sqrt(8 / count) * lags[0]
    expected = sum(lags[2:]) / sum(lags[1:-1]) if told else 0.0
    assert found.correlation == pytest.approx(expected, rel=1e-8)


def test_neither_chunks_nor_a_restart_change_anything():
    rows = RNG.standard_normal((500, 4))
    whole, parts = summed(rows), summed(rows, *range(1, 40), 77, 400)
    first = summed(rows[:123])
    again = BlockSums(3)
    again.restore(first.state(), 123)
    again.add(rows[123:])
    for other in (parts, again):
        assert other.counts == whole.counts
        np.testing.assert_allclose(other._crossed, whole._crossed, atol=1e-11)
        for mine, theirs in zip(other.groups(np.ones(3)), whole.groups(np.ones(3))):
            np.testing.assert_allclose(mine, theirs, atol=1e-11)
    with pytest.raises(InvalidInput, match="122 steps together"):
        BlockSums(3).restore(first.state(), 122)


def test_what_one_block_alone_shows_has_no_interval():
    count = 320
    late = (np.arange(count) >= 0.95 * count).astype(float)
    H = np.column_stack([np.ones(count), RNG.standard_normal(count), late])
    z = RNG.standard_normal(count)
    found = serial_errors(summed(np.column_stack([H, z])), np.linalg.lstsq(H, z)[0])
    assert found.refused.tolist() == [False, False, True]
    assert np.isnan(found.standard_error).tolist() == [False, False, True]
    assert "No interval for late" in found.reasons(["one", "x", "late"])[0]


def test_a_stream_shorter_than_fifty_memories_has_no_interval():
    H = np.ones((300, 1))
    z = remembering(np.random.default_rng(1), (300,), 0.99) + 0.1 * RNG.standard_normal(300)
    found = serial_errors(summed(np.column_stack([H, z])), np.array([z.mean()]))
    assert found.too_short
    assert found.refused.all()
    assert "300 are too few" in found.reasons(["mean"])[0]
    white = RNG.standard_normal(300)
    calm = serial_errors(summed(np.column_stack([H, white])), np.array([white.mean()]))
    assert (calm.correlation, calm.refused.any(), calm.reasons(["mean"])) == (0.0, False, [])


def test_the_estimator_of_a_stream_keeps_them():
    """One by one, in blocks, with gaps, looking back, taken up again: the same errors."""
    H, y = noisy(200)
    y[[3, 77]] = np.nan
    for lags in ([], [0.5]):
        level = pv.StreamLevel.constant(2.0, lags=lags)
        release = pv.StreamMechanism(level).simulate(y, np.random.default_rng(1))
        sizes = [1] * 200
        kinds = [pv.PrivateRLS(level, 4, 1.0, blocks=True) for _ in range(4)]
        kinds[0].update(release, H)
        for k in range(200):
            kinds[1].update(release.part(k, k + 1, sizes), H[k])
        kinds[2].update(release, H)
        first = pv.PrivateRLS(level, 4, 1.0, blocks=True)
        first.update(release.part(0, 90, sizes), H[:90])
        kinds[3].restore(first.state())
        kinds[3].update(release.part(90, 200, sizes), H[90:])
        found = [each.block_errors() for each in kinds]
        for other in found[1:]:
            np.testing.assert_allclose(other.covariance, found[0].covariance, rtol=1e-9)
            assert other.correlation == pytest.approx(found[0].correlation, abs=1e-9)
        assert (found[0].steps, found[0].blocks, found[0].length) == (200, 13, 16)


def test_states_without_blocks_are_refused_in_a_sentence():
    old, new = pv.PrivateRLS(1.0, 1, 1.0), pv.PrivateRLS(1.0, 1, 1.0, blocks=True)
    release = pv.StreamMechanism(1.0).simulate([0.2, 0.1], np.random.default_rng(0))
    old.update(release, np.ones((2, 1)))
    with pytest.raises(CheckpointError, match="older privest"):
        new.restore(old.state())
    assert new.steps == 0
    with pytest.raises(InvalidInput, match="blocks=True"):
        old.block_errors()


def covered(count, correlation, trials, seed, scaled=1.0):
    """Shares of intervals by blocks and by the stated noise that cover, (n,) each; sγ₀ `scaled`."""
    rng, H = np.random.default_rng(seed), hourly(count)
    noise = remembering(rng, (trials, count), correlation)
    z = noise + rng.standard_normal((trials, count)) / np.sqrt(scaled)
    A = np.linalg.inv(H.T @ H)
    error = z @ H @ A
    sums = summed(np.column_stack([H, z[0]]))
    ends = np.cumsum([0, *sums.counts])
    rest = z - error @ H.T
    scores = [rest[:, a:b] @ H[a:b] for a, b in itertools.pairwise(ends)]
    found = cluster_errors(sums.groups(error[0])[0], np.stack(scores, axis=1))
    quantile = scipy.special.stdtrit(found.degrees_of_freedom, 0.975)
    stated = np.sqrt((1 + 1 / scaled) * A.diagonal())
    by_blocks = (np.abs(error) <= quantile * found.standard_error).mean(axis=0)
    return by_blocks, (np.abs(error) <= 1.96 * stated).mean(axis=0), found.degrees_of_freedom


def test_blocks_cover_where_the_stated_errors_do_not():
    """The middle of 93 to 97 % within 4 deviations of 1500 trials (0.0056 each)."""
    blocks, stated, freedom = covered(336, 0.8, 1500, 3)
    assert (freedom > 3).all()
    assert (np.abs(blocks - 0.945) < 0.015 + 4 * np.sqrt(0.05 * 0.95 / 1500)).all()
    assert stated[0] < 0.75
    assert stated[3] < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "correlation"), [(336, 0.0), (2016, 0.0), (2016, 0.8), (2016, 0.95)]
)
def test_blocks_cover_at_many_lengths(count, correlation):
    blocks, stated, _ = covered(count, correlation, 4000, 4)
    assert (np.abs(blocks - 0.95) < 0.02 + 4 * np.sqrt(0.05 * 0.95 / 4000)).all()
    if correlation:
        assert stated[0] < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "correlation"), [(336, 0.0), (336, 0.8), (2016, 0.8), (2016, 0.95)]
)
def test_intervals_that_are_printed_cover(count, correlation):
    """Through `conclude`, σ² unknown, at sγ₀ = 1: .93 to .98 of those that are not refused.

    At K = 336 and φ = .8 a tenth is refused: 1/(1 − φ̂) is above K/50 for a φ̂ of .85.
    """
    rng, H, level, trials = (
        np.random.default_rng(9),
        hourly(count),
        pv.StreamLevel.constant(1.0),
        1500,
    )
    inside, given = np.zeros(4), np.zeros(4)
    for noise in remembering(rng, (trials, count), correlation):
        rls = pv.PrivateRLS(level, 4, pv.noise.Gaussian(cov=[0.0]), blocks=True)
        rls.update(pv.StreamMechanism(level).simulate(noise, rng), H)
        ends = conclude(rls, count, list("abcd"), known=False).interval()
        told = ~np.isnan(ends[:, 0])
        inside += told & (ends[:, 0] <= 0) & (ends[:, 1] >= 0)
        given += told
    assert (given > 0.85 * trials).all()
    room = 4 * np.sqrt(0.05 * 0.95 / given)
    assert (inside / given > 0.925 - room).all()
    assert (inside / given < 0.98 + room).all()
