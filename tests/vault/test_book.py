"""The ledger's file: what it refuses, what it notices, and how it goes on after a loss."""

import json
import os
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.vault.cost import Budget, Cost
from privest.vault.ledger import Book

ONE = Cost({"mu2": Fraction(1), "rho": Fraction(1, 2), "information": Fraction(1)})


def opened(folder, name="ledger.db", **more):
    return Book(folder / name, marks=folder / "marks", **more)


def spend(book, line="a", start=0, stop=3, *, cost=ONE, subject="anna", numbers=(1, 2**80), **more):
    body = {"kind": "release", "subject": subject, "line": line, "start": start, "stop": stop}
    with book.writing():
        entry = book.append(body | {"cost": cost.text()} | more, list(numbers), ["t1", "t2"])
    book.advance()
    return entry


@pytest.fixture
def book(tmp_path):
    with opened(tmp_path) as made:
        with made.writing():
            made.set_budget("anna", Budget({"mu2": Fraction(2)}))
        made.advance()
        yield made


# --- what is written ------------------------------------------------------------------------------


def test_an_entry_is_read_as_it_was_written(book):
    entry = spend(book, note={"names": ["x0", "θ"]})
    again = book.entry(entry.seq)
    assert (again, again.body["note"]) == (entry, {"names": ["x0", "θ"]})
    assert book.numbers(entry.seq) == [1, 2**80]
    assert [found.seq for found in book.entries(tag="t1")] == [entry.seq]
    assert book.look_up("anna", "a", 2) == entry
    assert book.look_up("anna", "a", 3) is None
    assert book.next_index("anna", "a") == 3
    assert book.check() == entry


@pytest.mark.parametrize(("largest", "kind"), [(100, "<i2"), (2**20, "<i4"), (-(2**61), "<i8")])
def test_rows_take_as_little_room_as_they_can(book, largest, kind):
    rows = np.array([0, largest, -7])
    body = {"kind": "release", "subject": "anna", "line": "rows", "start": 0, "stop": 3}
    with book.writing():
        entry = book.append(body, rows)
    assert entry.body["numbers"]["type"] == kind
    np.testing.assert_array_equal(book.numbers(entry.seq), rows)


def test_numbers_of_several_parts(book, monkeypatch):
    monkeypatch.setattr("privest.vault.ledger.PART", 64)
    entry = spend(book, numbers=range(100))
    assert book.numbers(entry.seq) == list(range(100))


def test_a_range_is_released_once(book):
    spend(book, start=10, stop=20)
    for start, stop in ((10, 20), (0, 11), (19, 30), (12, 13), (0, 40)):
        with pytest.raises(InvalidInput, match="meet those of entry"):
            spend(book, start=start, stop=stop)
    spend(book, start=20, stop=21)
    spend(book, start=0, stop=10)


def test_an_entry_is_completed_once(book):
    first = spend(book)
    nothing = Cost(dict.fromkeys(("mu2", "rho", "information"), Fraction(0)))
    second = spend(book, "b", of=first.seq, cost=nothing)
    assert book.completed_by(first.seq) == second
    with pytest.raises(LedgerError):
        spend(book, "c", of=first.seq, cost=nothing)
    with pytest.raises(InvalidInput, match="of another subject"), book.writing():
        book.append({"kind": "release", "subject": "otto", "of": first.seq})


def test_nothing_is_written_of_a_transaction_that_fails(book):
    before = book.head

    def fail():
        with book.writing():
            book.append({"kind": "release", "subject": "anna", "start": 0, "stop": 1})
            book.entry(99)

    with pytest.raises(LedgerError, match="no entry 99"):
        fail()
    assert book.head == before == book.check()


@pytest.mark.parametrize(
    "name",
    ["cafe\u0301", " anna", "an\u200bna", "a\tb", "", "x" * 201, "a\u00a0b", "\ud800", 3],
)
def test_a_subject_has_one_spelling(book, name):
    with pytest.raises(InvalidInput), book.writing():
        book.set_budget(name, Budget({}))


def test_floats_are_not_written(book):
    with pytest.raises(InvalidInput, match="float"), book.writing():
        book.append({"kind": "release", "subject": "anna", "note": {"sigma": 0.5}})


# --- budgets --------------------------------------------------------------------------------------


def test_a_budget_holds_where_releases_meet(book):
    spend(book, "a", 0, 10)
    spend(book, "b", 5, 15)
    with pytest.raises(BudgetExceeded):
        spend(book, "c", 14, 30, cost=Cost({"mu2": Fraction(3, 2)}))
    with pytest.raises(BudgetExceeded):
        spend(book, "c", 9, 10, cost=Cost({"mu2": Fraction(1, 10**12)}))
    spend(book, "c", 10, 30)
    assert book.spent("anna").peak.amounts["mu2"] == 2
    assert book.spent("anna").trace == 10 + 10 + 20


def test_a_cost_without_a_unit_of_the_budget_is_refused(book):
    with pytest.raises(BudgetExceeded, match="not bounded"):
        spend(book, cost=Cost({"epsilon": Fraction(1, 1000)}))


