"""`scale.fit(release=FOLDER)`: the noise of a row is drawn once, kept, and survives a re-run."""

import json
import multiprocessing
import os
import shutil
import stat
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import pytest

from dask_cluster import cluster, die_once_after_a_release
from privest.data import Features
from privest.errors import InvalidInput
from privest.mechanism.source import Kept
from privest.scale import fit
from privest.scale._keeping import ReleaseFolder
from privest.scale._pieces import Job, _Rows, reduce_partition

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")

UNIT = 1 + 0.75 * 2.0**-20


@pytest.fixture(autouse=True)
def _in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "shared" / "released"


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "a": rng.standard_normal(rows), "b": rng.integers(0, 9, rows).astype(float),
        "s": rng.uniform(0.5, 3.0, rows), "sex": rng.choice(["f", "m"], rows),
    })  # fmt: skip
    return frame.assign(y=1 + 0.5 * frame["a"] + 0.7 * rng.standard_normal(rows))


def fitted(frame, release, features=("a", "b"), partitions=4, **more):
    made = dd.from_pandas(frame, npartitions=partitions, sort=False)
    given = {"level": 2.0, "noise": 0.49, "target": "y"} | more
    return fit(made, features, release=release, **given)


def kept_in(folder):
    """The numbers of every partition."""
    return {path.name: np.load(path)["values"].tolist() for path in sorted(folder.glob("*.npz"))}


def test_a_second_fit_is_the_same_and_spends_nothing(folder):
    first = fitted(table(), folder)
    assert first.simulated is False
    released = kept_in(folder)
    assert [len(values) for values in released.values()] == [15] * 4
    again = fitted(table(), str(folder))
    assert np.array_equal(first.estimate, again.estimate)
    wider = fitted(table(), folder, noise=2.0)  # nothing of these is released
    fewer = fitted(table(), folder, features=("a",))
    more = fitted(table(), folder, Features(("a", "sex"), {"sex": ("f", "m")}))
    assert (len(wider.estimate), len(fewer.estimate), len(more.estimate)) == (3, 2, 3)
    assert kept_in(folder) == released
    other = fitted(table(), folder.with_name("other"))
    assert (other.estimate != first.estimate).all()


def test_the_numbers_are_those_of_least_squares_on_the_folder(folder):
    frame = table()
    found = fitted(frame, folder)
    z = np.concatenate(list(kept_in(folder).values())) / np.sqrt(2.0)
    H = np.column_stack([np.ones(60), frame[["a", "b"]]])
    np.testing.assert_allclose(found.estimate, np.linalg.lstsq(H, z)[0], rtol=1e-12)
    expected = (0.49 + UNIT / 2) * np.linalg.inv(H.T @ H)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-12)
    assert all((np.mod(values, 2.0**-10) == 0).all() for values in kept_in(folder).values())


def test_levels_of_rows(folder):
    frame = table()
    found = fitted(frame, folder, level="s")
    weight = np.sqrt(frame["s"].to_numpy())
    z = np.concatenate(list(kept_in(folder).values())) / weight
    H = np.column_stack([np.ones(60), frame[["a", "b"]]])
    gain = 1 / (0.49 + UNIT / weight**2)
    information = (H.T * gain) @ H
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-11)
    expected = np.linalg.solve(information, (H.T * gain) @ z)
    np.testing.assert_allclose(found.estimate, expected, rtol=1e-10)


def test_the_noise_has_the_variance_of_the_level(folder):
    """y = 0, σ² ≈ 0: the misfit is χ²(K − 1)/(K − 1); 5 deviations of it."""
    rows = 4000
    frame = dd.from_pandas(pd.DataFrame({"y": np.zeros(rows)}), npartitions=2)
    found = fit(frame, Features(()), target="y", level=0.25, noise=1e-9, release=folder)
    assert abs(found.misfit - 1) < 5 * np.sqrt(2 / (rows - 1))


@pytest.mark.parametrize("missing", ["refuse", "drop"])
@pytest.mark.parametrize("kind", ["float64", "Float64", "float32"])
def test_no_reading_is_refused(folder, missing, kind):
    frame = table()
    frame.loc[[3, 40], "y"] = np.nan
    frame.loc[7, "y"], frame.loc[8, "y"], frame.loc[50, "y"] = np.inf, -np.inf, 1e38
    found = fitted(frame.astype({"y": kind}), folder, missing=missing)
    assert (found.rows, found.dropped) == (58, 2)
    assert np.isfinite(found.estimate).all()
    assert [len(values) for values in kept_in(folder).values()] == [14, 15, 14, 15]
    assert fitted(frame.astype({"y": kind}), folder, missing=missing).rows == 58


def test_public_gaps_and_levels_are_refused_before_anything_is_released(folder):
    for change in ({"a": np.nan}, {"s": -1.0}, {"a": np.inf}):
        frame = table()
        for name, value in change.items():
            frame.loc[2, name] = value
        with pytest.raises(InvalidInput, match=r"partition 0, column '[as]', row 3"):
            fitted(frame, folder, partitions=1, level="s")
        assert not kept_in(folder)
    frame = table()
    frame.loc[2, "a"] = np.nan
    assert fitted(frame, folder, partitions=1, level="s", missing="drop").dropped == 1


