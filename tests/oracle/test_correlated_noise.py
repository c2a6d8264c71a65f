"""cov(w_k, v_k) ≠ 0: every route against the joint Gaussian of states and readings, written out."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

import privest as pv
from privest import dynamics
from privest.dynamics import StateSpace
from privest.errors import InvalidInput

K, N, M = 7, 2, 2


def correlated(seed, *, varying=False, rank=None, radius=0.9, inputs=0, n=N, m=M):
    """A system whose joint noise has the given rank (full: n + m)."""
    rng = np.random.default_rng(seed)
    axis = (K,) if varying else ()
    half = rng.standard_normal((*axis, n + m, n + m if rank is None else rank))
    joint = half @ half.swapaxes(-1, -2)
    A = rng.standard_normal((*axis, n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max(-1)[..., None, None]
    start = rng.standard_normal((n, n))
    return StateSpace(
        A,
        rng.standard_normal((*axis, m, n)),
        joint[..., :n, :n],
        joint[..., n:, n:],
        rng.standard_normal(n),
        start @ start.T,
        B=rng.standard_normal((n, inputs)) if inputs else None,
        D=rng.standard_normal((m, inputs)) if inputs else None,
        cross=joint[..., :n, n:],
    )


def written_out(system, steps, inputs=None):
    """Means and covariances of X = (x_0 … x_steps) and Y, as linear maps of all sources."""
    n, m = system.states, system.readings

    def each(matrix, k):
        return matrix[min(k, len(matrix) - 1)] if matrix.ndim == 3 else matrix

    size = n + steps * (n + m)
    maps, read = np.zeros((steps + 1, n, size)), np.zeros((steps, m, size))
    mean, seen = np.zeros((steps + 1, n)), np.zeros((steps, m))
    maps[0, :, :n], mean[0] = np.eye(n), system.mean0
    sources = [system.cov0]
    for k in range(steps):
        own = n + k * (n + m)
        cross = each(system.cross, k)
        sources.append(np.block([[each(system.Q, k), cross], [cross.T, each(system.R, k)]]))
        maps[k + 1] = each(system.A, k) @ maps[k]
        maps[k + 1, :, own : own + n] += np.eye(n)
        read[k] = each(system.C, k) @ maps[k]
        read[k, :, own + n : own + n + m] += np.eye(m)
        mean[k + 1], seen[k] = each(system.A, k) @ mean[k], each(system.C, k) @ mean[k]
        if inputs is not None:
            mean[k + 1] += system.B @ inputs[k]
            seen[k] += system.D @ inputs[k]
    X, Y = maps.reshape(-1, size), read.reshape(-1, size)
    cov = scipy.linalg.block_diag(*sources)
    return mean.ravel(), seen.ravel(), X @ cov @ X.T, X @ cov @ Y.T, Y @ cov @ Y.T


def rows_of(level, steps, m, missing):
    rows = dynamics._trajectory.rows_shown(level, missing, m)
    return rows[~np.repeat(missing, m)]


def given_releases(system, rows, z, count, inputs=None):
    """Mean (K+1, n), covariance and log density from the first `count` releases."""
    mean, seen, XX, XY, YY = written_out(system, K, inputs)
    A = rows[:count]
    V = A @ YY @ A.T + np.eye(count)
    fresh = z[:count] - A @ seen
    gain = np.linalg.solve(V, A @ XY.T).T
    density = -0.5 * (count * np.log(2 * np.pi) + np.linalg.slogdet(V)[1])
    density -= 0.5 * fresh @ np.linalg.solve(V, fresh)
    n = system.states
    P = (XX - gain @ A @ XY.T).reshape(K + 1, n, K + 1, n)
    return (mean + gain @ fresh).reshape(K + 1, n), P, density


def levels():
    rng = np.random.default_rng(9)
    dense = rng.standard_normal((K * M, K * M)) / 4
    half = rng.standard_normal((M, M))
    return {
        "now": pv.EndlessLevel(half @ half.T + 0.2 * np.eye(M)),
        "rank one": pv.EndlessLevel(np.outer(half[0], half[0])),
        "looks back": pv.EndlessLevel(1.5 * np.eye(M), [0.4 * half]),
        "changes": pv.StreamLevel(np.arange(1.0, K + 1)[:, None, None] * np.eye(M)),
        "dense": pv.StreamLevel.from_cumulative(dense @ dense.T, [M] * K),
    }


LEVELS = levels()
SYSTEMS = {
    "constant": {}, "changing": {"varying": True}, "singular": {"rank": 2},
    "one source for all": {"rank": 1}, "unstable, with inputs": {"radius": 1.3, "inputs": 2},
}  # fmt: skip


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("kind", SYSTEMS.values(), ids=SYSTEMS)
def test_filter_smoother_prediction_and_bound(level, kind):
    """To 1e-10 of the prior's size: the reference subtracts from it."""
    system = correlated(3, **kind)
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((K, 2)) if system.inputs else None
    _, y = system.simulate(K, rng, inputs=inputs)
    y[2] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    missing = np.isnan(y).any(axis=1)
    rows, z = rows_of(level, K, M, missing), release.values[~np.isnan(release.values)]
    found = dynamics.filter(system, release, level=level, inputs=inputs)
    smoothed, own = dynamics.smooth(found), np.arange(K)
    bound = dynamics.bound(system, level, K, missing=missing)
    dense = dynamics.trajectory_bound(system, level, K, missing=missing)
    allowed = 1e-10 * max(1.0, np.abs(written_out(system, K, inputs)[2]).max())
    for k in range(K):
        count = M * int((~missing[: k + 1]).sum())
        mean, P, _ = given_releases(system, rows, z, count, inputs)
        for part in (found.covariance, bound.filtered, dense.filtered):
            assert np.abs(part[k] - P[k, :, k]).max() < allowed
        assert np.abs(found.estimate[k] - mean[k]).max() < allowed
        if k < K - 1:
            for part in (found.predicted_covariance, bound.predicted, dense.predicted):
                assert np.abs(part[k + 1] - P[k + 1, :, k + 1]).max() < allowed
            assert np.abs(found.predicted_estimate[k + 1] - mean[k + 1]).max() < allowed
    mean, P, density = given_releases(system, rows, z, len(z), inputs)
    for part in (smoothed.covariance, bound.smoothed, dense.smoothed):
        assert np.abs(part - P[own, :, own]).max() < allowed
    assert np.abs(smoothed.estimate - mean[:K]).max() < allowed
    assert abs(float(found.log_likelihood) - density) < 1e-9 * abs(density)
    last = None if inputs is None else inputs[-1:]
    ahead = dynamics.predict(found, 1, inputs=last)  # the noise of x_K is partly known from y_{K−1}
    assert np.abs(ahead.covariance[0] - P[K, :, K]).max() < allowed
    assert np.abs(ahead.estimate[0] - mean[K]).max() < allowed
    if level.form == "dense":
        return
    kalman, parts = dynamics.PrivateKalman(system, level), pv.StreamMechanism(level)
    source = np.random.default_rng(0)
    pieces = [parts.simulate(y[:3], source), parts.simulate(y[3:], source)]
    again = dynamics.PrivateKalman(system, level)
    whole = dynamics.filter(system, dynamics.joined(pieces), level=level, inputs=inputs)
    for piece, cut in zip(pieces, (slice(0, 3), slice(3, K))):
        u = None if inputs is None else inputs[cut]
        again.restore(kalman.state())
        kalman.update(piece, inputs=u)
        again.update(piece, inputs=u)
    for one in (kalman, again):
        assert np.abs(one.estimate - whole.estimate[-1]).max() < allowed
        assert np.abs(one.covariance - whole.covariance[-1]).max() < allowed
        assert abs(one.log_likelihood - float(whole.log_likelihood)) < 1e-9
        there, then = one.predict(1, inputs=last), dynamics.predict(whole, 1, inputs=last)
        assert np.abs(there.estimate - then.estimate).max() < allowed
        assert np.abs(there.covariance - then.covariance).max() < allowed


