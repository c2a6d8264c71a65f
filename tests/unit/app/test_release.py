"""Release: dry run, what leaves, what it costs; confirmed once, done once, refused in words."""

import re
import sys
import threading
from dataclasses import replace
from html import unescape

import pytest

import privest.app.job as jobs
from app_client import Client, errors, words
from app_release import ended, made, message, shown, ticket, url
from privest.app import Desk
from privest.app.tables import Table
from privest.errors import InvalidInput
from privest.files import part_path
from privest.ledger import Budget, Ledger
from privest.report.slider import at_epsilon
from privest.workflow import read_release
from privest.workflow.account import Account
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import release
from privest.workflow.spec import Privacy
from workflow_tables import people, spec, write

POSTS = ("look", "make", "dry", "stop")
FORM = {
    "role-0": "public", "role-1": "public", "role-4": "private", "use-1": "list", "list-1": "0\n1",
    "low-4": "2", "high-4": "7", "sd-4": "0.45", "known": "yes", "gaps": "refuse", "form": "rows",
}  # fmt: skip
OTHER = FORM | {"high-4": "8"}
ENDS = {"ldl": (-50.0, 50.0)}


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "releases"
    found.mkdir()
    return found


@pytest.fixture
def client(folder):
    found = Client(folder)
    yield found
    found.close()


def real_entries(folder):
    with Ledger(folder / "privest-ledger.db", create=False) as ledger:
        ledger.verify()
        return [one for one in ledger.history() if one.cost is not None]


def begun(client, form=FORM):
    """The embedded table, planned by its form."""
    work = client.work_of(client.post("/begin", {"example": "yes"}))
    assert client.post(f"/work/{work.id}/data", form).status_code == 303
    return work


# --- what is offered ------------------------------------------------------------------------------


def test_without_a_plan_the_columns_come_first(client):
    work = client.desk.begin()
    assert client.get(url(work)).headers["location"].endswith("/data")
    assert client.post(url(work, "/make")).status_code == 422


def test_page_says_what_leaves_and_what_stays(client):
    work = begun(client)
    said = words(client.get(url(work)))
    for text in ("442 rows, each with one noisy value of “s5”", "age and sex", "Stays here",
                 "Columns that are not used", "100% of the account", "ε = 1"):  # fmt: skip
        assert text in said, text


def test_another_account_and_limit_are_shown_before(client):
    work = begun(client)
    given = {"subject": "patients", "limit": "2", "name": "z.parquet"}
    part = client.post(url(work, "/look"), given, headers={"hx-request": "true"})
    assert part.status_code == 200
    assert "<html" not in part.text
    said = words(part)
    assert "patients" in said
    assert "28% of the account" in said  # Gaussian composition, not 50%
    assert "Still possible afterwards ε = 1.67" in said  # as the mock has it
    page = unescape(client.follow(client.post(url(work, "/look"), given)).text)
    for text in ('value="patients"', 'value="2"', 'value="z.parquet"'):
        assert text in page
    assert not client.desk.ledger.exists()


def test_all_that_is_typed_is_checked_at_once_and_shown_again(client, folder):
    work = client.planned()
    wrong = {"name": "../z.csv", "limit": "much", "subject": "s" * 300}
    for rest, more in (("/look", {}), ("/make", {"ticket": ticket(client, work), "sure": "yes"})):
        answer = client.post(url(work, rest), wrong | more)
        assert answer.status_code == 422
        assert set(errors(answer)) == {"name", "limit", "subject"}
        assert 'value="../z.csv"' in unescape(answer.text)
    assert work.job is None
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "/tmp/z.csv"), ("name", ".z.csv"), ("name", "z" * 200 + ".csv"), ("name", "z.txt"),
     ("name", "Diabetes"), ("limit", "0"), ("limit", "1e6"), ("limit", "0.5"), ("limit", "1,000")],
)  # fmt: skip
def test_what_does_not_fit_is_said_beside_its_field(client, folder, field, value):
    work = client.planned()
    answer = client.post(url(work, "/look"), {field: value})
    assert (answer.status_code, list(errors(answer))) == (422, [field])


