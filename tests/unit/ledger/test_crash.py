"""Killed at any point, and after a loss of power: never overspent, nothing sent without an entry,
never two noises for one index, the chain whole.
"""

import os
import shutil
import signal
import struct

import numpy as np
import pytest

import killed_ledger
from privest.errors import InvalidInput, LedgerError
from privest.ledger import Budget, Cost, Ledger

pytestmark = pytest.mark.processes


def test_killed_again_and_again(tmp_path):
    killed, seen = killed_ledger.run(tmp_path, 50, seed=1)
    assert killed == 50
    assert seen > 10  # half of the workers get beyond what is sent again


def test_eight_processes_killed_again_and_again(tmp_path):
    killed, seen = killed_ledger.run(tmp_path, 32, seed=2, workers=8)
    assert killed == 32
    assert seen > 32


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("part", range(20))
def test_killed_ten_thousand_times(tmp_path, workers, part):
    """40 ledgers, 250 kills each: a longer one takes a worker longer to open than it lives."""
    killed, _ = killed_ledger.run(tmp_path, 250, seed=100 + part, workers=workers)
    assert killed == 250


# --- loss of power --------------------------------------------------------------------------------

FRAME = 24  # bytes of the header of a page in the log, 32 of the log itself


def frames_of(log):
    """Where the log may end after a loss of power: after every page, and within one."""
    size = struct.unpack(">I", log[8:12])[0] + FRAME
    whole = range(32, len(log) + 1, size)
    return sorted({0, 16, *whole, *(end + 100 for end in whole if end + 100 < len(log))})


def test_the_log_cut_at_every_page(tmp_path):
    """A log that is cut anywhere is a ledger of some entries: those that were sent are among them,
    or it is refused as an old copy. It never draws again for what was sent.
    """
    path, cut, marks = tmp_path / "ledger.db", tmp_path / "cut", tmp_path / "marks"
    states, sent = [], {}
    with Ledger(path, marks=marks) as ledger:
        ledger.account("a", budget=Budget(level=1.0))
        for k in range(5):
            value = (
                ledger.account("a")
                .spend_and_write(Cost(1.0), k, 1, {}, killed_ledger.drawn)
                .integers
            )
            sent[k] = tuple(value)
            log = path.with_name("ledger.db-wal").read_bytes()
            states.append((k, path.read_bytes(), log, ledger._guard.file.path.read_bytes()))
        mark_path = ledger._guard.file.path
    cut.mkdir()
    copy, opened, refused = cut / "ledger.db", 0, 0
    for k, data, log, mark in states:
        for end in frames_of(log):
            shutil.rmtree(cut)
            cut.mkdir()
            copy.write_bytes(data)
            copy.chmod(0o600)
            (cut / "ledger.db-wal").write_bytes(log[:end])
            mark_path.write_bytes(mark)
            with Ledger(copy, marks=marks) as after:
                known = {e.start for e in after.history("a") if e.kind == "spent"}
                if len(known) < k + 1:  # what was sent is not all here
                    assert "old copy" in after.trouble
                    with pytest.raises((LedgerError, InvalidInput)):  # or knows no account
                        after.account("a").spend_and_write(Cost(1.0), k, 1, {}, killed_ledger.drawn)
                    refused += 1
                    continue
                assert "copy of a ledger" in after.trouble  # of another place
                after.adopt()
                for index in range(k + 1):
                    found = after.account("a").spend_and_write(
                        Cost(1.0), index, 1, {}, lambda: None
                    )
                    assert tuple(found.integers) == sent[index]
                after.verify()
                opened += 1
    assert opened >= len(states)
    assert refused > 20


def test_at_every_commit_point_the_mark_is_not_ahead(tmp_path, monkeypatch):
    """The states that a loss of power can leave while one entry is written: each opens, and is
    whole; the mark is never beyond the file.
    """
    path, marks = tmp_path / "ledger.db", tmp_path / "marks"
    states = []

    def snapshot():
        log = path.with_name("ledger.db-wal")
        states.append((path.read_bytes(), log.read_bytes(), ledger._guard.file.path.read_bytes()))

    with Ledger(path, marks=marks) as ledger:
        ledger.account("a", budget=Budget(level=1.0))
        mark_path = ledger._guard.file.path
        real_append, real_write = ledger._store.append, os.write

        def append(*args, **how):
            snapshot()
            row = real_append(*args, **how)
            snapshot()
            return row

        def write(*args):
            snapshot()
            found = real_write(*args)
            snapshot()
            return found

        monkeypatch.setattr(ledger._store, "append", append)
        monkeypatch.setattr(os, "write", write)
        for k in range(3):
            ledger.account("a").spend_and_write(Cost(1.0), k, 1, {}, killed_ledger.drawn)
        monkeypatch.undo()
        snapshot()
    assert len(states) == 13
    folder = tmp_path / "after"
    for data, log, mark in states:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "ledger.db").write_bytes(data)
        (folder / "ledger.db").chmod(0o600)
        (folder / "ledger.db-wal").write_bytes(log)
        mark_path.write_bytes(mark)
        with Ledger(folder / "ledger.db", marks=marks) as after:
            assert "old copy" not in after.trouble
            after.adopt()
            after.verify()


