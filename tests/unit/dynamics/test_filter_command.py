"""`privest filter` as a command of its own: numbers of the library, one clear error each."""

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
from privest.cli.filter import filter_states, read_model
from privest.errors import InvalidInput, PrivestError
from privest.stream_file import check_lines, read_release

MODEL = """
states = ["place", "speed"]
A = [[1.0, 0.1], [0.0, 0.98]]
C = [[1.0, 0.0], [0.0, 1.0]]
Q = 0.01
R = [[0.25, 0.0], [0.0, 0.5]]
cov0 = 4.0
"""


def run(*arguments):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("filter")(filter_states)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["filter", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.toml").write_text(MODEL, encoding="utf-8")
    rng = np.random.default_rng(0)
    system, _ = read_model(tmp_path / "m.toml")
    _, y = system.sample(30, rng)
    lines = ["time,a,b", *(f"{k},{u!r},{v!r}" for k, (u, v) in enumerate(y.tolist()))]
    lines[6] = "5,,0.3"
    (tmp_path / "y.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def table(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("smooth", [False, True])
def test_numbers_are_those_of_the_library(folder, smooth):
    common = [
        "--model",
        folder / "m.toml",
        "--level",
        "2",
        "--measurements",
        "a,b",
        "--simulate",
        "--seed",
        "5",
    ]
    kept, out = folder / "z.jsonl", folder / "x.csv"
    done = run(folder / "y.csv", *common, "--emit", "releases", "--output", kept)
    assert done.exit_code == 0, done.output
    release = read_release(kept.read_text(encoding="utf-8").splitlines(keepends=True))
    assert release.missing.tolist() == [[k == 5, False] for k in range(30)]  # a cell, not the row
    found = dynamics.filter(read_model(folder / "m.toml")[0], release, level=2.0)
    result = found.smoothed if smooth else found.filtered
    more = ["--smooth"] if smooth else []
    done = run(folder / "y.csv", *common, *more, "--output", out, "--png", folder / "x.png")
    assert done.exit_code == 0, done.output
    assert (folder / "x.png").stat().st_size > 10_000
    again = run(kept, "--from", "releases", "--model", folder / "m.toml", "--level", "2", *more)
    assert again.exit_code == 0
    for text in (out.read_text(encoding="utf-8"), again.stdout):
        columns = table(text)
        assert list(columns) == ["step", "place", "place_se", "speed", "speed_se"]
        assert np.array_equal(columns["speed"], result.value[:, 1])
        assert np.array_equal(columns["place_se"], result.standard_error[:, 0])
    assert "from releases" in again.stderr


def test_epsilon_is_a_level(folder):
    options = [
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--sensitivity",
        "0.5",
        "--simulate",
        "--seed",
        "1",
    ]
    done = run(folder / "y.csv", "--model", folder / "m.toml", "--measurements", "a,b", *options)
    assert done.exit_code == 0
    s = pv.PrivacyLevel.from_epsilon(1.0, delta=1e-6, sensitivity=0.5).number
    missing = np.stack([np.arange(30) == 5, np.zeros(30, dtype=bool)], axis=1)
    limit = pv.bound(read_model(folder / "m.toml")[0], s, steps=30, missing=missing)
    assert table(done.stdout)["place_se"] == pytest.approx(limit.standard_error[:, 0], rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--model": "absent.toml"}, "cannot read"),
        ({"toml": "A = [[1.0]]"}, "lacks C, Q, R, cov0"),
        ({"toml": MODEL + "\nG = 1"}, "unknown G"),
        ({"toml": MODEL.replace("4.0", "-4.0")}, "cov0 must be positive semi-definite"),
        ({"toml": MODEL.replace('"speed"', '"place"')}, "2 different names"),
        ({"toml": "A = ["}, "it is not TOML"),
        ({"--measurements": "a"}, "2 measurements per step; given: 1 column."),
        ({"--measurements": "a,c"}, "no column 'c'"),
        ({"--level": "-1"}, "level -1"),
        ({"--level": "3", "--epsilon": "1"}, "as a level, or"),
        ({"--output": "y.csv"}, "is replaced (overwrite)"),
        ({"csv": "time,a,b\n0,1.5,oops\n"}, "line 2, column 3 is not a number"),
        ({"csv": "time,a,b\n0,1.5\n"}, "line 2 has 2 columns"),
        ({"csv": "time,a,b\n"}, "no rows"),
        ({"csv": "time,a,b\n0,inf,1\n", "--simulate": None}, "must be finite"),
        ({"csv": "time,a,b\n0,1,2\n\n2,1,2\n"}, "line 3 is empty: write NA"),
        ({"csv": "time,a,b,b\n0,1,2,3\n"}, "must have different names"),
        ({"--measurements": "a,a"}, "must have different names"),
        ({"--from": "releases"}, "go with measurements, not with --from releases"),
    ],
)
def test_bad_input(folder, change, message):
    if "toml" in change:
        (folder / "m.toml").write_text(change.pop("toml"), encoding="utf-8")
    if "csv" in change:
        (folder / "y.csv").write_text(change.pop("csv"), encoding="utf-8")
    options = {"--model": "m.toml", "--level": "2", "--measurements": "a,b"} | change
    for name in ("--model", "--output"):
        if name in options:
            options[name] = folder / options[name]
    done = run(
        folder / "y.csv", *(part for pair in options.items() for part in pair if part is not None)
    )
    assert done.exit_code != 0
    assert isinstance(done.exception, PrivestError), done.output
    assert message in str(done.exception)
    assert "oops" not in str(done.exception)


def test_releases_cannot_be_released_again(folder):
    done = run(
        folder / "y.csv", "--model", folder / "m.toml", "--level", "1", "--from", "releases",
        "--emit", "releases",
    )  # fmt: skip
    assert isinstance(done.exception, InvalidInput)


def test_every_option_is_explained():
    hints = typing.get_type_hints(filter_states, include_extras=True)
    for name, hint in hints.items():
        if name != "return":
            assert hint.__metadata__[0].help


ONE = "A = 1.0\nC = 1.0\nQ = 0.1\nR = 0.5\ncov0 = 1.0\n"


def of_one(folder, text, model=ONE):
    (folder / "one.toml").write_text(model, encoding="utf-8")
    (folder / "one.csv").write_text(text, encoding="utf-8")
    return run(folder / "one.csv", "--model", folder / "one.toml", "--level", "2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y\n1.5\n\n2.5\n", "line 3 is empty: write NA"),
        ("1.5\n2.5\n3.5\n", "the first line must name the columns; it holds numbers"),
        ('y\n1.5\n"' + "2" * 200_000 + "\n", "not a CSV file"),
        ("\n\n", "no rows"),
    ],
)
def test_one_column_loses_no_step_in_silence(folder, text, message):
    done = of_one(folder, text)
    assert isinstance(done.exception, InvalidInput), done.output
    assert message in str(done.exception)
    assert "1.5" not in str(done.exception)


