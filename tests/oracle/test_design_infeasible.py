"""Accuracies that cannot be had: why, and the nearest that can, by independent arithmetic.

The nearest value is the criterion at the highest levels (`design_reference.value_of`, s = ∞ without
caps); where the levels of a person are limited together, what CVXPY finds for a budget that no
limit lets anybody spend.
"""

import numpy as np
import pytest

import privest as pv
from design_cases import CRITERIA, asked
from design_reference import best, value_of
from privest.errors import InfeasibleTarget


def beyond(cell, nearest):
    """A little better than the nearest value."""
    return nearest - 1e-3 if cell.logarithm else nearest * (1 - 1e-3)


def above(cell, nearest, by=1e-5):
    return nearest + by if cell.logarithm else nearest * (1 + by)


def refusal(cell, target, **options):
    with pytest.raises(InfeasibleTarget) as refused:
        pv.design.least_loss(cell.model, target, **(cell.options | options))
    return refused.value


@pytest.mark.parametrize("criterion", CRITERIA)
def test_below_the_classical_bound(criterion):
    cell = asked(0, criterion, "budget", "moderate")
    classical = cell.value(np.full(cell.model.measurements, np.inf))
    refused = refusal(cell, beyond(cell, classical))
    assert refused.reason == "classical"
    assert abs(cell.excess(refused.nearest, classical)) < 1e-9
    assert "classical" in str(refused)
    # Caps are not to blame when no caps would help either.
    assert refusal(cell, beyond(cell, classical), cap=5.0).reason == "classical"