def test_names_that_are_free(folder):
    assert jobs.free_name(folder, "a/b, c", "x.csv", ".csv") == "a-b--c-release.csv"
    assert jobs.free_name(folder, "…", "x.csv", ".csv") == "release.csv"
    (folder / "s5-release.csv").write_text("")
    (folder / "s5-release-2.csv.json").write_text("")
    assert jobs.free_name(folder, "s5", "x.csv", ".csv") == "s5-release-3.csv"
    assert jobs.free_name(folder, "ldl", "LDL-release.csv", ".csv") == "ldl-release-2.csv"


@pytest.mark.parametrize("name", ["people.csv", "People.csv"])
def test_a_release_has_another_name_than_the_private_file(client, tmp_path, name):
    work = by_path(client, tmp_path)
    for rest in ("/look", "/make"):
        given = {"name": name, "sure": "yes", "ticket": ticket(client, work)}
        assert "name" in errors(client.post(url(work, rest), given))
    assert list(client.folder.iterdir()) == []


# --- doing it -------------------------------------------------------------------------------------


def test_a_release(client, folder):
    work = client.planned()
    job = made(client, work, limit="120")
    header = read_release(folder / "s5-release.csv")
    assert job.trouble is None
    assert (header.rows, header.simulated, job.rows) == (442, False, 442)
    assert header.entry.subject == "s5 of diabetes"
    assert work.released == folder / "s5-release.csv"
    assert work.made is work.plan
    (entry,) = real_entries(folder)
    assert entry.hash == header.entry.hash
    assert "Released as s5-release.csv" in words(client.get(url(work)))
    end = client.get(url(work, "/progress"), headers={"hx-request": "true"})
    assert end.headers["hx-redirect"].endswith(f"/work/{work.id}/results")


def test_it_needs_a_tick_and_a_ticket(client, folder):
    work = client.planned()
    answer = client.post(url(work, "/make"), {"ticket": ticket(client, work)})
    assert answer.status_code == 422
    assert "sure" in errors(answer)
    for word in ("", "made up"):
        answer = client.post(url(work, "/make"), {"ticket": word, "sure": "yes"})
        assert answer.status_code == 303
    assert work.job is None
    assert list(folder.iterdir()) == []


def test_sent_twice_it_is_done_once(client, folder):
    """A double click, a reload, the back button: at once, while it runs, and afterwards."""
    work = client.planned()
    fields = {"ticket": ticket(client, work), "sure": "yes", "limit": "900", "again": "yes"}
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.post(url(work, "/make"), fields)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended(work)
    answers.append(client.post(url(work, "/make"), fields))
    assert [one.status_code for one in answers] == [303] * 5
    ended(work)
    assert len(real_entries(folder)) == 1
    assert len(list(folder.glob("*.csv"))) == 1


def test_a_plan_that_was_changed_meanwhile_is_not_released(client, folder):
    work = client.planned()
    old = ticket(client, work)
    work.plan = at_epsilon(work.plan, 9.0)
    answer = client.post(url(work, "/make"), {"ticket": old, "sure": "yes"})
    assert answer.status_code == 422
    assert "plan was changed" in message(answer)
    assert list(folder.iterdir()) == []
    assert made(client, work).document.column.level == work.plan.level


def test_once_more_where_the_account_allows_it(client, folder):
    work = client.planned()
    made(client, work, limit="150")  # of 96.8
    work.plan = at_epsilon(work.plan, 50.0)
    page = shown(client, work)
    assert "Release them once more" in page
    assert 'value="s5-release-2.csv"' in page
    answer = client.post(url(work, "/make"), {"ticket": ticket(client, work), "sure": "yes"})
    assert answer.status_code == 422
    assert "were released before" in message(answer)
    assert len(real_entries(folder)) == 1
    assert made(client, work, again="yes").trouble is None
    assert len(real_entries(folder)) == 2
    work.plan = at_epsilon(work.plan, 90.0)
    fields = {"ticket": ticket(client, work), "sure": "yes", "again": "yes"}
    answer = client.post(url(work, "/make"), fields)
    assert "more than is left of the account" in message(answer)
    assert len(real_entries(folder)) == 2
    assert sorted(one.name for one in folder.glob("*.csv")) == [
        "s5-release-2.csv", "s5-release.csv",
    ]  # fmt: skip


