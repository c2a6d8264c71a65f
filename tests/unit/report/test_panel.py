"""The exposure panel: the examples of exposure.md, and which sentences each case has."""

import math

import pytest

from privest.privacy import exposures, gdp
from privest.report.exposure import Private, exposure

S5 = {"target": "s5", "level": 4.0, "ends": (2.0, 7.0), "width": 5.0}


def panel(*columns, epsilon=None, delta=1e-6, **how):
    return exposure(columns, epsilon, delta, **how)


def texts(section):
    return " ".join(part.text for part in section.parts if hasattr(part, "text"))


def keys(section):
    return [part.key for part in section.parts if hasattr(part, "key")]


def test_s5_with_a_known_residual_variance():
    one = Private(**S5, sd=0.2**0.5, leverage=0.005)
    found = panel(one, epsilon=gdp.epsilon_of(10.0, 1e-6))
    text = texts(found)
    assert "“s5” with sd 0.334; without that person's row, with sd 0.45." in text
    assert "Half of the guesses miss by less than 0.226." in text
    assert "(0.632), an attacker is right at most 73.7% (guessing: 50%)." in text
    assert "(2, 7), equally likely, an attacker is right almost always." in text
    assert "ε = 96.8 at δ = 1e-6, very large. ε alone promises almost nothing" in text
    details = " ".join(part.text for part in found.details)
    assert "prior probability 10%, the attacker is right 90.6% (always the lower: 90%)" in details
    assert "sd at least 0.5 (Fisher bound)" in details


def test_s5_without_one():
    text = texts(panel(Private(**S5), epsilon=96.8))
    assert "vary with sd 0.25, 0.5 or 1 around the prediction" in text
    assert "a reader guesses with sd 0.223, 0.353 or 0.447." in text
    assert "an attacker is right at most 63.9%, 76.1% or 92.2%" in text


def test_income_under_laplace_noise():
    one = Private(
        target="income", level=(1 / 200_000) ** 2, distribution="laplace", ends=(0.0, 200_000.0),
        width=200_000.0, sd=40_000.0,
    )  # fmt: skip
    text = texts(panel(one, epsilon=1.0, delta=0.0))
    assert "with sd 39,300; without that person's row, with sd 40,000" in text  # 39,352, down
    assert "at most 56.6%" in text
    assert "(0, 200,000), equally likely, an attacker is right at most 69.7%" in text
    assert "ε = 1 at δ = 0, small. A 10% suspicion becomes at most 23.2%." in text
    assert exposures.laplace_chance(1.0, 0.3) == pytest.approx(0.723, abs=1e-3)


def test_yes_or_no():
    level = 4 * math.sinh(0.5) ** 2
    one = Private(
        target="smokes", level=level, distribution="randomised response", width=1.0, share=0.3
    )
    text = texts(panel(one, epsilon=1.0, delta=0.0))
    assert "'yes' with 30% before, 53.8% after a released yes, 13.6% after a released no" in text
    assert "right at most 73.2% (always the likelier answer: 70%)" in text
    rare = Private(
        target="smokes", level=level, distribution="randomised response", width=1.0, share=0.1
    )
    assert "right at most 90% (always the likelier answer: 90%)" in texts(panel(rare, epsilon=1.0))


def test_triglycerides_as_logarithms():
    one = Private(
        target="tg", level=4.0, logarithm=True, ends=(20.0, 1000.0), width=math.log(50),
        sd=0.2**0.5,
    )  # fmt: skip
    text = texts(panel(one, epsilon=gdp.epsilon_of(2 * math.log(50), 1e-6)))
    assert "within a factor of 1.25; without that person's row, 1.35" in text
    assert "(a factor of 1.88), an attacker is right at most 73.7%" in text
    assert "ε = 67.1 at δ = 1e-6" in text


def test_without_a_range_epsilon_is_unlimited_and_a_stated_difference_comes_after():
    one = Private(target="ldl", level=4.0, sd=0.5)
    found = panel(one, unenforced=(0.5, 4.89))
    assert keys(found)[-3:] == ["no_range", "unenforced", "not_hidden"]
    ranged = panel(Private(**S5, sd=0.5), epsilon=96.8, unenforced=(0.5, 4.89))
    assert "unenforced" not in keys(ranged)
    assert ranged.details[-1].key == "unenforced"


def test_neither_range_nor_variance():
    found = panel(Private(target="ldl", level=4.0))
    assert keys(found) == ["guess_unknown", "no_range", "not_hidden"]
    assert "An unbiased guess has sd at least 0.5." in texts(found)


def test_no_distance_and_no_prior_depends_on_the_level():
    """Issue 28: 69.2, 97.8 and 75% at every level are gone."""
    for one in (Private(**S5), Private(**S5, sd=0.5)):
        stated = []
        for level in (0.01, 1.0, 100.0):
            known = Private(**{**one.__dict__, "level": level})
            said = {part.key: part.values for part in panel(known, epsilon=9.0).parts[:-1]}
            stated.append((said.get("pair") or said["pair_fractions"])["apart"])
        assert stated[0] == stated[1] == stated[2]


def test_an_estimate_of_zero_is_an_upper_limit():
    found = panel(Private(**S5, sd=0.3, source="estimated", limit=True), epsilon=96.8)
    assert "with sd below" in texts(found)


@pytest.mark.parametrize(
    ("epsilon", "word"), [(0.5, "small"), (2.0, "moderate"), (5.0, "large"), (11.0, "very large")]
)
def test_the_bands(epsilon, word):
    assert f"ε = {epsilon:g} at δ = 1e-6, {word}." in texts(panel(Private(**S5), epsilon=epsilon))
