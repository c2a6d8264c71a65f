"""The private filter against the joint Gaussian, statsmodels, itself in pieces, and DARE."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import privest as pv
from dynamic_systems import (
    blocks,
    joint,
    random_psd,
    random_system,
    statsmodels_of,
    without,
)
from privest import dynamics
from privest.dynamics import _recursions as recursions
from privest.dynamics import _sweep as sweep

RTOL = 1e-9  # the dense formula solves with V, condition below 1e6 here, and subtracts sizes of P


def level_of(form, rng, steps, m):
    S = np.stack([random_psd(rng, m, m) for _ in range(steps)])
    if form == "dense":
        return pv.StreamLevel.from_cumulative(random_psd(rng, steps * m, steps), [m] * steps)
    return {
        "independent": pv.StreamLevel(S),
        "banded": pv.StreamLevel.from_lags(S, [0.6, -0.3]),
        "endless": pv.EndlessLevel(S[0]),
        "endless banded": pv.EndlessLevel(S[0], [0.5, 0.2]),
    }[form]


def rows_of(level, steps):
    return (level.first(steps) if isinstance(level, pv.EndlessLevel) else level).rows.dense().copy()


FORMS = ["independent", "banded", "dense", "endless", "endless banded"]


@given(
    st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(FORMS)
)  # fmt: skip
def test_estimates_and_likelihood_equal_the_joint_gaussian(seed, varying, singular, gaps, form):
    rng = np.random.default_rng(seed)
    steps, n, m, p = int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(1, 4)), 2
    system = random_system(
        rng, steps=steps, n=n, m=m, varying=varying, singular=singular, inputs=p, radius=0.9
    )
    inputs = rng.standard_normal((steps, p))
    level = level_of(form, rng, steps, m)
    _, y = system.simulate(steps, rng, inputs=inputs)
    if gaps:
        y[rng.random(steps) < 0.3, 0] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(system, release, level=level, inputs=inputs)
    smoothed = dynamics.smooth(found)

    whole, A = joint(system, steps, inputs), rows_of(level, steps)
    absent = np.isnan(y).ravel()
    if level.form == "independent":
        A = without(A, absent, [m] * steps)
    else:  # looks back: nothing is shown of a step of which a part is missing
        absent = np.repeat(np.isnan(y).any(axis=1), m)
    A[:, absent] = 0.0
    A, z = A[~absent], release.values[~absent]
    expected = A @ (whole.H @ whole.mean + whole.own)
    scale = max(np.abs(whole.P).max(), np.abs(whole.mean).max(), 1.0) * np.abs(z).max(initial=1.0)
    P, gain = whole.posterior(A)
    mean = whole.mean + gain @ (z - expected)
    assert np.abs(smoothed.estimate.ravel() - mean).max() < RTOL * scale
    assert np.abs(smoothed.covariance - blocks(P, n)).max() < RTOL * scale
    kept = np.repeat(np.arange(steps), m)[~absent]
    for k in range(steps):
        for found_mean, rows in ((found.estimate, kept <= k), (found.predicted_estimate, kept < k)):
            _, gain = whole.posterior(A[rows])
            part = (whole.mean + gain @ (z - expected)[rows]).reshape(steps, n)[k]
            assert np.abs(found_mean[k] - part).max() < RTOL * scale
    V = A @ whole.marginal @ A.T + np.eye(len(A))
    log_density = multivariate_normal.logpdf(z, expected, V) if len(z) else 0.0
    assert found.log_likelihood == pytest.approx(log_density, rel=1e-8, abs=1e-8)
    # Innovations are a whitening of the releases: their squares add up to z's own.
    fresh = found.innovations[~np.isnan(found.innovations)]
    squares = (z - expected) @ np.linalg.solve(V, z - expected) if len(z) else 0.0
    assert (fresh**2).sum() == pytest.approx(squares, rel=1e-8, abs=1e-8)


def changing_weights(rng, steps, m):
    """The same S at every step, but another look back."""
    S, U = np.eye(m), [np.zeros((0, m))]
    for k in range(1, steps):
        U.append(np.zeros((k * m, m)))
        U[-1][-m:] = rng.standard_normal((m, m))
    return pv.StreamLevel([S] * steps, U)


@given(
    st.integers(0, 10**6), st.booleans(),
    st.sampled_from(["endless", "banded", "independent", "changing weights"]),
)  # fmt: skip
def test_a_stream_in_pieces_equals_the_whole(seed, varying, form):
    rng = np.random.default_rng(seed)
    steps, m = 11, 2
    system = random_system(rng, steps=steps, m=m, varying=varying, inputs=1, radius=0.9)
    inputs = rng.standard_normal((steps, 1))
    changing = form == "changing weights"
    level = changing_weights(rng, steps, m) if changing else level_of(form, rng, steps, m)
    _, y = system.simulate(steps, rng, inputs=inputs)
    y[4] = np.nan
    mechanism, kalman = pv.StreamMechanism(level), dynamics.PrivateKalman(system, level)
    cuts = [0, *sorted(rng.choice(np.arange(1, steps), 5, replace=False).tolist()), steps]
    releases = []
    for start, stop in itertools.pairwise(cuts):
        releases.append(mechanism.simulate(y[start:stop], rng))
        part = kalman.update(releases[-1], inputs=inputs[start:stop])
        again = dynamics.PrivateKalman(system, level)
        again.restore(kalman.state())
        kalman = again
    whole = dynamics.filter(system, dynamics.joined(releases), level=level, inputs=inputs)
    scale = max(np.abs(whole.estimate).max(), 1.0)
    assert np.abs(kalman.estimate - whole.estimate[-1]).max() < 1e-10 * scale
    assert np.abs(part.estimate - whole.estimate[cuts[-2] :]).max() < 1e-10 * scale
    assert np.abs(kalman.covariance - whole.covariance[-1]).max() < 1e-10
    assert kalman.log_likelihood == pytest.approx(float(whole.log_likelihood), rel=1e-10)


@pytest.mark.parametrize("gaps", [False, True])
def test_an_infinite_level_is_statsmodels_kalman_filter(gaps):
    """S = s·I: V = sR + I instead of sR, a relative change of 1/(s·λmin(R)) = 1e-11."""
    rng = np.random.default_rng(3)
    steps, n, m = 200, 4, 2
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.95)
    _, y = system.simulate(steps, rng)
    if gaps:
        y[[5, 6, 50]] = np.nan
    s = 1e11 / np.linalg.eigvalsh(system.R)[0]
    level = pv.EndlessLevel(s * np.eye(m))
    missing = np.isnan(y).any(axis=1)
    release = pv.StreamRelease(
        0, steps, np.sqrt(s) * y.ravel(), missing if gaps else None, level.fingerprint, True
    )
    found = dynamics.filter(system, release, level=level)
    smoothed = dynamics.smooth(found)

    theirs = statsmodels_of(system, y).smooth()
    jacobian = 0.5 * m * int((~missing).sum()) * np.log(s)  # z̃ = √s y
    assert float(found.log_likelihood) + jacobian == pytest.approx(theirs.llf, rel=1e-8)
    for ours, other in (
        (found.estimate, theirs.filtered_state.T),
        (found.covariance, theirs.filtered_state_cov.transpose(2, 0, 1)),
        (found.predicted_estimate, theirs.predicted_state.T[:-1]),
        (found.predicted_covariance, theirs.predicted_state_cov.transpose(2, 0, 1)[:-1]),
        (smoothed.estimate, theirs.smoothed_state.T),
        (smoothed.covariance, theirs.smoothed_state_cov.transpose(2, 0, 1)),
    ):
        assert np.abs(ours - other).max() < 1e-8 * max(np.abs(other).max(), 1.0)
    ahead = dynamics.predict(found, 5)
    forecast = statsmodels_of(system, np.concatenate([y, np.full((5, m), np.nan)])).filter()
    mean, P = forecast.predicted_state.T, forecast.predicted_state_cov.transpose(2, 0, 1)
    assert np.abs(ahead.estimate - mean[steps:-1]).max() < 1e-8 * np.abs(mean).max()
    assert np.abs(ahead.covariance - P[steps:-1]).max() < 1e-8 * np.abs(P).max()


@given(st.integers(0, 10**6), st.booleans())
def test_the_limit_kept_equals_every_step_done(seed, singular):
    """Steps after the limit are copied: within 1e-11 of doing each (REACHED = 1e-12)."""
    rng = np.random.default_rng(seed)
    system = random_system(rng, steps=1, n=3, m=2, singular=singular, radius=0.97)
    missing = np.zeros(300, dtype=bool)
    missing[[140, 141]] = True
    quick = dynamics.bound(system, 0.8, 300, missing=missing)
    patch = pytest.MonkeyPatch()
    with patch.context() as changed:
        changed.setattr(recursions, "REACHED", -1.0)
        changed.setattr(sweep, "REACHED", -1.0)
        slow = dynamics.bound(system, 0.8, 300, missing=missing)
    for name in ("predicted", "filtered", "smoothed"):
        ours, every = getattr(quick, name), getattr(slow, name)
        assert np.abs(ours - every).max() < 1e-11 * max(np.abs(every).max(), 1e-3)


@given(st.integers(0, 10**6), st.booleans())
def test_steady_state_is_where_the_bound_goes(seed, banded):
    rng = np.random.default_rng(seed)
    system = random_system(rng, steps=1, n=3, m=2, radius=0.8)
    level = pv.EndlessLevel(0.7 * np.eye(2), [0.4] if banded else [])
    found = dynamics.bound(system, level, 400)
    steady = dynamics.steady_state(system, level)
    for name, k in (("predicted", -1), ("filtered", -1), ("smoothed", 200)):
        own, limit = getattr(found, name)[k], getattr(steady, name)
        assert np.abs(own - limit).max() < 1e-8 * np.abs(limit).max()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_many_series_equal_one_by_one(seed, banded):
    rng = np.random.default_rng(seed)
    steps, m = 30, 2
    system = random_system(rng, steps=steps, m=m, radius=0.9)
    level = pv.EndlessLevel(np.eye(m), [0.3] if banded else [])
    _, y = system.simulate(steps, rng, trials=8)
    y[:, 7] = np.nan
    release = dynamics.simulate_series(level, y, rng)
    found = dynamics.filter(system, release, level=level)
    smoothed = dynamics.smooth(found)
    for i in range(8):
        one = pv.StreamRelease(
            0, steps, release.values[i].ravel(), release.missing, level.fingerprint, True
        )
        single = dynamics.filter(system, one, level=level)
        size = max(np.abs(single.estimate).max(), 1.0)
        assert np.abs(found.estimate[i] - single.estimate).max() < 1e-11 * size
        assert np.abs(smoothed.estimate[i] - dynamics.smooth(single).estimate).max() < 1e-11 * size
        assert found.log_likelihood[i] == pytest.approx(float(single.log_likelihood), rel=1e-11)


def test_series_that_miss_different_steps_go_by_pattern():
    rng = np.random.default_rng(0)
    system = random_system(rng, steps=10, m=1, n=2)
    level = pv.EndlessLevel([[1.0]])
    _, y = system.simulate(10, rng, trials=4)
    y[0, 3], y[2, 3] = np.nan, np.nan
    release = dynamics.simulate_series(level, y, rng)
    with pytest.raises(pv.errors.InvalidInput, match="miss different steps"):
        dynamics.filter(system, release, level=level)
    groups = [(members.tolist(), part) for members, part in release.by_pattern()]
    assert sorted(members for members, _ in groups) == [[0, 2], [1, 3]]
    for _, part in groups:
        dynamics.filter(system, part, level=level)
