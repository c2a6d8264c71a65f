"""Bounds, filter and smoother of dynamic models against filterpy and statsmodels."""

import numpy as np

import privest as pv
from benchmarks.timing import compare
from privest import dynamics

STEPS, N, M = 10**5, 4, 2


def system():
    """Two tracked positions with their speeds."""
    step = np.array([[1.0, 0.1], [0.0, 0.98]])
    A = np.kron(np.eye(2), step)
    C = np.kron(np.eye(2), [[1.0, 0.0]])
    Q = np.kron(np.eye(2), np.array([[0.0004, 0.002], [0.002, 0.02]]))
    return dynamics.StateSpace(A, C, Q, 0.25, cov0=1.0)


def released(own, level, steps, rng):
    _, y = own.simulate(steps, rng)
    return y, pv.StreamMechanism(level).simulate(y, rng)


def ours(own, level, release):
    found = dynamics.filter_releases(own, level, release)
    smoothed = dynamics.smooth(found)
    return dynamics.bound(own, level, release.steps), found, smoothed


def long_rows():
    """K = 10⁵ steps, 4 states, 2 outputs: bound, filter and smoother."""
    from filterpy.kalman import KalmanFilter
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    own, rng = system(), np.random.default_rng(0)
    level = pv.EndlessLevel(4.0 * np.eye(M))
    _, release = released(own, level, STEPS, rng)
    values = release.values.reshape(STEPS, M)
    rows, noise = 2.0 * own.C, 4.0 * own.R + np.eye(M)
    part = 2000

    def peer():
        kalman = KalmanFilter(dim_x=N, dim_z=M)
        kalman.F, kalman.H, kalman.Q, kalman.R = own.A, rows, own.Q, noise
        kalman.x, kalman.P = np.zeros(N), np.array(own.cov0)
        means, covariances, _, _ = kalman.batch_filter(values[:part], update_first=True)
        kalman.rts_smoother(means, covariances)

    model = MLEModel(
        values, k_states=N, k_posdef=N, initialization="known", initial_state=np.zeros(N),
        initial_state_cov=own.cov0,
    )  # fmt: skip
    model["transition"], model["design"], model["selection"] = own.A, rows, np.eye(N)
    model["state_cov"], model["obs_cov"] = own.Q, noise

    def work():
        return ours(own, level, release)

    name = f"bound, filter and smoother, K = {STEPS:,}, {N} states, {M} outputs"
    yield compare(name, work, "filterpy, filter and smoother", peer,
                  at_least=10, scale=STEPS / part, repeats=5)  # fmt: skip
    yield compare(name, work, "statsmodels, filter and smoother", lambda: model.ssm.smooth(),
                  limit=1.0, repeats=5)  # fmt: skip
    yield compare(name, work, "statsmodels, filter alone", lambda: model.ssm.filter(),
                  limit=1.0, repeats=5)  # fmt: skip


def varying_rows():
    """A system that changes at every step: nothing can be kept."""
    from filterpy.kalman import KalmanFilter

    own, steps, rng = system(), 30_000, np.random.default_rng(1)
    gaps = 1.0 + 0.5 * rng.random(steps)
    varying = dynamics.StateSpace(
        own.A[None] * np.ones((steps, 1, 1)), own.C, own.Q * gaps[:, None, None], own.R,
        cov0=own.cov0,
    )  # fmt: skip
    level = pv.EndlessLevel(4.0 * np.eye(M))
    _, release = released(varying, level, steps, rng)
    values = release.values.reshape(steps, M)
    part = 2000

    def peer():
        kalman = KalmanFilter(dim_x=N, dim_z=M)
        kalman.F, kalman.H, kalman.R = own.A, 2.0 * own.C, 4.0 * own.R + np.eye(M)
        kalman.x, kalman.P = np.zeros(N), np.array(own.cov0)
        means, covariances, _, _ = kalman.batch_filter(
            values[:part], Qs=varying.Q[:part], update_first=True
        )
        kalman.rts_smoother(means, covariances, Qs=varying.Q[:part])

    yield compare(f"bound, filter and smoother, Q changes, K = {steps:,}",
                  lambda: ours(varying, level, release), "filterpy, filter and smoother", peer,
                  scale=steps / part, repeats=3)  # fmt: skip


def series_rows():
    """1000 series at once against one by one."""
    own, rng = system(), np.random.default_rng(2)
    count, steps, few = 1000, 1000, 20
    level = pv.EndlessLevel(4.0 * np.eye(M))
    _, y = own.simulate(steps, rng, trials=count)
    release = dynamics.simulate_series(level, y, rng)
    single = [
        pv.StreamRelease(0, steps, release.values[i].ravel(), None, level.fingerprint, True)
        for i in range(few)
    ]

    def together():
        return dynamics.smooth(dynamics.filter_releases(own, level, release))

    def one_by_one():
        for one in single:
            dynamics.smooth(dynamics.filter_releases(own, level, one))

    yield compare(f"filter and smoother, {count} series of {steps} steps at once", together,
                  "one by one", one_by_one, scale=count / few, at_least=50, items=count * steps,
                  repeats=5)  # fmt: skip


def rows():
    yield from long_rows()
    yield from varying_rows()
    yield from series_rows()
