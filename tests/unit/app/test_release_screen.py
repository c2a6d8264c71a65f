"""Release: what is offered, confirmed once, done once, refused in words; two apps on one ledger."""

import json
import re
import sys
import threading
from dataclasses import replace
from html import unescape

import pytest

from app_client import Client
from app_release import ended, made, message, shown, ticket, url
from privest.app import Desk
from privest.app import _release_job as jobs
from privest.app._desk import Table
from privest.errors import InvalidInput
from privest.files import part_path
from privest.ledger import Budget, Ledger
from privest.workflow import (
    Account,
    Privacy,
    estimate,
    make_plan,
    read_release,
    release,
)
from workflow_tables import people, spec, write

POSTS = ("look", "make", "trial", "stop")


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


# --- what is offered ------------------------------------------------------------------------------


def test_without_a_plan_the_data_come_first(client):
    work = client.desk.begin()
    assert client.get(url(work)).headers["location"].endswith("/data")
    assert client.post(url(work, "/make")).status_code == 422


def test_another_account_and_budget_are_shown_before(client):
    work = client.planned()
    given = {"subject": "patients", "budget": "6,5", "name": "z.parquet"}
    part = client.post(url(work, "/look"), given, headers={"hx-request": "true"})
    text = unescape(part.text)
    assert part.status_code == 200
    assert "<html" not in text
    assert "patients" in text
    assert re.findall(r'class="big">(.*?)<', text) == ["6.5", "4", "2.5"]
    page = unescape(client.follow(client.post(url(work, "/look"), given)).text)
    for words in ('value="patients"', 'value="6.5"', 'value="z.parquet"'):
        assert words in page
    assert "patients" not in client.post(url(work, "/look"), given).headers["location"]
    low = client.post(url(work, "/look"), {"budget": "1"}, headers={"hx-request": "true"})
    assert "more than the budget" in low.text


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "../z.csv", "plain one"),
        ("name", "/tmp/z.csv", "plain one"),
        ("name", ".z.csv", "plain one"),
        ("name", "z" * 200 + ".csv", "plain one"),
        ("name", "z.txt", "must end in .csv"),
        ("budget", "much", "must be a number"),
        ("budget", "0", "above 0"),
        ("subject", "s" * 300, "1 to 200 letters"),
    ],
)
def test_what_is_typed_is_checked_and_shown_again(client, folder, field, value, words):
    work = client.planned()
    for rest, more in (("/look", {}), ("/make", {"ticket": ticket(client, work), "sure": "yes"})):
        answer = client.post(url(work, rest), {field: value} | more)
        assert answer.status_code in (303, 422)
        if answer.status_code == 422:
            assert words in message(answer)
            assert f'value="{value[:100]}' in unescape(answer.text)
    assert jobs.JOB not in work.more
    assert list(folder.iterdir()) == []


def test_names_that_are_free(folder):
    assert jobs.free_name(folder, "a/b, c") == "a-b--c-release.csv"
    assert jobs.free_name(folder, "…") == "release.csv"
    (folder / "s5-release.csv").write_text("")
    (folder / "s5-release-2.csv.json").write_text("")
    assert jobs.free_name(folder, "s5") == "s5-release-3.csv"


# --- doing it -------------------------------------------------------------------------------------


def test_a_release(client, folder):
    work = client.planned()
    job = made(client, work, budget="10")
    header = read_release(folder / "s5-release.csv")
    assert job.trouble is None
    assert (header.rows, header.simulated, job.rows, job.of) == (442, False, 442, 442)
    assert header.entry.subject == "s5 of diabetes"
    assert work.released == folder / "s5-release.csv"
    assert (work.made.plan, work.made.seed, work.made.budget) == (work.plan, None, 10.0)
    (entry,) = real_entries(folder)
    assert entry.hash == header.entry.hash
    page = shown(client, work)
    for words in ("It is released", entry.hash, str(work.released), "a privacy level of 6"):
        assert words in page, words
    table = client.get(url(work, "/file/table"))
    assert table.content == work.released.read_bytes()
    assert json.loads(client.get(url(work, "/file/header")).text)["checksum"] == header.checksum
    assert "attachment" in table.headers["content-disposition"]
    assert client.get(url(work, "/file/else")).status_code == 404
    for what in ("report", "entry"):
        assert client.get(f"/work/{work.id}/take/{what}").status_code == 200


