"""Where a fit begins: moments of lags ≥ 1, which release noise does not touch."""

import numpy as np
import pytest
import scipy

import privest as pv
from privest import dynamics
from privest.dynamics import fit
from privest.dynamics._families import Scale, Scales, durbin_levinson
from privest.dynamics._identification._data import data_of
from privest.dynamics._identification._likelihood import log_likelihood
from privest.dynamics._maximum import Objective, ascend
from privest.dynamics._moments import (
    differences,
    ho_kalman,
    moments_of,
    moving_average,
    stable,
)

# A family, parameters, a level, cov0 where it starts diffuse.
CASES = [
    (dynamics.AR(1), [0.8, 0.36, 7.0], 1.0, None),
    (dynamics.AR(2, noise=True), [1.5, -0.75, 0.2, 0.5, -3.0], 2.0, None),
    (dynamics.ARMA(2, 1), [1.5, -0.75, 0.5, 0.2, 7.0], 5.0, None),
    (dynamics.ARMA(1, 2), [0.8, 0.4, 0.3, 0.2, 7.0], 20.0, None),
    (dynamics.ARMA(0, 2), [0.4, 0.3, 1.0, 7.0], 5.0, None),
    (dynamics.RegressionAR(1, 2), [0.8, 0.36, 5.0, -2.0], 1.0, None),
    (dynamics.ARX(2, 2), [1.2, -0.5, 0.5, 2.0, -1.0], 0.5, 1.0),
    (dynamics.ARX(1, 2, lags=2, delay=0), [0.8, 0.5, 2.0, 1.0, -1.0, 0.5], 0.5, 1.0),
    (dynamics.LocalLevel(), [0.1, 1.0], 1.0, 1.0),
    (dynamics.LocalLevel(noise=False), [0.01], 0.2, 1.0),
    (dynamics.LocalTrend(), [0.1, 0.001, 1.0], 1.0, 1.0),
    (dynamics.Seasonal(4), [0.1, 0.05, 1.0], 1.0, 1.0),
    (dynamics.Seasonal(12, trend="trend"), [0.1, 0.001, 0.05, 1.0], 5.0, 1.0),
]


def simulated(family, theta, level, cov0, steps, seed, trials=None):
    """Inputs for the fit, and readings."""
    rng = np.random.default_rng(seed)
    columns = family.inputs - family.constant
    u = rng.normal(size=(steps, columns)) if columns else None
    blank = data_of(1.0, shown(np.zeros(steps), 1.0, seed), u, 1)[0]
    driven = family.regressors(blank).inputs if family.inputs else None
    system = family.system(theta) if cov0 is None else family.system(theta, cov0=cov0)
    return u, system.simulate(steps, rng, inputs=driven, trials=trials)[1]


def shown(y, level, seed):
    return pv.StreamMechanism(level).simulate(y, np.random.default_rng(seed + 1))


def prepared(family, level, release, u=None):
    data = [family.regressors(own) for own in data_of(level, release, u, 1)]
    return family.prepared(data), data


@pytest.mark.parametrize(("family", "theta", "level", "cov0"), CASES, ids=repr)
def test_moments_choose_a_better_start_than_none(family, theta, level, cov0):
    u, y = simulated(family, theta, level, cov0, 2000, seed=3)
    own, data = prepared(family, level, shown(y, level, 3), u)
    starts, limits = own.starts(data), own.limits(data)
    assert 2 <= len(starts) <= 4
    for t in starts:
        assert np.isfinite(t).all()
        assert ((limits[:, 0] <= t) & (t <= limits[:, 1])).all()
    best, *others = (log_likelihood(own.matrices(t), data[0]) for t in starts)
    truth = log_likelihood(own.matrices(own.working(np.array(theta))), data[0])
    assert best > max(others)
    # Moments of 2000 steps waste some of what the likelihood uses, not most of it.
    assert best > truth - 0.2 * (truth - min(others)) - 10


# Ho and Kalman against Yule-Walker corrected by −1/s: sd of φ̂_1 for φ = (1.5, −.75), q = 1,
# K = 5000, from the notes on identification §3.
@pytest.mark.parametrize(("level", "expected"), [(0.2, 0.020), (1.0, 0.021)])
def test_lags_beyond_zero_find_an_autoregression(level, expected):
    trials, family = 100, dynamics.AR(2, mean=False)
    _, y = simulated(family, [1.5, -0.75, 1.0], level, None, 5000, seed=8, trials=trials)
    found, naive = [], []
    for j, own in enumerate(y):
        made, data = prepared(family, level, shown(own, level, 100 + j))
        found.append(made.natural(made.starts(data)[0])[0])
        gamma = moments_of(data).autocovariances(2)
        gamma[0] -= 1 / level
        naive.append(np.linalg.solve(gamma[[[0, 1], [1, 0]]], gamma[1:])[0])
    # The deviation of 100 normal numbers has a deviation of 7 %; four of them, and rounding of the
    # figure in the notes.
    assert np.std(found) == pytest.approx(expected, rel=0.28 + 0.025)
    assert abs(np.mean(found) - 1.5) < 4 * expected / np.sqrt(trials) + 0.005
    assert np.std(naive) > (1.2 if level == 1.0 else 3.0) * np.std(found)


