"""Cases a second look found: each was a wrong number, silent garbage or a refusal without cause."""

import numpy as np
import pytest

import privest as pv
from dynamic_systems import random_psd
from privest import dynamics
from privest.dynamics import StateSpace
from privest.errors import InvalidInput, LevelBelowPrior, NumericalFailure

WALK = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)


def relative(found, right):
    """In units of the diagonal of the right covariances."""
    size = np.sqrt(np.diagonal(right, axis1=-2, axis2=-1))
    return np.abs((found - right) / (size[..., :, None] * size[..., None, :])).max()


@pytest.mark.parametrize("seed", [1, 9, 14, 15, 37])
@pytest.mark.parametrize("lags", [1, 2, 3])
def test_a_steady_state_sees_all_lags_and_singular_factors(seed, lags):
    """The limit of the recursion after 1500 steps; memory below 30 steps: 1e-9 is all rounding."""
    rng = np.random.default_rng(seed)
    n, m = 3, 3
    A = rng.standard_normal((n, n))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    system = StateSpace(
        A, rng.standard_normal((m, n)), random_psd(rng, n, 2), random_psd(rng, m, 1), cov0=1.0
    )
    weights = [0.4 * rng.standard_normal((m, m)) for _ in range(lags)]
    level = pv.StreamLevel.constant(random_psd(rng, m, 2), lags=weights)
    steady, long = dynamics.steady_state(system, level), pv.bound(system, level, steps=1500)
    assert steady.memory < 30
    assert relative(steady.predicted, long.predicted[-1]) < 1e-9
    assert relative(steady.filtered, long.filtered[-1]) < 1e-9
    assert relative(steady.smoothed, long.smoothed[750]) < 1e-9


def test_a_steady_state_of_a_stable_part_that_swells_first():
    """P = APAᵀ + I by hand: nothing is released, and A is large though its powers die out."""
    size = 1e2
    system = dynamics.StateSpace(
        A=[[0.5, size], [0, 0.5]], C=[[0, 1]], Q=np.eye(2), R=1.0, cov0=1.0
    )
    along = 4 / 3  # p₂₂ = p₂₂/4 + 1
    both = 2 / 3 * along * size  # p₁₂ = p₁₂/4 + size·p₂₂/2
    own = (1 + size * both + size**2 * along) * 4 / 3
    expected = [[own, both], [both, along]]
    assert dynamics.steady_state(system, 0.0).predicted == pytest.approx(
        np.array(expected), rel=1e-10
    )


@pytest.mark.parametrize("turned", [False, True])
def test_no_steady_state_where_no_noise_drives_the_unit_circle(turned):
    """The limit of a constant nobody reads depends on cov0; a solver's zero is not it."""
    rng = np.random.default_rng(0)
    T = rng.standard_normal((2, 2)) if turned else np.eye(2)
    A, Q = T @ np.diag([1.0, 0.5]) @ np.linalg.inv(T), T @ np.diag([0.0, 0.1]) @ T.T
    system = StateSpace(A, [[0.0, 1.0]], Q, 0.5, cov0=1.0)
    with pytest.raises(NumericalFailure, match="no steady state"):
        dynamics.steady_state(system, 2.0)


def test_dense_levels_of_unstable_systems():
    """A total s·I on a walk that grows: the steady part does not depend on where the stream ends.

    The level looks back to the first step: 200 steps are refused.
    """
    system = StateSpace(1.2, 1.0, 1.0, 0.5, cov0=1.0)
    found = pv.bound(system, pv.bounds.release_level(system, 4.0, steps=60), steps=60)
    short = pv.bound(system, pv.bounds.release_level(system, 4.0, steps=30), steps=30)
    # Schur complements forget the far end at the rate of the filter's memory: 15 steps, 1e-9.
    assert found.filtered[-1] == pytest.approx(short.filtered[-1], rel=1e-9)
    assert found.filtered[10] == pytest.approx(short.filtered[10], rel=1e-7)
    with pytest.raises(InvalidInput, match="too many"):
        pv.bound(system, pv.bounds.release_level(system, 4.0, steps=200), steps=200)