def test_a_cost_of_other_neighbours_says_nothing_of_these(book):
    with pytest.raises(BudgetExceeded, match="not bounded"):
        spend(book, neighbours={"kind": "one person"})


def test_epsilon_and_delta(tmp_path):
    with opened(tmp_path) as book:
        with book.writing():
            limits = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6)}
            book.set_budget("anna", Budget(limits))
        spend(book, cost=Cost({"mu2": Fraction("0.056")}))  # μ = 0.2375: δ(1) = 8.6e-7
        with pytest.raises(BudgetExceeded):
            spend(book, "b", cost=Cost({"mu2": Fraction("0.002")}))


def test_a_lower_budget_counts_what_was_spent(book):
    spend(book)
    with book.writing():
        book.set_budget("anna", Budget({"mu2": Fraction(3, 2)}), change=True)
    with pytest.raises(BudgetExceeded):
        spend(book, "b")
    with pytest.raises(InvalidInput, match="another budget"), book.writing():
        book.set_budget("anna", Budget({"mu2": Fraction(9)}))


def test_a_cost_is_charged_as_it_is_written(book):
    third = Cost({"mu2": Fraction(2, 3)})
    for line in "ab":
        spend(book, line, cost=third)
    with pytest.raises(BudgetExceeded):  # three times 0.666666666666667
        spend(book, "c", cost=third)
    with pytest.raises(BudgetExceeded):
        book.require_budget("anna", third, 0, 1)


# --- what is noticed ------------------------------------------------------------------------------


def changed(path, sql, *values):
    """A change by a program that knows no triggers."""
    with sqlite3.connect(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in names.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(sql, values)


def test_every_flipped_bit_of_a_body_is_noticed(book):
    entry = spend(book)
    changed(book.path, "PRAGMA user_version = 2")
    with sqlite3.connect(book.path, isolation_level=None) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for bit in range(8 * len(entry.text)):
            text = bytearray(entry.text)
            text[bit // 8] ^= 1 << bit % 8
            connection.execute("UPDATE entry SET body = ? WHERE seq = ?", (bytes(text), entry.seq))
            with pytest.raises(LedgerError):
                book.check()
        connection.execute("UPDATE entry SET body = ? WHERE seq = ?", (entry.text, entry.seq))
    book.check()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entry SET subject = 'otto' WHERE seq = 3",
        "UPDATE entry SET line = NULL WHERE seq = 3",
        "UPDATE entry SET stop = 2 WHERE seq = 3",
        "UPDATE entry SET kind = 'retired' WHERE seq = 3",
        "UPDATE entry SET body = CAST(body AS TEXT) WHERE seq = 3",
        "UPDATE numbers SET data = '1'",
        "DELETE FROM numbers",
        "DELETE FROM tag",
        "INSERT INTO tag VALUES ('t3', 3)",
        "DELETE FROM entry WHERE seq = 2",
        "DELETE FROM entry WHERE seq = 3",
        "UPDATE meta SET value = zeroblob(32) WHERE name = 'key.1'",
        "UPDATE meta SET value = '00' WHERE name = 'id'",
    ],
)
def test_changes_of_the_file_are_noticed(book, tmp_path, sql):
    spend(book)
    book.close()
    changed(book.path, sql)
    with pytest.raises(LedgerError), opened(tmp_path) as again:
        again.check()


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entry SET kind = 'x'",
        "DELETE FROM entry WHERE seq = 3",
        "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE seq = 3",
        "INSERT OR REPLACE INTO entry SELECT 4, body, hash, kind, subject, line, start, stop, of "
        "FROM entry WHERE seq = 3",
        "INSERT INTO entry SELECT 9, body, hash, kind, subject, 'z', 0, 1, of FROM entry "
        "WHERE seq = 3",
        "INSERT OR REPLACE INTO numbers VALUES (3, 0, 'x')",
        "DELETE FROM numbers",
        "INSERT OR REPLACE INTO meta VALUES ('key.1', zeroblob(32))",
        "DELETE FROM meta",
        "INSERT OR REPLACE INTO tag SELECT * FROM tag",
        "DELETE FROM tag",
    ],
)
def test_triggers(book, sql, recursive):
    spend(book)
    with sqlite3.connect(book.path) as connection:
        connection.execute(f"PRAGMA recursive_triggers = {recursive}")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(sql)
    book.check()


def test_an_entry_with_unknown_needs_makes_the_file_read_only(book, tmp_path):
    spend(book, needs=["polynomials"])
    with opened(tmp_path) as again:
        assert again.look_up("anna", "a", 0).body["needs"] == ["polynomials"]
        with pytest.raises(LedgerError, match="polynomials"), again.writing():
            pass


def test_a_file_that_needs_a_later_writer_is_read_only(book, tmp_path):
    with sqlite3.connect(book.path) as connection:
        connection.execute("INSERT INTO meta VALUES ('min_writer.2', CAST('2.7' AS BLOB))")
        connection.execute("ALTER TABLE entry ADD COLUMN later")
        connection.execute("CREATE TABLE later (x)")
    with opened(tmp_path) as again:
        assert again.budget("anna") is not None
        with pytest.raises(LedgerError, match=r"2\.7 or later"), again.writing():
            pass


