"""Both releases against the formulas of the note, written down once more; awkward values."""

import math

import numpy as np
import pytest

from aggregate_cases import Forced, Recorded, design_of, split_of, weights_of
from privest import aggregate
from privest.errors import InvalidInput
from privest.mechanism.source import Generated, Protected
from privest.privacy import Range, gdp

RNG = np.random.default_rng(29)
LINE = np.column_stack([np.ones(40), RNG.standard_normal((40, 2))])
GROUPS = np.eye(3)[np.arange(40) % 3]
OWNERS = np.repeat(np.arange(16), [1, 2, 3, 4] * 4)
LIMITS = Range(-3.0, 5.0)
MIDDLE, WIDTH = 1.0, 8.0
VALUES = np.clip(LINE @ [1.0, 0.5, -0.5] + RNG.standard_normal(40), -3.5, 5.5)
# Relative: weights of 2²⁰ and ranges of 2¹⁶ steps, rounded outwards, and the share of the reserve
# that covers it: 2·2⁻¹⁶ and 2n·2⁻²⁰ in μ, twice that in c₁.
ROUNDED = 1.3e-4
NINE_BITS = 2.0**-8  # of the noise of squares, rounded up


def kappa(M, share):
    d = np.linspace(1e-5, 1, 100_000)
    return math.sqrt(((1 - (1 - share) * d**2) / (d * (2 * M - d) + 1e-300) ** 2).min())


def fitted(H, theta):
    return np.clip(H @ theta, LIMITS.low, LIMITS.high)


def require_interval(found, known, shown, noise, top, freedom):
    """Variance and freedom of the interval of these facts, by the note's formulas."""
    evidence = aggregate.VarianceFromSquares(known, shown, noise, top, freedom)
    variance, freedom = evidence.student()
    np.testing.assert_allclose(found.variance, variance, rtol=1e-5)
    np.testing.assert_allclose(found.freedom, freedom, rtol=1e-4)


def freedom_of(q, H, A):
    """tr(QN)²/tr(Q²N²) of every column of weights q, N the covariance of the residuals."""
    N = np.eye(len(H)) - H @ A
    N = N @ N.T
    return (q.T @ np.diag(N)) ** 2 / ((q.T**2) @ np.diag(N @ N))


def shown(source, at):
    """What noise was added to, in its units."""
    return np.array(source.shown[at], dtype=float) / np.array(source.sigma[at], dtype=float)


def released(design, own, z, t, y=VALUES):
    source = Forced(z, t)
    return aggregate.release_sums(design, [y], LIMITS, own, source), source


def test_squares_as_in_the_note():
    design = design_of(LINE)
    own = split_of(design, LIMITS, mu=2.0)
    assert own.kind == "squares"
    X, L = weights_of(design)
    assert 0.85 * (2.0 / WIDTH) ** 2 * (1 - ROUNDED) < own.level <= 0.85 * (2.0 / WIDTH) ** 2
    c1 = own.level
    theta = np.array([1.5, 0.9, -1.2])
    z = math.sqrt(c1) * (L.T @ X @ theta)
    t = np.array([3.0, -2.0, 40.0])
    found, source = released(design, own, z, t)
    np.testing.assert_allclose(found.estimate, theta, rtol=1e-8)  # z is a whole number
    y, m = np.clip(VALUES, -3, 5), fitted(X, theta)
    # One step of 2⁻¹⁶ of the range for each of 40 values, at most.
    near = {"rtol": 0, "atol": 40 * math.sqrt(c1) * own.step}
    np.testing.assert_allclose(shown(source, 0), math.sqrt(c1) * L.T @ y, **near)
    beta = np.linalg.inv(L.T @ X)
    b, A = (beta**2).sum(axis=1), beta @ L.T
    a, q = (A**2).sum(axis=1), (L @ beta.T) ** 2 / b
    M = 0.5 + np.abs(m - MIDDLE) / WIDTH
    size = np.linalg.norm(q, axis=1)
    k = own.mu / WIDTH**2 * min(kappa(x, 0.15) / s for x, s in zip(M, size))
    scale = found.scale.mean()
    assert k * (1 - NINE_BITS - ROUNDED) < scale <= k
    np.testing.assert_allclose(found.scale, scale, rtol=1e-3)  # weights of 2¹⁸, rounded
    wanted = found.scale * (q.T @ (y - m) ** 2)
    np.testing.assert_allclose(shown(source, 1), wanted, rtol=1e-3)
    h = np.einsum("ij,jk,ik->i", X, A @ A.T, X)
    tau = np.einsum("ij,ji->i", X, A)
    f = np.minimum(2, q.sum(axis=0) / (q * (1 - 2 * tau + h)[:, None]).sum(axis=0))
    d = f * b / found.scale
    nu = freedom_of(q, X, A)
    assert (nu > 10).all()
    require_interval(found, b / c1, t * d, d, a * WIDTH**2 / 4, nu)
    _, planned, seen = aggregate.planned_errors(design, own, 1.3)
    np.testing.assert_allclose(planned**2, b / c1 + 1.3 * a, rtol=1e-8)
    at = own.mu / WIDTH**2 * kappa(0.75, 0.15) / size.max()
    relative = f * b / at / (b / c1 + 1.3 * a)
    np.testing.assert_allclose(seen, relative, rtol=ROUNDED)


