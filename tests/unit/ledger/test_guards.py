"""What a ledger must not go on with: old copies, copies used by two, damage, clock and disk."""

import json
import os
import shutil
import sqlite3
import stat
import time

import numpy as np
import pytest

from ledger_at import at
from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.ledger import Budget, Cost, Ledger, discard
from privest.ledger import _store as store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with Ledger(path) as opened:
        opened.account("a", budget=Budget(level=100.0))
        yield opened


def send(ledger, start, value=1):
    """Release index `start` with this integer, or what was released before."""
    return (
        ledger.account("a")
        .spend_and_write(Cost(1.0), start, 1, {}, lambda: (np.array([value]), None))
        .integers[0]
    )


def copy_of(path, place):
    """The file as a backup program copies it: whole, with its log."""
    for ending in ("", "-wal"):
        if os.path.exists(f"{path}{ending}"):
            shutil.copy2(f"{path}{ending}", f"{place}{ending}")
    return place


def restore(backup, path):
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(f"{path}{ending}"):
            os.unlink(f"{path}{ending}")
    return copy_of(backup, path)


# --- old copies -----------------------------------------------------------------------------------


def backed_up(ledger, path, tmp_path):
    """A ledger that was copied at index 1, sent indices 2 and 3, and was restored."""
    for k in range(2):
        send(ledger, k, value=10 + k)
    backup = copy_of(path, tmp_path / "backup.db")
    for k in range(2, 4):
        send(ledger, k, value=10 + k)
    ledger.close()
    restore(backup, path)
    return Ledger(path)


def test_an_old_copy_draws_nothing(ledger, path, tmp_path):
    with backed_up(ledger, path, tmp_path) as old:
        assert "old copy" in old.trouble
        for start in (2, 4, None):
            with pytest.raises(LedgerError, match="old copy"):
                send(old, start, value=99)
        with pytest.raises(LedgerError, match="old copy"):
            old.account("a").spend(Cost(1.0), start=9)
        with pytest.raises(LedgerError, match="recover"):
            old.adopt()  # that would draw new noise for 2 and 3
        assert len(old.history("a")) == 3  # it may be read


def test_an_old_copy_in_place_of_the_file_keeps_its_inode(ledger, path, tmp_path):
    """cp backup ledger.db: the same file as the system sees it, with the old content."""
    send(ledger, 0)
    ledger.close()
    content = path.read_bytes()
    with Ledger(path) as newer:
        send(newer, 1)
    path.write_bytes(content)
    with Ledger(path) as old, pytest.raises(LedgerError, match="old copy"):
        send(old, 1, value=99)


def test_recovered_by_retiring(ledger, path, tmp_path):
    with backed_up(ledger, path, tmp_path) as old:
        with pytest.raises(InvalidInput, match="every account"):
            old.recover({})
        old.recover({"a": 3})
        assert old.trouble is None
        assert [send(old, k, value=99) for k in range(2)] == [10, 11]  # what it knows, as it was
        for start in (2, 3):
            with pytest.raises(BudgetExceeded, match="retired"):
                send(old, start, value=99)
        assert old.account("a").next_index() == 4
        assert send(old, 4, value=14) == 14
        old.verify()


def test_after_a_recovery_the_newer_one_is_refused(ledger, path, tmp_path):
    for k in range(2):
        send(ledger, k)
    backup = copy_of(path, tmp_path / "backup.db")
    send(ledger, 2)
    ledger.close()
    newer = copy_of(path, tmp_path / "newer.db")
    with Ledger(restore(backup, path)) as old:
        old.recover({"a": 2})
        send(old, 3)
    with Ledger(restore(newer, path)) as back, pytest.raises(LedgerError, match="old copy"):
        send(back, 3, value=99)


def test_a_lost_trace_is_used_up(path, tmp_path):
    with Ledger(path) as ledger:
        ledger.account("a", budget=Budget(trace=10.0))
        backup = copy_of(path, tmp_path / "backup.db")
        ledger.account("a").spend(Cost(9.0))
    with Ledger(restore(backup, path)) as old:
        old.recover({"a": 0})
        with pytest.raises(BudgetExceeded):
            old.account("a").spend(Cost(2.0), start=5)
        old.verify()


