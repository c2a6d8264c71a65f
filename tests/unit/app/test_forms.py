"""What was typed comes back as it was typed."""

import re
from html import unescape

import pytest
from starlette.datastructures import FormData

from app_client import Client
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
