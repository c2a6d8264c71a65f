"""A release: z and public facts, whole or not at all, never y, never twice."""

import hashlib
import importlib
import json
import os
import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from charged import charged
from privest.errors import InvalidInput, NotIdentifiable
from privest.privacy import StreamLevel
from privest.workflow import read_release
from privest.workflow.document import document_path
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy
from workflow_tables import LEVEL, matrix, people, spec, write

module = importlib.import_module("privest.workflow.release")


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def plan(table):
    return make_plan(spec(privacy=Privacy(LEVEL, delta=1e-6, sensitivity=1.0)), table)


def released(plan, path, table, seed=3):
    return simulate_release(plan, path, np.random.default_rng(seed), table)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_in_it(plan, table, tmp_path, ending):
    path = tmp_path / f"z.{ending}"
    header = released(plan, path, table)
    exact = {"converters": {"z": float}}
    frame = pd.read_csv(path, **exact) if ending == "csv" else pd.read_parquet(path)
    assert list(frame.columns) == ["age", "bmi", "sex=male", "z"]
    np.testing.assert_array_equal(frame.to_numpy()[:, :3], matrix(table)[:, 1:])
    rng = np.random.default_rng(3)
    rng.integers(2**64, size=len(frame), dtype=np.uint64)  # words of the dither
    expected = table["ldl"] + rng.standard_normal(len(frame)) / np.sqrt(LEVEL)
    step = header.to_dict()["columns"][0]["unit"]
    # Value and noise are rounded to steps, and σ may be 2⁻¹⁰ above 1/√s.
    wrong = 1.5 * step + np.abs(expected - table["ldl"]) * 2.0**-10
    assert (np.abs(header.values - expected) <= wrong).all()
    np.testing.assert_array_equal(header.values, frame["z"] * step)
    assert (frame["z"] == np.rint(frame["z"])).all()
    assert header.fingerprint == StreamLevel.constant(LEVEL).fingerprint
    assert sorted(os.listdir(tmp_path)) == [path.name, f"{path.name}.json"]
    assert json.loads(document_path(path).read_text()) == header.to_dict()
    assert header.simulated
    assert "no protection" in header.warning
    assert header.epsilon == plan.epsilon
    assert header.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert set(header.to_dict()) == {
        "format", "version", "plan", "columns", "facts", "grid", "table", "sha256", "entry",
        "checksum", "signature", "drawn",
    }  # fmt: skip


def test_every_way_in_gives_the_same_release(plan, table, tmp_path):
    ways = {
        "csv": write(table, tmp_path / "people.csv"),
        "parquet": write(table, tmp_path / "people.parquet"),
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table),
        "mapping": table,
    }
    found = {}
    for name, data in ways.items():
        released(plan, tmp_path / f"{name}-z.csv", data)
        found[name] = (tmp_path / f"{name}-z.csv").read_bytes()
    assert len(set(found.values())) == 1
    released(plan, tmp_path / "z.parquet", table)
    one, other = estimate(tmp_path / "csv-z.csv"), estimate(tmp_path / "z.parquet")
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.covariance, other.covariance)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("transform", ["none", "log"])
def test_no_reading_is_in_it(table, tmp_path, ending, transform):
    """Neither the eight bytes of a reading nor its digits, before or after the transform."""
    positive = table | {"ldl": np.exp(table["ldl"])}
    path = tmp_path / f"z.{ending}"
    plan = make_plan(spec(transform=transform), positive)
    released(plan, path, positive)
    written = path.read_bytes() + document_path(path).read_bytes()
    for y in np.concatenate([positive["ldl"], np.log(positive["ldl"])]).tolist():
        assert struct.pack("<d", y) not in written
        assert repr(y).encode() not in written
        assert f"{y:.10g}".encode() not in written  # by chance: 1e-5 of 1e5 pairs
    # The same search finds a public value: it would have found a reading.
    age = table["age"][0]
    assert (repr(float(age)).encode() if ending == "csv" else struct.pack("<d", age)) in written


