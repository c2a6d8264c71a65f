"""`privest plan`, `release`, `estimate`, `report`: thin, and the same as the library."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from html import unescape

import numpy as np
import pytest

from privest.ledger import discard
from privest.report.numbers import near
from privest.workflow.commands import commands_of
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.spec import load_spec, to_toml
from workflow_command import runner
from workflow_tables import LEVEL, VARIANCE, people, spec, write

OPTIONS = (
    "--form", "rows",
    "--target", "ldl", "--features", "age, bmi,sex", "--category", "sex=female,male",
    "--residual-variance", VARIANCE, "--level", LEVEL,
)  # fmt: skip


@pytest.fixture
def privest(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def data(tmp_path):
    return write(people(), tmp_path / "people.csv")


@pytest.fixture
def plan_file(privest, data, tmp_path):
    done = privest("plan", data, *OPTIONS, "--save", tmp_path / "plan.toml")
    assert done.code == 0, done.err
    return tmp_path / "plan.toml"


def test_options_and_plan_file_say_the_same(privest, data, plan_file):
    by_options = privest("plan", data, *OPTIONS, "--json", "--want", "age=0.001")
    by_file = privest("plan", plan_file, "--json", "--want", "age=0.001")
    assert by_options.out == by_file.out
    found = json.loads(by_file.out)
    expected = make_plan(spec(data))
    assert found == expected.to_dict() | {"rows_wanted": {"age": expected.rows_for(0.001, "age")}}


@pytest.mark.parametrize(
    "options",
    [("--epsilon", 3), ("--features", "age"), ("--format", "missing_codes=-9"),
     ("--residual-variance", 1)],
)  # fmt: skip
def test_options_beside_a_plan_file_are_refused(privest, plan_file, options):
    done = privest("plan", plan_file, *options)
    assert (done.code, "change that file" in done.err) == (2, True)


def test_a_message_of_the_library_is_followed_by_the_option(privest, data, tmp_path):
    table = tmp_path / "gap.csv"
    table.write_text("age,y\n1,2\n,3\n4,5\n")
    done = privest(
        "plan", table, "--form", "rows", "--target", "y", "--features", "age", "--level", 1
    )
    assert done.code == 2
    assert "(Here: --missing)" in done.err


def test_yes_and_no_are_words_of_a_row(privest, tmp_path):
    table, plan = tmp_path / "t.csv", tmp_path / "p.toml"
    table.write_text("smoker,y\n" + "yes,2\nno,3\nyes,4\nno,3\nyes,5\n" * 3)
    privest(
        "plan",
        table,
        "--form",
        "rows",
        "--target",
        "y",
        "--features",
        "smoker",
        "--level",
        1,
        "--save",
        plan,
    )
    assert privest("release", plan, "--output", tmp_path / "z.csv", "--simulate").code == 0
    by_word, by_number = (
        json.loads(privest("estimate", tmp_path / "z.csv", "--at", at, "--json").out)["at"][at]
        for at in ("smoker=yes", "smoker=1")
    )
    assert by_word == by_number


def test_every_option_reaches_the_plan(privest, data, tmp_path):
    reference = write(people(50, seed=1), tmp_path / "r.csv")
    given = (
        "--target", "ldl", "--features", "age,bmi", "--reference", reference, "--epsilon", 2,
        "--delta", "1e-5", "--set", "privacy.sensitivity=0.5", "--missing", "drop",
        "--set", "model.intercept=false", "--save", tmp_path / "p.toml",
    )  # fmt: skip
    done = privest("plan", data, "--form", "rows", *given)
    assert done.code == 0, done.err
    saved = load_spec(tmp_path / "p.toml")
    assert (saved.privacy.epsilon, saved.privacy.delta, saved.privacy.sensitivity) == (2, 1e-5, 0.5)
    assert (saved.model.missing, saved.model.intercept) == ("drop", False)
    assert saved.public.reference == str(reference)
    one = ("--target", "ldl", "--features", "age", "--standard-error", "age=0.01")
    more = ("--residual-variance", 0.3, "--transform", "log")
    more += ("--range", "0.1,50")
    done = privest("plan", data, "--form", "rows", *one, *more, "--save", tmp_path / "q.toml")
    assert done.code == 0, done.err
    saved = load_spec(tmp_path / "q.toml")
    assert saved.privacy.standard_error == {"age": 0.01}
    assert saved.model.transform == "log"


def test_what_the_plan_prints(privest, plan_file, data):
    done = privest("plan", plan_file, "--want", "sex=male=0.01")
    assert done.code == 0
    plan = make_plan(spec(data))
    text = " ".join(done.out.split())
    for error in (*plan.standard_error, *plan.classical_error):
        assert near(error) in text
    assert f"{plan.rows_for(0.01, 'sex=male'):,} rows like these" in text
    assert "Privacy level s = 2, a cap on Fisher information: a larger s reveals more." in text
    assert "an attacker is right at most" in text
    assert "No range is enforced: ε is unlimited" in text
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert not done.err


def test_units_of_a_transformed_target_are_said(privest, tmp_path):
    table = people()
    table["ldl"] = np.exp(table["ldl"])
    data = write(table, tmp_path / "p.csv")
    given = (*OPTIONS, "--transform", "log", "--delta", "1e-6", "--set", "privacy.sensitivity=0.5")
    refused = privest("plan", data, "--form", "rows", *given)
    assert refused.code == 2
    assert "A logarithm needs a public range" in " ".join(refused.err.split())
    done = privest("plan", data, "--form", "rows", *given, "--range", "0.01,100")
    text = " ".join(done.out.split())
    assert "one value replaced anywhere in the range: ε =" in text
    assert "Half of an ordinary reader's guesses are within a factor of" in text
    assert "not enforced" not in text  # the smaller difference is a detail of the page


def test_release_estimate_and_report(privest, plan_file, tmp_path):
    table = tmp_path / "z.parquet"
    done = privest("release", plan_file, "--output", table, "--seed", 5)
    assert done.code == 2
    assert "a real release has no seed" in " ".join(done.err.split())
    done = privest("release", plan_file, "--output", table, "--simulate", "--seed", 5)
    assert done.code == 0, done.err
    assert not done.out
    for words in (
        "200 rows released",
        "The noise is simulated",
        "without protection",
        "z.parquet.json",
    ):
        assert words in " ".join(done.err.split())
    found = estimate(table)
    shown = privest("estimate", table, "--json", "--confidence", 0.9)
    assert json.loads(shown.out) == json.loads(json.dumps(found.to_dict(0.9)))
    shown = privest("estimate", table, "--confidence", 0.995)
    assert "99.5% interval" in shown.out
    assert "without protection" in " ".join(shown.out.split())
    assert max(len(line) for line in shown.out.splitlines()) <= 80
    page = tmp_path / "deep" / "page.html"
    done = privest("report", plan_file, table, "--output", page)
    assert done.code == 0, done.err
    html = page.read_text(encoding="utf-8")
    text = unescape(re.sub(r"<[^>]*>", "", html))
    lines = commands_of(plan_file.name, table.name, page.name, simulated=True)
    for words in ("sex=male", "without protection", *lines):
        assert words in text
    assert str(tmp_path) not in text  # where files lie stays here
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", html)  # self-contained


def test_no_reading_is_in_the_page(privest, plan_file, tmp_path):
    table = tmp_path / "z.csv"
    privest("release", plan_file, "--output", table)
    privest("report", plan_file, table, "--output", tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not [y for y in people()["ldl"].tolist() if repr(y) in html or f"{y:.8g}" in html]


def test_a_seed_repeats_and_none_does_not(privest, plan_file, tmp_path):
    tables = []
    for k, seed in enumerate([("--seed", 5), ("--seed", 5), ("--seed", 6), (), ()]):
        privest("release", plan_file, "--output", tmp_path / f"{k}.csv", "--simulate", *seed)
        tables.append((tmp_path / f"{k}.csv").read_bytes())
    assert tables[0] == tables[1]
    assert len(set(tables)) == 4


def test_a_second_release_is_refused(privest, plan_file, tmp_path):
    assert privest("release", plan_file, "--output", tmp_path / "z.csv").code == 0
    before = (tmp_path / "z.csv").read_bytes()
    done = privest("release", plan_file, "--output", tmp_path / "z.csv")
    assert done.code == 2
    assert "privacy again" in done.err
    assert (tmp_path / "z.csv").read_bytes() == before
    assert privest("release", plan_file, "--output", tmp_path / "people.csv").code == 2
    done = privest("release", plan_file, "--output", tmp_path / "y.csv")
    assert done.code == 2
    assert "'ldl of people.csv' was released on" in " ".join(done.err.split())
    assert not (tmp_path / "y.csv").exists()


def test_a_plan_that_exists_is_kept(privest, data, plan_file):
    before = plan_file.read_bytes()
    done = privest("plan", data, *OPTIONS, "--missing", "drop", "--save", plan_file)
    assert done.code == 2
    assert "--overwrite" in done.err
    assert plan_file.read_bytes() == before


def test_a_report_where_readings_are_missing(privest, tmp_path):
    """The plan counts rows whose reading is missing, the release does not: one curve, of the rows
    released, at lax levels too.
    """
    table = people()
    table["ldl"][::9] = np.nan
    data = write(table, tmp_path / "gaps.csv")
    options = (*OPTIONS[:-1], 400.0, "--missing", "drop", "--save", tmp_path / "gaps.toml")
    assert privest("plan", data, "--form", "rows", *options).code == 0
    assert privest("release", tmp_path / "gaps.toml", "-o", tmp_path / "z.csv").code == 0
    page = tmp_path / "gaps.html"
    done = privest("report", tmp_path / "gaps.toml", tmp_path / "z.csv", "-o", page)
    assert done.code == 0, done.err
    text = page.read_text(encoding="utf-8")
    assert "which they are becomes public" in text
    assert "Standard errors at other levels" in text


def test_a_report_of_another_plan_is_refused(privest, data, plan_file, tmp_path):
    privest("release", plan_file, "--output", tmp_path / "z.csv")
    changes = {
        "level or residual variance": ("--level", 3),
        "set of coefficients": ("--features", "age,sex"),
        "target": ("--target", "bmi", "--features", "age,sex"),
    }
    for what, change in changes.items():
        other = tmp_path / "other.toml"
        assert privest("plan", data, *OPTIONS, *change, "--save", other, "--overwrite").code == 0
        done = privest("report", other, tmp_path / "z.csv", "--output", tmp_path / "r.html")
        assert done.code == 2
        assert f"a different {what}" in " ".join(done.err.split())
        assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "DATA", "--form", "rows"), "--target is needed"),
        (("plan", "DATA", *OPTIONS, "--epsilon", 1), "Received level, epsilon."),
        (("plan", "DATA", *OPTIONS, "--delta", "1e-6"), "A delta needs a range"),
        (("plan", "DATA", *OPTIONS, "--reference", "DATA"), "not both"),
        (("plan", "DATA", *OPTIONS, "--category", "sex"), "NAME=A,B,C"),
        (("plan", "DATA", *OPTIONS, "--want", "age"), "NAME=NUMBER"),
        (("plan", "DATA", *OPTIONS, "--want", "age=-1"), "standard_error must be > 0"),
        (("plan", "DATA", *OPTIONS, "--want", "age=x"), "NAME=NUMBER"),
        (("plan", "DATA", *OPTIONS, "--want", "height=1"), "no coefficient 'height'"),
        (("plan", "DATA", *OPTIONS, "--save", "p.yaml"), ".toml"),
        (("plan", "DATA", *OPTIONS, "--missing", "guess"), "must be one of refuse, drop"),
        (("plan", "DATA", *OPTIONS, "--level", 0), "privacy level must be > "),
        (("plan", "DATA", *OPTIONS, "--level", "nan"), "must be finite"),
        (("plan", "-", *OPTIONS), "standard input"),
        (("plan", "none.csv", *OPTIONS), "does not exist"),
        (("plan", "none.toml"), "No such file"),
        (("release", "none.toml", "--output", "z.csv"), "No such file"),
        (("release", "DATA", "--output", "z.csv"), "a plan file ends with"),
        (("estimate", "none.csv"), "no such file"),
        (("estimate", "DATA"), "no such file"),
        (("report", "none.toml", "none.csv", "--output", "r.pdf"), ".html"),
    ],
)
def test_mistakes_have_one_message(privest, data, monkeypatch, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = privest(*(data if argument == "DATA" else argument for argument in arguments))
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert not done.out
    assert os.listdir(tmp_path) == ["people.csv"]


@pytest.mark.slow
def test_names_that_a_shell_would_take_apart(privest, data, tmp_path):
    """The commands of the page, typed again in a shell, do what they say."""
    folder = tmp_path / 'it\'s a "folder" $HOME; echo'
    folder.mkdir()
    plan, table, page = folder / "a plan.toml", folder / "z (1).csv", folder / "p&q.html"
    privest("plan", data, *OPTIONS, "--save", plan)
    privest("release", plan, "--output", table)
    assert privest("report", plan, table, "--output", page).code == 0
    text = unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))
    names = plan.name, table.name, page.name
    assert all(line in text for line in commands_of(*names, ledger="privest-ledger.db"))
    lines = commands_of(plan, table, page, ledger=data.parent / "privest-ledger.db")
    for line, parts in zip(lines, (3, 7, 5, 3, 6), strict=True):
        assert len(shlex.split(line)) == parts
    env = os.environ | {"NO_COLOR": "1"}
    env["PATH"] = f"{os.path.dirname(sys.executable)}:{env['PATH']}"
    for file in (table, folder / "z (1).csv.json", page, tmp_path / "privest-ledger.db"):
        file.unlink()
    discard(tmp_path / "privest-ledger.db")  # as if it had never been released
    script = "set -e\n" + "\n".join(lines)
    subprocess.run(["bash", "-c", script], check=True, capture_output=True, env=env)
    assert page.read_text(encoding="utf-8").startswith("<!")


MAIN = [sys.executable, "-c", "from privest.cli import main; main()"]


SLOW = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a test run under nohup has it ignored
import privest.data.source as d
from privest.workflow.rows import LeavingRows
rendered = LeavingRows.rendered
def slow(*given):
    for number, block in enumerate(rendered(*given)):
        if number == 8:  # by now rows are written
            print("drawing", flush=True)
            time.sleep(60)
        yield block
LeavingRows.rendered = slow
d.Source.size = 200
from privest.cli import main; main()
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_release_that_is_stopped(privest, tmp_path, sent):
    """In the middle: nobody else can read what is there. Stopped, nothing is left; killed, the part
    is. While it is written no other process begins; what is left nobody has seen: begun anew.
    """
    write(people(5000), tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(to_toml(spec("people.csv")))
    part = tmp_path / ".z.csv.part"
    arguments = ["release", str(tmp_path / "plan.toml"), "--output", str(tmp_path / "z.csv")]
    arguments += ["--simulate"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "drawing\n"
        assert part.stat().st_mode & 0o777 == 0o600
        assert part.stat().st_size > 0  # released values are in it
        other = privest(*arguments)
        assert other.code == 2
        assert "is being written by another process" in " ".join(other.err.split())
        process.send_signal(sent)
        _, err = process.communicate(timeout=20)
    killed = sent == signal.SIGKILL
    assert process.returncode == (-sent if killed else 128 + sent)
    assert "Traceback" not in err
    files = set(os.listdir(tmp_path)) - {"people.csv", "plan.toml"}
    assert files == ({part.name} if killed else set())
    done = privest(*arguments)
    assert done.code == 0, done.err
    assert not part.exists()
    assert estimate(tmp_path / "z.csv").rows == 5000
    assert (tmp_path / "z.csv").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask():
    found = os.umask(0)
    os.umask(found)
    return found


def test_help_names_the_steps():
    done = subprocess.run(
        [*MAIN, "--help"], capture_output=True, text=True, check=True,
        env={"COLUMNS": "80", "NO_COLOR": "1", "PATH": "", "PYTHONIOENCODING": "utf-8",
             "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )  # fmt: skip
    for step in ("plan", "release", "estimate", "report"):
        assert step in done.stdout
