"""Every example of the gallery runs, is short, and draws one picture."""

import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "gallery").rglob("plot_*.py"))


def test_there_are_thirty_examples_of_at_most_forty_lines():
    assert len(EXAMPLES) >= 30
    assert max(len(path.read_text().splitlines()) for path in EXAMPLES) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_draws_one_picture(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(path), run_name="__main__")
    (number,) = plt.get_fignums()
    assert any(axes.has_data() for axes in plt.figure(number).axes)
    plt.close("all")
