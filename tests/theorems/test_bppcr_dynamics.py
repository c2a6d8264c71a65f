"""Σ_BPPCR for dynamic models: recursions against the joint Gaussian, both ways to state a level.

Tolerance 1e-9 of the largest prior variance: the dense formula subtracts matrices of the size of P
and solves with V, whose condition number stays below 1e6 for these systems.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from dynamic_systems import blocks, joint, leading, random_psd, random_system
from privest import dynamics
from privest.bounds import release_level
from privest.errors import LevelBelowPrior
from privest.linalg import loewner

RTOL = 1e-9


def levels(rng, steps, m):
    """One of every form, with A (Km, Km) of its releases."""
    S = np.stack([random_psd(rng, m, int(rng.integers(1, m + 1))) for _ in range(steps)])
    banded = pv.StreamLevel(S, lags=[0.6, -0.3])
    dense = pv.StreamLevel.from_cumulative(random_psd(rng, steps * m, steps), [m] * steps)
    return {
        "independent": pv.StreamLevel(S),
        "banded": banded,
        "dense": dense,
        "endless": pv.StreamLevel.constant(S[0]),
        "endless banded": pv.StreamLevel.constant(S[0], lags=[0.5]),
    }


def rows_of(level, steps, m):
    first = level.first(steps) if level.steps is None else level
    return first.rows.dense().copy()


@given(
    st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from(["independent", "banded", "dense", "endless", "endless banded"]),
)  # fmt: skip
def test_marginals_equal_the_joint_gaussian(seed, varying, singular, gaps, form):
    rng = np.random.default_rng(seed)
    steps, n, m = int(rng.integers(1, 13)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    system = random_system(rng, steps=steps, n=n, m=m, varying=varying, singular=singular)
    level = levels(rng, steps, m)[form]
    missing = rng.random(steps) < 0.3 if gaps else np.zeros(steps, dtype=bool)
    found = pv.bound(system, level, steps=steps, missing=missing)
    whole, A = joint(system, steps), rows_of(level, steps, m)
    absent = np.repeat(missing, m)
    A[absent], A[:, absent] = 0.0, 0.0
    scale = max(np.abs(whole.P).max(), 1.0)
    expected = blocks(whole.posterior(A)[0], n)
    assert np.abs(found.smoothed - expected).max() < RTOL * scale
    for k in range(steps):
        part = leading(whole, k + 1, n, m)
        size = (k + 1) * m
        last = blocks(part.posterior(A[:size, :size])[0], n)[-1]
        assert np.abs(found.filtered[k] - last).max() < RTOL * scale
        before = blocks(part.posterior(A[: size - m, :size])[0], n)[-1]
        assert np.abs(found.predicted[k] - before).max() < RTOL * scale


@given(st.integers(0, 10**6), st.booleans())
def test_filtered_is_the_last_block_for_its_own_horizon(seed, correlated):
    """S^(k) = J_Y^(k) + D^(k): J_Y of the first readings, not a leading block of J_Y."""
    rng = np.random.default_rng(seed)
    steps, n, m = 6, 2, 1
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.9)
    level = pv.StreamLevel.constant([[0.7]], lags=[0.5] if correlated else [])
    found = pv.bound(system, level, steps=steps)
    whole = joint(system, steps)
    for k in range(steps):
        part = leading(whole, k + 1, n, m)
        S = np.linalg.inv(part.marginal) + level.first(k + 1).cumulative()
        model = pv.LinearModel(part.H, noise=pv.noise.Gaussian(cov=part.R))
        added = release_level(model, (S + S.T) / 2, prior=part.P)
        dense = pv.bound(model, added, prior=part.P).covariance
        assert np.abs(found.filtered[k] - dense[-n:, -n:]).max() < 1e-8 * np.abs(whole.P).max()


@given(st.integers(0, 10**6), st.booleans())
def test_information_of_the_readings(seed, varying):
    rng = np.random.default_rng(seed)
    steps, n, m = 7, 3, 2
    system = random_system(rng, steps=steps, n=n, m=m, varying=varying, radius=0.8)
    known = pv.bounds.prior_information(system, steps=steps)
    expected = np.linalg.inv(joint(system, steps).marginal)
    assert np.abs(known - expected).max() < 1e-8 * np.abs(expected).max()
    own = pv.bound(system, 1.0, steps=steps).prior_information
    assert np.abs(own - blocks(expected, m)).max() < 1e-8 * np.abs(expected).max()
    level = pv.StreamLevel.constant(0.5 * np.eye(m), lags=[0.4])
    total = pv.bound(system, level, steps=steps).total_level
    S = expected + level.first(steps).cumulative()
    assert np.abs(total - blocks(S, m)).max() < 1e-8 * np.abs(S).max()


@given(st.integers(0, 10**6))
def test_a_total_level_is_kept_and_equals_the_batch_bound(seed):
    """S block-diagonal on correlated readings: S − J_Y is dense; releases realise it exactly."""
    rng = np.random.default_rng(seed)
    steps, n, m = 5, 2, 2
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.9)
    whole = joint(system, steps)
    known = np.linalg.inv(whole.marginal)
    s = 1.3 * np.linalg.eigvalsh(known)[-1]
    level = pv.bounds.release_level(system, s, steps=steps)
    added = level.cumulative() + known
    assert np.abs(added - s * np.eye(steps * m)).max() < 1e-9 * s
    model = pv.LinearModel(whole.H, noise=pv.noise.Gaussian(cov=whole.R))
    added = release_level(model, s, prior=whole.P)
    expected = pv.bound(model, added, prior=whole.P).covariance
    found = pv.bound(system, level, steps=steps)
    assert np.abs(found.smoothed - blocks(expected, n)).max() < 1e-8 * np.abs(whole.P).max()


def test_diagonal_blocks_of_the_difference_are_no_level():
    """The trap: L_kL_kᵀ = [S − J_Y]_kk looks normal and breaks S."""
    system = dynamics.StateSpace(A=0.9, C=1.0, Q=0.2, R=0.5, cov0=1.0)
    steps, s = 6, 2.5
    known = pv.bounds.prior_information(system, steps=steps)
    naive = pv.StreamLevel(s - np.diagonal(known))
    assert not loewner(known + naive.cumulative(), s * np.eye(steps))
    right = pv.bounds.release_level(system, s, steps=steps)
    assert loewner(known + right.cumulative(), s * np.eye(steps), rtol=1e-12)


@given(st.integers(0, 10**6))
def test_a_level_without_memory_keeps_the_total(seed):
    """S − R⁻¹ ≤ S − J_Y: valid for every horizon; what total_level may add on top is positive."""
    rng = np.random.default_rng(seed)
    steps, n, m = 6, 2, 2
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.9)
    S = np.linalg.inv(system.R) + random_psd(rng, m, 1)
    S = (S + S.T) / 2
    level = pv.bounds.release_level(system, S, lookback=False)
    known = pv.bounds.prior_information(system, steps=steps)
    total = known + level.first(steps).cumulative()
    assert loewner(total, np.kron(np.eye(steps), S), rtol=1e-10)
    tight = pv.bound(system, pv.bounds.release_level(system, S, steps=steps), steps=steps)
    loose = pv.bound(system, level, steps=steps)
    for k in range(steps):
        assert loewner(tight.smoothed[k], loose.smoothed[k], rtol=1e-8)
    with pytest.raises(LevelBelowPrior, match="at step 0"):
        pv.bounds.release_level(system, 0.9 * np.linalg.inv(system.R), lookback=False)


def test_level_below_prior_names_the_direction():
    system = dynamics.StateSpace(A=0.9, C=1.0, Q=0.2, R=0.5, cov0=1.0)
    least = np.linalg.eigvalsh(pv.bounds.prior_information(system, steps=6))[-1]
    with pytest.raises(LevelBelowPrior, match=r"·y_\d\[0\]") as caught:
        pv.bounds.release_level(system, 0.99 * least, steps=6)
    assert f"s ≥ {least:.6g}" in str(caught.value)
    pv.bounds.release_level(system, 1.01 * least, steps=6)


def test_readings_without_uncertainty_exceed_every_level():
    system = dynamics.StateSpace(A=1.0, C=1.0, Q=0.0, R=0.0, cov0=1.0)
    with pytest.raises(LevelBelowPrior, match="without any uncertainty"):
        pv.bounds.release_level(system, 10.0, steps=3)


@given(st.integers(0, 10**6))
def test_more_information_helps_and_never_beats_the_readings(seed):
    rng = np.random.default_rng(seed)
    system = random_system(rng, steps=8, n=3, m=2, radius=0.95)
    weak, strong = pv.bound(system, 0.3, steps=8), pv.bound(system, 3.0, steps=8)
    for k in range(8):
        for name in ("predicted", "filtered", "smoothed"):
            own, more = getattr(weak, name)[k], getattr(strong, name)[k]
            assert loewner(more, own, rtol=1e-10)
            assert loewner(getattr(strong.classical, name)[k], more, rtol=1e-10)
        assert loewner(weak.smoothed[k], weak.filtered[k], rtol=1e-10)
        assert loewner(weak.filtered[k], weak.predicted[k], rtol=1e-10)


def test_unstable_systems_keep_their_information():
    """HPHᵀ + R has condition 1e18 at radius 1.2, K = 100: J_Y comes from innovations.

    For a scalar walk with unknown start the banded inverse is known by hand: the precision of
    (x, v) eliminated. Checked through J_Y·(HPHᵀ + R) = I in extended precision.
    """
    import mpmath

    steps = 40
    system = dynamics.StateSpace(A=1.2, C=1.0, Q=0.1, R=0.3, cov0=1.0)
    with mpmath.workdps(60):
        P = mpmath.matrix(steps)
        variance = mpmath.mpf(1)
        for k in range(steps):
            for j in range(k, steps):
                P[j, k] = P[k, j] = variance * mpmath.mpf(system.A[0, 0]) ** (j - k)
            variance = variance * mpmath.mpf(system.A[0, 0]) ** 2 + mpmath.mpf(system.Q[0, 0])
        for k in range(steps):
            P[k, k] += mpmath.mpf(system.R[0, 0])
        exact = np.array((P**-1).tolist(), dtype=float)
    known = pv.bounds.prior_information(system, steps=steps)
    assert np.abs(known - exact).max() < 1e-12 * np.abs(exact).max()
    own = pv.bound(system, 1.0, steps=steps).prior_information.ravel()
    assert np.abs(own - np.diagonal(exact)).max() < 1e-11 * np.abs(exact).max()
