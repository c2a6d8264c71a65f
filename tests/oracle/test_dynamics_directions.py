"""The best directions against semidefinite programs that know nothing of filters."""

import cvxpy as cp
import numpy as np
import pytest

import privest as pv
from dynamic_systems import random_psd, random_system
from privest import dynamics

# The solver's own accuracy on these programs; the certificate is 1e-5 or better.
RTOL = 2e-5


def information(D, R, m):
    """X ≤ (D⁻¹ + R)⁻¹ as a matrix inequality."""
    X = cp.Variable((m, m), symmetric=True)
    inverse = np.linalg.inv(R)
    block = cp.bmat([[D - X, D], [D, D + (inverse + inverse.T) / 2]])
    return X, [block >> 0, D >> 0]


def inverse_trace(W, Omega, n):
    """tr(W Ω⁻¹) from above, for W of any rank."""
    values, vectors = np.linalg.eigh(W)
    kept = values > 1e-12 * values[-1]
    V = vectors[:, kept] * np.sqrt(values[kept])
    T = cp.Variable((V.shape[1], V.shape[1]), symmetric=True)
    return cp.trace(T), [cp.bmat([[T, V.T], [V, Omega]]) >> 0]


def solved(objective, constraints):
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value


def one_step(P, C, R, W, budget):
    n, m = len(P), len(R)
    D = cp.Variable((m, m), symmetric=True)
    X, constraints = information(D, R, m)
    Omega = np.linalg.inv(P) + C.T @ X @ C
    Omega = (Omega + Omega.T) / 2
    objective, more = inverse_trace(W, Omega, n)
    return solved(objective, [*constraints, *more, cp.trace(D) <= budget])


def in_steady_state(system, W, budget):
    n, m = system.states, system.measurements
    D = cp.Variable((m, m), symmetric=True)
    X, constraints = information(D, system.R, m)
    after = cp.Variable((n, n), symmetric=True)
    before = cp.Variable((n, n), symmetric=True)
    inverse = np.linalg.inv(system.Q)
    inverse = (inverse + inverse.T) / 2
    corner = system.A.T @ inverse @ system.A
    moved = inverse @ system.A
    # before ≤ (A after⁻¹ Aᵀ + Q)⁻¹
    block = cp.bmat([[inverse - before, moved], [moved.T, after + (corner + corner.T) / 2]])
    objective, more = inverse_trace(W, after, n)
    seen = system.C.T @ X @ system.C
    return solved(
        objective,
        [*constraints, *more, block >> 0, after == before + (seen + seen.T) / 2,
         cp.trace(D) <= budget],
    )  # fmt: skip


def mild_system(rng, n, m):
    """Conditions that an interior-point solver can manage."""
    raw = random_system(rng, steps=1, n=n, m=m, radius=0.9)
    more = [matrix + 0.3 * np.eye(len(matrix)) for matrix in (raw.Q, raw.R, raw.cov0)]
    return dynamics.StateSpace(raw.A, raw.C, more[0], more[1], cov0=more[2])


def several_steps(system, W, steps, budget):
    """Σ of the errors of all steps, all matrices D_k, Ω_k at once."""
    n, m = system.states, system.measurements
    D = [cp.Variable((m, m), symmetric=True) for _ in range(steps)]
    inverse = np.linalg.inv(system.Q)
    inverse = (inverse + inverse.T) / 2
    corner = system.A.T @ inverse @ system.A
    moved = inverse @ system.A
    constraints = [cp.trace(own) <= budget for own in D]
    prior, value = np.linalg.inv(system.cov0), 0
    for own in D:
        after = cp.Variable((n, n), symmetric=True)
        X, more = information(own, system.R, m)
        seen = system.C.T @ X @ system.C
        objective, last = inverse_trace(W, after, n)
        constraints += [*more, *last, after == prior + (seen + seen.T) / 2]
        value = value + objective
        # What the step after knows beforehand: ≤ (A after⁻¹ Aᵀ + Q)⁻¹.
        prior = cp.Variable((n, n), symmetric=True)
        block = cp.bmat([[inverse - prior, moved], [moved.T, after + (corner + corner.T) / 2]])
        constraints.append(block >> 0)
    return solved(value, constraints)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [0.5, 5.0])
