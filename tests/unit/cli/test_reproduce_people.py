"""`privest reproduce fig2`, `fig3` and `all`: tables, points, pictures, verdicts."""

import json

import numpy as np
import pytest

from privest.paper import fig2, fig3
from shared_data import FOLDER, needs_nhanes
from workflow_command import runner

PNG = b"\x89PNG"


@pytest.fixture
def reproduce(capsys, monkeypatch):
    privest = runner(capsys, monkeypatch)
    return lambda *arguments: privest("reproduce", *arguments)


def test_figure_two_is_that_of_the_library(reproduce, tmp_path):
    files = ("--json", tmp_path / "deep" / "p.json", "--png", tmp_path / "p.png")
    done = reproduce("fig2", "--trials", 4, "--seed", 3, *files)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "deep" / "p.json").read_text())
    figure = fig2(trials=4, rng=3)
    points = figure.points
    assert found == json.loads(json.dumps([p.to_dict() for p in points]))
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    last = max(p.k for p in points)
    ratio = next(p.mse / p.bound for p in points if (p.series, p.k) == ("data", last))
    assert f"{ratio:.3f}" in done.out
    assert "".join(figure.summary().split()) == "".join(done.out.split())


def test_figure_three_is_that_of_the_library(reproduce, tmp_path):
    done = reproduce("fig3", "--trials", 4, "--json", tmp_path / "p.json", "--synthetic")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "p.json").read_text())
    figure = fig3(trials=4, synthetic=True)
    assert found == json.loads(json.dumps([p.to_dict() for p in figure.points]))
    assert "".join(figure.summary().split()) == "".join(done.out.split())


def test_options_change_what_they_say(reproduce, tmp_path):
    def points(name, *options):
        done = reproduce("fig2", "--trials", 2, "--json", tmp_path / name, *options)
        assert done.code == 0, done.err
        return json.loads((tmp_path / name).read_text())

    plain = points("a.json")
    assert points("b.json") == plain
    assert points("c.json", "--seed", 9) != plain
    quick = reproduce("fig2", "--quick", "--json", tmp_path / "q.json")
    five = reproduce("fig2", "--trials", 5, "--json", tmp_path / "r.json")
    assert quick.out == five.out


@needs_nhanes
def test_the_people_of_the_paper(reproduce, tmp_path):
    raw = FOLDER / "nhanes_raw"
    done = reproduce("fig2", "--data", "nhanes", "--folder", raw, "--trials", 2)
    assert done.code == 0, done.err
    assert "NHANES" in done.out.upper()


@pytest.mark.parametrize(
    "arguments",
    [
        ("fig2", "--png", "x.txt"),
        ("fig2", "--json", "."),
        ("fig2", "--trials", "1"),
        ("fig2", "--data", "nhanes", "--folder", "none"),
        ("fig3", "--data", "people"),
        ("all", "--out", "a-file"),
    ],
    ids=lambda a: " ".join(a),
)
def test_refusals(reproduce, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("")
    done = reproduce(*arguments)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert not done.out
    assert [file.name for file in tmp_path.iterdir()] == ["a-file"]


@pytest.mark.slow
def test_all_of_them(reproduce, tmp_path):
    done = reproduce("all", "--quick", "--out", tmp_path / "out", "--workers", 1)
    assert done.code == 0, done.err
    out = tmp_path / "out"
    for k in (1, 2, 3, 4):
        assert (out / f"fig{k}.png").read_bytes().startswith(PNG)
        points = json.loads((out / f"fig{k}.json").read_text())
        assert len(points) > 5
    claims = json.loads((out / "claims.json").read_text())
    assert len({claim["label"] for claim in claims}) == 4
    for claim in claims:
        word = "Holds" if claim["holds"] else "Does NOT hold"
        said = "".join(f"{claim['label']}: {claim['claim']} {word}".split())
        assert said in "".join(done.out.split())
    again = reproduce("all", "--quick", "--out", out, "--workers", 1)
    assert again.out == done.out
    two = [p for p in json.loads((out / "fig2.json").read_text()) if p["series"] == "data"]
    assert np.all([p["bound"] > 0 for p in two])
