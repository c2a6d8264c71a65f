"""`privest stream` on autocorrelated measurements: errors, exposure, times."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.report.numbers import down
from workflow_command import runner

ROOT = Path(__file__).parents[3]
METER = ROOT / "examples" / "meter_ar1.csv"
NAMES = ("intercept", "temperature", "evening", "weekend")
TRIAL = ("--target", "load", "--intercept", "--simulate", "--seed", 1, "--block", 2000)


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return runner(capsys, monkeypatch)


def told(text):
    return " ".join(text.split())


def last(text):
    return list(csv.DictReader(io.StringIO(text)))[-1]


def numbers(line, ending=""):
    return np.array([float(line[name + ending]) for name in NAMES])


def table():
    rows = list(csv.DictReader(io.StringIO(METER.read_text(encoding="utf-8"))))
    H = np.array([[1.0, *(float(row[name]) for name in NAMES[1:])] for row in rows])
    return H, np.array([float(row["load"]) for row in rows])


def drawn(y):
    """The trial that the command makes of these readings at level 16."""
    level = pv.StreamLevel.constant(16.0)
    source = pv.mechanism.source.seeded(1, "stream", "load", "16")
    return level, pv.StreamMechanism(level).simulate(y, source)


def test_the_example_is_what_its_script_makes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import meter_ar1

    assert METER.read_text(encoding="utf-8").splitlines() == meter_ar1.rows()
    H, y = table()
    rest = y - H @ np.linalg.lstsq(H, y)[0]
    assert rest[1:] @ rest[:-1] / (rest @ rest) > 0.7  # not white


def test_the_residual_variance_may_be_left_to_the_release(privest):
    known = privest("stream", METER, *TRIAL, "--level", 16, "--residual-variance", 0.09)
    alone = privest("stream", METER, *TRIAL, "--level", 16)
    np.testing.assert_allclose(
        numbers(last(alone.out)), numbers(last(known.out)), rtol=1e-9
    )  # one level: the estimate does not depend on σ²
    H, y = table()
    z = drawn(y)[1].values / 4
    rest = z - H @ np.linalg.lstsq(H, z)[0]
    expected = np.sqrt(rest @ rest / 1004 * np.linalg.inv(H.T @ H).diagonal())
    np.testing.assert_allclose(numbers(last(alone.out), "_error"), expected, rtol=1e-9)
    assert "come from the residuals" in told(alone.err)
    # three times too small a variance: the misfit says so (noise that does not remember)
    meter = ROOT / "examples" / "meter.csv"
    wrong = privest("stream", meter, *TRIAL, "--level", 400, "--residual-variance", 0.005)
    assert "that variance is wrong, or the model is" in told(wrong.err)


def test_with_lags_errors_need_the_residual_variance(privest):
    done = privest("stream", METER, *TRIAL, "--level", 16, "--lags", 0.5)
    assert last(done.out)["evening_error"] == ""
    assert "need the residual variance. State it." in told(done.err)


def test_a_reader_of_neighbours_in_time_guesses_better(privest):
    stated = ("--correlation", 0.8, "--residual-variance", 0.09)
    done = privest("stream", METER, *TRIAL, "--level", 16, *stated)
    q = 0.09 * (1 - 0.8**2)  # v: the variance of one value of the AR(1) given all releases
    v = q / np.sqrt((1 + 0.8**2 + 16 * q) ** 2 - 4 * 0.8**2)
    assert (
        f"From all steps a reader guesses one measurement with sd {down(np.sqrt(v))}; without its "
        f"own step, {down(1 / np.sqrt(1 / v - 16))}; without the stream, 0.3."
    ) in told(done.err)


def test_times_pass_through_and_dates_are_not_refused(privest, tmp_path):
    (tmp_path / "m.csv").write_text(
        "when,x,y\n2024-03-01,1,2\n2024-03-02,2,1\n,3,4\n", encoding="utf-8"
    )
    found = privest("stream", "m.csv", "--level", 1, "--emit", "releases")
    rows = list(csv.DictReader(io.StringIO(found.out)))
    assert [row["when"] for row in rows] == ["2024-03-01", "2024-03-02", ""]
    named = privest(
        "stream", "m.csv", "--level", 1, "--emit", "releases", "--features", "x", "--time", "when"
    )
    assert next(row["when"] for row in csv.DictReader(io.StringIO(named.out))) == "2024-03-01"
    hidden = privest("stream", "m.csv", "--level", 1, "--emit", "releases", "--features", "x")
    assert "2024" not in hidden.out  # what was not named public is not written


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (("--correlation", 0.5), "(Here: --correlation, --residual-variance, --lags)"),
        (("--time", "evening", "--features", "evening"), "a feature already"),
    ],
)  # fmt: skip
def test_wrong_uses_are_said(privest, wrong, reason):
    done = privest("stream", METER, "--target", "load", "--level", 4, *wrong)
    assert (done.code, reason in told(done.err)) == (2, True), done.err
