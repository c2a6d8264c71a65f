"""The pictures of the report show the numbers they were given."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.report.figures import Trail
from privest.report._canvas import WIDTH
from privest.report._coefficients import coefficients
from privest.report._pictures import (
    MOST_POINTS,
    intervals_figure,
    intervals_picture,
    pair_figure,
    pair_picture,
    trail_figure,
    trail_picture,
)
from privest.report._tradeoff import Curve, alike, tradeoff_figure, tradeoff_picture
from report_sample import LEVEL, NAMES, VARIANCE, errors, facts


@pytest.fixture(scope="module")
def given():
    return facts()


def tradeoff(given, chosen=LEVEL, **changed):
    return tradeoff_figure(replace(given.curve, **changed), chosen)


def result(names, estimate, error, classical_error):
    """A result with these standard errors."""
    return Result(
        estimate=np.asarray(estimate),
        covariance=np.diag(np.square(error)),
        classical=np.diag(np.square(classical_error)),
        names=tuple(names),
    )


def intervals(found, scale="none", **given):
    return intervals_figure(coefficients(found, scale, **given))


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- trade-off -----------------------------------------------------------------------------------


def test_one_line_where_all_ratios_agree(given):
    """S = sI and one noise variance: every ratio is √(1 + 1/(sσ²)), checked on pv.bound."""
    figure = tradeoff(given)
    line = figure.axes[0].get_lines()[0]
    s, ratio = line.get_data()
    np.testing.assert_allclose(ratio, np.sqrt(1 + 1 / (s * VARIANCE)), rtol=1e-9)
    assert labels(figure) == ["each of the 5 coefficients", f"wanted for {NAMES[3]}"]
    x, y = figure.axes[0].get_lines()[1].get_data()
    assert x == [LEVEL]
    assert y[0] == pytest.approx(np.sqrt(1 + 1 / (LEVEL * VARIANCE)), rel=1e-9)


def test_the_wanted_error_is_a_multiple_of_the_open_one(given):
    wanted = [line for line in tradeoff(given).axes[0].get_lines() if "wanted" in line.get_label()]
    assert wanted[0].get_ydata()[0] == pytest.approx(2.2, rel=1e-12)


def test_epsilons_stand_above_their_levels(given):
    above = tradeoff(given).axes[1]
    levels, epsilons = given.curve.levels, given.curve.epsilons
    marks = [(x, float(t.get_text())) for x, t in zip(above.get_xticks(), above.get_xticklabels())]
    assert len(marks) >= 3
    for place, value in marks:
        exact = pv.PrivacyLevel(float(place)).to_epsilon(delta=1e-6, move=1.0)
        k = np.searchsorted(levels, place)
        assert epsilons[k - 1] <= value <= epsilons[k]  # within the step of the curve
        assert exact == pytest.approx(value, rel=0.05)


def test_levels_without_a_rising_epsilon_are_not_marked(given):
    exact = given.curve.epsilons
    assert len(tradeoff(given, epsilons=0 * exact).axes) == 1
    late = np.where(np.arange(len(exact)) < 10, 0.0, exact)
    assert tradeoff(given, epsilons=late).axes[1].get_xticks()[0] >= given.curve.levels[10]


def test_curves_are_grouped_by_what_the_eye_can_tell_apart():
    base = np.linspace(5, 1, 9)
    columns = np.stack([base, base * 1.005, base * 1.5, base * 1.506, base * 3], axis=1)
    assert alike(columns) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("count", [3, 12])
def test_different_ratios_have_lines_of_their_own(count):
    levels, rng = np.geomspace(0.01, 100, 20), np.random.default_rng(0)
    plain, cost = rng.uniform(1, 2, count), np.geomspace(0.1, 50, count)
    private = plain * np.sqrt(1 + cost / levels[:, None])
    names = ["_first $x$", "b $", *"cdefghijkl"][:count]
    figure = tradeoff_figure(Curve(names, levels, private, plain), 1.0)
    figure.canvas.draw()  # no mathematics in names, no warning for an underscore
    shown = labels(figure)
    if count == 3:
        assert shown == [r"error of _first \$x\$", r"error of b \$", "error of c"]
    else:
        assert shown == ["all 12 coefficients", "error of l", r"error of _first \$x\$"]


def test_the_tradeoff_refuses_what_it_cannot_draw(given):
    curve = given.curve
    for changed, words in [
        ({"chosen": 1e4}, "within the levels"),
        ({"levels": curve.levels[::-1]}, "increasing"),
        ({"names": NAMES[:4]}, "4 names"),
        ({"standard_error": 0.5 * curve.standard_error}, "cannot make one smaller"),
        ({"target": {"nobody": 1.0}}, "1 names"),
        ({"epsilons": curve.epsilons[::-1]}, "not decreasing"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            tradeoff(given, **changed)


# --- intervals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_both_intervals_stand_around_the_private_estimate(given, confidence):
    found = given.outcomes[0].result
    values, private, plain = found.estimate, found.standard_error, found.classical_error
    figure = intervals(found, confidence=confidence)
    for axes, v, wide, narrow in zip(figure.axes, values, private, plain, strict=True):
        outer, inner = (line.get_xdata() for line in axes.get_lines()[:2])
        np.testing.assert_allclose(outer, scipy.stats.norm.interval(confidence, v, wide))
        np.testing.assert_allclose(inner, scipy.stats.norm.interval(confidence, v, narrow))
        low, high = axes.get_xlim()
        assert low < outer[0]
        assert outer[1] < high


def test_zero_is_marked_only_where_it_is_near():
    figure = intervals(result("abc", [1.0, 100.0, -1.0], np.ones(3), np.full(3, 0.5)))
    marked = [len(axes.get_lines()) == 4 for axes in figure.axes]
    assert marked == [True, False, True]


def test_very_different_sizes_are_all_readable():
    sizes = np.array([1e-12, 1e-3, 1.0, 1e9])
    figure = intervals(result("abcd", sizes, 0.3 * sizes, 0.1 * sizes))
    figure.canvas.draw()
    titles = [axes.get_title(loc="right") for axes in figure.axes]
    assert titles == [
        "1.00e−12  (4.1e−13 to 1.59e−12)",
        "0.00100  (0.00041 to 0.00159)",
        "1.00  (0.41 to 1.59)",
        "1.00e+09  (4.1e+08 to 1.59e+09)",
    ]
    for axes in figure.axes:
        ticks = [t.get_text() for t in axes.get_xticklabels()]
        assert len(set(ticks)) == len(ticks)


def test_logarithms_are_drawn_as_per_cent_without_the_intercept():
    """e^{θ} − 1 of the ends, and of nothing that is no effect."""
    found = result(["intercept", "age"], [4.0, 0.5], [0.3, 0.1], [0.2, 0.05])
    picture = intervals_picture(coefficients(found, "log"), "log")
    (axes,) = picture.figure.axes
    ends = axes.get_lines()[0].get_xdata()
    np.testing.assert_allclose(ends, 100 * np.expm1(scipy.stats.norm.interval(0.95, 0.5, 0.1)))
    assert axes.get_title(loc="right") == "65 %  (36 to 101 %)"
    assert "intercept" not in picture.alt


def test_where_errors_without_privacy_are_not_known_none_are_drawn():
    found = replace(result("ab", [1.0, 2.0], [0.3, 0.1], [0.2, 0.05]), classical=None)
    picture = intervals_picture(coefficients(found))
    assert "without privacy" not in picture.caption
    assert labels(picture.figure) == ["95 % interval, with privacy"]


def test_intervals_refuse_what_cannot_be():
    one = np.ones(2)
    for args, words in [
        (("a", one, one, one), "1 names"),
        (("ab", [1.0, np.nan], one, one), "finite"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            intervals(result(*args))
    with pytest.raises(InvalidInput, match="confidence"):
        intervals(result("ab", one, one, one), confidence=1.0)


# --- ellipses and stream -------------------------------------------------------------------------


def test_the_ellipse_holds_95_in_100(given):
    pair = given.pair
    axes = pair_figure(pair).axes[0]
    quantile = scipy.stats.chi2.ppf(0.95, 2)
    for line, covariance in zip(axes.get_lines(), (pair.covariance, pair.classical)):
        away = np.stack(line.get_data(), axis=1) - pair.estimate
        distance = np.einsum("ij,jk,ik->i", away, np.linalg.inv(covariance), away)
        np.testing.assert_allclose(distance, quantile, rtol=1e-9)


def test_the_pair_refuses_what_is_no_covariance(given):
    pair = given.pair
    for bad in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0, 0.5], [0.0, 1.0]]), np.eye(3)):
        with pytest.raises(InvalidInput):
            pair_figure(replace(pair, covariance=bad))
        with pytest.raises(InvalidInput):
            pair_figure(replace(pair, classical=bad))
    with pytest.raises(InvalidInput, match="two coefficients"):
        pair_figure(given.outcomes[0].result)


def test_the_stream_is_drawn_as_it_came(given):
    trail = given.trail
    figure = trail_figure(trail, NAMES)
    for j, axes in enumerate(figure.axes):
        steps, line = axes.get_lines()[0].get_data()
        np.testing.assert_array_equal(steps, [step + 1 for step, _, _ in trail.points])
        np.testing.assert_array_equal(line, [estimate[j] for _, estimate, _ in trail.points])
        low, high = axes.get_ylim()
        half = 1.959963984540054 * trail.points[-1][2][j]
        assert low < line[-1] - half
        assert line[-1] + half < high


def test_a_long_stream_is_thinned_and_keeps_its_ends():
    trail = Trail(most=5000)
    for k in range(4000):
        trail.add(k, np.array([float(k)]), np.ones(1))
    steps = trail_figure(trail, ["a"]).axes[0].get_lines()[0].get_xdata()
    assert len(steps) <= MOST_POINTS
    assert (steps[0], steps[-1]) == (1, 4000)


def test_a_stream_without_estimates_is_refused(given):
    with pytest.raises(InvalidInput, match="two or more"):
        trail_figure(Trail(), NAMES)
    with pytest.raises(InvalidInput, match="5 coefficients"):
        trail_figure(given.trail, NAMES[:2])


# --- all of them ---------------------------------------------------------------------------------


def test_letters_stay_readable_on_a_phone(given):
    """Shown 313 pixels wide (360 less margins), no letter is smaller than 10 pixels."""
    figures = [
        tradeoff(given),
        intervals(given.outcomes[0].result),
        trail_figure(given.trail, NAMES),
        pair_picture(given.pair).figure,
    ]  # fmt: skip
    for figure in figures:
        assert figure.get_size_inches()[0] == WIDTH
        figure.canvas.draw()
        texts = [t for t in figure.findobj(mpl.text.Text) if t.get_text() and t.get_visible()]
        assert texts
        assert min(t.get_fontsize() for t in texts) * 313 / (72 * WIDTH) >= 10


def test_alternative_texts_hold_the_numbers(given):
    private, plain, _ = errors(LEVEL, np.eye(5))
    ratio = private[0] / plain[0]
    text = tradeoff_picture(given.curve, LEVEL).alt
    assert f"chosen level s = 4 they are {ratio:.3g} times" in text
    named = intervals_picture(coefficients(given.outcomes[0].result))
    assert all(name in named.alt for name in NAMES)
    assert "secret" in named.caption
    assert f"{ratio**2:.3g} times the area" in pair_picture(given.pair).alt
    (first, _, early), (last, _, late) = (given.trail.points[k] for k in (6, -1))
    narrower = (early / late).min()
    told = trail_picture(given.trail, NAMES).alt
    assert f"From {first + 1} to {last + 1} readings the bands become {narrower:.3g} to" in told


def test_drawing_leaves_global_settings_alone(given):
    before = dict(mpl.rcParams)
    tradeoff(given)
    assert dict(mpl.rcParams) == before
