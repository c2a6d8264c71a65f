"""The rules of style.md over every sentence there is, and one style for every number."""

import re
import string

import pytest

from privest.report import numbers
from privest.report.sections import Sentence
from privest.report.words import WORDS

OPENERS = ("Of ", "Who ", "What is ", "What was ", "That it ", "Whoever ", "To whom ", "Whose ")
FORBIDDEN = (
    "reading", "readings", "coin", "holder", "trial", "trials", "law", "whoever", "nobody",
    "remember", "burnt", "never", "at best", "so many", "so much", "whatever else",
    "right on average", "shows more", "tells more", "give away", "--",
)  # fmt: skip


@pytest.mark.parametrize("key", WORDS)
def test_a_sentence_is_short_and_plain(key):
    text = re.sub(r"\{[^}]*\}", "X", WORDS[key])
    assert not text.startswith(OPENERS)
    for one in re.split(r"(?<=[.!?])\s+", text):
        assert len(one.split()) <= 25, one
        assert len(re.findall(r"[:;]", one)) <= 2, one
    plain = f" {text.lower()} "
    for word in FORBIDDEN:
        assert not re.search(rf"(?<![\w-]){re.escape(word)}(?!\w)", plain), word
    assert " %" not in text


def test_every_kind_of_number_is_known():
    kinds = set(numbers.KINDS) | {"and", "or"}
    for key, template in WORDS.items():
        for _, name, kind, _ in string.Formatter().parse(template):
            assert name is None or kind in kinds, key


def test_plus_or_minus_stands_with_its_confidence_only():
    """± is made by the kind `half` alone, and tables that use it have a column of 95%."""
    assert not [key for key, template in WORDS.items() if "±" in template]
    assert [kind for kind, make in numbers.KINDS.items() if "±" in _any(make)] == ["half"]
    assert "95%" in WORDS["half"]


def _any(make):
    for value in (0.3, (0.2, 0.4)):
        try:
            return make(value)
        except TypeError:
            continue
    raise AssertionError


def test_an_interval_has_one_style():
    templates = [text for text in WORDS.values() if "interval" in text and "{" in text]
    assert templates
    for text in templates:
        assert "…" not in text
        assert "±" not in text
    assert numbers.interval((-1.0, 2.0)) == "−1.00 to 2.00"


def test_the_panel_is_that_of_exposure_md():
    said = {
        "pair": "Between two equally likely values, as far apart as people with equal features "
        "typically are (X), an attacker is right X (guessing: 50%).",
        "ends": "Between the two ends of the range (X, X), equally likely, an attacker is right X.",
        "no_range": "No range is enforced: ε is unlimited, and values far apart are told apart "
        "almost surely.",
        "epsilon": "Differential privacy, X: ε = X at δ = X, X.",
        "band_very_large": "ε alone promises almost nothing; only the attack rates say what is "
        "hidden.",
        "band_large": "ε alone permits near-certainty; judge by the attack rates.",
        "not_hidden": "Not hidden: who is in the table, features, numbers of rows, missing values, "
        "group means, and what relatives' values reveal.",
        "guess": "An ordinary reader guesses one person's X with sd X; without that person's row, "
        "with sd X. Half of the guesses miss by less than X.",
        "missing_public": "Rows without a value, the private one included, are left out: which "
        "they are becomes public.",
    }  # fmt: skip
    for key, text in said.items():
        assert re.sub(r"\{[^}]*\}", "X", WORDS[key]) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("down", 0.33399, "0.333"), ("up", 96.7172, "96.8"), ("most", 0.73657, "73.7%"),
        ("se", 0.94671, "0.947"), ("half", 1.0, "± 1.96"), ("percent", 0.625, "62.5%"),
        ("epsilon", 0.9999998, "1"), ("count", 1234567, "1,234,567"), ("rows", 1, "1 row"),
        ("interval", (-2.6134, 1.4189, 0.91), "−2.61 to 1.42"), ("end", 200000.0, "200,000"),
        ("level", 1e-12, "1e−12"), ("up", float("inf"), "unlimited"), ("p", 1e-30, "p < 0.0001"),
        ("value", (1e-9, 2e-10), "1.00e−9"), ("value", (0.0, 0.3), "0.00"),
        ("se", float("nan"), "unknown"),
    ],
)  # fmt: skip
def test_a_number_of_a_kind(kind, value, text):
    assert numbers.KINDS[kind](value) == text


