"""Every estimate of states says whether the release it comes from was a simulation."""

import pickle

import numpy as np
import pytest

import privest as pv
from privest import dynamics

WALK = dynamics.StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
Y = np.linspace(0.0, 1.0, 5)


def released(level, simulated):
    made = pv.StreamMechanism(level)
    return made.simulate(Y, np.random.default_rng(1)) if simulated else made.release(Y)


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize(
    "level", [pv.StreamLevel.constant(2.0), pv.StreamLevel.from_cumulative(np.eye(5) + 0.2)]
)
def test_results_say_it(level, simulated):
    found = dynamics.filter(WALK, released(level, simulated), level=level)
    for result in (found, found.smoothed, found.forecast(2)):
        assert result.simulated is simulated
        assert result.to_dict()["simulated"] is simulated
    assert ("simulated" in repr(found)) == simulated


@pytest.mark.parametrize("simulated", [False, True])
def test_a_filter_remembers_it(simulated):
    level = pv.StreamLevel.constant(2.0)
    kalman = dynamics.PrivateKalman(WALK, level)
    kalman.update(released(level, simulated))
    other = pickle.loads(pickle.dumps(kalman))
    assert other.simulated is other.forecast(1).simulated is simulated


@pytest.mark.parametrize("simulated", [False, True])
def test_the_extended_filter_says_it(simulated):
    system = dynamics.NonlinearStateSpace(np.sin, np.tanh, Q=1.0, R=0.5, mean0=[0.0], cov0=1.0)
    release = released(pv.StreamLevel.constant(2.0), simulated)
    assert dynamics.filter(system, release, level=2.0, method="extended").simulated is simulated
