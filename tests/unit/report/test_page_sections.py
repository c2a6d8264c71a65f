"""The words of the report: true numbers, both sides of the promise, nothing left out."""

import re
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.report._facts import Facts, Outcome
from privest.report._page import Commands, Note, Picture, TableBlock
from privest.report._page_sections import story
from report_sample import COMMANDS, LEVEL, NAMES, VARIANCE, changed, facts


@pytest.fixture(scope="module")
def given():
    return facts()


@pytest.fixture(scope="module")
def told(given):
    return story(given)


def bare(given, **new):
    """Without pictures that take time."""
    return story(changed(given, **({"curve": None, "pair": None, "trail": None} | new)))


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
        "What was found", "What it cost", "What one person is exposed to",
        "Where the numbers come from", "Two coefficients together", "How the estimates settled",
        "What is not promised", "Which release this is, and how to repeat it",
    ]  # fmt: skip
    assert len(parts(bare(facts()), Picture)) == 1


def test_the_commands_are_given_exactly(told):
    assert parts(told, Commands) == [Commands(COMMANDS)]


def number(text):
    return float(text.replace("−", "-").replace(",", "").replace(" %", ""))


def test_the_table_holds_estimates_and_intervals(given, told):
    table = parts(told, TableBlock)[0]
    assert [row[0] for row in table.rows] == list(NAMES)
    found = given.outcomes[0].result
    for row, v, e in zip(table.rows, found.estimate, found.standard_error, strict=True):
        ends = [number(x) for x in row[2].split(" to ")]
        # Two digits of the error: each end is off by at most half a unit of its second digit.
        np.testing.assert_allclose(ends, scipy.stats.norm.interval(0.95, v, e), atol=0.05 * e)
        assert number(row[1]) == pytest.approx(v, abs=0.05 * e)


def test_sentence_table_and_figure_agree_to_the_digit_shown(told):
    table, picture = parts(told, TableBlock)[0], parts(told, Picture)[0]
    sentence = told[0].parts[0]
    for row, axes in zip(table.rows, picture.figure.axes, strict=True):
        assert axes.get_title(loc="right") == f"{row[1]}  ({row[2]})"
        assert f"{row[0]} {row[1]}, {row[2]}" in picture.alt
    strongest = next(row for row in table.rows if f"of {row[0]}," in sentence)
    assert f"by {strongest[1].removeprefix('−')} (95 % interval {strongest[2]})" in sentence


def two(estimate, error=0.1, names=("intercept", "age", "sex=male"), **more):
    size = np.full(len(names), error)
    return Result(estimate=np.array(estimate), covariance=np.diag(size**2), names=names, **more)


@pytest.mark.parametrize(
    ("estimate", "own", "words"),
    [
        (
            [1.0, 0.5, 0.1],
            {},
            "“ldl” is higher by 0.50 (95 % interval 0.30 to 0.70) for each unit more of age, other "
            "features equal; which way it goes with sex=male is left open.",
        ),
        (
            [1.0, 0.5, -0.9],
            {},
            "“ldl” is lower by 0.90 (95 % interval −1.10 to −0.70) where sex is male than at the "
            "baseline, other features equal; clear too: age (higher).",
        ),
        ([1.0, 0.05, 0.1], {}, "No effect on “ldl” was found that can be told from none"),
        (
            [1.0, 0.5, 0.0],
            {"transform": "log"},
            # 100(e^0.5 − 1) = 64.9, ends e^{0.5 ± 0.196}
            "“ldl” is 65 % higher (95 % interval 36 to 101 %) for each unit more of age",
        ),
        ([1.0, -0.5, 0.0], {"family": "binomial"}, "The odds of “ldl” are 39.3 % lower"),
        ([1.0, -0.5, 0.0], {"family": "poisson"}, "The expected number of “ldl” is 39.3 % lower"),
    ],
)
def test_what_was_found_comes_first_in_one_sentence(given, estimate, own, words):
    told = bare(given, result=two(estimate), response="ldl", **own)
    assert told[0].heading == "What was found"
    assert words in told[0].parts[0]
    assert told[0].parts[0].count(".") - told[0].parts[0].count(" 0.") < 8  # one sentence


def test_a_plain_mean_is_a_finding_too(given):
    told = bare(given, result=two([4.6], names=("intercept",)), response="ldl")
    assert told[0].parts[0] == "The mean of “ldl” is 4.60 (95 % interval 4.40 to 4.80)."


