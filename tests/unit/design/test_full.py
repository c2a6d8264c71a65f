"""Full matrices S under a budget, caps and persons' traces, by a program and by the closed form."""

import builtins
import warnings
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

import privest as pv
from privest import bounds, design
from privest.errors import (
    InfeasibleTarget,
    InvalidInput,
    MissingDependency,
    NotIdentifiable,
    NumericalFailure,
)

RNG = np.random.default_rng(0)
M, N = 9, 3
H = RNG.standard_normal((M, N))
LABELS = np.arange(M) // 3
ROOT = RNG.standard_normal((M, M)) / 3.0
NOISES = {
    "equal": np.full(M, 0.5),
    "unequal": RNG.uniform(0.1, 2.0, M),
    "small": np.full(M, 1e-4),
    "mixed": np.where(np.arange(M) % 3 == 0, 0.0, 0.7),
    "full": ROOT @ ROOT.T,
}
CRITERIA = {
    "A": "A",
    "C": [1.0, -1.0, 2.0],
    "D": "D",
    "E": "E",
}
LIMITS = {
    "budget": {},
    "caps": {"cap": RNG.uniform(0.2, 0.9, M)},
    "costs": {"cost": np.linspace(0.5, 3.0, M)},
    "trace": {"persons": LABELS, "person_cap": 1.2},
    "blocks": {"persons": LABELS, "person_cap": 1.2, "shape": "persons"},
    "hidden": {"cap": np.r_[0.0, np.full(M - 1, 1.0)]},
}
BUDGET = 3.0
FAST = [
    ("unequal", "A", "caps"), ("equal", "C", "trace"), ("mixed", "D", "costs"),
    ("full", "E", "budget"), ("equal", "A", "blocks"), ("small", "A", "hidden"),
]  # fmt: skip
GRID = [
    pytest.param(*case, marks=() if case in FAST else pytest.mark.slow)
    for case in ((a, b, c) for a in NOISES for b in CRITERIA for c in LIMITS)
]


def model_of(noise):
    return pv.LinearModel(H, pv.noise.Gaussian(cov=NOISES[noise]))


def asked(limits):
    return {"shape": "full", **LIMITS[limits]}


def textbook(noise, criterion, limits):
    """The least criterion by the LMI in S itself, S of every shape: a route of its own."""
    sigma = NOISES[noise]
    sigma = np.diag(sigma) if sigma.ndim == 1 else sigma
    values, vectors = np.linalg.eigh(sigma)
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    S, P = cp.Variable((M, M), symmetric=True), cp.Variable((N, N), symmetric=True)
    order = cp.bmat([[H.T @ S @ H - P, H.T @ S @ F], [F.T @ S @ H, np.eye(M) + F.T @ S @ F]])
    given = LIMITS[limits]
    cost = np.broadcast_to(given.get("cost", 1.0), M)
    constraints = [S >> 0, order >> 0, cost @ cp.diag(S) <= BUDGET]
    if "cap" in given:
        constraints.append(cp.diag(S) <= given["cap"])
    if "persons" in given:
        constraints += [
            cp.sum(cp.diag(S)[np.flatnonzero(k == LABELS)]) <= 1.2 for k in np.unique(LABELS)
        ]
    if given.get("shape") == "persons":
        constraints.append(cp.multiply(S, LABELS[:, None] != LABELS) == 0)
    objective, more = least(criterion, P)
    problem = cp.Problem(objective, constraints + more)
    with warnings.catch_warnings():  # singular matrices: 1e-8 instead of 1e-9, and it says so
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    return {"D": -problem.value, "E": 1 / problem.value}.get(criterion, problem.value)


def least(criterion, P):
    """The criteria by CVXPY's own functions."""
    if criterion == "A":
        return cp.Minimize(cp.tr_inv(P)), []
    if criterion == "C":
        return cp.Minimize(cp.matrix_frac(np.array([1.0, -1.0, 2.0]), P)), []
    if criterion == "D":
        return cp.Maximize(cp.log_det(P)), []
    if criterion == "E":
        return cp.Maximize(cp.lambda_min(P)), []
    raise AssertionError(criterion)