def test_it_needs_a_tick_and_a_ticket(client, folder):
    work = client.planned()
    answer = client.post(url(work, "/make"), {"ticket": ticket(client, work)})
    assert answer.status_code == 422
    assert "Tick the box" in message(answer)
    for word in ("", "made up"):
        answer = client.post(url(work, "/make"), {"ticket": word, "sure": "yes"})
        assert answer.status_code == 303
    assert jobs.JOB not in work.more
    assert list(folder.iterdir()) == []


def test_sent_twice_it_is_done_once(client, folder):
    """A double click, a reload, the back button: at once, while it runs, and afterwards."""
    work = client.planned()
    fields = {"ticket": ticket(client, work), "sure": "yes", "budget": "100", "again": "yes"}
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
    work.spec = replace(work.spec, privacy=Privacy(level=400.0))
    work.plan = make_plan(work.spec)
    answer = client.post(url(work, "/make"), {"ticket": old, "sure": "yes"})
    assert answer.status_code == 422
    assert "plan was changed" in message(answer)
    assert list(folder.iterdir()) == []
    assert made(client, work).header.column.level == 400.0


def test_once_more_where_the_budget_allows_it(client, folder):
    work = client.planned()
    made(client, work, budget="8")
    page = shown(client, work)
    assert "Release them once more" in page
    assert 'value="s5-release-2.csv"' in page
    answer = client.post(url(work, "/make"), {"ticket": ticket(client, work), "sure": "yes"})
    assert answer.status_code == 422
    assert "were released before" in message(answer)
    job = made(client, work, again="yes")
    assert job.trouble is None
    assert sorted(one.name for one in folder.glob("*.csv")) == [
        "s5-release-2.csv", "s5-release.csv",
    ]  # fmt: skip
    assert "more than the budget allows; nothing is left" in shown(client, work)
    answer = client.post(
        url(work, "/make"), {"ticket": ticket(client, work), "sure": "yes", "again": "yes"}
    )
    assert "more than the budget" in message(answer)
    assert len(real_entries(folder)) == 2


def test_a_file_that_is_there_is_never_written_over(client, folder):
    (folder / "mine.csv").write_text("mine")
    work = client.planned()
    job = made(client, work, name="mine.csv")
    assert "exists" in job.trouble
    assert "was not made" in shown(client, work)
    assert (folder / "mine.csv").read_text() == "mine"
    assert work.released is None
    assert not (folder / "privest-ledger.db").exists()


def test_a_trial_spends_nothing_and_says_what_it_is(client, folder):
    work = client.planned()
    client.follow(client.post(url(work, "/trial"), {"seed": "7"}))
    job = ended(work)
    assert job.header.simulated
    assert work.released.is_relative_to(client.desk.private)
    assert (work.made.seed, list(folder.iterdir())) == (7, [])
    page = shown(client, work)
    assert "A trial was made" in page
    assert "no protection" in page
    assert client.get(url(work, "/file/table")).status_code == 404
    first = job.path.read_bytes()
    client.post(url(work, "/trial"), {"seed": "7"})
    assert ended(work).path.read_bytes() == first
    assert client.post(url(work, "/trial"), {"seed": "-1"}).status_code == 422
    made(client, work)
    answer = client.post(url(work, "/trial"))
    assert answer.status_code == 422
    assert work.made.seed is None


def test_progress_stop_and_coming_back(client, folder, monkeypatch):
    work, reached, go = client.planned(), threading.Event(), threading.Event()
    own = jobs.Job.told

    def slow(job, desk, rows):
        job.rows = rows
        reached.set()
        assert go.wait(30)
        own(job, desk, rows)

    monkeypatch.setattr(jobs.Job, "told", slow)
    client.post(url(work, "/make"), {"ticket": ticket(client, work), "sure": "yes"})
    assert reached.wait(30)
    page = shown(client, work)
    assert "<progress" in page
    assert 'name="ticket"' not in page
    part = client.get(url(work, "/progress"), headers={"hx-request": "true"})
    assert "<progress" in part.text
    assert "<html" not in part.text
    assert client.get(url(work, "/progress")).status_code == 303
    assert client.post(url(work, "/trial")).status_code == 303  # one at a time
    client.post(url(work, "/stop"))
    go.set()
    assert "stopped before anything was paid for" in ended(work).trouble
    end = client.get(url(work, "/progress"), headers={"hx-request": "true"})
    assert end.headers["hx-refresh"] == "true"
    assert list(folder.iterdir()) == []
    monkeypatch.undo()


