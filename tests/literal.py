"""The paper's formulas, typed in as printed: dense, with inverses and square roots; and the same
in 50-digit arithmetic. Slow and naive on purpose: these are the oracles."""

import mpmath
import numpy as np


def square_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def ppcrlb(H, S, Sigma):
    """Σ_PPCR of `thm:crbound`, as printed."""
    half = square_root(S)
    inner = np.linalg.inv(half @ Sigma @ half + np.eye(len(S)))
    return np.linalg.inv(H.T @ half @ inner @ half @ H)


def classical(H, Sigma):
    return np.linalg.inv(H.T @ np.linalg.inv(Sigma) @ H)


def exact(matrix):
    """A float array as a 50-digit matrix: the floats are taken as exact."""
    return mpmath.matrix(np.asarray(matrix, dtype=float).tolist())


def to_float(matrix):
    return np.array([[float(matrix[i, j]) for j in range(matrix.cols)] for i in range(matrix.rows)])


def ppcrlb_50_digits(H, S, Sigma):
    """(Hᵀ S(I + ΣS)⁻¹ H)⁻¹ (`lemma:PPCR_S`: no square root) with 50 digits."""
    with mpmath.workdps(50):
        h, s, sigma = exact(H), exact(S), exact(Sigma)
        middle = s * mpmath.inverse(mpmath.eye(s.rows) + sigma * s)
        return to_float(mpmath.inverse(h.T * middle * h))


def classical_50_digits(H, Sigma):
    with mpmath.workdps(50):
        h = exact(H)
        return to_float(mpmath.inverse(h.T * mpmath.inverse(exact(Sigma)) * h))


def epsilon_limit_50_digits(H, S_root, Sigma, epsilon="1e-22"):
    """Σ_PPCR with S_ε = (S^½ + εI)², the regularised level of the proof of `thm:crbound`."""
    with mpmath.workdps(50):
        h, sigma = exact(H), exact(Sigma)
        half = exact(S_root) + mpmath.mpf(epsilon) * mpmath.eye(len(S_root))
        inner = mpmath.inverse(half * sigma * half + mpmath.eye(len(S_root)))
        return to_float(mpmath.inverse(h.T * half * inner * half * h))