@pytest.mark.parametrize("case", [0, 8, 11], ids=["ar", "level", "seasonal"])
def test_changing_levels_and_gaps_are_weighed(case):
    family, theta, _, cov0 = CASES[case]
    steps = 2000
    rng = np.random.default_rng(9)
    level = pv.StreamLevel(np.where(rng.random(steps) < 0.5, 4.0, 0.01))
    _, y = simulated(family, theta, 1.0, cov0, steps, seed=4)
    y[rng.random(steps) < 0.1] = np.nan
    own, data = prepared(family, level, shown(y, level, 4))
    theta, found = np.array(theta), own.natural(own.starts(data)[0])
    truth = log_likelihood(own.matrices(own.working(theta)), data[0])
    first, *others = (log_likelihood(own.matrices(t), data[0]) for t in own.starts(data))
    assert first > truth - 0.3 * (truth - min(others)) - 10
    np.testing.assert_allclose(found[0], theta[0], rtol=1.0)


@pytest.mark.parametrize("case", [0, 1, 8, 11], ids=["ar1", "ar2", "level", "seasonal"])
def test_releases_that_look_back_have_starts(case):
    family, theta, _, cov0 = CASES[case]
    level = pv.EndlessLevel(2.0, [0.8])
    _, y = simulated(family, theta, 2.0, cov0, 600, seed=6)
    own, data = prepared(family, level, shown(y, level, 6))
    truth = log_likelihood(own.matrices(own.working(np.array(theta))), data[0])
    assert fit(family, level, shown(y, level, 6)).log_likelihood > truth


def test_unstable_readings_have_stable_starts():
    y = 1.02 ** np.arange(300.0)
    family = dynamics.AR(2)
    own, data = prepared(family, 1.0, shown(y, 1.0, 0))
    for t in own.starts(data):
        assert np.abs(np.linalg.eigvals(own.matrices(t).A)).max() < 1
    assert np.isfinite(fit(family, 1.0, shown(y, 1.0, 0)).log_likelihood)


@pytest.mark.parametrize(("family", "theta", "level", "cov0"), CASES, ids=repr)
def test_the_fewest_steps_have_starts_and_fewer_are_refused(family, theta, level, cov0):
    least = family.least_steps()
    u, y = simulated(family, theta, level, cov0, least, seed=2)
    own, data = prepared(family, level, shown(y, level, 2), u)
    for t in own.starts(data):
        assert np.isfinite(log_likelihood(own.matrices(t), data[0]))
    few = shown(y[:-1], level, 2)
    with pytest.raises(pv.errors.InvalidInput, match=f"at least {least} steps that show something"):
        fit(family, level, few, inputs=None if u is None else u[:-1])


# --- the pieces -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_exact_autocovariances_give_the_autoregression(order):
    rng = np.random.default_rng(order)
    process = durbin_levinson(tuple(np.tanh(rng.normal(size=order) * 0.3)), 30)  # poles below 0.98
    # Errors of rounding are enlarged by the conditioning of the Hankel matrix, 1e6 at order 6.
    np.testing.assert_allclose(ho_kalman(process.rho[1:], order), process.phi, atol=1e-8)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_exact_autocovariances_give_the_moving_average(order):
    rng = np.random.default_rng(order)
    names = [f"theta{j}" for j in range(order)]
    scales = Scales(names, [Scale("between")] * order, [(slice(0, order), -1.0)])
    theta = scales.natural(rng.normal(size=order) * 0.5)
    weights = np.concatenate([[1.0], theta])
    covariances = np.correlate(weights, weights, "full")[order:]
    np.testing.assert_allclose(moving_average(covariances), theta, atol=1e-9)
    # No moving average has these: the nearest spectrum is not negative.
    found = moving_average(np.array([1.0, 0.9]))
    assert abs(found[0]) <= 1
    np.testing.assert_allclose(moving_average(np.array([1.0, 0.3, 0.0]))[1], 0.0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 5, 9])
def test_autocorrelations_solve_the_lyapunov_equation(order):
    rng = np.random.default_rng(order)
    process = durbin_levinson(tuple(np.tanh(rng.normal(size=order) * 0.5)), order)
    A, Q = np.eye(order, k=-1), np.zeros((order, order))
    A[0], Q[0, 0] = process.phi, 1.0
    expected = scipy.linalg.solve_discrete_lyapunov(A, Q)
    place = np.arange(order)
    found = process.rho[np.abs(np.subtract.outer(place, place))] / process.innovation
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_coefficients_are_moved_inside():
    for phi in ([2.0, -0.99], [0.5, 0.6, 0.3], [1.2], [0.0, 0.0], [-1.5, -0.9]):
        roots = np.roots([1.0, *(-stable(np.array(phi)))])
        assert (np.abs(roots) <= 0.98 + 1e-9).all()
    np.testing.assert_allclose(stable(np.array([0.5, 0.2])), [0.5, 0.2], atol=1e-12)