def by_bound(model, level, criterion):
    """The criterion from pv.bound."""
    covariance = pv.bound(model, level).covariance
    c = np.array([1.0, -1.0, 2.0])
    return {
        "A": lambda: np.trace(covariance),
        "C": lambda: c @ covariance @ c,
        "D": lambda: np.linalg.slogdet(covariance)[1],
        "E": lambda: np.linalg.eigvalsh(covariance)[-1],
    }[criterion]()


@pytest.mark.parametrize(("noise", "criterion", "limits"), GRID)
def test_the_best_full_matrix_both_ways_against_the_textbook_program(noise, criterion, limits):
    model, wanted = model_of(noise), CRITERIA[criterion]
    found = design.allocate(model, BUDGET, criterion=wanted, **asked(limits))
    size = 1.0 if criterion == "D" else abs(found.value)
    assert found.certified
    assert found.floor <= found.value
    # C has a singular P, where the textbook program goes up to 2e-6 below a proved floor.
    close = 3e-6 if criterion == "C" else 1e-6
    assert found.value == pytest.approx(textbook(noise, criterion, limits), abs=close * size)
    if found.level.rank >= N:
        assert by_bound(model, found.level, criterion) == pytest.approx(
            found.value, abs=1e-6 * size
        )
    keeps_the_limits(found, limits)
    slack = 0.01 * size
    back = design.least_loss(model, found.value + slack, criterion=wanted, **asked(limits))
    assert back.certified
    assert back.value <= found.value + slack * (1 + 1e-9)
    assert back.spent <= BUDGET * (1 + 1e-9)
    keeps_the_limits(back, limits)
    again = design.allocate(model, back.spent, criterion=wanted, **asked(limits))
    assert again.value == pytest.approx(back.value, abs=3e-6 * size)


def keeps_the_limits(found, limits):
    """To the letter: not one unit in the last place above."""
    given = LIMITS[limits]
    S = found.level.dense()
    levels = np.diagonal(S)
    assert levels @ np.broadcast_to(given.get("cost", 1.0), M) <= BUDGET * (1 + 1e-15)
    assert (levels <= given.get("cap", np.inf)).all()
    if "persons" in given:
        assert np.bincount(LABELS, levels).max() <= 1.2
    if given.get("shape") == "persons":
        assert not S[LABELS[:, None] != LABELS].any()
    assert np.linalg.eigvalsh(S)[0] >= -1e-14 * np.trace(S)
    if given.get("shape") != "persons":
        assert found.level.rank <= N


def test_under_a_budget_alone_it_is_the_closed_form_and_needs_no_solver(monkeypatch):
    without_cvxpy(monkeypatch)
    for noise in NOISES:
        model = model_of(noise)
        found = design.allocate(model, BUDGET, shape="full")
        floor = bounds.trace_bound(model, budget=BUDGET)
        assert found.value == pytest.approx(floor.total, rel=1e-8)
        assert found.gap <= 1e-8
        back = design.least_loss(model, found.value, shape="full")
        assert back.spent == pytest.approx(BUDGET, rel=1e-8)
    with pytest.raises(MissingDependency, match=r"privest\[design\]"):
        design.allocate(model_of("equal"), BUDGET, shape="full", cap=1.0)


def without_cvxpy(monkeypatch):
    genuine = builtins.__import__

    def refused(name, *rest, **more):
        if name in ("cvxpy", "clarabel"):
            raise ImportError(name)
        return genuine(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refused)


def test_the_price_is_the_slope():
    model = model_of("unequal")
    for limits in ("budget", "caps"):
        found = design.allocate(model, BUDGET, **asked(limits))
        more = design.allocate(model, BUDGET * 1.001, **asked(limits))
        assert (found.value - more.value) / (0.001 * BUDGET) == pytest.approx(found.price, rel=5e-3)


