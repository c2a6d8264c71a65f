"""What was typed comes back as it was typed."""

import re
from html import unescape

import pytest
from starlette.datastructures import FormData

from app_client import Client
from privest.app.pages import Form
from privest.errors import InvalidInput


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def test_lines_of_a_field_are_lines_however_often_they_are_sent(client):
    """Browsers end a line of a field with \\r\\n: shown again, it must not grow."""
    work = client.work_of(client.post("/begin", {"example": "yes"}))
    typed = {"role-1": "public", "use-1": "list", "list-1": "0\r\n1"}
    for _ in range(2):
        answer = client.post(f"/work/{work.id}/data", typed)
        assert answer.status_code == 422  # no column is private
        shown = re.search(r'name="list-1"[^>]*>\n(.*?)</textarea>', answer.text, re.DOTALL)
        assert unescape(shown[1]) == "0\n1"
        typed["list-1"] = shown[1].replace("\n", "\r\n")


@pytest.mark.parametrize("typed", ["1,000", "12,500", "-123,456", "+1,000", "1,234.5"])
def test_a_comma_that_may_be_between_thousands_is_not_guessed_of_an_epsilon(typed):
    """1,000 is a thousand to some and one to others: an ε of which?"""
    form = Form(FormData([("epsilon", typed)]))
    with pytest.raises(InvalidInput, match="in two ways"):
        form.optional_number("epsilon", grouped=False)
    assert form.number("epsilon") == float(typed.replace(",", ""))  # where the page shows it


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("0,125", 0.125), ("-0,125", -0.125), ("1,5", 1.5), ("1,0000", 1.0), ("1234,567", 1234.567),
     (",125", 0.125), ("2,5e-7", 2.5e-7), ("1000", 1000.0), ("1.000", 1.0), ("200,000", 2e5),
     ("1,200,000.5", 1200000.5), ("200 000", 2e5)],
)  # fmt: skip
def test_a_comma_is_a_decimal_one_or_between_thousands(typed, meant):
    assert Form(FormData([("high", typed)])).number("high") == meant


@pytest.mark.parametrize("typed", ["1_000", "0_1,5", "1,00,000", "1'000", "inf", "nan", "1,2,3"])
def test_what_is_no_number(typed):
    with pytest.raises(InvalidInput, match="must be a number"):
        Form(FormData([("high", typed)])).optional_number("high")