def test_files_that_are_no_ledger(tmp_path):
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    path.chmod(0o600)
    with pytest.raises(LedgerError, match="not a ledger"):
        opened(tmp_path)
    path.chmod(0o644)
    with pytest.raises(LedgerError, match="chmod 600"):
        opened(tmp_path)
    with pytest.raises(LedgerError, match="no ledger"):
        opened(tmp_path, "gone.db", create=False)


def test_a_file_with_a_torn_page_is_not_opened(book, tmp_path):
    for line in range(40):
        spend(book, str(line), line, line + 1)
    book.close()
    data = bytearray(book.path.read_bytes())
    data[3 * 4096 : 4 * 4096] = bytes(4096)
    book.path.write_bytes(data)
    with pytest.raises(LedgerError, match="damaged"):
        opened(tmp_path)


# --- marks ----------------------------------------------------------------------------------------


def refused(book, match):
    with pytest.raises(LedgerError, match=match):
        spend(book, "later")


def test_a_link_has_the_mark_of_its_target(book, tmp_path):
    (tmp_path / "link.db").symlink_to(book.path)
    with opened(tmp_path, "link.db") as linked:
        spend(linked)
    assert len(list((tmp_path / "marks").iterdir())) == 1
    assert book.check().body["line"] == "a"


def test_nothing_is_spent_without_a_mark(book, tmp_path):
    spend(book)
    shutil.rmtree(tmp_path / "marks")
    refused(book, "no mark")
    book.adopt()
    spend(book, "later")


def test_an_old_copy_is_recovered(book, tmp_path):
    spend(book, stop=5)
    book.backup(tmp_path / "copy.db")
    spend(book, "b", 0, 9)
    book.close()
    os.replace(tmp_path / "copy.db", book.path)
    with opened(tmp_path) as old:
        refused(old, "old copy")
        with pytest.raises(LedgerError, match="old copy"):
            old.adopt()
        with pytest.raises(InvalidInput, match="every account"):
            old.recover({})
        old.recover({"anna": 8})
        assert old.next_index("anna", "b") == 9
        with pytest.raises(BudgetExceeded, match="retired"):
            spend(old, "b", 8, 20)
        spend(old, "b", 9, 20)
        old.check()


def test_two_copies_do_not_spend_twice(book, tmp_path):
    shutil.copy2(book.path, tmp_path / "copy.db")
    with opened(tmp_path, "copy.db") as copy:
        refused(copy, "somewhere else")
        copy.adopt()
        spend(copy)
        refused(book, "old copy")


def test_a_ledger_that_is_gone_is_not_made_anew(book):
    spend(book)
    book.close()
    book.path.unlink()
    with pytest.raises(LedgerError, match="it is gone"):
        opened(book.path.parent)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_mark_survives_a_write_that_was_cut_short(book, tmp_path, slot):
    spend(book)
    spend(book, "b")
    (mark,) = (tmp_path / "marks").iterdir()
    data = bytearray(mark.read_bytes())
    data[1024 * slot + 100] ^= 1
    mark.write_bytes(data)
    book.require_newest()
    data[1024 * (1 - slot) + 100] ^= 1
    mark.write_bytes(data)
    refused(book, "damaged")


def test_a_mark_never_goes_back(book):
    spend(book)
    mark = book.mark.read()
    book.mark.advance(1, "00", mark.instance)
    assert book.mark.read() == mark


# --- keys, numbers that are forgotten -------------------------------------------------------------


def test_keys(book):
    weights = np.arange(6).reshape(3, 2)
    number, signature = book.sign(b"purpose\ntext")
    code = book.weights_mac(weights)
    with book.writing():
        book.rekey()
    assert book.sign(b"purpose\ntext") != (number, signature)
    book.require_signature(b"purpose\ntext", number, signature)
    book.require_signature(b"purpose\ntext", None, signature)
    assert book.has_weights(code, weights)
    assert not book.has_weights(code, weights.reshape(2, 3))
    for data, key in ((b"purpose\ntexts", number), (b"purpose\ntext", 2), (b"", 3)):
        with pytest.raises(InvalidInput, match="signature"):
            book.require_signature(data, key, signature)


def test_forgotten_numbers_are_gone_from_the_file(book):
    entry = spend(book, numbers=[123456789123456789])
    assert b"123456789123456789" in book.path.read_bytes()
    book.forget(entry.seq)
    assert b"123456789123456789" not in book.path.read_bytes()
    with pytest.raises(InvalidInput, match="forgotten"):
        book.numbers(entry.seq)
    assert book.spent("anna").peak.amounts["mu2"] == 1
    book.check()


def test_a_backup_is_a_ledger(book, tmp_path):
    entry = spend(book)
    book.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with opened(tmp_path, "copy.db") as copy:
        assert copy.numbers(entry.seq) == book.numbers(entry.seq)
        assert (copy.head, copy.sign(b"x")) == (book.head, book.sign(b"x"))


def test_a_child_process_opens_the_file_anew(book):
    spend(book)
    child = os.fork()
    if child == 0:
        try:
            spend(book, "child")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(book.check().text)["line"] == "child"