def test_moments_are_those_of_the_readings():
    """Pairs of steps that are both shown, in units of a reading, whatever the level."""
    y = np.array([1.0, -2.0, np.nan, 3.0, 0.5, 1.5])
    level = 1e14  # release noise of deviation 1e-7
    (data,) = data_of(level, shown(y, level, 1), None, 1)
    seen = moments_of([data])
    pairs = [(0, 1), (3, 4), (4, 5)]
    gamma = seen.autocovariances(3)
    assert gamma[1] == pytest.approx(np.mean([y[i] * y[j] for i, j in pairs]), abs=1e-5)
    assert gamma[2] == pytest.approx(np.mean([y[3] * y[1], y[5] * y[3]]), abs=1e-5)
    mean, noise, count = seen.filtered_square(differences(2))
    assert (mean, count) == (pytest.approx((1.5 - 2 * 0.5 + 3.0) ** 2, abs=1e-5), 1)
    assert noise == pytest.approx(6 / level)


@pytest.mark.parametrize("case", [0, 5], ids=["ar", "regression"])
def test_weak_releases_have_several_peaks_and_the_highest_is_found(case):
    """At s γ_0 = .1 and 200 steps these have a peak at φ > 0 and a higher one at φ < 0."""
    family, theta, _, _ = CASES[case]
    u, y = simulated(family, theta, 0.1, None, 200, seed=8)
    release = shown(y, 0.1, 8)
    found = fit(family, 0.1, release, inputs=u)
    peaks = []
    for phi in (0.8, -0.8):
        own, data = prepared(family, 0.1, release, u)
        start = own.working(np.array([phi, *theta[1:]]))
        peaks.append(ascend(Objective(own, data), start, own.limits(data), 200))
    heights = [log_likelihood(own.matrices(t), data[0]) for t in peaks]
    assert heights[1] > heights[0] + 0.1
    assert found.log_likelihood == pytest.approx(max(heights), abs=1e-6)


@pytest.mark.parametrize("case", [1, 2, 6, 8, 10], ids=lambda case: repr(CASES[case][0]))
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_other_units_are_another_scale(case, unit):
    """Readings c·y at level s/c² show the same: variances are c² times, gains and means c times."""
    family, theta, level, cov0 = CASES[case]
    u, y = simulated(family, theta, level, cov0, 300, seed=3)
    release = shown(y, level, 3)
    other = pv.EndlessLevel(level / unit**2)
    scaled = dynamics.SeriesRelease(
        release.values[None, :, None], np.zeros(300, bool), other.fingerprint, True
    )
    found, there = fit(family, level, release, inputs=u), fit(family, other, scaled, inputs=u)
    power = [0 if name[0] in "pt" else 2 if name[0] in "qr" else 1 for name in family.names]
    # Both end within 1e-7 standard errors of the maximum, which are below 1 relatively.
    np.testing.assert_allclose(
        there.estimate / unit ** np.array(power), found.estimate, rtol=1e-5, atol=1e-7
    )
    # A flat density of δ in other units is another number.
    unknown = family.matrices(found.working).diffuse.shape[1] * np.log(unit)
    assert there.log_likelihood == pytest.approx(found.log_likelihood + unknown, rel=1e-9)


def test_a_white_error_of_the_readings_does_not_pull_a_start():
    """r is not known, so that γ_0 says nothing of φ: with it φ would start near .3, not .8."""
    family, steps = dynamics.AR(1, noise=True, mean=False), 40000
    _, y = simulated(family, [0.8, 0.36, 3.0], 1.0, None, steps, seed=5)
    own, data = prepared(family, 1.0, shown(y, 1.0, 5))
    phi = own.natural(own.starts(data)[0])[0]
    gamma = 0.8 ** np.arange(1, 10)
    # φ by ratios of lags whose errors have a deviation of (1 + 3 + 1)/√K each, weighted by γ_h.
    error = 5.0 / np.sqrt(steps) / np.linalg.norm(gamma)
    assert abs(phi - 0.8) < 4 * error


@pytest.mark.parametrize("case", [0, 8], ids=["ar", "level"])
def test_many_series_have_one_start(case):
    """Series with gaps of their own; one shows nothing and changes nothing."""
    family, theta, level, cov0 = CASES[case]
    _, y = simulated(family, theta, level, cov0, 100, seed=1, trials=20)
    y[:5, 20:40], y[7] = np.nan, np.nan
    rng = np.random.default_rng(2)
    release = dynamics.simulate_series(level, y, rng)
    own, data = prepared(family, level, release)
    first, *others = own.starts(data)
    height = [sum(log_likelihood(own.matrices(t), part) for part in data) for t in (first, *others)]
    assert height[0] == max(height)
    found = fit(family, level, release)
    assert found.observations == 5 * 80 + 14 * 100
    assert (np.abs(found.estimate - theta) < 5 * found.standard_error).all()
