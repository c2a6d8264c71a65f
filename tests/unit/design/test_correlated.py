"""Jointly drawn noise under per-reading caps: value, floor, rank, promise, release."""

import json

import cvxpy as cp
import numpy as np
import pytest

import privest as pv
from privest import design
from privest.errors import InvalidInput, NotIdentifiable


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
def test_no_level_within_the_caps_is_below_the_floor(seed):
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(3, 15)), int(rng.integers(1, 4))
    H, caps = rng.standard_normal((m, n)), 10 ** rng.uniform(-1, 1, m)
    variance = rng.choice([0.0, 0.01, 1.0, 50.0], m)
    found = design.correlated(pv.LinearModel(H, pv.noise.Gaussian(cov=variance)), caps)
    assert found.floor <= found.value
    assert found.certified
    own = information(H, np.diag(variance), found.dense())
    assert np.trace(np.linalg.inv(own)) == pytest.approx(found.value, rel=1e-7)
    for _ in range(20):
        other = rng.standard_normal((m, n + 2)) * rng.uniform(0, 1, (m, 1))
        other *= np.sqrt(caps / (other**2).sum(axis=1))[:, None]
        PI = information(H, np.diag(variance), other @ other.T)
        assert np.trace(np.linalg.inv(PI)) >= found.floor * (1 - 1e-9)


def test_a_reading_that_would_spoil_the_others_stays_below_its_cap():
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
    drawn_out = np.linalg.inv(information(H, 2.0 * np.eye(12), full @ full.T))
    assert np.trace(drawn_out) > 1.01 * found.value


@pytest.mark.parametrize("m", [50, 200])
def test_one_parameter_without_measurement_noise(m):
    """S = ee' with the signs of h: value 1/(Σ√e|h|)², independent 1/Σeh²: the gain about 2m/π."""
    rng = np.random.default_rng(m)
    h = rng.standard_normal((m, 1))
    found = design.correlated(pv.LinearModel(h, pv.noise.Gaussian(cov=np.zeros(m))), 2.0)
    assert found.value == pytest.approx(1 / (2.0 * np.abs(h).sum() ** 2), rel=1e-6)
    gain = found.equal / found.value
    assert gain == pytest.approx(np.abs(h).sum() ** 2 / (h**2).sum(), rel=1e-6)
    # (Σ|h|)²/Σh² has mean near 2m/π and relative deviation √((2π − 4)/m)·… < 4/√m beyond 4 sigma
    assert gain == pytest.approx(2 * m / np.pi, rel=4 / np.sqrt(m))
    assert found.gap <= 2e-6  # what the program leaves of 200 readings


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
    assert found.value == pytest.approx(np.trace(pv.bound(model, found).covariance), rel=1e-10)
    assert found.value < np.trace(pv.bound(model, caps).covariance)
    assert found.certified


def test_hidden_parameters_are_told():
    H = np.c_[np.ones(8), np.arange(8.0), np.arange(8.0) + 1.0]  # column 2 = 0 + 1
    model = pv.LinearModel(H, noise=1.0)
    with pytest.raises(NotIdentifiable, match=r"θ\[0\]"):
        design.correlated(model, 1.0)
    caps = np.r_[np.ones(1), np.zeros(7)]
    with pytest.raises(NotIdentifiable):
        design.correlated(pv.LinearModel(H[:, :2], noise=1.0), caps)
    with pytest.raises(InvalidInput, match="every cap is 0"):
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
    assert told["direction"] == "budget"
    assert repr(found).startswith("FullAllocation(full, A, 10 readings")


def test_many_readings_are_for_an_aggregate_release():
    with pytest.raises(InvalidInput, match="aggregate release"):
        design.correlated(pv.LinearModel(np.ones((201, 1)), noise=1.0), 1.0)


def test_caps_alone_are_a_budget_that_does_not_bind():
    rng = np.random.default_rng(2)
    model = pv.LinearModel(rng.standard_normal((14, 2)), noise=3.0)
    caps = 10 ** rng.uniform(-2, 2, 14)
    found = design.correlated(model, caps)
    same = design.allocate(model, 2 * caps.sum(), cap=caps, shape="full")
    assert found.value == pytest.approx(same.value, rel=2e-6)
    less = design.allocate(model, 0.5 * found.spent, cap=caps, shape="full")
    assert less.value > found.value