def test_the_app_ends_in_the_middle(folder, monkeypatch, tmp_path):
    client = Client(folder)
    work = client.planned()
    client.desk.closing.set()
    job = made(client, work)
    assert "nothing was spent" in job.trouble
    assert list(folder.iterdir()) == []
    client.close()


def test_after_a_kill_the_very_same_table_is_finished(client, folder, monkeypatch):
    """Paid for and not shown yet: the next app says so, and finishes it without spending."""
    work = client.planned()

    def killed(*args):
        raise SystemExit

    with Account(client.desk.ledger, "s5 of diabetes") as account:
        monkeypatch.setattr(sys.modules["privest.workflow.release"], "_write_document", killed)
        with pytest.raises(SystemExit):
            release(work.plan, folder / "mine.csv", work.table.data, account=account)
    monkeypatch.undo()
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(folder.parent / "marks"))
    draft = part_path(folder / "mine.csv").read_bytes()
    page = shown(client, work)
    assert "nobody has seen it yet" in page
    assert 'value="mine.csv"' in page
    assert "Finish the release" in page
    job = made(client, work)
    assert job.trouble is None
    assert (folder / "mine.csv").read_bytes() == draft
    assert len(real_entries(folder)) == 1


# --- the table is changed meanwhile ---------------------------------------------------------------


def by_path(client, tmp_path, table=None, privacy=None):
    """A work on a file of the user, read where it lies."""
    file = write(people() if table is None else table, tmp_path / "people.csv")
    work = client.desk.begin()
    work.table = Table("people.csv", file)
    work.spec = spec("people.csv", **({} if privacy is None else {"privacy": privacy}))
    work.plan = make_plan(work.spec, file)
    return work


@pytest.mark.parametrize("how", ["sorted", "other rows", "gone"])
def test_a_file_that_was_changed_after_the_page_is_not_released(client, folder, tmp_path, how):
    work = by_path(client, tmp_path, privacy=Privacy(level=2.0))
    confirmed = ticket(client, work)
    if how == "sorted":
        write({name: column[::-1] for name, column in people().items()}, work.table.path)
    elif how == "other rows":
        write(people(150), work.table.path)
    else:
        work.table.path.unlink()
    words = "people.csv cannot be read" if how == "gone" else "people.csv was changed since"
    for answer in (
        client.post(url(work, "/make"), {"ticket": confirmed, "sure": "yes"}),
        client.post(url(work, "/trial"), {"seed": "1"}),
    ):
        assert answer.status_code == 422
        assert words in message(answer)
    page = shown(client, work)
    assert words in page
    assert f'href="/{client.desk.key}/work/{work.id}/data"' in page
    assert 'name="ticket"' not in page  # there is nothing to confirm
    assert "Make a trial" not in page
    assert jobs.JOB not in work.more
    assert list(folder.iterdir()) == []


def test_a_file_that_is_changed_while_the_release_begins(client, folder, tmp_path, monkeypatch):
    """The library looks again when it opens the file."""
    work = by_path(client, tmp_path)
    monkeypatch.setattr("privest.app._release_screen.changed", lambda work: None)
    write(people(150), work.table.path)
    assert "people.csv was changed since the plan was made" in made(client, work).trouble
    assert list(folder.iterdir()) == []


def test_a_release_that_is_paid_for_is_finished_whatever_became_of_the_file(
    client, folder, tmp_path, monkeypatch
):
    work = by_path(client, tmp_path)

    def killed(*args):
        raise SystemExit

    with Account(client.desk.ledger, "ldl of people.csv") as account, monkeypatch.context() as here:
        here.setattr(sys.modules["privest.workflow.release"], "_write_document", killed)
        with pytest.raises(SystemExit):
            release(work.plan, folder / "mine.csv", work.table.data, account=account)
    work.table.path.unlink()
    assert "Finish the release" in shown(client, work)
    assert made(client, work).trouble is None
    assert read_release(folder / "mine.csv").rows == 200


