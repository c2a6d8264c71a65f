"""Cost of the bound: dense against one Cholesky, diagonal against one pass over H."""

import numpy as np
import scipy.linalg

import privest as pv
from benchmarks.timing import compare


def literal_bound(H, S, variance):
    """`thm:crbound` as printed: a matrix square root and an m×m inverse."""
    values, vectors = np.linalg.eigh(S)
    half = (vectors * np.sqrt(values)) @ vectors.T
    inner = np.linalg.inv(variance * half @ half + np.eye(len(S)))
    return np.linalg.inv(H.T @ half @ inner @ half @ H)


def dense_rows():
    rng = np.random.default_rng(0)
    m, n = 2000, 50
    A = rng.standard_normal((m, m))
    S = A @ A.T / m + np.eye(m)
    Sigma = np.linalg.inv(S) + np.diag(rng.random(m))
    Sigma = (Sigma + Sigma.T) / 2
    H = rng.standard_normal((m, n))
    fortran = np.asfortranarray(S)

    def cholesky():
        scipy.linalg.lapack.dpotrf(fortran, lower=1, clean=0)

    def whole(level, cov):
        b = pv.bound(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov)), pv.PrivacyLevel(level))
        return b.covariance, b.classical, b.cost_floor

    size = f"m = {m}, n = {n}"
    one = "one m×m Cholesky (LAPACK dpotrf)"
    variances = rng.random(m) + 0.1
    yield compare(
        f"dense level, {size}, checks included", lambda: whole(S, 0.04), one, cholesky, limit=3
    )
    yield compare(
        f"dense level, unequal variances, {size}",
        lambda: whole(S, variances),
        one,
        cholesky,
        limit=3,
    )
    yield compare(
        f"dense noise, number level, {size}", lambda: whole(1.0, Sigma), one, cholesky, limit=3
    )
    yield compare(f"dense level and dense noise, {size}", lambda: whole(S, Sigma), one, cholesky)
    yield compare(
        f"dense level, {size}",
        lambda: whole(S, 0.04),
        "the printed formula (eigh, inverse)",
        lambda: literal_bound(H, S, 0.04),
        repeats=3,
    )


def tall_rows():
    rng = np.random.default_rng(1)
    m, n = 10**6, 5
    H = rng.standard_normal((m, n))
    levels = rng.random(m) + 0.5
    variances = rng.random(m) + 0.1

    def one_pass():
        return H.T @ H

    def whole(level, cov):
        b = pv.bound(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov)), pv.PrivacyLevel(level))
        return b.covariance, b.classical, b.cost_floor

    size = f"m = {m:,}, n = {n}"
    once = "one pass HᵀH"
    for name, level, cov, limit in (
        ("number level", 1.0, 0.04, 5),
        ("diagonal level", levels, 0.04, 5),
        ("diagonal level and variances", levels, variances, None),
    ):
        yield compare(
            f"{name}, {size}", lambda lv=level, c=cov: whole(lv, c), once, one_pass, limit=limit
        )


def small_rows():
    """What checks and structure cost where the arithmetic is nothing: the README's six people."""
    age = np.array([0.2, 0.4, 0.5, 0.7, 0.9, 1.0])
    H = np.column_stack([np.ones(6), age, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
    unit = np.eye(6)

    def five_lines(S=1.0 * unit, Sigma=0.04 * unit):
        classical = np.linalg.inv(H.T @ np.linalg.inv(Sigma) @ H)
        information = H.T @ np.linalg.inv(np.linalg.inv(S) + Sigma) @ H
        ppcrlb = np.linalg.inv(information)
        cost_floor = np.linalg.inv(H.T @ S @ H)
        return ppcrlb, classical, ppcrlb - classical, cost_floor

    def whole(given, level):
        b = pv.bound(given, level)
        return b.covariance, b.classical, b.cost, b.cost_floor

    def made():
        return whole(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04)), pv.PrivacyLevel(1.0))

    def often(work, times=300):
        return lambda: [work() for _ in range(times)]

    level, diagonal = pv.PrivacyLevel(1.0), pv.PrivacyLevel(np.arange(1.0, 7.0))
    dense = pv.PrivacyLevel(unit + 0.1)
    for name, work, limit in (
        ("number level", lambda: whole(model, level), 4),
        ("number level, model and level made too", made, None),
        ("diagonal level", lambda: whole(model, diagonal), 4),
        ("dense level", lambda: whole(model, dense), None),
    ):
        yield compare(
            f"{name}, m = 6, n = 3, 300 times",
            often(work),
            "five lines of NumPy",
            often(five_lines),
            limit=limit,
        )
    levels = np.geomspace(0.01, 100.0, 1000)
    correlated = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=unit + 0.1))
    for name, given in (("number noise", model), ("dense noise", correlated)):
        yield compare(
            f"sweep of 1000 levels, {name}, m = 6, n = 3, 30 times",
            often(lambda given=given: pv.bounds.sweep(given, levels).covariance, 30),
            "one bound",
            often(lambda given=given: whole(given, level), 30),
            limit=10,
        )


def rows():
    yield from small_rows()
    yield from dense_rows()
    yield from tall_rows()
