"""Covariances against 100 digits: units from 1e-6 to 1e6, vague starts, hardly any noise.

Errors are relative to each covariance's own diagonal. Cholesky of cov0, Q, R and 15 orthogonal
steps cost some eps each; what is learnt in one coordinate and carried to a much better known one is
enlarged by the ratio of their errors, up to 1e4 with starts 1e8 times vaguer (in variance), and
once more on the way back. Measured: 2e-10 at worst over 60 such systems, 6e-15 in the median.
"""

import mpmath
import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.errors import NumericalFailure


def exact(system, steps, level, missing, digits=100):
    """Riccati and Bryson-Frazier recursions, as in the books."""
    n, m = system.states, system.readings
    with mpmath.workdps(digits):
        A, C, Q, R, X = (
            mpmath.matrix(M.tolist()) for M in (system.A, system.C, system.Q, system.R, system.cov0)
        )
        root = mpmath.matrix(np.sqrt(level).tolist())
        G, V = root.T * C, root.T * R * root + mpmath.eye(m)
        predicted, filtered, smoothed = [], [], [None] * steps
        for k in range(steps):
            X = A * X * A.T + Q if k else X
            predicted.append(X)
            if not missing[k]:
                X = X - X * G.T * (G * X * G.T + V) ** -1 * G * X
            filtered.append(X)
        N = mpmath.zeros(n)
        for k in range(steps - 1, -1, -1):
            smoothed[k] = filtered[k] - filtered[k] * N * filtered[k]
            if not missing[k]:
                gain = G.T * (G * predicted[k] * G.T + V) ** -1 * G
                kept = mpmath.eye(n) - predicted[k] * gain
                N = gain + kept.T * N * kept
            N = A.T * N * A
        return [np.array([P.tolist() for P in part], dtype=float)
                for part in (predicted, filtered, smoothed)]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_many_digits(seed):
    rng = np.random.default_rng(seed)
    n, m, steps = 3, 2, 15
    unit = 10.0 ** rng.uniform(-6, 6, n)
    A = rng.standard_normal((n, n))
    A *= rng.choice([0.5, 0.95, 1.0, 1.3]) / np.abs(np.linalg.eigvals(A)).max()
    drive = unit[:, None] * rng.standard_normal((n, int(rng.integers(1, n + 1))))
    Q = rng.choice([0.0, 1e-12, 1e-3, 1.0]) * drive @ drive.T
    system = dynamics.StateSpace(
        unit[:, None] * A / unit,
        rng.standard_normal((m, n)) / unit * 10.0 ** rng.uniform(-3, 3, (m, 1)),
        (Q + Q.T) / 2,
        np.diag(10.0 ** rng.uniform(-6, 3, m)),
        cov0=rng.choice([1e-6, 1.0, 1e8]) * np.diag(unit**2),
    )
    level = np.diag(10.0 ** rng.uniform(-3, 8, m))
    missing = rng.random(steps) < 0.2
    found = dynamics.bound(system, level, steps, missing=missing)
    names = ("predicted", "filtered", "smoothed")
    for name, expected in zip(names, exact(system, steps, level, missing)):
        own = np.sqrt(np.diagonal(expected, axis1=1, axis2=2))
        error = (getattr(found, name) - expected) / own[:, :, None] / own[:, None, :]
        assert np.abs(error).max() < 1e-9, name


UNSTABLE = {
    "one state": (1.2, 1.0, 0.1),
    "another reading": (1.2, 0.7, 0.1),
    "mixed coordinates": ([[1.1, 0.2], [0.1, 1.0]], [[1.0, 0.3]], 0.1),
    "stable drives unstable": ([[0.9, 0.0], [0.3, 1.2]], [[0.5, 0.7]], 0.1),
    "noise in one state": ([[1.2, 1.0], [0.0, 0.8]], [[0.7, 0.0]], [[0.0, 0.0], [0.0, 0.1]]),
    "two unstable": ([[1.2, 0.3], [0.1, 1.15]], [[0.7, 0.2]], 0.1),
    "two readings": ([[1.2, 0.3], [0.1, 1.15]], [[0.7, 0.2], [0.1, 0.4]], 0.1),
    "other units": ([[1.2, 3e5], [1e-7, 1.15]], [[0.7, 2e5]], [[0.1, 0.0], [0.0, 1e-13]]),
}


