"""Releases as they come, one by one: the numbers of the whole stream."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

import privest as pv
from dynamic_systems import random_system
from privest import dynamics

STEPS = 30


def levels(m):
    return {
        "constant": pv.StreamLevel.constant(2.0 * np.eye(m)),
        "changing": pv.StreamLevel(np.linspace(0.5, 2.0, STEPS)[:, None, None] * np.eye(m)),
        "lags": pv.StreamLevel.constant(np.eye(m), lags=[0.4 * np.eye(m), 0.2 * np.eye(m)]),
        "nothing": pv.StreamLevel(
            np.where(np.arange(STEPS) % 5 == 2, 0.0, 1.0)[:, None, None] * np.eye(m)
        ),
    }


@pytest.mark.parametrize("kind", ["constant", "changing", "lags", "nothing"])
@pytest.mark.parametrize("varying", [False, True])
def test_one_by_one_equals_the_whole(kind, varying):
    rng = np.random.default_rng(11)
    system = random_system(rng, steps=STEPS, n=3, m=2, varying=varying, singular=True)
    level = levels(2)[kind]
    _, y = system.sample(STEPS, rng)
    y[7] = np.nan
    mechanism = pv.StreamMechanism(level)
    releases = [mechanism.simulate(y[k : k + 1], rng) for k in range(STEPS)]
    whole = dynamics.filter(system, pv.Release.join(releases), level=level)
    kalman, fit = dynamics.PrivateKalman(system, level), 0.0
    for k, release in enumerate(releases):
        found = kalman.update(release)
        fit += float(found.log_likelihood)
        assert found.start == k
        for name in ("filtered", "predicted"):
            own, expected = getattr(found, name), getattr(whole, name)
            assert np.allclose(own.value[0], expected.value[k], rtol=1e-10, atol=1e-11)
            assert np.allclose(own.covariance[0], expected.covariance[k], rtol=1e-10, atol=1e-11)
        fresh = found.innovations[0], whole.innovations[k]
        assert np.allclose(*fresh, rtol=1e-9, atol=1e-10, equal_nan=True)
        assert np.array_equal(found.smoothed.value, found.filtered.value)
        assert np.allclose(kalman.value, found.filtered.value[0], rtol=1e-13, atol=0)
        if k == 12:
            kalman = pickle.loads(pickle.dumps(kalman))
    assert kalman.log_likelihood == pytest.approx(float(whole.log_likelihood), rel=1e-11)
    assert kalman.log_likelihood == pytest.approx(fit)
    ahead, after = kalman.forecast(1), found.forecast(1)
    assert np.allclose(ahead.covariance, after.covariance, rtol=1e-12)


def test_protected_noise_counts_its_grid():
    system = random_system(np.random.default_rng(2), steps=5, n=2, m=2)
    level, y = pv.StreamLevel.constant(np.eye(2)), np.arange(10.0).reshape(5, 2)
    mechanism = pv.StreamMechanism(level)
    releases = [mechanism.release(y[k : k + 1]) for k in range(5)]
    kalman = dynamics.PrivateKalman(system, level)
    for release in releases:
        kalman.update(release)
    whole = dynamics.filter(system, pv.Release.join(releases), level=level)
    assert np.allclose(kalman.value, whole.filtered.value[-1], rtol=1e-12)
    assert kalman.log_likelihood == pytest.approx(float(whole.log_likelihood), rel=1e-12)
    assert not kalman.simulated


def test_what_protects_is_still_asked():
    walk = dynamics.StateSpace(A=1.0, C=1.0, Q=1.0, R=1.0, cov0=1.0)
    level, rng = pv.StreamLevel.constant(1.0), np.random.default_rng(0)
    mechanism = pv.StreamMechanism(level)
    first, second = mechanism.simulate([0.1], rng), mechanism.simulate([0.2], rng)
    kalman = dynamics.PrivateKalman(walk, level)
    other = pv.StreamMechanism(pv.StreamLevel.constant(2.0)).simulate([0.1], rng)
    mark = level.fingerprint
    refused = {
        "another level": other,
        "starts at step 1": second,
        "never": [0.1],
        "not finite": pv.Release(0, 1, np.array([np.nan]), None, mark, True),
        "has 1 value;": pv.Release(0, 1, np.array([1.0, 2.0]), None, mark, True),
    }
    for message, bad in refused.items():
        with pytest.raises(pv.errors.InvalidInput, match=message):
            kalman.update(bad)
        assert kalman.steps == 0
    kalman.update(first)
    with pytest.raises(pv.errors.InvalidInput, match="inputs must have shape"):
        kalman.update(second, inputs=[[1.0]])
    before = first.values.copy()
    with pytest.raises(ValueError, match="read-only"):
        kalman.update(second).filtered.value[:] = np.nan
    assert np.isfinite(kalman.value).all()
    assert np.array_equal(first.values, before)


def test_an_overflow_is_said():
    level = pv.StreamLevel.constant(1.0)
    grows = dynamics.StateSpace(A=1e140, C=1e-300, Q=1.0, R=1.0, cov0=1.0)
    mechanism, rng = pv.StreamMechanism(level), np.random.default_rng(0)
    kalman = dynamics.PrivateKalman(grows, level)
    releases = [mechanism.simulate([0.0], rng) for _ in range(3)]
    kalman.update(releases[0])
    kalman.update(releases[1])
    with pytest.raises(pv.errors.NumericalFailure, match="overflows"):
        kalman.update(releases[2])
    assert kalman.steps == 2


@pytest.mark.parametrize("kind", ["constant", "lags"])
@pytest.mark.parametrize("lag", [0, 1, 6])
def test_a_fixed_lag_is_the_smoother_of_everything_so_far(kind, lag):
    """x_{k−L} from the releases up to k, at every k, through gaps and inputs.

    A filter that was taken up again begins at its next release.
    """
    rng = np.random.default_rng(21)
    system = random_system(rng, steps=STEPS, n=3, m=2, singular=True, inputs=1)
    level, u = levels(2)[kind], rng.standard_normal((STEPS, 1))
    _, y = system.sample(STEPS, rng, inputs=u)
    y[5], y[9, 1] = np.nan, np.nan
    mechanism = pv.StreamMechanism(level)
    cuts = [0, 1, 2, 5, 6, *range(7, 20), 25]
    releases = [mechanism.simulate(y[a:b], rng) for a, b in pairwise(cuts)]
    kalman = dynamics.PrivateKalman(system, level, lag=lag)
    for i, release in enumerate(releases):
        stop = cuts[i + 1]
        if i in (3, 11):
            kalman = pickle.loads(pickle.dumps(kalman))
        kalman.update(release, inputs=u[cuts[i] : stop])
        so_far = dynamics.filter(
            system, pv.Release.join(releases[: i + 1]), level=level, inputs=u[:stop]
        )
        expected, found = so_far.smoothed, kalman.smoothed
        count = min(stop, lag + 1)
        assert found.value.shape == (count, 3)
        assert np.allclose(found.value, expected.value[-count:], rtol=1e-9, atol=1e-10)
        assert np.allclose(found.covariance, expected.covariance[-count:], rtol=1e-9, atol=1e-10)


def test_a_fixed_lag_from_a_diffuse_start():
    rng = np.random.default_rng(4)
    trend = dynamics.StateSpace(
        [[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0]], 0.1, 1.0, cov0=0.0, diffuse=np.eye(2)
    )
    level, lag = pv.StreamLevel.constant(2.0), 3
    mechanism = pv.StreamMechanism(level)
    kalman, releases = dynamics.PrivateKalman(trend, level, lag=lag), []
    for k in range(9):
        releases.append(mechanism.simulate([1.5 * k], rng))
        kalman.update(releases[-1])
        if k < 3:
            continue
        whole = dynamics.filter(trend, pv.Release.join(releases), level=level)
        expected = whole.smoothed
        assert np.allclose(kalman.smoothed.value, expected.value[-lag - 1 :], rtol=1e-8)
        assert np.allclose(kalman.smoothed.covariance, expected.covariance[-lag - 1 :], rtol=1e-8)


def test_what_a_lag_refuses():
    walk = dynamics.StateSpace(A=1.0, C=1.0, Q=1.0, R=1.0, cov0=1.0)
    level, rng = pv.StreamLevel.constant(1.0), np.random.default_rng(0)
    with pytest.raises(pv.errors.InvalidInput, match="lag must be a whole number"):
        dynamics.PrivateKalman(walk, level, lag=-1)
    with pytest.raises(pv.errors.InvalidInput, match="how far back"):
        dynamics.PrivateKalman(walk, level).smoothed  # noqa: B018
    kalman = dynamics.PrivateKalman(walk, level, lag=2)
    with pytest.raises(pv.errors.InvalidInput, match="nothing to smooth"):
        kalman.smoothed  # noqa: B018
    mechanism = pv.StreamMechanism(level)
    kalman.update(mechanism.simulate([0.1, 0.2], rng))
    kalman.update(mechanism.release([0.3]))
    with pytest.raises(pv.errors.InvalidInput, match="cannot be joined"):
        kalman.smoothed  # noqa: B018
