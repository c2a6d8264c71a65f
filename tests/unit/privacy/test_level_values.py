"""Levels are checked where they are born: no NaN, nothing negative or infinite, no absurd sizes."""

import re

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.privacy import PrivacyLevel, StreamLevel, as_level, as_stream_level

BORN = {
    "PrivacyLevel": PrivacyLevel,
    "as_level": as_level,
    "vector": lambda s: PrivacyLevel([1.0, s]),
    "matrix": lambda s: PrivacyLevel([[s, 0.0], [0.0, 1.0]]),
    "blocks": lambda s: PrivacyLevel.from_blocks([[[s]], np.eye(2)]),
    "endless": StreamLevel.constant,
    "endless matrix": lambda s: StreamLevel.constant([[s, 0.0], [0.0, 1.0]]),
    "as_stream_level": as_stream_level,
    "StreamLevel": lambda s: StreamLevel([1.0, s]),
    "constant": lambda s: StreamLevel.constant(s, steps=3),
    "lags": lambda s: StreamLevel([1.0, s], lags=[0.5]),
    "cumulative": lambda s: StreamLevel.from_cumulative([[1.0, 0.0], [0.0, s]]),
    "mechanism": lambda s: pv.mechanism.GaussianMechanism(s, 2),
    "stream": pv.StreamMechanism,
    "sensor": lambda s: pv.network.Sensor(np.eye(2), 1.0, s),
}


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf, -np.inf])
@pytest.mark.parametrize("born", BORN)
def test_no_level_is_made_of_what_is_none(born, bad):
    BORN[born](2.0)
    with pytest.raises(InvalidInput):
        BORN[born](bad)


def test_nothing_overflows_unseen():
    for level in (
        lambda s, w: StreamLevel.constant(s, lags=w),
        lambda s, w: StreamLevel([s, s], lags=w),
    ):
        with pytest.raises(InvalidInput, match="range of double precision"):
            level(1e300, [1e200])
        with pytest.raises(InvalidInput, match="range of double precision"):
            level(1e200, [1e100])  # its square, what is shown of a reading
    with pytest.raises(InvalidInput):
        PrivacyLevel([1e300, 1.0]) * 1e300
    with pytest.raises(InvalidInput):
        PrivacyLevel(1e300) * 1e300
    with pytest.raises(InvalidInput):
        PrivacyLevel([1e308]) + PrivacyLevel(1e308)


def test_a_privacy_level_as_the_level_of_a_step():
    pair = PrivacyLevel([[1.0, 0.5], [0.5, 1.0]])
    assert (
        StreamLevel.constant(PrivacyLevel(2.0)).fingerprint == StreamLevel.constant(2.0).fingerprint
    )
    assert StreamLevel.constant(pair).fingerprint == StreamLevel.constant(pair.dense()).fingerprint
    assert StreamLevel.constant(PrivacyLevel([1.0, 2.0])).block == 2
    assert StreamLevel.constant(pair, steps=3).measurements == 6
    with pytest.raises(InvalidInput, match="does not say where steps begin"):
        StreamLevel(PrivacyLevel([1.0, 2.0]))


def test_what_is_no_number_is_named():
    from scipy.sparse import csr_array

    for given, words in (
        (StreamLevel.constant(1.0), "received a"),
        (None, "received None"),
        (csr_array(np.eye(2)), "is a sparse matrix"),
        (["x"], "received an array of texts"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(words)):
            PrivacyLevel(given)


@pytest.mark.parametrize("lags", [0.5, np.array(0.5), 3, {0.5}])
def test_lags_are_a_sequence(lags):
    for make in (
        lambda: StreamLevel.constant(1.0, lags=lags),
        lambda: StreamLevel([1.0], lags=lags),
    ):
        with pytest.raises(InvalidInput, match="lags must be a sequence"):
            make()


@pytest.mark.parametrize("by", [1e200, 1e-200])
def test_a_promise_beyond_the_range_of_numbers_is_no_level_of_zero(by):
    with pytest.raises(InvalidInput, match="with them the sensitivity, in another unit"):
        PrivacyLevel.from_epsilon(1.0, delta=1e-6, sensitivity=by)
    assert PrivacyLevel.from_mu(0.0, sensitivity=1.0).number == 0
