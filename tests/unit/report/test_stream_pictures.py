"""Pictures of a stream as it goes, also where there are few readings or no intervals yet."""

import time

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.report import Section, Trail, released_picture, render_section, trail_picture
from privest.report._canvas import BAND
from privest.report._pictures import trail_figure


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


def test_a_quick_one_draws_the_first_and_says_so():
    names = ["a", "b", "c", "d", "e"]
    picture = trail_picture(grown(10, 5), names, most=2)
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["a", "b"]
    assert "the first 2 coefficients" in picture.alt
    assert "The first 2 of 5 are drawn." in picture.caption
    assert "drawn" not in trail_picture(grown(10, 5), names, most=5).caption


def test_releases_are_drawn_with_the_bars_of_their_noise():
    values = np.array([1.0, np.nan, 3.0])
    picture = released_picture(np.arange(1, 4), values, 0.5, "load")
    (axes,) = picture.figure.axes
    (bars,) = axes.collections
    np.testing.assert_allclose(
        [segment[:, 1] for segment in bars.get_segments()],
        [[1 - BAND / 2, 1 + BAND / 2], [3 - BAND / 2, 3 + BAND / 2]],
    )
    (dots,) = axes.get_lines()
    np.testing.assert_array_equal(dots.get_xydata(), [[1, 1], [3, 3]])
    assert "last 3 releases of load, from 1 to 3" in picture.alt
    assert "1 missing reading among them" in picture.alt
    assert "± 0.98" in picture.caption


def test_all_missing_or_none_at_all():
    assert "missing" in released_picture(np.array([1]), np.array([np.nan]), 0.5, "load").alt
    with pytest.raises(InvalidInput, match="one or more"):
        released_picture(np.zeros(0), np.zeros(0), 0.5, "load")


def test_only_the_last_are_drawn():
    picture = released_picture(np.arange(1, 501), np.zeros(500), 0.5, "load")
    assert "last 160 releases" in picture.alt
    assert len(picture.figure.axes[0].get_lines()[0].get_xydata()) == 160


def test_they_are_quick():
    """Within 300 ms on an idle machine: here by the time of this process, with some room."""
    trail, values = grown(2000, 4), np.zeros(160)

    def drawn():
        begun = time.process_time()
        pictures = (
            trail_picture(trail, list("abcd")),
            released_picture(np.arange(160), values, 0.5, "load"),
        )
        for picture in pictures:
            render_section(Section("x", (picture,)), "x")
        return time.process_time() - begun

    drawn()  # fonts
    assert min(drawn(), drawn()) < 2 * 2 * 0.3


def test_threads_that_draw_at_once_leave_no_settings_to_each_other():
    """matplotlib's settings are of the process: whoever draws alone gets the same picture."""
    from concurrent.futures import ThreadPoolExecutor

    import matplotlib as mpl

    def drawn(k):
        picture = (
            trail_picture(grown(30), ["a", "b"]) if k % 2
            else released_picture(np.arange(1, 9), np.zeros(8), 0.5, "load")
        )  # fmt: skip
        return render_section(Section("x", (picture,)), "x")

    before, alone = dict(mpl.rcParams), [drawn(0), drawn(1)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(drawn, range(4)))
    assert together == alone * 2
    assert dict(mpl.rcParams) == before


def test_a_copy_of_a_trail_stays_as_it_is():
    trail = grown(5)
    copy = trail.copy()
    trail.add(5, np.zeros(2), np.ones(2))
    assert (len(copy.points), len(trail.points)) == (5, 6)