def test_a_level_that_hides_nothing_is_refused(table, tmp_path):
    """At s = 1e36 the noise is 1e-18: z would be y, bit for bit."""
    plan = make_plan(spec(privacy=Privacy(1e36)), table)
    with pytest.raises(InvalidInput, match="lost in rounding"):
        released(plan, tmp_path / "z.csv", table)
    assert not os.listdir(tmp_path)


def test_rows_without_a_reading(plan, table, tmp_path):
    gaps = table | {"ldl": np.where(np.arange(200) % 50 == 7, np.nan, table["ldl"])}
    with pytest.raises(InvalidInput, match="'ldl', row 8"):
        released(plan, tmp_path / "z.csv", gaps)
    assert not os.listdir(tmp_path)
    drop = make_plan(spec(missing="drop"), gaps)
    header = released(drop, tmp_path / "z.csv", gaps)
    assert (drop.dropped, header.rows, header.dropped) == (0, 196, 4)
    assert estimate(tmp_path / "z.csv").rows == 196


# --- whole or not at all --------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "fault", ["text", "missing", "infinite", "unknown category"], ids=lambda f: f.replace(" ", "-")
)
def test_a_bad_last_row_leaves_nothing(tmp_path, ending, fault):
    """More than one block is written before the last row is seen to be bad."""
    many = people(70_000, seed=1)
    many["ldl"] = np.exp(many["ldl"])
    plan = make_plan(spec(transform="log"), many)
    bad = {name: np.array(column, dtype=object) for name, column in many.items()}
    value = {"text": "secret", "missing": None, "infinite": "1e999"}.get(fault, "secret")
    bad["sex" if "category" in fault else "ldl"][-1] = value
    folder = tmp_path / "out"
    folder.mkdir()
    data = write(bad, tmp_path / "bad.csv")
    with pytest.raises(InvalidInput) as caught:
        released(plan, folder / f"z.{ending}", data)
    assert not os.listdir(folder)
    for content in ("secret", "1e999"):
        assert content not in str(caught.value)
    assert ("'sex'" if "category" in fault else "'ldl'") in str(caught.value)


class Failing(np.random.Generator):
    """Fails when noise is drawn, as a full disk or Ctrl-C would."""

    def __init__(self, error):
        super().__init__(np.random.PCG64(0))
        self.calls, self.error = 0, error

    def standard_normal(self, *args, **kwargs):
        self.calls += 1
        if self.calls == 1:
            raise self.error
        return super().standard_normal(*args, **kwargs)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk"), MemoryError()])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_interruption_leaves_nothing(tmp_path, error, ending):
    many = people(70_000, seed=1)
    plan = make_plan(spec(), many)
    rng = Failing(error)
    with pytest.raises(type(error)):
        simulate_release(plan, tmp_path / f"z.{ending}", rng, many)
    assert rng.calls == 1
    assert not os.listdir(tmp_path)


def test_a_table_whose_header_fails_goes_too(plan, table, tmp_path, monkeypatch):
    def fail(path, text, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "atomic_write", fail)
    with pytest.raises(KeyboardInterrupt):
        released(plan, tmp_path / "z.csv", table)
    assert not os.listdir(tmp_path)


def test_permissions_are_ordinary(plan, table, tmp_path):
    old = os.umask(0o027)
    try:
        released(plan, tmp_path / "z.csv", table)
    finally:
        os.umask(old)
    for file in (tmp_path / "z.csv", tmp_path / "z.csv.json"):
        assert file.stat().st_mode & 0o777 == 0o640


# --- never twice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("there", ["z.csv", "z.csv.json"])
def test_what_is_there_is_never_written_over(plan, table, tmp_path, there):
    released(plan, tmp_path / "z.csv", table)
    before = {name: (tmp_path / name).read_bytes() for name in ("z.csv", "z.csv.json")}
    with pytest.raises(InvalidInput, match="exists: choose another name"):
        released(plan, tmp_path / "z.csv", table, seed=4)
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content
    other = "z.csv" if there == "z.csv.json" else "z.csv.json"
    (tmp_path / other).unlink()
    with pytest.raises(InvalidInput, match="exists"):
        released(plan, tmp_path / "z.csv", table, seed=4)
    assert os.listdir(tmp_path) == [there]


