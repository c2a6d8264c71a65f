"""The trace-budget floor against the semidefinite program, solved by CVXPY + Clarabel.

min tr(W M) over S ≥ 0, tr S ≤ s with X ≤ (S⁻¹ + Σ)⁻¹ as the LMI [[S − X, S], [S, S + Σ⁻¹]] ≥ 0 and
[[M, I], [I, HᵀXH]] ≥ 0. Clarabel solves to about 1e-8; 1e-5 leaves room for the LMI scaling.
"""

import cvxpy as cp
import numpy as np
import pytest

import privest as pv
from strategies import design, psd_matrix


def sdp(H, Sigma, s, W):
    m, n = H.shape
    J = np.linalg.inv(Sigma)
    S = cp.Variable((m, m), PSD=True)
    X = cp.Variable((m, m), symmetric=True)
    M = cp.Variable((n, n), symmetric=True)
    problem = cp.Problem(
        cp.Minimize(cp.trace(W @ M)),
        [
            cp.trace(S) <= s,
            cp.bmat([[S - X, S], [S, S + J]]) >> 0,
            cp.bmat([[M, np.eye(n)], [np.eye(n), H.T @ X @ H]]) >> 0,
        ],
    )
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", ["number", "vector", "matrix"])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_the_sdp(seed, noise, weighted):
    rng = np.random.default_rng(seed)
    m, n, s = 6, 2, 10.0 ** rng.uniform(-1, 1)
    H = design(rng, m, n)
    cov = {
        "number": 0.3,
        "vector": rng.uniform(0.1, 2, m),
        "matrix": psd_matrix(rng, m),
    }[noise]
    W = psd_matrix(rng, n) if weighted else np.eye(n)
    Sigma = cov * np.eye(m) if noise == "number" else np.diag(cov) if noise == "vector" else cov
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov))
    floor = pv.bounds.trace_bound(model, budget=s, weight=W)
    assert floor.total == pytest.approx(sdp(H, Sigma, s, W), rel=1e-5)
