"""Two who release the same readings at once: between the last look at the ledger and the entry."""

import os

import pytest

from privest.errors import BudgetExceeded, InvalidInput
from privest.ledger import Budget, Ledger
from privest.workflow.account import Account
from privest.workflow.plan import stated_plan
from privest.workflow.release import release
from privest.workflow.spec import Privacy
from workflow_tables import LEVEL, people, spec


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


@pytest.fixture(scope="module")
def table():
    return people()


class Late(Ledger):
    """A ledger on which others are quicker: they come just before an entry is written."""

    def account(self, *args, **more):
        account = super().account(*args, **more)
        write = account.spend_and_write

        def late(*args, **more):
            self.others()
            return write(*args, **more)

        account.spend_and_write = late
        return account


def raced(tmp_path, table, first, second, terms=None):
    """`second` releases while `first` is about to; both name a subject and other options."""
    terms = terms or stated_plan(spec())
    place = tmp_path / "l.db"
    with Ledger(place) as ledger:
        ledger.account("ldl", budget=Budget(level=9 * LEVEL))

    def others():
        with Account(place, **second["account"]) as account:
            release(second.get("terms", terms), tmp_path / "y.csv", table, account=account)

    late = Late(place)
    late.others = others
    with late, pytest.raises((InvalidInput, BudgetExceeded)) as refused:
        release(terms, tmp_path / "z.csv", table, account=Account(late, **first))
    with Ledger(place) as ledger:
        ledger.verify()
        spent = [one for one in ledger.history() if one.cost is not None]
    assert len(spent) == 1
    assert not [name for name in os.listdir(tmp_path) if "z.csv" in name]
    return str(refused.value)


def test_under_another_name(tmp_path, table):
    words = raced(tmp_path, table, {"subject": "ldl"}, {"account": {"subject": "others"}})
    assert "released for the account 'others'" in words


def test_a_refused_race_leaves_no_account(tmp_path, table):
    raced(tmp_path, table, {"subject": "new"}, {"account": {"subject": "others"}})
    with Ledger(tmp_path / "l.db") as ledger:
        assert ledger.subjects() == ["ldl", "others"]


def test_under_the_same_name(tmp_path, table):
    words = raced(tmp_path, table, {"subject": "ldl"}, {"account": {"subject": "ldl"}})
    assert "another process has released" in words


def test_in_another_measure_of_the_same_account(tmp_path, table):
    """Their keys differ and the budget would allow both; levels in two measures do not add up."""
    logs = stated_plan(spec(transform="log", privacy=Privacy(LEVEL)))
    second = {"account": {"subject": "ldl"}, "terms": logs}
    words = raced(tmp_path, table, {"subject": "ldl"}, second)
    assert "another process has released measurements of this account meanwhile" in words


def test_other_readings_of_the_same_account(tmp_path, table):
    place = tmp_path / "l.db"
    with Ledger(place) as ledger:
        ledger.account("ldl", budget=Budget(level=9 * LEVEL))

    def others():
        with Account(place, "ldl") as account:
            release(stated_plan(spec()), tmp_path / "y.csv", people(seed=5), account=account)

    late = Late(place)
    late.others = others
    with late, pytest.raises(BudgetExceeded, match="meanwhile"):
        release(stated_plan(spec()), tmp_path / "z.csv", table, account=Account(late, "ldl"))
