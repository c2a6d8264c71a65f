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
    _, y = own.sample(steps, rng)
    return y, pv.StreamMechanism(level).simulate(y, rng)


def ours(own, level, release):
    found = dynamics.filter(own, release, level=level)
    smoothed = found.smoothed
    return pv.bound(own, level, steps=release.steps), found, smoothed


def long_rows():
    """K = 10⁵ steps, 4 states, 2 outputs: bound, filter and smoother."""
    from filterpy.kalman import KalmanFilter
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    own, rng = system(), np.random.default_rng(0)
    level = pv.StreamLevel.constant(4.0 * np.eye(M))
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


def peer_model(own, shown, values):
    """The same system, seen through L_kᵀ, for statsmodels."""
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    def last(matrices):  # statsmodels has the time axis last
        varies = matrices.ndim == 3 and len(matrices) > 1
        flat = matrices if matrices.ndim == 2 else matrices[0]
        return np.ascontiguousarray(np.moveaxis(matrices, 0, -1)) if varies else flat

    model = MLEModel(
        values, k_states=N, k_posdef=N, initialization="known", initial_state=np.zeros(N),
        initial_state_cov=own.cov0,
    )  # fmt: skip
    model["transition"], model["selection"], model["state_cov"] = (
        last(own.A),
        np.eye(N),
        last(own.Q),
    )
    model["design"] = last(shown @ own.C)
    model["obs_cov"] = last(shown @ own.R @ shown.swapaxes(1, 2) + np.eye(M))
    return model.ssm


def changing(kind, steps, rng):
    """System, level, L_kᵀ, and which measurements are missing: what changes from step to step."""
    own, share = system(), 1.0 + 0.5 * rng.random((steps, 1, 1))
    level, shown = pv.StreamLevel.constant(4.0 * np.eye(M)), 2.0 * np.eye(M)[None]
    missing = np.zeros(steps, dtype=bool)
    if kind == "Q changes":
        own = dynamics.StateSpace(own.A, own.C, own.Q * share, own.R, cov0=own.cov0)
    elif kind == "gaps":
        missing = rng.random(steps) < 0.2
    else:
        A, C = own.A * (1 - 0.01 * (share - 1)), own.C * share
        own = dynamics.StateSpace(A, C, own.Q * share, own.R * share, cov0=own.cov0)
        level, shown = pv.StreamLevel(4.0 * share * np.eye(M)), 2.0 * np.sqrt(share) * np.eye(M)
    return own, level, shown, missing


def varying_rows():
    """Nothing can be kept: a system that changes, releases with gaps, everything changing."""
    steps = 30_000
    for kind in ("Q changes", "gaps", "everything changes"):
        rng = np.random.default_rng(1)
        own, level, shown, missing = changing(kind, steps, rng)
        _, y = own.sample(steps, rng)
        y[missing] = np.nan
        release = pv.StreamMechanism(level).simulate(y, rng)
        peer = peer_model(own, shown, release.values.reshape(steps, M))

        def work(own=own, level=level, release=release):
            return dynamics.filter(own, release, level=level)

        def both(work=work):
            return work().smoothed

        name = f"{kind}, K = {steps:,}, {N} states, {M} outputs"
        yield compare(f"filter, {name}", work, "statsmodels", peer.filter, at_least=3, items=steps)
        yield compare(f"filter and smoother, {name}", both, "statsmodels", peer.smooth,
                      at_least=3, items=steps)  # fmt: skip


def single_rows():
    """Releases as they come, one update each, against filterpy's predict and update."""
    from filterpy.kalman import KalmanFilter

    own, steps, rng = system(), 3000, np.random.default_rng(3)
    level = pv.StreamLevel.constant(4.0 * np.eye(M))
    _, y = own.sample(steps, rng)
    mechanism = pv.StreamMechanism(level)
    releases = [mechanism.simulate(y[k : k + 1], rng) for k in range(steps)]

    def online():
        kalman = dynamics.PrivateKalman(own, level)
        for release in releases:
            kalman.update(release)

    def peer():
        kalman = KalmanFilter(dim_x=N, dim_z=M)
        kalman.F, kalman.H, kalman.Q, kalman.R = own.A, 2.0 * own.C, own.Q, 4 * own.R + np.eye(M)
        kalman.x, kalman.P = np.zeros(N), np.array(own.cov0)
        for release in releases:
            kalman.update(release.values)
            kalman.predict()

    yield compare("PrivateKalman.update, one release at a time", online,
                  "filterpy, update and predict", peer, limit=1.0, items=steps,
                  repeats=5)  # fmt: skip


def series_rows():
    """1000 series at once against one by one."""
    own, rng = system(), np.random.default_rng(2)
    count, steps, few = 1000, 1000, 20
    level = pv.StreamLevel.constant(4.0 * np.eye(M))
    _, y = own.sample(steps, rng, trials=count)
    release = pv.StreamMechanism(level).simulate(y, rng)
    single = [
        pv.Release(0, steps, release.values[i].ravel(), None, level.fingerprint, True)
        for i in range(few)
    ]

    def together():
        return dynamics.filter(own, release, level=level).smoothed

    def one_by_one():
        for one in single:
            _ = dynamics.filter(own, one, level=level).smoothed

    yield compare(f"filter and smoother, {count} series of {steps} steps at once", together,
                  "one by one", one_by_one, scale=count / few, at_least=5, items=count * steps,
                  repeats=5)  # fmt: skip


def rows():
    yield from long_rows()
    yield from varying_rows()
    yield from single_rows()
    yield from series_rows()
