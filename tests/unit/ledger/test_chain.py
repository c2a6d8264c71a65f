"""The chain: every edit is seen; two waits for the disk an entry; others' mistakes as tests."""

import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traced
from fuzz import ledgers
from privest.errors import BudgetExceeded, LedgerError
from privest.ledger import Budget, Cost, Head, Ledger
from privest.ledger._ledger import verify_rows
from privest.ledger._store import COLUMNS, FIRST, Row, Store

LEDGER = ledgers.made()


def rows_of(data):
    raw = sqlite3.connect(":memory:")
    raw.deserialize(data[:18] + b"\1\1" + data[20:])
    found = [Row._make(row) for row in raw.execute(f"SELECT {COLUMNS} FROM entries ORDER BY seq")]
    numbers = dict(raw.execute("SELECT seq, data FROM numbers"))
    raw.close()
    return found, numbers


ROWS, NUMBERS = rows_of(LEDGER)


class Lying(Store):
    """A store of rows in memory, to be verified."""

    def __init__(self, rows, numbers):
        self.path, self.found, self.data = "ledger.db", rows, numbers

    def close(self):
        pass

    def rows(self, clause, *values):
        return iter(self.found)

    def numbers(self, row):
        self._connection = self
        return super().numbers(row)

    def execute(self, sql, values=()):
        self.sql, self.values = sql, values
        return self

    def fetchone(self):
        if "count" in self.sql:
            return (len(self.data),)
        return (self.data.get(self.values[0], b""),)


def verify(rows, numbers=NUMBERS):
    store = Lying(rows, numbers)
    verify_rows(store, store)


def test_the_ledger_itself_is_right():
    verify(ROWS)
    kinds = {row.kind for row in ROWS}
    assert kinds == {
        "created", "account", "raised", "spent", "reserved", "completed", "burnt", "adopted",
    }  # fmt: skip


@given(st.data())
@settings(max_examples=300)
def test_every_edited_letter_is_seen(data):
    at = data.draw(st.integers(0, len(ROWS) - 1))
    field = data.draw(st.sampled_from(Row._fields))
    value = getattr(ROWS[at], field)
    if isinstance(value, str):
        place = data.draw(st.integers(0, max(len(value) - 1, 0)))
        letter = data.draw(st.characters(codec="utf-8", min_codepoint=32, max_codepoint=126))
        new = value[:place] + letter + value[place + 1 :]
    else:
        new = data.draw(st.sampled_from([None, 0, 1, -1, (value or 0) + 1, "x", 2**40]))
    if new == value:
        return
    rows = [*ROWS[:at], ROWS[at]._replace(**{field: new}), *ROWS[at + 1 :]]
    with pytest.raises(LedgerError):
        verify(rows)


@pytest.mark.parametrize("change", ["out", "twice", "swapped"])
@pytest.mark.parametrize("at", range(len(ROWS) - 1))
def test_entries_cannot_be_taken_out_or_moved(at, change):
    """A hash without the previous one sees an edited entry, and none that is gone or moved."""
    rows = list(ROWS)
    if change == "out":
        del rows[at]
    elif change == "twice":
        rows.insert(at, rows[at])
    else:
        rows[at : at + 2] = rows[at : at + 2][::-1]
    with pytest.raises(LedgerError):
        verify(rows)
    renumbered = [row._replace(seq=k) for k, row in enumerate(rows, start=1)]
    with pytest.raises(LedgerError):
        verify(renumbered)
    assert ROWS[at + 1].digest(FIRST) != ROWS[at + 1].digest(ROWS[at].hash)


@pytest.mark.parametrize("seq", sorted(NUMBERS))
def test_every_byte_of_the_numbers_is_seen(seq):
    for place in range(len(NUMBERS[seq])):
        changed = bytearray(NUMBERS[seq])
        changed[place] ^= 1
        with pytest.raises(LedgerError, match="numbers"):
            verify(ROWS, NUMBERS | {seq: bytes(changed)})
    with pytest.raises(LedgerError):
        verify(ROWS, {k: v for k, v in NUMBERS.items() if k != seq})
    with pytest.raises(LedgerError, match="belong to no entry"):
        verify(ROWS, NUMBERS | {10**6: b"x"})


def rehashed(rows):
    """The chain of other content, made right."""
    found, previous = [], FIRST
    for row in rows:
        found.append(row._replace(hash=row.digest(previous)))
        previous = found[-1].hash
    return found


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"information":"1p0"', '"information":"0p0"', "totals"),  # a smaller spend
        ('"information":"1p0"', '"information":"-1p0"', "totals"),
        ('"information":"1p0"', '"information":"1p9"', "totals"),
        ('["1p0","0p0"', '["1p-1074","0p0"', "totals"),  # smaller totals
        ('"level":"9p0"', '"level":"1p-1"', "over the budget"),
    ],
)
def test_totals_are_summed_again(old, new, what):
    """A chain that is right does not make totals right."""
    at = next(k for k, row in enumerate(ROWS) if old in row.body)
    rows = list(ROWS)
    rows[at] = rows[at]._replace(body=rows[at].body.replace(old, new, 1))
    with pytest.raises(LedgerError, match=what):
        verify(rehashed(rows))


def test_times_do_not_go_back():
    rows = list(ROWS)
    rows[5] = rows[5]._replace(time=rows[4].time - 1)
    with pytest.raises(LedgerError, match="time"):
        verify(rehashed(rows))


@pytest.mark.skipif(not traced.WORKS, reason="counts system calls of Linux on x86-64")
def test_an_entry_waits_for_the_disk_twice(tmp_path):
    """One fsync of the log at the commit, one of the mark; more only when the log is moved into
    the file, once in a thousand pages.
    """
    entries = 25
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.account("a", budget=Budget(level=1.0))

    def work():
        with Ledger(tmp_path / "ledger.db") as own:
            own.account("a").spend(Cost(1.0))  # the log has begun
            traced.marker()
            for k in range(1, entries + 1):
                own.account("a").spend_and_write(Cost(1.0), k, 1, {}, lambda: (np.array([1]), None))
            traced.marker()

    calls = traced.calls_of(work)
    first = calls.index("marker")
    within = calls[first + 1 : calls.index("marker", first + 1)]
    assert len(within) == 2 * entries
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert len(ledger.history("a")) == entries + 2


def test_nothing_is_released_before_it_is_spent(tmp_path):
    """When the numbers exist outside, the entry is on disk: another process sees it."""
    with Ledger(tmp_path / "l.db") as ledger, Ledger(tmp_path / "l.db") as other:
        ledger.account("a", budget=Budget(level=1.0))
        seen = []

        def draw():
            seen.append(other.account("a").spent.level)  # not yet
            return np.array([1]), None

        ledger.account("a").spend_and_write(Cost(1.0), 0, 1, {}, draw)
        assert seen == [0]
        assert other.account("a").spent.level == 1


def test_a_refresh_gives_no_new_budget(tmp_path):
    """Opened again, or opened by another: the same readings, the same budget."""
    for _ in range(3):
        with Ledger(tmp_path / "l.db") as ledger:
            ledger.account("a", budget=Budget(level=1.0))
            if ledger.account("a").spent.level:
                with pytest.raises(BudgetExceeded):
                    ledger.account("a").spend(Cost(0.75))
            else:
                ledger.account("a").spend(Cost(0.75))
    with Ledger(tmp_path / "l.db") as ledger:
        assert ledger.account("a").spent.level == Fraction(3, 4)


def test_heads_are_texts(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        head = ledger.head
        assert str(head) == f"{head.ledger}:1:{head.hash}"
        assert ledger.verify(Head(*head.to_dict().values())) == head
