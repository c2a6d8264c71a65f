"""Filters count the variance v of the noise on a release: against the joint normal of (x, z̃).

z̃ = A(Hx + v) + e with cov e = v·I: conditional means, covariances and the density from the dense
joint covariance. 1e-10: the dense covariances have condition numbers below 1e4.
"""

import pickle

import numpy as np
import pytest
import scipy.stats

import privest as pv
from dynamic_systems import blocks, joint, random_psd, random_system
from privest import dynamics
from protected_double import V, Wide

STEPS, N, M = 6, 2, 2
RNG = np.random.default_rng(3)
SYSTEM = random_system(RNG, steps=STEPS, n=N, m=M, radius=0.9)
LEVELS = {
    "independent": pv.StreamLevel.constant(random_psd(RNG, M, M)),
    "banded": pv.StreamLevel.constant(0.5 * np.eye(M), lags=[0.5, -0.2]),
    "dense": pv.StreamLevel.from_cumulative(random_psd(RNG, STEPS * M, STEPS * M), [M] * STEPS),
}
MISSING = np.arange(STEPS) == 2


def dense(system, level, release):
    """Of z̃ up to step k: E and cov of x_k; of all z̃: E and cov of every x_k, and ln p(z̃)."""
    whole, seen = joint(system, STEPS), ~np.repeat(release.missing, M)
    finite = level if level.steps is not None else level.first(STEPS)
    A = finite.rows.dense() * seen[:, None] * seen
    cov = A @ whole.marginal @ A.T + V * np.eye(STEPS * M)
    cross = whole.P @ whole.H.T @ A.T
    rest = release.values.ravel() - A @ (whole.H @ whole.mean)

    def given(steps):
        used = np.flatnonzero(seen[: steps * M])
        gain = np.linalg.solve(cov[np.ix_(used, used)], cross[:, used].T).T
        mean = whole.mean + gain @ rest[used]
        return mean.reshape(STEPS, N), blocks(whole.P - gain @ cross[:, used].T, N)

    steps = [given(k + 1) for k in range(STEPS)]
    filtered = [np.stack([part[i][k] for k, part in enumerate(steps)]) for i in (0, 1)]
    used = np.flatnonzero(seen)
    fit = scipy.stats.multivariate_normal.logpdf(rest[used], cov=cov[np.ix_(used, used)])
    return filtered, steps[-1], fit


def released(system, level):
    _, y = system.sample(STEPS, np.random.default_rng(5))
    y = np.array(y).reshape(STEPS, M)
    y[MISSING] = np.nan
    return pv.StreamMechanism(level).release(y, Wide(7))


@pytest.mark.parametrize("form", LEVELS)
def test_filter_smoother_and_likelihood(form):
    system, level = SYSTEM, LEVELS[form]
    release = released(system, level)
    assert release.unit_variance == V
    (filtered, covariances), smoothed, fit = dense(system, level, release)
    found = dynamics.filter(system, release, level=level)
    close = {"rtol": 1e-10, "atol": 1e-10}
    assert np.allclose(found.filtered.value, filtered, **close)
    assert np.allclose(found.filtered.covariance, covariances, **close)
    assert np.allclose(found.log_likelihood, fit, **close)
    assert np.allclose(found.smoothed.value, smoothed[0], **close)
    assert np.allclose(found.smoothed.covariance, smoothed[1], **close)
    bound = pv.bound(system, level, steps=STEPS, missing=MISSING).filtered
    more = np.trace(found.filtered.covariance - bound, axis1=1, axis2=2)
    assert (more > 1e-3).all()  # the bound stays that of S


@pytest.mark.parametrize("form", ["independent", "banded"])
def test_step_by_step_and_taken_up_again(form):
    system, level = SYSTEM, LEVELS[form]
    release = released(system, level)
    whole = dynamics.filter(system, release, level=level)
    first = dynamics.PrivateKalman(system, level)
    first.update(release.part(0, 3, [M] * STEPS))
    second = pickle.loads(pickle.dumps(first))
    second.update(release.part(3, STEPS, [M] * STEPS))
    assert np.allclose(second.value, whole.filtered.value[-1], rtol=1e-10, atol=1e-10)
    assert np.allclose(second.covariance, whole.filtered.covariance[-1], rtol=1e-10, atol=1e-10)
    assert second.log_likelihood == pytest.approx(float(whole.log_likelihood), rel=1e-10)


def test_the_extended_filter_of_a_linear_system():
    system = SYSTEM
    A, C = system.A, system.C
    extended = dynamics.NonlinearStateSpace(
        lambda x: A @ x, lambda x: C @ x, system.Q, system.R, system.mean0, system.cov0,
        transition_jacobian=lambda x: A, measurement_jacobian=lambda x: C,
    )  # fmt: skip
    release = released(system, LEVELS["independent"])
    found = dynamics.filter(extended, release, level=LEVELS["independent"], method="extended")
    whole = dynamics.filter(system, release, level=LEVELS["independent"])
    assert np.allclose(found.filtered.value, whole.filtered.value, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.filtered.covariance, whole.filtered.covariance, rtol=1e-10, atol=1e-10)


def test_series_and_streams_are_one():
    """Many series at once: what each would be as a stream of its own, v counted."""
    system, level = SYSTEM, LEVELS["banded"]
    _, y = system.sample(STEPS, np.random.default_rng(5), trials=3)
    many = pv.StreamMechanism(level).release(y, Wide(7))
    found = dynamics.filter(system, many, level=level)
    for j in range(3):
        one = pv.release.Release(
            0, STEPS, many.values[j].ravel(), None, many.fingerprint, False, many.grid
        )
        own = dynamics.filter(system, one, level=level)
        assert np.allclose(found.filtered.value[j], own.filtered.value, rtol=1e-10, atol=1e-10)
        assert found.log_likelihood[j] == pytest.approx(float(own.log_likelihood), rel=1e-10)


def test_inputs_are_in_the_same_units():
    """A known input that shifts the readings: the estimate is that of the readings without it."""
    level = LEVELS["independent"]
    base = SYSTEM
    pushed = dynamics.StateSpace(
        base.A, base.C, base.Q, base.R, base.mean0, base.cov0, B=np.zeros((N, M)), D=np.eye(M)
    )
    _, y = base.sample(STEPS, np.random.default_rng(5))
    inputs = np.arange(STEPS * M, dtype=float).reshape(STEPS, M)
    plain, shifted = (
        pv.StreamMechanism(level).release(values, Wide(7)) for values in (y, y + inputs)
    )
    one = dynamics.filter(base, plain, level=level)
    other = dynamics.filter(pushed, shifted, level=level, inputs=inputs)
    assert np.allclose(one.filtered.value, other.filtered.value, rtol=1e-10, atol=1e-10)
