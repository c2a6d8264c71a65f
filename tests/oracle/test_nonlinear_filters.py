"""Extended and unscented filters, smoothers, predictions: against linear and literal ones."""

import numpy as np
import pytest
from scipy import stats

import privest as pv
from dynamic_systems import random_system
from privest import dynamics
from privest.errors import InvalidInput

RULES = {
    "extended": {"method": "extended"},
    "unscented": {"method": "unscented"},
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("seed", range(3))
def test_linear_systems_have_the_kalman_filter_and_smoother(rule, seed):
    """To rounding: singular Q, R and cov0 (seed 0), inputs (seed 1), a full level, gaps."""
    rng = np.random.default_rng(seed)
    system = random_system(rng, steps=14, n=3, m=2, singular=seed == 0, inputs=2 * (seed == 1))
    p = system.inputs
    B, D = (system.B, system.D) if p else (np.zeros((3, 1)), np.zeros((2, 1)))
    given = {"inputs": rng.standard_normal((14, p))} if p else {}
    ahead = {"inputs": rng.standard_normal((3, p))} if p else {}
    bent = dynamics.NonlinearStateSpace(
        lambda x, u=0.0: system.A @ x + B @ np.atleast_1d(u),
        lambda x, u=0.0: system.C @ x + D @ np.atleast_1d(u),
        system.Q,
        system.R,
        system.mean0,
        system.cov0,
        transition_jacobian=lambda x, u=None: system.A,
        measurement_jacobian=lambda x, u=None: system.C,
        inputs=p,
    )
    level = pv.StreamLevel.constant([[2.0, 0.5], [0.5, 1.0]])
    _, y = system.sample(14, rng, **given)
    y[[0, 5, 6]], y[8, 1], y[9, 0] = np.nan, np.nan, np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    exact = dynamics.filter(system, release, level=level, **given)
    found = dynamics.filter(bent, release, level=level, **given, **rule)
    size = 1e-11 * max(1.0, np.abs(exact.predicted.covariance).max())
    assert np.array_equal(np.isnan(found.innovations), np.isnan(exact.innovations))
    assert np.nanmax(np.abs(found.innovations - exact.innovations)) < size
    for ours, theirs in (
        (found.filtered, exact.filtered),
        (found.predicted, exact.predicted),
        (found.smoothed, exact.smoothed),
        (found.forecast(3, **ahead), exact.forecast(3, **ahead)),
    ):
        assert np.abs(ours.value - theirs.value).max() < size
        assert np.abs(ours.covariance - theirs.covariance).max() < size


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_states_that_are_forgotten(rule):
    """A and Q singular: what x_{k−1} had beside x_k is not known better for all that follows."""
    A, C = (
        np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.9]]),
        np.array([[1.0, 0.5, 1.0]]),
    )
    system = dynamics.StateSpace(A, C, np.diag([0.0, 0.0, 0.2]), 0.5, cov0=np.diag([2.0, 3.0, 0.0]))
    bent = dynamics.NonlinearStateSpace(
        lambda x: A @ x, lambda x: C @ x, system.Q, system.R, system.mean0, system.cov0,
        transition_jacobian=lambda x: A, measurement_jacobian=lambda x: C,
    )  # fmt: skip
    level, rng = pv.StreamLevel.constant(1.0), np.random.default_rng(0)
    release = pv.StreamMechanism(level).simulate(rng.standard_normal(6), rng)
    ours = dynamics.filter(bent, release, level=level, **rule).smoothed
    exact = dynamics.filter(system, release, level=level).smoothed
    assert np.abs(ours.covariance - exact.covariance).max() < 1e-13
    assert np.abs(ours.value - exact.value).max() < 1e-13


def turn(x, u):
    """A vehicle with position, speed and heading: the input turns it."""
    return np.array(
        [x[0] + 0.5 * x[2] * np.cos(x[3]), x[1] + 0.5 * x[2] * np.sin(x[3]), x[2], x[3] + u[0]]
    )


def turn_slope(x, u):
    slope = np.eye(4)
    slope[:2, 2] = 0.5 * np.cos(x[3]), 0.5 * np.sin(x[3])
    slope[:2, 3] = -0.5 * x[2] * np.sin(x[3]), 0.5 * x[2] * np.cos(x[3])
    return slope


def ranges(x, u):
    """Distances from two beacons; the input says how far the second one is along."""
    return np.array([np.hypot(x[0] + 6, x[1] + 3), np.hypot(x[0] - u[1], x[1] - 8)])


def ranges_slope(x, u):
    near, far = ranges(x, u)
    return np.array(
        [
            [(x[0] + 6) / near, (x[1] + 3) / near, 0, 0],
            [(x[0] - u[1]) / far, (x[1] - 8) / far, 0, 0],
        ]
    )


Q, R = np.diag([1e-3, 1e-3, 1e-2, 1e-3]), np.diag([0.05, 0.1])
START, SPREAD = np.array([0.0, 0.0, 1.0, 0.3]), np.diag([0.3, 0.3, 0.1, 0.05])
STEPS = 12
INPUTS = np.stack([np.linspace(-0.2, 0.3, STEPS), 5 + 0.1 * np.arange(STEPS)], axis=1)