def test_readings_that_are_no_numbers_are_refused_by_their_type(folder):
    frame = table()
    frame["y"] = frame["y"].astype(object)
    made = dd.from_delayed([dask.delayed(frame)], meta=frame.iloc[:0], verify_meta=False)
    with pytest.raises(InvalidInput, match=r"have type (object|string|str), not numbers"):
        fit(made, ["a"], target="y", level=1.0, noise=1.0, release=folder)
    assert not kept_in(folder)


def changed(**columns):
    frame = table()
    for name, value in columns.items():
        frame.loc[5, name] = value
    return frame


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (lambda f: fitted(table(), f, level=1.0), '"level": 2.0.*now it is.*"level": 1.0'),
        (lambda f: fitted(table(), f, partitions=3), '"partitions": 4.*now it is'),
        (lambda f: fitted(table(), f, target="s"), '"target": "y"'),
        (lambda f: fitted(changed(a=3.0), f), "partition 0 .*column a changed"),
        (lambda f: fitted(changed(y=np.nan), f), "partition 0 .*shown changed"),
        (lambda f: fitted(table(), f, simulate=3), "give one of them"),
    ],
)
def test_another_release_needs_another_folder(folder, again, message):
    fitted(table(), folder)
    before = kept_in(folder)
    with pytest.raises(InvalidInput, match=message):
        again(folder)
    assert kept_in(folder) == before


def test_a_task_that_fails_after_its_release(folder, monkeypatch):
    use, failed = _Rows.add, []

    def once(self, *given):
        if not failed:
            failed.append(kept_in(folder))
            raise OSError("the network is gone")
        return use(self, *given)

    monkeypatch.setattr(_Rows, "add", once)
    with pytest.raises(OSError, match="network"):
        fitted(table(), folder)
    assert failed[0]
    found = fitted(table(), folder)
    assert failed[0].items() <= kept_in(folder).items()
    assert np.array_equal(found.estimate, fitted(table(), folder).estimate)


@pytest.mark.processes
def test_a_worker_that_is_killed_after_its_release(folder):
    """Its task is run again by another one: the same numbers, so that nothing is shown twice."""
    folder.mkdir(parents=True)
    made = dd.from_pandas(table(), npartitions=6, sort=False)
    with cluster() as client:
        client.run(die_once_after_a_release, str(folder))
        found = fit(
            made, ["a", "b"], level=2.0, noise=0.49, target="y", release=folder, client=client
        )
    died = kept_in(folder.with_name("released.died"))
    assert died
    assert died.items() <= kept_in(folder).items()
    assert len(kept_in(folder)) == 6
    here = fitted(table(), folder, partitions=6)
    np.testing.assert_allclose(found.estimate, here.estimate, rtol=1e-12)


def _reduced(job):
    return reduce_partition(table(), 0, job).rls.estimate.tolist()


def job_of(folder):
    facts = {"target": "y", "level": 2.0, "partitions": 1}
    return Job(Features(("a",)), "y", 2.0, 0.5, release=ReleaseFolder.opened(folder, facts))


def test_of_two_runs_of_one_task_at_the_same_time_one_wins(folder):
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as pool:
        for turn in range(5):
            job = job_of(folder / str(turn))
            assert len({tuple(seen) for seen in pool.map(_reduced, [job] * 4)}) == 1


def test_a_worker_that_does_not_see_the_folder(folder, tmp_path):
    job = job_of(folder)
    shutil.move(folder, tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="does not see the folder"):
        _reduced(job)
    job_of(folder)  # another folder of the same name
    with pytest.raises(InvalidInput, match="does not see the folder"):
        _reduced(job)
    assert not kept_in(folder)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "else", "mark": "0", "facts": "{}"}', "\0"]
)
def test_lists_that_are_none(folder, text):
    folder.mkdir(parents=True)
    (folder / "release.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput):
        fitted(table(), folder)
    assert not kept_in(folder)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        fitted(table(), tmp_path / "x")


def test_changed_files_are_refused(folder):
    fitted(table(), folder, partitions=1)
    path = folder / "partition-0.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    for change in (
        {"values": arrays["values"] + 1},
        {"facts": np.array("3")},
        {"facts": np.array("{}")},
    ):
        with path.open("wb") as file:
            np.savez(file, **arrays | change)
        with pytest.raises(InvalidInput):
            fitted(table(), folder, partitions=1)


def test_the_folder_holds_no_reading_and_is_its_owners(folder):
    frame = table()
    fitted(frame, folder)
    for path in folder.iterdir():
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        held = path.read_bytes()
        assert not any(reading.tobytes() in held for reading in frame["y"].to_numpy())
    listed = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert json.loads(listed["facts"]) == {"level": 2.0, "partitions": 4, "target": "y"}
    values = Kept(folder / "partition-0.npz")
    assert values.key_path.exists()
