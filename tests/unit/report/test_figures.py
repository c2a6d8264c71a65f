"""Figures of streams and dynamic models, also where there are no intervals yet."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.report.figures import Trail, require_files, save_convergence


def grown(points, without=()):
    """A trail whose bands narrow as 1/√k; `without`: points of no interval."""
    trail = Trail()
    for k in range(points):
        error = np.full(2, np.nan if k in without else 1 / np.sqrt(k + 1))
        trail.add(k, np.full(2, 0.5) + 0.01 * k, error)
    return trail


@pytest.mark.parametrize("without", [(), range(9), range(20), range(19, 20)])
def test_points_without_an_interval_have_no_band_and_do_not_break_the_figure(without, tmp_path):
    path = tmp_path / "deep" / "trail.png"
    save_convergence(grown(20, without), ["a$b", "größe"], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_long_trail_is_thinned():
    trail = grown(5000)
    assert len(trail.points) < trail.most
    steps, estimates, errors = trail.columns()
    assert len(steps) == len(estimates) == len(errors) <= trail.most
    assert steps[0] == 1


def test_threads_that_draw_at_once_give_the_same_bytes(tmp_path):
    paths = [tmp_path / f"{k}.png" for k in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: save_convergence(grown(30), ["a", "b"], path), paths))
    assert len({path.read_bytes() for path in paths}) == 1


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    with pytest.raises(InvalidInput, match=r"the figure can be \.png"):
        require_files(None, tmp_path / "x.bmp")
    with pytest.raises(InvalidInput, match="is a folder"):
        require_files(tmp_path, None)
    require_files(None, Path("x.svg"))