def test_a_file_that_is_there_is_never_written_over(client, folder):
    (folder / "mine.csv").write_text("mine")
    work = client.planned()
    job = made(client, work, name="mine.csv")
    assert "exists" in job.trouble
    assert "was not made" in shown(client, work)
    assert (folder / "mine.csv").read_text() == "mine"
    assert work.released is None
    assert not (folder / "privest-ledger.db").exists()


def test_a_dry_run_spends_nothing_and_leaves_nothing(client, folder):
    work = client.planned()
    client.follow(client.post(url(work, "/dry")))
    job = ended(work)
    assert job.trouble is None
    assert job.document.simulated
    page = words(client.get(url(work)))
    assert "for your eyes only" in page
    assert "Do not choose ε by repeating dry runs" in page
    assert "without protection" in page
    assert (work.released, list(folder.iterdir())) == (None, [])
    assert [one for one in client.desk.private.iterdir() if one.is_dir()] == []
    assert client.get(f"/work/{work.id}/results").status_code == 303
    first = job.found.value
    client.post(url(work, "/dry"))
    assert (ended(work).found.value != first).any()  # fresh noise
    assert made(client, work).trouble is None


def test_a_job_that_ends_while_its_page_is_made_leaves_a_whole_page(client, monkeypatch):
    """Progress, or a form that can be sent: never a page with neither."""
    work = client.planned()
    client.post(url(work, "/dry"))
    ended(work)
    answers = iter([True])
    states = property(lambda job: next(answers, False), lambda job, to: None)
    monkeypatch.setattr(jobs.Job, "running", states, raising=False)
    page = shown(client, work)
    assert ("<progress" in page) != ('name="ticket"' in page)


def test_a_dry_run_that_fails_leaves_nothing(client, monkeypatch):
    work = client.planned()
    monkeypatch.setattr(jobs, "simulate_release", lambda *args, **more: 1 / 0)
    client.post(url(work, "/dry"))
    assert ended(work).trouble == jobs.UNFORESEEN
    assert [one for one in client.desk.private.iterdir() if one.is_dir()] == []


@pytest.fixture
def running(client, monkeypatch):
    """A release that waits in its middle."""
    reached, go, own = threading.Event(), threading.Event(), jobs.Job.told

    def slow(job, desk, rows):
        job.rows = rows
        reached.set()
        assert go.wait(30)
        own(job, desk, rows)

    monkeypatch.setattr(jobs.Job, "told", slow)
    work = begun(client)
    client.post(url(work, "/make"), {"ticket": ticket(client, work), "sure": "yes"})
    assert reached.wait(30)
    work.go = go
    yield work
    go.set()
    ended(work)


def test_progress_and_coming_back(client, folder, running):
    page = shown(client, running)
    assert "<progress" in page
    assert 'name="ticket"' not in page
    part = client.get(url(running, "/progress"), headers={"hx-request": "true"})
    assert "<progress" in part.text
    assert "<html" not in part.text
    assert client.get(url(running, "/progress")).status_code == 303
    assert client.post(url(running, "/dry")).status_code == 303  # one at a time
    client.desk.closing.set()
    running.go.set()
    assert "stopped before anything was paid for" in ended(running).trouble
    end = client.get(url(running, "/progress"), headers={"hx-request": "true"})
    assert end.headers["hx-refresh"] == "true"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("rest", "form"),
    [
        ("/data", OTHER), ("/clear", {}),
        ("/privacy/numbers", {"epsilon": "0.5"}), ("/privacy", {"then": "go", "epsilon": "0.5"}),
        ("/privacy", {"then": "need", "need": "3"}),
    ],
)  # fmt: skip
def test_nothing_is_changed_while_a_release_is_made(client, running, rest, form):
    plan, table = running.plan, running.table
    answer = client.post(f"/work/{running.id}{rest}", form)
    assert answer.status_code == 422
    assert "release of this table is being made" in words(answer)
    assert (running.plan, running.table) == (plan, table)
    assert client.desk.works[running.id] is running