def test_one_person_is_exposed_to_what_an_attacker_can_do(told):
    text = words(told, "What one person is exposed to")
    assert "privacy level s = 4 (larger shows more)" in text
    assert f"± {1 / np.sqrt(LEVEL):g} at best" in text
    assert "picks the right one in at most 67.3 % of cases" in text  # Φ(σ√s/2), σ² = 0.2


@pytest.mark.parametrize(("level", "variance"), [(4.0, 0.2), (0.3, 7.0), (50.0, 1e-3)])
def test_an_informed_guess_is_that_of_the_joint_gaussian_law(given, level, variance):
    """cov(y, z) by hand: σ² − σ⁴/(σ² + 1/s); the page must not claim more than that."""
    told = bare(given, level=level, noise_variance=variance)
    text = words(told, "What one person is exposed to")
    alone = float(re.search(r"tell it to ± ([\d.]+)", text)[1])
    informed = float(re.search(r"and to ± ([\d.]+) with it", text)[1])
    exact = np.sqrt(variance - variance**2 / (variance + 1 / level))
    assert exact * 0.99 < informed <= exact * (1 + 1e-11)
    assert alone * 0.99 < 1 / np.sqrt(level)
    assert alone <= 1 / np.sqrt(level) * (1 + 1e-11)


@pytest.mark.parametrize(
    ("own", "words_"),
    [
        ({}, "as the data holder stated it"),
        ({"found_variance": "It is 0.2."}, "private readings. It is 0.2."),
        ({"reference_rows": 40}, "from a public reference set of 40 rows"),
        ({"noise_variance": None}, "taken from the release itself"),
        ({"noise_variance": None, "found_variance": "It is 0.2."}, "no privacy. It is 0.2."),
    ],
)
def test_where_the_noise_variance_is_from(given, own, words_):
    assert words_ in words(bare(given, **own), "Where the numbers come from")


def test_degrees_of_freedom_are_not_rounded_to_the_number_of_rows(given):
    result = replace(given.outcomes[0].result, method="HC3", degrees_of_freedom=2535.0)
    text = words(bare(given, result=result), "Where the numbers come from")
    assert "Standard errors: HC3, 2,535 degrees of freedom: right also" in text


def test_rows_left_out_misfit_and_method_are_told(given):
    result = replace(given.outcomes[0].result, method="HC3")
    told = bare(given, dropped=7, doubts=("The release scatters 9 times as much.",), result=result)
    text = words(told, "Where the numbers come from")
    assert "7 rows left out because a reading or a feature was missing" in text
    assert "Standard errors: HC3: right also where some rows scatter more than others." in text
    assert "scatters 9 times" in text
    assert "scatters 9 times" in words(told, "What was found")  # where nobody misses it
    assert "No warning came up" not in text


def test_the_release_is_named(told):
    table = parts(told, TableBlock)[-1]
    said = dict(table.rows)
    assert said["table"] == "release.csv"
    assert said["checksum of the header (SHA-256)"] == "a1" * 32
    assert said["made with"] == "privest 0.0"
    assert said["page of"] == "1 April 2026"


def test_errors_without_privacy_need_not_be_known(given):
    for classical in (None, np.zeros((5, 5))):
        told = bare(given, result=replace(given.outcomes[0].result, classical=classical))
        assert "the release does not tell" in words(told, "What it cost")
        assert "no privacy" not in " ".join(parts(told, TableBlock)[0].header)
        assert "without privacy" not in words(told, "What was found")


def test_what_the_noise_adds_is_told_where_nothing_else_is_known(given):
    result = given.outcomes[0].result
    floor = result.standard_error * np.sqrt([0.2, 0.3, 0.5, 0.4, 0.2])
    told = bare(given, result=replace(result, classical=None, floor=floor), persons=40)
    assert "It makes 20 to 50 % of the variance" in words(told, "What it cost")
    assert "442 rows of 40 people that" in words(told, "What was found")
    hidden = replace(result, classical=None, floor=result.standard_error)
    assert "It hides how" in words(bare(given, result=hidden), "What it cost")


def test_an_error_that_privacy_does_not_change_is_not_called_one_times(given):
    result = given.outcomes[0].result
    told = bare(given, result=replace(result, classical=result.covariance * 0.9999))
    assert "practically those without" in words(told, "What it cost")
    assert not re.search(r"\b1 times", words(told))


