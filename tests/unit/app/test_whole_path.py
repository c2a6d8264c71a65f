"""From the first page to what is taken along; and no reading anywhere behind the data screen."""

import contextlib
import io
import json
import logging
import struct
import zipfile

import numpy as np
import pytest

from app_forms import forms_of
from app_walk import Watched, released, walk
from privest.workflow import estimate as estimate_release

NUMBER, WORD = 7319.046127, "Zyxwvut-Sentinel"


@pytest.fixture
def client(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    found = Watched(folder)
    yield found
    found.close()


def form_of(page, ending):
    """What a form of a page sends as it stands."""
    (found,) = [one for one in forms_of(page.text) if one.action.endswith(ending)]
    fields = {}
    for name, value in found.sent:
        fields.setdefault(name, []).append(value)
    return fields


def begun(client):
    answer = client.post("/begin")
    assert answer.status_code == 303
    (work,) = client.desk.works.values()
    return work, f"/work/{work.id}"


def run(code):
    """A script, in this process; its pictures are drawn elsewhere."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "reproduce.py", "exec"), {})
    return out.getvalue()


def test_embedded_data_from_the_first_page_to_the_script(client, tmp_path, monkeypatch):
    work, at = begun(client)
    page = client.follow(client.post(f"{at}/data/example"))
    page = client.follow(client.post(f"{at}/data", form_of(page, f"{at}/data")))
    fields = form_of(page, f"{at}/privacy") | {"level": "6", "then": "take"}
    page = client.follow(client.post(f"{at}/privacy", fields))
    assert work.plan.level == 6.0
    client.follow(client.post(f"{at}/release/trial", {"seed": "5"}))
    released(client, work)
    assert "simulated" in client.get(f"{at}/results").text.lower()
    client.follow(client.post(f"{at}/results/ask", {"confidence": "0.9", "errors": "auto"}))
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"{at}/take/all").content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("privest.report.save_report", lambda *given, **how: None)
    text = run(archive.read("reproduce.py").decode())
    estimate = estimate_release(work.released)
    numbers = np.concatenate(
        [work.plan.standard_error, estimate.estimate, estimate.interval(0.9).ravel()]
    )
    assert [x for x in numbers.tolist() if repr(x) not in text] == []
    again = tmp_path / work.released.name
    assert again.read_bytes() == work.released.read_bytes()
    assert list(client.desk.folder.iterdir()) == []  # a trial leaves nothing there


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


@pytest.mark.parametrize("how", [pytest.param("sent", marks=pytest.mark.slow), "where it lies"])
def test_a_reading_is_nowhere_behind_the_data_screen(client, tmp_path, how, caplog):
    caplog.set_level(logging.DEBUG)
    table = private_file(tmp_path)
    work, at = begun(client)
    if how == "sent":
        sent = {"table": ("people.csv", table.read_bytes())}
        page = client.follow(client.post(f"{at}/data/file", files=sent))
    else:
        page = client.follow(client.post(f"{at}/data/path", {"path": str(table)}))
    roles = {"role-0": "person", "role-1": "public", "role-2": "private"}
    fields = form_of(page, f"{at}/data") | roles | {"low-2": "4000", "high-2": "10000"}
    assert client.post(f"{at}/data", fields).status_code == 303
    assert traces(page.content)  # its owner sees the first rows there, and only there
    client.answers.clear()
    caplog.clear()
    away = ("/data", "/clear", "release/make")
    walk(client, f"{at}/privacy", away)
    client.post(f"{at}/release/trial", {"seed": "5"})
    released(client, work)
    walk(client, f"{at}/results", away)
    page = client.get(f"{at}/release")
    answer = client.post(f"{at}/release/make", form_of(page, "/release/make") | {"sure": "yes"})
    assert answer.status_code == 303
    released(client, work)
    walk(client, f"{at}/results", away)
    for what in ("plan", "commands", "script", "notebook", "report", "entry", "all"):
        assert client.get(f"{at}/take/{what}").status_code == 200
    wrong = ({"level": WORD}, {"half": "x"}, {"sure": "yes", "ticket": "none"}, {"at-0": "NaN"})
    for place in ("privacy", "release/look", "release/make", "results/ask", "results/predict"):
        for fields in wrong[1:]:
            assert client.post(f"{at}/{place}", fields).status_code < 500
    client.get("/")
    assert len(client.answers) > 30
    for answer in client.answers:
        assert [traces(part) for part in unpacked(answer) if traces(part)] == [], answer.url
    for record in caplog.records:
        assert not traces(record.getMessage().encode()), record.name
    files = [one for one in client.desk.folder.rglob("*") if one.is_file()]
    assert {"fat-release.csv", "privest-ledger.db"} <= {one.name for one in files}
    for file in files:
        assert not traces(file.read_bytes()), file.name


def test_nothing_of_it_is_left_at_the_end(client, tmp_path):
    """The app's copy goes when the work is cleared away, and all of it when the app ends."""
    work, at = begun(client)
    sent = {"table": ("people.csv", private_file(tmp_path).read_bytes())}
    client.post(f"{at}/data/file", files=sent)
    copy = work.table.path
    assert copy.exists()
    client.post(f"{at}/clear")
    assert not copy.exists()
    begun(client)
    client.desk.close()
    assert not client.desk.private.exists()
    assert json.dumps([one.name for one in client.desk.folder.iterdir()]) == "[]"
