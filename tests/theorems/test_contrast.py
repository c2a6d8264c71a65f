"""`Bound.contrast`: the floor of aᵀθ when θ itself is hidden in part."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

import privest as pv
from strategies import RTOL, design, problems, psd_matrix


def contrast(model, level, a, theta=None):
    return pv.bound(model, level, theta=theta).contrast(a)


# --- exact arithmetic ---------------------------------------------------------------------------


def eliminated(rows, columns):
    """Reduced row echelon form of rows of fractions on the first columns, and the pivots."""
    rows, pivots = [list(row) for row in rows], []
    for column in range(columns):
        at = next((i for i in range(len(pivots), len(rows)) if rows[i][column]), None)
        if at is None:
            continue
        k = len(pivots)
        rows[k], rows[at] = rows[at], rows[k]
        rows[k] = [x / rows[k][column] for x in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][column]:
                ratio = rows[i][column]
                rows[i] = [x - ratio * y for x, y in zip(rows[i], rows[k])]
        pivots.append(column)
    return rows, pivots


def solved(matrix, right):
    """One X with AX = B in fractions, or None; right has one column a problem."""
    n = len(matrix[0])
    rows, pivots = eliminated([[*a, *b] for a, b in zip(matrix, right)], n)
    if any(any(row[n:]) for row in rows[len(pivots) :]):
        return None
    answer = [[Fraction(0)] * len(right[0]) for _ in range(n)]
    for row, pivot in zip(rows, pivots):
        answer[pivot] = row[n:]
    return answer


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def fractions(array):
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(array)]


def exact_variance(H, S, Sigma, a):
    """aᵀx with PI x = a, PI = HᵀS(I + ΣS)⁻¹H; inf where PI x = a has no solution."""
    H, S, Sigma = fractions(H), fractions(S), fractions(Sigma)
    m = len(S)
    inner = product(Sigma, S)
    for k in range(m):
        inner[k][k] += 1
    PI = product(list(zip(*H)), product(S, solved(inner, H)))
    column = [[Fraction(float(x))] for x in a]
    answer = solved(PI, column)
    return np.inf if answer is None else float(sum(x[0] * y[0] for x, y in zip(column, answer)))


def whole_case(rng):
    """Small whole numbers times powers of two: every product is exact in double precision."""
    n, m = int(rng.integers(2, 5)), int(rng.integers(3, 7))
    rank = int(rng.integers(1, n))
    H = rng.integers(-3, 4, (m, rank)) @ rng.integers(-2, 3, (rank, n))
    scale = 2.0 ** rng.integers(-13, 14, n)
    kind = rng.integers(3)
    if kind == 0:  # readings that are never shown
        S = np.diag(rng.integers(0, 3, m).astype(float))
    elif kind == 1:
        S = np.diag(2.0 ** rng.integers(-5, 6, m))
    else:  # a singular matrix
        L = rng.integers(-2, 3, (m, max(1, m - 2)))
        S = (L @ L.T).astype(float)
    A = rng.integers(-1, 2, (m, m))
    Sigma = np.diag(2.0 ** rng.integers(-4, 5, m)) if kind else (A @ A.T + np.eye(m))
    seen = rng.integers(-2, 3, m) @ S @ H
    free = rng.integers(-2, 3, n)
    return H * scale, S, Sigma, np.array([seen, free]) * scale


@pytest.mark.parametrize("part", range(5))
def test_thirty_whole_cases_each_against_exact_arithmetic(part):
    """Column scales from 2⁻¹³ to 2¹³ (1e-4 to 1e4); no wrong verdict.

    Kept singular values are above 1e-3 of the largest for such small whole numbers, so 1e-9 is
    some thousand times the rounding of the rows, and of the 1e-11 of a factored singular level.
    """
    rng = np.random.default_rng(part)
    hidden = 0
    for _ in range(30):
        H, S, Sigma, vectors = whole_case(rng)
        model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=Sigma))
        found = contrast(model, S, vectors)
        expected = np.array([exact_variance(H, S, Sigma, a) for a in vectors])
        assert (np.isinf(found.covariance.diagonal()) == np.isinf(expected)).all()
        assert found.covariance.diagonal() == pytest.approx(expected, rel=1e-9)
        assert (found.shown == np.isfinite(expected)).all()
        hidden += np.isinf(expected).sum()
        for a, v, variance in zip(vectors, found.hidden, expected):
            # The direction proves the verdict: it changes aᵀθ, and LᵀHv = 0.
            assert v.any() == np.isinf(variance)
            size = np.abs(S) @ np.abs(H) @ np.abs(v)
            assert np.abs(S @ H @ v).max() <= 1e-9 * size.max()
            assert (a @ v > 0) == np.isinf(variance)
    assert 10 < hidden < 50  # of sixty: both verdicts are tried


# --- rows that carry rounding -----------------------------------------------------------------


def mixed_case(rng):
    """H = BC of rank r with columns of size 1e-4 to 1e4: aᵀθ = uᵀ(Cθ) is seen through B alone."""
    n, m = int(rng.integers(2, 7)), int(rng.integers(7, 13))
    rank = int(rng.integers(1, n))
    C = design(rng, n, rank).T * 10.0 ** rng.uniform(-4, 4, n)
    return design(rng, m, rank), C, rng.standard_normal(rank)


@pytest.mark.parametrize("kind", ["diagonal", "matrix", "singular noise"])
def test_fifty_cases_each_of_rows_with_rounding(kind):
    """Singular values of B and of C (columns scaled) are within 0.4 to 2.5: 1e-10 is derived as in
    `strategies`.
    """
    rng = np.random.default_rng(len(kind))
    for _ in range(50):
        B, C, u = mixed_case(rng)
        m, n = len(B), C.shape[1]
        S = psd_matrix(rng, m) if kind == "matrix" else np.exp(rng.uniform(-2, 2, m))
        Sigma = psd_matrix(rng, m, 3 if kind == "singular noise" else None)
        if kind == "diagonal":
            Sigma = np.diag(np.exp(rng.uniform(-2, 2, m)))
        noise = pv.noise.Gaussian(cov=Sigma)
        unseen = rng.standard_normal(n) * np.abs(C).max(axis=0)
        found = contrast(pv.LinearModel(B @ C, noise=noise), S, [u @ C, unseen])
        reduced = pv.bound(pv.LinearModel(B, noise=noise), S)
        assert found.covariance.diagonal()[0] == pytest.approx(u @ reduced.covariance @ u, rel=RTOL)
        assert found.covariance.diagonal()[1] == np.inf
        size = u @ reduced.classical @ u
        assert found.classical.diagonal()[0] == pytest.approx(size, rel=1e-8, abs=1e-12 * (u @ u))
        assert found.classical.diagonal()[1] == np.inf
        assert "even without privacy" in found.explain().split("\n")[1]


# --- beside `bound` ---------------------------------------------------------------------------


@given(problems())
def test_where_theta_is_identifiable_it_is_the_bound(problem):
    model = pv.LinearModel(problem.H, noise=pv.noise.Gaussian(cov=problem.cov))
    whole = pv.bound(model, problem.level)
    vectors = problem.rng.standard_normal((3, problem.n))
    found = contrast(model, problem.level, vectors)
    if whole.identifiable:
        assert found.covariance.diagonal() == pytest.approx(
            np.einsum("ki,ij,kj->k", vectors, whole.covariance, vectors), rel=RTOL
        )
        assert not found.hidden.any()
    else:
        outside = np.linalg.norm(vectors @ whole.identifiability.hidden_directions, axis=1)
        assert (np.isinf(found.covariance.diagonal()) == (outside > 1e-9)).all()
    assert (found.classical.diagonal() <= found.covariance.diagonal() * (1 + RTOL)).all()
    alone = contrast(model, problem.level, vectors[0])
    assert alone.covariance == pytest.approx(found.covariance.diagonal()[0], rel=RTOL)


@given(problems())
def test_units_decide_nothing(problem):
    """θ in other units and a with it: the same floor."""
    noise = pv.noise.Gaussian(cov=problem.cov)
    H = problem.H.copy()
    H[:, -1] = H[:, 0]  # θ_0 + θ_n is all that is seen of both, unless n = 1
    a = problem.rng.standard_normal(problem.n)
    a[-1] = a[0]
    unit = 2.0 ** problem.rng.integers(-40, 40, problem.n)
    plain = contrast(pv.LinearModel(H, noise=noise), problem.level, a)
    other = contrast(pv.LinearModel(H * unit, noise=noise), problem.level, a * unit)
    assert other.covariance == pytest.approx(plain.covariance, rel=RTOL)
    assert other.identifiable == plain.identifiable


def test_what_hides_it_is_named():
    model = pv.LinearModel(
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]], noise=1.0, names=["age", "bmi", "iq"]
    )
    found = contrast(model, [1.0, 0.0, 0.0], np.eye(3))
    assert found.covariance.diagonal().round(12).tolist() == [2.0, np.inf, np.inf]
    assert found.classical.diagonal().round(12).tolist() == [1.0, 0.5, np.inf]
    assert found.measurements[1].tolist() == [1, 2]
    age, bmi, iq = found.explain().split("\n")
    assert age == "age: standard error at least 1.414 (1 without privacy)"
    assert bmi.startswith("bmi: hidden by the level")
    assert bmi.endswith("would: 1, 2")
    assert "even without privacy" in iq
    assert contrast(model, [1.0, 0.0, 0.0], {"age": 2.0}).covariance == pytest.approx(8.0)
    assert found.to_dict()["standard_error"][1:] == ["Infinity", "Infinity"]
    # A coefficient of a hidden parameter counts however small it is.
    assert contrast(model, [1.0, 0.0, 0.0], [1.0, 1e-200, 0.0]).covariance == np.inf
    assert contrast(model, 1.0, [0.0, 0.0, 0.0]).covariance == 0.0
    with pytest.raises(pv.errors.InvalidInput, match="no parameter 'weight'"):
        contrast(model, 1.0, {"weight": 1.0})
    with pytest.raises(pv.errors.InvalidInput, match="3 coefficients"):
        contrast(model, 1.0, [1.0, 2.0])
    with pytest.raises(pv.errors.NumericalFailure, match="range of numbers"):
        contrast(model, 1.0, [1e200, 0.0, 0.0])


def test_a_nonlinear_model_and_another_law():
    curve = pv.NonlinearModel(lambda t: np.array([t[0] * t[1], 2 * t[0] * t[1]]), noise=1.0)
    found = contrast(curve, 1.0, [3.0, 2.0], theta=[2.0, 3.0])  # d(t_0 t_1) is all that is seen
    assert found.covariance.diagonal() == pytest.approx(2 / 5, rel=1e-6)
    assert contrast(curve, 1.0, [1.0, 0.0], theta=[2.0, 3.0]).covariance == np.inf
    law = pv.noise.Laplace(0.5)
    model = pv.LinearModel(np.ones((4, 2)), noise=law)
    assert contrast(model, 2.0, [1.0, 1.0]).covariance == pytest.approx((0.25 + 0.5) / 4)
