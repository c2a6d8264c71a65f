"""What one person is exposed to, in words: true numbers, to the safe side, in the right units."""

import math
import re

import pytest

from privest.privacy import attacker
from privest.report import Exposed, exposure, level_words, often


def said(**given):
    return " ".join(exposure(Exposed(**given)))


def numbers(text):
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*\.?\d*", text)]


@pytest.mark.parametrize(
    ("s", "sigma", "c"), [(4.0, 0.447, 0.5), (0.03, 7.0, 20.0), (90, 0.1, 0.1)]
)
def test_every_number_is_that_of_the_formula_and_promises_no_more(s, sigma, c):
    alone, two, informed = exposure(Exposed(level=s, spread=sigma, apart=c))
    assert numbers(alone)[0] == pytest.approx(attacker.reading_error(s), rel=0.01)
    assert numbers(alone)[0] <= attacker.reading_error(s) * (1 + 1e-11)
    chance = 100 * attacker.chance_between(s, c)
    # Rounded up to three digits, and μ to a step of the grid: 100·φ(0)/2·2⁻¹⁰ < 0.02 more.
    assert chance - 1e-9 <= numbers(two)[1] <= chance + 0.12
    before, after, side = numbers(informed)
    assert before == pytest.approx(sigma, rel=0.01)
    assert after <= attacker.informed_error(s, sigma) * (1 + 1e-11)
    assert side == pytest.approx(100 * attacker.chance_of_side(s, sigma), abs=0.1)


def test_after_a_logarithm_differences_are_factors():
    """`real-tables.md` 5: at s = 4 a reading is known to ×/÷ 1.65 (rounded down: 1.64)."""
    text = said(level=4.0, spread=0.5, apart=math.log(2), transform="log")
    assert "can tell it to a factor of 1.64 at best" in text
    assert "two values that differ by a factor of 2 an attacker" in text
    assert "±" not in text


def test_where_nobody_says_what_matters_people_are_the_measure():
    assert "as far apart as people with the same features typically are (0.5)" in said(
        level=4.0, spread=0.5
    )
    text = said(level=4.0)
    assert "0.5 apart" in text
    assert "2 apart" in text
    assert "knows it to ± 0.353 afterwards" in text  # ± 0.5 before: 0.5/√2


def test_other_noise_has_its_own_chances():
    assert "at most 73.2 % of cases" in said(level=1.1, law="coin", epsilon=1.0)
    assert "at most 69.7 % of cases" in said(level=1.0, apart=1.0, law="laplace")


def test_no_jargon():
    for law in ("gaussian", "laplace", "coin"):
        text = said(level=2.0, spread=1.0, apart=1.0, law=law, epsilon=1.0)
        assert not re.search(r"unbiased|adversar|\bmoves?\b|Fisher|\b1 times", text)
    assert level_words(4.0) == "privacy level s = 4 (larger shows more)"
    assert often(0.9999) == "practically all cases"
