"""The door for noise: seeds, states that go on, and no noise lost in rounding."""

import itertools

import numpy as np
import pytest
import scipy

import privest as pv
from privest.errors import InvalidInput
from privest.mechanism.source import (
    LARGEST,
    Generated,
    Protected,
    as_source,
    require_room,
    seeded,
)

Y = np.array([0.3, -1.2, 2.5])


def noise(shown, *facts, seed=7):
    shown = np.asarray(shown, dtype=float)
    return seeded(seed, *facts).add_noise(shown) - shown


def test_the_same_release_again_is_the_same_numbers():
    assert np.array_equal(seeded(7, "a").add_noise(Y), seeded(7, "a").add_noise(Y.copy()))
    wide = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(noise(wide.T), noise(np.ascontiguousarray(wide.T)))  # whatever the layout


@pytest.mark.parametrize("shown", [np.nextafter(Y, 9.0), Y * np.sqrt(2.0), -1e3 * Y])
def test_the_noise_of_a_seed_does_not_depend_on_a_computed_number(shown):
    """Else the last bit of a weight, which differs between processors, changed all of it.

    A sum of numbers below 2¹² is rounded to 2⁻⁴² or better, and their difference again.
    """
    np.testing.assert_allclose(noise(shown, "a"), noise(Y, "a"), rtol=0, atol=2.0**-40)


@pytest.mark.parametrize(
    "other",
    [noise(Y, "b"), noise(Y, "a", 0), noise(Y), noise(Y, "a", seed=8)],
    ids=["fact", "further fact", "no fact", "seed"],
)
def test_another_seed_or_fact_is_other_noise_everywhere(other):
    own = noise(Y, "a")
    assert (np.abs(own - other) > 1e-6).all()  # P(one of three so close) < 2e-6


def test_one_source_has_other_noise_for_every_release():
    source = seeded(3)
    one, two = (source.add_noise(np.zeros(3)) for _ in range(2))
    assert (np.abs(one - two) > 1e-6).all()
    stream = pv.StreamMechanism(pv.StreamLevel.constant(1.0))
    steps = stream.simulate(np.full(4, 0.5), seeded(3)).values
    assert len(set(steps)) == 4  # equal readings, one after another


def test_facts_do_not_run_into_each_other():
    assert (noise(Y, "a", "b") != noise(Y, "ab")).all()
    assert (noise(Y, 1) != noise(Y, "1")).all()
    assert (noise(Y, 1, seed=11) != noise(Y, 11, seed=1)).all()


@pytest.mark.parametrize(
    "level",
    [
        pv.StreamLevel.constant(1.0),
        pv.StreamLevel.constant(2.0 * np.eye(2)),
        pv.StreamLevel.constant(1.0, lags=[0.5]),
        pv.StreamLevel([np.eye(2), np.eye(3), np.eye(2)]),
        pv.StreamLevel(np.ones(90), 0.01 * np.tril(np.ones((90, 90)), -1)),
    ],
    ids=repr,
)
def test_a_stream_has_the_same_noise_in_any_blocks(level):
    """One run in blocks and one step by step are the same simulation."""
    sizes = level.sizes_between(0, level.steps or 3)
    y = np.random.default_rng(0).standard_normal(sum(sizes))
    whole = pv.StreamMechanism(level).simulate(y, seeded(3)).values
    stream, ends, source = pv.StreamMechanism(level), np.cumsum([0, *sizes]), seeded(3)
    single = [stream.simulate(y[a:b], source).values for a, b in itertools.pairwise(ends)]
    assert np.array_equal(whole, np.concatenate(single))
    other = y.copy()
    other[-1] += 0.5  # the future changes nothing
    assert np.array_equal(
        pv.StreamMechanism(level).simulate(other, seeded(3)).values[: -sizes[-1]],
        whole[: -sizes[-1]],
    )


