"""Fusion against the paper's dense formula, the bound of the stacked model, and the stream learner.

All matrices here have condition numbers below a few thousand: 1e-10 relative leaves a thousandfold
room over the rounding of either route.
"""

import numpy as np
import pytest
import scipy.linalg

import privest as pv
from network_sample import THETA, contributions, releases, sensors
from privest import network

RTOL = 1e-10


def dense(sensor):
    m = sensor.measurements
    return sensor.model.matrix, sensor.level.dense(m), sensor.model.covariance.dense()


def paper_formula(made, sent):
    """`algo:average/eff`, literally, from the paper's z_i = L_i z̃_i."""
    n = made[0].parameters
    information, right = np.zeros((n, n)), np.zeros(n)
    for sensor, release in zip(made, sent):
        H, S, Sigma = dense(sensor)
        full = np.zeros(sensor.measurements)
        half = sensor.level_matrix.factor_rows(np.eye(sensor.measurements))
        full[(half != 0).any(axis=1)] = release.values
        z = half.T @ full
        weight = H.T @ np.linalg.inv(S @ Sigma + np.eye(len(S)))
        information += weight @ S @ H
        right += weight @ z
    return np.linalg.solve(information, right), np.linalg.inv(information)


@pytest.mark.parametrize("seed", range(5))
def test_fuse_is_the_papers_formula(seed):
    made = sensors(12, seed=seed)
    sent = releases(made, seed=seed + 100)
    found = network.fuse(made, sent)
    estimate, covariance = paper_formula(made, sent)
    assert np.allclose(found.value, estimate, rtol=RTOL, atol=RTOL)
    assert np.allclose(found.covariance, covariance, rtol=RTOL, atol=RTOL * covariance.max())


@pytest.mark.parametrize("seed", range(5))
def test_contributions_are_those_of_the_algorithm(seed):
    made = sensors(8, seed=seed)
    sent = releases(made)
    for sensor, release, part in zip(made, sent, contributions(made, sent)):
        H, S, Sigma = dense(sensor)
        weight = H.T @ np.linalg.inv(S @ Sigma + np.eye(len(S)))
        assert np.allclose(part.r, weight @ S @ H, rtol=RTOL, atol=1e-12)
        half = sensor.level_matrix.factor_rows(np.eye(sensor.measurements))
        full = np.zeros(sensor.measurements)
        full[(half != 0).any(axis=1)] = release.values
        assert np.allclose(part.x, weight @ half.T @ full, rtol=RTOL, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_that_of_the_stacked_model(seed):
    made = sensors(10, seed=seed)
    parts = [dense(sensor) for sensor in made]
    model = pv.LinearModel(
        np.concatenate([H for H, _, _ in parts]),
        noise=pv.noise.Gaussian(cov=scipy.linalg.block_diag(*[V for _, _, V in parts])),
    )
    level = pv.PrivacyLevel(scipy.linalg.block_diag(*[S for _, S, _ in parts]))
    found = pv.bound(*network.joint_model(made))
    assert np.allclose(found.covariance, pv.bound(model, level).covariance, rtol=RTOL, atol=1e-13)
    assert np.allclose(found.classical, pv.bound(model, level).classical, rtol=RTOL, atol=1e-13)
    covariance = network.fuse(made, releases(made)).covariance
    assert np.allclose(covariance, found.covariance, rtol=RTOL, atol=1e-13)


def test_the_stream_learner_agrees():
    """Scalar readings at one level: the sensors' releases one after another are a stream."""
    rng = np.random.default_rng(3)
    s, noise, theta = 1.7, pv.noise.Gaussian(cov=0.6, mean=0.25), np.array([1.0, -2.0])
    made = [
        network.Sensor(rng.standard_normal((m, 2)), noise, pv.PrivacyLevel(s)) for m in (1, 3, 2, 4)
    ]
    sent = releases(made, theta=theta)
    found = network.fuse(made, sent)
    level = pv.StreamLevel.constant(s)
    learner = pv.PrivateRLS(level, 2, noise=noise)
    values = np.concatenate([z.values for z in sent])
    learner.update(
        pv.Release(0, len(values), values, None, level.fingerprint, True),
        np.concatenate([sensor.model.matrix for sensor in made]),
    )
    assert np.allclose(learner.value, found.value, rtol=RTOL)
    assert np.allclose(learner.covariance, found.covariance, rtol=RTOL)


def test_contributions_add():
    """A centre that takes releases as they come, and leaves sensors out, by sums."""
    made = sensors(9, seed=7)
    sent, more = releases(made, seed=1), releases(made, seed=2)
    parts, later = contributions(made, sent), contributions(made, more)
    found = sum(parts[1:], parts[0]).result()
    whole = network.fuse(made, sent)
    assert np.allclose(found.value, whole.value, rtol=RTOL)
    assert np.allclose(found.covariance, whole.covariance, rtol=RTOL, atol=1e-14)
    assert found.simulated
    kept = [k for k in range(9) if k != 4]
    found = sum([parts[k] for k in kept], later[2]).result()
    whole = network.fuse([made[k] for k in kept] + [made[2]], [sent[k] for k in kept] + [more[2]])
    assert np.allclose(found.value, whole.value, rtol=RTOL)
    with pytest.raises(pv.errors.NotIdentifiable, match="of 3 directions"):
        contributions(made, sent)[3].result()
    trials = contributions(made, releases(made, trials=3))
    with pytest.raises(pv.errors.InvalidInput, match="same number of trials add"):
        parts[0] + trials[0]
    both = (trials[0] + trials[1] + trials[2]).result()
    assert np.allclose(both.value, network.fuse(made[:3], releases(made, trials=3)[:3]).value)
    with pytest.raises(pv.errors.InvalidInput, match="add the contributions"):
        network.Contribution.stack(parts).result()


def test_two_networks_meet_through_sums():
    """The sum of contributions is one like any other: it enters consensus."""
    made = sensors(12, seed=5)
    sent = releases(made)
    parts = contributions(made, sent)
    groups = [sum(parts[a + 1 : b], parts[a]) for a, b in ((0, 4), (4, 9), (9, 12))]
    found = network.consensus(groups, network.Graph([(0, 1), (1, 2)]), tolerance=1e-9)
    assert np.allclose(found.estimates, network.fuse(made, sent).value, rtol=0, atol=1e-9)


def test_relays_take_part_without_a_reading_of_their_own():
    made = sensors(6, seed=5)
    relay = network.Sensor(np.ones((1, 3)), pv.noise.Gaussian(1.0), pv.PrivacyLevel(0.0))
    sent = releases(made)
    silent = relay.simulate([5.0], np.random.default_rng(0))
    assert silent.values.size == 0
    parts = contributions([*made, relay], [*sent, silent])
    assert not parts[-1].x.any()
    assert not parts[-1].r.any()
    found = network.consensus(parts, network.Graph.star(7), tolerance=1e-9)
    assert np.abs(found.estimates - network.fuse(made, sent).value).max() < 1e-9


def test_a_shifted_noise_mean_is_taken_off():
    """With almost no noise at all the estimate is θ: release noise 1e-6, w = its mean ± 1e-6."""
    rng = np.random.default_rng(2)
    H = rng.standard_normal((5, 3))
    noise = pv.noise.Gaussian(cov=np.full(5, 1e-12), mean=np.arange(5.0))
    made = [network.Sensor(H, noise, pv.PrivacyLevel(1e12))]
    found = network.fuse(made, releases(made))
    assert distance_in_deviations(found) < 6


def distance_in_deviations(found):
    error = found.value - THETA
    return float(np.sqrt(error @ np.linalg.solve(found.covariance, error)))
