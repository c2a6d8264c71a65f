"""Streams as they come: one step at a time, in blocks, and the final estimate of very many."""

import itertools
import os
import tempfile

import numpy as np
import scipy.linalg.blas  # noqa: F401 - loaded before the threads are limited

import privest as pv
from benchmarks.timing import compare
from privest.paper import reference

VARIANCE = 0.5
NOISE = pv.noise.Gaussian(cov=VARIANCE)
N = 5


def releases_of(level, y, rng, block=1):
    mechanism = pv.StreamMechanism(level)
    return [mechanism.simulate(y[at : at + block], rng) for at in range(0, len(y), block)]


def dense_rows():
    """A dense level, one step at a time, against the paper's algorithms (which are online too)."""
    rng = np.random.default_rng(0)
    steps = 1000
    S = rng.uniform(0.2, 2, steps)
    U = 0.1 * np.sqrt(S)[:, None] * np.tril(rng.standard_normal((steps, steps)), -1)
    H, y = rng.standard_normal((steps, N)), rng.standard_normal(steps)
    level = pv.StreamLevel(S, U)
    releases = releases_of(level, y, rng)
    literal = [
        reference.Step(H[k : k + 1], np.array([[VARIANCE]]), S[k].reshape(1, 1), U[k, :k, None])
        for k in range(steps)
    ]
    z = [np.sqrt(S[k]) * release.values for k, release in enumerate(releases)]

    def online():
        rls = pv.PrivateRLS(level, N, NOISE)
        for release, row in zip(releases, H):
            rls.update(release, row)
            if rls.identifiable:
                _ = rls.value, rls.covariance

    def the_paper():
        for_bounds, for_estimates = itertools.tee(reference.recursive_information(literal))
        bounds = reference.recursive_bound(for_bounds, N + 1)
        return list(reference.private_rls(literal, for_estimates, bounds, z, N + 1))

    yield compare(
        f"online, dense, one step at a time, K = {steps}",
        online,
        "algorithms 1-3, literally",
        the_paper,
        at_least=15,
        repeats=3,
    )


def one_sample_rows():
    """U = 0, one sample at a time: estimate after each, as padasip gives its weights after each."""
    import padasip

    rng = np.random.default_rng(1)
    steps = 20_000
    H, y = rng.standard_normal((steps, N)), rng.standard_normal(steps)
    level = pv.StreamLevel.constant(1.0)
    releases = releases_of(level, y, rng)

    def online():
        rls = pv.PrivateRLS(level, N, NOISE)
        for release, row in zip(releases, H):
            rls.update(release, row)
            if rls.identifiable:
                _ = rls.value

    def peer():
        rls = padasip.filters.FilterRLS(N, mu=1.0)
        for row, value in zip(H, y):
            rls.adapt(value, row)

    yield compare(
        f"online, U = 0, update and estimate, {steps:,} samples",
        online,
        "padasip FilterRLS.adapt",
        peer,
        limit=1.0,
        repeats=7,
    )

    def mechanism():
        source, sides = np.random.default_rng(2), pv.StreamMechanism(level)
        for value in y:
            sides.simulate(value, source)

    yield compare(
        f"mechanism, U = 0, {steps:,} single readings", mechanism, "padasip FilterRLS.adapt", peer,
        repeats=3,
    )  # fmt: skip


def final_rows():
    """K = 10⁷ measurements, U = 0: the final estimate against one pass over the same bytes."""
    rng = np.random.default_rng(3)
    measurements = 10**7
    H, z = np.empty((measurements, N)), np.empty(measurements)
    for at in range(0, measurements, 10**6):
        H[at : at + 10**6] = rng.standard_normal((10**6, N))
        z[at : at + 10**6] = rng.standard_normal(10**6)

    def read():
        H.sum()
        z.sum()

    level = pv.StreamLevel.constant(1.0)
    release = pv.Release(0, measurements, z, None, level.fingerprint, True)

    def final():
        rls = pv.PrivateRLS(level, N, NOISE)
        rls.update(release, H)
        return rls.value, rls.covariance

    name = "final estimate, U = 0, K = 10⁷"
    yield compare(name, final, "one read of H and z", read, repeats=5)


def checkpoint_rows():
    """One save of a banded stream against writing and forcing one small file to disk."""
    level = pv.StreamLevel.constant(1.0, lags=list(0.3 * 0.7 ** np.arange(8)))
    rng = np.random.default_rng(4)
    mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, N, NOISE)
    release = mechanism.simulate(rng.standard_normal(20), rng)
    rls.update(release, rng.standard_normal((20, N)))
    with (
        tempfile.TemporaryDirectory() as folder,
        pv.Checkpoint(f"{folder}/s", mechanism=mechanism, estimator=rls, source=rng) as kept,
    ):
        data = b"x" * 8192

        def small_file():
            with open(f"{folder}/small", "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

        def save():
            kept.save(pending=release)

        yield compare("checkpoint, b = 8", save, "8 kB written and fsynced", small_file)


def rows():
    yield from dense_rows()
    yield from one_sample_rows()
    yield from final_rows()
    yield from checkpoint_rows()
