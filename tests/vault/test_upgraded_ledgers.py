"""Ledgers of format 1, written anew: old chain, balances, numbers, signatures; killed, run again.

An amount of format 1 is a double, of format 2 a decimal of 40 digits that is not below it: sums of
n amounts differ by n·1e-39 of them at most. Random histories have amounts that are short decimals,
so that both formats refuse the same to the last digit.
"""

import contextlib
import os
import random
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from privest.errors import BudgetExceeded, LedgerError
from privest.ledger import Budget, Cost, Ledger
from privest.ledger import upgrade as upgrading
from privest.ledger.upgrade import old_hash, upgrade
from privest.vault.ledger import Book

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = [
    "ledgers/every-kind-0.2.db", "ledgers/matrix-0.2.db", "of-1.0/ledger.db", "kinds/ledger.db",
    "kinds/aggregate.db", "any-processor/ledger.db",
]  # fmt: skip


def put(name, folder):
    path = folder / "ledger.db"
    shutil.copy(GOLDEN / name, path)
    path.chmod(0o600)
    return path


def reopened(path):
    return Book(path, create=False, marks=path.parent / "marks")


def require_equal(book, ledger, rounding):
    """Balances of format 2 are those of format 1, where format 1 knows them."""
    for subject in ledger.subjects():
        account, old = book.spent(subject), ledger.account(subject)
        amount = old.spent
        pairs = [(account.trace, amount.trace), (account.peak.amounts.get("rho"), amount.rho)]
        pairs.append((account.peak.amounts.get("information"), amount.level))
        for new, known in pairs:
            assert (new is None) == (known is None)
            assert new is None or 0 <= new - known <= rounding * max(1, known)
        if amount.mu2 is not None:  # else a pure release, which now costs μ² too
            new = account.peak.amounts["mu2"]
            assert 0 <= new - amount.mu2 <= rounding * max(1, amount.mu2)
        assert account.floor <= old.next_index("no such line")


@pytest.mark.parametrize("name", FILES)
def test_golden_ledgers(name, tmp_path):
    old_file = put(name, tmp_path)
    with contextlib.closing(sqlite3.connect(old_file)) as connection:
        rows = connection.execute("SELECT seq, hash FROM entries").fetchall()
        numbers = dict(connection.execute("SELECT seq, data FROM numbers").fetchall())
    with pytest.raises(LedgerError, match="--adopt"):
        upgrade(old_file, marks=tmp_path / "marks")
    upgrade(old_file, marks=tmp_path / "marks", adopt=True)
    with reopened(old_file) as book:
        previous = "0" * 64
        for seq, digest in rows:
            was = book.entry(seq).body["was"]
            previous = old_hash(previous, was["text"])
            assert previous == was["hash"] == digest
        assert book.head.seq == len(rows) + 1
        for seq, data in numbers.items():
            assert book.data(seq) == data
            layout = book.entry(seq).body["numbers"]
            np.testing.assert_array_equal(
                book.numbers(seq), np.frombuffer(data, "<i8", layout["count"])
            )
        if "matrix" in name:
            assert book.spent("m").budget.limits == {"information": 2}
            assert book.spent("m").peak.amounts == {"information": 1}
            return
        other = tmp_path / "other"
        other.mkdir()
        with Ledger(put(name, other), create=False, marks=other / "marks") as ledger:
            require_equal(book, ledger, Fraction(1, 10**37))
            assert book.sign(b"text")[1] == ledger.sign(b"text")
    with pytest.raises(LedgerError, match="nothing to upgrade"):
        upgrade(old_file, marks=tmp_path / "marks")
    with pytest.raises(LedgerError, match="version 2"):
        Ledger(old_file, create=False, marks=tmp_path / "marks")


def test_what_was_known_of_every_kind(tmp_path):
    path = put("ledgers/every-kind-0.2.db", tmp_path)
    upgrade(path, marks=tmp_path / "marks", adopt=True)
    with reopened(path) as book:
        kinds = [entry.body["kind"] for entry in book.entries()]
        assert {"reserved", "completed", "retired", "budget", "adopted", "upgraded"} < set(kinds)
        assert book.look_up("a", "", 0).body["neighbours"] == {"kind": "one value"}
        budget = book.budget("b")
        assert budget.neighbours == {"kind": "one value", "by": "0.5"}
        assert budget.limits["delta"] < Fraction(1, 10**6) * (1 + Fraction(1, 10**15))
        assert book.next_index("a", "") == 10  # retired below


def test_an_old_ledger_is_refused_with_what_to_do(tmp_path):
    path = put("of-1.0/ledger.db", tmp_path)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="privest ledger upgrade"):
        reopened(path)
    assert path.read_bytes() == before


def with_mark(folder):
    """A ledger of format 1 with its mark, and a release."""
    with Ledger(folder / "ledger.db", marks=folder / "marks") as ledger:
        account = ledger.account("anna", budget=4.0)
        account.spend(Cost(1.0), stop=3)
    return folder / "ledger.db"


def test_a_ledger_with_its_mark_needs_no_word(tmp_path):
    path = with_mark(tmp_path)
    upgrade(path, marks=tmp_path / "marks")
    with reopened(path) as book:
        assert book.spent("anna").peak.amounts == {"information": 1}


