"""What both releases of sums show together, from the very whole numbers that leave (curator.md, 4).

A pair of tables that differ in one value (or one person) moves release 1 by Δu, and, given what
release 1 showed, release 2 by Δt, for the same random roundings of both tables. As fractions of
their noise: ‖Δu‖² + ‖Δt‖² ≤ μ², which is charged. (`tests/vault/test_replay.py` has the same for
any weights; here they are the planner's.)
"""

import functools
import itertools
import math

import numpy as np
import pytest
import scipy.special

from aggregate_cases import (
    Forced,
    Recorded,
    design_of,
    most_of,
    moved2,
    split_of,
    values_between,
)
from privest import aggregate
from privest.errors import InvalidInput
from privest.privacy import Range, gdp

RNG = np.random.default_rng(29)
MU_APART = functools.cache(aggregate.Split.mu_apart)
LINE = np.column_stack([np.ones(9), [-2.0, -1, -0.5, 0, 0, 0.3, 1, 1.5, 40]])
WITH_ZERO = np.concatenate([LINE, np.zeros((1, 2))])
GROUPS = np.eye(3)[[0, 0, 0, 0, 1, 1, 1, 2, 2]]
OWNERS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4])


def outcomes(design, own, limits):
    """z of release 1 for fitted means at the middle, at an end, sloped and far outside."""
    n = design.rows.n
    root = math.sqrt(own.level)
    for theta in (
        np.eye(n)[0] * (limits.low + limits.high) / 2,
        np.eye(n)[0] * limits.high,
        np.linspace(limits.low, limits.high, n),
        RNG.standard_normal(n) * 3 * limits.width,
    ):
        yield root * (design.sums.cross @ theta)


def shown(design, own, limits, y, z):
    """Everything that noise is added to, in its units, given z."""
    source = Forced(z, 0.0)
    aggregate.release_sums(design, [y], limits, own, source)
    return source.scaled


def require_private(design, own, limits, neighbours):
    """The largest ‖Δ‖/μ over all pairs of tables in each group of neighbours."""
    worst, charged = 0.0, own.charged.amounts["mu2"]
    for z in outcomes(design, own, limits):
        for group in neighbours:
            found = [shown(design, own, limits, y, z) for y in group]
            for (y, first), (other, second) in itertools.combinations(zip(group, found), 2):
                mu2 = moved2(first, second)
                assert mu2 <= charged
                apart = float(np.abs(np.clip(y, -1e9, 1e9) - np.clip(other, -1e9, 1e9)).max())
                assert mu2 <= MU_APART(own, apart) ** 2 * (1 + 1e-12)
                worst = max(worst, math.sqrt(mu2 / charged))
    return worst


def one_value(rows, limits, count=9):
    """Tables that differ in one value, for every row."""
    base = RNG.uniform(limits.low, limits.high, rows)
    for i in range(rows):
        values = [*values_between(limits.low, limits.high, count), -np.inf, 1e300]
        yield [np.where(np.arange(rows) == i, value, base) for value in values]


CASES = {
    "squares": (LINE, {"mu": 2.0}, "squares"),
    "squares, small": (LINE, {"mu": 1.2}, "squares"),
    "squares, large": (LINE, {"mu": 9.0}, "squares"),
    "a row of zeros": (WITH_ZERO, {"mu": 2.0}, "squares"),
    "free": (GROUPS, {"mu": 2.0}, "free"),
    "free, one mean": (np.ones((7, 1)), {"mu": 3.0}, "free"),
    "none": (LINE, {"mu": 0.2}, "none"),
    "exposure": (LINE, {"level": 1.0}, "squares"),
    "exposure, groups": (GROUPS, {"level": 1.0}, "squares"),
    "exposure, none": (LINE, {"level": 1e-3}, "none"),
}


@pytest.mark.parametrize("limits", [Range(-1.0, 1.0), Range(0.1, 0.7), Range(1e6, 1e6 + 3.0)])
@pytest.mark.parametrize("name", CASES)
def test_one_value_moves_both_releases_by_at_most_mu(name, limits):
    H, promise, kind = CASES[name]
    if "level" in promise:
        promise = {"level": promise["level"] / limits.width**2}
    design = design_of(H)
    own = split_of(design, limits, **promise)
    assert own.kind == kind
    worst = require_private(design, own, limits, one_value(len(H), limits))
    # Nothing is wasted either; under an exposure μ is stated for the worst fitted mean.
    assert worst > (0.94 if own.mu is None else 0.98)


