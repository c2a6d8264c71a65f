"""The example scripts run and draw their pictures; what they print agrees with their bounds."""

import re
import runpy
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
