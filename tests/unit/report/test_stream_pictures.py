"""Pictures of a stream as it goes, also where there are few readings or no intervals yet."""

import numpy as np
import pytest

from privest.report import Section, render_section
from privest.report.figures import BAND, Trail
from privest.report._pictures import trail_figure, trail_picture


def grown(points, names=2, without=()):
    """A trail whose bands narrow as 1/√k; `without`: points of no interval."""
    trail = Trail()
    for k in range(points):
        error = np.full(names, 1 / np.sqrt(k + 1))
        if k in without:
            error[-1] = np.nan
        trail.add(k, np.full(names, 0.5) + 0.01 * k, error)
    return trail


def test_points_without_an_interval_have_no_band_and_do_not_break_the_picture():
    trail = grown(20, without=range(9))
    figure = trail_figure(trail, ["a", "b"])
    for axes in figure.axes:
        assert np.isfinite(axes.get_ylim()).all()
    low, high = figure.axes[1].get_ylim()
    _, estimate, error = trail.points[9]
    assert low < estimate[1] - BAND * error[1] < estimate[1] + BAND * error[1] < high
    assert "From 11 to 20 readings the bands become" in trail_picture(trail, ["a", "b"]).alt


@pytest.mark.parametrize("without", [range(20), range(19, 20)])
def test_where_the_last_has_no_interval_nothing_is_said_of_bands(without):
    assert "narrower" not in trail_picture(grown(20, without=without), ["a", "b"]).alt


def test_threads_that_draw_at_once_leave_no_settings_to_each_other():
    """matplotlib's settings are of the process: whoever draws alone gets the same picture."""
    from concurrent.futures import ThreadPoolExecutor

    import matplotlib as mpl

    def drawn(k):
        picture = trail_picture(grown(30), ["a", "b"] if k % 2 else ["c", "d"])
        return render_section(Section("x", (picture,)), "x")

    before, alone = dict(mpl.rcParams), [drawn(0), drawn(1)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(drawn, range(4)))
    assert together == alone * 2
    assert dict(mpl.rcParams) == before