def test_missing_steps_of_one_column_keep_their_place(folder):
    done = of_one(folder, "y\n1.5\nNA\n2.5\n\n\n")
    assert done.exit_code == 0, done.output
    system, _ = read_model(folder / "one.toml")
    # noise on the grid has variance v = 1 + 3g²/4: as if the level were S/v
    v = 1 + 0.75 * 2.0**-20
    limit = pv.bound(system, 2.0 / v, steps=3, missing=[False, True, False])
    assert table(done.stdout)["x0_se"] == pytest.approx(limit.standard_error[:, 0], rel=1e-12)


def test_a_diffuse_start_needs_no_cov0(folder):
    trend = "A = [[1.0, 1.0], [0.0, 1.0]]\nC = [[1.0, 0.0]]\nQ = 0.1\nR = 0.5\n"
    done = of_one(folder, "y\n1.5\n2.5\n2.0\n", trend + "diffuse = true\n")
    assert done.exit_code == 0, done.output
    assert np.isinf(table(done.stdout)["x1_se"][0])
    assert np.isfinite(table(done.stdout)["x1_se"][1:]).all()
    assert "lacks cov0" in str(of_one(folder, "y\n1.5\n", trend).exception)
    hidden = "A = [[1.0, 0.0], [0.0, 1.0]]\nC = [[1.0, 0.0]]\nQ = 0.1\nR = 0.5\ndiffuse = true\n"
    refused = of_one(folder, "y\n" + 9 * "1.5\n", hidden)
    assert isinstance(refused.exception, pv.errors.NotIdentifiable)
    assert "of its 2 diffuse directions" in str(refused.exception)
    in_part = of_one(folder, "y\n1.5\n", trend + "diffuse = [true, false]\n")
    assert "lacks cov0" in str(in_part.exception)


