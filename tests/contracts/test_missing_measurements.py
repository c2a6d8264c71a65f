"""A simulation takes what its real release takes: NaN, None and masked entries are missing.

An infinite measurement, which a real release clips, is refused in a simulation.
"""

import numpy as np
import pytest

import privest as pv
from privest import errors, mechanism, network, noise

COUPLED = [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
MIXED = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
MAKERS = {
    "number": lambda: pv.GaussianMechanism(1.0, 3),
    "range": lambda: pv.GaussianMechanism([1.0, 0.5, 2.0], range=(-4.0, 4.0)),
    "coupled": lambda: pv.GaussianMechanism(COUPLED),
    "rank one": lambda: pv.GaussianMechanism(np.ones((3, 3))),
    "channels": lambda: mechanism.Componentwise(
        mechanism.Additive(noise.Laplace(1.0)), measurements=3
    ),
    "channels of sums": lambda: mechanism.Componentwise(
        mechanism.Additive(noise.Gaussian(1.0)), MIXED
    ),
    "sensor": lambda: network.Sensor(np.eye(3), 1.0, 1.0),
    "coupled sensor": lambda: network.Sensor(np.eye(3), 1.0, COUPLED, range=(-4.0, 4.0)),
    "stream": lambda: pv.StreamMechanism(pv.StreamLevel.constant(1.0, lags=[0.5], steps=3)),
}
GAPS = {
    "nan": [0.5, np.nan, 2.0],
    "none": [0.5, None, 2.0],
    "masked": np.ma.masked_array([0.5, 1.0, 2.0], [False, True, False]),
    "all": [np.nan] * 3,
    "no gap": [0.5, 1.0, 2.0],
}


def values_of(released):
    return np.asarray(getattr(released, "values", released))


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("name", MAKERS)
def test_a_simulation_has_its_gaps_where_the_release_has_them(name, gaps):
    real = values_of(MAKERS[name]().release(GAPS[gaps]))
    tried = values_of(MAKERS[name]().simulate(GAPS[gaps], np.random.default_rng(1)))
    assert np.array_equal(np.isnan(tried), np.isnan(real))
    assert np.isnan(tried).any() == (gaps != "no gap")


@pytest.mark.parametrize("name", MAKERS)
def test_a_simulation_with_gaps_draws_what_it_draws_without(name):
    """The noise of the other entries does not depend on the gap."""
    whole = values_of(MAKERS[name]().simulate(GAPS["no gap"], np.random.default_rng(1)))
    tried = values_of(MAKERS[name]().simulate(GAPS["nan"], np.random.default_rng(1)))
    known = ~np.isnan(tried)
    if name != "stream":  # there a later step goes on from what was released
        np.testing.assert_allclose(tried[known], whole[known], rtol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_an_infinite_measurement_is_refused_in_a_simulation(name):
    with pytest.raises(errors.InvalidInput, match="must be finite") as told:
        MAKERS[name]().simulate([0.5, np.inf, 2.71828], np.random.default_rng(1))
    assert "2.71828" not in str(told.value)


def test_trials_repeat_the_gaps():
    tried = pv.GaussianMechanism(1.0, 3).simulate(GAPS["nan"], np.random.default_rng(1), trials=4)
    assert np.array_equal(np.isnan(tried), [[False, True, False]] * 4)


def test_a_contribution_of_a_simulated_sensor_uses_what_is_there():
    sensor = network.Sensor(np.eye(3), 1.0, 1.0)
    found = sensor.contribution(sensor.simulate(GAPS["nan"], np.random.default_rng(1)))
    assert np.isfinite(found.x).all()
    assert found.r[1, 1] == 0
