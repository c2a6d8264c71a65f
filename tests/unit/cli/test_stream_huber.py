"""`privest stream --errors huber`: at the end, from all releases, here or elsewhere."""

import csv
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.estimator._stream_guard import conclude_huber
from workflow_command import runner

METER = Path(__file__).parents[3] / "examples" / "meter.csv"
NAMES = ["intercept", "temperature", "evening", "weekend"]
TRIAL = ("--target", "load", "--intercept", "--level", 16, "--simulate", "--seed", 1)


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with METER.open(encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    for row in rows[5::40]:
        row[names.index("load")] = "9"  # a meter that hangs now and then
    with open("wild.csv", "w", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return runner(capsys, monkeypatch)


def test_a_meter_that_hangs_now_and_then(privest):
    plain = privest("stream", "wild.csv", *TRIAL, "--block", 400)
    live = privest("stream", "wild.csv", *TRIAL, "--errors", "huber")  # a block a reading
    assert live.code == 0, live.err
    assert len(live.out.splitlines()) == 2
    said = " ".join(live.err.split())
    assert "Huber's estimate from the releases; intervals by 11 blocks of 32 readings" in said
    assert "% of the rows count for less than one" in said
    privest("stream", "wild.csv", *TRIAL, "--emit", "releases", "--output", "z.jsonl")
    apart = privest(
        "stream", "z.jsonl", "--from", "releases", "--level", 16, "--intercept", "--errors",
        "huber", "--output-format", "csv", "--block", 100,
    )  # fmt: skip
    numbers = (line.out.splitlines()[-1].split(",") for line in (apart, live))
    np.testing.assert_allclose(*(np.array(one, dtype=float) for one in numbers), rtol=1e-9)
    calm = privest("stream", METER, *TRIAL, "--block", 400)
    first, wild, here = (
        np.array(done.out.splitlines()[-1].split(",")[1:5], dtype=float)
        for done in (calm, plain, live)
    )
    assert abs(wild[0] - first[0]) > 0.15
    assert abs(here[0] - first[0]) < abs(wild[0] - first[0]) / 4
    with open("wild.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    H = np.array([[1.0, *(float(row[name]) for name in NAMES[1:])] for row in rows])
    y = np.array([float(row["load"] or "nan") for row in rows])
    level = pv.EndlessLevel(16.0)
    source = pv.mechanism.source.seeded(1, "stream", "load", level.fingerprint)
    release = pv.StreamMechanism(level).simulate(y, source)
    rls = pv.PrivateRLS(level, 4, pv.noise.Gaussian(cov=np.zeros(1)), blocks=True)
    rls.update(release, H)
    found = conclude_huber(rls, release, H, NAMES, known=False)
    np.testing.assert_allclose(here, found.estimate, rtol=1e-9)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--ar1",), "give one of them"),
        (("--lags", "0.5"), "shown one by one"),
        (("--shared-day", 24), "shown one by one"),
        (("--checkpoint", "s"), "all releases at once"),
        (("--emit", "releases"), "leave out --emit releases"),
    ],
)
def test_what_does_not_go_with_it(privest, more, why):
    done = privest("stream", "wild.csv", *TRIAL, "--errors", "huber", *more)
    assert done.code == 2
    assert why in " ".join(done.err.split())
    assert not Path("s").exists()


def test_a_wild_reading_is_named_where_the_stated_variance_is_doubted(privest):
    stated = ("--noise-variance", 0.0625, "--block", 400)
    plain = " ".join(privest("stream", "wild.csv", *TRIAL, *stated).err.split())
    assert "or a few readings are wild (--errors huber)" in plain
    assert "goes on from one reading to the next" not in plain  # they do not remember
    guarded = " ".join(
        privest("stream", "wild.csv", *TRIAL, *stated, "--errors", "huber").err.split()
    )
    assert "or a few readings are wild. The intervals" in guarded
