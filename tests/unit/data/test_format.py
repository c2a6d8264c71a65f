"""How a file is read, as stated: what is accepted, what is refused, and in which words."""

import numpy as np
import pytest

from privest.data import Format
from privest.data.format import as_format
from privest.errors import InvalidInput


def test_words_and_aliases_are_brought_to_one_spelling():
    found = Format(separator="TAB", decimal="comma", encoding="Windows-1252")
    assert (found.separator, found.decimal, found.encoding) == ("\t", ",", "cp1252")
    assert Format(encoding="utf-8-sig").encoding == "utf-8"
    assert Format(encoding="latin-1") == Format(encoding="ISO-8859-1")


def test_codes_are_of_every_column_or_of_one():
    found = Format(missing_codes=[77777, "a=b=9", "REFUSED", "bmi=99.9", "NA", "77777"])
    assert found.missing_codes == ("77777", "a=b=9", "REFUSED", "bmi=99.9")
    assert found.codes("age") == ("77777", "REFUSED")
    assert found.codes("a=b") == ("77777", "9", "REFUSED")
    assert found.coded_columns == ("a=b", "bmi")
    assert np.array_equal(found.code_numbers("bmi"), [77777, 99.9])


def test_a_number_has_the_decimal_mark_of_the_file():
    comma = Format(decimal=",", separator=";", missing_codes=["9,5", "1.5"])
    assert np.array_equal(comma.code_numbers("x"), [9.5])
    assert np.isnan(comma.as_number("1.000,5"))


def test_it_goes_to_plain_values_and_back():
    found = Format(";", ",", "cp1252", ("7", "x=8"), "Tabelle 1")
    assert as_format(found.to_dict()) == found
    assert as_format(None) == Format() == as_format({})
    assert as_format(found) is found


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"separator": " "}, "separator is one of comma, semicolon, tab"),
        ({"separator": ""}, "separator is one of comma, semicolon, tab"),
        ({"separator": 1}, "must be a text"),
        ({"decimal": "'"}, "decimal is one of point, comma"),
        ({"decimal": ",", "separator": ","}, "state the `separator`"),
        ({"encoding": "utf-7"}, "no encoding known here"),
        ({"encoding": "unicode_escape"}, "no encoding known here"),
        ({"encoding": "zip\0"}, "no encoding known here"),
        ({"missing_codes": "77777"}, "is a list"),
        ({"missing_codes": [True]}, "is a list of numbers, words"),
        ({"missing_codes": ["bmi="]}, "has no code"),
        ({"missing_codes": ["=5"]}, "has no name"),
        ({"sheet": " "}, "not empty"),
        ({"sheets": "a"}, "Names are separator"),
        ("a", "names with values"),
    ],
)
def test_what_is_refused(bad, said):
    with pytest.raises(InvalidInput, match=said.replace("|", r"\|")):
        as_format(bad)
