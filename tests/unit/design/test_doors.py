"""`allocate` and `least_loss`: both directions, limits, refusals, words."""

import json
import warnings
from fractions import Fraction

import numpy as np
import pytest

import privest as pv
from privest import design
from privest.errors import InfeasibleTarget, InvalidInput, NotIdentifiable

RNG = np.random.default_rng(17)
H = RNG.standard_normal((60, 3))
MODEL = pv.LinearModel(H, noise=0.7)
LABELS = np.arange(60) // 4
MODEST = pv.LinearModel(H[:12], noise=1.0)


def value_of(criterion, model, level):
    """The criterion from the bound, a route of its own."""
    covariance = pv.bound(model, level).covariance
    if isinstance(criterion, str):
        return np.trace(covariance) if criterion == "A" else np.linalg.slogdet(covariance)[1]
    return np.array(criterion) @ covariance @ np.array(criterion)


@pytest.mark.parametrize("criterion", ["A", [1.0, -1.0, 2.0], "D"])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"cap": 1.5},
        {"cost": np.linspace(0.5, 3.0, 60)},
        {"groups": LABELS},
        {"persons": LABELS, "person_cap": 3.0},
        {"groups": LABELS, "cost": 0.25, "cap": 3.0},
    ],
    ids=["budget", "caps", "costs", "groups", "trace", "largest"],
)
def test_an_allocation_is_what_it_says_and_the_way_back_agrees(criterion, limits):
    budget = 20.0
    found = design.allocate(MODEL, budget, criterion=criterion, **limits)
    assert found.certified
    assert found.value == pytest.approx(value_of(criterion, MODEL, found.level), rel=1e-10)
    scale = 1.0 if criterion == "D" else found.value
    assert -1e-12 * scale <= found.value - found.floor <= 1e-6 * scale
    assert found.value <= found.equal + 1e-12 * abs(found.equal)
    back = design.least_loss(MODEL, found.value, criterion=criterion, **limits)
    assert back.certified
    assert back.spent == pytest.approx(found.spent, rel=3e-6)
    assert back.value <= found.value + 1e-9 * scale
    spent = found.levels @ np.broadcast_to(limits.get("cost", 1.0), 60)
    assert spent == pytest.approx(found.spent, rel=1e-12)
    assert spent <= budget * (1 + 1e-12)


def test_limits_hold_to_the_letter():
    capped = design.allocate(MODEL, 20.0, cap=0.6)
    assert capped.levels.max() <= 0.6  # not a rounding above it
    shared = design.allocate(MODEL, 20.0, groups=LABELS)
    assert (shared.levels == shared.levels.reshape(15, 4)[:, :1].repeat(4, 1).ravel()).all()
    each = design.allocate(MODEL, 40.0, persons=LABELS, person_cap=3.0)
    totals = np.bincount(LABELS, each.levels)
    assert totals.max() <= 3.0
    assert (totals > 2.9).any()
    free = design.allocate(MODEL, 40.0)
    assert free.value < each.value


@pytest.mark.parametrize("seed", range(8))
def test_limits_hold_in_every_unit(seed):
    """Levels are found in units of their own; back in the user's no limit is passed by rounding."""
    rng = np.random.default_rng(seed)
    unit = 10.0 ** rng.uniform(-6, 6)
    model = pv.LinearModel(H, noise=0.7 / unit)
    budget, cap, most = (
        unit * rng.uniform(5, 30),
        unit * rng.uniform(0.3, 2),
        unit * rng.uniform(1, 3),
    )
    found = design.allocate(model, budget, cap=cap, persons=LABELS, person_cap=most, criterion="D")
    assert found.levels.max() <= cap
    assert np.bincount(LABELS, found.levels).max() <= most
    assert found.levels.sum() <= budget