def errors(found, expected):
    """In units of the standard deviations of each step."""
    size = np.sqrt(np.einsum("kii->ki", expected))
    return (np.abs(found - expected) / size[:, :, None] / size[:, None, :]).max()


@pytest.mark.parametrize("name", UNSTABLE)
def test_long_gaps_of_unstable_systems(name):
    """In 200 steps without readings variances grow to 1e32, for two states to 1e48.

    Columns of the factor keep their digits, so what is left after the gap does; before it ordinary
    steps lose up to √1e6 (`GROWN`) times eps, and some more by the condition of A. Measured: 1e-12.
    """
    A, C, Q = UNSTABLE[name]
    system = dynamics.StateSpace(A, C, Q, 1.0, cov0=1.0 if name != "other units" else
                                 [[1.0, 0.0], [0.0, 1e-12]])  # fmt: skip
    missing = np.zeros(245, dtype=bool)
    missing[25:225] = True
    found = dynamics.bound(system, 1.0, 245, missing=missing)
    level = np.eye(system.readings)
    for part, expected in zip(
        (found.predicted, found.filtered, found.smoothed), exact(system, 245, level, missing, 200)
    ):
        assert errors(part, expected) < 1e-11


def exact_means(system, values, shift, digits):
    """Kalman filter and RTS smoother at level 1 from values (K, m), NaN where missing."""
    m = system.readings
    with mpmath.workdps(digits):
        A, C, Q, R, P = (
            mpmath.matrix(M.tolist()) for M in (system.A, system.C, system.Q, system.R, system.cov0)
        )
        x, V = mpmath.matrix(system.mean0.tolist()), R + mpmath.eye(m)
        before, after = [], []
        for k, value in enumerate(values):
            if k:
                x, P = A * x + mpmath.matrix(shift[k - 1].tolist()), A * P * A.T + Q
            before.append((x, P))
            if not np.isnan(value).any():
                gain = P * C.T * (C * P * C.T + V) ** -1
                x, P = x + gain * (mpmath.matrix(value.tolist()) - C * x), P - gain * C * P
            after.append((x, P))
        smoothed = [after[-1][0]]
        for (x, P), (lead, predicted) in zip(after[-2::-1], before[:0:-1]):
            smoothed.append(x + P * A.T * predicted**-1 * (smoothed[-1] - lead))
        filtered = [x for x, _ in after]
    return [np.array([[float(v) for v in x] for x in part]) for part in (filtered, smoothed[::-1])]


