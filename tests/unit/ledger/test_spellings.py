"""One subject, one budget: names that look alike are refused, and those of old ledgers are read."""

import numpy as np
import pytest

from privest.data.source import EMBEDDED
from privest.errors import InvalidInput
from privest.ledger import Account as LedgerAccount
from privest.ledger import Cost, Ledger
from privest.workflow.account import Account, account_name
from privest.workflow.plan import stated_plan
from privest.workflow.release import release
from workflow_tables import people, spec

COMPOSED, APART = "Ren\u00e9e", "Rene\u0301e"
SPELLINGS = {
    "a blank after it": ("Anna ", "Anna"),
    "a blank before it": (" Anna", "Anna"),
    "a no-break space after it": ("Anna\u00a0", "Anna"),
    "a line end": ("Anna\n", "Anna"),
    "an accent by itself": (APART, COMPOSED),
    "a control character": ("An\x07na", "Anna"),
    "a space of no width": ("An\u200bna", "Anna"),
}


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "l.db", marks=tmp_path / "marks") as ledger:
        yield ledger


@pytest.mark.parametrize("kind", SPELLINGS)
def test_another_spelling_is_no_other_budget(ledger, kind):
    other, right = SPELLINGS[kind]
    ledger.account(right, budget=1.0).spend(Cost(1.0))
    for ask in (ledger.account, ledger.history, lambda name: ledger.account(name, budget=1.0)):
        with pytest.raises(InvalidInput) as refused:
            ask(other)
        assert repr(right) in str(refused.value)
    with pytest.raises(InvalidInput):
        LedgerAccount(ledger, other).open(1.0)
    assert ledger.subjects() == [right]


@pytest.mark.parametrize("name", ["", " ", "\n", "a" * 201, 3, None])
def test_what_is_no_name(ledger, name):
    with pytest.raises(InvalidInput, match="subject"):
        ledger.account(name)


@pytest.mark.parametrize("exists", [True, False], ids=["a ledger", "a new ledger"])
def test_a_release_under_another_spelling_is_refused_before_it_is_drawn(
    ledger, tmp_path, monkeypatch, exists
):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    place = ledger if exists else tmp_path / "new.db"
    monkeypatch.setattr("privest.mechanism.source.Protected.add_noise", None)
    with pytest.raises(InvalidInput, match="write 'ldl'"):
        release(stated_plan(spec()), tmp_path / "z.csv", people(), account=Account(place, "ldl "))
    assert not (tmp_path / "z.csv").exists()
    assert not (tmp_path / "new.db").exists()


def test_accounts_of_before_go_on_under_their_names(ledger, monkeypatch):
    """What an earlier version opened is shown, verified and spent; nothing new is opened so."""
    with monkeypatch.context() as earlier:
        for module in ("_account", "_ledger"):
            earlier.setattr(f"privest.ledger.{module}.as_subject", str)
        for name in ("Anna", "Anna ", APART):
            own = ledger.account(name, budget=2.0)
            own.spend_and_write(Cost(1.0), 0, 1, {}, lambda: (np.array([7]), None))
    assert ledger.subjects() == ["Anna", "Anna ", APART]
    for name in ledger.subjects():
        own = ledger.account(name)
        assert [entry.kind for entry in ledger.history(name)] == ["account", "spent"]
        own.spend(Cost(1.0))
        assert own.remaining.level == 0
    ledger.verify()
    ledger.recover(dict.fromkeys(ledger.subjects(), 0))
    with pytest.raises(InvalidInput, match=f"write '{COMPOSED}'"):
        ledger.account(f"{APART} ")


def test_names_that_are_made_of_files_are_spelled_right():
    """A Mac writes the accents of file names apart."""
    assert account_name(spec(f"/data/{APART} .csv")) == f"ldl of {COMPOSED} .csv"
    assert account_name(spec(EMBEDDED)) == "ldl of diabetes"
