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
        return b.ppcrlb, b.classical, b.cost_floor

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
        return b.ppcrlb, b.classical, b.cost_floor

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


def rows():
    yield from dense_rows()
    yield from tall_rows()
