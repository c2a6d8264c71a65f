"""`privest stream`: two sides on two machines, as they come; killed, resumed, never twice."""

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import privest as pv
from privest.cli.stream import run as run_stream
from privest.mechanism.source import seeded
from privest.streaming import Choices, Columns, LineOutput, Privacy, Restart, StreamPlan, promised
from workflow_command import called

MAIN = [sys.executable, "-c", "from privest.cli import main; main()", "stream"]
ENV = {
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "PATH": "",
    "PYTHONIOENCODING": "utf-8",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}


def stream(*arguments, text=None):
    return called("stream", *arguments, text=text)


def ok(*arguments, text=None):
    done = stream(*arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = 1 + X @ [0.5, -2.0] + 0.5 * rng.standard_normal(60)
    y[[3, 20]] = np.nan
    return X, y


@pytest.fixture
def meter(tmp_path, data):
    path = tmp_path / "meter.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "load", "b"])
        for (a, b), y in zip(data[0].tolist(), data[1].tolist()):
            writer.writerow([a, "" if np.isnan(y) else y, b])
    return path


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


COMMON = ("--target", "load", "--level", "4", "--simulate", "--seed", "3")


@pytest.mark.parametrize("lags", [[], [0.5, -0.2]])
def test_estimates_are_those_of_the_library(meter, data, lags):
    X, y = data
    done = ok(
        meter,
        *COMMON,
        "--residual-variance",
        "0.25",
        "--intercept",
        "--lags",
        ",".join(map(str, lags)),
    )
    level = pv.StreamLevel.constant(4.0, lags=lags)
    rng = seeded(3, "stream", "load", f"{level.final_blocks().diagonal().max():.6g}")
    mechanism, rls = pv.StreamMechanism(level), pv.PrivateRLS(level, 3, pv.noise.Gaussian(cov=0.25))
    found = rows(done.stdout)
    assert len(found) == 60
    for k, line in enumerate(found):
        rls.update(mechanism.simulate(y[k : k + 1], rng), [1.0, *X[k]])
        assert int(line["step"]) == k
        if not rls.identifiable:
            assert line["a"] == line["a_error"] == ""
            continue
        estimate = [float(line[name]) for name in ("intercept", "a", "b")]
        errors = [float(line[f"{name}_error"]) for name in ("intercept", "a", "b")]
        assert estimate == rls.value.tolist()
        assert errors == rls.standard_error.tolist()
    assert "60 rows; 2 of them without a measurement" in done.stderr
    assert "simulated" in done.stderr


def test_two_machines(meter, tmp_path):
    """Releases on one, estimates on the other: the same as on one machine."""
    together = ok(meter, *COMMON, "--residual-variance", "0.25", "--lags", "0.5")
    released = tmp_path / "z.jsonl"
    ok(meter, *COMMON, "--lags", "0.5", "--emit", "releases", "--output", released)
    facts, first, *_ = (json.loads(line) for line in released.read_text().splitlines())
    assert (facts["simulated"], facts["grid"], facts["unit"]) == (True, 0.0, 0.5)
    assert set(first) == {"step", "fingerprint", "grid", "z", "a", "b", "hash"}
    assert json.loads(released.read_text().splitlines()[4])["z"] is None
    learner = ("--from", "releases", "--lags", "0.5", "--residual-variance", "0.25")
    apart = ok(released, *learner, "--level", "4", "--output-format", "csv")
    assert apart.stdout == together.stdout
    assert "simulated" in apart.stderr
    # a release that arrives twice is used once; a lost one is an error; so is another level
    lines = released.read_text().splitlines(keepends=True)
    twice = ok(
        "-", *learner, "--level", "4", "--input-format", "jsonl", text="".join(lines + lines[6:])
    )
    assert "55 repeated releases left out" in twice.stderr
    lost = stream(
        "-",
        *learner,
        "--level",
        "4",
        "--input-format",
        "jsonl",
        text="".join(lines[:6] + lines[7:]),
    )
    assert (lost.returncode, "release of step 5 is missing" in lost.stderr) == (2, True)
    other = stream(released, *learner, "--level", "3")
    assert (other.returncode, "another level" in other.stderr) == (2, True)


def test_json_lines_say_what_is_hidden(meter):
    done = ok(meter, *COMMON, "--residual-variance", "0.25", "--output-format", "jsonl")
    first, *_, last = map(json.loads, done.stdout.splitlines())
    assert first == {"step": 0, "identifiable": False, "hidden": ["a", "b"]}
    assert set(last["estimate"]) == set(last["standard_error"]) == {"a", "b"}


def test_blocks_give_one_line_each(meter):
    one = rows(ok(meter, *COMMON, "--residual-variance", "0.25").stdout)
    some = rows(ok(meter, *COMMON, "--residual-variance", "0.25", "--block", "25").stdout)
    assert [int(line["step"]) for line in some] == [24, 49, 59]
    assert float(some[-1]["a"]) == pytest.approx(float(one[-1]["a"]), rel=1e-9)


def test_epsilon_speaks_of_the_whole_stream(meter, tmp_path):
    out = tmp_path / "z.csv"
    dp = ("--epsilon", "2", "--delta", "1e-6", "--sensitivity", "1", "--lags", "0.5,0.3")
    ok(meter, "--target", "load", *dp, "--emit", "releases", "--output", out)
    level = pv.StreamLevel.from_epsilon(2.0, delta=1e-6, sensitivity=1.0, lags=[0.5, 0.3])
    # three numbers show a reading: at most a step of the grid each
    assert 2.0 * (1 - 0.02) < level.to_epsilon(delta=1e-6, sensitivity=1.0) < 2.0
    assert pv.privacy.grid_statement(level, sensitivity=1.0, delta=1e-6).epsilon <= 2.0
    assert rows(out.read_text())[0]["fingerprint"] == level.fingerprint


def test_resumes_where_it_was(meter, tmp_path):
    """First half of the file, then all of it: as if in one go."""
    whole = ok(meter, *COMMON, "--emit", "releases").stdout
    lines = meter.read_text().splitlines(keepends=True)
    half = tmp_path / "half.csv"
    half.write_text("".join(lines[:31]))
    out, kept = tmp_path / "z.csv", tmp_path / "s.ckpt"
    arguments = (*COMMON, "--emit", "releases", "--output", out, "--checkpoint", kept)
    ok(half, *arguments)
    done = ok(meter, *arguments)
    assert "resumed" in done.stderr
    assert out.read_text() == whole
    ok(meter, *arguments)  # nothing new: nothing happens
    assert out.read_text() == whole
    changed = tmp_path / "changed.csv"
    changed.write_text("".join([lines[0], *lines[2:]]))
    refused = stream(changed, *arguments)
    assert (refused.returncode, "its features differ" in refused.stderr) == (2, True)
    renamed = stream(meter, *arguments, "--features", "a")
    assert (renamed.returncode, "another choice of columns" in renamed.stderr) == (2, True)
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("".join(lines[:20]))
    short = stream(fewer, *arguments)
    assert (short.returncode, "it is shorter" in short.stderr) == (2, True)
    precious = tmp_path / "precious.txt"
    precious.write_text("do not touch")
    elsewhere = stream(meter, *arguments, "--output", precious, "--overwrite")
    assert (elsewhere.returncode, "another output" in elsewhere.stderr) == (2, True)
    assert precious.read_text() == "do not touch"
    other = stream(meter, *arguments, "--output-format", "jsonl")
    assert (other.returncode, "another output-format" in other.stderr) == (2, True)
    assert out.read_text() == whole


def test_saved_before_it_is_printed(meter, tmp_path, monkeypatch):
    """A block that cannot be printed is in the checkpoint, and comes with the next run."""
    from rich.console import Console

    whole = ok(meter, *COMMON, "--emit", "releases").stdout
    out, kept = tmp_path / "z.csv", tmp_path / "s.ckpt"
    plan = StreamPlan(
        str(meter), promised(Privacy(level="4"), None), Columns(target="load"), None,
        Choices(emit="releases", simulate=True, seed=3, output=out),
        Restart(checkpoint=kept, block=7),
    )  # fmt: skip
    quiet = Console(file=io.StringIO())
    written, real = [], LineOutput.write

    def fails_at_the_third(self, text):
        written.append(text)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        real(self, text)

    monkeypatch.setattr(LineOutput, "write", fails_at_the_third)
    with pytest.raises(OSError, match="No space"):
        run_stream(plan, quiet)
    monkeypatch.undo()
    assert len(out.read_text().splitlines()) == 1 + 14
    with out.open("a") as file:
        file.write("14,half a line")  # what a crash may leave
    run_stream(plan, quiet)
    steps = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert steps == [str(k) for k in range(60)]
    # the third block has the numbers that were saved, not new ones
    assert written[2] in out.read_text()
    assert out.read_text().splitlines()[0] == whole.splitlines()[0]


def test_standard_input_must_say_where_it_is(meter, tmp_path):
    text = meter.read_text()
    lines = text.splitlines(keepends=True)
    whole = ok("-", *COMMON, "--emit", "releases", text=text).stdout
    kept = tmp_path / "s.ckpt"
    arguments = ("-", *COMMON, "--emit", "releases", "--checkpoint", kept)
    unsaid = stream(*arguments, text=text)
    assert (unsaid.returncode, "must not be released twice" in unsaid.stderr) == (2, True)
    first = ok(*arguments, "--continue", text="".join(lines[:31])).stdout
    again = ok(*arguments, "--continue", text="".join([lines[0], *lines[31:]])).stdout
    # the last line before the stop comes again, with the same numbers
    assert again.startswith(first.splitlines(keepends=True)[-1])
    assert first + "".join(again.splitlines(keepends=True)[1:]) == whole


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_command(tmp_path):
    """Up to four kills of the real command (30 more in tests/oracle/test_checkpoint.py)."""
    rng = np.random.default_rng(1)
    path = tmp_path / "m.csv"
    body = "\n".join(",".join(map(repr, row)) for row in rng.standard_normal((3000, 3)).tolist())
    path.write_text("x1,x2,y\n" + body + "\n")
    arguments = [
        "--level",
        "2",
        "--lags",
        "0.5",
        "--simulate",
        "--seed",
        "1",
        "--residual-variance",
        "1",
    ]
    whole = ok(path, *arguments).stdout
    out, kept = tmp_path / "e.csv", tmp_path / "s.ckpt"
    command = [*MAIN, str(path), *arguments, "--output", str(out), "--checkpoint", str(kept)]
    moments, kills = random.Random(2), 0
    while kills < 4:
        worker = subprocess.Popen(
            command, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        start = time.monotonic()
        while not kept.exists() and time.monotonic() - start < 20:
            time.sleep(0.01)
        time.sleep(0.3 * moments.random() + (0.4 if kills else 0.0))
        worker.kill()
        _, error = worker.communicate()
        kills += worker.returncode == -signal.SIGKILL
        if worker.returncode == 0:
            break
        assert worker.returncode == -signal.SIGKILL, error
    assert kills >= 3  # a fast machine may finish before the fourth
    ok(*command[len(MAIN) :])
    found, expected = (list(csv.reader(io.StringIO(text))) for text in (out.read_text(), whole))
    assert found[0] == expected[0]
    assert len(found) == len(expected)
    for one, other in zip(found[1:], expected[1:]):
        # The last digits of a solve depend on where its arrays lie.
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-9, nan_ok=True)


def numbers(row):
    return [float(cell or "nan") for cell in row]


def test_ctrl_c_loses_nothing(tmp_path):
    out, kept = tmp_path / "z.csv", tmp_path / "s.ckpt"
    arguments = [
        "--level",
        "1",
        "--emit",
        "releases",
        "--output",
        str(out),
        "--checkpoint",
        str(kept),
        "--continue",
    ]
    worker = subprocess.Popen(
        [*MAIN, "-", *arguments], env=ENV, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    worker.stdin.write("x,y\n" + "1,2\n" * 10)
    worker.stdin.flush()
    start = time.monotonic()
    while (
        not out.exists() or len(out.read_text().splitlines()) < 11
    ) and time.monotonic() - start < 20:
        time.sleep(0.02)
    worker.send_signal(signal.SIGINT)
    _, error = worker.communicate(timeout=20)
    assert worker.returncode == 130
    assert "10 rows; stopped; the same command goes on" in error
    assert len(out.read_text().splitlines()) == 11


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("1,2\n3,4\n", [], "first line must name the columns"),
        ("x,w\n1,12.75\n", [], "no column 'y'; its first line names 2 columns"),
        ('{"x": 1, "y": 12.75}\n', [], "JSON lines need the input format jsonl"),
        ("2020-01-01,12.75\n", [], "first line of names"),
        ("x,y\n1,12.75\n", ["--features", "x,y"], "it cannot be a feature"),
        ("x,x,y\n1,2,3\n", [], "have the same name"),
        ("step,y\n1,2\n", [], "a feature cannot be called 'step'"),
        ("intercept,y\n1,2\n", ["--intercept"], "a feature cannot be called 'intercept'"),
        ('{"x": 1, "y": 1' + "0" * 400 + "}\n", ["--input-format", "jsonl", "--simulate"],
         "not finite"),
        ("[" * 100_000 + "\n", ["--input-format", "jsonl"], "not a JSON object"),
        ("x,y\n1,2\n", ["--simulate", "--seed", "-1"], "--seed"),
        ("x,y\n1,2\n", ["--png", "p.png", "--emit", "releases"], "of estimates, not of releases"),
        ("x,y\n1,12.75abc\n", [], "line 2: 'y' is not a number"),
        ("x,y\n1,inf\n", ["--simulate"], "line 2: 'y' is not finite"),
        ("x,y\ninf,1\n", [], "line 2: 'x' is not finite"),
        ("x,y\n1,2\n", ["--seed", "1"], "a seed repeats the noise of a simulation"),
        ("x,y\n1,2\n", ["--range", "1"], "--range 1: two numbers are needed"),
        ("x,y\n1,2\n", ["--range", "2,1"], "low < high"),
        ("x,y\n1,2\n", ["--range", "0,1e300"], "the grid holds"),
        ("x,y\n,12.75\n", [], "line 2: 'x' is missing"),
        ("x,y\n1,2,3\n", [], "line 2 has 3 columns"),
        ("y\n12.75\n", [], "no column of features"),
        ("x,y\n1,2\n", ["--residual-variance", "-1"], "must be ≥ 0"),
        ("x,y\n1,2\n", ["--lags", "a"], "numbers separated by commas"),
        ("x,y\n1,2\n", ["--level", "-1"], "level"),
        ("x,y\n1,2\n", ["--epsilon", "1"], "as a level, or as epsilon"),
        ("x,y\n1,2\n", ["--input-format", "jsonl"], "line 1 is not a JSON object"),
        ("x,y\n1,2\n", ["--from", "releases", "--emit", "releases"], "nothing to do"),
        ("x,z\n1,2\n", ["--from", "releases"], "column 'step'"),
        ("x,y\n1,2\n", ["--output", "/dev/null/folder/z.csv"], "cannot be written"),
        ("x,y\n1,2\n", ["--checkpoint", "/dev/null/folder/s", "--replay"], "cannot be"),
        ('{"x": 1, "y": 2}\n{"x": 1}\n', ["--input-format", "jsonl"], "line 2 has no 'y'"),
    ],
)  # fmt: skip
def test_one_clear_error(text, arguments, message):
    defaults = [] if "--level" in arguments else ["--level", "1"]
    variance = [] if "--residual-variance" in arguments else ["--residual-variance", "1"]
    done = stream("-", *defaults, *variance, *arguments, text=text)
    assert done.returncode == 2
    assert message in done.stderr
    assert "12.75" not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_is_not_replaced_by_chance(meter, tmp_path):
    out = tmp_path / "z.csv"
    arguments = (meter, *COMMON, "--emit", "releases", "--output", out)
    ok(*arguments)
    before = out.read_text()
    again = stream(*arguments)
    assert (again.returncode, "(overwrite)" in again.stderr) == (2, True)
    assert out.read_text() == before
    ok(*arguments, "--overwrite", "--seed", "4")
    assert out.read_text() != before


