"""Compiled loops and NumPy: the same filter, smoother and bounds on the same releases."""

import numpy as np
import pytest

import privest as pv
from dynamic_systems import random_psd, random_system
from privest import dynamics
from privest.dynamics import _machine as machine

pytest.importorskip("numba")

STEPS = 40


def system_of(seed):
    """Sizes, ranks, growth, inputs and correlation of noise all over the place."""
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(0, 3))
    system = random_system(
        rng, steps=STEPS, n=int(rng.integers(1, 6)), m=int(rng.integers(1, 4)),
        varying=bool(rng.random() < 0.6), singular=bool(rng.random() < 0.4),
        radius=rng.choice([0.5, 0.95, 1.0, 1.1]), inputs=inputs,
    )  # fmt: skip
    return system, rng.standard_normal((STEPS, inputs)) if inputs else None, rng


def level_of(rng, m):
    """Levels of any rank: constant, changing, zero at some steps, looking back."""
    which = rng.integers(0, 4)
    if which == 0:
        return pv.EndlessLevel(random_psd(rng, m, int(rng.integers(1, m + 1))))
    if which == 1:
        ranks = rng.integers(0, m + 1, STEPS)
        return pv.StreamLevel(np.stack([random_psd(rng, m, rank) for rank in ranks]))
    if which == 2:
        return pv.EndlessLevel(float(rng.uniform(0.1, 3.0)) * np.eye(m))
    lags = [0.3 * rng.standard_normal((m, m)) for _ in range(int(rng.integers(1, 3)))]
    return pv.EndlessLevel(np.eye(m), lags)


def release_of(system, level, inputs, rng, gaps, *, parts=False):
    _, y = system.simulate(STEPS, rng, inputs=inputs)
    for start, stop in gaps:
        y[start:stop] = np.nan
    if parts:  # of vector readings
        y[rng.random(y.shape) < 0.1] = np.nan
    return pv.StreamMechanism(level).simulate(y, rng)


def results(found):
    smoothed = dynamics.smooth(found)
    return {
        "estimate": found.estimate, "covariance": found.covariance,
        "predicted": found.predicted_estimate, "ahead": found.predicted_covariance,
        "innovations": found.innovations, "fit": found.log_likelihood,
        "smoothed": smoothed.estimate, "narrowed": smoothed.covariance,
    }  # fmt: skip


def assert_same(found, expected):
    """In standard deviations of the prediction, which are the units of the rounding; 1e-12."""
    sizes = np.sqrt(np.diagonal(expected["ahead"], axis1=1, axis2=2))
    unit = 1e-12 * np.maximum(sizes, 1e-3 * sizes.max())
    apart = 1e-12 * np.abs(expected["predicted"]).max()  # of means far from zero
    for name in ("estimate", "predicted", "smoothed"):
        assert (np.abs(found[name] - expected[name]) <= unit + apart).all(), name
    for name in ("covariance", "ahead", "narrowed"):
        near = (
            np.abs(found[name] - expected[name]) <= 10 * unit[:, :, None] * sizes[:, None, :].max()
        )
        assert near.all(), name
    assert np.array_equal(np.isnan(found["innovations"]), np.isnan(expected["innovations"]))
    shown = ~np.isnan(expected["innovations"])
    gap = np.abs(found["innovations"] - expected["innovations"])[shown]
    assert gap.max(initial=0.0) <= 1e-11 * (
        1 + np.abs(expected["innovations"][shown]).max(initial=0)
    )
    assert found["fit"] == pytest.approx(expected["fit"], rel=1e-11)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_numbers_on_random_systems(seed):
    system, inputs, rng = system_of(seed)
    level = level_of(rng, system.readings)
    gaps = [(3, 5), (20, 21)] if seed % 3 else []
    release = release_of(system, level, inputs, rng, gaps, parts=seed % 2 == 0)
    plain, quick = (
        results(dynamics.filter(system, release, level=level, inputs=inputs))
        for compiled in (False, True)
    )
    assert_same(quick, plain)


@pytest.mark.parametrize("constant", [True, False])
def test_what_settles_is_kept_and_what_is_missing_opens_it_again(constant):
    rng = np.random.default_rng(5)
    system = random_system(rng, steps=400, n=3, m=2, radius=0.9)
    if not constant:
        A = np.where((np.arange(400) < 150)[:, None, None], system.A, 0.8 * system.A)
        system = dynamics.StateSpace(A, system.C, system.Q, system.R, cov0=system.cov0)
    level = pv.EndlessLevel(np.eye(2))
    _, y = system.simulate(400, rng)
    y[200:203] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(system, release, level=level)
    assert_same(results(found), results(dynamics.filter(system, release, level=level)))
    if constant:
        repeated = (found.covariance[1:] == found.covariance[:-1]).all(axis=(1, 2))
        assert repeated.sum() > 200


