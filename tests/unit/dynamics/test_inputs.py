"""Bad input: one clear error each, without private numbers."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.dynamics import StateSpace
from privest.errors import InvalidInput, NumericalFailure

WALK = StateSpace(A=1.0, C=1.0, Q=0.1, R=0.5, cov0=1.0)
PAIR = StateSpace(A=0.9 * np.eye(2), C=np.eye(2), Q=0.1, R=0.5, cov0=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.ones((2, 3))}, "A must be square"),
        ({"A": np.ones(2)}, "A must be 0-dimensional or 2-dimensional or 3-dimensional"),
        ({"C": np.ones((1, 3))}, "C must have 2 columns"),
        ({"Q": np.eye(3)}, "Q must be 2×2"),
        ({"Q": np.diag([1.0, -1.0])}, "Q must be positive semi-definite"),
        ({"Q": np.array([[1.0, 0.5], [0.0, 1.0]])}, "Q must be symmetric"),
        ({"R": -1.0}, "R must be positive semi-definite"),
        ({"R": np.eye(2)}, "R must be 1×1"),
        ({"cov0": np.diag([1.0, -1e-3])}, "cov0 must be positive semi-definite"),
        ({"cov0": np.ones((4, 2, 2))}, "cov0"),
        ({"cov0": None}, "cov0 is needed"),
        ({"mean0": np.ones(3)}, "mean0 must have 2 entries"),
        ({"B": np.ones((3, 1))}, "B must have 2 rows"),
        ({"B": np.ones((2, 1)), "D": np.ones((1, 2))}, "one column for each input"),
        ({"A": np.ones((5, 2, 2)), "C": np.ones((6, 1, 2))}, "one length K; received A: 5, C: 6"),
        ({"A": np.full((2, 2), np.nan)}, "A must be finite"),
    ],
)
def test_systems(change, message):
    parts = {"A": np.eye(2), "C": np.ones((1, 2)), "Q": 0.1, "R": 0.2, "cov0": 1.0}
    with pytest.raises(InvalidInput, match=message):
        StateSpace(**(parts | change))


def test_levels_and_steps():
    with pytest.raises(
        InvalidInput, match="measurements of size 2; the stream has measurements of size 1"
    ):
        pv.bound(WALK, np.eye(2), steps=5)
    with pytest.raises(InvalidInput, match="positive semi-definite"):
        pv.bound(WALK, -1.0, steps=5)
    with pytest.raises(InvalidInput, match="say how many steps"):
        pv.bound(WALK, 1.0)
    with pytest.raises(InvalidInput, match="The level has 3 steps; asked for 5"):
        pv.bound(WALK, pv.StreamLevel([1.0, 1.0, 1.0]), steps=5)
    with pytest.raises(InvalidInput, match="whole number ≥ 1"):
        pv.bound(WALK, 1.0, steps=0)
    with pytest.raises(InvalidInput, match="missing must be truth values"):
        pv.bound(WALK, 1.0, steps=5, missing=[0, 1])
    varying = StateSpace(A=np.ones((4, 1, 1)), C=1.0, Q=0.1, R=0.5, cov0=1.0)
    with pytest.raises(InvalidInput, match="given for 4 steps; asked for 5"):
        pv.bound(varying, 1.0, steps=5)
    assert len(pv.bound(varying, 1.0).filtered) == 4
    with pytest.raises(InvalidInput, match="no steady state"):
        dynamics.steady_state(varying, 1.0)
    with pytest.raises(InvalidInput, match="same level at every step"):
        dynamics.steady_state(WALK, pv.StreamLevel([1.0, 1.0]))


def test_filters_take_releases_only():
    y = np.array([0.123456, 0.654321])
    with pytest.raises(InvalidInput, match="takes a Release") as caught:
        dynamics.filter(WALK, y, level=1.0)
    assert "0.123" not in str(caught.value)
    with pytest.raises(InvalidInput, match="received ndarray"):
        dynamics.PrivateKalman(WALK, 1.0).update(y)
    mechanism = pv.StreamMechanism(pv.StreamLevel.constant(2.0))
    release = mechanism.simulate(y, np.random.default_rng(0))
    later = mechanism.simulate(y, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="another level"):
        dynamics.filter(WALK, release, level=1.0)
    with pytest.raises(InvalidInput, match="starts at step 2"):
        dynamics.filter(WALK, later, level=2.0)
    kalman = dynamics.PrivateKalman(WALK, 2.0)
    with pytest.raises(InvalidInput, match="must be that of step 0"):
        kalman.update(later)
    kalman.update(release)
    with pytest.raises(InvalidInput, match="must be that of step 2"):
        kalman.update(release)
    with pytest.raises(InvalidInput, match="follow one another"):
        pv.Release.join([later, release])


def test_series():
    level = pv.StreamLevel.constant(np.eye(2))
    with pytest.raises(InvalidInput, match=r"one size, here 2; received shape \(4, 3, 1\)"):
        pv.StreamMechanism(level).simulate(np.zeros((4, 3, 1)), np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="Generator"):
        pv.StreamMechanism(level).simulate(np.zeros((4, 3, 2)), 7)
    release = pv.StreamMechanism(level).simulate(np.zeros((4, 3, 2)), np.random.default_rng(0))
    assert repr(release) == "Release(steps 0..2, 4 series, simulated)"


def test_inputs():
    driven = StateSpace(A=1.0, C=1.0, Q=0.1, R=0.5, cov0=1.0, B=[[1.0]])
    level = pv.StreamLevel.constant(1.0)
    release = pv.StreamMechanism(level).simulate([0.0, 0.0, 0.0], np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="has 1 input:"):
        dynamics.filter(driven, release, level=level)
    with pytest.raises(InvalidInput, match=r"inputs must have shape \(3, 1\)"):
        dynamics.filter(driven, release, level=level, inputs=np.zeros((2, 1)))
    with pytest.raises(InvalidInput, match="inputs must have shape"):
        dynamics.filter(WALK, release, level=level, inputs=np.zeros((3, 1)))
    found = dynamics.filter(driven, release, level=level, inputs=[1.0, 1.0, 1.0])
    ahead = found.forecast(2, inputs=[[10.0], [0.0]])
    steps = found.filtered.value[-1, 0] + np.array([1.0, 11.0])  # u_2 was given to the filter
    assert ahead.value[:, 0] == pytest.approx(steps)
    for wrong in ([[10.0]], np.zeros((3, 1)), np.zeros((2, 2)), None):
        with pytest.raises(InvalidInput, match=r"\(2, 1\)"):
            found.forecast(2, inputs=wrong)
    with pytest.raises(InvalidInput, match="steps must be"):
        found.forecast(0)


@pytest.mark.parametrize("family", ["arx1", "regression1"])
def test_predictions_and_forecasts_take_the_inputs_of_the_same_steps(family):
    rng = np.random.default_rng(5)
    u, level = rng.standard_normal((63, 1)), pv.StreamLevel.constant(4.0)
    release = pv.StreamMechanism(level).simulate(
        u[:60, 0] + np.sin(np.arange(60)) + rng.standard_normal(60), rng
    )
    found = dynamics.fit(family, release, level=level, inputs=u[:60])
    seen = found.forecast(3, inputs=u[60:], method="plug-in").value
    extra = found.system.inputs - 1  # a column of ones where the family has a mean
    own = np.concatenate([u[60:], np.ones((3, extra))], axis=1)
    ahead = found.states.forecast(3, inputs=own).value
    np.testing.assert_allclose(ahead @ found.system.C.T + own @ found.system.D.T, seen)
    for wrong in (u[60:62], u[59:], None):
        with pytest.raises(InvalidInput, match="inputs"):
            found.forecast(3, inputs=wrong)


def test_online_predictions_know_the_last_input():
    driven = StateSpace(A=0.5, C=1.0, Q=0.1, R=0.5, cov0=1.0, B=[[2.0]])
    level, u = pv.StreamLevel.constant(1.0), np.arange(6.0)
    release = pv.StreamMechanism(level).simulate(np.zeros(4), np.random.default_rng(0))
    kalman = dynamics.PrivateKalman(driven, level)
    kalman.update(release, inputs=u[:4])
    whole = dynamics.filter(driven, release, level=level, inputs=u[:4])
    bent = dynamics.NonlinearStateSpace(
        lambda x, u: 0.5 * x + 2.0 * u, lambda x, u: x, 0.1, 0.5, [0.0], 1.0, inputs=1
    )
    curved = dynamics.filter(bent, release, level=level, inputs=u[:4], method="extended")
    first = 0.5 * whole.filtered.value[-1, 0] + 2.0 * u[3]
    for ahead in (
        kalman.forecast(2, inputs=u[4:]),
        whole.forecast(2, inputs=u[4:]),
        curved.forecast(2, inputs=u[4:]),
    ):
        assert ahead.value[:, 0] == pytest.approx([first, 0.5 * first + 2.0 * u[4]])


def test_prediction_ends_with_the_system():
    varying = StateSpace(A=np.ones((4, 1, 1)), C=1.0, Q=0.1, R=0.5, cov0=1.0)
    level = pv.StreamLevel.constant(1.0)
    release = pv.StreamMechanism(level).simulate(np.zeros(4), np.random.default_rng(0))
    found = dynamics.filter(varying, release, level=level)
    assert found.forecast(1).covariance[0] == pytest.approx(found.filtered.covariance[-1] + 0.1)
    with pytest.raises(InvalidInput, match="asked for 2"):
        found.forecast(2)


def test_overflow_and_dense_levels_are_said():
    hidden = StateSpace(A=np.diag([2.0, 0.5]), C=[[0.0, 1.0]], Q=0.1, R=0.5, cov0=1.0)
    with pytest.raises(NumericalFailure, match="overflows at step"):
        pv.bound(hidden, 1.0, steps=2000)
    dense = pv.StreamLevel.from_cumulative(np.ones((3, 3)))
    with pytest.raises(InvalidInput, match=r"use dynamics\.filter on the whole"):
        dynamics.PrivateKalman(WALK, dense)
    assert pv.bound(WALK, dense, steps=3).filtered.shape == (3, 1, 1)


def test_weights_and_budgets():
    with pytest.raises(InvalidInput, match="budget must be > 0"):
        dynamics.best_directions(PAIR, 0.0)
    with pytest.raises(InvalidInput, match="the weight must be positive semi-definite"):
        dynamics.best_directions(PAIR, 1.0, weight=np.diag([1.0, -1.0]))


def test_a_start_is_not_known_exactly_unless_said():
    """Left out, cov0 was 0: a bound of 0 without a word."""
    with pytest.raises(InvalidInput, match="cov0 is needed"):
        StateSpace(A=1.0, C=1.0, Q=0.0, R=1.0)
    exact = StateSpace(A=1.0, C=1.0, Q=0.0, R=1.0, cov0=0.0)
    assert not pv.bound(exact, 1.0, steps=3).filtered.any()
