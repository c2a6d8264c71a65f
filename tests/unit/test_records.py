"""What every result can do: plain values for JSON, and intervals."""

import json
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from privest.errors import InvalidInput
from privest.records import Estimated, Record, plain, quantile


class Colour(Enum):
    RED = "red"


class Count(IntEnum):
    TWO = 2


@dataclass
class Pair:
    one: object
    two: object


class Opaque:
    def __repr__(self):
        return "Opaque(3 states)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.arange(3), [0, 1, 2]),
        (np.array([[1.5, np.nan], [np.inf, 0.0]]), [[1.5, None], ["Infinity", 0.0]]),
        (np.array([True, False]), [True, False]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.float64(0.1), 0.1),
        (np.float64(-np.inf), "-Infinity"),
        (np.int32(7), 7),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (float("nan"), None),
        (None, None),
        ({1: np.zeros(1), "b": (1, "x")}, {"1": [0.0], "b": [1, "x"]}),
        (Colour.RED, "red"),
        (Count.TWO, 2),
        (Path("a") / "b", str(Path("a") / "b")),
        (Pair(np.ones(2), Pair(1, None)), {"one": [1.0, 1.0], "two": {"one": 1, "two": None}}),
        (Opaque(), "Opaque(3 states)"),
    ],
)
def test_plain_values_are_what_json_holds(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected) or isinstance(value, IntEnum)
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


@dataclass(frozen=True, eq=False)
class Found(Estimated, Record):
    value: np.ndarray
    covariance: np.ndarray
    _kept: object = None


@dataclass(frozen=True)
class Doubled(Record):
    value: float

    DERIVED: ClassVar = ("twice",)

    @property
    def twice(self):
        return 2 * self.value


def test_a_record_gives_its_public_fields_and_what_is_derived():
    assert Doubled(1.5).to_dict() == {"value": 1.5, "twice": 3.0}
    assert Doubled(float("inf")).to_dict() == {"value": "Infinity", "twice": "Infinity"}
    found = Found(np.zeros(1), np.full((1, 1), 4.0), object())
    expected = {"value": [0.0], "covariance": [[4.0]], "standard_error": [2.0]}
    assert found.to_dict() == expected


def test_intervals_are_those_of_the_normal_law():
    found = Found(np.arange(6.0).reshape(3, 2), np.broadcast_to(np.diag([1.0, 4.0]), (3, 2, 2)))
    low, high = np.moveaxis(found.interval(0.9), -1, 0)
    expected = stats.norm(found.value, [1.0, 2.0]).interval(0.9)
    np.testing.assert_allclose([low, high], expected, rtol=1e-14, atol=1e-14)
    assert np.array_equal(found.interval(), found.interval(0.95))
    assert quantile(0.95) == pytest.approx(1.959963984540054, rel=1e-15)
    for bad in (0.0, 1.0, np.nan, "0.9"):
        with pytest.raises(InvalidInput):
            found.interval(bad)