def test_readings_without_noise_do_not_spoil_the_summary(folder):
    """Without privacy the first measurement tells all: 0 after it, and no failure."""
    model = ONE.replace("0.1", "0.0").replace("0.5", "0.0") + 'states = ["[b]"]\n'
    done = of_one(folder, "y\n1\n2\n3\n", model)
    assert done.exit_code == 0, done.output
    assert len(table(done.stdout)["[b]"]) == 3
    assert "[b]" in done.stderr  # a name, not markup
    assert "│               0 │" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80


def test_releases_that_are_none(folder):
    done = run(folder / "y.csv", "--model", folder / "m.toml", "--level", "1", "--from", "releases")
    assert isinstance(done.exception, InvalidInput)
    assert "not a release" in str(done.exception)


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--png", "q.xyz", "the figure can be"),
        ("--png", ".", "is a folder"),
        ("--png", "y.csv/q.png", "cannot be written"),
        ("--output", ".", "is a folder"),
        ("--output", "y.csv", "exists"),
    ],
)
def test_outputs_are_checked_before_noise_is_spent(folder, monkeypatch, option, name, message):
    monkeypatch.setattr(pv.StreamMechanism, "simulate", None)  # no release may be made
    done = run(
        folder / "y.csv", "--model", folder / "m.toml", "--level", "1", "--measurements", "a,b",
        option, folder / name,
    )  # fmt: skip
    assert isinstance(done.exception, InvalidInput), done.exception
    assert message in str(done.exception)


def test_releases_come_with_their_warning(folder):
    done = run(
        folder / "y.csv", "--model", folder / "m.toml", "--level", "1", "--measurements", "a,b",
        "--emit", "releases", "--simulate",
    )  # fmt: skip
    assert done.exit_code == 0
    assert "The noise was simulated" in " ".join(done.stderr.split())
    assert json.loads(done.stdout.splitlines()[0])["simulated"] is True


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e308", "-1e999", "nan", "", "5e-324"])
def test_no_value_of_a_reading_is_refused(folder, cell):
    """A real release; the library reads what the command wrote, whole numbers of the grid."""
    text = (folder / "y.csv").read_text(encoding="utf-8").splitlines()
    text[10] = f"9,{cell},0.5"
    (folder / "y.csv").write_text("\n".join(text), encoding="utf-8")
    common = ["--model", folder / "m.toml", "--level", "2", "--range=-100,100"]
    out = folder / "z.jsonl"
    done = run(
        folder / "y.csv", *common, "--measurements", "a,b", "--emit", "releases", "--output", out
    )
    assert done.exit_code == 0, done.output
    assert "simulated" not in done.stderr
    release = read_release(out.read_text(encoding="utf-8").splitlines(keepends=True))
    assert (release.simulated, release.grid, release.steps) == (False, 2**-10, 30)
    missing = {5} | ({9} if cell in ("nan", "") else set())
    assert set(np.flatnonzero(release.missing[:, 0])) == missing
    assert not release.missing[:, 1].any()
    # 2·100 = 141.4 deviations at level 2; noise beyond 9 of them has probability 2e-19
    assert np.nanmax(np.abs(release.values)) < 2**0.5 * 100 + 9
    again = run(out, "--from", "releases", *common[:4])
    assert again.exit_code == 0, again.output
    found = dynamics.filter(read_model(folder / "m.toml")[0], release, level=2.0)
    assert np.array_equal(table(again.stdout)["place"], found.filtered.value[:, 0])
    assert np.array_equal(table(again.stdout)["place_se"], found.filtered.standard_error[:, 0])


