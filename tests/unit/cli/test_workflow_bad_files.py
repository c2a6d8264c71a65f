"""Bad files: one clear message naming the column, exit code 2, nothing written, nothing shown."""

import os

import numpy as np
import pytest

from privest.workflow.spec import to_toml
from workflow_command import runner
from workflow_tables import people, spec, write

SECRET = "77313"  # digits of every bad cell: they must not be in a message


def _csv(change):
    """The table as lines of text, changed."""

    def make(folder):
        table = {name: np.array(column, dtype=object) for name, column in people().items()}
        table["ldl"] = np.exp(table["ldl"].astype(float)).astype(object)
        write(change(table) or table, folder / "people.csv")

    return make


def _set(column, value, row=150):
    def change(table):
        table[column][row] = value

    return _csv(change)


def _all(column, value):
    def change(table):
        table[column] = np.full(200, value, dtype=object)

    return _csv(change)


def _without(column):
    return _csv(lambda table: {n: c for n, c in table.items() if n != column})


def _tied(table):
    table["bmi"] = 3.0 * table["age"].astype(float) + 2.0


def _bytes(content):
    return lambda folder: (folder / "people.csv").write_bytes(content)


def _latin(folder):
    _set("sex", "m\u00e4nnlich77313")(folder)
    file = folder / "people.csv"
    file.write_bytes(file.read_text(encoding="utf-8").encode("latin-1"))


def _latin_header(folder):
    _csv(lambda table: None)(folder)
    file = folder / "people.csv"
    text = file.read_text(encoding="utf-8").replace("bmi", "gr\u00f6\u00dfe", 1)
    file.write_bytes(text.encode("latin-1"))


# name: (make the file, changes of the plan, words of the message, seen by: plan or release)
BAD = {
    "no feature column": (_without("bmi"), {}, ["'bmi'"], "plan"),
    "no target column": (_without("ldl"), {}, ["'ldl'"], "plan"),
    "text in a feature": (_set("age", f"old{SECRET}"), {}, ["'age'", "row 151"], "plan"),
    "text in the target": (_set("ldl", f"high{SECRET}"), {}, ["'ldl'", "row 151"], "release"),
    "decimal comma": (_set("ldl", "1,77313"), {}, ["'ldl'", "row 151", "comma"], "release"),
    "infinite feature": (_set("age", np.inf), {}, ["'age'", "row 151"], "plan"),
    "a gap in a feature": (_set("bmi", None), {}, ["'bmi'", "row 151", "missing"], "plan"),
    "a gap in the target": (_set("ldl", None), {}, ["'ldl'", "row 151"], "release"),
    "constant feature": (_all("bmi", 7.7313), {}, ["'bmi' is constant"], "plan"),
    "collinear features": (_csv(_tied), {}, ["'age'", "'bmi'", "collinear"], "plan"),
    "all-missing feature": (_all("bmi", None), {}, ["'bmi'", "a value is missing"], "plan"),
    "all-missing, dropped": (_all("bmi", None), {"missing": "drop"}, ["'bmi'", "every"], "plan"),
    "all-missing target": (_all("ldl", None), {}, ["'ldl'", "a value is missing"], "release"),
    "non-UTF-8 cell": (_latin, {}, ["'sex'", "row 151", "UTF-8"], "plan"),
    "non-UTF-8 header": (_latin_header, {}, ["UTF-8"], "plan"),
    "unknown category": (_set("sex", f"x{SECRET}"), {}, ["'sex'", "row 151"], "plan"),
    "empty file": (_bytes(b""), {}, ["people.csv", "empty"], "plan"),
    "only a header": (_bytes(b"age,bmi,sex,ldl\n"), {}, ["no rows"], "plan"),
    "ragged row": (_bytes(b"age,bmi,sex,ldl\n1,2,male\n"), {}, ["3 fields"], "plan"),
    "twice the same column": (
        _bytes(b"age,bmi,bmi,sex,ldl\n1,2,2,male,3\n"), {}, ["'bmi'", "more than one"], "plan",
    ),
    "a binary file": (_bytes(bytes(range(256)) * 9), {}, ["people.csv"], "plan"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path, capsys, monkeypatch):
    make, changes, words, by = BAD[name]
    privest = runner(capsys, monkeypatch)
    make(tmp_path)
    (tmp_path / "plan.toml").write_text(to_toml(spec("people.csv", **changes)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    planned = privest("plan", "plan.toml")
    released = privest("release", "plan.toml", "--output", "z.csv")
    assert released.code == 2
    if by == "plan":
        assert planned.code == 2
        said = [done.err.partition(" (Here: ")[0].strip() for done in (planned, released)]
        assert (planned.out, said[0]) == ("", said[1])  # the options differ
    else:  # only the readings are bad, and a plan does not read them
        assert planned.code == 0
    message = " ".join(released.err.split())
    for word in words:
        assert word in message
    assert released.err.count("privest:") == 1
    assert released.err.count("\n") == 1
    assert SECRET not in message.replace(".", "")
    assert not released.out
    assert sorted(os.listdir(tmp_path)) == ["people.csv", "plan.toml"]


def test_the_target_among_the_features(tmp_path, capsys, monkeypatch):
    privest = runner(capsys, monkeypatch)
    data = write(people(), tmp_path / "people.csv")
    given = ("--target", "ldl", "--features", "age,ldl", "--residual-variance", 1, "--level", 1)
    done = privest("plan", data, "--form", "rows", *given, "--save", tmp_path / "p.toml")
    assert done.code == 2
    assert "'ldl' is a private target" in done.err
    assert os.listdir(tmp_path) == ["people.csv"]


@pytest.mark.parametrize("value", [0.0, -7.7313])
def test_a_logarithm_needs_public_data_above_0(tmp_path, capsys, monkeypatch, value):
    """In the reference they are refused; a reading is clipped: to
    refuse it would tell about it.
    """
    privest = runner(capsys, monkeypatch)
    table = people()
    table["ldl"] = np.exp(table["ldl"])
    bad = table | {"ldl": np.where(np.arange(200) == 9, value, table["ldl"])}
    given = ("--target", "ldl", "--features", "age", "--transform", "log", "--level", 1)
    given += ("--range", "0.01,100")
    plan = tmp_path / "plan.toml"
    files = (tmp_path / "people.csv", "--reference", tmp_path / "r.csv", "--save", plan)
    for data, reference in ((table, bad), (bad, table)):
        write(data, tmp_path / "people.csv")
        write(reference, tmp_path / "r.csv")
        done = privest("plan", "--form", "rows", *files, *given)
        assert (done.code == 0) == (reference is table)
        assert ("have no logarithm" in done.err) == (reference is bad)
    for name, trial in (("z.csv", ()), ("trial.csv", ("--simulate",))):
        done = privest("release", plan, "--output", tmp_path / name, *trial)
        assert done.code == 0, done.err
        assert "7.7313" not in done.err


def test_damaged_binary_tables(tmp_path, capsys, monkeypatch):
    privest = runner(capsys, monkeypatch)
    good = write(people(), tmp_path / "good.parquet").read_bytes()
    for name, content in (
        ("cut.parquet", good[: len(good) // 2]),
        ("text.parquet", b"age,bmi\n1,2\n"),
        ("empty.parquet", b""),
        ("text.csv.gz", b"age,bmi\n1,2\n"),
    ):
        (tmp_path / name).write_bytes(content)
        given = ("--target", "ldl", "--features", "age", "--residual-variance", 1, "--level", 1)
        done = privest("plan", tmp_path / name, "--form", "rows", *given)
        assert done.code == 2, name
        assert name in done.err
        assert done.err.count("\n") == 1
