"""The words of the report: true numbers, both sides of the promise, nothing left out."""

import re
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.report._page import Commands, Note, Picture, TableBlock
from privest.report._page_sections import Facts, story
from report_sample import COMMANDS, LEVEL, NAMES, VARIANCE, facts


@pytest.fixture(scope="module")
def given():
    return facts()


@pytest.fixture(scope="module")
def told(given):
    return story(given)


def bare(given, **changed):
    """Without pictures that take time."""
    return story(replace(given, **({"curve": None, "pair": None, "trail": None} | changed)))


def words(sections, heading=None):
    """All prose, or that of one section."""
    return "\n".join(
        part if isinstance(part, str) else getattr(part, "text", "")
        for section in sections
        for part in section.parts
        if heading in (None, section.heading)
    )


def parts(sections, kind):
    return [part for section in sections for part in section.parts if isinstance(part, kind)]


def test_the_four_pictures_are_there_with_their_words(told):
    pictures = parts(told, Picture)
    assert len(pictures) == 4
    assert all(len(picture.alt) > 60 and len(picture.caption) > 60 for picture in pictures)
    assert [section.heading for section in told] == [
        "In short", "What was found", "What privacy cost", "Two coefficients together",
        "How the estimates settled", "What is promised", "What is not promised", "Repeat it",
    ]  # fmt: skip
    assert len(parts(bare(facts()), Picture)) == 1


def test_the_commands_are_given_exactly(told):
    assert parts(told, Commands) == [Commands(COMMANDS)]


def test_the_table_holds_estimates_and_intervals(given, told):
    table = parts(told, TableBlock)[0]
    assert [row[0] for row in table.rows] == list(NAMES)
    found = given.result
    for row, v, e in zip(table.rows, found.estimate, found.standard_error, strict=True):
        low, high = (float(x) for x in row[3].replace("−", "-").split(" to "))
        exact = scipy.stats.norm.interval(0.95, v, e)
        # Two digits of the error: each end is off by at most half a unit of its second digit.
        np.testing.assert_allclose((low, high), exact, atol=0.05 * e)


def test_an_unbiased_guess_is_bounded_by_the_level(told):
    assert f"1/√s = {1 / np.sqrt(LEVEL):g}," in words(told, "What is promised")


@pytest.mark.parametrize(("level", "variance"), [(4.0, 0.2), (0.3, 7.0), (50.0, 1e-3)])
def test_an_informed_guess_is_that_of_the_joint_gaussian_law(given, level, variance):
    """cov(y, z) by hand: σ² − σ⁴/(σ² + 1/s); the page must not claim more than that."""
    table = parts(bare(given, level=level, noise_variance=variance), TableBlock)[1]
    alone, informed = (float(row[2].removeprefix("± ")) for row in table.rows)
    exact = np.sqrt(variance - variance**2 / (variance + 1 / level))
    assert exact * 0.99 < informed <= exact * (1 + 1e-11)
    assert alone * 0.99 < 1 / np.sqrt(level)
    assert alone <= 1 / np.sqrt(level) * (1 + 1e-11)


def test_so_many_rows_would_do_without_privacy(given):
    """Noise as large as the measurement's own halves what rows tell: a design repeated."""
    base = np.array([[1.0, 0.3], [1.0, -2.0], [1.0, 0.9], [1.0, 1.4]])
    model = pv.LinearModel(np.tile(base, (100, 1)), noise=pv.noise.Gaussian(cov=VARIANCE))
    half = pv.LinearModel(np.tile(base, (50, 1)), noise=pv.noise.Gaussian(cov=VARIANCE))
    found = pv.bound(model, pv.PrivacyLevel(1 / VARIANCE))
    fewer = pv.bound(half, pv.PrivacyLevel(1.0)).classical
    np.testing.assert_allclose(found.ppcrlb, fewer, rtol=1e-9)
    result = Result(estimate=np.zeros(2), covariance=found.ppcrlb, classical=found.classical)
    changed = {"result": result, "rows": 400, "level": 1 / VARIANCE}
    text = words(bare(given, **changed), "What privacy cost")
    assert "400 rows with privacy tell about as much as 200 such rows" in text
    assert "1.41 times" in text


@pytest.mark.parametrize("epsilon", [0.1, 1.2, 11.0, 900.0])
def test_differential_privacy_is_never_overstated(given, epsilon):
    text = words(bare(given, epsilon=epsilon), "What is promised")
    stated = float(re.search(r"ε = ([\d.]+)", text)[1])
    assert epsilon <= stated <= 1.01 * epsilon
    factor = re.search(r"at most ([\d.,]+|a 1 with [\d,]+ zeros) \(", text)[1]
    if factor.startswith("a 1"):
        logarithm = int(factor.split()[3].replace(",", "")) * np.log(10)
        assert epsilon <= logarithm <= epsilon + np.log(10)
    else:
        ratio = float(factor.replace(",", "")) / np.exp(epsilon)
        assert 1 - 1e-11 <= ratio <= 1.01
    assert "exact Gaussian noise" in text
    assert "differential" not in words(bare(given, epsilon=None, delta=None, move=None))


def test_simulated_noise_is_called_what_it_is(given, told):
    warnings = [note.text for note in parts(told, Note) if note.kind == "warning"]
    assert len(warnings) == 2
    assert all("simulated" in text and "no protection" in text.lower() for text in warnings)
    assert not parts(bare(given, simulated=False), Note)
    assert "cannot see how it was drawn" in words(bare(given, simulated=False))


def test_the_limits_of_the_promise_are_named(told):
    text = words(told, "What is not promised")
    for phrase in (
        "features and the noise variance are public inputs",
        "right on average",
        "narrow range",
        "adds up",
        "if the model is right",
    ):
        assert phrase in text


def test_weak_and_strong_levels_are_told_apart(given):
    assert "says less about one" in words(bare(given, level=0.1))
    assert "can say more about one" in words(bare(given, level=100.0))


def test_no_reading_and_no_secret_estimate_is_shown():
    """The words depend on nothing but the arguments: there is no way for a reading to get in."""
    names = {field.name for kind in (Facts, Result) for field in fields(kind)}
    assert names.isdisjoint({"y", "readings", "data", "table", "classical_estimate"})


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"epsilon": None}, "belong together"),
        ({"level": 0.0}, "level must be > 0"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"rows": 0}, "rows"),
        ({"commands": ()}, "commands"),
    ],
)
def test_wrong_arguments_are_refused(given, changed, match):
    with pytest.raises(InvalidInput, match=match):
        bare(given, **changed)


def test_a_report_needs_the_errors_without_privacy(given):
    with pytest.raises(InvalidInput, match="without privacy"):
        bare(given, result=replace(given.result, classical=None))
