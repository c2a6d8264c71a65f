"""`privest bound`: a table for people, JSON for programs, one clear error for bad input."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import privest as pv
from workflow_command import called

H = np.array([[1.0, 0.2], [1.0, 0.4], [1.0, 0.9], [1.0, 1.0]])


def privest(*arguments):
    return called(*arguments)


@pytest.fixture
def folder(tmp_path):
    np.savetxt(tmp_path / "H.csv", H, delimiter=",")
    return tmp_path


def csv(folder, name, value):
    path = folder / name
    if isinstance(value, str):
        path.write_text(value, encoding="utf-8")
    else:
        np.savetxt(path, value, delimiter=",", fmt="%.17g")
    return path


@pytest.mark.parametrize("level", ["number", "vector", "row", "matrix"])
@pytest.mark.parametrize("cov", ["number", "matrix"])
def test_json_has_the_numbers_of_the_library(folder, level, cov):
    S = {
        "number": 1.5,
        "vector": np.array([1.0, 2.0, 0.0, 3.0]),
        "row": np.array([[1.0, 2.0, 0.0, 3.0]]),
        "matrix": np.eye(4) + 0.5,
    }[level]
    Sigma = {"number": 0.04, "matrix": 0.1 * np.eye(4) + 0.02}[cov]
    done = privest(
        "bound",
        "--h", csv(folder, "H.csv", H),
        "--level", S if level == "number" else csv(folder, "S.csv", S),
        "--noise-variance", Sigma if cov == "number" else csv(folder, "cov.csv", Sigma),
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=Sigma))
    b = pv.bound(model, pv.PrivacyLevel(S if level != "row" else S[0]))
    for key in ("covariance", "classical", "cost", "cost_floor", "information"):
        assert found[key] == getattr(b, key).tolist()
    assert found["identifiable"] is True


def test_table(folder):
    path = csv(folder, "named.csv", "intercept,[age]\n1,0.2\n1,0.4\n1,0.9\n1,1.0\n")
    done = privest("bound", "--h", path, "--noise-variance", 0.04, "--level", 1)
    assert done.returncode == 0, done.stderr
    for words in ("intercept", "[age]", "without privacy", "with privacy", "private bound"):
        assert words in done.stdout
    assert done.stderr == ""


def test_epsilon_instead_of_a_level(folder):
    common = ["bound", "--h", folder / "H.csv", "--noise-variance", 0.04, "--json"]
    s = pv.PrivacyLevel.from_epsilon(1.0, delta=1e-6, sensitivity=2.0)
    by_epsilon = privest(*common, "--epsilon", 1, "--delta", 1e-6, "--sensitivity", 2)
    by_level = privest(*common, "--level", repr(s.number), "--delta", 1e-6, "--sensitivity", 2)
    assert by_epsilon.returncode == 0, by_epsilon.stderr
    found = json.loads(by_epsilon.stdout)
    assert found == json.loads(by_level.stdout)
    assert found["level"] == s.number
    assert found["differential_privacy"]["epsilon"] == pytest.approx(1.0, rel=5e-3)  # the grid
    table = privest(*common[:-1], "--level", 1, "--delta", 1e-6, "--sensitivity", 1)
    assert "ε = 4.887, δ = 1e-06" in table.stdout


def test_a_hiding_level_is_an_answer_not_an_error(folder):
    level = csv(folder, "S.csv", np.array([1.0, 0.0, 0.0, 0.0]))
    common = ["bound", "--h", folder / "H.csv", "--noise-variance", 0.04, "--level", level]
    table, program = privest(*common), privest(*common, "--json")
    assert table.returncode == program.returncode == 0
    assert "not identifiable: rank 1 of 2" in table.stdout
    found = json.loads(program.stdout)
    assert found["identifiable"] is False
    assert found["covariance"] is None
    assert np.shape(found["identifiability"]["hidden_directions"]) == (2, 1)
    named = csv(folder, "named.csv", "intercept,age\n1,0.2\n1,0.4\n1,0.9\n1,1.0\n")
    shown = privest("bound", "--h", named, "--noise-variance", 0.04, "--level", level).stdout
    assert "hidden by the level: intercept, age" in shown


@pytest.mark.parametrize(
    ("h", "cov", "level", "message"),
    [
        ("1,2\n3,x\n", 0.04, 1, "line 2, column 2 is not a finite number"),
        ("1,2\n3,\n", 0.04, 1, "line 2, column 2 is not a finite number"),
        ("a,b\nc,d\n", 0.04, 1, "line 2, column 1 is not a finite number"),
        ("1,2\n3,4,5\n", 0.04, 1, "line 2 has 3 columns; the first line has 2"),
        ("", 0.04, 1, "holds no numbers"),
        ("a,b\n", 0.04, 1, "holds no numbers"),
        ("1,nan\n1,2\n", 0.04, 1, "line 1, column 2 is not a finite number"),
        ("a,b\n1,2\n1,inf\n", 0.04, 1, "line 3, column 2 is not a finite number"),
        ("1;2\n3;4\n", 0.04, 1, "Columns are separated by commas"),
        ("1\t2\n3\t4\n", 0.04, 1, "Columns are separated by commas"),
        ("a,b,c\n1,2\n3,5\n", 0.04, 1, "line 2 has 2 columns; the first line has 3"),
        ("# H\n1,2\n3,5\n", 0.04, 1, "line 2 has 2 columns; the first line has 1"),
        ("1,2,3\n4,5,7\n", 0.04, 1, "2 measurements cannot determine 3 parameters"),
        ("1,0\n2,0\n3,0\n", 0.04, 1, "H has zero columns: no measurement depends on θ[1]"),
        ("1,2\n2,4\n3,6\n", 0.04, 1, "H has rank 1 of 2"),
        (None, -0.04, 1, "the noise variance must be ≥ 0; received -0.04"),
        (None, 0.04, -1, "eigenvalue -1"),
        (None, 0.04, "nan", "must be finite; it has NaN"),
        (None, 0.04, "inf", "must be finite; it has an infinity"),
        (None, 0.04, "missing.csv", "level missing.csv: neither a number nor an existing file"),
        (
            None,
            "missing.csv",
            1,
            "--noise-variance missing.csv: neither a number nor an existing file",
        ),
        (None, 0.04, np.array([[1.0, 2], [0, 1]]), "must be symmetric"),
        (None, 0.04, np.array([[1.0, 2], [2, 1]]), "eigenvalue -1"),
        (None, 0.04, np.ones((2, 3)), "must be square"),
        (None, 0.04, np.array([1.0, 2.0, 3.0]), "is for 3 measurements; the model has 4"),
        (None, np.eye(3) + 1, 1, "3 components but H has 4 rows"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, h, cov, level, message):
    path = folder / "H.csv" if h is None else csv(folder, "bad.csv", h)
    cov = csv(folder, "cov.csv", cov) if isinstance(cov, np.ndarray) else cov
    level = csv(folder, "level.csv", level) if isinstance(level, np.ndarray) else level
    done = privest("bound", "--h", path, f"--noise-variance={cov}", f"--level={level}")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("privest: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_files_that_are_not_text(folder):
    binary = folder / "H.bin"
    binary.write_bytes(bytes(range(128, 256)))
    for path, message in [
        (binary, "not a text file"),
        (folder, "it cannot be read"),
        (folder / "nope.csv", "it cannot be read"),
        (folder / "[plot].csv", "[plot].csv: it cannot be read"),
        (folder / "[/].csv", "it cannot be read"),
    ]:
        done = privest("bound", "--h", path, "--noise-variance", 1, "--level", 1)
        assert (done.returncode, message in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "privacy",
    [
        [],
        ["--level", 1, "--epsilon", 1, "--delta", 1e-6, "--sensitivity", 1],
        ["--epsilon", 1],
        ["--epsilon", 1, "--delta", 1e-6],
        ["--level", 1, "--delta", 1e-6],
        ["--level", 1, "--sensitivity", 1],
    ],
)
def test_the_privacy_must_be_stated_completely(folder, privacy):
    done = privest("bound", "--h", folder / "H.csv", "--noise-variance", 0.04, *privacy)
    assert done.returncode == 2
    assert "as a level, or as epsilon with delta" in done.stderr


def test_help_and_version():
    for arguments in (["--help"], ["bound", "--help"], ["demo", "--help"]):
        done = privest(*arguments)
        assert done.returncode == 0
        assert "Usage" in done.stdout
    assert privest("--version").stdout == f"privest {pv.__version__}\n"
    assert privest("bound", "--help").stdout.count("--") >= 7


def test_standard_input_and_module():
    arguments = ["bound", "--h", "-", "--noise-variance", "1", "--level", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "privest", *arguments],
        input="1,0.2\n1,0.4\n1,0.9\n1,1.0\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "LinearModel(4 measurements, 2 parameters" in done.stdout


def test_a_terminal_without_greek_letters(folder):
    done = subprocess.run(
        [sys.executable, "-c", "from privest.cli import main; main()", "bound", "--help"],
        capture_output=True,
        check=False,
        env={
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "PATH": "",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_output_that_cannot_be_written(folder):
    done = privest("demo", "--out", folder / "H.csv")
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_byte_order_mark_and_windows_lines(folder):
    path = folder / "windows.csv"
    path.write_bytes("﻿1,0.2\r\n1,0.4\r\n1,0.9\r\n1,1.0\r\n".encode())
    one = privest("bound", "--h", path, "--noise-variance", 0.04, "--level", 1, "--json")
    two = privest(
        "bound", "--h", folder / "H.csv", "--noise-variance", 0.04, "--level", 1, "--json"
    )
    assert one.stdout == two.stdout


def test_names_of_the_first_line_are_in_the_json(folder):
    np.savetxt(folder / "named.csv", H, delimiter=",", header="load,heat", comments="")
    done = privest(
        *("bound", "--h", folder / "named.csv", "--noise-variance", 0.04, "--level", 1), "--json"
    )
    assert json.loads(done.stdout)["names"] == ["load", "heat"]