def test_every_column_is_told(given):
    first = given.outcomes[0]
    other = replace(first, response="hdl", informed=0.123)
    told = story(replace(given, outcomes=(first, other), curve=None, pair=None, trail=None))
    assert [one.heading for one in told][:2] == [
        "What was found: log triglycerides", "What was found: hdl",
    ]  # fmt: skip
    text = words(told, "What one person is exposed to")
    assert "“hdl”: privacy level s = 4." in text
    assert "sees all of them, knows it to ± 0.123" in text


def test_so_many_rows_would_do_without_privacy(given):
    """Noise as large as the measurement's own halves what rows tell: a design repeated."""
    base = np.array([[1.0, 0.3], [1.0, -2.0], [1.0, 0.9], [1.0, 1.4]])
    model = pv.LinearModel(np.tile(base, (100, 1)), noise=pv.noise.Gaussian(cov=VARIANCE))
    half = pv.LinearModel(np.tile(base, (50, 1)), noise=pv.noise.Gaussian(cov=VARIANCE))
    found = pv.bound(model, pv.PrivacyLevel(1 / VARIANCE))
    fewer = pv.bound(half, pv.PrivacyLevel(1.0)).classical
    np.testing.assert_allclose(found.ppcrlb, fewer, rtol=1e-9)
    result = Result(estimate=np.zeros(2), covariance=found.ppcrlb, classical=found.classical)
    new = {"result": result, "rows": 400, "level": 1 / VARIANCE}
    text = words(bare(given, **new), "What it cost")
    assert "400 rows with privacy tell about as much as 200 such rows" in text
    assert "1.41 times" in text


@pytest.mark.parametrize("epsilon", [0.1, 1.2, 11.0, 900.0])
def test_differential_privacy_is_never_overstated(given, epsilon):
    text = words(bare(given, epsilon=epsilon), "What one person is exposed to")
    stated = float(re.search(r"ε = ([\d.]+)", text)[1])
    assert epsilon <= stated <= 1.01 * epsilon
    factor = re.search(r"at most ([\d.,]+|a 1 with [\d,]+ zeros) \(", text)[1]
    if factor.startswith("a 1"):
        logarithm = int(factor.split()[3].replace(",", "")) * np.log(10)
        assert epsilon <= logarithm <= epsilon + np.log(10)
    else:
        ratio = float(factor.replace(",", "")) / np.exp(epsilon)
        assert 1 - 1e-11 <= ratio <= 1.01
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
        "features and a stated noise variance are public inputs",
        "does not make anybody forget",
        "narrow range",
        "adds up",
        "if the model is right",
    ):
        assert phrase in text


def test_no_reading_and_no_secret_estimate_is_shown():
    """The words depend on nothing but the arguments: there is no way for a reading to get in."""
    names = {field.name for kind in (Facts, Outcome, Result) for field in fields(kind)}
    assert names.isdisjoint({"y", "readings", "data", "table", "classical_estimate"})


@pytest.mark.parametrize(
    ("new", "match"),
    [
        ({"epsilon": None}, "belong together"),
        ({"level": 0.0}, "level must be > 0"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"rows": 0}, "rows"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_wrong_arguments_are_refused(given, new, match):
    with pytest.raises(InvalidInput, match=match):
        bare(given, **new)


def test_what_is_not_known_of_a_release_is_not_told(given):
    """For a page about a release that is there already: nobody knows by which commands."""
    last = bare(given, commands=())[-1]
    assert last.heading == "Which release this is"
    assert not parts([last], Commands)
    only = bare(given, provenance=None)[-1]
    assert only.heading == "How to repeat it"
    assert bare(given, commands=(), provenance=None)[-1].heading == "What is not promised"


@pytest.mark.parametrize(
    ("confidence", "said", "many"),
    [(0.8, "80 % interval", "80 of 100"), (0.999, "99.9 % interval", "999 of 1,000")],
)
def test_another_confidence_is_meant_everywhere(given, confidence, said, many):
    sections = bare(given, confidence=confidence)
    found, (table,) = sections[0], parts(sections, TableBlock)[:1]
    assert said in words([found])
    assert many in words([found])
    assert table.header[2] == said
    (picture,) = parts([found], Picture)
    assert said in picture.caption
    assert said in picture.alt
    assert picture.figure.legends[0].get_texts()[0].get_text() == f"{said}, with privacy"
    assert "95" not in words([found]) + picture.caption
    low, high = given.outcomes[0].result.interval(confidence)[1]
    cell = table.rows[1][2].replace("−", "-").split()
    assert float(cell[0]) == pytest.approx(low, abs=2e-4)
    assert float(cell[-1]) == pytest.approx(high, abs=2e-4)