def test_rounding_is_to_the_safe_side():
    for k in range(1, 2000):
        x = k / 977
        assert float(numbers.down(x).replace(",", "")) <= x <= float(numbers.up(x))


def test_a_name_with_braces_is_only_a_name():
    assert Sentence("quoted", {"text": "{rows:rows} {0}"}).text == "{rows:rows} {0}"


SHOWN = [
    (lambda: numbers.near(2000.4), "2,000"),
    (lambda: numbers.near(0.33333), "0.333"),
    (lambda: numbers.near(1.5), "1.5"),
    (lambda: numbers.near(3.2e-09), "3.2e−9"),
    (lambda: numbers.down(2 / 3), "0.666"),
    (lambda: numbers.down(0.5), "0.5"),
    (lambda: numbers.up(2 / 3), "0.667"),
    (lambda: numbers.up(96.71), "96.8"),
    (lambda: numbers.up(0.5), "0.5"),
    (lambda: numbers.value((3.14159, 0.026)), "3.142"),
    (lambda: numbers.value((-1234.5, 170.0)), "−1,230"),
    (lambda: numbers.value((-0.0028, 0.26)), "−0.003"),
    (lambda: numbers.interval((-2.6134, 1.4189)), "−2.6 to 1.4"),
    (lambda: numbers.interval((-2.6134, 1.4189, 0.91)), "−2.61 to 1.42"),
    (lambda: numbers.half(1.0), "± 1.96"),
    (lambda: numbers.percent(0.65123), "65.1%"),
    (lambda: numbers.percent(0.95), "95%"),
    (lambda: numbers.percent(0.999), "99.9%"),
    (lambda: numbers.change(0.0287), "+2.87%"),
    (lambda: numbers.change(-0.018), "−1.8%"),
    (lambda: numbers.most(0.73657), "73.7%"),
    (lambda: numbers.clipped(0.0123), "1.2%"),
    (lambda: numbers.clipped(1e-09), "less than 0.001%"),
    (lambda: numbers.clipped(0.0), "0%"),
    (lambda: numbers.level(4.0), "4"),
    (lambda: numbers.level(1200.0), "1,200"),
    (lambda: numbers.level(0.123456), "0.1235"),
    (lambda: numbers.end(-4.0), "−4"),
    (lambda: numbers.end(200000.0), "200,000"),
    (lambda: numbers.end(0.0001), "0.0001"),
    (lambda: numbers.delta(1e-06), "1e-6"),
    (lambda: numbers.delta(0.0), "0"),
    (lambda: numbers.chance(0.03456), "p = 0.035"),
    (lambda: numbers.chance(1e-09), "p < 0.0001"),
    (lambda: numbers.freedom((2535.0, 2535.0)), "2,535"),
    (lambda: numbers.freedom((11.94, 38.2)), "11.9 to 38.2"),
    (
        lambda: numbers.said(
            "{rows:rows} at {s:level}; sd {sd:down}", {"rows": 1, "s": 4.0, "sd": [1 / 3, 2.0]}
        ),
        "1 row at 4; sd 0.333 or 2",
    ),
]


@pytest.mark.parametrize(("call", "text"), SHOWN, ids=[text for _, text in SHOWN])
def test_how_numbers_are_rounded(call, text):
    assert call() == text


def test_a_template_with_its_numbers():
    values = {"rows": 1, "s": 4.0, "sd": [1 / 3, 2.0]}
    said = numbers.said("{rows:rows} at {s:level}; sd {sd:down}", values)
    assert said == "1 row at 4; sd 0.333 or 2"
