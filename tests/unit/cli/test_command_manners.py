"""What commands have in common: outputs looked at first, one rule for codes, folders and gaps."""

import json
import os
import re
from html import unescape

import numpy as np
import pytest

from privest.data.cells import MISSING
from workflow_command import runner
from workflow_tables import people, write

STREAM = ("--target", "ldl", "--features", "age,bmi", "--residual-variance", 0.3, "--level", 2)
PLAN = ("--form", "rows", *STREAM)


@pytest.fixture
def privest(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """People, a plan for them, and nothing else; as the working folder."""
    monkeypatch.chdir(tmp_path)
    write(people(60), tmp_path / "people.csv")
    (tmp_path / "m.toml").write_text("A = 1.0\nC = 1.0\nQ = 0.1\nR = 1.0\ncov0 = 1.0\n")
    (tmp_path / "y.csv").write_text("y\n1\n2\n")
    (tmp_path / "plan.toml").write_text(
        'version = 4\ndata = "people.csv"\n[model]\ntarget = ["ldl"]\nfeatures = ["age", "bmi"]\n'
        'missing = "drop"\n[public]\nresidual_variance = 0.3\n[privacy]\nlevel = 2.0\n'
    )
    return tmp_path


# --- outputs --------------------------------------------------------------------------------------


@pytest.fixture
def no_noise(monkeypatch):
    """Fails where noise is drawn: outputs must be refused before."""
    from privest.mechanism import StreamMechanism

    def drawn(*args, **kwargs):
        raise AssertionError("noise was spent")

    monkeypatch.setattr(StreamMechanism, "simulate", drawn)


DRAWING = ("stream", "filter", "identify")
FOUND = {
    "plan": ("plan", "people.csv", *PLAN),
    "stream": ("stream", "people.csv", *STREAM),
    "filter": ("filter", "y.csv", "--model", "m.toml", "--level", 2),
    "identify": ("identify", "y.csv", "--family", "level", "--level", 2),
    "release": ("release", "plan.toml"),
    "report": ("report", "plan.toml", "z.csv"),
}


@pytest.mark.parametrize(
    ("command", "option", "value", "words"),
    [
        *((name, "--png", "x.bmp", "the figure can be .png") for name in DRAWING),
        *((name, "--png", "fold", "is a folder") for name in DRAWING),
        *((name, "--output", "fold", "is a folder: name a file in it")
          for name in ("stream", "filter", "identify", "release", "report")),
        ("plan", "--save", "fold", "is a folder"),
        *((name, "--output", "y.csv/z.csv", "is not a folder")
          for name in ("stream", "filter", "identify", "release", "report")),
        *((name, "--png", "y.csv/x.png", "is not a folder") for name in DRAWING),
        ("plan", "--save", "y.csv/p.toml", "is not a folder"),
        ("release", "--output", "z.txt", ".csv or .parquet"),
        ("report", "--output", "r.pdf", "the page is .html"),
        ("stream", "--output", "y.csv", "(overwrite)"),
        ("filter", "--output", "people.csv", "(overwrite)"),
        ("identify", "--output", "people.csv", "(overwrite)"),
        ("identify", "--diagnose", "x.bmp", "the figure can be .png"),
        ("release", "--output", "people.csv", "exists"),
        ("report", "--output", "old.html", "--overwrite"),
        ("plan", "--save", "plan.toml", "--overwrite"),
    ],
)  # fmt: skip
def test_outputs_are_looked_at_first(privest, folder, no_noise, command, option, value, words):
    (folder / "fold").mkdir()
    (folder / "old.html").write_text("a page")
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    done = privest(*FOUND[command], option, value)
    assert (done.code, done.out) == (2, ""), done
    assert words in " ".join(done.err.split())
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_folders_are_made_by_every_option(privest, folder):
    runs = [
        ("plan", "people.csv", *PLAN, "--save", "a/b/p.toml"),
        ("release", "plan.toml", "--output", "d/e/z.csv"),
        ("report", "plan.toml", "d/e/z.csv", "--output", "f/g/r.html"),
        ("stream", "people.csv", *STREAM, "--block", 60, "--output", "h/i/e.csv", "--png",
         "h/j/e.svg", "--checkpoint", "k/l/s"),
        ("filter", "y.csv", "--model", "m.toml", "--level", 2, "--output", "m/n/x.csv", "--png",
         "m/o/x.pdf"),
    ]  # fmt: skip
    for arguments in runs:
        done = privest(*arguments)
        assert done.code == 0, done.err
    for name in ("a/b/p.toml", "d/e/z.csv.json", "f/g/r.html", "h/i/e.csv",
                 "h/j/e.svg", "k/l/s", "m/n/x.csv", "m/o/x.pdf"):  # fmt: skip
        assert (folder / name).stat().st_size > 0


def test_a_report_is_replaced_when_told(privest, folder):
    privest("release", "plan.toml", "--output", "z.csv")
    assert privest("report", "plan.toml", "z.csv").code == 0
    assert privest("report", "plan.toml", "z.csv").code == 2
    assert privest("report", "plan.toml", "z.csv", "--overwrite").code == 0


def test_a_folder_that_may_not_be_written(privest, folder, no_noise, monkeypatch):
    """As it is for everybody but root, who may run the tests."""
    (folder / "closed").mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda p, how: "closed" not in str(p) and allowed(p, how))
    for name in ("stream", "filter", "identify", "release", "report"):
        ending = {"release": "z.csv", "report": "r.html"}.get(name, "x")
        done = privest(*FOUND[name], "--output", f"closed/new/{ending}")
        assert (done.code, "does not let you" in done.err) == (2, True), done