@pytest.mark.parametrize("seed", range(10))
def test_no_level_within_the_limits_is_below_the_floor(seed):
    """Random S of the same shape, drawn into the limits by plain arithmetic."""
    rng = np.random.default_rng(seed)
    noise, criterion = list(NOISES)[seed % len(NOISES)], list(CRITERIA)[seed % len(CRITERIA)]
    limits = list(LIMITS)[seed % len(LIMITS)]
    given, model = LIMITS[limits], model_of(noise)
    found = design.allocate(model, BUDGET, criterion=CRITERIA[criterion], **asked(limits))
    for _ in range(20):
        L = rng.standard_normal((M, M)) * rng.uniform(0, 2, (M, 1))
        S = L @ L.T
        if given.get("shape") == "persons":
            S = np.where(LABELS[:, None] == LABELS, S, 0.0)
        levels, cap = np.diagonal(S), np.broadcast_to(given.get("cap", np.inf), M)
        part = np.sqrt(np.minimum(1.0, cap / levels))
        S = S * part * part[:, None]
        used = [np.diagonal(S) @ np.broadcast_to(given.get("cost", 1.0), M) / BUDGET]
        if "persons" in given:
            used += list(np.bincount(LABELS, np.diagonal(S)) / 1.2)
        other = by_bound(model, S / max(1.0, *used), criterion)
        assert found.floor <= other + 1e-9 * abs(other)


def test_blocks_of_neighbours_keep_their_structure_and_are_released():
    model = model_of("equal")
    found = design.allocate(model, BUDGET, shape="persons", persons=LABELS)
    assert found.level.for_size(M).sizes == (3, 3, 3)
    mechanism = pv.mechanism.GaussianMechanism(found.level, M)
    assert mechanism.release(np.zeros(M)).shape == (found.level.rank,)
    turned = np.array([0, 1, 2] * 3)
    other = design.allocate(model, BUDGET, shape="persons", persons=turned)
    assert not other.level.dense()[turned[:, None] != turned].any()
    joint = design.allocate(model, BUDGET, shape="full")
    assert joint.value <= found.value <= design.allocate(model, BUDGET).value


def test_what_cannot_be_reached_is_told_apart():
    model = model_of("equal")
    classical = np.trace(pv.bound(model, 1.0).classical)
    with pytest.raises(InfeasibleTarget) as below:
        design.least_loss(model, 0.9 * classical, shape="full")
    assert below.value.reason == "classical"
    assert below.value.nearest == pytest.approx(classical, rel=1e-9)
    with pytest.raises(InfeasibleTarget) as capped:
        design.least_loss(model, 1.05 * classical, shape="full", cap=0.1)
    assert capped.value.reason == "caps"
    best = design.allocate(
        model, np.inf, cap=0.1, shape="full"
    )  # caps alone: the other route to the same optimum
    assert capped.value.nearest == pytest.approx(best.value, rel=1e-6)
    with pytest.raises(NotIdentifiable):
        design.allocate(pv.LinearModel(np.ones((4, 2)), noise=1.0), 1.0, shape="full")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"shape": "round"}, "shape"),
        ({"shape": "full", "groups": LABELS}, "groups"),
        ({"shape": "persons"}, "persons"),
        ({"shape": "full", "cap": 0.0}, "every cap"),
    ],
)
def test_what_makes_no_sense_is_refused(more, said):
    with pytest.raises(InvalidInput, match=said):
        design.allocate(model_of("equal"), BUDGET, **more)


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_hold_in_exact_numbers(limits):
    found = design.allocate(model_of("equal"), BUDGET, **asked(limits))
    given = LIMITS[limits]
    levels = [sum(Fraction(x) ** 2 for x in row) for row in factor_of(found.level, M).tolist()]
    cost = np.broadcast_to(given.get("cost", 1.0), M).tolist()
    assert sum(Fraction(c) * s for c, s in zip(cost, levels)) <= Fraction(BUDGET)
    cap = np.broadcast_to(given.get("cap", np.inf), M).tolist()
    assert all(s <= u for s, u in zip(levels, cap))
    if "persons" in given:
        for k in range(3):
            assert sum(s for s, who in zip(levels, LABELS) if who == k) <= Fraction(1.2)