def test_one_step_and_steady_state_are_optimal(seed, budget):
    rng = np.random.default_rng(seed)
    n, m = 3, 3 if seed % 2 else 2
    system = mild_system(rng, n, m)
    W = random_psd(rng, n, n if seed % 2 else 1)
    best = dynamics.best_directions(system, budget, weight=W, steps=1)
    expected = one_step(system.cov0, system.C, system.R, W, budget)
    assert best.error[0] == pytest.approx(expected, rel=RTOL)
    assert best.value <= best.equal * (1 + 1e-9)
    pair = dynamics.best_directions(system, budget, weight=W, steps=2)
    expected = several_steps(system, W, 2, budget)
    assert pair.error.sum() == pytest.approx(expected, rel=RTOL)
    assert pair.floor <= expected * (1 + RTOL)
    steady = dynamics.best_directions(system, budget, weight=W)
    assert float(steady.error) == pytest.approx(in_steady_state(system, W, budget), rel=RTOL)


def greedy(system, W, budget, steps):
    P, total = system.cov0, 0.0
    for _ in range(steps):
        start = dynamics.StateSpace(system.A, system.C, system.Q, system.R, cov0=P)
        own = dynamics.best_directions(start, budget, weight=W, steps=1)
        after = pv.bound(start, own.level, steps=1).filtered[0]
        total += np.sum(W * after)
        P = system.A @ after @ system.A.T + system.Q
        P = (P + P.T) / 2
    return total


def test_the_level_is_what_the_filter_attains():
    """Errors and budget of the answer, computed again from its level alone."""
    rng = np.random.default_rng(9)
    system = random_system(rng, steps=1, n=3, m=2, radius=0.9)
    W = np.diag([1.0, 0.0, 0.0])
    best = dynamics.best_directions(system, 1.5, weight=W)
    steady = dynamics.steady_state(system, best.level)
    assert np.trace(W @ steady.filtered) == pytest.approx(float(best.error), rel=1e-8)
    assert np.trace(best.information) == pytest.approx(1.5, rel=1e-12)
    equal = dynamics.steady_state(system, 0.75)
    assert np.trace(W @ equal.filtered) == pytest.approx(best.equal, rel=1e-8)
    assert best.equal > best.value
    path = dynamics.best_directions(system, 1.5, weight=W, steps=12)
    found = pv.bound(system, path.level, steps=12)
    assert np.einsum("ij,kji->k", W, found.filtered) == pytest.approx(path.error, rel=1e-8)
    assert np.trace(path.information, axis1=1, axis2=2) == pytest.approx(1.5, rel=1e-12)
    assert path.equal > path.value
    # The greedy choice, each L_k for the next error alone, is worse here than equal noise.
    assert path.error.sum() < greedy(system, W, 1.5, 12)
    assert path.equal < greedy(system, W, 1.5, 12)


@pytest.mark.parametrize("seed", range(3))
def test_no_release_is_below_the_floor(seed):
    """Other releases of the same budget."""
    rng = np.random.default_rng(seed)
    system = random_system(rng, steps=1, n=3, m=2, radius=0.9)
    best = dynamics.best_directions(system, 0.5, steps=8)
    for _ in range(20):
        M = rng.standard_normal((8, 2, 2)) * rng.exponential(size=(8, 1, 1))
        D = M @ M.swapaxes(1, 2)
        size = D.trace(axis1=1, axis2=2)[:, None, None] / 0.5
        other = pv.bound(system, pv.StreamLevel(D / size), steps=8).filtered
        assert np.trace(other, axis1=1, axis2=2).sum() >= best.floor * (1 - 1e-9)
    assert best.gap <= 1e-5
    assert best.to_dict()["floor"] == best.floor


def test_the_price_is_the_slope_of_the_value():
    system = random_system(np.random.default_rng(2), steps=1, n=2, m=2, radius=0.8)
    for form in ({"steps": 4}, {}):
        found = [dynamics.best_directions(system, s, **form) for s in (0.999, 1.0, 1.001)]
        slope = (found[0].value - found[2].value) / 0.002
        assert found[1].price == pytest.approx(slope, rel=1e-3)


def test_readings_of_very_different_use():
    """Two sensors of one state, one far noisier: nearly all budget goes to the better one."""
    system = dynamics.StateSpace(
        0.95, np.ones((2, 1)), 0.1, np.diag([0.01, 100.0]), cov0=1.0
    )  # fmt: skip
    best = dynamics.best_directions(system, 2.0)
    assert best.information[0, 0] > 0.99 * 2.0
    assert best.equal > 1.2 * best.value


def test_no_steady_state_is_said():
    system = dynamics.StateSpace(np.diag([1.1, 0.5]), [[0.0, 1.0]], 0.1, 0.1, cov0=1.0)
    with pytest.raises(pv.errors.NumericalFailure, match="no steady state"):
        dynamics.best_directions(system, 1.0)
    with pytest.raises(pv.errors.NumericalFailure, match="no steady state"):
        dynamics.steady_state(system, 1.0)
