"""A certificate holds at every level, good or bad: no feasible choice is below its floor.

`optimality_gap` at random levels against the values (by `design_reference`) of random feasible
levels, for every criterion, constraint and size of the noise, in both directions. 1e-9 is the
rounding of two
routes to a value; the floor itself is a proof and needs no tolerance.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from design_cases import CONSTRAINTS, CRITERIA, NOISE, asked

ROUNDING = 1e-9
LEVELS = ("equal", "even", "heavy", "sparse")


def drawn(rng, kind, m):
    """Levels that somebody might have chosen; some readings may show nothing."""
    if kind == "equal":
        return np.ones(m)
    if kind == "even":
        return rng.exponential(1.0, m)
    if kind == "heavy":
        return rng.pareto(0.7, m) + 1e-3
    return rng.exponential(1.0, m) * (rng.random(m) < 0.5)


def feasible(cell, rng, budget=np.inf):
    """Random levels within every constraint."""
    m = len(cell.case.v)
    kind = LEVELS[rng.integers(3)]
    return cell.case.feasible(drawn(rng, kind, m) * budget / cell.case.cost.sum(), budget)


@st.composite
def cells(draw, criteria=CRITERIA):
    cell = asked(
        draw(st.integers(0, 10**6)),
        draw(st.sampled_from(criteria)),
        draw(st.sampled_from(CONSTRAINTS)),
        draw(st.sampled_from(NOISE)),
    )
    return cell, draw(st.sampled_from(LEVELS)), np.random.default_rng(draw(st.integers(0, 10**6)))


@given(cells())
@settings(max_examples=25, deadline=None)
def test_no_levels_within_the_budget_are_below_the_floor(drawn_cell):
    cell, kind, rng = drawn_cell
    level = drawn(rng, kind, cell.model.measurements)
    proof = pv.design.optimality_gap(cell.model, level, budget=cell.budget, **cell.options)
    for _ in range(5):
        others = feasible(cell, rng, cell.budget)
        assert cell.excess(proof.floor, cell.value(others)) <= ROUNDING


@given(cells((*CRITERIA, "standard errors")))
@settings(max_examples=25, deadline=None)
def test_no_levels_that_reach_the_target_cost_less_than_the_floor(drawn_cell):
    cell, kind, rng = drawn_cell
    level = drawn(rng, kind, cell.model.measurements)
    others = feasible(cell, rng, cell.budget)
    target = cell.value(others)
    proof = pv.design.optimality_gap(cell.model, level, target=cell.target(target), **cell.options)
    assert proof.floor <= cell.case.spent(others) * (1 + ROUNDING)


@pytest.mark.parametrize("turn", range(24))
def test_a_certificate_is_tight_at_the_best_levels(turn):
    """By levels alone, without what an engine knows. Smooth criteria: no ties to break."""
    criterion = ("A", "A rank 2", "D", "c")[(turn + turn // 4) % 4]
    cell = asked(turn, criterion, CONSTRAINTS[turn % 6], NOISE[turn // 6])
    found = pv.design.allocate(cell.model, cell.budget, **cell.options)
    proof = pv.design.optimality_gap(cell.model, found.level, budget=cell.budget, **cell.options)
    assert proof.value == pytest.approx(found.value, rel=1e-9)
    # Without noise the floor falls with the first power of what is left to gain, so 1e-8 of the
    # value may be 1e-4 of the floor; with noise with the second.
    assert -ROUNDING <= proof.gap <= (1e-3 if cell.case.v.min() == 0 else 1e-5)
