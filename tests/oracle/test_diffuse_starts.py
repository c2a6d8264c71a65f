"""Diffuse starts: statsmodels' exact ones, least squares written out, large variances."""

import mpmath
import numpy as np
import pytest
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

import privest as pv
from privest import dynamics
from privest.dynamics import StateSpace
from privest.errors import InvalidInput, NotIdentifiable

TREND = {"A": [[1.0, 1.0], [0.0, 1.0]], "C": [[1.0, 0.0]], "Q": np.diag([0.3, 0.1]), "R": 0.5}
SEASON = {
    "A": np.array([[1.0, 0, 0, 0], [0, -1, -1, -1], [0, 1, 0, 0], [0, 0, 1, 0]]),
    "C": [[1.0, 1.0, 0.0, 0.0]], "Q": np.diag([0.2, 0.1, 0.0, 0.0]), "R": 0.3,
}  # fmt: skip


def stream(level, values):
    """A release of these numbers, NaN where a step is missing."""
    gone = np.isnan(values).any(axis=1)
    return pv.Release(0, len(values), values.ravel().copy(), gone, level.fingerprint, True)


def theirs(system, rows, values):
    """statsmodels on z̃: design LᵀC, noise LᵀRL + I; the diffuse states are whole ones."""
    n, m = system.states, system.measurements
    model = KalmanSmoother(k_endog=m, k_states=n, k_posdef=n)
    model.bind(values.copy())
    model["design"], model["transition"], model["selection"] = rows @ system.C, system.A, np.eye(n)
    model["state_cov"], model["obs_cov"] = system.Q, rows @ system.R @ rows.T + np.eye(m)
    model.initialize_diffuse()
    return model.smooth()


@pytest.mark.parametrize("missing", [(), (0,), (1, 4)])
@pytest.mark.parametrize("parts", [TREND, SEASON], ids=["trend", "season"])
def test_against_statsmodels(parts, missing):
    system, level = StateSpace(**parts, diffuse=True), pv.StreamLevel.constant(4.0)
    rng = np.random.default_rng(len(missing))
    values = rng.standard_normal((16, 1)).cumsum(axis=0)
    values[list(missing)] = np.nan
    release = stream(level, values)
    found = dynamics.filter(system, release, level=level)
    peer = theirs(system, np.array([[2.0]]), values)
    smoothed = found.smoothed
    proper = np.isfinite(found.filtered.covariance).all(axis=(1, 2))
    measurements = np.cumsum(~np.isnan(values[:, 0]))
    assert np.array_equal(proper, measurements >= system.states)
    assert abs(float(found.log_likelihood) - peer.llf_obs.sum()) < 1e-10
    assert np.abs(found.filtered.value - peer.filtered_state.T).max() < 1e-10
    covariance = peer.filtered_state_cov.transpose(2, 0, 1)
    assert np.abs(found.filtered.covariance[proper] - covariance[proper]).max() < 1e-10
    assert np.abs(smoothed.value - peer.smoothed_state.T).max() < 1e-10
    covariance = peer.smoothed_state_cov.transpose(2, 0, 1)
    assert np.abs(smoothed.covariance - covariance).max() < 1e-10
    assert np.isnan(found.innovations[~proper]).all()
    bound = pv.bound(system, level, steps=16, missing=np.isnan(values[:, 0]))
    assert np.abs(bound.smoothed - smoothed.covariance).max() < 1e-12
    assert np.array_equal(np.isfinite(bound.filtered), np.isfinite(found.filtered.covariance))
    assert np.abs(bound.filtered[proper] - found.filtered.covariance[proper]).max() < 1e-12