@pytest.mark.parametrize("kind", [{}, {"varying": True}, {"rank": 3}], ids=str)
def test_information_of_the_readings(kind):
    """J_Y = cov(Y)⁻¹, its blocks, total levels, and those without memory."""
    system = correlated(5, **kind)
    YY = written_out(system, K)[4]
    J = np.linalg.inv(YY)
    size = np.abs(J).max()
    assert np.abs(dynamics.reading_information(system, K) - J).max() < 1e-9 * size
    own = J.reshape(K, M, K, M)[np.arange(K), :, np.arange(K)]
    assert np.abs(dynamics.information_blocks(system, K) - own).max() < 1e-9 * size
    S = 1.5 * np.linalg.eigvalsh(J).max()
    total = dynamics.total_level(system, S, K)
    rows = rows_of(total, K, M, np.zeros(K, dtype=bool))
    assert np.abs(rows.T @ rows + J - S * np.eye(K * M)).max() < 1e-9 * S
    bound = dynamics.bound(system, total, K)
    assert np.abs(bound.total_level - S * np.eye(M)).max() < 1e-8 * S
    if kind.get("rank"):
        return
    left = np.linalg.inv(system.uncorrelated.R)
    S = 1.1 * np.linalg.eigvalsh(left).max()
    kept = dynamics.memoryless_level(system, S, K)
    rows = rows_of(kept, K, M, np.zeros(K, dtype=bool))
    assert np.linalg.eigvalsh(S * np.eye(K * M) - J - rows.T @ rows).min() > -1e-9 * S


