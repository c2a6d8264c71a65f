"""The example scripts run and draw their pictures; what they print agrees with their bounds."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["smart_meter", "vehicle"])
def test_examples_run(name, tmp_path, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](tmp_path)
    printed = capsys.readouterr().out
    for picture in re.findall(r"\w+\.png", printed):
        assert (tmp_path / picture).stat().st_size > 10_000
    if name == "smart_meter":
        # 200 days of 144 steps, correlated over some 50: some 500 independent errors, ± 10 %.
        numbers = re.findall(r"common load, .*?\)\s+([\d.]+)\s+([\d.]+)", printed)
        (equal, best), (seen_equal, seen_best) = ([float(x) for x in row] for row in numbers)
        assert best < equal
        assert seen_equal == pytest.approx(equal, rel=0.1)
        assert seen_best == pytest.approx(best, rel=0.1)


def ratios(printed):
    """Of the errors found to the bound, by level."""
    rows = re.findall(r"^ +([\d.]+) +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)", printed, re.MULTILINE)
    return {float(level): float(ratio) for level, ratio in rows}


def test_the_cost_of_an_autoregression_runs(tmp_path, capsys):
    runpy.run_path(str(EXAMPLES / "ar1_cost.py"))["main"](tmp_path, trials=2)
    assert (tmp_path / "ar1_cost.png").stat().st_size > 10_000
    assert len(ratios(capsys.readouterr().out)) == 7


@pytest.mark.slow
def test_the_cost_of_an_autoregression_is_the_bound(tmp_path, capsys):
    """At levels where 2000 steps are many; ± four errors of a standard deviation of 200 trials."""
    runpy.run_path(str(EXAMPLES / "ar1_cost.py"))["main"](tmp_path)
    for level, ratio in ratios(capsys.readouterr().out).items():
        if level >= 0.5:
            assert ratio == pytest.approx(1.0, abs=4 / (2 * 200) ** 0.5 + 0.05)


@pytest.mark.slow
def test_sunspots_are_identified_and_foreseen(tmp_path, capsys):
    pytest.importorskip("statsmodels")
    runpy.run_path(str(EXAMPLES / "sunspots.py"))["main"](tmp_path)
    assert (tmp_path / "sunspots.png").stat().st_size > 50_000
    printed = capsys.readouterr().out
    cycles = [float(years) for years in re.findall(r"cycle of ([\d.]+) years", printed)]
    assert len(cycles) == 3
    assert all(10 < years < 12 for years in cycles)  # Yule found 10.6, and Schwabe 10 before him
    inside = [int(count) for count in re.findall(r"(\d+) of the 20 years", printed)]
    assert min(inside) >= 15


def test_without_statsmodels_sunspots_say_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    runpy.run_path(str(EXAMPLES / "sunspots.py"))["main"](tmp_path)
    assert "comes with statsmodels" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
