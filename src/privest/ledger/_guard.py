"""The mark of an open ledger: checked within every transaction that spends, moved on after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from privest.errors import LedgerError
from privest.ledger._entries import body_of
from privest.ledger._mark import Mark, MarkFile, mark_of
from privest.ledger._store import Row, Store


class Guard:
    """Whether the file of a ledger is the newest one, and the only one."""

    def __init__(self, store: Store, folder: Path, ledger: str) -> None:
        self.store, self.folder, self.ledger = store, folder, ledger
        self.file = MarkFile(folder, ledger)

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """A transaction that spends, or finds what was. When it ends, entry and mark are on disk:
        a process may have been killed between the two, so the mark is written in any case.
        """
        with self.store.writing():
            instance = self.require()
            yield
            sequence, digest = self.store.head
        self.file.advance(sequence, digest, instance)

    def begin(self, row: Row) -> None:
        """A mark at an entry that adopts the file."""
        path = self.store.path
        self.file.begin(mark_of(path, self.ledger, body_of(row)["instance"], row.seq, row.hash))

    def is_behind(self, mark: Mark) -> bool:
        """Whether the marked entry is not part of this history."""
        row = self.store.row(mark.sequence)
        return row is None or row.hash != mark.hash

    def require(self) -> str:
        """Refuse an old copy, a copy that is used by two, and a ledger whose mark is elsewhere.

        Within a transaction; returns the instance.
        """
        mark, instance, path = self.file.read(), self._instance(), self.store.path
        if mark is None:
            raise LedgerError(
                f"the ledger {path} has no mark in {self.folder}: whether it is the newest "
                "copy cannot be told. If it is, adopt() it; else recover(highest=…)."
            )
        if self.is_behind(mark):
            raise LedgerError(
                f"{path} is an old copy of its ledger: entry {mark.sequence} was written "
                f"elsewhere, this one ends at {self.store.head[0]}. New noise for readings that "
                "were sent already would show more of them. Put the newest copy back, or state "
                "what was released since: recover(highest={subject: index})."
            )
        if mark.instance != instance or not mark.is_at(path):
            raise LedgerError(
                f"{path} is a copy of a ledger that is somewhere else: two that spend from one "
                "budget spend it twice. If only this one is used from now on, adopt() it."
            )
        return instance

    def _instance(self) -> str:
        clause = "WHERE kind IN ('created', 'adopted') ORDER BY seq DESC LIMIT 1"
        return str(body_of(next(self.store.rows(clause)))["instance"])
