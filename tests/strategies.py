"""Random problems with controlled conditioning, so that tolerances can be derived.

All eigenvalues that are not zero lie in [e^-2, e^2] (condition number at most 55), the singular
values of H in [0.4, 2.5]: every matrix below has a condition number under a few thousand, and 1e-10
relative is some thousand times the rounding of the computation.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

RTOL = 1e-10
KINDS = ("number", "vector", "blocks", "matrix", "singular matrix", "singular blocks", "zeros")


@dataclass(frozen=True)
class Problem:
    H: np.ndarray
    level: object  # what a user would pass to PrivacyLevel
    cov: object  # what a user would pass to Gaussian(cov=...)
    rng: np.random.Generator

    @property
    def m(self):
        return self.H.shape[0]

    @property
    def n(self):
        return self.H.shape[1]

    @property
    def S(self):
        return dense(self.level, self.m)

    @property
    def Sigma(self):
        return dense(self.cov, self.m)


def dense(value, size):
    array = np.asarray(value, dtype=float)
    if array.ndim == 0:
        return float(array) * np.eye(size)
    if array.ndim == 1:
        return np.diag(array)
    if array.ndim == 3:
        blocks, b, _ = array.shape
        result = np.zeros((blocks * b, blocks * b))
        for k in range(blocks):
            result[k * b : (k + 1) * b, k * b : (k + 1) * b] = array[k]
        return result
    return array


def orthogonal(rng, size):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def psd_matrix(rng, size, rank=None):
    values = np.exp(rng.uniform(-2, 2, size))
    if rank is not None:
        values[rank:] = 0
    q = orthogonal(rng, size)
    result = (q * values) @ q.T
    return (result + result.T) / 2


def design(rng, m, n):
    u, v = orthogonal(rng, m)[:, :n], orthogonal(rng, n)
    return (u * rng.uniform(0.4, 2.5, n)) @ v.T


def structured(rng, kind, m, least_rank):
    """A PSD value of the given kind; singular ones keep at least `least_rank`."""
    if kind == "number":
        return float(np.exp(rng.uniform(-2, 2)))
    if kind == "vector":
        return np.exp(rng.uniform(-2, 2, m))
    if kind == "zeros":
        values = np.exp(rng.uniform(-2, 2, m))
        values[rng.permutation(m)[: m - least_rank]] = 0
        return values
    if kind in ("blocks", "singular blocks"):
        b = next(b for b in (3, 2, 1) if m % b == 0)
        rank = b - 1 if kind == "singular blocks" and (b - 1) * (m // b) >= least_rank else b
        return np.stack([psd_matrix(rng, b, max(rank, 1)) for _ in range(m // b)])
    rank = int(rng.integers(least_rank, m + 1)) if kind == "singular matrix" else m
    return psd_matrix(rng, m, rank)


@st.composite
def problems(
    draw,
    max_n=4,
    max_m=12,
    level_kinds=KINDS,
    noise_kinds=("number", "vector", "blocks", "matrix"),
    square=False,
):
    n = draw(st.integers(1, max_n), label="n")
    m = n if square else draw(st.integers(n, max_m), label="m")
    level_kind = draw(st.sampled_from(level_kinds), label="level")
    noise_kind = draw(st.sampled_from(noise_kinds), label="noise")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    H = design(rng, m, n)
    return Problem(H, structured(rng, level_kind, m, n), structured(rng, noise_kind, m, n), rng)


def condition(matrix):
    return np.linalg.cond(matrix)


def relative_error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()
