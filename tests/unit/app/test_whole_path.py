"""From a clean file to the report; and no value anywhere behind the columns screen."""

import io
import json
import logging
import struct
import zipfile

import numpy as np
import pytest

from app_client import fields_of, words
from app_forms import forms_of
from app_walk import Watched, released, walk

NUMBER, WORD = 7319.046127, "Zyxwvut-Sentinel"


@pytest.fixture
def client(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    found = Watched(folder)
    yield found
    found.close()


CLEAN = "age,sex,bmi,income\n" + "".join(
    f"{20 + 7 * k % 60},{'fm'[k % 2]},{20 + k % 9}.5,{20_000 + 350 * (k % 97)}\n"
    for k in range(300)
)


class Person:
    """Who sits before the pages: counts what is clicked, and what is typed."""

    def __init__(self, client):
        self.client, self.clicks, self.typed = client, 0, 0

    def send(self, page, ending, chosen=None, typed=None, button=None, files=None):
        """A form of a page, with some choices and texts changed, sent by one click."""
        fields = fields_of(page, ending) | (chosen or {}) | (typed or {}) | (button or {})
        self.clicks += 1 + len(chosen or {})
        self.typed += len(typed or {})
        place = str(page.url.path) if ending == "" else None
        (action,) = {one.action for one in forms_of(page.text) if one.action.endswith(ending)}
        answer = self.client.post(place or action, fields, files=files)
        assert answer.status_code == 303, words(answer)  # nothing is refused
        return self.client.follow(answer)


def test_a_clean_file_to_the_report_in_ten_clicks_without_a_refusal(client):
    who = Person(client)
    page = client.get("/")
    who.clicks += 1  # a file is chosen
    page = who.send(page, "/begin", files={"table": ("people.csv", CLEAN.encode())})
    page = who.send(page, "/private", {"private": "3"}, button={"then": "public"})
    ends = {"low-3": "0", "high-3": "200,000"}
    page = who.send(page, "/data", {"known": "yes"}, ends, {"then": "go"})
    page = who.send(page, "/privacy", button={"then": "go"})
    (work,) = client.desk.works.values()
    page = who.send(page, "/release/make", {"sure": "yes"})
    released(client, work)
    progress = client.get(f"/work/{work.id}/release/progress", headers={"hx-request": "true"})
    page = client.get(progress.headers["hx-redirect"])  # by itself
    who.clicks += 1
    report = client.get(f"/work/{work.id}/export/report")
    assert "Findings" in report.text
    assert (who.clicks, who.typed) == (10, 2)
    assert work.plan.privacy.form == "aggregate"  # nobody said otherwise
    assert all(answer.status_code < 400 for answer in client.answers)


def private_file(folder):
    """Readings, whose they are, and what may explain them; one reading and one name stand out."""
    rng = np.random.default_rng(3)
    ages, fats = rng.uniform(20, 80, 40), rng.uniform(5000, 9000, 40)
    names = [f"person {k // 2}" for k in range(40)]
    fats[17], names[16:18] = NUMBER, [WORD, WORD]
    lines = ["name,age,fat"]
    lines += [f"{n},{a:.3f},{f:.6f}" for n, a, f in zip(names, ages, fats)]
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# As texts, as the bytes that a table of numbers holds, and in a logarithm.
TRACES = [
    *(one.encode() for one in (WORD, "7319.046127", "7319,046127", repr(NUMBER), repr(-NUMBER))),
    *(kind for x in (NUMBER, float(np.log(NUMBER)))
      for kind in (struct.pack("<d", x), struct.pack(">d", x))),
    repr(float(np.log(NUMBER))).encode(),
]  # fmt: skip


def traces(data):
    return [one for one in TRACES if one in data]


def unpacked(answer):
    """What an answer holds: of an archive its files."""
    held = [answer.content, str(answer.headers).encode(), str(answer.url).encode()]
    if answer.headers.get("content-type") == "application/zip":
        archive = zipfile.ZipFile(io.BytesIO(answer.content))
        held += [archive.read(name) for name in archive.namelist()]
    return held


@pytest.mark.parametrize("form", ["rows", "aggregate"])
def test_a_private_value_is_on_no_screen(client, tmp_path, form, caplog):
    caplog.set_level(logging.DEBUG)
    table = private_file(tmp_path)
    work = client.begun(table.read_bytes())
    at = f"/work/{work.id}"
    client.post(f"{at}/data/private", {"private": "2"})
    page = client.get(f"{at}/data")
    whose = "person" if form == "aggregate" else ""
    roles = {"role-0": whose, "role-1": "public", "role-2": "private", "known": "yes"}
    fields = fields_of(page, "/data") | roles | {"low-2": "4000", "high-2": "10000", "form": form}
    assert client.post(f"{at}/data", fields).status_code == 303
    seen = [traces(answer.content) for answer in client.answers]
    assert {one for found in seen for one in found} <= {WORD.encode()}  # whose rows may be shown
    client.answers.clear()
    caplog.clear()
    away = ("/data", "/clear", "release/make")
    walk(client, f"{at}/privacy", away)
    client.post(f"{at}/release/dry")
    released(client, work)
    page = client.get(f"{at}/release")
    answer = client.post(f"{at}/release/make", fields_of(page, "/release/make") | {"sure": "yes"})
    assert answer.status_code == 303
    released(client, work)
    walk(client, f"{at}/results", away)
    table = ["table"] if form == "rows" else []
    for what in (*table, "document", "report", "script", "plan", "all"):
        assert client.get(f"{at}/export/{what}").status_code == 200
    wrong = ({"epsilon": "x"}, {"need": WORD}, {"sure": "yes", "ticket": "none"}, {"at-0": "NaN"})
    for place in ("privacy", "release/look", "release/make", "results/mean"):
        for fields in (wrong[0], *wrong[2:]):
            assert client.post(f"{at}/{place}", fields).status_code < 500
    client.get("/")
    assert len(client.answers) > 25
    for answer in client.answers:
        assert [traces(part) for part in unpacked(answer) if traces(part)] == [], answer.url
    for record in caplog.records:
        assert not traces(record.getMessage().encode()), record.name
    files = [one for one in client.desk.folder.rglob("*") if one.is_file()]
    made = "fat-release.csv" if form == "rows" else "fat-release.json"
    assert {made, "privest-ledger.db"} <= {one.name for one in files}
    for file in files:
        assert not traces(file.read_bytes()), file.name


def test_nothing_of_it_is_left_at_the_end(client, tmp_path):
    """The app's copy goes when the work is cleared away, and all of it when the app ends."""
    work = client.begun(private_file(tmp_path).read_bytes())
    copy = work.table.path
    assert copy.exists()
    client.post(f"/work/{work.id}/clear")
    assert not copy.exists()
    client.begun(private_file(tmp_path).read_bytes())
    client.desk.close()
    assert not client.desk.private.exists()
    assert json.dumps([one.name for one in client.desk.folder.iterdir()]) == "[]"
