"""Networks on real releases: the variance v of the noise, missing readings, mixed kinds, averages.

Estimates and covariances against dense formulas, z̃ = Lᵀ(Hθ + w) + e with cov e = v·I written out.
1e-9: the dense matrices have condition numbers below 1e5.
"""

import numpy as np
import pytest

import privest as pv
from network_sample import THETA, sensors
from privest import network
from privest.errors import InvalidInput
from privest.mechanism.source import Kept
from protected_double import V, Wide

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def released(made, source=None, missing=()):
    """One release a sensor; `missing`: sensors whose first reading is."""
    rng, sent = np.random.default_rng(8), []
    for i, sensor in enumerate(made):
        y = sensor.model.sample(THETA, rng)
        if i in missing:
            y[0] = np.nan
        sent.append(sensor.release(y, source))
    return sent


def written_out(made, sent):
    """(x_i, r_i, part of e_i) of every sensor by dense matrices."""
    parts = []
    for sensor, release in zip(made, sent):
        rows = sensor.level_matrix.factor_rows(np.eye(sensor.measurements))
        rows = rows[sensor.level_matrix.informative()]
        there = ~np.isnan(release.values)
        rows, z = rows[there], release.values[there]
        v = release.unit_variance
        cov = rows @ sensor.model.covariance.dense() @ rows.T + v * np.eye(len(z))
        G = np.linalg.solve(cov, rows @ sensor.model.matrix)
        parts.append((G.T @ z, G.T @ rows @ sensor.model.matrix, v * G.T @ G))
    return [np.array(part) for part in zip(*parts)]


@pytest.mark.parametrize("missing", [(), (0, 1, 2)])
def test_fusion_counts_the_variance_of_the_noise(missing):
    made = sensors(12, seed=4)
    sent = released(made, Wide(3), missing)
    assert {release.unit_variance for release in sent} == {V}
    x, r, own = written_out(made, sent)
    covariance = np.linalg.inv(r.sum(axis=0))
    found = network.fuse(made, sent)
    assert np.allclose(found.value, covariance @ x.sum(axis=0), **CLOSE)
    assert np.allclose(found.covariance, covariance, **CLOSE)
    assert np.allclose(found.privacy, covariance @ own.sum(axis=0) @ covariance, **CLOSE)
    assert found.simulated is False
    if not missing:  # the bound stays that of S
        assert np.allclose(found.bound, pv.bound(*network.joint_model(made)).covariance, **CLOSE)
    assert (np.diagonal(found.covariance) > 1.01 * np.diagonal(found.bound)).all()
    parts = [sensor.contribution(release) for sensor, release in zip(made, sent)]
    added = sum(parts[1:], parts[0]).result()
    assert np.allclose(added.value, found.value, **CLOSE)
    assert np.allclose(added.covariance, found.covariance, **CLOSE)
    assert added.simulated is False


def test_consensus_counts_it_too():
    made = sensors(12, seed=4)
    sent = released(made, Wide(3), missing=(5,))
    x, r, _ = written_out(made, sent)
    parts = [sensor.contribution(release) for sensor, release in zip(made, sent)]
    assert np.allclose([part.x for part in parts], x, **CLOSE)
    assert np.allclose([part.r for part in parts], r, **CLOSE)
    found = network.consensus(parts, network.Graph.ring(12), tolerance=1e-9)
    best = np.linalg.solve(r.sum(axis=0), x.sum(axis=0))
    assert np.allclose(found.estimates, best, rtol=1e-7, atol=1e-7)
    assert found.simulated is found.result(0).simulated is False


def test_one_simulated_release_makes_a_simulation():
    made = [*sensors(4, seed=4), network.Sensor(np.eye(3), pv.noise.Gaussian(cov=1.0), 1.0)]
    sent = released(made)
    assert network.fuse(made, sent).simulated is False
    sent[-1] = made[-1].simulate(np.zeros(3), np.random.default_rng(0))
    assert network.fuse(made, sent).simulated is True
    parts = [sensor.contribution(release) for sensor, release in zip(made, sent)]
    assert network.Contribution.stack(parts).simulated is True
    parts[0] = network.Contribution(parts[0].x, parts[0].r)
    assert network.Contribution.stack(parts).simulated is True
    assert network.Contribution.stack(parts[:1]).simulated is None


def test_trials_that_miss_different_readings_are_told_apart():
    sensor = network.Sensor(np.eye(2), pv.noise.Gaussian(cov=1.0), 1.0)
    release = sensor.release([[np.nan, 1.0], [1.0, np.nan]])
    with pytest.raises(InvalidInput, match="different measurements"):
        sensor.contribution(release)


def test_a_sensor_with_a_range_clips(monkeypatch):
    sensor = network.Sensor(np.eye(2), pv.noise.Gaussian(cov=1.0), 4.0, range=(-1.0, 1.0))
    far = np.abs(sensor.release(np.full((1000, 2), 1e300)).values)
    assert far.max() < 2.0 + 40  # 40 deviations: beyond 1e-300
    with pytest.raises(InvalidInput, match="low < high"):
        network.Sensor(np.eye(2), pv.noise.Gaussian(cov=1.0), 4.0, range=(1.0, -1.0))
    with pytest.raises(InvalidInput, match="the grid holds"):
        network.Sensor(np.eye(2), pv.noise.Gaussian(cov=1.0), 4.0, range=(0.0, 1e13))


# --- averages ------------------------------------------------------------------------------------

Y = np.linspace(-3.0, 5.0, 12)
LEVELS = np.geomspace(0.2, 8.0, 12)


def first_messages(y, source):
    """x_i,0 = z̃_i/√S_i."""
    return pv.mechanism.GaussianMechanism(LEVELS, 12).release(y, source) / np.sqrt(LEVELS)


def average(y, source=None, **more):
    """Every agent's value (12,), and its variance."""
    sensor = network.Sensor(np.ones((12, 1)), 1.0, LEVELS)
    found = network.average(sensor.release(y, source), network.Graph.ring(12), **more)
    assert found.simulated is False
    return found.estimates[:, 0], float(found.result(0).covariance[0, 0])


def test_the_average_of_a_real_release():
    values, variance = average(Y, Wide(1))
    assert variance == pytest.approx(V * pv.bounds.consensus_bound(LEVELS), rel=1e-12)
    first = first_messages(Y, Wide(1))
    assert np.allclose(values, first.mean(), atol=2e-6 * np.sqrt(variance))


def test_agents_without_a_value_pass_messages_on():
    y = np.where(np.arange(12) % 5 == 2, np.nan, Y)  # agents 2 and 7
    there = ~np.isnan(y)
    values, variance = average(y, Wide(1))
    first = first_messages(y, Wide(1))
    assert np.array_equal(np.isnan(first), ~there)
    assert np.allclose(values, first[there].mean(), atol=2e-6 * np.sqrt(variance))
    exact = V * (1 / LEVELS[there]).sum() / there.sum() ** 2
    assert variance == pytest.approx(exact, rel=1e-5)  # as far as agent 0 knows it
    with pytest.raises(InvalidInput, match="some agent must have a value"):
        average(np.full(12, np.nan))


def test_a_run_that_failed_begins_with_the_same_values(tmp_path):
    one, _ = average(Y, Kept(tmp_path / "first.release"), tolerance=1e-9)
    again = Kept(tmp_path / "first.release")
    two, variance = average(Y, again)
    assert again.resent
    assert np.allclose(two, one, atol=1e-5 * np.sqrt(variance))
