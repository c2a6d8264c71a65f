"""Readings of any size and kind: nothing is refused or warned of by value, no mask is dropped."""

import warnings
from collections import deque
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import privest as pv
from privest.data.source import open_source
from privest.errors import InvalidInput
from privest.mechanism import GaussianMechanism, StreamMechanism
from privest.mechanism.rows import real_numbers

HUGE = 10**400
SIGNALLING = np.array([0x7FA00000, 0x3F800000], dtype=np.uint32).view(np.float32)

READINGS = {
    "2**63": [2**63, 1],
    "2**64": [2**64, 1],
    "huge": [HUGE, -HUGE],
    "huge beside a float": [HUGE, 1.5],
    "fraction": [Fraction(HUGE), 1],
    "objects": np.array([-HUGE, 1.5], dtype=object),
    "longdouble": np.array(["1e4000", "-1e-4000"], dtype=np.longdouble),
    "signalling": SIGNALLING,
    "None": [None, 1.0],
}


@pytest.mark.parametrize("kind", READINGS)
def test_no_reading_is_refused_or_warned_of_by_value(kind):
    y = READINGS[kind]
    doors = [
        GaussianMechanism(1.0, 2, range=(-1.0, 1.0)).release,
        StreamMechanism(1.0, range=(-1.0, 1.0)).release,
        pv.network.Sensor(np.ones((2, 1)), 1.0, 1.0, range=(-1.0, 1.0)).release,
        lambda y: pv.StreamMechanism(1.0, range=(-1.0, 1.0)).release([np.reshape(y, (-1, 1))]),
    ]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for door in doors:
            found = door(y)
            values = np.ravel(getattr(found, "values", found))
            assert np.isnan(values).tolist() == [kind in ("None", "signalling"), False]
            assert np.nanmax(np.abs(values)) < 20  # clipped, and noise


def column(cells):
    return open_source({"x": cells}).read(["x"])["x"]


def test_what_the_doubles_cannot_hold_is_infinite():
    assert real_numbers([HUGE, -HUGE, 2**64, True]).tolist() == [np.inf, -np.inf, 2.0**64, 1.0]
    assert real_numbers(np.array(-HUGE, dtype=object)).tolist() == -np.inf
    with np.errstate(all="raise"):
        assert column(READINGS["longdouble"]).tolist() == [np.inf, -0.0]
        assert np.isnan(column(SIGNALLING)).tolist() == [True, False]
    assert column(READINGS["objects"]).tolist() == [-np.inf, 1.5]


def test_a_table_takes_integers_of_any_size():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": pd.Series([1, HUGE, -HUGE], dtype=object)})
    [block] = open_source(frame).blocks(["y"])
    assert block["y"].tolist() == [1.0, np.inf, -np.inf]


ROWS = [np.ma.array([1e6, 2.0], mask=[1, 0]), np.ma.array([1.0, 2.0])]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(ROWS),
        deque(ROWS),
        [ROWS[0], [1.0, 2.0]],
        [[np.ma.masked, 2.0], [1.0, 2.0]],
        np.ma.array([[HUGE, 2], [1, 2]], mask=[[1, 0], [0, 0]], dtype=object),
    ],
)
def test_rows_of_a_list_keep_their_masks(rows):
    assert np.array_equal(real_numbers(rows), [[np.nan, 2.0], [1.0, 2.0]], equal_nan=True)
    released = GaussianMechanism(1.0, 2).release(rows)
    assert np.isnan(released).tolist() == [[True, False], [False, False]]
    assert real_numbers([rows]).shape == (1, 2, 2)


@pytest.mark.parametrize("bad", [["a"], [[1], [2, 3]], [1j], [object()], "1", {"a": 1}, [HUGE, "1"],
                                 [ROWS[0], np.ma.array([1.0])]])  # fmt: skip
def test_what_is_no_number_is_refused_by_its_type(bad):
    with pytest.raises(InvalidInput, match=r"real numbers|rows of one length") as refused:
        real_numbers(bad)
    assert "000" not in str(refused.value)
