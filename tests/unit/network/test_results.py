"""What networks give: one result, one release, and releases at their own level only."""

import json

import numpy as np
import pytest

import privest as pv
from network_sample import contributions, releases, sensors
from privest import network
from privest.errors import InvalidInput
from privest.estimator.result import Estimate
from privest.mechanism.source import seeded
from privest.network._sensor import SensorRelease

NOISE = pv.noise.Gaussian(cov=0.5)


def test_fused_is_a_result():
    made = sensors(8)
    found = network.fuse(made, releases(made))
    bound = pv.bound(*network.joint_model(made))
    assert isinstance(found, Estimate)
    assert np.allclose(found.covariance, bound.covariance, rtol=1e-9)
    assert np.allclose(found.classical, bound.classical, rtol=1e-9)
    assert found.efficiency == 1.0
    assert found.simulated
    assert "std err, no privacy" in found.summary()
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("trials", [None, 3])
def test_the_part_of_privacy_is_what_release_noise_adds(trials):
    """Σ = sampling + privacy; θ̂ is linear in e, so unit releases give the second part exactly."""
    made = sensors(8, seed=2)
    found = network.fuse(made, releases(made, trials=trials))
    outputs = sum(s.outputs for s in made)
    ends = np.cumsum([0, *(s.outputs for s in made)])
    unit = [
        SensorRelease(np.eye(outputs)[:, a:b], s.level.fingerprint, True)
        for s, a, b in zip(made, ends, ends[1:])
    ]
    moved = network.fuse(made, unit).value  # row j: what e = unit vector j does
    assert np.allclose(found.privacy, moved.T @ moved, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(found.sampling)[0] > 0


def test_noise_without_a_finite_information_has_no_bound_here():
    noise = pv.noise.Uniform(1.0)
    made = [network.Sensor([[1.0], [2.0]], noise, 1.0)]
    found = network.fuse(made, [made[0].simulate([0.1, 0.2], np.random.default_rng(0))])
    assert found.bound is None
    assert found.sampling is not None


def test_a_large_dense_sensor_keeps_no_split():
    m = network._sensor.SMALL + 1
    sensor = network.Sensor(np.ones((m, 1)), NOISE, pv.PrivacyLevel(np.eye(m) + 1.0))
    found = network.fuse([sensor], [sensor.simulate(np.zeros(m), np.random.default_rng(0))])
    assert found.sampling is None


def test_releases_of_another_level_are_refused_everywhere():
    sensor, other = network.Sensor([[1.0]], NOISE, 2.0), network.Sensor([[1.0]], NOISE, 2.5)
    release = other.simulate([0.3], np.random.default_rng(0))
    for use in (
        lambda: network.fuse([sensor], [release]),
        lambda: sensor.contribution(release),
    ):
        with pytest.raises(InvalidInput, match="another level"):
            use()


def test_agents_of_a_consensus_give_results():
    made = sensors(8)
    sent = releases(made)
    found = network.consensus(contributions(made, sent), network.Graph.ring(8), tolerance=1e-9)
    central = network.fuse(made, sent)
    own = found.result(3)
    assert np.allclose(own.interval(), central.interval(), atol=1e-7)
    assert found.to_dict()["certified_error"] == found.certified_error
    json.dumps(found.to_dict())


@pytest.mark.parametrize("level", [1.0, [2.0, 0.0], [[2.0, 1.0], [1.0, 2.0]], 0.0])
def test_sensor_releases_travel(level):
    sensor = network.Sensor([[1.0], [2.0]], NOISE, level)
    assert (sensor.mechanism is None) == (level == 0.0)
    for y in ([0.1, 0.2], [[0.1, 0.2], [0.3, 0.4]]):
        release = sensor.simulate(y, np.random.default_rng(0))
        again = SensorRelease.from_dict(json.loads(json.dumps(release.to_dict())))
        if sensor.outputs or np.ndim(y) == 1:
            assert np.array_equal(again.values, release.values)
            one, two = sensor.contribution(again), sensor.contribution(release)
            assert np.array_equal(one.x, two.x)


@pytest.mark.parametrize("values", [[[[0.1]]], 0.1, [0.1, float("inf")], ["a"], [10**400]])
def test_changed_sensor_releases_are_refused(values):
    release = network.Sensor([[1.0]], NOISE, 1.0).simulate([0.1], np.random.default_rng(0))
    with pytest.raises(InvalidInput):
        SensorRelease.from_dict(release.to_dict() | {"values": values})
    sensor = network.Sensor([[1.0], [1.0]], NOISE, 1.0)
    with pytest.raises(InvalidInput, match="must be finite"):
        sensor.contribution(SensorRelease(np.array([0.1, np.inf]), sensor.level.fingerprint, True))


def test_equal_sensors_with_one_seed_share_no_noise():
    sensor = network.Sensor([[1.0]], NOISE, 1.0)
    one, two = (sensor.simulate([0.5], seeded(1, "agent", k)).values for k in (0, 1))
    assert one != two


def test_an_average_of_a_release_that_travelled():
    sensor = network.Sensor(np.ones((4, 1)), NOISE, 2.0)
    release, ring = sensor.simulate(np.arange(4.0), np.random.default_rng(0)), network.Graph.ring(4)
    found = network.average(release, ring)
    assert found.result(0).covariance[0, 0] == pytest.approx(1 / 8)
    again = SensorRelease.from_dict(json.loads(json.dumps(release.to_dict())))
    with pytest.raises(InvalidInput, match="give its level"):
        network.average(again, ring)
    with pytest.raises(InvalidInput, match="another level"):
        network.average(again, ring, level=3.0)
    assert np.array_equal(network.average(again, ring, level=2.0).estimates, found.estimates)