def test_an_allocation_has_a_level_its_bound_and_words():
    found = design.allocate(MODEL, 20.0)
    assert found.level.size == 60
    assert found.level.fingerprint == pv.PrivacyLevel(found.levels).fingerprint
    assert np.trace(found.bound.covariance) == pytest.approx(found.value, rel=1e-10)
    shown = found.support  # a measurement without a level is not released
    assert pv.mechanism.GaussianMechanism(found.level, 60).release(np.zeros(60)).shape == (shown,)
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["criterion"], told["certified"]) == ("A", True)
    assert "Proved" in found.summary()


def test_equal_levels_are_exact_and_best_for_the_largest_loss():
    found = design.least_loss(
        MODEL, {0: 0.4, 2: 0.3}, cap=np.where(np.arange(60) < 5, 0.1, np.inf), loss="largest"
    )
    errors = found.bound.standard_error
    assert max(errors[0] / 0.4, errors[2] / 0.3) == pytest.approx(1.0, abs=1e-12)
    other = found.levels * RNG.uniform(0.5, 1.0, 60)
    worse = pv.bound(MODEL, other).standard_error
    assert max(worse[0] / 0.4, worse[2] / 0.3) > 1.0


@pytest.mark.parametrize(
    ("target", "limits", "reason"),
    [
        (lambda least: 0.9 * least, {}, "classical"),
        (lambda least: least, {}, "classical"),
        (lambda least: 1.1 * least, {"cap": 1.0}, "caps"),
        (lambda least: 1.1 * least, {"cap": np.eye(60)[0]}, "hidden"),
        (lambda least: 1.1 * least, {"persons": LABELS, "person_cap": 0.5}, "caps"),
    ],
)
def test_targets_out_of_reach_are_told_apart(target, limits, reason):
    least = float(np.trace(np.linalg.inv(H.T @ H / 0.7)))
    with pytest.raises(InfeasibleTarget) as refused:
        design.least_loss(MODEL, target(least), **limits)
    assert refused.value.reason == reason
    if reason == "classical":
        assert refused.value.nearest == pytest.approx(least, rel=1e-9)
    if "cap" in limits and reason == "caps":
        best = np.trace(pv.bound(MODEL, np.ones(60)).covariance)
        assert refused.value.nearest == pytest.approx(best, rel=1e-9)


def test_the_nearest_value_can_be_reached():
    with pytest.raises(InfeasibleTarget) as refused:
        design.least_loss(MODEL, 1e-6, cap=1.0)
    found = design.least_loss(MODEL, refused.value.nearest * (1 + 1e-6), cap=1.0)
    assert found.value <= refused.value.nearest * (1 + 1.1e-6)