def test_the_certificate_and_not_the_solver_says_when_to_stop(monkeypatch):
    """What the solver calls good may not be, over many orders: then another answer is taken."""
    rng = np.random.default_rng(12)
    rows = rng.standard_normal((8, 3)) * [1e-3, 1.0, 1e3]
    model = pv.LinearModel(rows, noise=1e-6)
    cap = 0.05 / 8 * 10 ** rng.uniform(-1, 2, 8)
    found = design.allocate(model, 0.05, criterion="E", shape="full", cap=cap)
    assert found.certified
    tried, genuine = [], cp.Problem.solve

    def counted(self, **options):
        tried.append(options["tol_gap_rel"])
        if len(tried) == 1:
            raise cp.error.SolverError("stalled")
        return genuine(self, **options)

    monkeypatch.setattr(cp.Problem, "solve", counted)
    again = design.allocate(model, 0.05, criterion="E", shape="full", cap=cap)
    assert tried[:2] == [1e-10, 1e-9]
    assert again.certified

    def stalled(self, **options):
        raise cp.error.SolverError("stalled")

    monkeypatch.setattr(cp.Problem, "solve", stalled)
    with pytest.raises(NumericalFailure, match="units"):
        design.allocate(model, 0.05, criterion="E", shape="full", cap=cap)


# --- caps alone ----------------------------------------------------------------------------------


def jointly(model, caps, **more):
    return design.allocate(model, np.inf, cap=caps, shape="full", **more)


def factor_of(level, m):
    """L (m, r) with S = LLᵀ."""
    L = level.for_size(m).times_factor(np.eye(m))
    return L[:, L.any(axis=0)]


def information(H, sigma, S):
    """HᵀXH by the plain formula: X = S(I + ΣS)⁻¹."""
    return H.T @ S @ np.linalg.solve(np.eye(len(S)) + sigma @ S, H)


@pytest.mark.parametrize("m", [50, 120])
def test_one_parameter_without_measurement_noise(m):
    """S = ee' with the signs of h: value 1/(Σ√e|h|)², independent 1/Σeh²: the gain about 2m/π."""
    h = np.random.default_rng(m).standard_normal((m, 1))
    found = jointly(pv.LinearModel(h, pv.noise.Gaussian(cov=np.zeros(m))), 2.0)
    assert found.value == pytest.approx(1 / (2.0 * np.abs(h).sum() ** 2), rel=1e-6)
    gain = found.equal / found.value
    assert gain == pytest.approx(np.abs(h).sum() ** 2 / (h**2).sum(), rel=1e-6)
    # (Σ|h|)²/Σh² has mean near 2m/π and relative deviation √((2π − 4)/m)·… < 4/√m beyond 4 sigma
    assert gain == pytest.approx(2 * m / np.pi, rel=4 / np.sqrt(m))
    assert found.gap <= 2e-6


def test_a_measurement_that_would_spoil_the_others_stays_below_its_cap():
    rng = np.random.default_rng(0)
    H, caps = rng.standard_normal((12, 2)), np.r_[np.full(11, 0.05), 30.0]
    found = jointly(pv.LinearModel(H, noise=2.0), caps)
    assert found.certified
    assert (found.levels / caps).min() < 0.9
    # The same S with its rows drawn out to the caps is feasible, and worse.
    L = factor_of(found.level, 12)
    full = L / np.linalg.norm(L, axis=1, keepdims=True) * np.sqrt(caps)[:, None]
    drawn_out = np.linalg.inv(information(H, 2.0 * np.eye(12), full @ full.T))
    assert np.trace(drawn_out) > 1.01 * found.value


def test_caps_hold_to_the_letter_and_a_cap_of_zero_hides():
    rng = np.random.default_rng(3)
    caps = 10 ** rng.uniform(-2, 2, 40)
    caps[[1, 7]] = 0.0
    model = pv.LinearModel(rng.standard_normal((40, 3)), noise=0.3)
    found = jointly(model, caps)
    S = found.level.dense()
    assert (np.diagonal(S) <= caps).all()
    assert not S[[1, 7]].any()
    assert found.level.rank == 3
    assert found.value == pytest.approx(np.trace(found.bound.covariance), rel=1e-10)
    assert found.value < np.trace(pv.bound(model, caps).covariance)
    assert found.certified
    less = design.allocate(model, 0.5 * found.spent, cap=caps, shape="full")
    assert less.value > found.value


def test_hidden_parameters_are_told():
    H = np.c_[np.ones(8), np.arange(8.0), np.arange(8.0) + 1.0]  # column 2 = 0 + 1
    with pytest.raises(NotIdentifiable, match=r"θ\[0\]"):
        jointly(pv.LinearModel(H, noise=1.0), 1.0)
    with pytest.raises(NotIdentifiable):
        jointly(pv.LinearModel(H[:, :2], noise=1.0), np.r_[np.ones(1), np.zeros(7)])


