"""Put down and taken up: bit-identical, and no reading released with two noises."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.errors import CheckpointError, InvalidInput
from privest.mechanism.source import seeded

RNG = np.random.default_rng(0)
SCRIPT = Path(__file__).parents[1] / "killed_stream.py"


def killed(folder, kind, kills, seed):
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, kind, str(kills), str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sent = [json.loads(line) for line in (folder / "sent.jsonl").read_text().splitlines()]
    return int(done.stdout), sent


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(("kind", "kills"), [("independent", 10), ("banded", 10), ("dense", 10)])
def test_killed_at_random_moments(tmp_path, kind, kills):
    """30 kills in all: what was sent is what an undisturbed run sends, some of it twice."""
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    calm.mkdir()
    wild.mkdir()
    _, expected = killed(calm, kind, 0, 0)
    count, sent = killed(wild, kind, kills, 3)
    assert count == kills
    once = {}
    for release, estimate in sent:
        # every reading: one release, however often it was sent
        seen = once.setdefault(release["start"], (release, estimate))
        assert seen == (release, estimate)
    assert [once[start] for start in sorted(once)] == [(r, e) for r, e in expected]
    # and every reading was released
    starts = sorted(once)
    ends = [start + once[start][0]["steps"] for start in starts]
    assert starts[0] == 0
    assert starts[1:] == ends[:-1]
    assert not list(wild.glob("*.new")) or (wild / "stream.ckpt").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("real", 10),
        ("ledger", 6),
        pytest.param("real", 25, marks=pytest.mark.slow),
        pytest.param("ledger", 15, marks=pytest.mark.slow),
    ],
)
def test_real_noise_is_never_drawn_twice(tmp_path, kind, kills):
    """Nothing can be drawn again, and nothing was: one release a reading, however often sent."""
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=folder) as name:
        count, sent = killed(Path(name), kind, kills, 5)
    assert count == kills
    once = {}
    for release, estimate in sent:
        assert (release["simulated"], release["grid"]) == (False, 2**-10)
        assert once.setdefault(release["start"], (release, estimate)) == (release, estimate)
    starts = sorted(once)
    assert [0, *(start + once[start][0]["steps"] for start in starts)] == [*starts, 400]
    flags = [once[start][0]["missing"] or [False] * once[start][0]["steps"] for start in starts]
    assert np.flatnonzero(np.concatenate(flags)).tolist() == list(range(0, 400, 29))


def pair(level=None, n=2, cov=1.0):
    level = pv.StreamLevel.constant(1.0, lags=[0.5]) if level is None else level
    return pv.StreamMechanism(level), pv.PrivateRLS(level, n, pv.noise.Gaussian(cov=cov))


def saved(path, rng=None):
    mechanism, estimator = pair()
    rng = np.random.default_rng(0) if rng is None else rng
    with pv.Checkpoint(path, mechanism=mechanism, estimator=estimator, source=rng) as kept:
        assert kept.resume() is False
        release = mechanism.simulate([0.1, 0.2, np.nan], rng)
        estimator.update(release, np.eye(3, 2))
        kept.save(pending=release, notes={"place": 3})
    return mechanism, estimator, release


def resume(path, rng=None, **change):
    mechanism, estimator = pair(**change)
    rng = np.random.default_rng(5) if rng is None else rng
    with pv.Checkpoint(path, mechanism=mechanism, estimator=estimator, source=rng) as kept:
        assert kept.resume()
        return mechanism, estimator, rng, kept


@pytest.mark.parametrize("source", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_the_noise_goes_on_where_it_was(tmp_path, source):
    path = tmp_path / "s"
    rng = np.random.Generator(source(1))
    mechanism, estimator, release = saved(path, rng)
    again, rls, other, kept = resume(path, np.random.Generator(source(2)))
    assert np.array_equal(kept.pending.values, release.values, equal_nan=True)
    assert kept.notes == {"place": 3}
    one, two = mechanism.simulate([0.4, 0.5], rng), again.simulate([0.4, 0.5], other)
    assert np.array_equal(one.values, two.values)
    H = np.array([[1.0, 2.0], [0.5, -1.0]])
    estimator.update(one, H)
    rls.update(two, H)
    assert np.array_equal(estimator.value, rls.value)
    assert np.array_equal(estimator.covariance, rls.covariance)


def test_only_the_owner_may_read_it(tmp_path):
    saved(tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


def test_no_pickle_inside(tmp_path):
    saved(tmp_path / "s")
    with np.load(tmp_path / "s", allow_pickle=False) as archive:
        for name in archive.files:
            assert archive[name].dtype.kind in "uifb", name
        header = json.loads(archive["header"].tobytes())
    assert header["version"] == 3


def test_another_stream_is_refused(tmp_path):
    path = tmp_path / "s"
    saved(path)
    with pytest.raises(CheckpointError, match="another level"):
        resume(path, level=pv.StreamLevel.constant(1.0, lags=[0.4]))
    with pytest.raises(CheckpointError, match="number of parameters or noise"):
        resume(path, n=3)
    with pytest.raises(CheckpointError, match="number of parameters or noise"):
        resume(path, cov=2.0)
    with pytest.raises(CheckpointError, match="kind of random generator"):
        resume(path, np.random.Generator(np.random.MT19937(0)))


def test_a_saved_stream_is_not_overwritten_unseen(tmp_path):
    path = tmp_path / "s"
    saved(path)
    mechanism, estimator = pair()
    with (
        pv.Checkpoint(path, mechanism=mechanism, estimator=estimator, source=RNG) as kept,
        pytest.raises(CheckpointError, match="second time"),
    ):
        kept.save()


def test_two_processes_cannot_share_it(tmp_path):
    mechanism, _ = pair()
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pv.Checkpoint(tmp_path / "s", mechanism=mechanism, source=RNG) as kept:
        for path in ("s", "link"):  # a link is the same file
            with pytest.raises(CheckpointError, match="another process"):
                pv.Checkpoint(tmp_path / path, mechanism=mechanism, source=RNG)
    again = pv.Checkpoint(tmp_path / "link", mechanism=mechanism, source=RNG)  # free again
    assert again.path == (tmp_path / "s").resolve()
    again.close()
    for closed in (kept, again):
        with pytest.raises(CheckpointError, match="is closed"):
            closed.save()
        with pytest.raises(CheckpointError, match="is closed"):
            closed.resume()


def test_a_copy_of_the_process_cannot_save(tmp_path, monkeypatch):
    mechanism, _ = pair()
    with pv.Checkpoint(tmp_path / "s", mechanism=mechanism, source=RNG) as kept:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(CheckpointError, match="copy of the process"):
            kept.save()
        monkeypatch.undo()


def test_a_mechanism_is_kept_with_its_generator(tmp_path):
    mechanism, rng = pair()[0], np.random.default_rng(0)
    with pv.Checkpoint(tmp_path / "s", mechanism=mechanism) as kept:
        with pytest.raises(pv.errors.InvalidInput, match="same noise on other measurements"):
            kept.save(pending=mechanism.simulate(0.1, rng))
        with pytest.raises(pv.errors.InvalidInput, match="pass their release as pending"):
            kept.save()
    real = mechanism.release(0.1)
    with (
        pv.Checkpoint(tmp_path / "s", mechanism=mechanism, source=rng) as kept,
        pytest.raises(pv.errors.InvalidInput, match="this release is real"),
    ):
        kept.save(pending=real)
    assert not (tmp_path / "s").exists()


def test_of_real_noise_nothing_is_stored_but_what_was_released(tmp_path):
    """No state, no key, no draw: the header names all there is, and the numbers are released."""
    level = pv.StreamLevel.constant(1.0)
    mechanism = pv.StreamMechanism(level, range=(-1.0, 1.0))
    with pv.Checkpoint(tmp_path / "s", mechanism=mechanism) as kept:
        release = mechanism.release([0.1, np.inf, np.nan])
        kept.save(pending=release)
        mechanism.release([0.1, 0.2])
        with pytest.raises(pv.errors.InvalidInput, match="steps 3 to 4 were released"):
            kept.save(pending=release)
    with np.load(tmp_path / "s") as archive:
        header = json.loads(archive["header"].tobytes())
        assert {name for name in archive.files if archive[name].size > 1} == {"header"}
    assert header["source"] == {}
    assert (header["noise"], header["grid"], header["range"]) == ("Protected", 2**-10, [-1, 1])
    assert header["pending"]["values"] == [*release.values[:2].tolist(), None]
    again = pv.StreamMechanism(level, range=(-1.0, 1.0))
    with pv.Checkpoint(tmp_path / "s", mechanism=again) as kept:
        assert kept.resume()
        assert np.array_equal(kept.pending.values, release.values, equal_nan=True)
        assert (kept.pending.simulated, kept.pending.grid, again.steps) == (False, 2**-10, 3)
    for other, source, message in (
        ((-1.0, 2.0), None, "another range"),
        (None, None, "another range"),
        ((-1.0, 1.0), RNG, "another kind of random generator"),
    ):
        mechanism = pv.StreamMechanism(level, range=other)
        with (
            pv.Checkpoint(tmp_path / "s", mechanism=mechanism, source=source) as kept,
            pytest.raises(CheckpointError, match=message),
        ):
            kept.resume()


def test_only_the_mechanism_s_level_differs(tmp_path):
    """Without an estimator the mechanism's own fingerprint must protect the stream."""
    path = tmp_path / "s"
    for level, good in ((1.0, True), (2.0, False), (1.0, True)):
        mechanism = pv.StreamMechanism(pv.StreamLevel.constant(level))
        with pv.Checkpoint(path, mechanism=mechanism, source=np.random.default_rng(0)) as kept:
            if good:
                kept.resume()
                kept.save(pending=mechanism.simulate(0.1, kept.source))
                continue
            with pytest.raises(CheckpointError, match="another level"):
                kept.resume()


