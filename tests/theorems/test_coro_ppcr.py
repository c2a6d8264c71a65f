"""`coro:PPCR`: privacy costs at least (HᵀSH)⁻¹, and exactly that when H is square."""

import numpy as np
from hypothesis import assume, given

import privest as pv
from privest.linalg import loewner
from strategies import RTOL, problems, relative_error


def bound(p):
    model = pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov))
    return pv.bound(model, pv.PrivacyLevel(p.level))


@given(problems())
def test_cost_has_a_floor(p):
    assume(np.linalg.cond(p.H.T @ p.S @ p.H) < 1e5)
    b = bound(p)
    assert relative_error(b.cost_floor, np.linalg.inv(p.H.T @ p.S @ p.H)) < RTOL
    assert loewner(b.classical + b.cost_floor, b.covariance, rtol=RTOL)
    assert relative_error(b.cost, b.covariance - b.classical) == 0


@given(problems(square=True, level_kinds=("number", "vector", "blocks", "matrix")))
def test_equality_for_square_designs(p):
    b = bound(p)
    assert relative_error(b.covariance, b.classical + b.cost_floor) < 10 * RTOL


def test_the_floor_is_not_always_attained():
    """Two readings, unequal ratio of level to noise: strictly above the floor."""
    model = pv.LinearModel([[1.0], [1.0]], noise=pv.noise.Gaussian(cov=[1.0, 4.0]))
    b = pv.bound(model, pv.PrivacyLevel(1.0))
    assert b.cost[0, 0] > 1.01 * b.cost_floor[0, 0]