@pytest.mark.parametrize("constraint", ["caps", "largest"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_below_what_the_caps_allow(criterion, constraint):
    cell = asked(1, criterion, constraint, "moderate")
    limit = value_of(cell.criterion, cell.case, cell.case.cap)
    refused = refusal(cell, beyond(cell, limit))
    assert refused.reason == "caps"
    assert abs(cell.excess(refused.nearest, limit)) < 1e-9
    # The nearest value is one that can be had, and takes nearly everything.
    found = pv.design.least_loss(cell.model, above(cell, refused.nearest), **cell.options)
    assert cell.case.violation(found.levels) <= 1e-12
    assert cell.excess(cell.value(found.levels), limit) <= 1.1e-5
    assert found.spent > 0.9 * cell.case.spent(cell.case.cap)


@pytest.mark.parametrize(
    ("criterion", "noise"),
    [
        *((criterion, "moderate") for criterion in CRITERIA),
        ("A", "none"),
        *(pytest.param(each, "none", marks=pytest.mark.slow) for each in CRITERIA[1:]),
    ],
)
def test_below_what_the_persons_allow(criterion, noise):
    cell = asked(2, criterion, "persons", noise)
    limit, _ = best(cell.case, cell.criterion, 10 * float(cell.case.most.sum()))
    refused = refusal(cell, beyond(cell, limit))
    assert refused.reason == "caps"
    assert abs(cell.excess(refused.nearest, limit)) < 1e-6
    found = pv.design.least_loss(cell.model, above(cell, limit, 1e-4), **cell.options)
    assert cell.case.violation(found.levels) <= 1e-12
    assert cell.excess(cell.value(found.levels), above(cell, limit, 1e-4)) <= 1e-9


@pytest.mark.parametrize("criterion", CRITERIA)
def test_hidden_by_the_caps(criterion):
    """Only the first parameter is left to see: nothing that needs the others can be had."""
    cell = asked(3, criterion, "budget", "moderate")
    hidden = np.abs(cell.model.matrix[:, 1]) > -1
    cap = np.where(hidden, 0.0, 1.0)
    cap[0] = 1.0  # one reading cannot show two parameters
    refused = refusal(cell, above(cell, cell.value(np.ones(cell.model.measurements))), cap=cap)
    assert refused.reason == "hidden"
    assert refused.nearest == np.inf


def test_what_is_not_hidden_can_be_had():
    """c needs one direction only: caps that hide the others do not matter."""
    H = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    model = pv.LinearModel(H, noise=0.5)
    cap = np.array([np.inf, np.inf, 0.0])
    found = pv.design.least_loss(model, 1.0, criterion=[1.0, 0.0], cap=cap)
    x = found.levels / (1 + 0.5 * found.levels)
    assert x @ H[:, 0] ** 2 == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(InfeasibleTarget) as refused:
        pv.design.least_loss(model, 1.0, criterion=[1.0, 1.0], cap=cap)
    assert refused.value.reason == "hidden"


@pytest.mark.parametrize("criterion", CRITERIA)
def test_exact_readings_have_no_classical_bound(criterion):
    cell = asked(4, criterion, "budget", "none")
    equal = cell.value(np.ones(cell.model.measurements))
    target = equal - 30.0 if cell.logarithm else equal * 1e-6
    found = pv.design.least_loss(cell.model, target, **cell.options)
    assert cell.excess(cell.value(found.levels), target) <= 1e-9


@pytest.mark.parametrize("criterion", CRITERIA)
def test_equalised_refuses_the_same(criterion):
    cell = asked(1, criterion, "caps", "moderate")
    limit = value_of(cell.criterion, cell.case, cell.case.cap)
    with pytest.raises(InfeasibleTarget) as refused:
        pv.design.least_loss(cell.model, beyond(cell, limit), **cell.options, loss="largest")
    assert abs(cell.excess(refused.value.nearest, limit)) < 1e-9


# --- nobody gives up more than needed ----------------------------------------------------------


@pytest.mark.parametrize("constraint", ["budget", "costs", "caps", "groups"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_equalised_is_exact_and_nothing_is_fairer(criterion, constraint):
    cell = asked(5, criterion, constraint, "mixed")
    target = cell.value(0.5 * np.minimum(np.ones(cell.model.measurements), cell.case.cap))
    found = pv.design.least_loss(cell.model, target, **cell.options, loss="largest")
    assert abs(cell.excess(cell.value(found.levels), target)) < 1e-9
    assert cell.case.violation(found.levels) <= 1e-12
    largest = (cell.case.cost * found.levels).max()
    assert found.spent == pytest.approx(largest, rel=1e-12)
    # With a largest loss that is a little smaller even the most that is then allowed misses it.
    each = (1 - 1e-6) * largest / cell.case.cost
    if constraint == "groups":
        each = np.full(len(each), each.min())
    allowed = np.minimum(each, cell.case.cap)
    assert cell.excess(cell.value(allowed), target) > 0


@pytest.mark.parametrize("criterion", CRITERIA)
def test_what_the_persons_allow_is_not_refused(criterion):
    """The best that the limits allow without a budget is found, and what is near it is met."""
    cell = asked(7, criterion, "persons", "none")
    whole = float(cell.case.most.sum())
    for factor in (1.0, 2.0, 10.0):  # budgets that the limits do not let anybody spend
        found = pv.design.allocate(cell.model, factor * whole, **cell.options)
        assert found.certified
        target = above(cell, found.value, 1e-3)
        least = pv.design.least_loss(cell.model, target, **cell.options)
        assert cell.excess(cell.value(least.levels), target) <= 1e-9


# --- accuracies that the caps just attain ------------------------------------------------------


@pytest.mark.parametrize("noise", ["moderate", "none"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_what_the_caps_just_attain_is_given(criterion, noise):
    cell = asked(1, criterion, "caps", noise)
    cap = np.minimum(cell.case.cap, 3.0)
    limit = cell.value(cap)
    found = pv.design.least_loss(cell.model, limit, **(cell.options | {"cap": cap}))
    assert (found.levels == cap).all()
    assert found.floor <= found.spent
    assert found.gap < 1e-6
    fair = pv.design.least_loss(cell.model, limit, **(cell.options | {"cap": cap}), loss="largest")
    assert abs(cell.excess(cell.value(fair.levels), limit)) < 1e-11
    assert (fair.levels <= cap).all()
    # A little better is refused, in words that tell the two numbers apart.
    refused = refusal(cell, limit - 1e-9 * (1.0 if cell.logarithm else limit), cap=cap)
    assert refused.reason == "caps"
    words = str(refused).split(" cannot be ")[1]
    assert words.split()[0].rstrip(":") != words.split(" is ")[1].split()[0]


def test_a_reading_that_says_nothing_is_not_proved_to_be_needed():
    """The caps attain the target; the second reading is not about what is asked for."""
    model = pv.LinearModel(np.eye(2), noise=1.0)
    found = pv.design.least_loss(model, 2.0, criterion=[1.0, 0.0], cap=1.0)
    assert found.floor == pytest.approx(1.0, abs=1e-9)
    assert found.levels[0] == 1.0


def test_one_reading_of_each_person_just_attains_a_target():
    model = pv.LinearModel([[1.0], [1.0]], noise=1.0)
    found = pv.design.least_loss(model, 1.0, persons=["a", "b"], person_cap=1.0)
    assert found.levels == pytest.approx([1.0, 1.0], rel=1e-13)
    assert found.certified
    with pytest.raises(InfeasibleTarget):  # approached, never attained
        pv.design.least_loss(model, 0.5)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("noise", ["moderate", "mixed"])
def test_targets_next_to_what_the_persons_allow(criterion, noise):
    """Closed, though the value hardly depends on the budget there."""
    cell = asked(2, criterion, "persons", noise)
    costs = 10.0 ** np.random.default_rng(8).uniform(-2, 2, cell.model.measurements)
    options = cell.options | {"cost": costs}
    most = pv.design.allocate(cell.model, 1e3 * float(cell.case.most.sum()), **options)
    assert most.certified
    for by in (1e-6, 1e-4):
        target = above(cell, most.value, by)
        found = pv.design.least_loss(cell.model, target, **options)
        assert cell.excess(cell.value(found.levels), target) <= 1e-9
        assert found.gap <= 1e-5
        # A target is met to 1e-12 of it, which is worth that much over the price.
        slack = 2e-12 * (1.0 if cell.logarithm else target) / found.price
        assert found.floor <= found.spent * (1 + 1e-12) + slack
        assert found.floor <= most.spent
