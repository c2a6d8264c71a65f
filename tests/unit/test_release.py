"""What travels is read with suspicion: whatever a record holds, a release or InvalidInput."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from privest.errors import InvalidInput
from privest.reading import read_numbers
from privest.release import Release

LEVEL = pv.StreamLevel.constant(2.0)
MISSING = np.array([False, True, False])
GOOD = Release(3, 3, np.array([0.1, np.nan, 0.3]), MISSING, LEVEL.fingerprint, True)
PAIRS = Release(0, 2, np.arange(4.0), None, "0", False, 2.0**-10)


@pytest.mark.parametrize("release", [GOOD, PAIRS])
def test_there_and_back(release):
    again = Release.from_dict(json.loads(json.dumps(release.to_dict(), allow_nan=False)))
    assert again.to_dict() == release.to_dict()
    assert again.values.dtype == float
    assert np.array_equal(again.values, release.values, equal_nan=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "series release"),
        ("kind", None),
        ("values", [0.1, float("nan"), 0.3]),
        ("values", [0.1, None, float("inf")]),
        ("values", [0.1, None, 10**400]),
        ("values", [[0.1], [None], [0.3]]),
        ("values", [[0.1], [None, 0.2], [0.3]]),
        ("values", [0.1, None, "0.3"]),
        ("values", [0.1, None, True]),
        ("values", [0.1, None, {}]),
        ("values", [None, 0.2, 0.3]),
        ("values", [0.1, 0.2, 0.3]),
        ("values", [0.1, None]),
        ("values", []),
        ("values", 0.1),
        ("values", None),
        ("steps", 0),
        ("steps", -3),
        ("steps", 2),
        ("steps", 4),
        ("steps", 10**30),
        ("steps", 3.0),
        ("start", -1),
        ("start", 2**70),
        ("start", True),
        ("start", None),
        ("missing", None),
        ("missing", [1]),
        ("missing", [0, 1, 0]),
        ("missing", [False, True]),
        ("missing", [[False, True, False]]),
        ("missing", "yes"),
        ("fingerprint", 3),
        ("fingerprint", None),
        ("simulated", 1),
        ("simulated", None),
    ],
)
def test_what_was_changed_is_refused(field, value):
    with pytest.raises(InvalidInput):
        Release.from_dict(GOOD.to_dict() | {field: value})


@pytest.mark.parametrize(
    "change",
    [
        {"simulated": False},
        {"simulated": False, "grid": 0.1},
        {"simulated": False, "grid": 2.0**-9},
        {"simulated": False, "grid": 2.0**-11},
        {"simulated": False, "grid": 2.0**-52},
        {"grid": 2.0**-10},
    ],
)
def test_no_record_can_say_that_other_noise_was_protected(change):
    record = GOOD.to_dict() | {"values": [0.5, None, 1.5]}
    assert Release.from_dict(record).simulated
    with pytest.raises(InvalidInput, match="grid"):
        Release.from_dict(record | change)
    assert not Release.from_dict(record | {"simulated": False, "grid": 2.0**-10}).simulated


def test_values_without_a_step_that_fits():
    """Two readings a step: the release knows how many are missing, the level which."""
    record = PAIRS.to_dict()
    for values, missing in (([None, 1.0, 2.0, 3.0], None), ([None] * 4, [True, False])):
        with pytest.raises(InvalidInput):
            Release.from_dict(record | {"values": values, "missing": missing})
    fits = record | {"values": [None, None, 2.0, 3.0], "missing": [True, False]}
    assert Release.from_dict(fits).missing.tolist() == [True, False]


@pytest.mark.parametrize("record", [None, [], "stream release", 3, {}, {"start": 0}])
def test_what_is_no_release(record):
    with pytest.raises(InvalidInput, match="not a stream release"):
        Release.from_dict(record)


@pytest.mark.parametrize(
    "name", ["start", "steps", "values", "missing", "fingerprint", "simulated"]
)
def test_every_field_is_needed(name):
    record = GOOD.to_dict()
    del record[name]
    with pytest.raises(InvalidInput, match="some of them are not there"):
        Release.from_dict(record)


def test_a_list_without_end_is_an_error_of_the_input():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        read_numbers(deep, "it")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(GOOD.to_dict())), ANYTHING)
def test_whatever_a_field_holds(field, value):
    try:
        release = Release.from_dict(GOOD.to_dict() | {field: value})
    except InvalidInput:
        return
    assert isinstance(release, Release)
    if len(release.values) == release.steps:  # else only the level knows which belong to a step
        assert np.array_equal(np.isnan(release.values), MISSING)


def test_a_release_is_used_with_its_level_only():
    GOOD.require(LEVEL.fingerprint)
    with pytest.raises(InvalidInput, match="another level"):
        GOOD.require(pv.StreamLevel.constant(2.5).fingerprint)
    assert GOOD.level is None
    assert "level" not in GOOD.to_dict()  # it does not travel
    assert isinstance(GOOD, Release)
