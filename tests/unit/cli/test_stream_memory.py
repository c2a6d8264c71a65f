"""`privest stream` on readings that remember: blocks, AR(1), shared noise, times, references."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.report.numbers import down
from serial_streams import dense_cr2
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
    level = pv.EndlessLevel(16.0)
    source = pv.mechanism.source.seeded(1, "stream", "load", level.fingerprint)
    return level, pv.StreamMechanism(level).simulate(y, source)


def test_the_example_is_what_its_script_makes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import meter_ar1

    assert METER.read_text(encoding="utf-8").splitlines() == meter_ar1.rows()
    H, y = table()
    rest = y - H @ np.linalg.lstsq(H, y)[0]
    assert rest[1:] @ rest[:-1] / (rest @ rest) > 0.7  # not white


def test_errors_by_blocks_are_printed_and_the_stated_ones_doubted(privest):
    done = privest("stream", METER, *TRIAL, "--level", 16, "--residual-variance", 0.09)
    line, said = last(done.out), told(done.err)
    assert line["time"] == "2024-02-11T23:00"
    H, y = table()
    z = drawn(y)[1].values / 4
    covariance, freedom = dense_cr2(H, z, np.split(np.arange(1008), range(64, 1008, 64)))
    np.testing.assert_allclose(
        numbers(line, "_block_error"), np.sqrt(covariance.diagonal()), rtol=1e-7
    )
    assert "by 16 blocks of 64 readings (CR2)" in said
    assert f"{freedom[0]:.1f}" in said
    assert "errors by blocks of time are up to" in said
    assert "(intercept, temperature, weekend)" in said
    calm = privest(
        "stream",
        ROOT / "examples" / "meter.csv",
        *TRIAL,
        "--level",
        4,
        "--residual-variance",
        0.0625,
    )
    assert "errors by blocks of time are up to" not in told(calm.err)


def test_autoregressive_noise_is_fitted_at_the_end_and_elsewhere(privest):
    text = METER.read_text(encoding="utf-8").splitlines(keepends=True)
    Path("m.csv").write_text("".join(text[:341]), encoding="utf-8")
    live = privest("stream", "m.csv", *TRIAL, "--level", 16, "--ar1")
    assert live.code == 0, live.err
    privest("stream", "m.csv", *TRIAL, "--level", 16, "--emit", "releases", "--output", "z.jsonl")
    apart = privest(
        "stream", "z.jsonl", "--from", "releases", "--level", 16, "--intercept", "--ar1",
        "--output-format", "csv", "--block", 100,
    )  # fmt: skip
    assert apart.out == live.out
    assert len(live.out.splitlines()) == 2
    H, y = table()
    family = pv.dynamics.RegressionAR(1, 4)
    found = pv.dynamics.fit(family, drawn(y[:340])[1], inputs=H[:340])
    np.testing.assert_allclose(numbers(last(live.out)), found.estimate[2:], rtol=1e-9)
    phi, q = found.estimate[:2]
    assert f"correlation {phi:.3g}" in told(live.err)
    spread = np.sqrt(q / (1 - phi**2))  # of the AR(1); v: the variance given all releases
    v = q / np.sqrt((1 + phi**2 + 16 * q) ** 2 - 4 * phi**2)
    assert (
        f"From all steps a reader guesses one measurement with sd {down(np.sqrt(v))}; without its "
        f"own step, {down(1 / np.sqrt(1 / v - 16))}; without the stream, {spread:.3g}."
    ) in told(live.err)


def test_a_shared_noise_hides_the_mean_of_a_day(privest, tmp_path):
    text = METER.read_text(encoding="utf-8").splitlines()
    gap = [*text[:30], text[30].rpartition(",")[0] + ",", *text[31:200]]  # day 1; day 8 unfinished
    (tmp_path / "m.csv").write_text("\n".join(gap), encoding="utf-8")
    day = ("--level", 16, "--shared-day", 24)
    done = privest("stream", "m.csv", *TRIAL, *day)
    said = told(done.err)
    assert "192 rows; 24 of them in steps of 24 with a missing measurement" in said
    assert "7 more of a step that is not complete" in said
    assert "has sd at least 0.255" in said  # 1/√(16(1 − 1/24 + 1/24²))
    assert "The same for the mean of 24 measurements" in said
    real = ("--target", "load", "--emit", "releases", "--range", "0,9", "--output", "z.jsonl")
    assert privest("stream", "m.csv", *day, *real, "--ledger", "l.db").code == 0
    facts, *lines = map(json.loads, Path("z.jsonl").read_text().splitlines())
    assert (facts["together"], facts["times"], len(lines)) == (24, ["time"], 192)
    assert [line["step"] for line in lines if line["z"] is None] == list(range(24, 48))
    assert lines[0]["time"] == "2024-01-01T00:00"
    assert privest("verify", "z.jsonl", "--ledger", "l.db").code == 0
    learnt = privest("stream", "z.jsonl", "--from", "releases", *day, "--intercept")
    assert learnt.code == 0, learnt.err
    assert "Measurements beyond the range were clipped" in told(learnt.err)
    assert last(learnt.out.replace("{", "step\n{", 1)) is not None
    assert privest("stream", "z.jsonl", "--from", "releases", "--level", 16).code == 2


def test_a_day_of_which_a_line_is_lost_is_not_used(privest):
    """Its other numbers are mixed with the lost one: they say nothing alone."""
    day = ("--level", 16, "--shared-day", 24)
    privest("stream", METER, *TRIAL, *day, "--emit", "releases", "--output", "z.csv")
    whole = Path("z.csv").read_text(encoding="utf-8").splitlines()
    step, fingerprint, grid, _, *rest = whole[30].split(",")
    holed = [*whole[:30], ",".join([step, fingerprint, grid, "", *rest]), *whole[31:]]
    Path("holed.csv").write_text("\n".join(holed) + "\n", encoding="utf-8")
    gone = [row.split(",") for row in whole[25:49]]
    empty = [",".join([*row[:3], "", *row[4:]]) for row in gone]
    Path("gone.csv").write_text("\n".join([*whole[:25], *empty, *whole[49:]]), encoding="utf-8")
    learner = ("--from", "releases", *day, "--intercept", "--block", 2000)
    found = [privest("stream", name, *learner) for name in ("holed.csv", "gone.csv")]
    assert found[0].out == found[1].out
    assert "24 of them in steps of 24 with a missing measurement" in told(found[0].err)


def test_a_stream_with_a_shared_noise_is_taken_up_again(privest, tmp_path):
    """Half of the rows, then all: what was sent is not drawn again, days stay whole."""
    text = METER.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "half.csv").write_text("".join(text[:61]), encoding="utf-8")
    (tmp_path / "all.csv").write_text("".join(text[:121]), encoding="utf-8")
    common = ("--target", "load", "--level", 4, "--shared-day", 24, "--emit", "releases")
    kept = (*common, "--output", "z.jsonl", "--checkpoint", "s", "--block", 24)
    assert privest("stream", "half.csv", *kept).code == 0
    before = Path("z.jsonl").read_text()
    done = privest("stream", "all.csv", *kept)
    assert done.code == 0, done.err
    after = Path("z.jsonl").read_text()
    assert after.startswith(before)
    assert (len(before.splitlines()), len(after.splitlines())) == (49, 121)
    known = privest(
        "stream", "all.csv", *common, "--output", "other.jsonl", "--known", 30, "--block", 24
    )
    assert known.code == 0, known.err
    lines = list(map(json.loads, Path("other.jsonl").read_text().splitlines()))[1:]
    assert [line["z"] is None for line in lines] == [True] * 48 + [False] * 72


def test_the_noise_may_be_left_to_the_release_or_a_reference(privest):
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
    assert "by how much the release scatters" in told(alone.err)
    # three times too small a variance: the misfit says so (noise that does not remember)
    meter = ROOT / "examples" / "meter.csv"
    wrong = privest("stream", meter, *TRIAL, "--level", 400, "--residual-variance", 0.005)
    assert "that variance is wrong, or the model is" in told(wrong.err)
    Path("r.csv").write_text(
        "".join(meter.read_text().splitlines(keepends=True)[:60]), encoding="utf-8"
    )
    found = privest("stream", meter, *TRIAL, "--level", 400, "--reference", "r.csv")
    assert found.code == 0, found.err
    assert "by the reference and the release" in told(found.err)
    assert "that variance is wrong" not in told(found.err)


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
        (("--ar1", "--checkpoint", "s"), "all releases at the end"),
        (("--ar1", "--emit", "releases"), "leave out --emit releases"),
        (("--ar1", "--shared-day", "24"), "leave out --shared-day"),
        (("--shared-day", 24, "--lags", "0.5"), "a level has one of them"),
        (("--correlation", 0.5), "needs --residual-variance"),
        (("--reference", "r.csv", "--residual-variance", 1), "give one of them"),
        (("--time", "evening", "--features", "evening"), "a feature already"),
        (("--reference", METER,), "are the same file"),
    ],
)  # fmt: skip
def test_wrong_uses_are_said(privest, wrong, reason):
    done = privest("stream", METER, "--target", "load", "--level", 4, *wrong)
    assert (done.code, reason in told(done.err)) == (2, True), done.err


def test_wild_readings_are_named_where_the_stated_variance_is_doubted(privest, tmp_path):
    lines = METER.read_text(encoding="utf-8").splitlines()
    lines[6::40] = [f"{line.rpartition(',')[0]},9" for line in lines[6::40]]
    (tmp_path / "wild.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = privest(
        "stream", tmp_path / "wild.csv", "--target", "load", "--level", 16, "--intercept",
        "--residual-variance", 0.0625, "--block", 400, "--simulate", "--seed", 1,
    )  # fmt: skip
    assert "or a few readings are wild. The intervals do not need it." in told(done.err)
