"""The likelihood of releases written out as one Gaussian, in complex numbers: derivatives to eps.

dℓ(X + i h dX)/dh at h → 0 is Im ℓ(X + 1e-30 i dX)/1e-30: no difference, no rounding (complex step).
"""

import numpy as np

import privest as pv
from dynamic_systems import random_psd
from privest.dynamics._identification._matrices import Matrices

STEP = 1e-30
FORMS = ["independent", "banded", "endless", "endless banded"]


def each(matrix, k):
    return matrix[k] if matrix.ndim == 3 else matrix


def law_of_readings(matrices, steps, inputs):
    """Mean (K m,) and covariance of the readings, and their response to δ, by powers of A."""
    n, m = matrices.A.shape[-1], matrices.C.shape[-2]
    q = matrices.diffuse.shape[1]
    kind = np.result_type(*matrices)
    mean, cov = matrices.mean0.astype(kind), np.zeros((steps * n, steps * n), dtype=kind)
    means, response = np.zeros((steps, m), dtype=kind), np.zeros((steps * m, q), dtype=kind)
    own, P = matrices.diffuse.astype(kind), matrices.cov0.astype(kind)
    for k in range(steps):
        C, here = each(matrices.C, k), slice(k * n, (k + 1) * n)
        means[k] = C @ mean + each(matrices.D, k) @ inputs[k]
        response[k * m : (k + 1) * m] = C @ own
        cov[here, here] = P
        A = each(matrices.A, k)
        if k + 1 < steps:
            later = slice((k + 1) * n, (k + 2) * n)
            cov[later, : (k + 1) * n] = A @ cov[here, : (k + 1) * n]
            cov[: (k + 1) * n, later] = cov[later, : (k + 1) * n].T
        mean = A @ mean + each(matrices.B, k) @ inputs[k]
        own, P = A @ own, A @ P @ A.T + each(matrices.Q, k)
    H = np.zeros((steps * m, steps * n), dtype=kind)
    V = np.zeros((steps * m, steps * m), dtype=kind)
    for k in range(steps):
        rows = slice(k * m, (k + 1) * m)
        H[rows, k * n : (k + 1) * n] = each(matrices.C, k)
        V[rows, rows] = each(matrices.R, k)
    return means.ravel(), V + H @ cov @ H.T, response


def dense_log_likelihood(matrices, rows, missing, values, inputs, variance=1.0, kappa=None):
    """ℓ of z̃ (series, K m); rows A (K m, K m) of the level; missing (K m,) flags; release noise
    of this variance. Diffuse starts: the exact limit, or with covariance κI of δ."""
    steps = len(inputs)
    mean, cov, response = law_of_readings(matrices, steps, inputs)
    shown = np.where(missing[None, :], 0.0, rows)[~missing]
    V = shown @ cov @ shown.T + variance * np.eye(len(shown))
    X = shown @ response
    if kappa is not None:
        V, X = V + kappa * X @ X.T, X[:, :0]
    fresh = values[:, ~missing] - shown @ mean
    S = X.T @ np.linalg.solve(V, X)
    total = -0.5 * len(values) * (len(V) * np.log(2 * np.pi) + log_det(V) + log_det(S))
    for own in fresh:
        solved = np.linalg.solve(V, own)
        pull = X.T @ solved
        total -= 0.5 * (own @ solved - pull @ np.linalg.solve(S, pull))
    return total


def start_condition(matrices, rows, missing, inputs):
    """Condition number of S = XᵀV⁻¹X, scaled: how well the releases determine a diffuse start."""
    _, cov, response = law_of_readings(matrices, len(inputs), inputs)
    shown = np.where(missing[None, :], 0.0, rows)[~missing]
    X = shown @ response
    S = X.T @ np.linalg.solve(shown @ cov @ shown.T + np.eye(len(shown)), X)
    size = np.sqrt(S.diagonal())
    return np.linalg.cond(S / np.outer(size, size)) if len(S) else 1.0


def log_det(matrix):
    if not len(matrix):
        return 0.0
    sign, size = np.linalg.slogdet(matrix)
    return size + (np.log(sign) if np.iscomplexobj(sign) else 0.0)


def moved(matrices, name, direction):
    """X + i·h·dX for one matrix."""
    return matrices._replace(**{name: getattr(matrices, name) + 1j * STEP * direction})


def direction_of(rng, matrices, name):
    """A random direction, symmetric where the matrix is a covariance."""
    found = rng.standard_normal(getattr(matrices, name).shape)
    if name in ("Q", "R", "cov0"):
        found = found + found.swapaxes(-1, -2)
    return found


def random_matrices(rng, *, steps, n, m, p=0, q=0, varying=(), radius=1.0):
    """Random ranks, 0 … full, of Q, R and cov0; a time axis for the matrices named."""

    def draw(name, *shape):
        return rng.standard_normal((steps, *shape) if name in varying else shape)

    def covariance(name, size):
        factor = draw(name, size, int(rng.integers(0, size + 1)))
        return factor @ factor.swapaxes(-1, -2)

    A = draw("A", n, n)
    A = A * (radius / np.abs(np.linalg.eigvals(A)).max(-1))[..., None, None]
    return Matrices(
        A, draw("C", m, n), covariance("Q", n), covariance("R", m), rng.standard_normal(n),
        covariance("cov0", n), draw("B", n, p), draw("D", m, p), rng.standard_normal((n, q)),
    )  # fmt: skip


def level_of(form, rng, steps, m):
    S = np.stack([random_psd(rng, m, int(rng.integers(1, m + 1))) for _ in range(steps)])
    return {
        "independent": lambda: pv.StreamLevel(S),
        "banded": lambda: pv.StreamLevel.from_lags(S, [0.6, -0.3]),
        "endless": lambda: pv.EndlessLevel(S[0]),
        "endless banded": lambda: pv.EndlessLevel(S[0], [0.5, 0.2]),
    }[form]()