def test_steady_state_directions_and_lags():
    """The limit of the bound; best_directions against levels nearby."""
    system = correlated(11)
    for level in (LEVELS["now"], LEVELS["looks back"]):
        steady = dynamics.steady_state(system, level)
        far = dynamics.bound(system, level, 200)
        assert np.abs(steady.filtered - far.filtered[-1]).max() < 1e-10
        assert np.abs(steady.predicted - far.predicted[-1]).max() < 1e-10
        assert np.abs(steady.smoothed - far.smoothed[100]).max() < 1e-10
    best = dynamics.best_directions(system, 2.0)
    assert best.gap < 1e-5
    error = np.trace(dynamics.steady_state(system, best.level).filtered)
    assert abs(error - best.value) < 1e-9 * error
    for angle in np.linspace(0, np.pi, 7):
        turned = np.outer(v := np.array([np.cos(angle), np.sin(angle)]), v)
        other = pv.EndlessLevel(1.0 * turned + 0.5 * np.eye(2))
        assert np.trace(dynamics.steady_state(system, other).filtered) >= best.floor
    short = dynamics.best_directions(system, total=6.0, steps=4)
    assert abs(np.trace(dynamics.bound(system, short.level, 4).filtered, axis1=1, axis2=2).sum()
               - short.value) < 1e-9 * short.value  # fmt: skip


def test_simulations_have_the_covariance():
    """Of (x, y) over all steps: 4e4 trials; entries within 6 deviations of a sample covariance."""
    system, trials = correlated(2, varying=True), 40_000
    states, y = system.simulate(K, np.random.default_rng(4), trials=trials)
    mean, seen, XX, XY, YY = written_out(system, K)
    n = K * N
    whole = np.block([[XX[:n, :n], XY[:n]], [XY[:n].T, YY]])
    sample = np.concatenate([states.reshape(trials, -1), y.reshape(trials, -1)], axis=1)
    centred = sample - np.concatenate([mean[:n], seen])
    found = centred.T @ centred / trials
    unit = np.sqrt((np.outer(whole.diagonal(), whole.diagonal()) + whole**2) / trials)
    assert np.abs((found - whole) / unit).max() < 6


def test_no_correlation_is_none():
    system = correlated(3)
    none = StateSpace(
        system.A, system.C, system.Q, system.R, system.mean0, system.cov0, cross=np.zeros((N, M))
    )
    plain = StateSpace(system.A, system.C, system.Q, system.R, system.mean0, system.cov0)
    assert plain.uncorrelated is plain
    for name in ("predicted", "filtered", "smoothed"):
        ours, theirs = (getattr(dynamics.bound(one, 2.0, 9), name) for one in (none, plain))
        assert np.abs(ours - theirs).max() < 1e-12


def test_a_long_gap_of_an_unstable_system():
    """Variances grow to 1e15; the textbook recursion AP⁻Aᵀ + Q − (AP⁻Cᵀ + N)(…)ᵀ/v in 80 digits."""
    A, C, N = [[1.4, 1.0], [0.0, 0.8]], [[1.0, 0.0]], [[0.6], [0.1]]
    system = StateSpace(A, C, 0.5, 1.0, cov0=1.0, cross=N)
    missing = np.zeros(60, dtype=bool)
    missing[5:55] = True
    found = dynamics.bound(system, 2.0, 60, missing=missing)
    with mpmath.workdps(80):
        A, C, N = mpmath.matrix(A), mpmath.matrix(C), mpmath.matrix(N)
        P = mpmath.eye(2)
        for k in range(60):
            v = (C * P * C.T)[0] + mpmath.mpf(3) / 2
            used = 0 if missing[k] else 1
            gain, joint = P * C.T, A * P * C.T + N
            for ours, exact in (
                (found.predicted, P),
                (found.filtered, P - used * gain * gain.T / v),
            ):
                exact = np.array(exact.tolist(), dtype=float)
                unit = np.sqrt(exact.diagonal())
                assert np.abs((ours[k] - exact) / unit / unit[:, None]).max() < 1e-11
            P = A * P * A.T + mpmath.eye(2) / 2 - used * joint * joint.T / v
    assert found.filtered[54, 0, 0] > 1e14


def test_bad_input():
    given = {"A": np.eye(2), "C": [[1.0, 0.0]], "Q": 1.0, "R": 1.0, "cov0": 1.0}
    with pytest.raises(InvalidInput, match="cross must be 2×1"):
        StateSpace(**given, cross=[[0.5, 0.5]])
    with pytest.raises(InvalidInput, match="is not ≥ 0"):
        StateSpace(**given, cross=[[1.5], [0.0]])
    with pytest.raises(InvalidInput, match="time axes"):
        StateSpace(**(given | {"R": np.ones((3, 1, 1))}), cross=np.zeros((4, 2, 1)))
