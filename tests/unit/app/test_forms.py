"""What was typed comes back as it was typed."""

import re
from html import unescape

import pytest
from starlette.datastructures import FormData

from app_client import HOST, Client
from privest.app._pages import Form
from privest.errors import InvalidInput


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def test_lines_of_a_field_are_lines_however_often_they_are_sent(client):
    """Browsers end a line of a field with \\r\\n: shown again, it must not grow."""
    work = client.desk.begin()
    client.post(f"/work/{work.id}/data/example")
    typed = {"role-1": "public", "use-1": "list", "list-1": "0\r\n1"}
    for _ in range(2):
        answer = client.post(f"/work/{work.id}/data", typed)
        assert answer.status_code == 422  # no column is private
        shown = re.search(r'name="list-1"[^>]*>\n(.*?)</textarea>', answer.text, re.DOTALL)
        assert unescape(shown[1]) == "0\n1"
        typed["list-1"] = shown[1].replace("\n", "\r\n")


def test_numbers_have_a_point_or_a_comma():
    form = Form(FormData([("a", "0,5"), ("b", "1.5"), ("c", "1,000.5"), ("d", "nan"), ("e", "")]))
    assert (form.number("a"), form.number("b"), form.optional_number("e")) == (0.5, 1.5, None)
    for name in "cd":
        with pytest.raises(InvalidInput, match="must be a number"):
            form.number(name)


@pytest.mark.parametrize("typed", ["1,000", "12,500", "-123,456", "+1,000", "1,000e2"])
def test_a_comma_that_may_be_between_thousands_is_not_guessed(typed):
    """1,000 is a thousand to some and one to others: a privacy level of which?"""
    form = Form(FormData([("level", typed)]))
    whole, point = re.escape(typed.replace(",", "")), re.escape(typed.replace(",", "."))
    with pytest.raises(InvalidInput, match=f"“level” can be read in .*{whole} if .*, {point} if"):
        form.optional_number("level")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("0,125", 0.125), ("-0,125", -0.125), ("1,5", 1.5), ("1,0000", 1.0), ("1234,567", 1234.567),
     (",125", 0.125), ("2,5e-7", 2.5e-7), ("1000", 1000.0), ("1.000", 1.0)],
)  # fmt: skip
def test_a_comma_that_is_a_decimal_one_is_taken(typed, meant):
    assert Form(FormData([("level", typed)])).number("level") == meant


@pytest.mark.parametrize("typed", ["1_000", "0_1,5", "1,000,000", "1 000", "1'000", "inf"])
def test_what_is_between_thousands_is_no_part_of_a_number(typed):
    with pytest.raises(InvalidInput, match="nothing between thousands"):
        Form(FormData([("level", typed)])).optional_number("level")


def test_a_range_of_a_thousand_is_asked_back(client):
    """In the words of the screen, beside its field."""
    work = client.desk.begin()
    client.post(f"/work/{work.id}/data/example")
    typed = {"role-2": "private", "low-2": "0", "high-2": "1,000"}
    answer = client.post(f"/work/{work.id}/data", typed)
    assert answer.status_code == 422
    said = unescape(answer.text)
    assert "Each end of the range of 'bmi' can be read in two ways: write 1000 if" in said
    assert work.plan is None


def test_what_answers_a_form_has_an_address_of_its_own(client):
    """A page that answers a POST cannot be gone back to: a browser would have to send it again."""
    work, fields = client.desk.begin(), {"csrf": client.desk.csrf, "path": "nowhere.csv"}
    place, origin = client.path(f"/work/{work.id}/data/path"), {"origin": f"http://{HOST}"}
    answer = client.http.post(place, data=fields, headers=origin)
    assert answer.status_code == 303
    for _ in range(2):  # Back, or loaded again
        kept = client.get(answer.headers["location"])
        assert (kept.status_code, "There is no such file" in kept.text) == (422, True)
    part = client.http.post(place, data=fields, headers=origin | {"hx-request": "true"})
    assert (part.status_code, "There is no such file" in part.text) == (422, True)
    for _ in range(20):
        client.http.post(place, data=fields, headers=origin)
    assert client.get(answer.headers["location"]).status_code == 404  # not for ever