def vehicle(**slopes):
    return dynamics.NonlinearStateSpace(turn, ranges, Q, R, START, SPREAD, inputs=2, **slopes)


def track(rng, trials):
    """States (trials, K, 4) and readings (trials, K, 2) of vehicles."""
    states, y = np.empty((trials, STEPS, 4)), np.empty((trials, STEPS, 2))
    x = START + rng.standard_normal((trials, 4)) @ np.sqrt(SPREAD)
    for k in range(STEPS):
        states[:, k] = x
        y[:, k] = np.stack([ranges(one, INPUTS[k]) for one in x])
        x = np.stack([turn(one, INPUTS[k]) for one in x])
        x += rng.standard_normal((trials, 4)) @ np.sqrt(Q)
    return states, y + rng.standard_normal(y.shape) @ np.sqrt(R)


def released(rng, level, gone=(3,)):
    _, y = track(rng, 1)
    y[0, list(gone)] = np.nan
    return pv.StreamMechanism(level).simulate(y[0], rng), np.isnan(y[0, :, 0])


def extended_moments(mean, P, function, slope):
    """Mean, covariance and cross covariance of a function, by its slope."""
    J = slope(mean)
    return function(mean), J @ P @ J.T, P @ J.T


def unscented_moments(kappa):
    def moments(mean, P, function, slope):
        n = len(mean)
        half = np.sqrt(n + kappa) * np.linalg.cholesky(P).T
        points = np.concatenate([[mean], mean + half, mean - half])
        weights = np.full(2 * n + 1, 0.5 / (n + kappa))
        weights[0] = kappa / (n + kappa)
        values = np.stack([function(point) for point in points])
        middle = weights @ values
        out, into = values - middle, points - mean
        return middle, (weights * out.T) @ out, (weights * into.T) @ out

    return moments


def literal(moments, level, release, missing):
    """The textbook filter and smoother with inverses: predicted, filtered, smoothed, ahead."""
    shown = level.blocks(0, STEPS)[0]
    z = release.values.reshape(STEPS, 2)
    mean, P = START, SPREAD
    filtered, predicted, cross = [], [], [None]
    for k in range(STEPS):
        if k:
            u = INPUTS[k - 1]
            mean, P, C = moments(
                mean, P, lambda x, u=u: turn(x, u), lambda x, u=u: turn_slope(x, u)
            )
            P = P + Q
            cross.append(C)
        predicted.append((mean, P))
        if not missing[k]:
            L, u = shown[k], INPUTS[k]
            expected, V, C = moments(
                mean, P, lambda x, L=L, u=u: L @ ranges(x, u),
                lambda x, L=L, u=u: L @ ranges_slope(x, u),
            )  # fmt: skip
            V = V + L @ R @ L.T + np.eye(2)
            gain = C @ np.linalg.inv(V)
            mean, P = mean + gain @ (z[k] - expected), P - gain @ V @ gain.T
        filtered.append((mean, P))
    ahead, M, _ = moments(
        mean, P, lambda x: turn(x, INPUTS[-1]), lambda x: turn_slope(x, INPUTS[-1])
    )
    smoothed = [filtered[-1]]
    for k in range(STEPS - 1, 0, -1):
        (x, S), (before, W), (mean, P) = smoothed[0], predicted[k], filtered[k - 1]
        gain = cross[k] @ np.linalg.inv(W)
        smoothed.insert(0, (mean + gain @ (x - before), P + gain @ (S - W) @ gain.T))
    return predicted, filtered, smoothed, [(ahead, M + Q)]


LITERAL = {
    "extended": extended_moments,
    "unscented": unscented_moments(0.0),  # four states: max(3 − n, 0)
}


@pytest.mark.parametrize("name", RULES)
def test_against_the_textbook(name):
    """The same formulas with inverses: 1e-10 for condition numbers up to 1e4."""
    level = pv.StreamLevel.constant([[3.0, 1.0], [1.0, 2.0]])
    release, missing = released(np.random.default_rng(7), level)
    slopes = {"transition_jacobian": turn_slope, "measurement_jacobian": ranges_slope}
    found = dynamics.filter(vehicle(**slopes), release, inputs=INPUTS, **RULES[name])
    smoothed = found.smoothed
    ahead = found.forecast(1, inputs=INPUTS[-1:])
    ours = (
        (found.predicted.value, found.predicted.covariance),
        (found.filtered.value, found.filtered.covariance),
        (smoothed.value, smoothed.covariance),
        (ahead.value, ahead.covariance),
    )
    for (means, covariances), expected in zip(
        ours, literal(LITERAL[name], level, release, missing)
    ):
        assert np.abs(means - np.stack([mean for mean, _ in expected])).max() < 1e-10
        assert np.abs(covariances - np.stack([P for _, P in expected])).max() < 1e-10


