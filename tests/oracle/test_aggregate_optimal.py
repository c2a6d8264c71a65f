"""The weights of the aggregate release against semidefinite programs, solved by CVXPY + Clarabel.

    max ln det HᵀXH  over S ≥ 0, S_ii ≤ c,  X ≤ (S⁻¹ + σ²)⁻¹: [[S − X, S], [S, S + I/σ²]] ≥ 0

Without measurement noise X = S, and Lewis weights attain it; with it, `efficiency` is a proved
lower bound on the share that they attain. Clarabel solves to about 1e-8.
"""

import math

import cvxpy as cp
import numpy as np
import pytest

from aggregate_cases import design_of, weights_of

CLOSE = 1e-5  # of ln det; the iteration stops at 1e-3, and its error is squared


def most(H, level, variance):
    """The largest ln det PI of all levels with S_ii ≤ c; solved for orthonormal columns."""
    K = len(H)
    H, triangle = np.linalg.qr(H)
    units = 2 * np.log(np.abs(np.diagonal(triangle))).sum()
    S = cp.Variable((K, K), PSD=True)
    constraints = [cp.diag(S) <= 1]  # c = 1: variance in these units
    X = S
    if variance:
        X = cp.Variable((K, K), symmetric=True)
        noise = np.eye(K) / (level * variance)
        constraints.append(cp.bmat([[S - X, S], [S, S + noise]]) >> 0)
    problem = cp.Problem(cp.Maximize(cp.log_det(H.T @ X @ H)), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value + units + H.shape[1] * math.log(level)


def rows(seed):
    """Normal, heavy-tailed, categorical or nearly dependent features of a few rows."""
    rng = np.random.default_rng(seed)
    n, K = 1 + seed % 3, 5 + seed % 4
    kind = (seed // 3) % 4
    H = rng.standard_normal((K, n)) if kind != 1 else rng.standard_t(1.2, (K, n))
    H[:, 0] = 1.0
    if kind == 2:
        H = np.eye(n)[rng.integers(0, n, K)]
        H[:n] = np.eye(n)
    if kind == 3 and n > 1:
        H[:, 1] = 1 + 0.05 * H[:, 1]
    return H


def attained(design, H, level, variance):
    """ln det of PI = HᵀL̃(I + σ²L̃ᵀL̃)⁻¹L̃ᵀH, from the weights of every row."""
    L = math.sqrt(level) * weights_of(design)[1]
    inner = np.eye(L.shape[1]) + variance * L.T @ L
    return np.linalg.slogdet(H.T @ L @ np.linalg.solve(inner, L.T @ H))[1]


@pytest.mark.parametrize("seeds", [range(0, 36), range(36, 72), range(72, 108)])
def test_lewis_weights_are_optimal_where_privacy_dominates(seeds):
    """108 random problems: ln det of the weights is that of the semidefinite program."""
    for seed in seeds:
        H, level = rows(seed), 10.0 ** (seed % 5 - 2)
        design = design_of(H)
        own, best = attained(design, H, level, 0.0), most(H, level, 0.0)
        assert abs(own - best) < CLOSE * max(1.0, abs(best)), seed
        assert design.efficiency(level, None) > 1 - 1e-3, seed


def test_other_weights_are_seen_not_to_be_optimal():
    """The same comparison fails for rows of H as they are, each cut to length 1, and for rows
    scaled by leverage: it can tell."""
    missed = np.zeros((24, 2))
    for seed in range(24):
        H, n = rows(3 * seed + 1), 2
        best = most(H, 1.0, 0.0)
        Q = np.linalg.qr(H)[0]
        for k, L in enumerate((H / np.linalg.norm(H, axis=1, keepdims=True), Q)):
            L = L / np.linalg.norm(L, axis=1).max()
            own = np.linalg.slogdet(H.T @ L @ L.T @ H)[1]
            assert own <= best + CLOSE * max(1.0, abs(best))
            missed[seed, k] = (best - own) / n
    assert (missed > 100 * CLOSE).mean() > 0.7


@pytest.mark.parametrize("seeds", [range(0, 36), range(36, 72)])
def test_the_certificate_holds(seeds):
    """Proved share ≤ true share ≤ 1."""
    shares = []
    for seed in seeds:
        H = rows(seed)
        variance = 10.0 ** (seed % 4 - 2)
        level = 10.0 ** (seed % 3 - 1)
        design = design_of(H)
        best = most(H, level, variance)
        true = math.exp((attained(design, H, level, variance) - best) / H.shape[1])
        proved = design.efficiency(level, variance)
        assert proved <= true + 1e-4, seed
        assert true <= 1 + 1e-4, seed
        shares.append((proved, true))
    proved, true = np.array(shares).T
    assert np.median(true) > 0.97
    assert np.median(proved / true) > 0.95  # and it says something
