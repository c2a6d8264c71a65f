"""Every numeric option of every command with numbers nobody means: a result or one message.

Exit code 0 with finite numbers, or 2 with one line
on stderr and nothing on stdout. Any other
exception goes through `main` and fails the test. (`reproduce` is the paper's; see its own tests.)
"""

import re

import numpy as np
import pytest

from privest.cli.app import COMMANDS, loaded
from privest.ledger import discard
from workflow_command import runner
from workflow_tables import people, write

VALUES = (
    "0.9999999999999999", "100000000000000000000000",
    "nan", "inf", "-inf", "-1", "0", "1e-320", "5e-324", "1e-160", "1e160", "1e300", "1e308",
    "x", "",
)  # fmt: skip
DP = {"--delta": "1e-6", "--sensitivity": "0.5"}
MODEL = "A = [[1.0]]\nC = [[1.0]]\nQ = [[0.1]]\nR = [[1.0]]\ncov0 = [[1.0]]\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    table = people(40)
    write({name: table[name] for name in ("age", "bmi", "ldl")}, folder / "people.csv")
    (folder / "H.csv").write_text("a,b\n1,0.2\n1,0.4\n1,0.9\n1,1.0\n")
    (folder / "y.csv").write_text("y\n1.0\n0.4\n-0.3\n")
    (folder / "series.csv").write_text("y\n" + "\n".join(map(str, np.sin(np.arange(12)))))
    (folder / "m.toml").write_text(MODEL)
    (folder / "plan.toml").write_text(
        'version = 4\ndata = "people.csv"\n[model]\ntarget = ["ldl"]\nfeatures = ["age"]\n'
        "[public]\nresidual_variance = 0.3\n[privacy]\nlevel = 2.0\n"
    )
    return folder


# command: (its arguments, options that are always there, and what an option needs beside it)
BASE = {
    "plan": (
        ["people.csv"],
        {"--target": "ldl", "--features": "age,bmi", "--residual-variance": "0.3", "--level": "2"},
    ),
    "design": (["plan.toml"], {}),
    "release": (["plan.toml"], {"--output": "z.csv"}),
    "estimate": (["made.csv"], {}),
    "bound": ([], {"--h": "H.csv", "--noise-variance": "0.3", "--level": "2"}),
    "stream": (
        ["people.csv"],
        {"--target": "ldl", "--residual-variance": "0.3", "--level": "2", "--block": "40"},
    ),
    "levels": ([], {"--tolerance": "1"}),
    "filter": (["y.csv"], {"--model": "m.toml", "--level": "2"}),
    "identify": (["series.csv"], {"--family": "ar1-mean", "--level": "2"}),
}  # fmt: skip
NEEDS = {
    "--epsilon": DP | {"--level": None},
    "--delta": {"--sensitivity": "0.5"},
    "--sensitivity": {"--delta": "1e-6"},
    "--standard-error": {"--level": None},
    "--seed": {"--simulate": ""},
}
WORDS = {"plan": ["--level", "--want", "--standard-error"], "design": ["--standard-error"],
         "bound": ["--level", "--noise-variance"],
         "stream": ["--level", "--lags"], "filter": ["--level"],
         "identify": ["--level", "--lags"]}  # fmt: skip


def numeric(name):
    """The options of a command that Typer reads as numbers, and those it leaves to us."""
    found = [
        one.opts[0]
        for one in loaded(name).params
        if one.type_descriptor and one.type_descriptor.annotation in (float, int)
    ]
    return [*found, *(word for word in WORDS.get(name, []) if word not in found)]


def lines(name, option, value):
    arguments, always = BASE[name]
    needs = {} if name == "design" else NEEDS.get(option, {})  # whose options stand alone
    named = option in ("--want", "--standard-error")
    given = always | needs | {option: f"age={value}" if named else value}
    pairs = [(k, v) for k, v in given.items() if v is not None]
    spread = [part for k, v in pairs for part in ((k,) if v == "" else (k, v))]  # "": a flag
    return [name, *arguments, *spread]


def require_sense(done, where):
    """A result of finite numbers, or one message and nothing else."""
    assert done.code in (0, 2), where
    assert "Traceback" not in done.err, where
    if done.code == 2:
        assert done.err.startswith("privest: "), where
        assert not done.out, where
    else:
        assert not re.search(r"\b(nan|inf)\b", done.out), where


def test_every_command_is_tried():
    # These take no numbers; `app` and `collect` a port; the rest have tests of their own.
    others = {"demo", "look", "report", "schema", "verify"}
    assert set(COMMANDS) == {*BASE, *others, "app", "collect", "contribute", "ledger", "reproduce"}
    assert not any(numeric(name) for name in others)


@pytest.mark.parametrize("name", sorted(BASE))
def test_numbers_that_nobody_means(folder, capsys, monkeypatch, name):
    monkeypatch.chdir(folder)
    privest = runner(capsys, monkeypatch)
    if name == "estimate":
        assert privest("release", "plan.toml", "--output", "made.csv").code == 0
    assert numeric(name)
    for option in numeric(name):
        for value in VALUES:
            (folder / "z.csv").unlink(missing_ok=True)
            (folder / "z.csv.json").unlink(missing_ok=True)
            discard(folder / "privest-ledger.db")
            done = privest(*lines(name, option, value))
            require_sense(done, (name, option, value, done))
