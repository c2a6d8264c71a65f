"""Before a release: what it will spend and leave, without spending or making anything."""

import importlib
import os

import pytest

from privest.errors import BudgetExceeded, LedgerError
from privest.files import part_path
from privest.ledger import Budget, Ledger
from privest.workflow.account import Account, account_name
from privest.workflow.plan import stated_plan
from privest.workflow.release import release
from privest.workflow.spec import Privacy
from workflow_tables import LEVEL, people, spec

module = importlib.import_module("privest.workflow.release")


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture
def terms():
    return stated_plan(spec(privacy=Privacy(LEVEL, delta=1e-6, sensitivity=1.0)))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "l.db"


def look(place, terms, subject="ldl", budget=None, table=None, **more):
    with Account(place, subject, budget, **more) as account:
        return account.preview(terms, table)


def test_a_ledger_that_is_not_there_is_not_made(terms, place, tmp_path):
    found = look(place, terms)
    assert (found.known, found.refusal, found.earlier, found.unfinished) == (False, None, (), False)
    assert (found.level, found.budget, found.spent, found.remaining) == (LEVEL, LEVEL, 0, 0)
    assert look(place, terms, budget=5.0).remaining == 3.0
    low = look(place, terms, budget=1.0)
    assert "more than the budget" in low.refusal
    assert low.remaining == -1.0
    assert not low.fits
    assert os.listdir(tmp_path) == []


def test_it_is_what_a_release_does(terms, table, place, tmp_path):
    before = look(place, terms, budget=6.0)
    with Account(place, "ldl", 6.0) as account:
        release(terms, tmp_path / "z.csv", table, account=account)
    with Ledger(place) as ledger:
        assert float(ledger.account("ldl").remaining.level) == before.remaining == 4.0
        head = ledger.head
    after = look(place, terms)
    assert after.known
    assert "was released on" in after.refusal
    assert (after.budget, after.spent, after.remaining) == (6.0, 2.0, 2.0)
    assert [float(one.cost.information) for one in after.earlier] == [LEVEL]
    assert after.refusal_again is None
    again = look(place, terms, again=True)
    assert (again.refusal, again.remaining, again.fits) == (None, 2.0, True)
    much = look(place, stated_plan(spec(privacy=Privacy(4.5))), again=True)
    assert "more than the budget" in much.refusal
    assert much.remaining == -0.5
    assert not much.fits
    logs = stated_plan(spec(transform="log", privacy=Privacy(1.0)))
    assert "another measure" in look(place, logs).refusal_again
    with Ledger(place) as ledger:
        assert ledger.head == head, "a preview has written"
    assert after.to_dict()["earlier"][0]["subject"] == "ldl"


def test_while_another_process_has_the_ledger_open(terms, place):
    """Also within its transaction: readers of the file do not wait."""
    with Ledger(place) as other:
        other.account("ldl", budget=Budget(level=3.0))
        with other._guard.spending():
            found = look(place, terms)
        assert found.known
        assert found.budget == 3.0
        assert found.remaining == 1.0


def test_a_ledger_that_is_gone_or_damaged(terms, table, place, tmp_path):
    with Account(place, "ldl") as account:
        release(terms, tmp_path / "z.csv", table, account=account)
    kept = place.rename(tmp_path / "elsewhere")
    found = look(place, terms)
    assert "there was a ledger" in found.refusal
    assert not found.known
    assert not place.exists()
    with Account(place, "new") as account, pytest.raises(LedgerError, match="there was a ledger"):
        release(terms, tmp_path / "y.csv", table, account=account)
    assert not part_path(tmp_path / "y.csv").exists(), "refused before anything was drawn"
    kept.rename(place)
    place.write_bytes(b"no ledger" * 1000)
    found = look(place, terms)
    assert found.refusal
    assert not found.known


def test_a_draft_that_is_paid_for_is_finished(terms, table, place, tmp_path, monkeypatch):
    target = tmp_path / "z.csv"

    def killed(*args):
        raise SystemExit

    monkeypatch.setattr(module, "_write_document", killed)
    with Account(place, "ldl") as account, pytest.raises(SystemExit):
        release(terms, target, table, account=account)
    monkeypatch.undo()
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    found = look(place, terms, table=target)
    assert found.unfinished
    assert found.refusal is None
    assert found.remaining == 0
    assert not look(place, terms, table=tmp_path / "y.csv").unfinished
    with Account(place, "ldl") as account:
        release(terms, target, table, account=account)
    assert not look(place, terms, table=target).unfinished
    with Account(place, "ldl") as account, pytest.raises(BudgetExceeded):
        release(terms, tmp_path / "y.csv", table, account=account)
    part_path(tmp_path / "y.csv").write_bytes(b"half")
    assert not look(place, terms, table=tmp_path / "y.csv").unfinished


def test_the_name_of_an_account():
    assert account_name(spec("/data/people.csv")) == "ldl of people.csv"
    assert account_name(spec("diabetes")) == "ldl of diabetes"