def test_two_apps_on_one_ledger_release_the_same_readings_at_once(tmp_path):
    """One wins; the other is refused in words, whatever it calls them."""
    file = write(people(3000), tmp_path / "people.csv")
    clients, works, folders = [], [], []
    for k in range(2):
        own = tmp_path / f"app{k}"
        own.mkdir()
        client = Client(own, desk=Desk(own, tmp_path / "privest-ledger.db"))
        work = client.desk.begin()
        work.table, work.spec = Table("people.csv", file), spec("people.csv")
        work.plan = make_plan(work.spec, str(file))
        clients.append(client)
        works.append(work)
        folders.append(own)
    names = ({}, {"subject": "others"})
    fields = [
        {"ticket": ticket(client, work), "sure": "yes"} | more
        for client, work, more in zip(clients, works, names)
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
    ended_jobs = [ended(work) for work in works]
    troubles = [job.trouble for job in ended_jobs]
    assert sorted(one is None for one in troubles) == [False, True], troubles
    loser = troubles.index(next(one for one in troubles if one))
    assert "the same public columns was released for the account" in troubles[loser]
    page = shown(clients[loser], works[loser])
    assert "the same public columns was released for the account" in page
    assert 'id="again"' in clients[loser].get(url(works[loser])).text  # the way out is there
    assert [one.name for one in folders[loser].iterdir()] == []
    assert len(real_entries(tmp_path)) == 1
    estimate(folders[1 - loser] / "ldl-release.csv")
    for client in clients:
        client.close()


def test_the_same_account_of_two_apps(tmp_path, folder):
    """The second one sees what the first has spent, when it looks and when it is late."""
    one, two = Client(folder), Client(folder)
    works = [one.planned(), two.planned()]
    late = ticket(two, works[1])
    made(one, works[0])
    assert "Released before" in shown(two, works[1])
    answer = two.post(url(works[1], "/make"), {"ticket": late, "sure": "yes"})
    assert answer.status_code == 422
    assert "nothing is left" in message(answer)
    one.close()
    two.close()


def test_a_known_account_keeps_its_budget(client, folder):
    with Ledger(client.desk.ledger) as ledger:
        ledger.account("s5 of diabetes", budget=Budget(level=5.0))
    work = client.planned()
    page = shown(client, work)
    assert "An account that is there keeps its budget" in page
    # another name in the field above may be a new account: its budget can be typed at once
    assert not re.search(r'id="budget"[^>]* disabled', page)
    made(client, work, budget="100")
    with Ledger(client.desk.ledger) as ledger:
        assert float(ledger.account("s5 of diabetes").remaining.level) == 1.0


def test_read_only_shows_the_plan_and_does_nothing(folder):
    client = Client(folder, read_only=True)
    work = client.planned()
    page = shown(client, work)
    assert "s5" in page
    assert "<form" not in page
    for rest in POSTS:
        answer = client.post(url(work, f"/{rest}"), {"sure": "yes", "ticket": "x"})
        assert answer.status_code == 403
        assert "read-only" in answer.text
    assert list(folder.iterdir()) == []
    client.close()


def test_no_reading_is_on_the_page_or_in_a_message(tmp_path, folder):
    """A column with one sentinel, and one cell that is no number: the release fails in words."""
    table = people(1100)
    table["ldl"][1050] = 31.41592653  # beyond the rows of which a plan sees that they are numbers
    file = write(table, tmp_path / "people.csv")
    client = Client(folder)
    work = client.desk.begin()
    work.table, work.spec = Table("people.csv", file), spec("people.csv")
    work.plan = make_plan(work.spec, str(file))
    made(client, work)
    assert "31.41592653" not in shown(client, work)
    file.write_text(file.read_text().replace("31.41592653", "3141592653oops"))
    work.plan = make_plan(work.spec, str(file))
    work.more.pop(jobs.CHOICE)
    job = made(client, work, subject="others", name="y.csv")
    assert job.trouble
    assert "3141592653" not in shown(client, work)
    client.close()


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
    assert len(work.more[jobs.TICKETS]) == jobs.MOST_TICKETS
    with pytest.raises(InvalidInput):
        jobs.as_name("a:b.csv", work.spec)
