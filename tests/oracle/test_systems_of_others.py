"""Systems from and to python-control and scipy.signal, and the responses that these simulate."""

import numpy as np
import pytest
import scipy.signal

from dynamic_systems import random_system
from privest.dynamics import StateSpace
from privest.errors import InvalidInput, MissingDependency

control = pytest.importorskip("control", reason="python-control is not installed")


def quiet(system, inputs):
    """Readings without any noise, from a start of zeros."""
    still = StateSpace(system.A, system.C, 0.0, 0.0, 0.0, 0.0, B=system.B, D=system.D)
    return still.simulate(len(inputs), np.random.default_rng(0), inputs=inputs)


@pytest.mark.parametrize("seed", range(4))
def test_responses_and_round_trips(seed):
    rng = np.random.default_rng(seed)
    ours = random_system(rng, steps=8, n=3, m=2, inputs=2, radius=0.9)
    u = rng.standard_normal((30, 2))
    states, readings = quiet(ours, u)
    theirs, signal = ours.to_control(0.5), ours.to_scipy(0.5)
    assert theirs.dt == signal.dt == 0.5
    found = control.forced_response(theirs, inputs=u.T)
    assert np.abs(found.outputs.T - readings).max() < 1e-12
    assert np.abs(found.states.T - states).max() < 1e-12
    _, y, x = scipy.signal.dlsim(signal, u)
    assert np.abs(y - readings).max() < 1e-12
    assert np.abs(x - states).max() < 1e-12
    for again in (
        StateSpace.from_control(theirs, Q=ours.Q, R=ours.R, cov0=ours.cov0, mean0=ours.mean0),
        StateSpace.from_scipy(signal, Q=ours.Q, R=ours.R, cov0=ours.cov0, mean0=ours.mean0),
    ):
        for name in ("A", "B", "C", "D", "Q", "R", "cov0", "mean0"):
            assert np.array_equal(getattr(again, name), getattr(ours, name))


def test_step_responses():
    """Of a transfer function with a direct part, against control's and scipy's own."""
    numerator, denominator = [0.5, 1.0, 0.2], [1.0, -1.2, 0.5]
    steps = np.ones((20, 1))
    signal = scipy.signal.dlti(numerator, denominator, dt=0.1)
    _, (expected,) = scipy.signal.dstep(signal, n=20)
    ours = StateSpace.from_scipy(signal, Q=0.1, R=0.1, cov0=1.0)
    assert np.abs(quiet(ours, steps)[1] - expected).max() < 1e-12
    theirs = control.ss(control.tf(numerator, denominator, 0.1))
    heard = control.step_response(theirs, timepts=0.1 * np.arange(20)).outputs
    ours = StateSpace.from_control(theirs, Q=0.1, R=0.1, cov0=1.0)
    assert np.abs(quiet(ours, steps)[1][:, 0] - heard).max() < 1e-12


def test_systems_without_inputs():
    ours = StateSpace([[0.5, 0.0], [0.1, 0.0]], [[1.0, 0.0]], 1.0, 1.0, cov0=1.0)
    again = StateSpace.from_control(ours.to_control(), Q=1.0, R=1.0, cov0=1.0)
    assert again.inputs == 0
    assert np.array_equal(again.A, ours.A)  # control would drop a state that does nothing
    assert StateSpace.from_scipy(ours.to_scipy(), Q=1.0, R=1.0, cov0=1.0).inputs == 0


def test_bad_input(monkeypatch):
    noise = {"Q": 1.0, "R": 1.0, "cov0": 1.0}
    continuous = control.ss(-1.0, 1.0, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="from_continuous"):
        StateSpace.from_control(continuous, **noise)
    with pytest.raises(InvalidInput, match="dt is None"):
        StateSpace.from_control(control.ss(-1.0, 1.0, 1.0, 0.0, None), **noise)
    with pytest.raises(InvalidInput, match=r"control\.ss turns a transfer function"):
        StateSpace.from_control(control.tf([1.0], [1.0, 0.5], True), **noise)
    with pytest.raises(InvalidInput, match="from_continuous"):
        StateSpace.from_scipy(scipy.signal.StateSpace(-1.0, 1.0, 1.0, 0.0), **noise)
    with pytest.raises(InvalidInput, match="not ndarray"):
        StateSpace.from_scipy(np.eye(2), **noise)
    with pytest.raises(InvalidInput, match="cov0 is needed"):
        StateSpace.from_scipy(scipy.signal.dlti(0.5, 1.0, 1.0, 0.0), Q=1.0, R=1.0)
    system = StateSpace(0.5, 1.0, 1.0, 1.0, cov0=1.0)
    for dt in (0.0, -1.0, np.inf, False, "a"):
        with pytest.raises(InvalidInput, match="dt must be a positive"):
            system.to_scipy(dt)
    changing = StateSpace(np.ones((3, 1, 1)), 1.0, 1.0, 1.0, cov0=1.0)
    with pytest.raises(InvalidInput, match="A changes with time"):
        changing.to_control()
    monkeypatch.setitem(__import__("sys").modules, "control", None)
    with pytest.raises(MissingDependency, match="pip install control"):
        system.to_control()
