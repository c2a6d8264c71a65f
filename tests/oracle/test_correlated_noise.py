"""cov(w_k, v_k) ≠ 0: simulations, the steady state, what is refused (more in dynamics_dense)."""

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


def test_the_steady_state_is_the_limit_of_the_bound():
    system, level = correlated(11), pv.EndlessLevel([[1.2, 0.4], [0.4, 0.8]])
    steady = dynamics.steady_state(system, level)
    far = pv.bound(system, level, steps=200)
    assert np.abs(steady.filtered - far.filtered[-1]).max() < 1e-10
    assert np.abs(steady.predicted - far.predicted[-1]).max() < 1e-10
    assert np.abs(steady.smoothed - far.smoothed[100]).max() < 1e-10


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
    for name in ("predicted", "filtered", "smoothed"):
        ours, theirs = (getattr(pv.bound(one, 2.0, steps=9), name) for one in (none, plain))
        assert np.abs(ours - theirs).max() < 1e-12


def test_bad_input():
    given = {"A": np.eye(2), "C": [[1.0, 0.0]], "Q": 1.0, "R": 1.0, "cov0": 1.0}
    with pytest.raises(InvalidInput, match="cross must have 2 rows"):
        StateSpace(**given, cross=[[0.5, 0.5]])
    with pytest.raises(InvalidInput, match="is not ≥ 0"):
        StateSpace(**given, cross=[[1.5], [0.0]])
    with pytest.raises(InvalidInput, match="time axes"):
        StateSpace(**(given | {"R": np.ones((3, 1, 1))}), cross=np.zeros((4, 2, 1)))


def test_what_has_no_filter_is_refused():
    system = correlated(3)
    with pytest.raises(InvalidInput, match="take a level without lags"):
        pv.bound(system, pv.EndlessLevel(np.eye(M), [0.5]), steps=4)
    with pytest.raises(InvalidInput, match="without correlated noise"):
        dynamics.best_directions(system, 2.0)
