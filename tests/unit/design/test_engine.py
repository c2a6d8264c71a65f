"""The search for levels, through the public calls: optimality, limits, sizes, ties."""

import numpy as np
import pytest

import privest as pv
from privest import design

WEIGHT = np.array([[2.0, 1.0], [1.0, 1.0]])
CRITERIA = {
    "A": {},
    "weighted": {"weight": WEIGHT},
    "c": {"criterion": [1.0, -2.0]},
    "D": {"criterion": "D"},
    "E": {"criterion": "E"},
}


def values(name, M):
    """The criterion at informations (g, 2, 2)."""
    covariance = np.linalg.inv(M)
    if name == "D":
        return np.log(np.linalg.det(covariance))
    if name == "E":
        return np.linalg.eigvalsh(covariance)[:, -1]
    weight = {"A": np.eye(2), "weighted": WEIGHT, "c": np.outer([1.0, -2.0], [1.0, -2.0])}[name]
    return np.einsum("ij,gji->g", weight, covariance)


@pytest.mark.parametrize("name", CRITERIA)
def test_no_levels_on_a_grid_are_better(name):
    """Three readings, two parameters: all ways of spending a budget, to one part in 60."""
    rng = np.random.default_rng(8)
    H, v = rng.standard_normal((3, 2)), np.array([0.5, 0.0, 1.0])
    cost, cap = np.array([1.0, 2.0, 0.7]), np.array([np.inf, 0.8, np.inf])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))
    found = design.allocate(model, 3.0, cost=cost, cap=cap, **CRITERIA[name])
    parts = np.linspace(0.0, 1.0, 61)
    first, second = (part.ravel() for part in np.meshgrid(parts, parts))
    kept = first + second <= 1.0
    spends = 3.0 * np.stack([first, second, 1.0 - first - second], axis=1)[kept]
    levels = np.minimum(spends / cost, cap)
    grams = np.einsum("ki,gk,kj->gij", H, levels / (1.0 + v * levels), H)
    best = values(name, grams[np.linalg.det(grams) > 1e-12]).min()
    assert found.certified
    assert found.value <= best + 1e-6 * max(abs(best), 1.0)
    assert found.value >= best - 1e-2 * max(abs(best), 1.0)  # the grid's step is 1/60


@pytest.mark.parametrize("symbol", ["A", "D", "c"])
def test_at_the_best_levels_what_a_reading_is_worth_is_its_price(symbol):
    """x′q is one price for 0 < s < cap, less at zero, more at the cap; by plain arithmetic."""
    rng = np.random.default_rng(5)
    H, v, cap = rng.standard_normal((40, 3)), rng.uniform(0.1, 2.0, 40), rng.uniform(0.5, 3.0, 40)
    criterion = [1.0, 0.0, 2.0] if symbol == "c" else symbol
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))
    found = design.allocate(model, 15.0, criterion=criterion, cap=cap)
    s = found.levels
    covariance = np.linalg.inv((H.T * (s / (1 + v * s))) @ H)
    Z = {"A": covariance, "D": np.linalg.cholesky(covariance),
         "c": covariance @ np.array([[1.0], [0.0], [2.0]])}[symbol]  # fmt: skip
    slope = ((H @ Z) ** 2).sum(axis=1) / (1.0 + v * s) ** 2
    zero, full = s < 1e-6, s > cap * (1 - 1e-6)
    inside = ~zero & ~full
    assert inside.any()
    assert zero.any()
    np.testing.assert_allclose(slope[inside], found.price, rtol=1e-4)
    assert (slope[zero] <= found.price * (1 + 1e-4)).all()
    assert (slope[full] >= found.price * (1 - 1e-4)).all()
    assert 15.0 * (1 - 1e-6) <= s.sum() <= 15.0


@pytest.mark.parametrize("name", CRITERIA)
def test_heavy_tails_without_noise(name):
    rng = np.random.default_rng(31)
    model = pv.LinearModel(rng.standard_t(2.0, (3000, 2)), noise=np.zeros(3000))
    found = design.allocate(model, 3000.0, **CRITERIA[name])
    assert found.gap <= 1e-6
    assert found.iterations <= 40
    back = design.least_loss(model, found.value, **CRITERIA[name])
    assert back.spent == pytest.approx(3000.0, rel=3e-6)