def test_a_subject_of_lost_entries(path, tmp_path):
    """Its account was opened after the backup; opened again, it begins where it was."""
    with Ledger(path) as ledger:
        backup = copy_of(path, tmp_path / "backup.db")
        ledger.account("new", budget=Budget(level=1.0))
        ledger.account("new").spend(Cost(1.0), start=0, stop=5)
    with Ledger(restore(backup, path)) as old:
        old.recover({"new": 4})
        old.account("new", budget=Budget(level=1.0))
        with pytest.raises(BudgetExceeded, match="retired"):
            old.account("new").spend(Cost(1.0), start=4)
        old.account("new").spend(Cost(1.0), start=5)
        old.verify()


# --- copies and moves -----------------------------------------------------------------------------


def test_a_copy_used_by_two(ledger, path, tmp_path):
    send(ledger, 0, value=10)
    with Ledger(copy_of(path, tmp_path / "copy.db")) as copy:
        with pytest.raises(LedgerError, match="copy"):
            send(copy, 1, value=99)
        assert send(ledger, 1, value=11) == 11  # the first goes on
    with Ledger(copy_of(path, tmp_path / "other.db")) as copy:
        copy.adopt()
        assert send(copy, 2, value=12) == 12
        with pytest.raises(LedgerError, match="copy"):  # now the first is the copy
            send(ledger, 2, value=99)


def test_moved_is_not_copied(ledger, path, tmp_path):
    send(ledger, 0)
    ledger.close()
    moved = tmp_path / "elsewhere" / "moved.db"
    moved.parent.mkdir()
    path.rename(moved)
    with Ledger(moved) as opened:
        send(opened, 1)


def test_on_another_machine_there_is_no_mark(ledger, path, tmp_path):
    ledger.close()
    with Ledger(path, marks=tmp_path / "others") as opened:
        with pytest.raises(LedgerError, match="no mark"):
            send(opened, 0)
        opened.adopt()
        send(opened, 0)


def test_a_deleted_ledger_gives_no_new_budget(ledger, path):
    """A refresh that gives the same rows a new budget."""
    ledger.close()
    path.unlink()
    with pytest.raises(LedgerError, match="new budget"):
        Ledger(path)
    discard(path)
    with Ledger(path) as fresh:
        assert fresh.subjects() == []


def test_replaced_while_it_is_open(ledger, path, tmp_path):
    send(ledger, 0)
    os.replace(copy_of(path, tmp_path / "copy.db"), path)
    with pytest.raises(LedgerError):
        send(ledger, 1)


def test_marks_are_whole_or_the_ledger_stops(ledger, path):
    mark = ledger._guard.file.path
    send(ledger, 0)
    data = mark.read_bytes()
    older = ledger._guard.file.read()
    for slot in (0, 1):  # one slot is cut short: the other stands
        spoiled = bytearray(data)
        spoiled[slot * 1024 + 70] ^= 1
        mark.write_bytes(bytes(spoiled))
        assert abs(ledger._guard.file.read().sequence - older.sequence) <= 1
    for bad in (b"", data[:1024], b"x" * 2048, data + data):
        mark.write_bytes(bad)
        with pytest.raises(LedgerError, match="damaged"):
            send(ledger, 1)
    mark.unlink()
    with pytest.raises(LedgerError, match="no mark"):
        send(ledger, 1)


# --- the machine ----------------------------------------------------------------------------------


def test_the_clock_goes_back(ledger, monkeypatch):
    send(ledger, 0)
    now = time.time_ns()
    monkeypatch.setattr(store.time, "time_ns", lambda: now - 3_600_000_000_000)
    with pytest.raises(LedgerError, match=r"clock went back by (3599|35[89]\d|3600)"):
        send(ledger, 1)
    ledger.adopt()
    send(ledger, 1)
    ledger.verify()


def test_every_connection_is_safe(ledger, path):
    connection = ledger._store._connected()
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(f"{path}-wal").st_mode) == 0o600


def test_a_connection_that_is_not_safe_is_refused(path, ledger, monkeypatch):
    """An SQLite that does not do what it was told."""
    ledger.close()
    real = sqlite3.connect

    class Deaf(sqlite3.Connection):
        def execute(self, sql, *values):
            return super().execute(sql.replace("= FULL", "= OFF"), *values)

    monkeypatch.setattr(
        store.sqlite3, "connect", lambda *args, **how: real(*args, factory=Deaf, **how)
    )
    with pytest.raises(LedgerError, match="synchronous 0"):
        Ledger(path)


