"""`privest identify`: numbers of the library, words for people, one clear error each."""

import csv
import io
import json
import typing

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import privest as pv
from privest import dynamics
from privest.cli.identify import identify
from privest.errors import InvalidInput, PrivestError
from privest.stream_file import read_release


def run(*arguments):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("identify")(identify)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["identify", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An AR(1) about 5 with an input; a gap."""
    folder = tmp_path_factory.mktemp("identify")
    rng = np.random.default_rng(0)
    u = rng.standard_normal(84)
    x = dynamics.AR(1, mean=False).system([0.7, 1.0]).sample(80, rng)[1][:, 0]
    y = 5 + x + 2 * u[:80]
    rows = [f"{k},{a!r},{b!r}" for k, (a, b) in enumerate(zip(y.tolist(), u.tolist()))]
    rows[7] = f"7,,{float(u[7])!r}"
    (folder / "y.csv").write_text("\n".join(["day,load,heat", *rows]) + "\n", encoding="utf-8")
    (folder / "u.csv").write_text("heat\n" + "\n".join(map(repr, u.tolist())), encoding="utf-8")
    (folder / "past.csv").write_text(
        "heat\n" + "\n".join(map(repr, u[:80].tolist())), encoding="utf-8"
    )
    return folder


def released(folder, name, *more):
    kept = folder / name
    done = run(
        folder / "y.csv", "--measurements", "load", *more, "--simulate", "--seed", "3",
        "--emit", "releases", "--output", kept, "--overwrite",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "The noise was simulated" in done.stderr
    return kept, read_release(kept.read_text(encoding="utf-8").splitlines(keepends=True))


def words(text):
    return " ".join(text.split())


def test_numbers_are_those_of_the_library(folder, tmp_path):
    asked = ["--family", "ar1-mean", "--level", "4"]
    kept, release = released(folder, "z.jsonl", *asked)
    assert np.flatnonzero(release.missing).tolist() == [7]
    found = dynamics.fit("ar1-mean", release, level=4.0)
    foreseen = found.forecast(3)
    out, drawn, tested = (tmp_path / name for name in ("o.csv", "o.png", "d.png"))
    same = ["--measurements", "load", *asked, "--simulate", "--seed", "3"]
    told = run(folder / "y.csv", *same, "--json", "--ahead", "3")
    record = json.loads(told.stdout)
    # machine code and NumPy take turns: the same numbers to rounding
    assert record["value"] == pytest.approx(found.value.tolist(), rel=1e-9)
    assert np.array(record["interval"]) == pytest.approx(found.interval(), rel=1e-9)
    assert record["open_ends"] == found.open_ends().tolist()
    assert np.array(record["forecast"]["value"]) == pytest.approx(foreseen.value)
    assert [record["aic"], record["bic"]] == pytest.approx([found.aic, found.bic], rel=1e-12)
    done = run(
        kept, "--from", "releases", *asked, "--ahead", "3", "--output", out, "--png", drawn,
        "--diagnose", tested,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert drawn.stat().st_size > 10_000
    assert tested.stat().st_size > 10_000
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [row["kind"] for row in rows] == ["smoothed"] * 80 + ["forecast"] * 3
    assert [int(row["step"]) for row in rows] == list(range(83))
    column = np.array([float(row["estimate"]) for row in rows])
    assert column[:80] == pytest.approx(found.signal().value[:, 0], rel=1e-8)
    ends = np.array([[float(row["low"]), float(row["high"])] for row in rows])
    assert ends[80:] == pytest.approx(foreseen.interval()[:, 0], rel=1e-9)
    assert found.diagnose().verdict in words(done.stderr)
    said = words(done.stdout)
    assert "AR(1, mean=False) from 79 releases at privacy level 4 (a larger s reveals more)" in said
    assert all(name in said for name in ("phi1", "q", "least s.e.", "no privacy"))
    assert f"AIC {found.aic:.2f}" in said
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_inputs_are_public_columns(folder):
    asked = ["--family", "regression1+mean", "--level", "4"]
    kept, release = released(folder, "zu.jsonl", *asked)
    u = np.loadtxt(folder / "u.csv", skiprows=1)
    found = dynamics.fit("regression1+mean", release, level=4.0, inputs=u[:80])
    assert found.value[-2:] == pytest.approx([2.0, 5.0], abs=1.5)
    given = ["--inputs-file", folder / "past.csv"]
    receiver = run(kept, "--from", "releases", *asked, *given, "--json")
    same = pytest.approx(found.value.tolist(), rel=1e-9)
    assert json.loads(receiver.stdout)["value"] == same
    trial = ["--measurements", "load", *asked, "--simulate", "--seed", "3", "--json"]
    holder = run(folder / "y.csv", *trial, "--inputs", "heat")
    assert holder.exit_code == 0, (holder.output, holder.exception)
    assert json.loads(holder.stdout)["value"] == same
    ahead = run(
        kept, "--from", "releases", *asked, "--inputs-file", folder / "u.csv", "--ahead", "4",
        "--json",
    )  # fmt: skip
    foreseen = found.forecast(4, inputs=u[80:])
    said = np.array(json.loads(ahead.stdout)["forecast"]["value"])
    assert said == pytest.approx(foreseen.value)


def test_lags_say_what_they_show(folder):
    kept, release = released(folder, "lags.jsonl", "--family", "ar1", "--level", "4", "--lags", "1")
    level = pv.StreamLevel.constant(4.0, lags=[1.0])
    found = dynamics.fit("ar1", release, level=level)
    assert found.exposure == pytest.approx(16.0, rel=1e-3)  # (1 + 1)²·4: twice the 8 of one
    done = run(kept, "--from", "releases", "--family", "ar1", "--level", "4", "--lags", "1")
    said = words(done.stdout)
    assert "at level 8, but measurements that move together at 15.99, 2 times" in said
    plain = run(folder / "y.csv", "--measurements", "load", "--family", "ar1", "--level", "4")
    assert "move together" not in plain.stdout


def test_what_is_not_determined_is_told(folder):
    """White readings of a random walk's family: the walk cannot be told from nothing."""
    path = folder / "flat.csv"
    white = np.random.default_rng(5).standard_normal(30)
    path.write_text("y\n" + "\n".join(map(repr, white.tolist())), encoding="utf-8")
    done = run(path, "--family", "level", "--level", "0.1", "--simulate", "--seed", "1")
    assert done.exit_code == 0, done.output
    assert "is not excluded" in words(done.stdout)
    assert "hardly determined" in words(done.stdout) or "not determined" in words(done.stdout)


def test_a_ledger_sends_the_same_again(folder, tmp_path):
    asked = ["--measurements", "load", "--family", "ar1", "--level", "4", "--json"]
    kept = ["--ledger", tmp_path / "l.db"]
    first, again = (run(folder / "y.csv", *asked, *kept) for _ in range(2))
    assert first.exit_code == 0, first.output
    once, twice = (json.loads(done.stdout) for done in (first, again))
    assert once["value"] == pytest.approx(twice["value"], rel=1e-9)
    assert once["simulated"] is False
    assert "This release is recorded nowhere" not in first.stderr
    loose = run(folder / "y.csv", *asked)
    assert "This release is recorded nowhere" in loose.stderr
    other = json.loads(loose.stdout)["value"]
    assert other != pytest.approx(once["value"], rel=1e-6)  # other noise


def test_clipped_readings_are_told(folder):
    done = run(
        folder / "y.csv", "--measurements", "load", "--family", "ar1", "--level", "4",
        "--range=-50,50", "--delta", "1e-6",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "clipped before they were released" in words(done.stderr)
    assert "ε =" in words(done.stderr)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--family": "ar"}, "--family ar"),
        ({"--family": "ar0"}, "--family ar0"),
        ({"--family": "garch1,1"}, "names no family"),
        ({"--family": "arma21"}, "arma2,1"),
        ({"--measurements": "day,load"}, "1 measurement per step; given: 2 columns"),
        ({"--measurements": "cold"}, "no column 'cold'"),
        ({"--inputs": "heat"}, "the model has none"),
        ({"--family": "regression1"}, "the model has 1 input: name the columns"),
        ({"--family": "regression1", "--inputs": "heat", "--ahead": "2"}, "--inputs-file"),
        (
            {"--family": "regression1", "--inputs-file": "past.csv", "--ahead": "2"},
            "of 82 rows, one per step; received 1 column of 80 rows",
        ),
        ({"--family": "regression1", "--inputs-file": "absent.csv"}, "absent.csv"),
        ({"csv": "day,load,heat\n0,1,1\n1,,1\n2,2,1\n"}, "at least 5 steps with a measurement; 2"),
        ({"csv": "day,load,heat\n0,oops,1\n"}, "line 2, column 2 is not a number"),
        ({"--lags": "a"}, "--lags must be numbers"),
        ({"--level": "-1"}, "level -1"),
        ({"--level": "0"}, "The level is 0"),
        ({"--level": "1e-300"}, "beyond the range"),
        ({"--level": "y.csv"}, "a number is needed"),
        ({"--png": "q.xyz"}, "the figure can be"),
        ({"--diagnose": "q.xyz"}, "the figure can be"),
        ({"--output": "y.csv"}, "is replaced (overwrite)"),
        ({"--emit": "releases", "--ahead": "2"}, "without --ahead"),
        ({"--emit": "releases", "--json": None}, "without --ahead"),
        ({"--from": "releases"}, "go with measurements, not with --from releases"),
        ({"--seed": "1"}, "a seed repeats the noise of a simulation"),
        ({"--subject": "me"}, "need a ledger"),
    ],
)
def test_bad_input_is_refused_before_noise_is_spent(folder, tmp_path, monkeypatch, change, message):
    monkeypatch.setattr(pv.StreamMechanism, "release", None)  # no release may be made
    source = folder / "y.csv"
    if "csv" in change:
        change = dict(change)
        source = tmp_path / "bad.csv"
        source.write_text(change.pop("csv"), encoding="utf-8")
    options = {"--family": "ar1", "--level": "2", "--measurements": "load"} | change
    for name in ("--output", "--inputs-file", "--png", "--diagnose"):
        if name in options:
            options[name] = folder / options[name]
    done = run(source, *(part for pair in options.items() for part in pair if part is not None))
    assert isinstance(done.exception, PrivestError), done.output
    assert message in str(done.exception)
    assert "oops" not in str(done.exception)


def test_releases_of_another_level_or_kind_are_refused(folder):
    kept, _ = released(folder, "other.jsonl", "--family", "ar1", "--level", "4")
    for source, level in ((kept, "2"), (folder / "y.csv", "4")):
        done = run(source, "--from", "releases", "--family", "ar1", "--level", level)
        assert isinstance(done.exception, InvalidInput), done.output


def test_every_option_is_explained():
    hints = typing.get_type_hints(identify, include_extras=True)
    for name, hint in hints.items():
        if name != "return":
            assert hint.__metadata__[0].help