def test_infinite_entries_are_the_limits_of_large_variances():
    """cov0 + κDDᵀ: entries that grow with κ are infinite of their sign, the others converge."""
    A = np.array([[1.0, 1.0, 0.5], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    D = np.array([[1.0, 0.0], [-0.5, 1.0], [0.3, -1.0]])
    parts = {"A": A, "C": [[1.0, 0.0, 0.0]], "Q": 0.1, "R": 0.5}
    system = StateSpace(**parts, cov0=0.4, diffuse=D)
    bound, level = pv.bound(system, 2.0, steps=4), pv.StreamLevel.constant(2.0)
    large = [pv.bound(StateSpace(**parts, cov0=0.4 * np.eye(3) + kappa * D @ D.T), 2.0, steps=4)
             for kappa in (1e6, 1e8)]  # fmt: skip
    for name in ("predicted", "filtered"):
        few, many = (getattr(one, name) for one in large)
        ours = getattr(bound, name)
        grows = np.abs(many) > 10 * np.abs(few)
        assert np.array_equal(grows, np.isinf(ours))
        assert np.array_equal(np.sign(many[grows]), np.sign(ours[grows]))
        assert np.abs((ours - many)[~grows]).max() < 1e-5
    assert np.isinf(bound.filtered[0]).any()
    assert np.isfinite(bound.filtered[1:]).all()
    assert np.abs(bound.smoothed - large[1].smoothed).max() < 1e-5
    y = np.random.default_rng(1).standard_normal(4)
    release = stream(level, y[:, None])
    found = dynamics.filter(system, release, level=level)
    vague = dynamics.filter(large[1].system, release, level=level)
    assert np.abs(found.filtered.value - vague.filtered.value).max() < 1e-5
    limit = float(vague.log_likelihood) + np.log(1e8)  # (q/2) log κ
    assert abs(float(found.log_likelihood) - limit) < 1e-5


def test_measurements_without_noise():
    """Classical bounds where R = 0, against large variances."""
    exact = StateSpace(**(TREND | {"R": 0.0}), diffuse=True)
    vague = StateSpace(**(TREND | {"R": 0.0}), cov0=1e7)
    ours, theirs_ = (pv.bound(one, 2.0, steps=8).classical for one in (exact, vague))
    assert np.abs((ours.filtered - theirs_.filtered)[1:]).max() < 1e-6
    assert np.abs(ours.smoothed - theirs_.smoothed).max() < 1e-6


def test_many_series_and_inputs():
    """Each series as by itself; a known input moves the estimates by what it adds."""
    system = StateSpace(**TREND, diffuse=True, B=[[0.5], [0.1]], D=[[2.0]])
    rng, level = np.random.default_rng(3), pv.StreamLevel.constant(1.0)
    u = rng.standard_normal((12, 1))
    _, y = system.sample(12, rng, inputs=u, trials=3)
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(system, release, level=level, inputs=u)
    smoothed = found.smoothed
    for i in range(3):
        own = stream(level, release.values[i])
        alone = dynamics.filter(system, own, level=level, inputs=u)
        assert np.abs(alone.filtered.value - found.filtered.value[i]).max() < 1e-11
        assert abs(float(alone.log_likelihood - found.log_likelihood[i])) < 1e-10
        back = alone.smoothed.value
        assert np.abs(back - smoothed.value[i]).max() < 1e-11
    quiet = StateSpace(**TREND, diffuse=True)
    added = StateSpace(**(TREND | {"Q": 0.0, "R": 0.0}), cov0=0.0, B=system.B, D=system.D)
    path, seen = added.sample(12, rng, inputs=u)
    own = stream(level, release.values[0] - seen)
    alone = dynamics.filter(quiet, own, level=level)
    assert np.abs(alone.filtered.value + path - found.filtered.value[0]).max() < 1e-11
    ahead = found.forecast(2, inputs=u[:2])
    assert ahead.value.shape == (3, 2, 2)


def test_masks_and_columns():
    mask = StateSpace(**TREND, cov0=np.diag([2.0, 0.0]), diffuse=[False, True])
    columns = StateSpace(**TREND, cov0=np.diag([2.0, 0.0]), diffuse=[[0.0], [1.0]])
    assert np.array_equal(mask.diffuse, columns.diffuse)
    assert np.isinf(pv.bound(mask, 1.0, steps=3).predicted[0, 1, 1])
    assert abs(pv.bound(mask, 1.0, steps=3).predicted[0, 0, 0] - 2.0) < 1e-14
    scaled = StateSpace(**TREND, cov0=np.diag([2.0, 0.0]), diffuse=[[0.0], [10.0]])
    ours, same = (pv.bound(one, 1.0, steps=5).filtered for one in (mask, scaled))
    assert np.allclose(ours, same, rtol=1e-12)
    assert "diffuse start" in repr(mask)
    assert StateSpace(**TREND, cov0=1.0, diffuse=False).diffuse is None


def test_what_is_never_shown():
    hidden = StateSpace(np.eye(2), [[1.0, 0.0]], 0.1, 0.1, diffuse=True)
    with pytest.raises(NotIdentifiable, match="1 of its 2 diffuse directions") as raised:
        pv.bound(hidden, 1.0, steps=50)
    assert np.allclose(np.abs(raised.value.hidden_directions), [[0.0], [1.0]])
    # Turned, so that what is hidden cancels to rounding only.
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    turned = StateSpace(
        turn @ np.diag([0.9, 1.1]) @ turn.T, turn[:, :1].T, 0.1, 0.1, cov0=1.0, diffuse=turn[:, 1:]
    )
    assert (turned.C @ turned.diffuse).any()
    with pytest.raises(NotIdentifiable, match="1 of its 1 diffuse directions"):
        pv.bound(turned, 1.0, steps=30)
    level = pv.StreamLevel.constant(1.0)
    release = stream(level, np.ones((1, 1)))
    trend = StateSpace(**TREND, diffuse=True)
    with pytest.raises(NotIdentifiable, match="do not determine x_0"):
        dynamics.filter(trend, release, level=level)
    kalman = dynamics.PrivateKalman(trend, level)
    assert np.isinf(kalman.covariance.diagonal()).all()
    assert np.isinf(kalman.update(release).filtered.covariance[0, 1, 1])
    assert kalman.log_likelihood == 0.0
    with pytest.raises(NotIdentifiable, match="no forecast yet"):
        kalman.forecast(1)


def test_bad_input():
    with pytest.raises(InvalidInput, match="or give diffuse=True"):
        StateSpace(**TREND)
    with pytest.raises(InvalidInput, match="cov0 is needed"):
        StateSpace(**TREND, diffuse=[True, False])
    for wrong in ([[1.0, 0.0]], [False, False], np.zeros((2, 0)), [[True], [False], [True]]):
        with pytest.raises(InvalidInput, match="diffuse must be True, 2 truth values"):
            StateSpace(**TREND, cov0=1.0, diffuse=wrong)
    with pytest.raises(InvalidInput, match="not linearly independent"):
        StateSpace(**TREND, cov0=1.0, diffuse=[[1.0, 2.0], [1.0, 2.0]])
    system = StateSpace(**TREND, diffuse=True)
    with pytest.raises(InvalidInput, match="needs a proper start"):
        dynamics.best_directions(system, 1.0, steps=3)


def in_many_digits(system, rows, values):
    """ℓ, and x̂, P of the last state, by generalised least squares in 60 digits."""
    n, m, K = system.states, system.measurements, len(values)

    def exact(array):
        return mpmath.matrix(np.asarray(array).tolist())

    A, Q, G = exact(system.A), exact(system.Q), exact(rows) * exact(system.C)
    noise = exact(rows) * exact(system.R) * exact(rows).T + mpmath.eye(m)
    power, prior = [mpmath.eye(n)], [exact(system.cov0)]
    for _ in range(K):
        power.append(A * power[-1])
        prior.append(A * prior[-1] * A.T + Q)
    seen = [k for k in range(K) if not np.isnan(values[k, 0])]
    V, X = mpmath.zeros(m * len(seen)), mpmath.zeros(m * len(seen), n)
    cross, z = mpmath.zeros(n, m * len(seen)), exact(values[seen].reshape(-1, 1))
    for a, k in enumerate(seen):
        own = slice(a * m, (a + 1) * m)
        X[own, :] = G * power[k]
        cross[:, own] = power[K - 1 - k] * prior[k] * G.T
        for b, j in enumerate(seen[: a + 1]):
            block = G * power[k - j] * prior[j] * G.T + (noise if a == b else mpmath.zeros(m))
            V[own, b * m : (b + 1) * m], V[b * m : (b + 1) * m, own] = block, block.T
    inverse = V**-1
    shown = X.T * inverse * X
    spread = shown**-1
    delta = spread * (X.T * (inverse * z))
    left = z - X * delta
    fit = len(z) * mpmath.log(2 * mpmath.pi) + mpmath.log(mpmath.det(V) * mpmath.det(shown))
    gain = cross * inverse
    moved = power[K - 1] - gain * X
    P = prior[K - 1] - gain * cross.T + moved * spread * moved.T
    mean = gain * z + moved * delta
    return (
        float(-(fit + (left.T * inverse * left)[0]) / 2),
        np.array(mean.tolist(), dtype=float).ravel(),
        np.array(P.tolist(), dtype=float),
    )


@pytest.mark.parametrize("seed", range(6))
def test_hard_systems_in_many_digits(seed):
    """δ shown badly (conditions to 1e7), decaying and growing states: 1e-11 deviations.

    (statsmodels' own exact start misjudges the rank of some of these: ℓ off by 20 %.)
    """
    rng = np.random.default_rng(seed)
    n, m, K = 2 + seed % 3, 1 + seed % 2, 12
    A = rng.standard_normal((n, n))
    A *= (0.2, 0.6, 1.3)[seed % 3] / np.abs(np.linalg.eigvals(A)).max()
    half = rng.standard_normal((n, seed % n))
    system = StateSpace(
        A, rng.standard_normal((m, n)), half @ half.T, 0.3 * (seed % 2), diffuse=True
    )
    level = pv.StreamLevel.constant(np.diag(rng.uniform(0.1, 3.0, m)))
    values = 3 * rng.standard_normal((K, m))
    values[[1, 4]] = np.nan
    found = dynamics.filter(system, stream(level, values), level=level)
    smoothed = found.smoothed
    with mpmath.workdps(60):
        fit, mean, P = in_many_digits(system, level.blocks(0, 1)[0, 0], values)
    unit = np.sqrt(P.diagonal())
    assert abs(float(found.log_likelihood) - fit) < 1e-11 * abs(fit)
    for part in (found.filtered, smoothed):
        assert np.abs((part.value[-1] - mean) / unit).max() < 1e-11
        assert np.abs((part.covariance[-1] - P) / unit / unit[:, None]).max() < 1e-11