@pytest.mark.parametrize("name", ["z.txt", "z", "z.csv.gz", "people.csv/z.csv"])
def test_outputs_that_cannot_be(plan, table, tmp_path, name):
    (tmp_path / "people.csv").touch()
    with pytest.raises(InvalidInput):
        released(plan, tmp_path / name, table)
    assert os.listdir(tmp_path) == ["people.csv"]


def test_folders_are_made(plan, table, tmp_path):
    released(plan, tmp_path / "new" / "deep" / "z.csv", table)
    assert read_release(tmp_path / "new" / "deep" / "z.csv").rows == 200


def test_a_seed_repeats_the_very_same_release_only(plan, table, tmp_path):
    """y + e/√s and y + e/√s' with the same e are two equations with two unknowns."""

    def noise(of, data, seed=1):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        release = simulate_release(of, path, simulation_source(of, seed), data)
        y = np.asarray(data[of.spec.targets[0]])
        y = np.log(y) if of.model.transform == "log" else y
        return tuple((np.sqrt(of.level) * (release.values - y)).round(6))

    table = table | {"ldl": np.exp(table["ldl"])}
    first = noise(plan, table)
    same = make_plan(spec("march.csv", missing="drop", privacy=Privacy(LEVEL)), table)
    assert noise(same, table) == first  # the same numbers leave
    assert noise(stated_plan(plan.spec), table) == first
    others = [
        (make_plan(spec(privacy=Privacy(LEVEL * 2)), table), table),
        (
            make_plan(spec(target="hdl"), table | {"hdl": table["ldl"]}),
            table | {"hdl": table["ldl"]},
        ),
        (make_plan(spec(features=("age", "sex")), table), table),
        (make_plan(spec(transform="log"), table), table),
    ]
    another_day = table | {"ldl": table["ldl"] + 0.1 * (np.arange(200) == 7)}
    np.testing.assert_allclose(noise(plan, another_day), first, rtol=0, atol=2.0**-10)
    noises = [first, *(noise(of, data) for of, data in others)]
    noises += [noise(plan, table, 2), noise(plan, table, None), noise(plan, table, None)]
    assert len(set(noises)) == len(noises)


def test_the_generator_is_asked_for(plan, table, tmp_path):
    with pytest.raises(InvalidInput, match="Generator"):
        simulate_release(plan, tmp_path / "z.csv", 3, table)
    assert not os.listdir(tmp_path)


def test_bare_terms_release_the_same_in_one_pass(table, tmp_path):
    """Level plans need no pass over the features: same table, same header."""
    own = spec(privacy=Privacy(LEVEL, delta=1e-6, sensitivity=1.0))
    terms = stated_plan(own)
    assert terms is not None
    bare = simulate_release(terms, tmp_path / "a.csv", np.random.default_rng(3), table)
    full = simulate_release(
        make_plan(own, table), tmp_path / "b.csv", np.random.default_rng(3), table
    )
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert replace(bare, table="b.csv").to_dict() == full.to_dict()
    assert stated_plan(spec(privacy=Privacy(standard_error={"age": 0.1}))) is None


def test_tied_features_are_refused_at_the_end_of_the_pass(table, tmp_path):
    tied = table | {"bmi": 2.0 * table["age"]}
    terms = stated_plan(spec())
    with pytest.raises(NotIdentifiable, match="collinear"):
        simulate_release(terms, tmp_path / "z.csv", np.random.default_rng(3), tied)
    assert not list(tmp_path.iterdir())


def test_weights_leave_beside_the_features(tmp_path):
    """A public column, as it is; weights of 0 are refused before anything is drawn."""
    table = people(50) | {"w": np.linspace(1, 5, 50)}
    given = spec(weights="w")
    charged(stated_plan(given), tmp_path / "z.csv", table)
    found = read_release(tmp_path / "z.csv")
    assert found.table_columns[-2:] == ("w", "z")
    (block,) = found.blocks()
    assert np.allclose(block.weights, table["w"])
    with pytest.raises(InvalidInput, match="above 0"):
        charged(stated_plan(given), tmp_path / "y.csv", table | {"w": np.zeros(50)})
    assert not (tmp_path / "y.csv").exists()
