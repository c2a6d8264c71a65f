"""Vector measurements of which a part is missing: the rest is shown where nothing mixes them."""

import json

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput

S3 = np.array([[2.0, 0.6, 0.1], [0.6, 1.5, -0.3], [0.1, -0.3, 1.0]])
NAN = float("nan")


def test_a_level_of_one_direction_shows_nothing_without_all_of_it():
    """S = 11ᵀ: only the sum may be known, and it is not there. The step counts as missing."""
    level = pv.StreamLevel.constant(np.ones((3, 3)))
    release = pv.StreamMechanism(level).release([[1.0, 2.0, 3.0], [1.0, NAN, 3.0]])
    assert release.missing.tolist() == [False, True]
    assert np.isnan(release.values).tolist() == [False] * 3 + [True] * 3


@pytest.mark.parametrize("kind", ["lags", "dense", "range", "mixed"])
def test_where_sums_of_more_than_what_is_there_are_promised_nothing_is_shown(kind):
    mechanism = {
        "lags": lambda: pv.StreamMechanism(pv.StreamLevel.constant(S3, lags=[0.5])),
        "dense": lambda: pv.StreamMechanism(
            pv.StreamLevel.from_cumulative(np.eye(6) + 0.3, sizes=[3, 3])
        ),
        "range": lambda: pv.StreamMechanism(pv.StreamLevel.constant(S3), range=(-9.0, 9.0)),
        "mixed": lambda: pv.StreamMechanism(pv.StreamLevel.constant(S3)),
    }[kind]
    y = [[1.0, NAN, 2.0], [0.1, 0.2, 0.3]]
    rng = np.random.default_rng(0)
    for release in (mechanism().release(y), mechanism().simulate(y, rng)):
        assert release.missing.tolist() == [True, False]


def test_a_range_clips_single_readings_and_keeps_the_others():
    level = pv.StreamLevel.constant(np.diag([4.0, 1.0]))
    release = pv.StreamMechanism(level, range=(0.0, 1.0)).release([[1e9, NAN]] * 50)
    assert np.array_equal(release.missing, np.tile([[False, True]], (50, 1)))
    assert np.nanmax(np.abs(release.values - 2.0)) < 9.0  # at the end of the range, and noise


@pytest.mark.parametrize("sizes", [(3, 3), (3, 2)])
def test_no_value_of_a_reading_decides_what_is_shown_and_it_stays_where_it_was(sizes):
    """Infinite readings are clipped; those of a part do not touch the places of the others."""
    blocks = [np.diag(np.arange(1.0, size + 1)) for size in sizes]
    level = pv.StreamLevel(blocks if len(set(sizes)) > 1 else np.stack(blocks))
    y = np.full(sum(sizes), 0.5)
    y[1], y[-1] = np.nan, np.inf
    release = pv.StreamMechanism(level).release(y)
    assert np.array_equal(np.isnan(release.values), np.isnan(y))
    assert release.missing.shape == ((2, 3) if sizes[0] == sizes[1] else (1, 5))
    assert np.array_equal(release.missing.ravel(), np.isnan(y))
    both = [release.part(k, k + 1, sizes) for k in (0, 1)]
    assert both[0].missing.tolist() == [[False, True, False]]
    assert both[1].missing is None
    again = pv.Release.from_dict(json.loads(json.dumps(release.to_dict())))
    assert np.array_equal(again.missing, release.missing)
    assert again.missing.shape == release.missing.shape


def test_whole_steps_are_what_they_were():
    """Missing whole or not at all: flags of steps, and the numbers of a trial to the last bit."""
    level = pv.StreamLevel.constant(S3)
    y = np.random.default_rng(1).standard_normal((6, 3))
    plain = pv.StreamMechanism(level).simulate(y, np.random.default_rng(2))
    y[2] = np.nan
    gap = pv.StreamMechanism(level).simulate(y, np.random.default_rng(2))
    assert plain.missing is None
    assert gap.missing.tolist() == [False, False, True, False, False, False]
    y[4, 1] = np.nan
    part = pv.StreamMechanism(level).simulate(y, np.random.default_rng(2))
    rows = np.repeat(np.arange(6), 3)
    for k in (0, 1, 3, 5):
        assert np.array_equal(plain.values[rows == k], gap.values[rows == k])
        assert np.array_equal(plain.values[rows == k], part.values[rows == k])


@pytest.mark.parametrize(
    "missing",
    [
        [[False, True], [False, False], [False, False]],
        [[False, True, False], [False, False]],
        [[False, True, False, False, False, False]] * 2,
        [[False, False, True], [False, False, False]],
        [[0, 1, 0], [0, 0, 0]],
        [[[False, True, False]], [[False, False, False]]],
        [False, True, False, False, False, False],
        [False, False],
        None,
    ],
)
def test_flags_that_do_not_go_with_the_values_are_refused(missing):
    release = pv.StreamMechanism(pv.StreamLevel.constant(np.eye(3))).release(
        [[1.0, NAN, 2.0], [0.1, 0.2, 0.3]]
    )
    record = release.to_dict()
    assert pv.Release.from_dict(record).missing.tolist() == record["missing"]
    with pytest.raises(InvalidInput):
        pv.Release.from_dict(record | {"missing": missing})


def test_a_release_that_was_written_before_is_read():
    """As an earlier version wrote it: flags of steps, all of a step missing."""
    level = pv.StreamLevel.constant(S3)
    record = {
        "kind": "stream release", "start": 0, "steps": 2, "fingerprint": level.fingerprint,
        "values": [None, None, None, 0.5, 0.25, -1.0], "missing": [True, False],
        "simulated": False, "grid": 2.0**-10,
    }  # fmt: skip
    release = pv.Release.from_dict(record)
    assert release.missing.tolist() == [True, False]
    assert release.to_dict() == record
