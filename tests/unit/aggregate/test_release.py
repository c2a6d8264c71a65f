"""Both releases against the formulas of the note, written down once more; awkward values."""

import math

import numpy as np
import pytest

from aggregate_cases import Forced, Recorded, design_of, split_of, weights_of
from privest import aggregate
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.mechanism.source import Generated, Protected
from privest.privacy import Range, gdp

RNG = np.random.default_rng(29)
LINE = np.column_stack([np.ones(40), RNG.standard_normal((40, 2))])
GROUPS = np.eye(3)[np.arange(40) % 3]
OWNERS = np.repeat(np.arange(16), [1, 2, 3, 4] * 4)
LIMITS = Range(-3.0, 5.0)
MIDDLE, WIDTH = 1.0, 8.0
VALUES = np.clip(LINE @ [1.0, 0.5, -0.5] + RNG.standard_normal(40), -3.5, 5.5)
UNIT = 1 + 0.75 * GRID**2  # variance of noise and rounding


def kappa(M, share):
    d = np.linspace(1e-5, 1, 100_000)
    return math.sqrt(((1 - (1 - share) * d**2) / (d * (2 * M - d) + 1e-300) ** 2).min())


def fitted(H, theta):
    return np.clip(H @ theta, LIMITS.low, LIMITS.high)


def require_interval(found, known, shown, noise, top, freedom):
    """Variance and freedom of the interval of these facts, by the note's formulas."""
    evidence = aggregate.VarianceFromSquares(known, shown, noise, top, freedom)
    variance, freedom = evidence.student()
    np.testing.assert_allclose(found.variance, variance, rtol=1e-6)
    np.testing.assert_allclose(found.freedom, freedom, rtol=1e-5)


def freedom_of(q, H, A):
    """tr(QN)²/tr(Q²N²) of every column of weights q, N the covariance of the residuals."""
    N = np.eye(len(H)) - H @ A
    N = N @ N.T
    return (q.T @ np.diag(N)) ** 2 / ((q.T**2) @ np.diag(N @ N))


def released(design, own, z, t, y=VALUES):
    source = Forced(z, t) if own.kind != "free" else Forced(np.concatenate([z, t]))
    return aggregate.release_sums(design, [y], LIMITS, own, source), source


def test_squares_as_in_the_note():
    design = design_of(LINE)
    own = split_of(design, LIMITS, mu=2.0)
    assert own.kind == "squares"
    X, L = weights_of(design)
    c1 = 0.85 * ((2.0 - math.sqrt(6) * GRID) / WIDTH) ** 2
    assert own.level == pytest.approx(c1, rel=1e-9)
    theta = np.array([1.5, 0.9, -1.2])
    z = math.sqrt(c1) * (L.T @ X @ theta)
    t = np.array([3.0, -2.0, 40.0])
    found, source = released(design, own, z, t)
    np.testing.assert_allclose(found.estimate, theta, rtol=1e-9)
    y, m = np.clip(VALUES, -3, 5), fitted(X, theta)
    np.testing.assert_allclose(source.shown[0].high, math.sqrt(c1) * L.T @ y, rtol=1e-9)
    beta = np.linalg.inv(L.T @ X)
    b, A = (beta**2).sum(axis=1), beta @ L.T
    a, q = (A**2).sum(axis=1), (L @ beta.T) ** 2 / b
    M = 0.5 + np.abs(m - MIDDLE) / WIDTH
    size = np.linalg.norm(q, axis=1)
    k = 0.999 * own.mu / WIDTH**2 * min(kappa(x, 0.15) / s for x, s in zip(M, size))
    assert k * 0.985 < found.scale <= k * (1 + 1e-6)  # M is rounded up to 1/512
    wanted = found.scale * q.T @ (y - m) ** 2
    np.testing.assert_allclose(source.shown[1].high, wanted, rtol=1e-9)
    h = np.einsum("ij,jk,ik->i", X, A @ A.T, X)
    tau = np.einsum("ij,ji->i", X, A)
    f = np.minimum(2, q.sum(axis=0) / (q * (1 - 2 * tau + h)[:, None]).sum(axis=0))
    d = f * b / found.scale
    nu = freedom_of(q, X, A)
    assert (nu > 10).all()
    require_interval(found, UNIT * b / c1, t * d, d, a * WIDTH**2 / 4, nu)
    _, planned, seen = aggregate.planned_errors(design, own, LIMITS, 1.3)
    np.testing.assert_allclose(planned**2, UNIT * b / c1 + 1.3 * a, rtol=1e-9)
    at = 0.999 * own.mu / WIDTH**2 * kappa(0.75, 0.15) / size.max()
    relative = f * b / at / (UNIT * b / c1 + 1.3 * a)
    np.testing.assert_allclose(seen, relative, rtol=2e-3)


