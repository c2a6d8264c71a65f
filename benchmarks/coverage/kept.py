"""Finished work of a study in an SQLite file: a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import io
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.paper._engine import Unit
from privest.reading import parse_array

DIGEST = hashlib.sha256().digest_size  # before the numbers of a unit, which disks change


class Kept:
    """Finished units in an SQLite file."""

    def __init__(self, path: Path, seed: int, chunk: int) -> None:
        self.path, self.made_for = path, f"seed {seed}, chunk {chunk}"

    def __enter__(self) -> Kept:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir():
            raise InvalidInput(f"{self.path} is a folder; name a file.")
        self.database = sqlite3.connect(self.path)
        try:
            made_for = self._owner(self.database)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            raise InvalidInput(f"{self.path} does not hold an experiment.") from None
        if made_for != self.made_for:
            raise InvalidInput(
                f"{self.path} was made for another run (it has {made_for}, this is "
                f"{self.made_for}): use another file."
            )
        return self

    def _owner(self, database: sqlite3.Connection) -> str:
        """The run that the file belongs to: this one, if it is new."""
        with database:
            database.execute(
                "create table if not exists units (key text, at integer, data blob,"
                " primary key (key, at))"
            )
            database.execute("create table if not exists made_for (what text unique)")
            made = database.execute("select what from made_for").fetchone()
            if made is None:
                database.execute("insert into made_for values (?)", (self.made_for,))
        return self.made_for if made is None else str(made[0])

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def get(self, unit: Unit) -> Array | None:
        """Its numbers, if all of them are kept and as they were written; else None: once more."""
        with self._readable():
            row = self.database.execute(
                "select data from units where key = ? and at = ?", (_name(unit), unit.at)
            ).fetchone()
        if row is None or not isinstance(row[0], bytes):
            return None
        digest, data = row[0][:DIGEST], row[0][DIGEST:]
        if hashlib.sha256(data).digest() != digest:
            return None
        values = parse_array(data, "a kept unit")
        return values if len(values) == unit.count else None

    def put(self, unit: Unit, values: Array) -> None:
        """Keep its numbers."""
        data = io.BytesIO()
        np.save(data, values, allow_pickle=False)
        with self._readable(), self.database:
            self.database.execute(
                "insert or replace into units values (?, ?, ?)",
                (_name(unit), unit.at, hashlib.sha256(data.getvalue()).digest() + data.getvalue()),
            )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            raise InvalidInput(f"{self.path} is damaged: remove it and start again.") from None


def _name(unit: Unit) -> str:
    """The name of a task's results in the file: other arguments are other results."""
    task = unit.task
    drawn = "" if task.stream is None else f" | {task.stream}"
    work = f"{task.work.__module__}.{task.work.__qualname__}"
    return f"{task.key} | {work} | {dict(task.arguments)!r}{drawn}"
