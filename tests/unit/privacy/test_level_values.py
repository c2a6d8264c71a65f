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
    "read, diagonal": lambda s: StreamLevel.from_arrays(
        {"sizes": np.ones(2, int), "diagonal": np.array([1.0, s])}
    ),
    "read, endless": lambda root: StreamLevel.from_arrays({"endless": np.array([[[root]]])}),
    "mechanism": lambda s: pv.mechanism.GaussianMechanism(s, 2),
    "stream": pv.StreamMechanism,
    "sensor": lambda s: pv.network.Sensor(np.eye(2), 1.0, s),
}
# A factor ℓ of several readings may have any sign.
FACTORS = {
    "read, lowers": lambda x: StreamLevel.from_arrays(
        {"sizes": np.array([1]), "lowers": np.array([x])}
    ),
    "read, banded": lambda x: StreamLevel.from_arrays(
        {"sizes": np.ones(2, int), "banded": np.array([[[[1.0]], [[x]]]])}
    ),
    "read, dense": lambda x: StreamLevel.from_arrays(
        {"sizes": np.ones(2, int), "dense": np.array([[1.0, 0.0], [0.0, x]])}
    ),
}


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf, -np.inf])
@pytest.mark.parametrize("born", BORN | FACTORS)
def test_no_level_is_made_of_what_is_none(born, bad):
    (BORN | FACTORS)[born](2.0)
    if born in FACTORS and bad == -1.0:
        return
    with pytest.raises(InvalidInput):
        (BORN | FACTORS)[born](bad)


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


ONE = np.ones(1)
READ = [
    {},
    {"sizes": np.array([1])},
    {"sizes": np.array([1]), "weird": ONE},
    {"sizes": np.array([1]), "diagonal": ONE, "dense": np.ones((1, 1))},
    {"sizes": np.array([10**12]), "diagonal": ONE},
    {"sizes": np.full(3, 2**62), "diagonal": ONE},
    {"sizes": np.array([-1]), "diagonal": ONE},
    {"sizes": np.array([0]), "diagonal": np.ones(0)},
    {"sizes": np.ones(0, int), "diagonal": np.ones(0)},
    {"sizes": np.array([1.0]), "diagonal": ONE},
    {"sizes": np.array(1), "diagonal": ONE},
    {"sizes": np.array(["1"]), "diagonal": ONE},
    {"sizes": np.array([1, 1]), "diagonal": ONE},
    {"sizes": np.array([1]), "diagonal": np.array(["x"])},
    {"sizes": np.array([2]), "lowers": np.ones(3)},
    {"sizes": np.array([1, 2]), "banded": np.ones((1, 2, 1, 1))},
    {"sizes": np.array([1, 1]), "banded": np.ones((2, 2, 1, 1))},  # before the first step
    {"sizes": np.array([1, 1]), "banded": np.ones((0, 2, 1, 1))},
    {"sizes": np.array([1, 1]), "banded": np.ones((1, 3, 1, 1))},
    {"sizes": np.array([1, 1]), "dense": np.ones((2, 2))},  # looks ahead
    {"sizes": np.array([1, 1]), "dense": np.ones((2, 3))},
    {"sizes": np.array([1]), "dense": np.ones((1, 1)) * 1j},
    {"endless": np.ones((1, 2, 3))},
    {"endless": np.ones((0, 1, 1))},
    {"endless": np.ones((1, 0, 0))},
    {"endless": np.ones(1)},
    {"endless": np.full((1, 1, 1), 1e200)},
    {"endless": np.ones((1, 1, 1)), "sizes": np.array([1])},
]


@pytest.mark.parametrize("arrays", READ, ids=lambda arrays: ",".join(arrays))
def test_what_was_read_is_checked(arrays):
    with pytest.raises(InvalidInput):
        StreamLevel.from_arrays(arrays)


@pytest.mark.parametrize(
    "level",
    [
        StreamLevel.constant(2.0),
        StreamLevel.constant([[2.0, 1.0], [1.0, 2.0]], lags=[0.5]),
        StreamLevel([1.0, 0.0, 2.0]),
        StreamLevel([np.eye(2), [[2.0]], [[2.0, 1.0], [1.0, 1.0]]]),
        StreamLevel(np.ones(9), lags=[0.5, 0.25]),
        StreamLevel.from_cumulative(np.ones((3, 3))),
    ],
    ids=repr,
)
def test_a_level_is_read_as_it_was_saved(level, tmp_path):
    again = StreamLevel.from_arrays(level.arrays())
    assert again.fingerprint == level.fingerprint
    path = tmp_path / "level"
    level.save(path)
    assert StreamLevel.load(path).fingerprint == level.fingerprint
    assert [file.name for file in tmp_path.iterdir()] == ["level"]


def test_a_save_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "level"
    StreamLevel.constant(2.0).save(path)
    before = path.read_bytes()

    def fails(file, **_):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(OSError, match="no space left"):
        StreamLevel.constant(3.0).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["level"]
    with pytest.raises(InvalidInput, match="cannot be written"):
        StreamLevel.constant(3.0).save(tmp_path)


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