def test_noise_of_a_seed_is_standard_normal():
    """Mean and variance of 40,000 draws within 5 standard errors; neighbours uncorrelated."""
    e = noise(np.zeros(40_000))
    assert abs(e.mean()) < 5 / 200
    assert abs(e.var() - 1) < 5 * np.sqrt(2) / 200
    assert abs((e[1:] * e[:-1]).mean()) < 5 / 200
    assert abs((e**4).mean() - 3) < 5 * np.sqrt(96) / 200
    stream = pv.StreamMechanism(1.0).simulate(np.zeros(40_000), seeded(4)).values
    assert scipy.stats.kstest(stream, "norm").pvalue > 1e-6
    assert scipy.stats.kstest(e, "norm").pvalue > 1e-6


def test_without_a_seed_every_source_is_fresh():
    assert (seeded(None).add_noise(Y) != seeded(None).add_noise(Y)).all()


@pytest.mark.parametrize(
    "make", [lambda: seeded(5, "x"), lambda: Generated(np.random.default_rng(1))]
)
def test_a_state_goes_on(make):
    one, two = make(), seeded(6)
    one.add_noise(Y)
    assert one.kind == two.kind
    two.restore(one.state())
    assert np.array_equal(one.add_noise(Y), two.add_noise(Y))


def test_a_state_is_refused_where_no_generator_has_it():
    """PCG64 has 128 bits: 2¹²⁸ − 1 is a state, 2¹²⁸ is none."""
    own = Generated(np.random.default_rng(1))
    for largest, taken in ((2**128 - 1, True), (2**128, False)):
        state = own.state() | {"state": own.state()["state"] | {"state": largest}}
        if taken:
            own.restore(state)
            assert own.state() == state
        else:
            with pytest.raises(InvalidInput, match="state of a generator"):
                own.restore(state)


def test_what_is_no_source():
    for bad in (None, 3, np.random):
        with pytest.raises(InvalidInput, match=r"numpy\.random\.Generator"):
            as_source(bad)
    for bad in (-1, 1.0, True, "1"):
        with pytest.raises(InvalidInput, match="whole number"):
            seeded(bad)
    source = seeded(1)
    assert as_source(source) is source


def test_the_guard_stands_where_doubles_lie_too_far_apart():
    below, at = np.nextafter(LARGEST, 0), LARGEST
    assert np.spacing(below) == 2.0**-10
    assert np.spacing(at) == 2.0**-9
    for shown in ([below], [0.0, -below], [], [[1.0]]):
        require_room(np.array(shown))
    for shown in ([at], [0.0, -at], [np.nan], [1.0, np.nan], [np.inf], [-np.inf, 0.0]):
        with pytest.raises(InvalidInput, match="lost in rounding"):
            require_room(np.array(shown))


@pytest.mark.parametrize(("level", "y"), [(1e40, 0.5), (4.0, 1.2345e30)])
def test_readings_are_never_shown_as_they_are(level, y):
    rng = np.random.default_rng(0)
    sensor = pv.network.Sensor([[1.0]], pv.noise.Gaussian(), pv.PrivacyLevel(level))
    for release in (
        lambda: pv.mechanism.GaussianMechanism(level, 1).simulate([y], rng),
        lambda: pv.StreamMechanism(pv.StreamLevel.constant(level)).simulate(y, rng),
        lambda: pv.StreamMechanism(pv.StreamLevel.constant(level)).simulate([[[y]]], rng),
        lambda: sensor.simulate([y], rng),
    ):
        with pytest.raises(InvalidInput, match="lost in rounding") as told:
            release()
        assert "1.2345" not in str(told.value)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_a_generator_goes_on(kind):
    generator = kind(3)
    first, second = (seeded(generator).add_noise(Y) for _ in range(2))
    assert (np.abs(second - first) > 1e-6).all()
    assert np.array_equal(seeded(kind(3)).add_noise(Y), first)


@pytest.mark.parametrize("make", [Protected, lambda: Generated(np.random.default_rng(1))])
def test_a_distribution_that_is_not_known_is_not_drawn(make, monkeypatch):
    """Nor is one whose name passes the check, as that of a new one would."""
    with pytest.raises(InvalidInput, match="law must be one of gaussian, laplace"):
        make().add_noise(Y, law="cauchy")
    monkeypatch.setattr("privest.mechanism.source._noise.law_fact", str)
    with pytest.raises(KeyError, match="cauchy"):
        make().add_noise(Y, law="cauchy")
