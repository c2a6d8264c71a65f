"""What stays of a release, and of a trial, when the plan, the table or the work changes."""

import os
import re
import threading
from html import unescape

import pytest

from app_client import Client
from app_release import ended, made, message, shown, ticket, url
from privest.app import _release_job as jobs
from privest.workflow import Privacy, read_release
from workflow_tables import people, write

FORM = {
    "role-0": "public", "role-1": "public", "role-4": "private", "use-1": "list", "list-1": "0\n1",
    "low-4": "2", "high-4": "7", "noise_variance": "0.2", "lists_public": "yes", "gaps": "refuse",
}  # fmt: skip
OTHER = FORM | {"high-4": "8"}


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


@pytest.fixture
def client(tmp_path):
    folder = tmp_path / "releases"
    folder.mkdir()
    found = Client(folder)
    yield found
    found.close()


def begun(client, form=FORM):
    """The embedded table, planned by its form."""
    work = client.desk.begin()
    client.post(f"/work/{work.id}/data/example")
    assert stated(client, work, form).status_code == 303
    return work


def stated(client, work, form):
    return client.post(f"/work/{work.id}/data", form)


def tried(client, work):
    client.post(url(work, "/trial"), {"seed": "1"})
    return ended(work)


@pytest.fixture
def running(client, monkeypatch):
    """A release that waits in its middle; `go` lets it end."""
    reached, go, own = threading.Event(), threading.Event(), jobs.Job.told

    def slow(job, desk, rows):
        reached.set()
        assert go.wait(30)
        own(job, desk, rows)

    monkeypatch.setattr(jobs.Job, "told", slow)
    work = begun(client)
    client.post(url(work, "/make"), {"ticket": ticket(client, work), "sure": "yes"})
    assert reached.wait(30)
    yield work
    go.set()
    ended(work)


# --- another plan ---------------------------------------------------------------------------------


def test_after_another_plan_the_release_is_an_earlier_one_with_its_results(client):
    work = begun(client)
    table = made(client, work).path
    assert stated(client, work, OTHER).status_code == 303
    page = shown(client, work)
    assert "It is released" not in page
    assert "Download the header" not in page
    assert "under another plan" in page
    assert work.released is None
    results = re.search(r'href="([^"]+)">See its results', page).group(1)
    answer = client.get(results)
    assert answer.status_code == 200
    assert table.name in answer.text
    own = results.removesuffix("/results")
    assert client.get(own + "/take").status_code == 200
    assert client.get(own + "/take/entry").status_code == 200
    assert client.get(own + "/release/file/table").content == table.read_bytes()
    start = client.get("/")
    assert results in start.text
    # and the new plan can be tried, without the earlier one being touched
    assert tried(client, work).trouble is None
    assert client.get(results).status_code == 200
    client.post(f"{own}/clear")
    assert "See its results" not in shown(client, work)
    assert table.is_file()


def test_another_table_leaves_the_release_on_the_desk(client):
    work = begun(client)
    table = made(client, work).path
    client.post(f"/work/{work.id}/data/another")
    assert [one.released for one in client.desk.works.values() if one.released] == [table]


def test_at_another_level_the_release_is_said_to_be_of_another_plan(client):
    work = begun(client)
    made(client, work)
    assert "It is released" in shown(client, work)
    work.plan = work.plan.under(Privacy(level=0.5, range={"s5": (2.0, 7.0)}))
    work.spec = work.plan.spec
    page = shown(client, work)
    assert "It is released" not in page
    assert "Released earlier, under another plan" in page
    assert client.get(f"/work/{work.id}/results").status_code == 200


def test_once_more_keeps_the_first(client):
    work = begun(client)
    first = made(client, work, budget="100").path
    second = made(client, work, again="yes").path
    assert work.released == second
    assert [one.released for one in work.earlier] == [first]
    assert "Released earlier" in shown(client, work)