DRIVEN = ONE + "B = [[0.5, 0.0]]\nD = [[0.0, -1.0]]\n"


@pytest.fixture
def driven(tmp_path):
    """Readings y with inputs u, v, in one file and apart."""
    rng = np.random.default_rng(3)
    (tmp_path / "d.toml").write_text(DRIVEN, encoding="utf-8")
    system, _ = read_model(tmp_path / "d.toml")
    u = rng.standard_normal((40, 2))
    _, y = system.sample(40, rng, inputs=u)
    rows = [f"{a!r},{c!r},{b!r}" for (a, b), (c,) in zip(u.tolist(), y.tolist())]
    rows[4] = rows[4].split(",")[0] + ",," + rows[4].split(",")[2]
    (tmp_path / "y.csv").write_text("\n".join(["u,y,v", *rows]), encoding="utf-8")
    lines = ["v,day,u", *(f"{b!r},{k},{a!r}" for k, (a, b) in enumerate(u.tolist()))]
    (tmp_path / "u.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path, system, u


def test_inputs_are_columns_or_a_file_of_their_own(driven):
    folder, system, u = driven
    model = ["--model", folder / "d.toml", "--level", "2"]
    kept = folder / "z.jsonl"
    trial = [*model, "--simulate", "--seed", "4"]
    done = run(folder / "y.csv", *trial, "--inputs", "u,v", "--emit", "releases", "--output", kept)
    assert done.exit_code == 0, done.output
    release = read_release(kept.read_text(encoding="utf-8").splitlines(keepends=True))
    assert np.flatnonzero(release.missing).tolist() == [4]
    found = dynamics.filter(system, release, level=2.0, inputs=u)
    apart = ["--inputs", "u,v", "--inputs-file", folder / "u.csv"]
    for one in (
        run(folder / "y.csv", *trial, "--inputs", "u,v"),
        run(
            folder / "y.csv", *trial, "--measurements", "y", *apart, "--diagnose", folder / "d.png"
        ),
        run(kept, "--from", "releases", *model, *apart),
    ):
        assert one.exit_code == 0, one.output
        columns = table(one.stdout)
        assert np.array_equal(columns["x0_se"], found.filtered.standard_error[:, 0])
    assert np.array_equal(columns["x0"], found.filtered.value[:, 0])
    # the holder needs to know no inputs to release; the columns are then those of the readings
    bare = run(folder / "y.csv", *trial, "--measurements", "y", "--emit", "releases")
    assert bare.exit_code == 0, bare.output


def test_a_diagnosis_is_told_and_drawn(driven):
    folder, system, u = driven
    kept, drawn = folder / "z.jsonl", folder / "d.png"
    model = ["--model", folder / "d.toml", "--level", "2"]
    run(folder / "y.csv", *model, "--inputs", "u,v", "--emit", "releases", "--output", kept)
    done = run(
        kept, "--from", "releases", *model, "--inputs", "u,v", "--inputs-file", folder / "u.csv",
        "--diagnose", drawn,
    )  # fmt: skip
    release = read_release(kept.read_text(encoding="utf-8").splitlines(keepends=True))
    found = dynamics.filter(system, release, level=2.0, inputs=u)
    assert found.diagnose().verdict in " ".join(done.stderr.split())
    assert drawn.stat().st_size > 10_000
    few = of_one(folder, "y\n1\n2\n3\n")  # too few for a test: the estimates are there all the same
    done = run(
        folder / "one.csv", "--model", folder / "one.toml", "--level", "2", "--diagnose",
        folder / "none.png",
    )  # fmt: skip
    assert (few.exit_code, done.exit_code) == (0, 0)
    assert "No diagnosis" in done.stderr
    assert not (folder / "none.png").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "the model has 2 inputs: name the columns with --inputs"),
        ({"--inputs": "u"}, "given: 2 columns. Choose that many"),
        (
            {"--inputs": "u", "--measurements": "y"},
            "2 columns of 40 rows, one per step; received 1 column of",
        ),
        ({"--inputs": "u,w"}, "no column 'w'"),
        ({"--inputs": "u,u", "--measurements": "y"}, "must have different names"),
        ({"--inputs": "u,y", "--measurements": "y"}, "private, and an input"),
        ({"--inputs": ","}, "name at least one column"),
        ({"--inputs-file": "absent.csv", "--measurements": "y"}, "absent.csv"),
        (
            {"--inputs-file": "short.csv", "--measurements": "y"},
            "of 40 rows, one per step; received 2 columns of 2 rows",
        ),
        (
            {"--inputs-file": "hole.csv", "--measurements": "y"},
            "line 3, column 2: an input is missing",
        ),
        ({"--inputs-file": "word.csv", "--measurements": "y"}, "line 2, column 1 is not a number"),
        ({"--inputs-file": "none.csv", "--measurements": "y"}, "no rows"),
        ({"--inputs": "u,v", "--from": "releases"}, "needs --inputs-file"),
        ({"--inputs": "u,v", "--diagnose": "q.xyz"}, "the figure can be"),
        ({"--inputs": "u,v", "--diagnose": "q.png", "--emit": "releases"}, "without --smooth"),
        ({"--inputs": "u,v", "toml": ONE}, "the model has none"),
        ({"--inputs": "u,v", "toml": ONE + "B = [[1.0], [2.0]]"}, "B must have 1 row;"),
        ({"--inputs": "u,v", "toml": ONE + "B = [[1.0]]\nD = [[1.0, 2.0]]"}, "B and D must have"),
    ],
)
def test_bad_inputs_are_refused_before_noise_is_spent(driven, monkeypatch, change, message):
    folder, *_ = driven
    (folder / "short.csv").write_text("u,v\n1,2\n3,4\n", encoding="utf-8")
    (folder / "hole.csv").write_text("u,v\n1,2\n3,NA\n", encoding="utf-8")
    (folder / "word.csv").write_text("u,v\nsecret,2\n3,4\n", encoding="utf-8")
    (folder / "none.csv").write_text("u,v\n", encoding="utf-8")
    if "toml" in change:
        (folder / "d.toml").write_text(change.pop("toml"), encoding="utf-8")
    spent = []
    own = pv.StreamMechanism.release
    monkeypatch.setattr(
        pv.StreamMechanism, "release", lambda *given: spent.append(1) or own(*given)
    )
    options = {"--model": "d.toml", "--level": "2"} | change
    for name in ("--model", "--inputs-file", "--diagnose"):
        if name in options:
            options[name] = folder / options[name]
    done = run(folder / "y.csv", *(part for pair in options.items() for part in pair))
    assert isinstance(done.exception, InvalidInput), done.output
    assert message in str(done.exception)
    assert "secret" not in str(done.exception)
    assert not spent