def test_free_squares_as_in_the_note():
    design = design_of(GROUPS)
    own = split_of(design, LIMITS, mu=2.0)
    assert own.kind == "free"
    X, L = weights_of(design)
    c = ((2.0 - math.sqrt(6) * GRID) / WIDTH) ** 2
    assert own.level == pytest.approx(c, rel=1e-9)
    theta = np.array([1.5, -0.5, 2.0])
    z, t = math.sqrt(c) * (L.T @ X @ theta), np.array([40.0, 30.0, 60.0])
    found, source = released(design, own, z, t)
    beta = np.linalg.inv(L.T @ X)
    b = (beta**2).sum(axis=1)
    q, A = (L @ beta.T) ** 2 / b, beta @ L.T
    k = 0.8325 * 0.999 * 4 * own.mu / (WIDTH**2 * np.linalg.norm(q, axis=1).max())
    assert found.scale == pytest.approx(k, rel=1e-9)
    y = np.clip(VALUES, -3, 5)
    shown = np.concatenate([math.sqrt(c) * L.T @ y, k * q.T @ (y - MIDDLE) ** 2])
    np.testing.assert_allclose(source.shown[0].high, shown, rtol=1e-9, atol=1e-9)
    inverse = beta @ beta.T  # G⁻¹
    tau2 = np.einsum("ij,jk,ik->i", X, inverse, X)
    off = X @ theta - MIDDLE
    h = np.einsum("ij,jk,ik->i", X, A @ A.T, X)
    f = 1 / np.maximum(0.5, 1 - (q.T @ h) / q.sum(axis=0))
    u = f * b * (t / k - q.T @ (off**2 - tau2 / c))
    g = (q * off[:, None]).T @ X
    d = f * b * np.sqrt(1 / k**2 + 4 / c * np.einsum("ij,jk,ik->i", g, inverse, g))
    top = (A**2).sum(axis=1) * WIDTH**2 / 4
    require_interval(found, UNIT * b / c, u, d, top, freedom_of(q, X, A))


