"""`pv.design` against CVXPY + Clarabel: criterion × constraint × size of the noise × direction.

Where the two differ, arithmetic decides: the levels of both are checked against every constraint
and valued by `design_reference.value_of`, so that whoever is lower within the limits is right, and
a floor above anybody's value is a lie. 1e-6 is what the design promises; Clarabel's own levels and
its value agree to 1e-7, a few times 1e-7 where the best information is singular (c).
"""

import itertools

import numpy as np
import pytest

import privest as pv
from design_cases import CONSTRAINTS, CRITERIA, NOISE, asked
from design_reference import best, cheapest

AGREES = 1e-6
ROUNDING = 1e-9  # of values by two routes, each through a condition of at most 1e6
ALL = (*CRITERIA, "standard errors")
CELLS = [(c, k, ALL.index(c) + CONSTRAINTS.index(k)) for c in ALL for k in CONSTRAINTS]


def agrees(off, found):
    """To 1e-6; or it is Clarabel that stopped early: these levels were valued above, and proved."""
    assert -1e-4 < off <= AGREES
    assert off >= -AGREES or found.gap <= AGREES


def judged_for_a_budget(cell):
    reference, levels = best(cell.case, cell.criterion, cell.budget)
    found = pv.design.allocate(cell.model, cell.budget, **cell.options)
    assert cell.case.violation(found.levels, cell.budget) <= 1e-12
    assert abs(cell.excess(found.value, cell.value(found.levels))) <= ROUNDING
    assert cell.excess(found.floor, cell.value(levels)) <= ROUNDING, "the floor is a lie"
    assert cell.excess(found.floor, found.value) <= ROUNDING
    assert cell.excess(found.value, cell.value(levels)) <= AGREES, "the reference is better"
    agrees(cell.excess(found.value, reference), found)


def judged_for_a_target(cell):
    middle = cell.case.feasible(np.full(len(cell.case.v), 0.6), cell.budget)
    target = cell.value(middle)  # what feasible levels reach
    reference, levels = cheapest(cell.case, cell.criterion, target)
    found = pv.design.least_loss(cell.model, cell.target(target), **cell.options)
    cost = cell.case.spent(found.levels)
    assert cell.case.violation(found.levels) <= 1e-12
    assert cell.excess(cell.value(found.levels), target) <= ROUNDING
    assert found.spent == pytest.approx(cost, rel=1e-12)
    assert cell.excess(cell.value(levels), target) <= ROUNDING  # so its cost is a fair one
    assert found.floor <= cell.case.spent(levels) * (1 + 10 * ROUNDING), "the floor is a lie"
    assert found.floor <= found.spent * (1 + ROUNDING)
    assert found.spent <= cell.case.spent(levels) * (1 + AGREES), "the reference is better"
    agrees(found.spent / reference - 1, found)


@pytest.mark.parametrize(("criterion", "constraint", "turn"), CELLS)
def test_a_round_of_cells(criterion, constraint, turn):
    """Each criterion with each constraint; the sizes of the noise and the directions take turns."""
    budget = criterion in CRITERIA and (turn // 4 + turn) % 2
    judge = judged_for_a_budget if budget else judged_for_a_target
    judge(asked(turn, criterion, constraint, NOISE[turn % 4]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.parametrize(
    ("criterion", "constraint", "noise"), list(itertools.product(ALL, CONSTRAINTS, NOISE))
)
def test_the_whole_grid(criterion, constraint, noise, seed):
    cell = asked(seed, criterion, constraint, noise)
    if criterion in CRITERIA:
        judged_for_a_budget(cell)
    judged_for_a_target(cell)