# --- gaps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    ["", ".", "na", "n/a", "nan", "null", "none", "NA", "N/A", "NAN", "NULL", "NONE", "None"],
)
def test_the_same_words_are_missing_everywhere(privest, folder, word):
    """In a release, a stream of CSV, a stream of JSON lines and a dynamic model."""
    assert word in MISSING
    table = {name: np.array(col[:8], dtype=object) for name, col in people(60).items()}
    cells = [f"{a},{b},{y}" for a, b, y in zip(table["age"], table["bmi"], table["ldl"])]
    cells[3] = cells[3].rsplit(",", 1)[0] + f",{word}"
    (folder / "people.csv").write_text("age,bmi,ldl\n" + "\n".join(cells) + "\n")
    done = privest("release", "plan.toml", "--output", "z.csv")
    said = " ".join(done.err.split())
    assert "Left out for missing values: 1 row." in said
    done = privest("stream", "people.csv", *STREAM, "--block", 8)
    assert "8 rows; 1 of them without a measurement" in done.err, done
    lines = [dict(zip(("age", "bmi"), map(float, line.split(",")))) | {"ldl": line.split(",")[2]}
             for line in cells]  # fmt: skip
    (folder / "people.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = privest("stream", "people.jsonl", *STREAM, "--block", 8)
    assert "8 rows; 1 of them without a measurement" in done.err, done
    (folder / "y.csv").write_text(f"y,k\n1,1\n{word},1\n2,1\n")
    done = privest("filter", "y.csv", "--model", "m.toml", "--level", 2, "--measurements", "y",
                   "--emit", "releases", "--simulate", "--seed", 1)  # fmt: skip
    zs = [json.loads(line)["z"] is None for line in done.out.splitlines()[1:]]
    assert zs == [False, True, False]


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "people.csv", *PLAN, "--target", "lld"), "Did you mean 'ldl'? There are 'age'"),
        (("plan", "people.csv", *PLAN, "--features", "Age,bmj"),
         "no column 'Age', 'bmj'. Did you mean 'age'? Did you mean 'bmi'?"),
        (("plan", "people.csv", *PLAN, "--want", "agee=1"), "Did you mean 'age'?"),
        (("stream", "people.csv", *STREAM, "--target", "lld"), "Did you mean 'ldl'?"),
        (("filter", "y.csv", "--model", "m.toml", "--level", 1, "--measurements", "yy"),
         "Did you mean 'y'?"),
        (("identify", "y.csv", "--family", "ar1", "--level", 1, "--measurements", "yy"),
         "Did you mean 'y'?"),
        (("identify", "y.csv", "--level", 1), "Missing option '--family'"),
        (
            ("plan", "people.csv", *PLAN, "--transform", "box-cox"),
            "transform must be one of none, log",
        ),
        (("plan", "people.csv", *PLAN, "--want", "age=1", "--want", "age=2"), "there twice"),
        (("plan", "bare.toml"), "bare.toml: 'data' is missing"),
        (("plan", "people.csv", *PLAN, "--bogus"), "No such option: --bogus"),
        (("plan",), "Missing argument"),
        (("nothing",), "No such command"),
        (("estimate", "z.csv", "extra"), "unexpected extra argument"),
        (("stream", "people.csv", *STREAM, "--block", "0"), "--block"),
        (("stream", "people.csv", *STREAM, "--level", "m.toml"), "a number is needed"),
    ],
)  # fmt: skip
def test_one_message_and_code_2(privest, folder, arguments, words):
    (folder / "bare.toml").write_text(
        'version = 4\n[model]\ntarget = ["ldl"]\nfeatures = ["age"]\n[privacy]\nlevel = 1\n'
    )
    done = privest(*arguments)
    assert (done.code, done.out) == (2, ""), done
    assert done.err.startswith("privest: ")
    assert words in " ".join(done.err.split())