@pytest.mark.parametrize("n", [1, 3])
def test_squares_of_persons_as_in_the_note(n):
    design = design_of(LINE[:, :n], OWNERS)
    own = split_of(design, LIMITS, mu=5.0)
    assert own.kind == "persons"
    X, L = weights_of(design)
    np.testing.assert_allclose(X, LINE[:, :n], rtol=1e-15)
    numbers = n + n * (n + 1) // 2
    c1 = 0.85 * ((5.0 - math.sqrt(numbers) * GRID) / WIDTH) ** 2
    assert own.level == pytest.approx(c1, rel=1e-9)
    theta = np.array([1.5, 0.9, -1.2])[:n]
    z, t = math.sqrt(c1) * (L.T @ X @ theta), RNG.standard_normal(n * (n + 1) // 2)
    found, source = released(design, own, z, t)
    y, m = np.clip(VALUES, -3, 5), fitted(X, theta)
    M = 0.5 + np.abs(m - MIDDLE) / WIDTH
    people = [np.flatnonzero(owner == OWNERS) for owner in range(16)]
    reach = max((WIDTH * np.linalg.norm(L[p], axis=1) * M[p]).sum() for p in people)
    k = 0.999 * math.sqrt(0.15) * own.mu / (math.sqrt(2 if n > 1 else 1) * reach**2)
    assert found.scale == pytest.approx(k, rel=1e-9)
    whole = np.zeros((n, n))
    for p in people:
        u = L[p].T @ (y - m)[p]
        whole += np.outer(u, u)
    at = np.triu_indices(n)
    root2 = np.where(at[0] == at[1], 1, math.sqrt(2))
    np.testing.assert_allclose(source.shown[1].high, k * root2 * whole[at], rtol=1e-9, atol=1e-12)
    matrix = np.zeros((n, n))
    matrix[at] = t / k / root2
    matrix = matrix + np.triu(matrix, 1).T
    beta = np.linalg.inv(L.T @ X)
    b = (beta**2).sum(axis=1)
    f = 16 / (16 - n)
    u = f * np.diag(beta @ matrix @ beta.T)
    A = beta @ L.T
    of_person = np.array([(A[:, p] ** 2).sum(axis=1) for p in people])
    nu = of_person.sum(axis=0) ** 2 / (of_person**2).sum(axis=0)
    largest = sum(np.abs(A[:, p]).sum(axis=1) ** 2 for p in people)
    require_interval(found, UNIT * b / c1, u, f * b / k, largest * WIDTH**2 / 4, nu)
    at_plan = k * (reach / (0.75 * WIDTH)) ** 2
    equal = sum(A[:, p].sum(axis=1) ** 2 for p in people)
    for correlation, a in (
        (None, largest), (0.0, of_person.sum(axis=0)), (1.0, equal),
        (0.3, 0.7 * of_person.sum(axis=0) + 0.3 * equal),
    ):  # fmt: skip
        _, planned, seen = aggregate.planned_errors(design, own, LIMITS, 1.3, correlation)
        total = UNIT * b / c1 + 1.3 * a
        np.testing.assert_allclose(planned**2, total, rtol=1e-9)
        np.testing.assert_allclose(seen, f * b / at_plan / total, rtol=1e-9)


def test_an_exposure_is_divided():
    design = design_of(LINE)
    own = split_of(design, LIMITS, level=0.2)
    assert (own.kind, own.level, own.exposure) == ("squares", pytest.approx(0.14), 0.2)
    theta = np.array([1.5, 0.9, -1.2])
    X, L = weights_of(design)
    found, _ = released(design, own, math.sqrt(0.14) * (L.T @ X @ theta), np.zeros(3))
    M = 0.5 + np.abs(fitted(X, theta) - MIDDLE) / WIDTH
    q = np.linalg.norm(design.shares(L), axis=1)
    k = 0.999 * math.sqrt(0.06) / (2 * WIDTH * (M * q).max())
    assert found.scale == pytest.approx(k, rel=1e-9)
    d = np.linspace(0, 1, 1001)
    moved = WIDTH * np.sqrt((d**2 * (0.14 + 0.06 * (1 - d / 2) ** 2)).max())
    assert 0 <= own.stated - moved - math.sqrt(6) * GRID < 1e-3


def test_a_promise_counts_the_grid():
    """μ of both releases and the steps of all numbers that leave are together what is promised."""
    mu = gdp.mu_of(1.0, 1e-6)
    for kind, numbers in (("none", 3), ("squares", 6), ("free", 6), ("persons", 9)):
        own = aggregate.split(kind, 3, LIMITS, mu=mu)
        assert own.stated == mu
        assert own.mu + math.sqrt(numbers) * GRID == pytest.approx(mu, rel=1e-12)
        assert own.level <= (own.mu / WIDTH) ** 2
    with pytest.raises(InvalidInput, match="larger ε"):
        aggregate.split("squares", 3, LIMITS, mu=0.002)


def test_exposures_are_those_of_the_note():
    """13 c for squares, 12 c for free ones, c₁ + 8ωc (16 where n = 1) for persons."""
    c = 1 / WIDTH**2
    for kind, n, least, most in (
        ("none", 2, 1, 1), ("squares", 2, 12.0, 13.5), ("free", 2, 12, 12.2),
        ("persons", 2, 0.85 + 1.2, 0.85 + 1.2), ("persons", 1, 0.85 + 2.4, 0.85 + 2.4),
    ):  # fmt: skip
        own = aggregate.split(kind, n, LIMITS, mu=1.0)
        share = own.exposure / (own.mu / WIDTH) ** 2
        assert least * (1 - 1e-9) <= share <= most * (1 + 1e-9), kind
        assert own.exposure <= 14 * c


def test_the_level_for_wanted_errors():
    design = design_of(LINE)
    level = aggregate.level_for_errors(design, 1.0, {0: 0.5, 2: 0.6})
    own = aggregate.Split(level, 0.0, "none", None, level, 1.0)
    _, total, _ = aggregate.planned_errors(design, own, LIMITS, 1.0)
    assert total[0] <= 0.5 * (1 + 1e-12)
    assert total[2] <= 0.6 * (1 + 1e-12)
    assert max(total[0] / 0.5, total[2] / 0.6) == pytest.approx(1)
    with pytest.raises(InvalidInput, match="cannot have"):
        aggregate.level_for_errors(design, 1.0, {1: 1e-3})


def test_what_is_public_does_not_depend_on_values():
    """Given what release 1 showed, k, slack and shapes are the same for all values."""
    for H, owners, mu in ((LINE, None, 2.0), (GROUPS, None, 2.0), (LINE, OWNERS, 5.0)):
        design = design_of(H, owners)
        own = split_of(design, LIMITS, mu=mu)
        facts = []
        for y in (VALUES, np.zeros(40), np.full(40, np.inf), np.full(40, -1e308)):
            size = 6 if own.kind == "persons" else 3
            found, source = released(design, own, np.array([1.0, 2.0, -3.0]), np.ones(size), y)
            facts.append((
                found.scale, *found.variance, *found.freedom,
                *(x for part in source.shown for x in np.broadcast_to(part.slack, part.shape)),
            ))  # fmt: skip
        assert all(one == facts[0] for one in facts)


@pytest.mark.parametrize("owners", [None, np.arange(5) // 2])
def test_values_that_are_odd(owners):
    """Infinite, constant, of other types: clipped and released. Missing: refused, not shown."""
    limits = Range(0.1, 0.7)  # no end is a number of single precision
    H = np.column_stack([np.ones(5), np.arange(5.0)])
    design = design_of(H, owners)
    own = split_of(design, limits, mu=6.0)
    assert own.kind != "none"
    for y in (
        np.array([np.inf, -np.inf, 1e308, 0.0, 0.3]), np.full(5, 0.4), np.arange(5),
        np.arange(5) > 2, np.linspace(0, 1, 5, dtype=np.float32),
    ):  # fmt: skip
        for source in (Protected(), Generated(np.random.default_rng(1))):
            found = aggregate.release_sums(design, [y], limits, own, source)
            assert np.isfinite(found.estimate).all()
            assert (found.variance > 0).all()
        sources = Recorded(), Recorded()
        for values, source in zip((y, np.clip(y.astype(float), 0.1, 0.7)), sources):
            aggregate.release_sums(design, [values], limits, own, source)
        for one, other in zip(*(source.shown for source in sources)):
            assert [one.exact(j) for j in range(2)] == [other.exact(j) for j in range(2)]
    for y in (np.array([np.nan, 7.25, 7.25, 7.25, 7.25]), np.ones(4), np.ones(1), np.ones((5, 1))):
        source = Recorded()
        with pytest.raises(InvalidInput) as error:
            aggregate.release_sums(design, [y], limits, own, source)
        assert not source.shown
        assert "7.25" not in str(error.value)


@pytest.mark.parametrize("K", [1, 2])
def test_tables_of_one_and_two_rows(K):
    design = design_of(np.eye(K))
    for mu in (0.3, 2.0):
        own = split_of(design, LIMITS, mu=mu)
        assert own.kind == ("none" if mu < 1 else "free")
        found = aggregate.release_sums(design, [np.ones(K)], LIMITS, own, Protected())
        assert np.isfinite(found.variance).all()
        assert (found.freedom >= 1).all()
        assert design.efficiency(own.level, None) == pytest.approx(1)


def test_sums_beyond_the_grid_are_refused_from_public_facts():
    """The same answer whatever the values are, before anything is shown."""
    design, limits = design_of(LINE), Range(1e14, 1e14 + 1)
    own = split_of(design, limits, mu=2.0)
    for y in (np.zeros(40), np.full(40, 1e14)):
        source = Recorded()
        with pytest.raises(InvalidInput, match="grid"):
            aggregate.release_sums(design, [y], limits, own, source)
        assert not source.shown


def test_released_numbers_are_on_the_grid():
    for H, owners in ((LINE, None), (GROUPS, None), (LINE, OWNERS)):
        design = design_of(H, owners)
        own = split_of(design, LIMITS, mu=5.0)
        found = aggregate.release_sums(design, [VALUES], LIMITS, own, Protected())
        for numbers in (found.sums, found.squares):
            assert (numbers / GRID == np.round(numbers / GRID)).all()
        again = aggregate.release_sums(design, [VALUES], LIMITS, own, Protected())
        assert (again.sums != found.sums).any()