def test_free_squares_as_in_the_note():
    design = design_of(GROUPS)
    own = split_of(design, LIMITS, mu=2.0)
    assert own.kind == "free"
    X, L = weights_of(design)
    # Two releases round anew: 2⁻¹³ of μ² is left for that.
    assert (2.0 / WIDTH) ** 2 * (1 - 2 * ROUNDED) < own.level <= (2.0 / WIDTH) ** 2
    c = own.level
    theta = np.array([1.5, -0.5, 2.0])
    z, t = math.sqrt(c) * (L.T @ X @ theta), np.array([40.0, 30.0, 60.0])
    found, source = released(design, own, z, t)
    beta = np.linalg.inv(L.T @ X)
    b = (beta**2).sum(axis=1)
    q, A = (L @ beta.T) ** 2 / b, beta @ L.T
    most = math.sqrt(((1 + math.sqrt(5)) / 2) ** 5 / 16)  # .8325
    k = most * 4 * own.mu / (WIDTH**2 * np.linalg.norm(q, axis=1).max())
    assert k * (1 - NINE_BITS - 2 * ROUNDED) < found.scale.mean() <= k
    k = found.scale
    y = np.clip(VALUES, -3, 5)
    near = {"rtol": 0, "atol": 40 * math.sqrt(c) * own.step}
    np.testing.assert_allclose(shown(source, 0), math.sqrt(c) * L.T @ y, **near)
    np.testing.assert_allclose(shown(source, 1), k * (q.T @ (y - MIDDLE) ** 2), rtol=1e-3)
    inverse = beta @ beta.T  # G⁻¹
    tau2 = np.einsum("ij,jk,ik->i", X, inverse, X)
    off = X @ theta - MIDDLE
    h = np.einsum("ij,jk,ik->i", X, A @ A.T, X)
    f = 1 / np.maximum(0.5, 1 - (q.T @ h) / q.sum(axis=0))
    u = f * b * (t / k - q.T @ (off**2 - tau2 / c))
    g = (q * off[:, None]).T @ X
    d = f * b * np.sqrt(1 / k**2 + 4 / c * np.einsum("ij,jk,ik->i", g, inverse, g))
    top = (A**2).sum(axis=1) * WIDTH**2 / 4
    require_interval(found, b / c, u, d, top, freedom_of(q, X, A))