@pytest.mark.parametrize(
    ("name", "driven"),
    [("one state", False), ("stable drives unstable", True), ("two unstable", True),
     ("two readings", False), ("other units", True)],
)  # fmt: skip
def test_estimates_after_long_gaps(name, driven):
    """Predictions of 1e15 and readings of 1: in coordinates of the factor nothing cancels.

    Errors in standard deviations; the releases are numbers of the size of one, not of the system.
    """
    A, C, Q = UNSTABLE[name]
    n = np.atleast_2d(A).shape[0]
    B = np.ones((n, 1)) * (1.0 if name != "other units" else np.array([[1.0], [1e-6]]))
    cov0 = 1.0 if name != "other units" else [[1.0, 0.0], [0.0, 1e-12]]
    start = np.sqrt(np.diagonal(np.asarray(cov0) * np.eye(n)))
    system = dynamics.StateSpace(A, C, Q, 1.0, start, cov0, B=B if driven else None)
    rng = np.random.default_rng(5)
    values, inputs = rng.standard_normal((245, system.readings)), rng.standard_normal((245, 1))
    values[25:225] = np.nan
    gone = np.isnan(values[:, 0])
    known = inputs if driven else None
    shift = inputs @ B.T if driven else np.zeros((245, n))
    level = pv.EndlessLevel(np.eye(system.readings))
    release = pv.StreamRelease(0, 245, values.ravel(), gone, level.fingerprint, True)
    filtered = dynamics.filter(system, release, level=level, inputs=known)
    smooth = dynamics.smooth(filtered)
    expected = exact_means(system, values, shift, 150)
    for found, right in zip((filtered, smooth), expected):
        assert (np.abs(found.estimate - right) / found.standard_error).max() < 1e-11
    kalman = dynamics.PrivateKalman(system, level)  # step by step the gap is kept in mind
    sizes = [system.readings] * 245
    for k in range(245):
        own = None if known is None else known[k : k + 1]
        kalman.update(release.part(k, k + 1, sizes), inputs=own)
        if k == 200:  # in the middle of the gap
            state, kalman = kalman.state(), dynamics.PrivateKalman(system, level)
            kalman.restore(state)
        off = np.abs(kalman.estimate - expected[0][k]) / filtered.standard_error[k]
        assert off.max() < 1e-11
        assert errors(kalman.covariance[None], filtered.covariance[k : k + 1]) < 1e-11


def test_many_series_over_a_gap():
    """Series side by side have the estimates that each has alone."""
    system = dynamics.StateSpace([[1.2, 0.3], [0.1, 1.15]], [[0.7, 0.2]], 0.1, 1.0, cov0=1.0)
    values = np.random.default_rng(0).standard_normal((9, 160, 1))
    values[:, 20:140] = np.nan
    gone, level = np.isnan(values[0, :, 0]), pv.EndlessLevel(1.0)
    every = dynamics.SeriesRelease(values, gone, level.fingerprint, True)
    found = dynamics.filter(system, every, level=level)
    smooth = dynamics.smooth(found)
    for own in range(9):
        one = pv.StreamRelease(0, 160, values[own, :, 0], gone, level.fingerprint, True)
        alone = dynamics.filter(system, one, level=level)
        for part, single in ((found, alone), (smooth, dynamics.smooth(alone))):
            off = np.abs(part.estimate[own] - single.estimate) / single.standard_error
            assert off.max() < 1e-12


def test_the_gap_of_the_issue():
    missing = np.zeros(400, dtype=bool)
    missing[100:300] = True
    system = dynamics.StateSpace(A=1.2, C=1.0, Q=0.1, R=1.0, cov0=1.0)
    assert dynamics.bound(system, 1.0, 400, missing=missing).smoothed[297] == pytest.approx(
        0.209, abs=5e-4
    )


@pytest.mark.parametrize("vague", [1e8, 1e16, 1e30])
def test_starts_of_any_vagueness(vague):
    """A large cov0 is the way to say that nothing is known of x_0."""
    cruise = dynamics.StateSpace(
        [[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0]], [[0.025, 0.05], [0.05, 0.1]], 1.0, cov0=vague
    )
    missing = np.zeros(20, dtype=bool)
    found = dynamics.bound(cruise, 1.0, 20)
    for part, expected in zip(
        (found.predicted, found.filtered, found.smoothed),
        exact(cruise, 20, np.eye(1), missing, 200),
    ):
        assert errors(part, expected) < 1e-13


def test_readings_without_noise_after_a_long_gap_are_refused():
    """Without privacy and with R = 0 nothing divides the growth away: an error, no number."""
    system = dynamics.StateSpace([[1.2, 0.3], [0.1, 1.15]], [[0.7, 0.2]], 0.1, 0.0, cov0=1.0)
    missing = np.zeros(300, dtype=bool)
    missing[20:280] = True
    found = dynamics.bound(system, 1.0, 300, missing=missing)
    with pytest.raises(NumericalFailure, match="no noise of their own"):
        _ = found.classical
