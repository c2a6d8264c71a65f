"""A release is on disk before it is seen, and comes back the same: a failed run spends nothing."""

import json
import logging
import multiprocessing
import os
import stat
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.mechanism.source import Kept, seeded

Y = np.array([0.3, -1.2, 2.5])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.release"


def test_the_second_run_gets_the_same_numbers_and_says_so(path, caplog):
    first = Kept(path)
    released = first.add_noise(Y)
    assert not first.resent
    assert (released != Y).all()
    assert not caplog.messages
    again = Kept(path)
    assert np.array_equal(again.add_noise(Y.copy()), released)
    assert again.resent
    assert caplog.messages == [
        f"privest: the release in {path} is used again: nothing new is shown."
    ]
    assert caplog.records[0].levelno == logging.WARNING  # shown where nobody set logging up
    assert (Kept(path.with_name("other")).add_noise(Y) != released).all()


def test_on_disk_before_it_is_seen_and_nobody_elses(path):
    released = Kept(path, level=1.0).add_noise(Y)
    for file in (path, path.with_name("mine.release.key")):
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    with np.load(path) as archive:
        assert np.array_equal(archive["values"], released)
        assert json.loads(str(archive["facts"])) == {"level": 1.0}
    assert sorted(os.listdir(path.parent)) == ["mine.release", "mine.release.key"]
    for reading in Y:  # the release only
        assert reading.tobytes() not in path.read_bytes()


def test_a_release_that_could_not_be_written_is_not_made(path, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        Kept(path).add_noise(Y)
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: Kept(p, level=4.0).add_noise(Y[:2]), r"shape \(3,\).*shape \(2,\)"),
        (lambda p: Kept(p, level=4.0).add_noise(Y[None]), r"shape \(3,\).*shape \(1, 3\)"),
        (lambda p: Kept(p, level=1.0).add_noise(Y), '"level": 4.0}; now it is {"level": 1.0'),
        (lambda p: Kept(p).add_noise(Y), "now it is {}"),
        (lambda p: Kept(p, level=4.0).add_noise(Y, sizes=(1, 1, 1)), "kept by a Checkpoint"),
    ],
)
def test_another_release_is_refused(path, change, message):
    Kept(path, level=4.0).add_noise(Y)
    with pytest.raises(InvalidInput, match=message) as told:
        change(path)
    assert not any(str(reading) in str(told.value) for reading in Y)
    Kept(path, level=4.0).add_noise(Y)  # as good as before


def test_other_readings_get_the_release_of_before(path, caplog):
    """Whether a real release comes must not tell about the readings, nor may what is logged."""
    first = Kept(path, level=4.0).add_noise(Y)
    assert np.array_equal(Kept(path, level=4.0).add_noise(2.0 * Y), first)
    assert caplog.messages == [
        f"privest: the release in {path} is used again: nothing new is shown."
    ]


def test_nothing_in_the_file_is_made_of_the_readings(path):
    """Not even a keyed hash: the key lies beside it, and guesses could be tried against it."""
    tags = []
    for measurements in (Y, 2.0 * Y):
        path.unlink(missing_ok=True)
        Kept(path).add_noise(measurements)
        with np.load(path) as archive:
            tags.append(archive["readings"].tobytes())
    assert tags[0] == tags[1]


def test_a_simulation_is_no_release(path):
    Kept(path, seeded(1)).add_noise(Y)
    with pytest.raises(InvalidInput, match="is a simulation; a real release is wanted"):
        Kept(path).add_noise(Y)


def test_a_file_that_was_changed_is_refused(path):
    Kept(path).add_noise(Y)
    with np.load(path) as archive:
        arrays = dict(archive)
    changes = (
        ({"values": arrays["values"] + 1.0}, "was changed"),
        ({"simulated": np.array(True)}, "is a simulation"),
        ({"tag": arrays["readings"]}, "was changed"),
    )
    for change, message in changes:
        with path.open("wb") as file:
            np.savez(file, **arrays | change)
        with pytest.raises(InvalidInput, match=message):
            Kept(path).add_noise(Y)
    for change in ({"format": np.array("else")}, {"values": np.arange(3)}, {"more": Y}):
        with path.open("wb") as file:
            np.savez(file, **arrays | change)
        with pytest.raises(InvalidInput, match="is not a kept release"):
            Kept(path).add_noise(Y)
    path.write_bytes(b"")
    with pytest.raises(InvalidInput):
        Kept(path).add_noise(Y)


def test_without_the_key_nothing_can_be_told(path):
    """The tag must not be one that guesses of the readings could be tried against."""
    Kept(path).add_noise(Y)
    key = path.with_name("mine.release.key")
    secret = key.read_bytes()
    assert len(secret) == 32
    assert secret not in path.read_bytes()
    key.unlink()
    with pytest.raises(InvalidInput, match=r"the key .* is gone"):
        Kept(path).add_noise(Y)
    key.write_bytes(bytes(32))
    with pytest.raises(InvalidInput, match="was changed"):
        Kept(path).add_noise(Y)


def test_the_noise_is_that_of_its_source(path):
    assert np.array_equal(Kept(path, seeded(3)).add_noise(Y), seeded(3).add_noise(Y))
    assert Kept(path, seeded(4)).simulated
    assert not Kept(path).simulated
    huge = Kept(path.with_name("huge"), seeded(3))
    with pytest.raises(InvalidInput, match="lost in rounding"):
        huge.add_noise(1e30 * Y)
    assert not huge.path.exists()


def test_a_sensor_that_starts_again(path):
    sensor = pv.network.Sensor(np.ones((3, 1)), 1.0, 4.0)
    first = sensor.simulate(Y, Kept(path, seeded(1)))
    again = sensor.simulate(Y, Kept(path, seeded(1)))
    assert np.array_equal(first.values, again.values)
    assert again.fingerprint == first.fingerprint
    with pytest.raises(InvalidInput, match="at another level"):
        pv.network.Sensor(np.ones((3, 1)), 1.0, 1.0).simulate(Y, Kept(path, seeded(1)))


def _released(path):
    try:
        return Kept(path).add_noise(Y).tolist()
    except InvalidInput as refused:
        return str(refused)


def test_of_several_processes_one_releases(path):
    """The others get its numbers: nobody is refused, or shows the readings with other noise."""
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as pool:
        for turn in range(20):
            seen = list(pool.map(_released, [path.with_name(f"{turn}.release")] * 4))
            assert not [one for one in seen if isinstance(one, str)]
            assert len({tuple(one) for one in seen}) == 1


def test_a_quicker_process_is_noticed(path, monkeypatch):
    """It wrote between this one's look and its own turn."""
    other = Kept(path).add_noise(Y)
    looks, exists = iter([False]), Path.exists
    monkeypatch.setattr(
        Path, "exists", lambda one: next(looks, True) if one == path else exists(one)
    )
    late = Kept(path)
    assert np.array_equal(late.add_noise(Y), other)
    assert late.resent


def test_a_short_key_is_none(path):
    path.with_name("mine.release.key").write_bytes(b"")
    with pytest.raises(InvalidInput, match="too short"):
        Kept(path).add_noise(Y)
    assert not path.exists()