def test_units_do_not_matter():
    H = np.random.default_rng(4).standard_normal((20, 2))
    plain = jointly(pv.LinearModel(H, noise=0.5), 1.0)
    scale = np.array([1e-4, 1e5])
    other = jointly(pv.LinearModel(10.0 * H / scale, noise=50.0), 0.01, weight=1 / scale**2)
    assert other.value == pytest.approx(plain.value, rel=1e-8)


def test_a_release_is_n_numbers_and_attains_the_value():
    """Through the Gaussian mechanism and least squares: the mean squared error is the value.

    20 000 trials of a normal error: the mean of ‖error‖² has a relative deviation of at most
    √(2/20 000) = 1 %; five of them.
    """
    rng = np.random.default_rng(9)
    H, theta = rng.standard_normal((30, 2)), np.array([1.0, -2.0])
    model = pv.LinearModel(H, noise=0.5)
    found = jointly(model, 1.0)
    mechanism = pv.mechanism.GaussianMechanism(found.level, 30)
    assert mechanism.outputs == 2
    z = mechanism.simulate(model.sample(theta, rng, 20_000), rng)
    L = factor_of(found.level, 30)
    root = np.linalg.cholesky(0.5 * L.T @ L + np.eye(2))
    G = np.linalg.solve(root, L.T @ H)
    estimate = np.linalg.lstsq(G, np.linalg.solve(root, z.T), rcond=None)[0]
    error = ((estimate - theta[:, None]) ** 2).sum(axis=0).mean()
    assert error == pytest.approx(found.value, rel=0.05)
    # And with protected noise: one release, the same level.
    assert mechanism.release(model.sample(theta, rng)).shape == (2,)
    # Each measurement by itself is as hidden as its cap says; together they are not.
    assert np.diagonal(mechanism.worst_information()).max() <= 1.0
    assert np.linalg.eigvalsh(mechanism.worst_information())[-1] > 5.0


def test_words_name_the_promise():
    found = jointly(pv.LinearModel(np.ones((10, 1)), noise=0.1), 1.0)
    for said in ("one trusted curator", "NOT the joint promise", "by itself", "Proved"):
        assert said in found.summary()
    assert found.to_dict()["shape"] == "full"


def test_many_measurements_are_for_an_aggregate_release():
    with pytest.raises(InvalidInput, match="aggregate release"):
        jointly(pv.LinearModel(np.ones((201, 1)), noise=1.0), 1.0)


def test_several_standard_errors_next_to_a_semidefinite_program():
    """X ≤ (S⁻¹ + Σ)⁻¹ and u_jᵀ(HᵀXH)⁻¹u_j ≤ e_j², as Schur complements."""
    errors, precision = np.array([0.9, 1.0, 1.1]), np.diag(1.0 / NOISES["unequal"])
    found = design.least_loss(model_of("unequal"), errors, shape="full")
    S, X = cp.Variable((M, M), PSD=True), cp.Variable((M, M), symmetric=True)
    limits = [cp.bmat([[precision - X, precision], [precision, precision + S]]) >> 0]
    for unit, error in zip(np.eye(N)[:, :, None], errors):
        limits.append(cp.bmat([[H.T @ X @ H, unit], [unit.T, np.full((1, 1), error**2)]]) >> 0)
    program = cp.Problem(cp.Minimize(cp.trace(S)), limits)
    program.solve(solver="CLARABEL")
    assert found.spent == pytest.approx(program.value, rel=1e-6)
    assert found.floor == pytest.approx(program.value, rel=1e-6)
    np.testing.assert_array_less(found.bound.standard_error, errors * (1 + 1e-9))  # rounding


@pytest.mark.parametrize(
    ("criterion", "direction", "words"),
    [("A", "budget", "of it"), ("A", "target", "of it"),
     ("D", "budget", "in log det"), ("D", "target", "of it")],
)  # fmt: skip
def test_a_gap_is_relative_but_for_log_det_under_a_budget(criterion, direction, words):
    found = design.allocate(model_of("equal"), BUDGET, criterion=criterion)
    if direction == "target":
        found = design.least_loss(model_of("equal"), found.value, criterion=criterion)
    assert f"(gap {found.gap:.1e} {words};" in found.summary()
