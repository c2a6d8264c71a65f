"""An update is taken whole or not at all; copies are independent; overflow is an error."""

import copy
import dataclasses

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput, NumericalFailure

LEVELS = {
    "one": lambda: pv.StreamLevel.constant(4.0),
    "lags": lambda: pv.StreamLevel(np.ones(30), lags=[0.5]),
    "dense": lambda: pv.StreamLevel.from_cumulative(np.eye(30) + 0.2),
    "blocks": lambda: pv.StreamLevel.constant(2.0 * np.eye(2)),
}


def started(kind, classical=False, steps=6):
    """An estimator after some steps, its mechanism, and a generator."""
    level, rng = LEVELS[kind](), np.random.default_rng(0)
    block = level.block or 1
    rls = pv.PrivateRLS(level, 2, noise=0.25, classical=classical)
    mechanism = pv.StreamMechanism(level)
    for _ in range(steps):
        rls.update(mechanism.simulate(rng.standard_normal(block), rng),
                   rng.standard_normal((block, 2)))  # fmt: skip
    return rls, mechanism, rng


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("huge", [1e300, 1e200, 1e160])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("classical", [False, True])
@pytest.mark.parametrize("kind", LEVELS)
def test_rows_beyond_double_range_change_nothing(kind, classical, steps, huge):
    rls, mechanism, rng = started(kind, classical)
    before, estimate = rls.state(), rls.value
    block = rls.level.block or 1
    release = mechanism.simulate(rng.standard_normal(block * steps), rng)
    H = rng.standard_normal((block * steps, 2))
    bad = H.copy()
    bad[-1, 0] = huge  # the last of them: those before must not stay either
    with pytest.raises(NumericalFailure, match="range of doubles"):
        rls.update(release, bad)
    assert same(before, rls.state())
    np.testing.assert_array_equal(rls.value, estimate)
    # The same release with its right rows is what it would have been.
    twin = copy.copy(rls)
    rls.update(release, H)
    twin.update(release, H)
    np.testing.assert_allclose(rls.value, twin.value, rtol=1e-9)
    assert rls.steps == 6 + steps


def test_bad_readings_of_a_release_change_nothing():
    rls, mechanism, rng = started("one", classical=True)
    release = mechanism.simulate(rng.standard_normal(3), rng)
    before = rls.state()
    for values in ([1.0, np.nan, 2.0], [1.0, 1e200, 2.0]):
        with pytest.raises((InvalidInput, NumericalFailure)):
            rls.update(dataclasses.replace(release, values=np.array(values)), np.ones((3, 2)))
        assert same(before, rls.state())


def test_a_state_is_a_snapshot():
    """The arrays of a state do not change with the next update."""
    rls, mechanism, rng = started("one")
    before = rls.state()
    kept = {name: array.copy() for name, array in before.items()}
    rls.update(mechanism.simulate(1.0, rng), [1.0, 2.0])
    assert same(before, kept)
    assert not same(before, rls.state())


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", LEVELS)
def test_copies_learn_on_their_own(kind, twin):
    rls, mechanism, rng = started(kind)
    other = twin(rls)
    before, estimate = other.state(), other.value
    block = rls.level.block or 1
    rls.update(mechanism.simulate(rng.standard_normal(block), rng), rng.standard_normal((block, 2)))
    assert same(before, other.state())
    np.testing.assert_array_equal(other.value, estimate)
    assert other.steps == rls.steps - 1


# --- the regression -------------------------------------------------------------------------------


def data(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2))
    return X, X @ [1.0, -2.0] + 0.5 * rng.standard_normal(rows)


@pytest.mark.parametrize("factor", [1e300, 1e200, 1e160, 1e-160, 1e-200, 1e-300])
def test_units_beyond_double_range_are_an_error_and_no_number(factor):
    """Never a standard error of 0 or ∞, never "not identifiable"."""
    X, y = data()
    rng = np.random.default_rng(0)
    model = pv.LinearModel(X * factor, noise=0.3)
    with pytest.raises(NumericalFailure):
        pv.PrivateLinearRegression(1.0, 0.25, random_state=0, simulate=True).fit(X * factor, y)
    with pytest.raises(NumericalFailure, match="column 0 of H"):
        pv.estimator.estimate_release(y, model, pv.mechanism.Additive(pv.noise.Cauchy(1.0)))
    for score in ("least_squares", "optimal"):
        with pytest.raises(NumericalFailure, match="column 0 of H"):
            pv.mechanism.OutputPerturbation(model, 1.0, score=score).simulate(y, rng)


@pytest.mark.parametrize("factor", [1e100, 1e-100])
def test_units_within_it_change_nothing_else(factor):
    X, y = data()
    plain = pv.PrivateLinearRegression(1.0, 0.25, random_state=0, simulate=True).fit(X, y)
    scaled = pv.PrivateLinearRegression(1.0, 0.25, random_state=0, simulate=True).fit(X * factor, y)
    np.testing.assert_allclose(scaled.coef_ * factor, plain.coef_, rtol=1e-9)
    errors = scaled.result_.standard_error[1:] * factor
    np.testing.assert_allclose(errors, plain.result_.standard_error[1:], rtol=1e-9)


def test_one_cell_of_1e300_gives_no_standard_error_of_zero():
    X, y = data()
    X[7, 1] = 1e300
    with pytest.raises(NumericalFailure, match="range of doubles"):
        pv.PrivateLinearRegression(1.0, 0.25, random_state=0, simulate=True).fit(X, y)
