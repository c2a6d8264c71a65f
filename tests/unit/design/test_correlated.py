"""Jointly drawn noise under per-reading caps: value, floor, rank, promise, release."""

import json
import sys

import cvxpy as cp
import numpy as np
import pytest

import privest as pv
from privest import design
from privest.design._joint import _descent
from privest.design._joint._caps import best_under_caps, seen, within_caps
from privest.design._joint._descent import CappedReadings
from privest.design._joint._floor import Tangent, cap_prices
from privest.design._joint._release import fewer_columns, joint_release
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import psd


def information(H, sigma, S):
    """HᵀXH by the plain formula: X = S(I + ΣS)⁻¹."""
    return H.T @ S @ np.linalg.solve(np.eye(len(S)) + sigma @ S, H)


def by_sdp(H, sigma, caps, B):
    """The textbook LMI in S (docs/theory.md 5 through HᵀXH): a route of its own."""
    m, n = H.shape
    S, M = cp.Variable((m, m), symmetric=True), cp.Variable((n, n), symmetric=True)
    T = cp.Variable((B.shape[1],) * 2, symmetric=True)
    F = np.linalg.cholesky(sigma + 1e-300 * np.eye(m)) if sigma.any() else np.zeros((m, 1))
    lmi = cp.bmat([[H.T @ S @ H - M, H.T @ S @ F], [F.T @ S @ H, np.eye(F.shape[1]) + F.T @ S @ F]])
    constraints = [S >> 0, lmi >> 0, cp.diag(S) <= caps, cp.bmat([[M, B], [B.T, T]]) >> 0]
    problem = cp.Problem(cp.Minimize(cp.trace(T)), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    return problem.value


def covariances(rng, m):
    root = rng.standard_normal((m, m)) / np.sqrt(m)
    return {"small": 1e-3, "equal": 0.4, "unequal": rng.uniform(0.1, 2.0, m), "full": root @ root.T}


@pytest.mark.parametrize("noise", ["small", "equal", "unequal", "full"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_agrees_with_the_semidefinite_program(noise, weighted):
    rng = np.random.default_rng(len(noise) + 10 * weighted)
    m, n = 9, 3
    H, caps = rng.standard_normal((m, n)), rng.uniform(0.3, 2.0, m)
    sigma = covariances(rng, m)[noise]
    weight = np.diag([1.0, 2.0, 0.0]) + 0.3 * np.eye(3) if weighted else None
    found = design.correlated(pv.LinearModel(H, pv.noise.Gaussian(cov=sigma)), caps, weight)
    B = np.eye(n) if weight is None else np.linalg.cholesky(weight)
    dense = np.diag(np.broadcast_to(sigma, m)) if np.ndim(sigma) < 2 else sigma
    assert found.value == pytest.approx(by_sdp(H, dense, caps, B), rel=1e-6)
    assert found.certified
    assert found.floor <= found.value


@pytest.mark.parametrize("seed", range(12))
def test_the_floor_holds_at_any_point_and_the_ceiling_over_every_level(seed):
    """No S within the caps beats a floor made at another, arbitrary S, Z and t."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(3, 15)), int(rng.integers(1, 4))
    H, caps = rng.standard_normal((m, n)), 10 ** rng.uniform(-1, 1, m)
    variance = rng.choice([0.0, 0.01, 1.0, 50.0], m)
    sigma, B = psd(variance, "Σ"), rng.standard_normal((n, n))
    anywhere = within_caps(rng.standard_normal((m, n + 1)), caps)
    release = joint_release(H, sigma, anywhere)
    for moved in (0.0, 0.3):
        Z = release.weights(B) + moved * rng.standard_normal((n, n))
        t = release.shown(Z) + moved * rng.standard_normal((m, n))
        tangent = Tangent.of(H, sigma, Z, t)
        prices = cap_prices(tangent, caps, anywhere)
        gap = np.diag(prices) - tangent.residual @ tangent.residual.T
        assert np.linalg.eigvalsh(gap)[0] >= -1e-13 * prices.max()
        ceiling = tangent.base + prices @ caps
        floor = (B * Z).sum() ** 2 / ceiling
        for _ in range(20):
            other = rng.standard_normal((m, n + 2)) * rng.uniform(0, 1, (m, 1))
            other *= np.sqrt(caps / (other**2).sum(axis=1))[:, None]
            PI = information(H, np.diag(variance), other @ other.T)
            assert np.trace(Z.T @ PI @ Z) <= ceiling * (1 + 1e-12)
            assert np.trace(B.T @ np.linalg.solve(PI, B)) >= floor * (1 - 1e-12)
    best = best_under_caps(H, sigma, B, caps, ("θ",) * n)
    assert floor <= best.value * (1 + 1e-12)
    assert best.floor <= best.value * (1 + 1e-12)


def test_fewer_columns_lose_nothing_and_show_no_more():
    rng = np.random.default_rng(5)
    H, root = rng.standard_normal((12, 2)), rng.standard_normal((12, 12)) / 4
    sigma, long = psd(root @ root.T, "Σ"), rng.standard_normal((12, 7))
    short = fewer_columns(H, sigma, long)
    assert short.shape == (12, 2)
    before, after = (information(H, sigma.dense(), L @ L.T) for L in (long, short))
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12 * np.abs(before).max())
    least = np.linalg.eigvalsh(long @ long.T - short @ short.T)[0]
    assert least >= -1e-13 * np.linalg.norm(long, 2) ** 2


def test_n_columns_can_be_trapped_and_one_more_cannot():
    """A reading that would spoil the others must stay below its cap: rows of full length cannot."""
    rng = np.random.default_rng(0)
    H, caps = rng.standard_normal((12, 2)), np.r_[np.full(11, 0.05), 30.0]
    model = pv.LinearModel(H, noise=2.0)
    found = design.correlated(model, caps)
    assert found.certified
    part = found.levels / caps
    assert part.min() < 0.9
    # The same S with its rows drawn out to the caps is feasible, and worse.
    full = (
        found.factor / np.linalg.norm(found.factor, axis=1, keepdims=True) * np.sqrt(caps)[:, None]
    )
    problem = CappedReadings(H, model.inverse_information, np.eye(2), caps)
    assert problem.value(full) > 1.01 * found.value


@pytest.mark.parametrize("m", [50, 200])
def test_one_parameter_without_measurement_noise(m):
    """S = ee' with the signs of h: value 1/(Σ√e|h|)², independent 1/Σeh²: the gain about 2m/π."""
    rng = np.random.default_rng(m)
    h = rng.standard_normal((m, 1))
    found = design.correlated(pv.LinearModel(h, pv.noise.Gaussian(cov=np.zeros(m))), 2.0)
    assert found.value == pytest.approx(1 / (2.0 * np.abs(h).sum() ** 2), rel=1e-12)
    assert found.gain == pytest.approx(np.abs(h).sum() ** 2 / (h**2).sum(), rel=1e-12)
    # (Σ|h|)²/Σh² has mean near 2m/π and relative deviation √((2π − 4)/m)·… < 4/√m beyond 4 sigma
    assert found.gain == pytest.approx(2 * m / np.pi, rel=4 / np.sqrt(m))
    assert found.gap <= 1e-11


def test_caps_hold_to_the_letter_and_a_cap_of_zero_hides():
    rng = np.random.default_rng(3)
    caps = 10 ** rng.uniform(-2, 2, 40)
    caps[[1, 7]] = 0.0
    model = pv.LinearModel(rng.standard_normal((40, 3)), noise=0.3)
    found = design.correlated(model, caps)
    S = found.dense()
    assert (np.diagonal(S) <= caps).all()
    assert not S[[1, 7]].any()
    assert found.rank == 3
    assert found.value == pytest.approx(np.trace(pv.bound(model, found).ppcrlb), rel=1e-10)
    assert found.independent == pytest.approx(np.trace(pv.bound(model, caps).ppcrlb), rel=1e-10)
    assert found.classical == pytest.approx(np.trace(pv.bound(model, caps).classical), rel=1e-10)
    assert found.certified


def test_the_prices_are_slopes():
    rng = np.random.default_rng(8)
    caps = rng.uniform(0.5, 2.0, 15)
    model = pv.LinearModel(rng.standard_normal((15, 2)), noise=0.5)
    found = design.correlated(model, caps)
    up, step = design.correlated(model, caps * 1.001), 0.001 * caps
    assert found.value - up.value == pytest.approx(found.prices @ step, rel=2e-3)


def test_hidden_parameters_are_told_and_what_is_seen_is_found():
    H = np.c_[np.ones(8), np.arange(8.0), np.arange(8.0) + 1.0]  # column 2 = 0 + 1
    model = pv.LinearModel(H, noise=1.0)
    with pytest.raises(NotIdentifiable, match=r"θ\[0\]"):
        design.correlated(model, 1.0)
    part = np.array([1.0, 1.0, 2.0])  # θ0 + θ1 + 2θ2 = (θ0 + θ2) + (θ1 + θ2): seen
    found = design.correlated(model, 1.0, np.outer(part, part))
    small = design.correlated(pv.LinearModel(H[:, :2], noise=1.0), 1.0, np.ones((2, 2)))
    assert found.value == pytest.approx(small.value, rel=1e-8)
    caps = np.r_[np.ones(1), np.zeros(7)]
    with pytest.raises(NotIdentifiable):
        design.correlated(pv.LinearModel(H[:, :2], noise=1.0), caps)
    with pytest.raises(NotIdentifiable, match="every cap is 0"):
        design.correlated(model, 0.0)


def test_units_do_not_matter():
    rng = np.random.default_rng(4)
    H = rng.standard_normal((20, 2))
    plain = design.correlated(pv.LinearModel(H, noise=0.5), 1.0)
    scale = np.array([1e-4, 1e5])
    other = design.correlated(
        pv.LinearModel(10.0 * H / scale, noise=50.0), 0.01, np.diag(1 / scale**2)
    )
    assert other.value == pytest.approx(plain.value, rel=1e-8)


@pytest.mark.parametrize("caps", [[-1.0, 1.0, 1.0], [1.0, 1.0], np.inf, np.nan, [[1.0]]])
def test_bad_caps(caps):
    with pytest.raises(InvalidInput, match="cap"):
        design.correlated(pv.LinearModel(np.eye(3), noise=1.0), caps)


def test_a_release_is_n_numbers_and_attains_the_value():
    """Through the Gaussian mechanism and least squares: the mean squared error is the value.

    20 000 trials of a normal error: the mean of ‖error‖² has a relative deviation of at most
    √(2/20 000) = 1 %; five of them.
    """
    rng = np.random.default_rng(9)
    H, theta = rng.standard_normal((30, 2)), np.array([1.0, -2.0])
    model = pv.LinearModel(H, noise=0.5)
    found = design.correlated(model, 1.0)
    mechanism = pv.mechanism.GaussianMechanism(found, 30)
    assert mechanism.outputs == 2
    trials = 20_000
    z = mechanism.simulate(model.simulate(theta, rng, trials), rng)
    L = found.factor
    V = 0.5 * L.T @ L + np.eye(2)
    G = np.linalg.solve(np.linalg.cholesky(V), L.T @ H)
    estimate = np.linalg.lstsq(G, np.linalg.solve(np.linalg.cholesky(V), z.T), rcond=None)[0]
    error = ((estimate - theta[:, None]) ** 2).sum(axis=0).mean()
    assert error == pytest.approx(found.value, rel=0.05)
    # And by the door that users take, with protected noise: one release, the same level.
    released = mechanism.release(model.simulate(theta, rng))
    assert released.shape == (2,)
    # Each reading by itself is as hidden as its cap says; together they are not.
    assert np.diagonal(mechanism.worst_information()).max() <= 1.0
    assert np.linalg.eigvalsh(mechanism.worst_information())[-1] > 5.0


def test_words_and_json():
    found = design.correlated(pv.LinearModel(np.ones((10, 1)), noise=0.1), 1.0)
    words = found.explain()
    for said in ("one trusted curator", "NOT the joint promise", "by itself", "Proved"):
        assert said in words
    told = json.loads(json.dumps(found.to_dict()))
    np.testing.assert_array_equal(np.array(told["factor"]), found.factor)
    assert told["price"] is None
    assert told["direction"] == "caps"
    assert "CorrelatedAllocation(10 readings, rank 1" in repr(found)


def test_coordinates_keep_the_problem():
    rng = np.random.default_rng(6)
    H, B = rng.standard_normal((10, 3)) * [1.0, 1e6, 1e-3], rng.standard_normal((3, 2))
    x = rng.uniform(0.5, 1.0, 10)
    found = seen(H, x, B, ("a", "b", "c"))
    inside = (found.rows.T * x) @ found.rows
    np.testing.assert_allclose(inside, np.eye(3), atol=1e-12)
    direct = np.trace(B.T @ np.linalg.solve((H.T * x) @ H, B))
    assert (found.targets**2).sum() == pytest.approx(direct, rel=1e-9)
    np.testing.assert_allclose(H @ found.lift, found.rows, rtol=1e-12, atol=1e-15)


def test_a_descent_that_stops_early_says_so_and_the_program_takes_over(monkeypatch):
    rng = np.random.default_rng(2)
    model = pv.LinearModel(rng.standard_normal((14, 2)), noise=3.0)
    caps = 10 ** rng.uniform(-2, 2, 14)
    best = design.correlated(model, caps)
    assert best.method == "descent in a factor"
    monkeypatch.setattr(_descent, "MAX_STEPS", 5)
    taken = design.correlated(model, caps)
    assert taken.certified
    assert taken.method.endswith("then a semidefinite program")
    assert taken.value == pytest.approx(best.value, rel=1e-7)
    assert (taken.levels <= caps).all()
    monkeypatch.setitem(sys.modules, "clarabel", None)  # as if it were not installed
    early = design.correlated(model, caps)
    assert early.gap > 1e-6
    assert early.floor <= best.value <= early.value
    assert "NOT as close" in early.explain()