@pytest.mark.parametrize("count", [2, 12])
def test_several_standard_errors_meet_together(count):
    """Few targets and more than n(n + 1)/2 of them; persons, hardly any noise."""
    rng = np.random.default_rng(17)
    n = max(3, count // 2)
    H = rng.standard_normal((60, n))
    model = pv.LinearModel(H, noise=1e-4)
    equal = pv.bound(model, 1.0).standard_error[: min(count, n)]
    wanted = {j: float(e) for j, e in enumerate(equal)}
    found = design.least_loss(model, wanted, persons=np.arange(60) // 3, person_cap=4.0)
    assert found.certified
    assert found.spent < 60.0
    ratio = found.bound.standard_error[: len(wanted)] / list(wanted.values())
    assert ratio.max() == pytest.approx(1.0, rel=1e-9)
    assert np.sort(ratio)[-2] >= (1 - 1e-3) * ratio.max()


@pytest.mark.parametrize("criterion", ["A", "E"])
def test_readings_that_cannot_matter_get_no_level(criterion):
    rng = np.random.default_rng(2)
    H, cap = rng.standard_normal((20, 2)), np.full(20, np.inf)
    H[3], cap[5] = 0.0, 0.0
    found = design.allocate(pv.LinearModel(H, noise=0.5), 10.0, criterion=criterion, cap=cap)
    assert found.levels[3] == found.levels[5] == 0.0
    assert found.certified
    grouped = design.allocate(
        pv.LinearModel(H, noise=0.5), 10.0, criterion=criterion, groups=np.arange(20) // 2, cap=cap
    )
    assert grouped.levels[4] == grouped.levels[5] == 0.0
    assert grouped.certified


@pytest.mark.parametrize("criterion", ["A", "D", [1.0, 0.0]])
def test_groups_of_single_readings_are_no_groups(criterion):
    """Every reading its own group, in any order, and its own person: the plain problem."""
    rng = np.random.default_rng(3)
    model = pv.LinearModel(rng.standard_normal((5000, 2)), noise=rng.uniform(0.1, 2, 5000))
    plain = design.allocate(model, 2000.0, criterion=criterion, cap=3.0)
    labels = rng.permutation(5000)
    grouped = design.allocate(model, 2000.0, criterion=criterion, groups=labels, cap=3.0)
    persons = design.allocate(model, 2000.0, criterion=criterion, persons=labels, person_cap=3.0)
    size = 1.0 if criterion == "D" else plain.value
    for other in (grouped, persons):
        assert abs(other.value - plain.value) <= (other.gap + plain.gap + 1e-12) * size
        np.testing.assert_allclose(other.levels, plain.levels, rtol=1e-3, atol=1e-3)


def test_equal_rows_share_and_doubling_them_halves_the_levels():
    rng = np.random.default_rng(4)
    H = rng.standard_normal((30, 3))
    one = design.allocate(pv.LinearModel(H, noise=1.0), 30.0, criterion="D")
    two = design.allocate(pv.LinearModel(np.repeat(H, 2, axis=0), noise=2.0), 30.0, criterion="D")
    np.testing.assert_allclose(two.levels[::2], two.levels[1::2], rtol=1e-3, atol=1e-4)
    assert (
        abs(two.value - one.value) <= two.gap + one.gap + 1e-12
    )  # two at s/2 and 2v are one at s and v


def test_more_budget_than_the_limits_can_spend():
    rng = np.random.default_rng(6)
    model = pv.LinearModel(rng.standard_normal((40, 3)), noise=0.5)
    cap = rng.uniform(0.5, 3.0, 40)
    found = design.allocate(model, 1e4, cap=cap)
    assert (found.levels == cap).all()
    cap = rng.choice([0.1, 1.0, np.inf], 40)
    shared = design.allocate(model, 1e4, persons=np.arange(40) // 4, person_cap=2.0, cap=cap)
    assert shared.certified
    assert shared.price == pytest.approx(0.0, abs=1e-9 * shared.value)


def test_the_same_call_gives_the_same_bits():
    rng = np.random.default_rng(7)
    model = pv.LinearModel(rng.standard_normal((500, 4)), noise=1.0)
    first = design.allocate(model, 100.0)
    design.allocate(model, 1.0, criterion="E")
    again = design.allocate(model, 100.0)
    assert (first.levels == again.levels).all()