def test_a_file_that_lies_there_is_not_written_into(tmp_path):
    (tmp_path / "s.new").write_text("something else")
    (tmp_path / "s.new").chmod(0o666)
    saved(tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


def test_no_single_flip_makes_another_error(tmp_path):
    """Every 7th byte flipped, one at a time: refused as damaged, or the same stream."""
    path = tmp_path / "s"
    mechanism, _, release = saved(path)
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            again, _, _, kept = resume(path)
        except CheckpointError:
            refused += 1
            continue
        assert again.steps == mechanism.steps
        assert np.array_equal(kept.pending.values, release.values, equal_nan=True)
    assert refused > 100


def test_a_restored_state_is_a_copy():
    level = pv.StreamLevel.constant(1.0, lags=[0.5])
    rng = np.random.default_rng(0)
    mechanism, one = pair(level)
    _, two = pair(level)
    one.update(mechanism.simulate([0.1, 0.2], rng), np.eye(2))
    before = one.covariance
    two.restore(one.state())
    two.update(mechanism.simulate(0.3, rng), [5.0, 5.0])
    assert np.array_equal(one.covariance, before)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_state_whose_factor_has_a_small_pivot_is_refused(step):
    """V = AΣAᵀ + I ≥ I: every pivot of its factor is at least 1."""
    level = pv.StreamLevel.from_cumulative(np.eye(3) + 0.5)  # steps look back at all
    mechanism, one = pair(level)
    one.update(mechanism.simulate([0.1, 0.2, 0.3], np.random.default_rng(0)), np.eye(3, 2))
    state = {name: array.copy() for name, array in one.state().items()}
    state["rows.lower"][[0, 2, 5][step]] = 0.4  # rows of the triangle, one after another
    _, two = pair(level)
    with pytest.raises(InvalidInput, match="is not a factor"):
        two.restore(state)


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "flip"])
def test_a_damaged_file_is_an_error_and_stays(tmp_path, damage):
    path = tmp_path / "s"
    saved(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    broken = {
        "empty": b"",
        "cut": whole[:middle],
        "text": b"hello",
        "flip": whole.replace(b"privest", b"privesd", 1),
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(CheckpointError, match="damaged"):
        resume(path)
    assert path.read_bytes() == broken


def test_a_newer_version_is_named(tmp_path, monkeypatch):
    path = tmp_path / "s"
    monkeypatch.setattr("privest.checkpoint.VERSION", 4)
    saved(path)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="version 4; this privest reads version 3"):
        resume(path)


def test_an_older_version_is_named(tmp_path, monkeypatch):
    path = tmp_path / "s"
    monkeypatch.setattr("privest.checkpoint.VERSION", 1)
    saved(path)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"version 1; .* the older privest"):
        resume(path)


def test_a_seed_goes_on_whatever_seed_is_given(tmp_path):
    """The state of the first seed is in the file: a restart with another one changes nothing."""
    path, source = tmp_path / "s", seeded(1, "column")
    mechanism, _, _ = saved(path, source)
    again, _, other, _ = resume(path, seeded(2, "column"))
    one, two = mechanism.simulate([0.4], source), again.simulate([0.4], other)
    assert np.array_equal(one.values, two.values)


@pytest.mark.parametrize("number", [-5, 10**30])
def test_a_generator_s_state_out_of_range_is_damage(tmp_path, number):
    path = tmp_path / "s"
    saved(path)
    with np.load(path) as whole:
        arrays = dict(whole)
    text = arrays["header"].tobytes()
    assert b'"uinteger": 0' in text
    changed = text.replace(b'"uinteger": 0', b'"uinteger": %d' % number)
    arrays["header"] = np.frombuffer(changed, dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(CheckpointError, match="damaged"):
        resume(path)
