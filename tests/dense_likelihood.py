"""`dense_gaussian` for the matrices of families, which tests of the inside of fits take."""

import numpy as np

import privest as pv
from dense_gaussian import STEP, law, log_likelihood
from dynamic_systems import random_psd
from privest.dynamics._identification._matrices import Matrices

FORMS = ["independent", "banded", "endless", "endless banded"]


def law_of_readings(matrices, steps, inputs):
    """Mean (K m,) and covariance of the readings, and their response to δ."""
    found = law(matrices._asdict(), steps, inputs)
    return found.y, found.y_map @ found.covariance @ found.y_map.T, found.y_delta


def dense_log_likelihood(matrices, rows, missing, values, inputs):
    """ℓ of z̃ (series, K m); rows A (K m, K m) of the level; missing (K m,) flags."""
    shown = np.where(missing[None, :], 0.0, rows)[~missing]
    return log_likelihood(matrices._asdict(), shown, values[:, ~missing], inputs)


def start_condition(matrices, rows, missing, inputs):
    """Condition number of S = XᵀV⁻¹X, scaled: how well the releases determine a diffuse start."""
    _, cov, response = law_of_readings(matrices, len(inputs), inputs)
    shown = np.where(missing[None, :], 0.0, rows)[~missing]
    X = shown @ response
    S = X.T @ np.linalg.solve(shown @ cov @ shown.T + np.eye(len(shown)), X)
    size = np.sqrt(S.diagonal())
    return np.linalg.cond(S / np.outer(size, size)) if len(S) else 1.0


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