@pytest.mark.parametrize("n", [1, 3])
def test_squares_of_persons_as_in_the_note(n):
    design = design_of(LINE[:, :n], OWNERS)
    own = split_of(design, LIMITS, mu=5.0)
    assert own.kind == "persons"
    X, L = weights_of(design)
    np.testing.assert_allclose(X, LINE[:, :n], rtol=1e-15)
    assert 0.85 * (5.0 / WIDTH) ** 2 * (1 - ROUNDED) < own.level <= 0.85 * (5.0 / WIDTH) ** 2
    c1 = own.level
    theta = np.array([1.5, 0.9, -1.2])[:n]
    z, t = math.sqrt(c1) * (L.T @ X @ theta), RNG.standard_normal(n * (n + 1) // 2)
    found, source = released(design, own, z, t)
    y, m = np.clip(VALUES, -3, 5), fitted(X, theta)
    M = 0.5 + np.abs(m - MIDDLE) / WIDTH
    people = [np.flatnonzero(owner == OWNERS) for owner in range(16)]
    reach = max((WIDTH * np.linalg.norm(L[p], axis=1) * M[p]).sum() for p in people)
    k = math.sqrt(0.15) * own.mu / (math.sqrt(2 if n > 1 else 1) * reach**2)
    assert k * (1 - NINE_BITS - 2 * ROUNDED) < found.scale[0] <= k
    planned_k, k = k, found.scale[0]
    whole = np.zeros((n, n))
    for p in people:
        u = L[p].T @ (y - m)[p]
        whole += np.outer(u, u)
    at = np.triu_indices(n)
    root2 = np.where(at[0] == at[1], 1, math.sqrt(2))
    near = {"rtol": 1e-4, "atol": 1e-4 * k * np.trace(whole)}
    np.testing.assert_allclose(shown(source, 1), k * root2 * whole[at], **near)
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
    require_interval(found, b / c1, u, f * b / k, largest * WIDTH**2 / 4, nu)
    at_plan = planned_k * (reach / (0.75 * WIDTH)) ** 2
    equal = sum(A[:, p].sum(axis=1) ** 2 for p in people)
    for correlation, a in (
        (None, largest), (0.0, of_person.sum(axis=0)), (1.0, equal),
        (0.3, 0.7 * of_person.sum(axis=0) + 0.3 * equal),
    ):  # fmt: skip
        _, planned, seen = aggregate.planned_errors(design, own, 1.3, correlation)
        total = b / c1 + 1.3 * a
        np.testing.assert_allclose(planned**2, total, rtol=1e-7)
        np.testing.assert_allclose(seen, f * b / at_plan / total, rtol=2 * ROUNDED)


def test_an_exposure_is_divided():
    design = design_of(LINE)
    own = split_of(design, LIMITS, level=0.2)
    assert own.kind == "squares"
    assert 0.2 * (1 - 1e-12) < own.exposure < 0.2  # costs of 15 digits are not above it
    assert 0.14 * (1 - ROUNDED) < own.level <= 0.14
    theta = np.array([1.5, 0.9, -1.2])
    X, L = weights_of(design)
    found, _ = released(design, own, math.sqrt(own.level) * (L.T @ X @ theta), np.zeros(3))
    M = 0.5 + np.abs(fitted(X, theta) - MIDDLE) / WIDTH
    q = np.linalg.norm(design.shares(L), axis=1)
    k = math.sqrt(0.06) / (2 * WIDTH * (M * q).max())
    assert k * (1 - NINE_BITS - ROUNDED) < found.scale.mean() <= k * (1 + ROUNDED)
    d = np.linspace(0, 1, 1001)
    moved = WIDTH * np.sqrt((d**2 * (0.14 + 0.06 * (1 - d / 2) ** 2)).max())
    assert moved <= own.stated < moved * (1 + ROUNDED)


def test_a_promise_is_what_is_charged():
    """μ of both releases is what is promised, to the 2⁻⁴⁰ that costs of 15 digits need."""
    mu = gdp.mu_of(1.0, 1e-6)
    for kind in ("none", "squares", "free", "persons"):
        most = 4 if kind == "persons" else None
        own = aggregate.split(kind, 3, LIMITS, mu=mu, most=most)
        assert mu * (1 - 1e-12 - ROUNDED * (kind == "none")) < own.stated < mu
        assert own.level <= (mu / WIDTH) ** 2
        assert math.sqrt(float(own.charged.amounts["mu2"])) == own.stated
    tiny = aggregate.split("squares", 3, LIMITS, mu=1e-5)  # no grid has steps that cost something
    assert tiny.level > 0.8499 * (1e-5 / WIDTH) ** 2


def test_exposures_are_those_of_the_note():
    """13 c for squares, 12 c for free ones, c₁ + 8ωc (16 where n = 1) for persons."""
    c = 1 / WIDTH**2
    for kind, n, least, most in (
        ("none", 2, 1, 1), ("squares", 2, 12.0, 13.5), ("free", 2, 12, 12.2),
        ("persons", 2, 0.85 + 1.2, 0.85 + 1.2), ("persons", 1, 0.85 + 2.4, 0.85 + 2.4),
    ):  # fmt: skip
        rows = 4 if kind == "persons" else None
        own = aggregate.split(kind, n, LIMITS, mu=1.0, most=rows)
        share = own.exposure / (own.mu / WIDTH) ** 2
        assert least * (1 - ROUNDED) <= share <= most * (1 + ROUNDED), kind
        assert own.exposure <= 14 * c


def test_the_level_for_wanted_errors():
    design = design_of(LINE)
    level = aggregate.level_for_errors(design, 1.0, {0: 0.5, 2: 0.6})
    own = aggregate.split("none", 3, LIMITS, level=level)
    _, total, _ = aggregate.planned_errors(design, own, 1.0)
    assert total[0] <= 0.5
    assert total[2] <= 0.6
    assert max(total[0] / 0.5, total[2] / 0.6) > 1 - ROUNDED
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
            facts.append((*found.scale, *found.variance, *found.freedom, *source.laws))
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
        ends = own.range.low * own.step, own.range.high * own.step  # of whole steps
        for values, source in zip((y, np.clip(y.astype(float), *ends)), sources):
            aggregate.release_sums(design, [values], limits, own, source)
        assert sources[0].shown == sources[1].shown
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


def test_a_range_too_far_from_0_is_refused_from_public_facts():
    """A double has 53 bits: 2⁻¹⁶ of this range is beyond the last of its ends."""
    design = design_of(LINE)
    with pytest.raises(InvalidInput, match="too far from 0"):
        split_of(design, Range(1e14, 1e14 + 1), mu=2.0)


def test_noise_is_fresh_and_whole():
    for H, owners in ((LINE, None), (GROUPS, None), (LINE, OWNERS)):
        design = design_of(H, owners)
        own = split_of(design, LIMITS, mu=5.0)
        found = aggregate.release_sums(design, [VALUES], LIMITS, own, Protected())
        again = aggregate.release_sums(design, [VALUES], LIMITS, own, Protected())
        for first, second in zip(found.integers, again.integers, strict=True):
            assert all(type(number) is int for number in first)
            assert first != second