def test_a_first_line_of_data_is_not_shown(privest, folder):
    """Without a header it is a person's."""
    (folder / "bare.csv").write_text("Smith,41,lld\nJones,42,ldl\n")
    done = privest("plan", "bare.csv", *PLAN)
    assert (done.code, "Smith" in done.err, "41" in done.err) == (2, False, False)
    assert "its first line names 3 columns" in done.err


def test_a_cell_of_text_does_not_make_a_column_of_texts(privest, folder):
    """Which it is, a plan that has seen a few rows cannot say: the release does."""
    table = {name: np.array(column, dtype=object) for name, column in people(60).items()}
    table["ldl"][:59] = "high"
    write(table, folder / "people.csv")
    assert privest("plan", "people.csv", *PLAN).code == 0
    done = privest("release", "plan.toml", "--output", "z.csv")
    assert (done.code, "'ldl', row 1" in done.err) == (2, True)


def test_help_says_what_a_level_is_and_what_codes_mean(privest):
    for command in ("plan", "stream"):
        text = " ".join(privest(command, "--help").out.split())
        assert "--level NUMBER " in text
        assert "NUMBER|FILE" not in text
    assert "Exit codes: 0 done; 2 something given is wrong" in " ".join(
        privest("--help").out.split()
    )


def test_wanted_errors_are_all_answered(privest, folder):
    wanted = ("--want", "age=0.001", "--want", "bmi=0.002")
    done = privest("plan", "people.csv", *PLAN, *wanted)
    assert done.out.count("rows like these are needed") == 2
    found = json.loads(privest("plan", "people.csv", *PLAN, *wanted, "--json").out)
    assert set(found["rows_wanted"]) == {"age", "bmi"}


def test_another_seed_does_not_go_on_with_the_first(privest, folder):
    first = (
        "stream",
        "people.csv",
        *STREAM,
        "--block",
        60,
        "--checkpoint",
        "s",
        "--output",
        "e.csv",
    )
    assert privest(*first, "--simulate", "--seed", 5).code == 0
    done = privest(*first, "--simulate", "--seed", 9, "--continue")
    assert (done.code, "another seed" in done.err) == (2, True), done
    assert privest(*first, "--continue").code == 2
    assert privest(*first, "--simulate", "--seed", 5, "--continue").code == 0


# --- estimates and reports ------------------------------------------------------------------------


def test_rows_left_out_are_told_by_estimate_and_report(privest, folder):
    table = people(60)
    table["ldl"][::20] = np.nan
    write(table, folder / "people.csv")
    privest("release", "plan.toml", "--output", "z.csv")
    done = privest("estimate", "z.csv")
    assert "Left out for missing values: 3 rows." in done.out
    assert privest("report", "plan.toml", "z.csv").code == 0
    page = unescape(re.sub(r"<[^>]*>", "", (folder / "report.html").read_text(encoding="utf-8")))
    assert "which they are becomes public" in " ".join(page.split())
