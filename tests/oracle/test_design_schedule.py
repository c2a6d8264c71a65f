"""A stream's budget over time against a cone program that knows nothing of streams."""

import cvxpy as cp
import numpy as np
import pytest

import privest as pv
from privest.design import schedule

RTOL = 2e-6  # the solver's tolerance of 1e-9 on sums of up to twelve inverses, and a gap of 1e-7

NOISES = (1.0, 0.01, "mixed", 0.0)


def by_cones(H, v, cost, cap, g, W, budget):
    """min Σ g_k tr WPI_k⁻¹, x ≤ s/(1 + vs) as v s²/(1 + vs) ≤ s − x; scaled to equal levels."""
    m = len(H)
    unit = budget / cost.sum()
    s, x = cp.Variable(m, nonneg=True), cp.Variable(m, nonneg=True)
    constraints = [cost @ s * unit <= budget]
    if np.isfinite(cap).any():
        limited = np.flatnonzero(np.isfinite(cap))
        constraints.append(s[limited] <= cap[limited] / unit)
    for k in range(m):
        u = v[k] * unit
        lost = u * cp.quad_over_lin(s[k], 1 + u * s[k]) if u else 0
        constraints.append(x[k] + lost <= s[k])
    values, vectors = np.linalg.eigh(W)
    root = vectors * np.sqrt(np.maximum(values, 0))
    rows = H * np.sqrt(unit)
    total = 0
    for k in np.flatnonzero(g):
        PI = sum(x[j] * np.outer(rows[j], rows[j]) for j in range(k + 1))
        total = total + g[k] * cp.matrix_frac(root, PI)
    problem = cp.Problem(cp.Minimize(total), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status == "optimal"
    return problem.value


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weights", ["every", "discount", "some"])
def test_the_best_levels_over_time(noise, weights):
    rng = np.random.default_rng(NOISES.index(noise) + 10 * len(weights))
    for n in (1, 2):
        m = 9
        H = rng.standard_normal((m, n)) + np.eye(m, n)
        v = np.exp(rng.uniform(-4, 1, m)) if noise == "mixed" else np.full(m, float(noise))
        cost = np.exp(rng.uniform(-0.5, 0.5, m))
        cap = np.where(rng.random(m) < 0.4, 2.0, np.inf)
        given = {"every": "every", "discount": 0.8, "some": np.r_[np.zeros(n), rng.random(m - n)]}
        B = np.eye(n) + 0.3 * rng.standard_normal((n, n))
        W = B @ B.T
        model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))
        found = schedule(model, 9.0, estimates=given[weights], weight=W, cost=cost, cap=cap)
        later = np.arange(m) >= n - 1  # rows in general position
        worth = {"every": later, "discount": 0.8 ** np.arange(m) * later, "some": given["some"]}
        expected = by_cones(H, v, cost, cap, worth[weights], W, 9.0)
        assert found.value == pytest.approx(expected, rel=RTOL)
        assert found.floor <= expected * (1 + RTOL)
        assert found.gap <= 1e-7
        assert cost @ found.levels <= 9.0 * (1 + 1e-12)
        assert (found.levels <= cap).all()