@pytest.mark.parametrize(
    ("rest", "form"),
    [
        ("/data", OTHER), ("/data/written", {}), ("/data/another", {}), ("/data/example", {}),
        ("/data/path", {"path": "diabetes"}), ("/clear", {}),
        ("/privacy/numbers", {"level": "0.5"}),
        ("/privacy", {"then": "take", "level": "0.5", "before": "1"}),
    ],
)  # fmt: skip
def test_nothing_is_changed_while_a_release_is_made(client, running, rest, form):
    plan, table = running.plan, running.table
    answer = client.post(f"/work/{running.id}{rest}", form)
    assert answer.status_code == 422
    assert "A release of this table is being made" in unescape(answer.text)
    assert (running.plan, running.table) == (plan, table)
    assert client.desk.works[running.id] is running


# --- trials ---------------------------------------------------------------------------------------


def folders(client):
    return [one for one in client.desk.private.iterdir() if one.is_dir()]


@pytest.mark.parametrize("then", ["plan", "table", "clear", "trial", "release"])
def test_the_table_of_a_trial_goes_with_what_it_was_made_of(client, then):
    work = begun(client)
    first = tried(client, work).path
    assert first.is_file()
    if then == "release":
        made(client, work)
    elif then == "trial":
        tried(client, work)
    else:
        rest = {"plan": "/data", "table": "/data/another", "clear": "/clear"}[then]
        client.post(f"/work/{work.id}{rest}", OTHER)
    assert not first.exists()
    assert len(folders(client)) == (1 if then == "trial" else 0)


def test_a_trial_that_fails_leaves_nothing(client, monkeypatch):
    work = begun(client)
    monkeypatch.setattr(jobs, "simulate_release", lambda *args, **more: 1 / 0)
    assert tried(client, work).trouble == jobs.UNFORESEEN
    assert folders(client) == []


# --- names and messages ---------------------------------------------------------------------------


def sent(client, table, name="people.csv"):
    """A table that the browser sends, with a gap in its private column or without."""
    work = client.desk.begin()
    client.post(f"/work/{work.id}/data/file", files={"table": (name, table.read_bytes())})
    names = [one.name for one in work.more["data"].columns]
    at = names.index("ldl")
    age = names.index("age")
    form = {f"role-{at}": "private", f"low-{at}": "0", f"high-{at}": "400", "gaps": "refuse",
            f"role-{age}": "public", "noise_variance": "900"}  # fmt: skip
    answer = stated(client, work, form)
    assert answer.status_code == 303, message(answer)
    return work


@pytest.mark.parametrize("name", ["people.csv", "People.csv"])
def test_a_release_has_another_name_than_the_private_file(client, tmp_path, name):
    work = sent(client, write(people(60), tmp_path / "people.csv"))
    for rest in ("/look", "/make"):
        given = {"name": name, "sure": "yes", "ticket": ticket(client, work)}
        answer = client.post(url(work, rest), given)
        assert answer.status_code == 422
        assert "is the name of a file that the plan reads" in message(answer)
    assert list(client.folder.iterdir()) == []


def test_the_name_that_is_offered_is_no_input_either(client):
    assert jobs.free_name(client.folder, "ldl", ["LDL-release.csv"]) == "ldl-release-2.csv"


def test_a_budget_that_is_spent_is_said_once_and_without_commands(client):
    work = begun(client)
    made(client, work)
    other = begun(client)
    for page in (
        shown(client, other),
        unescape(
            client.post(url(other, "/make"), {"ticket": ticket(client, other), "sure": "yes"}).text
        ),
    ):
        assert page.count("is more than the budget") == 1
        assert "have the budget raised" in page
        for word in ("--again", "--subject", "raise_budget"):
            assert word not in page


def test_what_was_released_is_one_line_and_the_head_stands_once(client):
    work = begun(client)
    job = made(client, work)
    page = shown(client, work)
    assert page.count(read_release(job.path).entry.hash) == 1
    assert job.head in page
    good = re.search(r'class="note good" role="status">(.*?)</div>', page, re.S).group(1)
    assert good.count("<p>") == 1
    assert "442 rows" in good


def test_a_header_that_is_a_pipe_is_not_waited_for(client):
    os.mkfifo(client.folder / "q.csv.json")
    (client.folder / "q.csv").write_text("a\n1\n")
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(client.post("/open/release", {"path": "q.csv"})), daemon=True
    )
    thread.start()
    thread.join(20)
    assert [one.status_code for one in answers] == [422]
    work = begun(client)  # nor by a release, which looks at the headers in its folder
    assert made(client, work).trouble is None
