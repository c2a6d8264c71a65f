"""Sensors, consensus and averages: edge cases and what each refusal says."""

import numpy as np
import pytest

import privest as pv
from network_sample import contributions, releases, sensors
from privest import network
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.network._rounds import packed, unpacked
from privest.network._sensor import SensorRelease

NOISE = pv.noise.Gaussian(cov=0.5)
RNG = np.random.default_rng


def parts_of(count=6, seed=0):
    made = sensors(count, seed=seed)
    return contributions(made, releases(made))


def test_a_sensor_needs_a_level_and_readings_of_its_size():
    with pytest.raises(InvalidInput, match="level is None"):
        network.Sensor([[1.0]], NOISE, None)
    assert network.Sensor([[1.0]], NOISE, 1.0).level.number == 1.0
    sensor = network.Sensor([[1.0], [2.0]], NOISE, pv.PrivacyLevel([1.0, 0.0]))
    assert (sensor.measurements, sensor.outputs, sensor.parameters) == (2, 1, 1)
    with pytest.raises(InvalidInput, match="2 measurements; received shape"):
        sensor.simulate([1.0], RNG(0))
    release = sensor.simulate([1.0, 2.0], RNG(0))
    assert release.simulated
    assert not hasattr(release, "__dict__")  # nothing can be hung onto a release
    with pytest.raises(InvalidInput, match="has 1 value; received shape"):
        sensor.contribution(SensorRelease(np.zeros(2), release.fingerprint, True))
    with pytest.raises(InvalidInput, match="SensorRelease; received ndarray"):
        sensor.contribution(np.zeros(1))


def test_errors_do_not_show_readings():
    sensor = network.Sensor([[1.0]], NOISE, pv.PrivacyLevel(1.0))
    with pytest.raises(InvalidInput) as caught:
        sensor.simulate([123.456, 654.321], RNG(0))
    assert "123.456" not in str(caught.value)


def test_the_release_of_the_same_seed_is_the_gaussian_mechanism():
    level = pv.PrivacyLevel([[2.0, 1.0], [1.0, 2.0]])
    sensor = network.Sensor([[1.0], [1.0]], NOISE, level)
    own = sensor.simulate([1.0, -2.0], RNG(3)).values
    peer = pv.mechanism.GaussianMechanism(level, 2).simulate([1.0, -2.0], RNG(3))
    assert np.allclose(own, peer, rtol=1e-14)


def test_sensors_must_share_theta():
    one = network.Sensor([[1.0]], NOISE, pv.PrivacyLevel(1.0))
    two = network.Sensor([[1.0, 2.0]], NOISE, pv.PrivacyLevel(1.0))
    with pytest.raises(InvalidInput, match=r"different numbers of parameters: \[1, 2\]"):
        network.joint_model([one, two])
    with pytest.raises(InvalidInput, match="at least one"):
        network.joint_model([])
    with pytest.raises(InvalidInput, match="2 sensors sent 1 releases"):
        network.fuse([one, one], [one.simulate([1.0], RNG(0))])
    with pytest.raises(InvalidInput, match="different numbers of trials"):
        network.fuse([one, one], [one.simulate([1.0], RNG(0)), one.simulate([[1.0]] * 3, RNG(0))])


def test_what_all_sensors_together_do_not_show():
    blind = [network.Sensor([[1.0, 0.0]], NOISE, pv.PrivacyLevel(1.0)) for _ in range(3)]
    sent = [sensor.simulate([1.0], RNG(0)) for sensor in blind]
    for attempt in (
        lambda: network.fuse(blind, sent),
        lambda: network.consensus(contributions(blind, sent), network.Graph.ring(3)),
    ):
        with pytest.raises(NotIdentifiable) as caught:
            attempt()
        assert np.allclose(np.abs(caught.value.hidden_directions.ravel()), [0.0, 1.0], atol=1e-12)
    with pytest.raises(NotIdentifiable, match="together show 1 of 2"):
        blind[0].contribution(sent[0]).result()


def test_no_single_agent_needs_to_see_everything():
    """Each sees one direction; together all."""
    made = [network.Sensor(np.eye(3)[[k]], NOISE, pv.PrivacyLevel(1.0)) for k in range(3)]
    sent = releases(made)
    found = network.consensus(
        contributions(made, sent), network.Graph([(0, 1), (1, 2)]), trace=True
    )
    assert np.isnan(found.trace[0]).all()
    assert np.abs(found.estimates - network.fuse(made, sent).value).max() < 1e-9


def test_agents_that_agree_need_no_round():
    sensor = network.Sensor(np.eye(2), NOISE, 1.0)
    part = sensor.contribution(sensor.simulate([1.0, 2.0], RNG(0)))
    found = network.consensus([part] * 4, network.Graph.ring(4))
    assert found.rounds == 0
    assert np.allclose(found.estimates, part.result().value, rtol=1e-12)


def test_consensus_refuses():
    parts = parts_of()
    with pytest.raises(InvalidInput, match="6 agents contribute, the graph is for 5"):
        network.consensus(parts, network.Graph.ring(5))
    with pytest.raises(InvalidInput, match="one of plain, chebyshev"):
        network.consensus(parts, network.Graph.ring(6), method="fast")
    lossy = network.TimeVarying([network.Graph.ring(6)], loss=0.1, rng=0)
    with pytest.raises(InvalidInput, match="same W in every round"):
        network.consensus(parts, lossy, method="chebyshev")
    with pytest.raises(InvalidInput, match="tolerance must be > 0"):
        network.consensus(parts, network.Graph.ring(6), tolerance=0.0)
    with pytest.raises(InvalidInput, match="one Contribution an agent"):
        network.consensus([], network.Graph.ring(6))
    with pytest.raises(InvalidInput, match="same θ"):
        network.consensus([*parts, *parts_of_one_parameter()], network.Graph.ring(7))