def test_against_filterpy():
    kalman = pytest.importorskip("filterpy.kalman", reason="filterpy is not installed (bench)")
    level = pv.StreamLevel.constant(2.0 * np.eye(2))
    release, _ = released(np.random.default_rng(3), level, gone=())
    L, z = np.sqrt(2.0) * np.eye(2), release.values.reshape(STEPS, 2)
    points = kalman.JulierSigmaPoints(4, kappa=0.0)
    peer = kalman.UnscentedKalmanFilter(4, 2, 1.0, hx=None, fx=None, points=points)
    peer.x, peer.P, peer.Q, peer.R = START.copy(), SPREAD.copy(), Q, 2 * R + np.eye(2)
    peer.sigmas_f = points.sigma_points(peer.x, peer.P)
    found = dynamics.filter(vehicle(), release, level=level, inputs=INPUTS, method="unscented")
    for k in range(STEPS):
        if k:
            peer.predict(fx=lambda x, dt, u: turn(x, u), u=INPUTS[k - 1])
        peer.update(z[k], hx=lambda x, u: L @ ranges(x, u), u=INPUTS[k])
        assert np.abs(found.filtered.value[k] - peer.x).max() < 1e-10
        assert np.abs(found.filtered.covariance[k] - peer.P).max() < 1e-10


def test_differences_serve_where_no_slope_is_given():
    """Numerical Jacobians are good to 1e-6 by contract."""
    level = pv.StreamLevel.constant(2.0 * np.eye(2))
    release, _ = released(np.random.default_rng(5), level)
    slopes = {"transition_jacobian": turn_slope, "measurement_jacobian": ranges_slope}
    ours, exact = (
        dynamics.filter(one, release, level=level, inputs=INPUTS, method="extended").smoothed
        for one in (vehicle(), vehicle(**slopes))
    )
    assert np.abs(ours.value - exact.value).max() < 1e-5
    nominal = np.stack([START] * STEPS)
    along, known = (
        dynamics.local_bound(one, level, nominal, inputs=INPUTS).smoothed
        for one in (vehicle(), vehicle(**slopes))
    )
    assert np.abs(along - known).max() < 1e-5


def test_squared_errors_are_as_large_as_stated():
    """NEES of 60 vehicles, filtered and smoothed, within the χ² interval of 1e-6 (0.6 to 1.5).

    The bends of f and h cost a few per cent; a filter that forgot the noise of the releases, or the
    inputs, would be off by a factor.
    """
    trials, level = 60, pv.StreamLevel.constant(4.0 * np.eye(2))
    rng = np.random.default_rng(11)
    states, y = track(rng, trials)
    slopes = {"transition_jacobian": turn_slope, "measurement_jacobian": ranges_slope}
    system = vehicle(**slopes)
    low, high = stats.chi2.interval(1 - 1e-6, 4 * trials)
    totals = {}
    for name in ("extended", "unscented"):
        for i in range(trials):
            release = pv.StreamMechanism(level).simulate(y[i], rng)
            found = dynamics.filter(system, release, inputs=INPUTS, **RULES[name])
            for part, k in ((found.filtered, STEPS - 1), (found.smoothed, STEPS // 2)):
                error = part.value[k] - states[i, k]
                square = error @ np.linalg.solve(part.covariance[k], error)
                totals[name, k] = totals.get((name, k), 0.0) + square
    for total in totals.values():
        assert low < total < high


def test_unscented_is_exact_to_second_order():
    """E x² of a Gaussian: mean² + variance, where the extended filter says mean²."""
    square = dynamics.NonlinearStateSpace(lambda x: x**2, lambda x: x, 0.0, 1.0, [0.5], 0.09)
    level = pv.StreamLevel.constant(1.0)
    nothing = pv.Release(
        0, 1, np.array([np.nan]), np.array([True]), level.fingerprint, True
    )  # fmt: skip
    bent = dynamics.filter(square, nothing, level=level, method="unscented").forecast(1)
    assert abs(bent.value[0, 0] - 0.34) < 1e-14
    assert abs(bent.covariance[0, 0, 0] - (4 * 0.25 * 0.09 + 2 * 0.09**2)) < 1e-14  # κ = 2
    flat = dynamics.filter(square, nothing, level=level, method="extended").forecast(1)
    assert abs(flat.value[0, 0] - 0.25) < 1e-12


def test_bad_input():
    level = pv.StreamLevel.constant(np.eye(2))
    release, _ = released(np.random.default_rng(0), level)
    for rule in RULES.values():
        with pytest.raises(InvalidInput, match="has 2 inputs: give them as"):
            dynamics.filter(vehicle(), release, level=level, **rule)
        with pytest.raises(InvalidInput, match="inputs must have shape"):
            dynamics.filter(vehicle(), release, level=level, inputs=INPUTS[:3], **rule)
    found = dynamics.filter(vehicle(), release, level=level, inputs=INPUTS, method="unscented")
    with pytest.raises(InvalidInput, match="steps must be"):
        found.forecast(0, inputs=INPUTS[:1])
    with pytest.raises(InvalidInput, match="give them as"):
        found.forecast(1)
    with pytest.raises(InvalidInput, match="inputs must be"):
        dynamics.NonlinearStateSpace(turn, ranges, Q, R, START, SPREAD, inputs=-1)
    assert "2 inputs" in repr(vehicle())
    assert "12 steps" in repr(found)