def test_the_app_ends_in_the_middle(folder):
    client = Client(folder)
    work = client.planned()
    client.desk.closing.set()
    assert "stopped before anything was paid for" in made(client, work).trouble
    assert list(folder.iterdir()) == []
    client.close()


def killed(*args):
    raise SystemExit


def cut_off(client, work, subject, monkeypatch):
    """A release that is paid for, and not shown yet."""
    with Account(client.desk.ledger, subject) as account, monkeypatch.context() as here:
        here.setattr(sys.modules["privest.workflow.release"], "_write_document", killed)
        with pytest.raises(SystemExit):
            release(work.plan, client.folder / "mine.csv", work.table.data, account=account)


def test_after_a_kill_the_very_same_table_is_finished(client, folder, monkeypatch):
    """The next app says so, and finishes it without spending."""
    work = client.planned()
    cut_off(client, work, "s5 of diabetes", monkeypatch)
    draft = part_path(folder / "mine.csv").read_bytes()
    page = shown(client, work)
    assert "finishes the very same one" in page
    assert 'value="mine.csv"' in page
    assert made(client, work).trouble is None
    assert (folder / "mine.csv").read_bytes() == draft
    assert len(real_entries(folder)) == 1


# --- the table is changed meanwhile ---------------------------------------------------------------


def by_path(client, tmp_path, table=None):
    """A work on a file of the user, read where it lies."""
    file = write(people() if table is None else table, tmp_path / "people.csv")
    work = client.desk.begin()
    work.table = Table("people.csv", file)
    work.plan = make_plan(spec("people.csv", privacy=Privacy(2.0, range=ENDS, form="rows")), file)
    return work


def test_a_release_that_is_paid_for_is_finished_whatever_became_of_the_file(
    client, folder, tmp_path, monkeypatch
):
    work = by_path(client, tmp_path)
    cut_off(client, work, "ldl of people.csv", monkeypatch)
    work.table.path.unlink()
    assert made(client, work).trouble is None
    assert read_release(folder / "mine.csv").rows == 200


# --- accounts -------------------------------------------------------------------------------------


