"""Results go to JSON and give intervals; releases of many series are read back with care."""

import json

import numpy as np
import pytest

import privest as pv
from privest import dynamics
from privest.errors import InvalidInput

PAIR = dynamics.StateSpace([[1.0, 0.1], [0.0, 0.9]], [[1.0, 0.0]], 0.1, 0.5, cov0=1.0)
LEVEL = pv.StreamLevel.constant(2.0)
RNG = np.random.default_rng(0)
Y = PAIR.sample(6, RNG, trials=4)[1]
GAPS = np.where(np.arange(6) == 2, np.nan, Y[:, :, 0])[:, :, None]
SOME = Y.copy()
SOME[1, 3] = np.nan


@pytest.mark.parametrize("y", [Y, GAPS, SOME], ids=["all", "one pattern", "patterns"])
def test_a_series_release_comes_back(y):
    release = pv.StreamMechanism(LEVEL).simulate(y, np.random.default_rng(1))
    record = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    again = pv.Release.from_dict(record)
    assert np.array_equal(again.values, release.values, equal_nan=True)
    assert np.array_equal(again.missing, release.missing)
    assert (again.fingerprint, again.simulated, again.start) == (LEVEL.fingerprint, True, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "series release"},
        {"values": [[1.0]]},
        {"values": [[["a"]]]},
        {"values": [[[]]]},
        {"values": [[["Infinity"]]]},
        {"start": -1},
        {"fingerprint": 3},
        {"simulated": "yes"},
    ],
)
def test_a_changed_series_release_is_refused(change):
    release = pv.StreamMechanism(LEVEL).simulate(GAPS, np.random.default_rng(1))
    with pytest.raises(InvalidInput):
        pv.Release.from_dict(release.to_dict() | change)


def test_a_series_takes_a_level_in_any_form():
    found = [
        pv.StreamMechanism(level).simulate(Y, np.random.default_rng(1))
        for level in (LEVEL, 2.0, pv.PrivacyLevel(2.0), [[2.0]])
    ]
    for other in found[1:]:
        assert np.array_equal(other.values, found[0].values)
        assert other.fingerprint == LEVEL.fingerprint
    with pytest.raises(pv.errors.InvalidInput):
        pv.StreamMechanism(None).simulate(Y, RNG)
    with pytest.raises(InvalidInput, match="one size"):
        pv.StreamMechanism(pv.StreamLevel([np.eye(1), np.eye(2)])).simulate(Y, RNG)


def results():
    release = pv.StreamMechanism(LEVEL).simulate(Y, np.random.default_rng(1))
    stream = pv.StreamMechanism(LEVEL).simulate(Y[0], np.random.default_rng(1))
    bent = dynamics.NonlinearStateSpace(np.sin, np.sin, 1.0, 1.0, [0.0], 1.0)
    filtered = dynamics.filter(PAIR, release, level=LEVEL)
    yield from (filtered.filtered, filtered.smoothed, filtered.forecast(3))
    yield dynamics.filter(bent, stream, level=LEVEL, method="extended")
    yield pv.bound(PAIR, LEVEL, steps=6)
    yield pv.bound(PAIR, LEVEL, steps=6).classical
    yield dynamics.local_bound(bent, LEVEL, np.zeros((3, 1)))
    yield dynamics.steady_state(PAIR, LEVEL)
    yield dynamics.best_directions(PAIR, 1.0)


@pytest.mark.parametrize("result", list(results()), ids=lambda result: type(result).__name__)
def test_every_result_goes_to_json(result):
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert record
    assert not any(name.startswith("_") for name in record)
    for name, value in record.items():
        own = getattr(result, name)
        if isinstance(own, np.ndarray) and np.isfinite(own).all():
            assert np.array_equal(np.array(value), own)
    if hasattr(result, "interval"):
        assert result.interval(0.5).shape == (*result.value.shape, 2)
        assert np.allclose(result.interval().mean(axis=-1), result.value)


def test_a_filter_that_runs_gives_intervals():
    kalman = dynamics.PrivateKalman(PAIR, 2.0)
    kalman.update(pv.StreamMechanism(LEVEL).simulate(Y[0], np.random.default_rng(1)))
    low, high = kalman.interval(0.9).T
    assert ((low < kalman.value) & (kalman.value < high)).all()


def test_the_errors_without_privacy_are_smaller():
    limit = pv.bound(PAIR, LEVEL, steps=6)
    assert (limit.classical_error <= limit.standard_error).all()


def test_the_parts_of_a_release_start_where_it_starts():
    release = pv.StreamMechanism(LEVEL).simulate(SOME, np.random.default_rng(1))
    later = pv.Release.from_dict(release.to_dict() | {"start": 2})
    assert [part.start for _, part in later.by_pattern()] == [2, 2]