@pytest.mark.parametrize("stated", [False, True])
def test_single_empty_cells_at_a_level_that_mixes_readings(folder, stated):
    """The step shows nothing: the receiver reads so from the lines, and errs as the bound says."""
    (folder / "level.csv").write_text("2,0.6\n0.6,1.5\n", encoding="utf-8")
    common = ["--model", folder / "m.toml", "--level", folder / "level.csv"]
    more = ["--delta", "1e-6", "--sensitivity", "0.5"] if stated else []
    out = folder / "z.jsonl"
    done = run(
        folder / "y.csv",
        *common,
        *more,
        "--measurements",
        "a,b",
        "--emit",
        "releases",
        "--output",
        out,
    )
    assert done.exit_code == 0, done.output
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True)
    assert [json.loads(line)["z"] is None for line in lines[1:]] == [k == 5 for k in range(30)]
    assert check_lines(lines).missing == 1
    release = read_release(lines)
    gap = np.arange(30) == 5
    assert np.array_equal(release.missing, gap)
    again = run(out, "--from", "releases", *common)
    assert again.exit_code == 0, again.output
    level = pv.StreamLevel.constant([[2.0, 0.6], [0.6, 1.5]])
    limit = pv.bound(read_model(folder / "m.toml")[0], level, steps=30, missing=gap)
    # real noise has a variance of 1 + 3·2⁻²², which the bound has not
    assert table(again.stdout)["speed_se"] == pytest.approx(limit.standard_error[:, 1], rel=1e-6)
