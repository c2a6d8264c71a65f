"""Wherever a count is taken: numpy's integers do, and anything else is a documented error."""

import numpy as np
import pytest

import privest as pv
from privest.errors import PrivestError
from privest.mechanism import CATALOGUE, Componentwise, GaussianMechanism, calibrate

RNG = np.random.default_rng(0)
MODEL = pv.LinearModel(np.ones((4, 1)), noise=1.0)

# Every door, with a count of 4 that it takes.
DOORS = {
    "constant": lambda k: pv.StreamLevel.constant(1.0, steps=k),
    "first": lambda k: pv.StreamLevel.constant(1.0).first(k),
    "cumulative": lambda k: pv.StreamLevel(np.ones(4)).cumulative(k),
    "for_size": lambda k: pv.PrivacyLevel(1.0).for_size(k),
    "dense": lambda k: pv.PrivacyLevel(1.0).dense(k),
    "sizes": lambda k: pv.StreamLevel.from_cumulative(np.eye(4), [k]),
    "metric": lambda k: pv.privacy.metric_trace(1.0, k),
    "metric bound": lambda k: pv.bounds.trace_bound(MODEL, epsilon=1.0, measurements=k),
    "consensus bound": lambda k: pv.bounds.consensus_bound(1.0, agents=k),
    "mechanism": lambda k: GaussianMechanism(1.0, k),
    "trials": lambda k: GaussianMechanism(1.0, 2).simulate([0.0, 0.0], RNG, k),
    "componentwise": lambda k: Componentwise(CATALOGUE["laplace"].unit, measurements=k),
    **{
        f"catalogue {name}": lambda k, name=name: calibrate(name, 1.0, model=k)
        for name in ("gaussian", "laplace", "geometric", "binary-cauchy")
    },
    "audited steps": lambda k: pv.StreamMechanism(1.0).as_mechanism(k),
    "recursive": lambda k: pv.PrivateRLS(1.0, k, 1.0),
    "ring": lambda k: pv.network.Graph.ring(k),
    "star": lambda k: pv.network.Graph.star(k),
    "grid": lambda k: pv.network.Graph.grid(k, 2),
    "graph": lambda k: pv.network.Graph([(0, 1)], k),
    "steps of a fit": lambda k: pv.dynamics.parameter_bound("ar1-mean", [0.5, 1.0], 1.0, steps=k),
    "world": lambda k: pv.dynamics.StateSpace(A=0.5, C=1.0, Q=1.0, R=1.0, cov0=1.0).sample(k, RNG),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_count_is_a_whole_number_of_any_kind(door):
    for count in (4, np.int64(4), np.uint8(4)):
        DOORS[door](count)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("bad", [True, -1, 2.5, 4.0, "4", None, np.nan, np.array([4])])
def test_anything_else_is_a_documented_error(door, bad):
    if bad is None and door in ("constant", "cumulative", "trials", "metric bound", "graph"):
        return  # not given: as many as there are
    with pytest.raises(PrivestError):
        DOORS[door](bad)


def test_levels_that_no_machine_holds():
    for steps in (10**12, 10**30):
        for level in (1.0, np.eye(3)):
            with pytest.raises(PrivestError, match=r"use a StreamLevel|at most"):
                pv.StreamLevel.constant(level, steps=steps)
            with pytest.raises(PrivestError, match=r"use a StreamLevel|at most"):
                pv.StreamLevel.constant(level, lags=[0.5]).first(steps)