def test_the_scale_of_squares_for_every_fitted_mean():
    """(1−ω)d² + k²‖q‖²R⁴d²(2M−d)²/μ² ≤ 1 for all d, nearly 1 for one, wherever the means are."""
    limits, H = Range(-1.0, 1.0), np.array([[1.0], [1.0], [0.5]])
    design = design_of(H)
    own = aggregate.split("squares", 1, limits, mu=2.0)
    L = np.concatenate(list(design.map(lambda _, L: L)))
    size = np.linalg.norm(design.shares(L), axis=1)
    d = np.linspace(0, 1, 4001)
    for theta in np.linspace(-1.3, 1.3, 401):
        z = math.sqrt(own.level) * design.sums.cross[0] * theta
        released = aggregate.release_sums(design, [np.zeros(3)], limits, own, Forced(z, 0.0))
        M = 0.5 + np.abs(np.clip(H @ released.estimate, -1, 1)) / 2
        reach = np.outer(size, 4 * d) * (2 * M[:, None] - d) * released.scale / own.mu
        whole = (1 - own.share) * d**2 + reach**2
        # σ has nine bits: the squares' part is up to 2⁻⁷ below its most; 2⁻¹⁵ is for rounding.
        assert 1 - 2.0**-7 < whole.max() <= 1 + 2.0**-15


@pytest.mark.parametrize("n", [1, 2])
def test_one_person_moves_both_releases_by_at_most_mu(n):
    """Every corner of the box of a person's values, and some of its inside."""
    limits = Range(-0.5, 2.0)
    design = design_of(LINE[:, :n], OWNERS)
    own = split_of(design, limits, mu=3.0)
    assert own.kind == "persons"

    def neighbours():
        base = RNG.uniform(limits.low, limits.high, len(OWNERS))
        for owner in range(5):
            mine = np.flatnonzero(owner == OWNERS)
            sides = itertools.product(values_between(-0.5, 2.0, 3)[[0, 2, -1]], repeat=len(mine))
            tables = []
            for side in sides:
                y = base.copy()
                y[mine] = side
                tables.append(y)
            yield tables

    worst = require_private(design, own, limits, neighbours())
    assert worst > 0.9


def test_squares_of_rows_are_refused_for_persons():
    """A person moves several of them."""
    limits = Range(0.0, 1.0)
    by_person, by_row = design_of(LINE, OWNERS), design_of(LINE)
    for design, kind in ((by_person, "squares"), (by_person, "free"), (by_row, "persons")):
        own = aggregate.split(kind, 2, limits, mu=2.0, most=most_of(design))
        with pytest.raises(InvalidInput, match="kind"):
            aggregate.release_sums(design, [np.zeros(9)], limits, own, Recorded())
    with pytest.raises(InvalidInput, match="epsilon"):
        split_of(by_person, limits, level=3.0)


@pytest.mark.parametrize("name", [*CASES, "persons 1", "persons 2"])
def test_the_exposure_of_both_releases(name):
    """(‖Δu‖² + ‖Δt‖²)/Δy² of values a step apart: the Fisher information of a value at most."""
    limits, owners = Range(-1.0, 1.0), None
    if name in CASES:
        H, promise, _ = CASES[name]
    else:
        H, promise, owners = LINE[:, : int(name[-1])], {"mu": 3.0}, OWNERS
    design = design_of(H, owners)
    own = split_of(design, limits, **promise)
    largest, gap = 0.0, own.step
    for z in outcomes(design, own, limits):
        for i in range(len(H)):
            for end in (-1.0, 1.0 - gap):
                y = np.full(len(H), np.sign(end))
                y[i] = end
                other = y.copy()
                other[i] = end + gap
                pair = [shown(design, own, limits, table, z) for table in (y, other)]
                largest = max(largest, float(moved2(*pair)) / gap**2)
    assert largest <= own.exposure
    # Tight for rows; a person's means are rarely all at the middle while its residuals are large.
    assert largest > own.exposure * (0.98 if owners is None else 0.1)


