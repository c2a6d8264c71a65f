"""Take it along: what a plan has, a trial, a release; downloads, and what is shown."""

import io
import json
import re
import zipfile
from html import unescape

import pytest

from app_client import Client
from privest.app._desk import Made
from privest.workflow import (
    Account,
    Privacy,
    Spec,
    estimate_release,
    load_spec,
    make_plan,
    release,
    simulate_release,
    trial_source,
)

FILES = {
    "plan": "plan.toml", "commands": "commands.sh", "script": "reproduce.py",
    "notebook": "reproduce.ipynb", "report": "report.html", "entry": "ledger-entry.json",
    "all": "privest.zip",
}  # fmt: skip
OF_A_PLAN = ["plan", "commands", "script", "notebook", "all"]


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    yield found
    found.close()


def tried(client, seed=3):
    """A piece of work with a trial."""
    work = client.planned()
    table = client.desk.private / "release.csv"
    simulate_release(work.plan, table, trial_source(work.plan, seed))
    work.released, work.made = table, Made(work.plan, seed=seed)
    return work


def released(client):
    """A piece of work with a real release."""
    work = client.planned()
    table = client.desk.folder / "release.csv"
    with Account(client.desk.ledger, "s5 of us", 9.0) as account:
        release(work.plan, table, account=account)
    work.released, work.made = table, Made(work.plan, subject="s5 of us", budget=9.0)
    return work


def got(client, work, what):
    return client.get(f"/work/{work.id}/take/{what}")


def shown(answer):
    return unescape(re.sub(r"<[^>]*>", "", answer.text))


def test_of_a_plan(client):
    work = client.planned()
    page = client.get(f"/work/{work.id}/take")
    assert page.status_code == 200
    for words in ("nothing was spent", "# plan.release('release.csv')", "privest plan plan.toml"):
        assert words in shown(page)
    for what, name in FILES.items():
        answer = got(client, work, what)
        if what not in OF_A_PLAN:
            assert answer.status_code == 404
            continue
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        if what not in ("all", "notebook"):
            assert answer.text.strip() in shown(page)
    assert got(client, work, "..%2f..%2fetc").status_code == 404
    assert got(client, work, "private").status_code == 404
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]  # nothing stays
    assert list(client.desk.folder.iterdir()) == []


def test_before_there_is_a_plan_it_leads_to_the_data(client):
    work = client.desk.begin()
    answer = client.get(f"/work/{work.id}/take")
    assert answer.status_code == 303
    assert answer.headers["location"].endswith("/data")
    assert got(client, work, "plan").status_code == 404


def test_of_a_trial(client):
    work = tried(client)
    page = client.get(f"/work/{work.id}/take")
    for words in (
        "protects nothing",
        "--simulate --seed 3",
        "plan.simulate('release.csv', seed=3)",
    ):
        assert words in shown(page)
    assert got(client, work, "entry").status_code == 404
    names = zipfile.ZipFile(io.BytesIO(got(client, work, "all").content)).namelist()
    assert "report.html" in names
    assert not {"release.csv", "release.csv.json", "ledger-entry.json"} & set(names)
    for what in ("plan", "commands", "script", "notebook"):
        text = got(client, work, what).text
        assert str(client.desk.private) not in text
        assert "no protection" in text or "protects nothing" in text


def test_of_a_release(client):
    work = released(client)
    row = {"age": 50.0, "sex": 1.0, "bmi": 25.0, "bp": 90.0}
    work.asked = {"confidence": 0.9, "errors": "t", "total": True, "at": (row,)}
    page = client.get(f"/work/{work.id}/take")
    line = "privest release plan.toml --output release.csv --ledger privest-ledger.db"
    assert f"# {line} --subject 's5 of us' --budget 9.0" in shown(page)
    assert "privest estimate release.csv --confidence 0.9 --errors t --at" in shown(page)
    assert "estimate.total(0.9)" in shown(page)
    assert f"estimate.mean_at({row}, 0.9)" in shown(page)
    work.asked["at"] = ({"age": 50.0},)  # not all features: there is no such mean
    assert "--at" not in client.get(f"/work/{work.id}/take").text
    entry = json.loads(got(client, work, "entry").text)
    assert [one["subject"] for one in entry["entries"]] == ["s5 of us"]
    archive = zipfile.ZipFile(io.BytesIO(got(client, work, "all").content))
    assert archive.read("release.csv") == work.released.read_bytes()
    assert archive.read("ledger-entry.json").decode() == got(client, work, "entry").text
    report = archive.read("report.html").decode()
    assert "90% interval" in report
    header = estimate_release(work.released).release
    assert header.checksum in report
    assert str(client.desk.folder) not in page.text
    assert "plan was changed" not in page.text
    for what, name in (("table", "release.csv"), ("header", "release.csv.json")):
        place = f"/work/{work.id}/release/file/{what}"
        assert place in page.text
        assert client.get(place).content == archive.read(name)
    for name in archive.namelist():
        assert str(client.desk.folder) not in archive.read(name).decode()
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]


def test_it_is_of_the_plan_that_was_released(client, tmp_path):
    """The slider has moved since: what is taken along stays what was done."""
    work = released(client)
    before = got(client, work, "plan").text
    moved = client.planned(privacy=Privacy(level=1.0)).spec
    work.spec, work.plan = moved, make_plan(moved)
    assert got(client, work, "plan").text == before
    assert "plan was changed after this release" in client.get(f"/work/{work.id}/take").text
    (tmp_path / "plan.toml").write_text(before, encoding="utf-8")
    assert load_spec(tmp_path / "plan.toml") == work.made.plan.spec


def test_a_ledger_that_is_gone_is_said_and_the_rest_is_there(client):
    work = released(client)
    client.desk.ledger.rename(client.desk.folder / "elsewhere.db")
    page = client.get(f"/work/{work.id}/take")
    assert page.status_code == 200
    assert 'role="alert"' in page.text
    assert got(client, work, "script").status_code == 200
    assert got(client, work, "entry").status_code == 422
    assert got(client, work, "all").status_code == 422
    assert not client.desk.ledger.exists()
    assert [one.name for one in client.desk.private.iterdir()] == ["alive"]


def test_texts_are_escaped(client):
    work = client.planned()
    name = "</pre><script>alert(1)</script>"
    spec = Spec(f"{name}.csv", name, ("age",), Privacy(2.0))
    work.plan = make_plan(spec, {"age": [30.0, 40.0, 50.0], name: [1.0, 2.0, 3.0]})
    page = client.get(f"/work/{work.id}/take")
    assert "<script>alert" not in page.text
    assert name in shown(page)