def test_an_old_copy_is_not_upgraded(tmp_path):
    path = with_mark(tmp_path)
    copy = path.read_bytes()
    with Ledger(path, marks=tmp_path / "marks") as ledger:
        ledger.account("anna").spend(Cost(1.0))
    path.write_bytes(copy)
    with pytest.raises(LedgerError, match="old copy"):
        upgrade(path, marks=tmp_path / "marks", adopt=True)


def test_a_damaged_ledger_is_not_upgraded(tmp_path):
    path = with_mark(tmp_path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER entries_update")
        connection.execute("UPDATE entries SET stop = 2 WHERE stop = 3")
    with pytest.raises(LedgerError, match="damaged"):
        upgrade(path, marks=tmp_path / "marks")


def test_a_ledger_in_use_is_not_upgraded(tmp_path):
    path = with_mark(tmp_path)
    with (
        Ledger(path, marks=tmp_path / "marks") as ledger,
        ledger._store.writing(),
        pytest.raises(LedgerError, match="locked"),
    ):
        upgrade(path, marks=tmp_path / "marks")


class Killed(Exception):
    pass


@pytest.mark.parametrize("call", ["begin", "insert", "sync_folder", "mark_of", "replace"])
def test_killed_anywhere_and_run_again(tmp_path, monkeypatch, call):
    path = with_mark(tmp_path)
    old = path.read_bytes()

    move = os.replace

    def die(*_, **__):
        raise Killed

    def die_at_the_end(source, target):
        return die() if target == path else move(source, target)

    with monkeypatch.context() as patch:
        if call == "replace":
            patch.setattr(os, "replace", die_at_the_end)
        else:
            patch.setattr(upgrading, call, die)
        with pytest.raises(Killed):
            upgrade(path, marks=tmp_path / "marks")
    if call == "replace":  # the old file's mark is of the new one by now
        with Ledger(path, marks=tmp_path / "marks") as ledger:
            assert "old copy" in ledger.trouble
    elif path.read_bytes() == old:
        with Ledger(path, marks=tmp_path / "marks") as ledger:
            assert ledger.trouble is None
    upgrade(path, marks=tmp_path / "marks")
    with reopened(path) as book:
        book.check()
        assert book.spent("anna").peak.amounts == {"information": 1}


# --- random histories -----------------------------------------------------------------------------


def random_cost(choice, count):
    levels = [choice.randrange(1, 32) / 8 for _ in range(count)]
    information = choice.choice((None, levels[0], np.array(levels)))
    by = choice.choice((None, 0.5, 0.5, 2.0))
    private = {} if by is None else {"sensitivity": by}
    if by is not None:
        unit = choice.choice(("mu2", "epsilon", "rho"))
        private[unit] = choice.randrange(1, 20) / 64
    elif information is None:
        information = 0.25
    return Cost(information, **private)


def random_budget(choice):
    limits = {"level": 6.0, "trace": 60.0, "mu": 0.75, "rho": 0.3125}
    unit = choice.choice(tuple(limits))
    return Budget(**{unit: limits[unit]}, sensitivity=0.5)


def agree(seed, ledger, book):
    """One history in both formats: the same is refused, the same is spent."""
    choice = random.Random(seed)
    subject = f"history {seed}"
    budget = random_budget(choice)
    account = ledger.account(subject, budget=budget)
    write(book, {"kind": "account", "budget": upgrading._new_budget(budget.to_dict())}, subject)
    for _ in range(choice.randrange(1, 9)):
        start = choice.randrange(0, 12)
        stop = start + choice.randrange(1, 6)
        cost = random_cost(choice, stop - start)
        answers = []
        try:
            account.spend(cost, start=start, stop=stop)
            answers.append("spent")
        except BudgetExceeded:
            answers.append("refused")
        record = cost.to_dict()
        body = {"kind": "release", "start": start, "stop": stop}
        body["cost"] = upgrading._new_cost(record, stop - start)
        body["neighbours"] = upgrading._neighbours(record["move"])
        try:
            write(book, body, subject)
            answers.append("spent")
        except BudgetExceeded:
            answers.append("refused")
        if budget.mu is None or record["epsilon"] is None:  # pure ε has a cost in μ² now
            assert answers[0] == answers[1], (seed, cost, answers)
        if answers[0] != answers[1]:
            return
    old, new = account.spent, book.spent(subject)
    for known, amount in ((old.level, "information"), (old.rho, "rho"), (old.mu2, "mu2")):
        total = new.peak.amounts.get(amount)
        if known is not None:
            assert 0 <= total - known <= Fraction(1, 10**37)
    assert (old.trace is None) == (new.trace is None)
    assert old.trace is None or 0 <= new.trace - old.trace <= Fraction(1, 10**36)


def write(book, body, subject):
    with book.writing():
        budget = body.pop("budget", None)
        book.append(body | {"subject": subject} | ({} if budget is None else {"budget": budget}))


def compared(seeds, folder):
    with (
        Ledger(folder / "old.db", marks=folder / "marks") as ledger,
        Book(folder / "new.db", marks=folder / "marks") as book,
    ):
        for seed in seeds:
            agree(seed, ledger, book)


def test_balances_agree(tmp_path):
    compared(range(60), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_balances_agree_on_ten_thousand_histories(tmp_path, part):
    compared(range(1000 * part, 1000 * (part + 1)), tmp_path)
