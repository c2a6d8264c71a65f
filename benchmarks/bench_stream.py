"""Streams in batch: every bound from one factorisation."""

import itertools

import numpy as np
import scipy.linalg

import privest as pv
from benchmarks.timing import compare
from privest.paper import reference

N, STEPS = 5, 10**6


def everything(model, level):
    return pv.bound(model, level).covariance


def dense_rows():
    rng = np.random.default_rng(0)
    n, variance = N, 0.5
    for steps, faster in ((1000, 100), (2000, 150)):
        S = rng.uniform(0.2, 2, steps)
        U = 0.1 * np.sqrt(S)[:, None] * np.tril(rng.standard_normal((steps, steps)), -1)
        H, z = rng.standard_normal((steps, n)), rng.standard_normal(steps)
        model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=variance))
        level = pv.StreamLevel(S, U)
        literal = [
            reference.Step(H[k : k + 1], np.array([[variance]]), S[k].reshape(1, 1), U[k, :k, None])
            for k in range(steps)
        ]

        def the_paper(literal=literal, S=S, z=z):
            for_bounds, for_estimates = itertools.tee(reference.recursive_information(literal))
            bounds = reference.recursive_bound(for_bounds, n + 1)
            released = list(np.sqrt(S)[:, None] * z[:, None])
            return list(reference.private_rls(literal, for_estimates, bounds, released, n + 1))

        square = np.asfortranarray(level.cumulative() + np.eye(steps))

        def cholesky(square=square):
            scipy.linalg.lapack.dpotrf(square, lower=1, clean=0)

        def ours(model=model, level=level):
            return everything(model, level)

        name = f"dense stream, all bounds, K = {steps}"
        yield compare(
            name, ours, "algorithms 1-3, literally", the_paper,
            at_least=faster, again=5, repeats=1,
        )  # fmt: skip
        yield compare(name, ours, "one K×K Cholesky (dpotrf)", cholesky, limit=3)


def million():
    """A model of a million scalar measurements, their levels and releases."""
    rng = np.random.default_rng(1)
    H, z = rng.standard_normal((STEPS, N)), rng.standard_normal(STEPS)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.5))
    return model, rng.uniform(0.2, 2, STEPS), z


def banded_rows():
    """Releases that look back 8 steps, against what LAPACK needs for factor and solve alone."""
    model, S, z = million()
    reach = 8
    level = pv.StreamLevel(S, lags=list(0.3 * 0.7 ** np.arange(reach)))
    band = np.zeros((reach + 1, STEPS), order="F")
    band[0], band[1:] = 3.0, 0.1
    right = np.asfortranarray(np.column_stack([model.matrix, z]))

    def lapack():
        lower, _ = scipy.linalg.lapack.dpbtrf(band, lower=1)
        scipy.linalg.lapack.dtbtrs(lower, right, uplo="L")

    yield compare(
        f"banded b = {reach}, every k, K = {STEPS:,}",
        lambda: everything(model, level),
        "banded Cholesky and solve alone",
        lapack,
        items=STEPS,
        limit_us=2.0,
        repeats=5,
    )


def statsmodels_filter(H, z, samples=200_000):
    from statsmodels.regression.recursive_ls import RecursiveLS

    return RecursiveLS(z[:samples], H[:samples]).filter, samples


def padasip_adapt(H, z, samples=20_000):
    import padasip

    def work():
        rls = padasip.filters.FilterRLS(N, mu=1.0)
        for row, value in zip(H[:samples], z[:samples]):
            rls.adapt(value, row)

    return work, samples


def filterpy_update(H, z, samples=5_000):
    """A Kalman filter with a constant state is recursive least squares."""
    from filterpy.kalman import KalmanFilter

    def work():
        kalman = KalmanFilter(dim_x=N, dim_z=1)
        kalman.F, kalman.Q, kalman.P = np.eye(N), np.zeros((N, N)), 1e6 * np.eye(N)
        for row, value in zip(H[:samples], z[:samples]):
            kalman.predict()
            kalman.update(value, H=row[None])

    return work, samples


def independent_rows():
    """U = 0, every bound, per sample against recursive least squares."""
    model, S, z = million()
    level = pv.StreamLevel(S)
    peers = {
        "statsmodels RecursiveLS.filter": (statsmodels_filter, 3.5),
        "padasip FilterRLS.adapt": (padasip_adapt, 20),
        "filterpy KalmanFilter": (filterpy_update, 30),
    }
    for peer, (make, faster) in peers.items():
        work, samples = make(model.matrix, z)
        yield compare(
            f"U = 0, every k, K = {STEPS:,}",
            lambda: everything(model, level),
            f"{peer}, {samples:,} samples, scaled",
            work,
            at_least=faster,
            items=STEPS,
            scale=STEPS / samples,
            repeats=7,
        )


def rows():
    yield from dense_rows()
    yield from banded_rows()
    yield from independent_rows()