def test_the_price_is_the_slope_of_the_value():
    low, high = (design.allocate(MODEL, b) for b in (20.0, 20.2))
    assert low.price == pytest.approx((low.value - high.value) / 0.2, rel=1e-2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: design.allocate(MODEL, 0.0), "budget"),
        (lambda: design.allocate(MODEL, 1.0, cost=0.0), "cost must be > 0"),
        (lambda: design.allocate(MODEL, 1.0, cap=-1.0), "cap must be ≥ 0"),
        (lambda: design.allocate(MODEL, 1.0, cap=[1.0, 2.0]), "one for each of 60"),
        (lambda: design.allocate(MODEL, 1.0, groups=[1, 2]), "one label per measurement"),
        (lambda: design.allocate(MODEL, 1.0, criterion="B"), "criterion"),
        (lambda: design.allocate(MODEL, 1.0, criterion="D", weight=np.ones(3)), "weight"),
        (lambda: design.allocate(MODEL, 1.0, persons=LABELS), "person_cap"),
        (lambda: design.allocate(MODEL, 1.0, person_cap=1.0), "needs persons"),
        (lambda: design.allocate(MODEL, np.inf), "finite caps"),
        (lambda: design.least_loss(MODEL, 1.0, loss="largest", shape="full"), "independent"),
        (lambda: design.least_loss(MODEL, {"age": 1.0}), "no parameter 'age'"),
        (lambda: design.least_loss(MODEL, {}), "no standard error"),
        (lambda: design.least_loss(MODEL, -1.0), "target must be > 0"),
        (lambda: design.allocate(MODEL, 1.0, criterion=[0.0, 0.0, 0.0]), "not zero"),
        (lambda: design.allocate(MODEL, 1.0, persons=LABELS, person_cap=0.0), "must be > 0"),
        (
            lambda: design.allocate(
                MODEL, 1.0, groups=np.arange(60) % 4, persons=LABELS, person_cap=1.0
            ),
            "several persons",
        ),
    ],
)
def test_wrong_uses_say_what_to_do(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_labels_of_any_kind_stay_apart():
    """1 and "1" are two groups, equal texts one; a missing label is refused."""
    model = pv.LinearModel([[1.0], [1.1], [1.2], [1.3]], noise=1.0)
    levels = design.allocate(model, 4.0, groups=[1, "1", 2, "1"]).levels
    assert levels[1] == levels[3]
    assert len(set(levels.tolist())) == 3
    texts = design.allocate(model, 4.0, groups=np.array(["b", "a", "b", "a"])).levels
    assert texts[0] == texts[2] != texts[1] == texts[3]
    for missing in ([1.0, np.nan] * 2, ["a", None] * 2, np.array(["a", np.nan] * 2, dtype=object)):
        with pytest.raises(InvalidInput, match="missing"):
            design.allocate(model, 4.0, groups=missing)


def test_what_nothing_shows_is_not_identifiable():
    with pytest.raises(NotIdentifiable):
        design.allocate(pv.LinearModel(H[:, [0, 0]], noise=1.0), 1.0)


def test_an_allocation_that_hides_what_was_not_asked_for_is_a_record_all_the_same():
    model = pv.LinearModel([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], noise=1.0)
    found = design.allocate(model, 4.0, criterion=[1.0, 0.0])
    assert found.levels[1] == 0
    errors = found.bound.contrast(np.eye(2)).standard_error
    assert errors == pytest.approx([np.sqrt(0.75), np.inf])
    json.dumps(found.to_dict())


@pytest.mark.parametrize("criterion", ["A", "D", "E", [1.0]])
def test_targets_near_the_limits_of_persons_where_most_readings_are_hidden(criterion):
    model = pv.LinearModel([[1.0], [1.0], [1.0], [0.1], [3.0]], noise=1.0)
    limits = {"cap": [0, 0, 0, np.inf, np.inf], "persons": [0, 0, 0, 1, 1], "person_cap": 2.0}
    target = 1.01 * (1 + 1 / 2) / 9  # the best is s = 2 of the last reading
    wanted = np.log(target) if criterion == "D" else target
    found = design.least_loss(model, wanted, criterion=criterion, **limits)
    assert found.levels[-1] == pytest.approx(1 / (9 * target - 1))
    assert found.gap <= 1e-6


@pytest.mark.parametrize("seed", [5, 9])
def test_targets_of_errors_many_orders_apart_are_met_and_the_floor_is_no_lie(seed):
    rng = np.random.default_rng(seed)
    model = pv.LinearModel(rng.standard_normal((9, 3)) * 10.0 ** rng.uniform(-8, 8, 3), noise=1.0)
    errors = 1.1 * pv.bound(model, 1.0).standard_error  # equal levels of 1 reach it: at most 9
    found = design.least_loss(model, errors)
    assert found.value <= 1 + 1e-9
    assert found.floor <= found.spent <= 9.0
    assert (found.bound.standard_error <= errors * (1 + 1e-9)).all()


def test_a_target_well_within_the_limits_of_persons_is_not_given_up():
    """The best that persons allow is looked for with a budget to spare, not one that is tight."""
    rows = [[5.761, 1.583, 2.287], [-2.264, 0.652, 0.116], [2.97, 4.377, 0.458],
            [-45.106, -2.677, 6.161], [0.003, -0.224, 0.42], [0.321, 0.351, 0.202]]  # fmt: skip
    model = pv.LinearModel(rows, noise=[0.0, 1.018, 0.0, 0.71, 0.0, 0.0])
    asked = {"criterion": [0.267, 0.819, -0.409],
             "persons": [2, 0, 2, 2, 0, 2], "person_cap": 2.0}  # fmt: skip
    best = design.allocate(model, 10.0, **asked)
    found = design.least_loss(model, 1.1 * best.value, **asked)
    assert found.spent < best.spent
    assert found.gap <= 1e-6


EXTREME = {
    "budget 1e-300": lambda: design.allocate(MODEST, 1e-300),
    "full budget 1e-300": lambda: design.allocate(MODEST, 1e-300, shape="full"),
    "target 1e300": lambda: design.least_loss(MODEST, 1e300),
    "errors of 1e200": lambda: design.least_loss(MODEST, {0: 1e200}),
    "log det 1e100": lambda: design.least_loss(MODEST, 1e100, criterion="D"),
    "largest loss at 1e-300": lambda: design.least_loss(MODEST, 1e-300, loss="largest"),
    "gap of level 1e-300": lambda: design.optimality_gap(MODEST, 1e-300),
    "gap for a budget of 1e300": lambda: design.optimality_gap(MODEST, np.ones(12), budget=1e300),
    "gap for a target of 1e300": lambda: design.optimality_gap(
        MODEST, np.ones(12), criterion="E", target=1e300
    ),
    "cost 1e300": lambda: design.allocate(MODEST, 1.0, cost=1e300),
    "cap 1e-300": lambda: design.allocate(MODEST, 1.0, cap=1e-300),
    "persons 1e-300": lambda: design.allocate(
        MODEST, 1.0, persons=np.arange(12), person_cap=1e-300
    ),
    "weight 1e200": lambda: design.allocate(MODEST, 1.0, weight=[1e200, 1.0, 1.0]),
    "vector 1e200": lambda: design.allocate(MODEST, 1.0, criterion=[1e200, 1.0, 1.0]),
    "noise 1e-200": lambda: design.allocate(pv.LinearModel(MODEST.matrix, noise=1e-200), 1.0),
    "H 1e-100": lambda: design.allocate(pv.LinearModel(1e-100 * MODEST.matrix, noise=1.0), 1.0),
    "schedule 1e-300": lambda: design.schedule(MODEST, 1e-300),
}


@pytest.mark.parametrize("case", EXTREME)
def test_sizes_beyond_all_numbers_are_refused_in_one_sentence(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pv.errors.InvalidInput, match="other units"):
            EXTREME[case]()


@pytest.mark.parametrize("size", [1e-45, 1e45])
def test_sizes_up_to_the_limit_have_an_answer_without_a_warning(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for criterion in ("A", [1.0, 0.0, 2.0], "D", "E"):
            assert np.isfinite(design.allocate(MODEST, size, criterion=criterion).value)
        assert np.isfinite(design.schedule(MODEST, size).value)
        assert np.isfinite(design.least_loss(MODEST, 1e45).spent)


def exact_cost(cost, levels):
    return sum(Fraction(float(c)) * Fraction(float(s)) for c, s in zip(cost, levels))


@pytest.mark.parametrize("seed", range(6))
def test_levels_keep_their_budget_to_the_letter(seed):
    """Decided in fractions: Σ c_k s_k ≤ budget."""
    rng = np.random.default_rng(seed)
    model = pv.LinearModel(rng.normal(size=(15, 2)), noise=float(10.0 ** rng.uniform(-2, 2)))
    budget, cost = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-1, 1, size=15)
    found = [
        design.schedule(model, budget, cost=cost),
        design.allocate(model, budget, cost=cost),
        design.allocate(model, budget, cost=cost, shape="full"),
    ]
    for one in found:
        assert exact_cost(cost, one.levels) <= Fraction(budget)
        assert one.spent <= budget
