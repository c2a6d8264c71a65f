"""Streams in batch: every bound and every estimate from one factorisation."""

import itertools

import numpy as np
import scipy.linalg

import privest as pv
from benchmarks.timing import compare
from privest import reference


def everything(model, level, releases):
    estimates, bound = pv.bounds.stream_estimates(model, level, releases)
    return estimates, bound.ppcrlb


def dense_rows():
    rng = np.random.default_rng(0)
    n, variance = 5, 0.5
    for steps in (1000, 2000):
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

        def ours(model=model, level=level, z=z):
            return everything(model, level, z)

        name = f"dense stream, all bounds and estimates, K = {steps}"
        yield compare(name, ours, "algorithms 1-3, literally", the_paper, repeats=1)
        yield compare(name, ours, "one K×K Cholesky (dpotrf)", cholesky)


def long_rows():
    rng = np.random.default_rng(1)
    steps, n, reach = 10**6, 5, 8
    H, z = rng.standard_normal((steps, n)), rng.standard_normal(steps)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.5))
    S = rng.uniform(0.2, 2, steps)
    level = pv.StreamLevel.from_lags(S, list(0.3 * 0.7 ** np.arange(reach)))
    band = np.zeros((reach + 1, steps), order="F")
    band[0], band[1:] = 3.0, 0.1
    right = np.asfortranarray(np.column_stack([H, z]))

    def lapack():
        lower, _ = scipy.linalg.lapack.dpbtrf(band, lower=1)
        scipy.linalg.lapack.dtbtrs(lower, right, uplo="L")

    name = f"banded stream b = {reach}, all bounds and estimates, K = {steps:,}"
    yield compare(
        name,
        lambda: everything(model, level, z),
        "banded Cholesky and solve alone",
        lapack,
        repeats=3,
    )
    free = pv.StreamLevel(S)
    yield compare(
        f"U = 0, all bounds and estimates, K = {steps:,}",
        lambda: everything(model, free, z),
        "one pass HᵀH",
        lambda: H.T @ H,
        repeats=3,
    )


def rows():
    yield from dense_rows()
    yield from long_rows()