def test_two_apps_on_one_ledger_release_the_same_values_at_once(tmp_path):
    """One wins; the other is refused in words, whatever it calls them."""
    file = write(people(3000), tmp_path / "people.csv")
    clients, works, folders = [], [], []
    for k in range(2):
        own = tmp_path / f"app{k}"
        own.mkdir()
        client = Client(own, desk=Desk(own, tmp_path / "privest-ledger.db"))
        work = client.desk.begin()
        work.table = Table("people.csv", file)
        work.plan = make_plan(
            spec("people.csv", privacy=Privacy(2.0, range=ENDS, form="rows")), str(file)
        )
        clients.append(client)
        works.append(work)
        folders.append(own)
    fields = [
        {"ticket": ticket(client, work), "sure": "yes"} | more
        for client, work, more in zip(clients, works, ({}, {"subject": "others"}))
    ]
    start = threading.Barrier(2)

    def send(k):
        start.wait(30)
        clients[k].post(url(works[k], "/make"), fields[k])

    threads = [threading.Thread(target=send, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    troubles = [ended(work).trouble for work in works]
    assert sorted(one is None for one in troubles) == [False, True], troubles
    loser = troubles.index(next(one for one in troubles if one))
    assert "the same public columns was released for the account" in troubles[loser]
    page = shown(clients[loser], works[loser])
    assert "the same public columns was released for the account" in page
    assert 'id="again"' in page  # the way out is there
    assert [one.name for one in folders[loser].iterdir()] == []
    assert len(real_entries(tmp_path)) == 1
    estimate(folders[1 - loser] / "ldl-release.csv")
    for client in clients:
        client.close()


def test_the_same_account_of_two_apps(folder):
    """The second one sees what the first has spent, when it looks and when it is late."""
    one, two = Client(folder), Client(folder)
    works = [one.planned(), two.planned()]
    late = ticket(two, works[1])
    made(one, works[0])
    assert "Released before" in shown(two, works[1])
    answer = two.post(url(works[1], "/make"), {"ticket": late, "sure": "yes"})
    assert answer.status_code == 422
    assert "more than is left of the account" in message(answer)
    for client in (one, two):
        client.close()


def test_a_known_account_keeps_its_limit(client):
    with Ledger(client.desk.ledger) as ledger:
        ledger.account("s5 of diabetes", budget=Budget(level=5.0))
    work = client.planned()
    page = shown(client, work)
    assert 'id="limit"' not in page
    assert "80% of the account" in words(page)
    assert "20% left" in words(client.get(f"/work/{work.id}/privacy"))
    made(client, work, limit="500")
    with Ledger(client.desk.ledger) as ledger:
        assert float(ledger.account("s5 of diabetes").remaining.level) == 1.0


def test_over_the_limit_is_said_on_the_privacy_screen(client):
    with Ledger(client.desk.ledger) as ledger:
        ledger.account("s5 of diabetes", budget=Budget(level=2.0))
    work = client.planned()
    assert "over the limit" in words(client.get(f"/work/{work.id}/privacy"))


# --- what stays -----------------------------------------------------------------------------------


def test_after_another_plan_the_release_is_an_earlier_one_with_its_results(client):
    work = begun(client)
    table = made(client, work).path
    assert client.post(f"/work/{work.id}/data", OTHER).status_code == 303
    page = shown(client, work)
    assert "Released as" not in page
    assert work.released is None
    results = re.search(r'Released earlier: <a href="([^"]+)">', page).group(1)
    assert table.name in client.get(results).text
    assert results in client.get("/").text
    own = results.removesuffix("/results")
    assert client.get(own + "/export/table").content == table.read_bytes()
    client.post(f"{own}/clear")
    assert "Released earlier" not in shown(client, work)
    assert table.is_file()


def test_at_another_epsilon_the_release_is_said_to_be_of_another_plan(client):
    work = begun(client)
    made(client, work)
    client.post(f"/work/{work.id}/privacy", {"epsilon": "0.5"})
    assert "under another plan" in words(client.get(url(work)))
    assert client.get(f"/work/{work.id}/results").status_code == 200


def test_once_more_keeps_the_first(client):
    work = begun(client)
    first = made(client, work, limit="9").path
    second = made(client, work, again="yes").path
    assert work.released == second
    assert [one.released for one in work.earlier] == [first]


# --- what must not be -----------------------------------------------------------------------------


def test_no_value_is_on_the_page_or_in_a_message(client, tmp_path):
    """A column with one sentinel, and one cell that is no number: the release fails in words."""
    table = people(1100)
    table["ldl"][1050] = 31.41592653  # beyond the rows of which a plan sees that they are numbers
    work = by_path(client, tmp_path, table)
    made(client, work)
    assert "31.41592653" not in shown(client, work)
    file = work.table.path
    file.write_text(file.read_text().replace("31.41592653", "3141592653oops"))
    work.plan = make_plan(work.plan.spec, str(file))
    work.choice = None
    job = made(client, work, subject="others", name="y.csv")
    assert job.trouble
    assert "3141592653" not in shown(client, work)


def test_an_error_that_nobody_foresaw_shows_nothing(client, monkeypatch, caplog):
    work = client.planned()

    def fail(*args, **more):
        raise RuntimeError("3.14159 is private")

    monkeypatch.setattr(jobs, "release", fail)
    job = made(client, work)
    assert job.trouble == jobs.UNFORESEEN
    assert "3.14159" not in shown(client, work) + caplog.text
    assert "RuntimeError" in caplog.text


def test_tickets_do_not_pile_up(client):
    work = client.planned()
    for _ in range(2 * jobs.MOST_TICKETS):
        jobs.new_ticket(work, work.plan)
    assert len(work.tickets) == jobs.MOST_TICKETS
    with pytest.raises(InvalidInput):
        jobs.as_name("a:b.csv", replace(work.plan.spec))