def test_one_seed_is_other_noise_at_another_level(meter):
    """With the same noise at two levels the readings could be computed."""
    found = []
    for level in ("1", "4"):
        done = ok(
            meter,
            "--target",
            "load",
            "--simulate",
            "--seed",
            "3",
            "--level",
            level,
            "--emit",
            "releases",
        )
        found.append([float(line["z"] or "nan") for line in rows(done.stdout)])
    difference = np.array(found[1]) - np.array(found[0])  # (2 − 1)·y, were the noise the same
    y = [float(line["load"] or "nan") for line in rows(meter.read_text())]
    assert np.nanmin(np.abs(difference - y)) > 1e-6


def test_files_are_not_mixed_up(meter, tmp_path):
    before = meter.read_text()
    for extra in (["--output", meter], ["--checkpoint", meter], ["--png", meter]):
        done = stream(meter, *COMMON, "--residual-variance", "1", *extra)
        assert (done.returncode, "are the same file" in done.stderr) == (2, True)
    same = tmp_path / "same"
    done = stream(
        meter, *COMMON, "--residual-variance", "1", "--output", same, "--checkpoint", same
    )
    assert (done.returncode, "are the same file" in done.stderr) == (2, True)
    assert meter.read_text() == before


def test_marks_blank_lines_and_other_encodings(tmp_path):
    arguments = ("--level", "1", "--residual-variance", "1", "--simulate", "--seed", "1")
    plain = ok("-", *arguments, text="x,y\n1,2\n2,NaN\n3,null\n4, \n5,NA\n")
    assert "4 of them without a measurement" in plain.stderr
    marked = ok("-", *arguments, text="\ufeff\n\n x , y \n1,2\n2,nan\n3,none\n4,\n5,na\n")
    assert marked.stdout == plain.stdout
    latin = tmp_path / "latin.csv"
    latin.write_bytes("größe,y\n1,2\n".encode("latin-1"))
    done = stream(latin, *arguments)
    assert (done.returncode, "not UTF-8" in done.stderr) == (2, True)