# --- killed between the entry and its mark, then restored ----------------------------------------


@pytest.mark.parametrize("where", ["before the mark", "before its fsync"])
@pytest.mark.parametrize("door", ["spend_and_write", "written"])
def test_a_restored_ledger_does_not_draw_what_was_sent_again(tmp_path, where, door):
    """The entry is on disk, the mark is not: sent again, then a backup without the entry."""
    path, marks, backup = tmp_path / "ledger.db", tmp_path / "marks", tmp_path / "backup.db"
    with Ledger(path, marks=marks) as ledger:
        ledger.account("a", budget=Budget(level=1.0))
    shutil.copy(path, backup)
    child = os.fork()
    if child == 0:
        name = "write" if where == "before the mark" else "fsync"  # the log is synced in C
        setattr(os, name, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
        with Ledger(path, marks=marks) as dying:
            dying.account("a").spend_and_write(Cost(1.0), 0, 1, {}, killed_ledger.drawn)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    synced, real = [], os.fsync
    with Ledger(path, marks=marks) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: (synced.append(file), real(file)))
        if door == "written":
            assert ledger.written(ledger.history("a")[-1]).resent
        else:
            assert (
                ledger.account("a").spend_and_write(Cost(1.0), 0, 1, {}, killed_ledger.drawn).resent
            )
    assert synced, "sent before the mark is on disk"
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(backup.read_bytes())  # the same file, as it was
    with Ledger(path, marks=marks) as old, pytest.raises(LedgerError, match="old copy"):
        old.account("a").spend_and_write(Cost(1.0), 0, 1, {}, killed_ledger.drawn)


def test_nothing_is_left_of_a_ledger_that_was_being_made(tmp_path):
    path, marks = tmp_path / "ledger.db", tmp_path / "marks"
    child = os.fork()
    if child == 0:
        os.link = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
        Ledger(path, marks=marks)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert [*tmp_path.glob(".*.part")]
    (tmp_path / ".ledger.db.csv.part").touch()  # the draft of a release is none of its own
    Ledger(path, marks=marks).close()
    assert [one.name for one in tmp_path.glob(".*.part*")] == [".ledger.db.csv.part"]


# --- many threads and processes -------------------------------------------------------------------


def test_several_that_make_one_ledger(tmp_path):
    """Whoever is first; all of them have the same."""
    path, marks = tmp_path / "ledger.db", tmp_path / "marks"
    workers = []
    for _ in range(6):
        worker = os.fork()
        if worker == 0:
            code = 1
            try:
                with Ledger(path, marks=marks) as own:
                    code = 0 if own.trouble is None else 2
            finally:
                os._exit(code)
        workers.append(worker)
    assert [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in workers] == [0] * 6
    assert not [*tmp_path.glob(".*.part*")]


def test_two_that_check_before_they_spend(tmp_path):
    """Eight processes with a budget of 20 spends among them: 20 succeed, however they race."""
    path, marks = tmp_path / "ledger.db", tmp_path / "marks"
    with Ledger(path, marks=marks) as ledger:
        ledger.account("a", budget=Budget(level=20.0))
    workers = []
    for _ in range(8):
        worker = os.fork()
        if worker == 0:
            done = 0
            try:
                with Ledger(path, marks=marks) as own:
                    for _ in range(10):
                        if (
                            own.account("a").preview(Cost(1.0)).fits
                        ):  # all see room; not all of them have it
                            own.account("a").spend(Cost(1.0))
                            done += 1
            except killed_ledger.BudgetExceeded:
                pass
            finally:
                os._exit(done)
        workers.append(worker)
    spent = sum(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers)
    with Ledger(path, marks=marks) as ledger:
        assert spent == 20 == ledger.account("a").spent.level
        ledger.verify()


def test_a_fork_opens_its_own(tmp_path):
    """A child does not use its parent's connection, and both spend from one budget."""
    with Ledger(tmp_path / "ledger.db", marks=tmp_path / "marks") as ledger:
        ledger.account("a", budget=Budget(level=2.0))
        ledger.account("a").spend(Cost(0.5))
        child = os.fork()
        if child == 0:
            try:
                ledger.account("a").spend(Cost(1.0))
            finally:
                os._exit(int(ledger.account("a").spent.level * 2))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        ledger.account("a").spend(Cost(0.5))
        assert ledger.account("a").remaining.level == 0


def test_noise_differs_where_it_is_drawn():
    """The trials above could not see two noises for one index if all draws were the same."""
    assert not np.array_equal(killed_ledger.drawn()[0], killed_ledger.drawn()[0])