# --- the exact profile δ(ε) of both releases on a small table ------------------------------------


def gaussian_delta(mu, epsilon):
    """δ of two normal laws μ apart at any real ε: E(1 − e^{ε−loss})₊."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a = scipy.special.ndtr(mu / 2 - epsilon / mu)
        b = np.exp(epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
        found = np.where(mu > 1e-12, a - b, -np.expm1(np.minimum(epsilon, 0.0)))
    return np.maximum(found, 0.0)


@pytest.mark.processes
@pytest.mark.parametrize("epsilon", [1.0, pytest.param(3.0, marks=pytest.mark.slow), 10.0])
def test_the_exact_profile_of_both_releases(epsilon):
    """Release 1 by quadrature, release 2 given it in closed form: never above what is stated.

    K = 6, n = 2, all pairs of a value on a grid, both orders.
    """
    limits, delta = Range(-1.0, 1.0), 1e-6
    H = np.column_stack([np.ones(6), [-1.0, -0.6, 0.1, 0.4, 0.9, 2.5]])
    design = design_of(H)
    # Not split_of: at ε = 1 the plan of so few rows would have no squares.
    own = aggregate.split("squares", 2, limits, mu=gdp.mu_of(epsilon, delta))
    L = np.concatenate(list(design.map(lambda _, L: L)))
    root, base = math.sqrt(own.level), np.array([0.3, -1.0, 1.0, 0.0, -0.4, 0.8])
    axis = np.arange(-8.0, 8.01, 0.25)
    centre = root * base @ L
    z = centre + np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cell = 0.25**2 / (2 * math.pi)
    scales, means = [], []
    for one in z:
        released = aggregate.release_sums(design, [base], limits, own, Forced(one, 0.0))
        scales.append(released.scale.mean())
        means.append(np.clip(H @ released.estimate, limits.low, limits.high))
    k, m = np.array(scales), np.array(means)
    size = np.linalg.norm(design.shares(L), axis=1)
    worst = 0.0
    for i in range(6):
        without = centre - root * base[i] * L[i]
        for y, other in itertools.permutations(np.linspace(-1, 1, 9), 2):
            p, q = (((z - without - root * v * L[i]) ** 2).sum(axis=1) / 2 for v in (y, other))
            apart = k * size[i] * np.abs((y - m[:, i]) ** 2 - (other - m[:, i]) ** 2)
            found = cell * (np.exp(-p) * gaussian_delta(apart, epsilon - (q - p))).sum()
            worst = max(worst, found)
    stated = gdp.delta_of(own.stated, epsilon)
    assert stated <= delta
    assert worst <= stated * (1 + 1e-6)
    assert worst > 0.98 * stated


THREE = np.array([[1.0], [0.6], [-1.5], [0.2]])
PROFILES = {  # rows, whose they are, promise, share of the stated δ that is attained
    "squares, one coefficient": (THREE, None, {"mu": 2.0}, 0.98),
    "exposure": (THREE, None, {"level": 1.0}, 0.9),
    "exposure, two coefficients": (LINE[[0, 2, 6, 8]], None, {"level": 1.0}, 0.7),
    "persons, one coefficient": (THREE, np.array([0, 0, 1, 2]), {"mu": 3.0}, 0.7),
    "persons": (LINE[[0, 2, 5, 6, 7]], np.array([0, 0, 1, 2, 2]), {"mu": 3.0}, 0.5),
    "free": (GROUPS[[0, 4, 5, 7]], None, {"mu": 2.0}, 0.98),
    "none": (LINE[[0, 2, 6, 8]], None, {"mu": 0.5}, 0.98),
}


EPSILONS = np.array([1.0, 3.0])
SLOW = ("exposure, two coefficients", "persons")  # quadrature in the plane


def profile(design, own, limits, first, second, epsilon, points):
    """δ(ε) of all that leaves of two tables: z by quadrature, squares given it in closed form.

    Of several ε at once: what is shown does not depend on them.
    """
    n = design.rows.n
    one, other = (np.array(_sums(design, own, limits, y), dtype=float) for y in (first, second))
    if own.kind in ("none", "free"):  # the second does not depend on the first
        return gaussian_delta(np.linalg.norm(one - other), epsilon)
    axis = np.linspace(-7.0, 7.0, points)
    grid = np.stack(np.meshgrid(*[axis] * n), axis=-1).reshape(-1, n)
    weights = np.exp(-(grid**2).sum(axis=1) / 2)
    weights /= weights.sum()
    total = 0.0
    for e, weight in zip(grid, weights):
        if weight < 1e-16:
            continue
        z = one[:n] + e
        gap = [a - b for a, b in zip(*(shown(design, own, limits, y, z)[n:]
                                       for y in (first, second)))]  # fmt: skip
        loss = (((z - other[:n]) ** 2).sum() - (e**2).sum()) / 2
        total += weight * gaussian_delta(math.hypot(*map(float, gap)), epsilon - loss)
    return total


def _sums(design, own, limits, y):
    """Release 1 before its noise; of one release all of it."""
    found = shown(design, own, limits, y, np.zeros(design.rows.n))
    return found if own.kind == "free" else found[: design.rows.n]


@pytest.mark.processes
@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=pytest.mark.slow if k in SLOW else ()) for k in PROFILES]
)
def test_the_exact_profile_of_every_kind(name):
    """Pairs of values, or of all values of a person, at the ends and between, in both orders.

    The trapezoid rule on a normal weight is exact to 1e-9; kinks of δ cost 1e-3 at most.
    """
    H, owners, promise, share = PROFILES[name]
    limits, n = Range(-1.0, 1.0), H.shape[1]
    design = design_of(H, owners)
    kind = name.split(",")[0].replace("exposure", "squares")
    # Not split_of: the plan of so few rows may have no squares.
    own = aggregate.split(kind, n, limits, most=most_of(design), **promise)
    mu = own.stated
    rows = range(len(H)) if owners is None else [np.flatnonzero(owners == k) for k in range(3)]
    base, worst = np.full(len(H), 1.0), np.zeros(len(EPSILONS))
    for at, (low, high) in itertools.product(rows, [(-1.0, 1.0), (1.0, -1.0), (-1.0, 0.2)]):
        first, second = base.copy(), base.copy()
        first[at], second[at] = low, high
        found = profile(design, own, limits, first, second, EPSILONS, 141 if n == 1 else 17)
        worst = np.maximum(worst, found)
    for epsilon, found in zip(EPSILONS, worst):
        stated = gdp.delta_of(mu, epsilon)
        assert found <= stated * (1 + 1e-3)
        assert found > share * stated


def test_the_exact_profile_of_two_columns():
    """A person moves both: μ² of the columns add, and with the grid they are what is promised."""
    limits, epsilon = (Range(-1.0, 1.0), Range(0.0, 8.0)), 4.0
    whole = gdp.mu_of(epsilon, 1e-6)
    design, gaps = design_of(GROUPS), []
    for own_limits in limits:
        own = split_of(design, own_limits, mu=whole / math.sqrt(2))
        assert own.kind == "free"
        ends = [np.full(9, own_limits.low), np.full(9, own_limits.low)]
        ends[1][0] = own_limits.high
        one, other = (np.array(_sums(design, own, own_limits, y), dtype=float) for y in ends)
        gaps.append(np.linalg.norm(one - other))
    assert gaussian_delta(math.hypot(*gaps), epsilon) <= 1e-6
    assert math.hypot(*gaps) > 0.98 * whole


@pytest.mark.parametrize("name", CASES)
def test_values_that_are_nearer_are_no_easier_to_tell_apart(name):
    """Clipping brings values nearer: what is stated of a distance holds for all smaller ones."""
    H, promise, _ = CASES[name]
    limits = Range(-1.0, 1.0)
    own = split_of(design_of(H), limits, **promise)
    found = [own.mu_apart(d) for d in np.linspace(0.01, 3.0, 60)]
    assert all(a <= b * (1 + 1e-5) for a, b in itertools.pairwise(found))
    assert found[-1] <= own.stated
    assert found[-1] > 0.95 * own.stated
    assert found[0] < 0.1 * own.stated