def parts_of_one_parameter():
    sensor = network.Sensor([[1.0]], NOISE, pv.PrivacyLevel(1.0))
    return [sensor.contribution(sensor.simulate([1.0], RNG(0)))]


def test_no_half_result():
    with pytest.raises(NumericalFailure, match=r"After 5 rounds .* certified to .* only"):
        network.consensus(parts_of(), network.Graph.ring(6), method="plain", max_rounds=5)
    with pytest.raises(NumericalFailure, match="Rounding alone is"):
        network.consensus(parts_of(), network.Graph.ring(6), tolerance=1e-16)
    with pytest.raises(NumericalFailure, match="After 3 rounds"):
        average(np.arange(6.0), 1.0, network.Graph.ring(6), max_rounds=3)


def average(y, level, links, seed=0, **more):
    sensor = network.Sensor(np.ones((len(y), 1)), NOISE, level)
    return network.average(sensor.simulate(y, RNG(seed)), links, **more)


def test_an_average_beyond_double_precision_is_an_error():
    with pytest.raises(NumericalFailure, match="Rounding alone"):
        average(1e6 + np.arange(6.0), 1.0, network.Graph.ring(6), tolerance=1e-14)


@pytest.mark.parametrize(
    ("x", "r", "text"),
    [
        (np.zeros(2), np.eye(3), "received shapes"),
        (np.zeros((1, 1, 2)), np.eye(2), "received shapes"),
        (np.array([np.nan, 0.0]), np.eye(2), "x of a contribution must be finite"),
        (np.zeros(2), np.array([[1.0, 0.5], [0.4, 1.0]]), "not symmetric"),
    ],
)
def test_bad_contributions(x, r, text):
    with pytest.raises(InvalidInput, match=text):
        network.Contribution(x, r)


def test_what_rounding_moves_is_noticed():
    """A long run of plain averaging: the mean over agents is no longer the same to 3e-12."""
    made = sensors(100, seed=1)
    parts = contributions(made, releases(made))
    with pytest.raises(NumericalFailure, match="Rounding has moved the average over the agents"):
        network.consensus(parts, network.Graph.ring(100), method="plain", tolerance=3e-12)


def test_one_agent_needs_no_round():
    made = [network.Sensor(np.eye(2), NOISE, pv.PrivacyLevel(1.0))]
    sent = releases(made, theta=np.array([1.0, 2.0]))
    found = network.consensus(contributions(made, sent), network.Graph([], 1))
    assert found.rounds == 0
    assert np.allclose(found.estimates[0], network.fuse(made, sent).value, rtol=1e-12)


def test_the_units_of_theta_do_not_matter():
    """Parameters in units 1e-6 and 1e6: the same rounds, the same certificate."""
    made, sent = sensors(8, seed=1), releases(sensors(8, seed=1))
    parts = contributions(made, sent)
    unit = np.array([1e-6, 1.0, 1e6])
    scaled = [network.Contribution(p.x * unit, p.r * unit * unit[:, None]) for p in parts]
    usual = network.consensus(parts, network.Graph.ring(8), tolerance=1e-9)
    other = network.consensus(scaled, network.Graph.ring(8), tolerance=1e-9)
    assert other.rounds == usual.rounds
    assert np.allclose(other.estimates * unit, usual.estimates, rtol=0, atol=1e-9)
    assert other.certified_error == pytest.approx(usual.certified_error, rel=1e-3)


def test_packing():
    rng = RNG(0)
    x, r = rng.standard_normal((4, 3)), rng.standard_normal((4, 3, 3))
    r = r + r.swapaxes(1, 2)
    vector = packed(x, r)
    assert vector.shape == (4, 9)
    assert all(np.array_equal(a, b) for a, b in zip(unpacked(vector, 3), (x, r)))


def test_averages_refuse():
    y, ring = np.arange(4.0), network.Graph.ring(4)
    with pytest.raises(NotIdentifiable, match="Agent 2 reveals nothing"):
        average(y, [1.0, 1.0, 0.0, 1.0], ring)
    with pytest.raises(InvalidInput, match="number or a diagonal"):
        average(y, np.eye(4) + 0.1, ring)
    with pytest.raises(InvalidInput, match="received ndarray"):
        network.average(y, ring)
    one, two = (average(y, s, ring) for s in (1.0, pv.PrivacyLevel(1.0)))
    assert np.array_equal(one.estimates, two.estimates)


def test_the_average_is_that_of_the_first_messages():
    y, level = np.arange(9.0), pv.PrivacyLevel(np.arange(1.0, 10.0))
    mechanism = pv.mechanism.GaussianMechanism(level, 9)
    first = mechanism.simulate(y, RNG(4)) / np.sqrt(np.arange(1.0, 10.0))
    for links in (
        network.Graph.ring(9),
        network.TimeVarying([network.Graph.ring(9)], loss=0.3, rng=1),
    ):
        found = average(y, level, links, 4, tolerance=1e-9)
        unit = float(found.result(0).standard_error[0])
        assert np.abs(found.estimates - first.mean()).max() <= 1.001e-9 * unit
        assert found.certified_error <= 1e-9
        assert found.simulated