def test_after_a_wide_gap_steps_are_graded_on_both_routes():
    rng = np.random.default_rng(3)
    system = dynamics.StateSpace(
        [[1.3, 0.4], [0.0, 0.9]], [[1.0, 0.5]], np.diag([0.1, 0.2]), 0.3, cov0=1.0
    )
    level = pv.EndlessLevel(2.0)
    _, y = system.simulate(54, rng)
    y[8:48] = np.nan  # 1.3⁴⁰ = 4e4 standard deviations
    release = pv.StreamMechanism(level).simulate(y, rng)
    plain, quick = (dynamics.filter(system, release, level=level) for compiled in (False, True))
    for found, expected in ((quick, plain), (dynamics.smooth(quick), dynamics.smooth(plain))):
        unit = 1e-9 * expected.standard_error  # readings of 1e6 are rounded to 1e-10
        assert (np.abs(found.estimate - expected.estimate) < unit).all()
        assert np.allclose(found.covariance, expected.covariance, rtol=1e-9, atol=0)


def test_bounds_of_both_routes(monkeypatch):
    rng = np.random.default_rng(8)
    system = random_system(rng, steps=STEPS, n=4, m=2, varying=True, singular=True)
    missing = rng.random(STEPS) < 0.2
    found = {}
    for compiled in (False, True):
        monkeypatch.setattr(machine, "ENOUGH", 0 if compiled else 10**9)
        found[compiled] = dynamics.bound(system, 2.0, STEPS, missing=missing)
    for name in ("predicted", "filtered", "smoothed"):
        expected = getattr(found[False], name)
        scale = np.diagonal(found[False].predicted, axis1=1, axis2=2).max()
        assert np.abs(getattr(found[True], name) - expected).max() < 1e-12 * scale


def test_many_series_and_none_of_the_input_is_written_to():
    rng = np.random.default_rng(4)
    system = random_system(rng, steps=STEPS, n=3, m=2, varying=True)
    level = pv.EndlessLevel(np.eye(2))
    for series in (2, 7):
        _, y = system.simulate(STEPS, rng, trials=series)
        release = dynamics.simulate_series(level, y, rng)
        for array in (release.values, system.A, system.Q):
            array.setflags(write=False)
        together = dynamics.filter(system, release, level=level)
        back = dynamics.smooth(together)
        for i in range(series):
            alone = pv.StreamRelease(
                0, STEPS, release.values[i].ravel(), None, level.fingerprint, True
            )
            single = dynamics.filter(system, alone, level=level)
            assert np.allclose(together.estimate[i], single.estimate, rtol=1e-11, atol=1e-11)
            assert together.log_likelihood[i] == pytest.approx(float(single.log_likelihood))
            assert np.allclose(back.estimate[i], dynamics.smooth(single).estimate, atol=1e-10)


def test_tiny_and_huge_units_lose_nothing():
    """Squares of 1e-160 and 1e160 leave the range of doubles; ratios do not."""
    expected = None
    for scale in (1.0, 1e-140, 1e140):
        system = dynamics.StateSpace(
            [[0.9, 0.2], [0.0, 0.7]], np.array([[1.0, 0.3]]) / scale, scale**2 * np.eye(2), 0.5,
            cov0=scale**2 * np.eye(2),
        )  # fmt: skip
        level = pv.EndlessLevel(1.0)
        y = np.random.default_rng(7).standard_normal(20)
        release = pv.StreamMechanism(level).simulate(y, np.random.default_rng(8))
        found = dynamics.filter(system, release, level=level)
        standard = found.estimate / scale, dynamics.smooth(found).covariance / scale / scale
        if expected is None:
            expected = standard
        for own, other in zip(standard, expected):
            assert np.allclose(own, other, rtol=1e-10, atol=1e-12)


def test_without_numba_only_who_insists_is_refused(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    walk = dynamics.StateSpace(A=1.0, C=1.0, Q=1.0, R=1.0, cov0=1.0)
    release = pv.StreamMechanism(pv.EndlessLevel(1.0)).simulate([0.1], np.random.default_rng(0))
    monkeypatch.setattr(machine, "ENOUGH", 0)
    dynamics.filter(walk, release, level=1.0)
    with pytest.raises(pv.errors.MissingDependency, match=r"privest\[compiled\]"):
        dynamics.filter(walk, release, level=1.0)