def test_readings_that_repeat_each_other_have_infinite_information():
    """Rounding leaves 1e-17 of the second reading: a tie, not information of 1e33."""
    system = StateSpace(0.9 * np.eye(2), [[1.0, 0.3], [2.0, 0.6]], 0.1, 0.0, cov0=1.0)
    with pytest.raises(LevelBelowPrior, match="without any uncertainty"):
        pv.bounds.prior_information(system, steps=4)
    with pytest.raises(LevelBelowPrior, match="without any uncertainty"):
        _ = pv.bound(system, 1.0, steps=4).prior_information


@pytest.mark.parametrize("steps", [None, 1, 3])
@pytest.mark.parametrize("R", [0.0, 0.1])
def test_best_directions_come_back_from_a_lost_direction(steps, R):
    """Diagonal systems start and stay diagonal: a column of L that passes zero was never found."""
    system = StateSpace(
        0.9 * np.eye(2), np.eye(2), np.diag([1.0, 0.1]), R, cov0=np.diag([1.0, 3.0])
    )
    best = dynamics.best_directions(system, 1.0, steps=steps)
    assert best.gap <= 1e-5 * np.sum(best.error)
    assert best.equal > best.value
    if steps == 1:  # by hand: the best split of the trace between two scalars
        p = np.linspace(0.0, 1.0, 100_001)
        split = 1 / (1 + p / (1 + R * p)) + 1 / (1 / 3 + (1 - p) / (1 + R * (1 - p)))
        assert best.error[0] == pytest.approx(split.min(), rel=1e-8)


def test_a_weight_of_zero_is_refused():
    with pytest.raises(InvalidInput, match="weight is zero"):
        dynamics.best_directions(WALK, 1.0, weight=[[0.0]])


def test_releases_that_were_changed_are_refused():
    level = pv.StreamLevel.constant(2.0)
    second = np.array([False, True, False])
    changed = pv.Release(0, 3, np.array([np.nan, 1, 2]), second, level.fingerprint, True)
    bent = dynamics.NonlinearStateSpace(np.sin, np.sin, 1.0, 1.0, [0.0], 1.0)
    short = pv.Release(0, 3, np.zeros(2), None, level.fingerprint, True)
    for bad, message in (
        (changed, "not finite"),
        (short, "has 3 values"),
    ):
        with pytest.raises(InvalidInput, match=message):
            dynamics.filter(WALK, bad, level=level)
        with pytest.raises(InvalidInput, match=message):
            dynamics.PrivateKalman(WALK, level).update(bad)
        with pytest.raises(InvalidInput, match=message):
            dynamics.filter(bent, bad, level=level, method="extended")
    values = np.zeros((2, 3, 1))
    values[1, 2] = np.inf
    series = pv.Release(0, 3, values, None, level.fingerprint, True)
    with pytest.raises(InvalidInput, match="not finite"):
        dynamics.filter(WALK, series, level=level)


def test_counts_that_cannot_be():
    with pytest.raises(InvalidInput, match="at least one step"):
        StateSpace(A=np.ones((0, 1, 1)), C=1.0, Q=1.0, R=1.0, cov0=1.0)
    with pytest.raises(InvalidInput, match="trials must be"):
        WALK.sample(3, np.random.default_rng(0), trials=0)
    with pytest.raises(InvalidInput, match="has 3 blocks; asked for 5 steps"):
        pv.bounds.release_level(WALK, np.full((3, 1, 1), 4.0), steps=5, lookback=False)
    bent = dynamics.NonlinearStateSpace(np.sin, np.sin, 1.0, 1.0, [0.0], 1.0)
    with pytest.raises(InvalidInput, match=r"must be \(K, 1\); received shape \(0, 1\)"):
        dynamics.local_bound(bent, 1.0, np.zeros((0, 1)))


def test_a_level_of_fewer_steps_than_lags():
    """It stores lags that no step has: none of them belongs to the state of the filter."""
    walk = dynamics.StateSpace(A=0.9, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    level = pv.StreamLevel([1.0, 2.0], lags=[0.5, 0.25, 0.125])
    same = pv.StreamLevel([1.0, 2.0], lags=[0.5])
    found, expected = pv.bound(walk, level), pv.bound(walk, same)
    for name in ("predicted", "filtered", "smoothed"):
        assert np.allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
