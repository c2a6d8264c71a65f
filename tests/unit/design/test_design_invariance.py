"""A design does not depend on units, on the order of readings, or on how often a row is written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv

AGREES = 2e-6  # two answers, each within 1e-6 of the best
KINDS = ("A", "D", "E", "c")


def problem(seed, m=14, n=3):
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal((m, n)), rng.uniform(0.1, 2, m)


def criterion(kind, units):
    """The same wish when parameter j is counted in units of u_j: θ' = θ/u, h' = h·u."""
    n = len(units)
    wish = 1.0 + np.arange(n)
    if kind in ("A", "E"):
        return {"criterion": kind, "weight": wish * units**2}
    return {"criterion": wish * units if kind == "c" else "D"}


def best(H, v, budget, kind, units, **options):
    model = pv.LinearModel(H * units, noise=pv.noise.Gaussian(cov=v))
    found = pv.design.allocate(model, budget, **criterion(kind, units), **options)
    shift = 2 * np.log(units).sum() if kind == "D" else 0.0
    return found, found.value + shift


def same(kind, one, other):
    if kind == "D":
        assert one == pytest.approx(other, abs=AGREES)
    else:
        assert one == pytest.approx(other, rel=AGREES)


@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.floats(-3, 3))
@settings(max_examples=6, deadline=None)
def test_units_of_parameters_and_readings(seed, kind, power):
    rng, H, v = problem(seed)
    units = 10.0 ** rng.uniform(-3, 3, H.shape[1])
    plain = best(H, v, 10.0, kind, np.ones(3))[1]
    same(kind, best(H, v, 10.0, kind, units)[1], plain)
    # y' = ay: H' = aH, v' = a²v, s' = s/a².
    a = 10.0**power
    same(kind, best(a * H, a**2 * v, 10.0 / a**2, kind, np.ones(3))[1], plain)


@given(st.integers(0, 10**6), st.sampled_from(KINDS))
@settings(max_examples=5, deadline=None)
def test_the_order_of_readings(seed, kind):
    rng, H, v = problem(seed)
    order = rng.permutation(len(v))
    plain, value = best(H, v, 10.0, kind, np.ones(3))
    moved, same_value = best(H[order], v[order], 10.0, kind, np.ones(3))
    same(kind, same_value, value)
    if kind in ("A", "D"):  # strictly convex: the levels are the same too, to √tol
        assert np.abs(plain.levels[order] - moved.levels).max() < 0.02 * plain.levels.max()


@given(st.integers(0, 10**6), st.sampled_from(KINDS))
@settings(max_examples=5, deadline=None)
def test_rows_written_twice(seed, kind):
    """Twice the rows, half the level each: as if the noise had half the variance."""
    _, H, v = problem(seed)
    twice = np.repeat(np.arange(len(v)), 2)
    once, value = best(H, v, 10.0, kind, np.ones(3))
    found, better = best(H[twice], v[twice], 10.0, kind, np.ones(3))
    grouped = best(H[twice], v[twice], 10.0, kind, np.ones(3), groups=twice)[1]
    same(kind, better, grouped)  # equal rows want equal levels: sharing costs nothing
    assert better <= value + AGREES * abs(value)
    # x(s/2) twice is at most x(s) with half the variance.
    same(kind, grouped, best(H, v / 2, 10.0, kind, np.ones(3))[1])
    assert found.spent <= 10.0 * (1 + 1e-12)
    assert once.spent <= 10.0 * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_rows_written_twice(kind):
    """Without noise readings that are the same are worth the same together as one."""
    _, H, v = problem(5)
    twice = np.repeat(np.arange(len(v)), 2)
    value = best(H, 0 * v, 10.0, kind, np.ones(3))[1]
    same(kind, best(H[twice], 0 * v[twice], 10.0, kind, np.ones(3))[1], value)