@pytest.mark.parametrize("text", ["", "x,y\n"])
def test_no_rows_is_not_an_error(text):
    done = ok("-", "--level", "1", "--residual-variance", "1", text=text)
    assert "no rows" in done.stderr or "0 rows" in done.stderr


def test_the_spent_epsilon_is_told(meter):
    dp = ("--delta", "1e-6", "--sensitivity", "1")
    done = ok(meter, *COMMON, "--residual-variance", "1", "--lags", "0.5", *dp)
    expected = pv.StreamLevel.constant(4.0, lags=[0.5]).to_epsilon(delta=1e-6, sensitivity=1.0)
    assert f"ε = {expected:.4g} at δ = 1e-06" in done.stderr


def test_no_release_without_a_level():
    done = stream("-", "--residual-variance", "1", text="x,y\n1,2\n")
    assert (done.returncode, "State the privacy" in done.stderr) == (2, True)
    done = stream("-", "--level", "1", text="x,y\n1,2\n")  # no noise variance is needed
    assert (done.returncode, "No standard errors" in done.stderr) == (0, True)
    assert (
        "missing.csv"
        in stream(os.devnull + "/missing.csv", "--level", "1", "--residual-variance", "1").stderr
    )


def test_a_picture_of_the_stream(meter, tmp_path):
    picture = tmp_path / "deep" / "p.png"
    done = ok(meter, *COMMON, "--residual-variance", "0.25", "--png", picture)
    assert f"Figure: {picture}" in done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_trail_of_any_length_stays_short():
    from privest.report.figures import Trail

    trail = Trail(most=50)
    for k in range(1000):
        trail.add(k, np.zeros(1), np.ones(1))
    steps = [step for step, _, _ in trail.points]
    assert len(steps) < 50
    assert steps[0] == 0
    assert len({b - a for a, b in zip(steps, steps[1:])}) == 1  # noqa: RUF007


def test_help_shows_how():
    text = ok("--help").stdout
    for word in ("--checkpoint", "--from", "releases", "Examples", "--replay"):
        assert word in text