def test_a_full_disk(ledger, monkeypatch):
    """SQLite has no more pages: the entry is refused, and nothing was spent or drawn into it."""
    send(ledger, 0)
    connection = ledger._store._connected()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="full"):
        ledger.account("a").spend_and_write(
            Cost(1.0), 1, 1, {}, lambda: (np.zeros(100_000, dtype=np.int64), None)
        )
    connection.execute("PRAGMA max_page_count = 1000000")
    assert at(ledger.account("a"), 1).spent.level == 0
    send(ledger, 1)
    ledger.verify()


def test_a_mark_that_cannot_be_written_stops_the_release(ledger, monkeypatch):
    """The spend is on disk; the numbers do not leave, and are those that leave later."""

    def failing(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        for value in (10, 99):  # new, then sent again: the mark is not on disk
            with pytest.raises(LedgerError, match="No space left"):
                send(ledger, 0, value=value)
    assert at(ledger.account("a"), 0).spent.level == 1
    assert send(ledger, 0, value=99) == 10


def test_nothing_is_sent_again_with_a_read_only_state_folder(ledger, monkeypatch):
    """Whether an old copy would be noticed later cannot be made sure of."""
    send(ledger, 0, value=10)
    mark, real = ledger._guard.file.path, os.open

    def opened(path, flags, *more):  # root may write everywhere
        if os.fspath(path) == os.fspath(mark) and flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(LedgerError, match="cannot be written"):
        send(ledger, 0, value=99)


@pytest.mark.parametrize("place", ["file", "folder"])
def test_read_only(ledger, path, monkeypatch, place):
    ledger.close()
    real, closed = os.access, path if place == "file" else path.parent

    def access(where, mode):  # root may write everywhere
        return real(where, mode) and not (os.fspath(where) == os.fspath(closed) and mode & os.W_OK)

    monkeypatch.setattr(store.os, "access", access)
    with pytest.raises(LedgerError, match="read-only"):
        Ledger(path)


def test_a_call_that_the_system_lacks_is_no_damage(ledger, path, monkeypatch):
    with monkeypatch.context() as lacking:
        lacking.delattr(os, "O_RDONLY")
        with pytest.raises(LedgerError, match=r"cannot be used: .*'O_RDONLY'. Nothing was rel"):
            send(ledger, 0)
    ledger.verify()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes")
def test_others_may_not_read_it(ledger, path):
    ledger.close()
    path.chmod(0o640)
    with pytest.raises(LedgerError, match="chmod 600"):
        Ledger(path)


MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / {data} rw - {kind} server:/export rw
31 30 8:2 / {data}/local\\040disk rw - xfs /dev/sdb1 rw
"""


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_a_network_file_system(tmp_path, monkeypatch, kind):
    mounts = tmp_path / "mountinfo"
    data = (tmp_path / "data").resolve()
    (data / "local disk").mkdir(parents=True)
    mounts.write_text(MOUNTS.format(kind=kind, data=data))
    monkeypatch.setattr(store, "MOUNTS", mounts)
    with pytest.raises(LedgerError, match=f"network file system \\({kind}\\)"):
        Ledger(data / "ledger.db")
    assert not (data / "ledger.db").exists()
    Ledger(data / "local disk" / "ledger.db").close()
    Ledger(tmp_path / "database.db").close()  # beside it, not in it


def test_a_busy_ledger_says_so(path, ledger):
    with (
        Ledger(path, busy=0.05) as other,
        ledger._guard.spending(),
        pytest.raises(LedgerError, match="another process holds it"),
    ):
        other.account("a").spend(Cost(1.0))
    ledger.account("a").spend(Cost(1.0))


# --- damage ---------------------------------------------------------------------------------------


def doctored(path, *statements):
    """Change the file as somebody with SQLite can, and put everything else as it was."""
    raw = sqlite3.connect(path, isolation_level=None)
    kept = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in kept:
        raw.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        raw.execute(*statement) if isinstance(statement, tuple) else raw.execute(statement)
    for _, sql in kept:
        raw.execute(sql)
    raw.close()


def test_append_only(ledger, path):
    send(ledger, 0)
    raw = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "UPDATE entries SET subject = 'b'", "DELETE FROM entries WHERE seq = 3",
        "DELETE FROM numbers", "UPDATE numbers SET data = x'00'", "UPDATE secret SET data = x'00'",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 2",
        "INSERT OR REPLACE INTO entries (seq, time, kind, body, hash) VALUES (2, 1, 'x', 'y', 'z')",
    ):  # fmt: skip
        with pytest.raises(sqlite3.Error):
            raw.execute(statement)
    raw.close()
    ledger.verify()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE entries SET body = replace(body, '1p0', '0p0') WHERE seq = 3", "chain is broken"),
        ("DELETE FROM entries WHERE seq = 3", "chain is broken"),
        ("DELETE FROM entries", "no entries"),
        ("UPDATE entries SET hash = upper(hash) WHERE seq = 4", "chain is broken"),
        ("CREATE TABLE more (x)", "tables"),
        ("DROP INDEX drawn_once", "tables"),
        ("PRAGMA user_version = 2", "version 2"),
        ("PRAGMA application_id = 7", "not a ledger"),
    ],
)
def test_a_broken_chain_is_not_opened(ledger, path, statement, what):
    for k in range(3):
        send(ledger, k)
    ledger.close()
    doctored(path, statement)
    with pytest.raises(LedgerError, match=what):
        Ledger(path)


def test_damage_under_an_open_ledger(ledger, path):
    send(ledger, 0)
    doctored(path, "UPDATE entries SET subject = 'b' WHERE seq = 3")
    with pytest.raises(LedgerError):
        Ledger(path)
    doctored(path, "DELETE FROM entries WHERE seq = 3")
    with pytest.raises(LedgerError, match="a moment ago"):
        send(ledger, 1)


def test_numbers_that_were_changed_are_not_sent(ledger, path):
    send(ledger, 0, value=10)
    ledger.close()
    doctored(path, ("UPDATE numbers SET data = ?", (np.int64(11).tobytes(),)))
    with Ledger(path) as opened:
        with pytest.raises(LedgerError, match="numbers of entry 3"):
            send(opened, 0)
        with pytest.raises(LedgerError, match="numbers of entry 3"):
            opened.verify()


def test_a_rewritten_file_is_noticed_by_its_head(ledger, path):
    """Somebody computes the whole chain anew: the file tells nothing, a head noted earlier does."""
    send(ledger, 0)
    noted = ledger.head
    send(ledger, 1)
    assert ledger.verify(noted) == ledger.head
    ledger.close()
    raw = sqlite3.connect(path)
    rows = [store.Row._make(row) for row in raw.execute(f"SELECT {store.COLUMNS} FROM entries")]
    raw.close()
    previous, statements = store.FIRST, []
    for row in rows:
        new = row._replace(time=row.time - 1)
        new = new._replace(hash=new.digest(previous))
        change = "UPDATE entries SET time = ?, hash = ? WHERE seq = ?"
        statements.append((change, (new.time, new.hash, new.seq)))
        previous = new.hash
    doctored(path, *statements)
    with Ledger(path) as opened:
        with pytest.raises(LedgerError, match="old copy"):  # the mark is such a head
            opened.verify()
        sequence = opened.head.sequence
        with opened._store.reading():
            last = opened._store.row(sequence)
        body = {"instance": rows[0].body.split('"instance":"')[1][:32]}
        opened._guard.begin(last._replace(body=json.dumps(body)))  # and puts the mark there
    with Ledger(path) as opened, pytest.raises(LedgerError, match="not the one that was noted"):
        opened.verify(noted)


def test_signatures(ledger, path, tmp_path):
    tag = ledger.sign(b"release")
    assert ledger.check(b"release", tag)
    assert not ledger.check(b"release!", tag)
    assert not ledger.check(b"release", "ä")
    with Ledger(tmp_path / "other.db") as other:
        assert not other.check(b"release", tag)
    ledger.close()
    doctored(path, ("UPDATE secret SET data = ?", (bytes(32),)))
    with Ledger(path) as opened, pytest.raises(LedgerError, match="key is not the one"):
        opened.verify()
