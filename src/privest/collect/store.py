"""Reports and their sums in a database: five calls, for SQLite and for PostgreSQL.

    add      write reports in one transaction, each at most once, and their sums with them
    sums     the sums by level
    reports  all reports, in the order of their arrival
    count    how many reports and devices there are
    close

When `add` returns, its reports are on disk. A report that comes again changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, Self

from privest.collect.plan import CollectionPlan, Report, Sums, as_words, from_words, sums_of
from privest.errors import InvalidInput, MissingDependency

TABLES = (
    "CREATE TABLE IF NOT EXISTS plan (hash TEXT PRIMARY KEY, body TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS reports (
        seq {serial}, id TEXT NOT NULL UNIQUE, digest {bytes} NOT NULL, device TEXT NOT NULL,
        step BIGINT NOT NULL, level TEXT NOT NULL, features TEXT NOT NULL, z BIGINT NOT NULL,
        UNIQUE (device, step))""",
    "CREATE TABLE IF NOT EXISTS sums (level TEXT PRIMARY KEY, body TEXT NOT NULL)",
)
COLUMNS = "id, device, step, level, features, z"


class Answer(Enum):
    """What became of a report, with its HTTP status."""

    ACCEPTED = 201
    CONFLICT = 409
    TAKEN = 410

    @property
    def text(self) -> str:
        return {
            Answer.ACCEPTED: "counted",
            Answer.CONFLICT: "another report has this id",
            Answer.TAKEN: "this device sent another report of this step",
        }[self]


class SqlStore:
    """A store over a database connection; `open_store` makes it."""

    plan: CollectionPlan
    known: int

    def __init__(self, connection: Any, plan: CollectionPlan, *, postgres: bool) -> None:  # noqa: ANN401
        self._connection, self.plan, self._postgres = connection, plan, postgres
        self.known = 0  # reports that came again
        kinds = (
            {"serial": "BIGSERIAL PRIMARY KEY", "bytes": "BYTEA"} if postgres
            else {"serial": "INTEGER PRIMARY KEY", "bytes": "BLOB"}
        )  # fmt: skip
        self._begin()
        for statement in TABLES:
            self._run(statement.format(**kinds))
        row = self._run("SELECT hash FROM plan").fetchone()
        if row is None:
            text = json.dumps(plan.to_dict())
            self._run("INSERT INTO plan VALUES (?, ?)", plan.hash, text)
        self._run("COMMIT")
        if row is not None and row[0] != plan.hash:
            raise InvalidInput("this store holds reports of another plan: use a new one.")

    def _run(self, statement: str, *values: object) -> Any:  # noqa: ANN401 - a cursor
        if self._postgres:
            statement = statement.replace("?", "%s")
        return self._connection.execute(statement, values)

    def _begin(self) -> None:
        """Begin a transaction that alone may write."""
        self._run("BEGIN" if self._postgres else "BEGIN IMMEDIATE")
        if self._postgres:
            self._run("SELECT pg_advisory_xact_lock(5327)")

    def add(self, reports: Sequence[Report]) -> list[Answer]:
        """Write reports of this plan that are new, and add them to the sums: all or none."""
        for report in reports:
            self.plan.require(report)
        self._begin()
        try:
            answers, new, known = [], [], 0
            for report in reports:
                answer, fresh = self._insert(report)
                answers.append(answer)
                known += answer is Answer.ACCEPTED and not fresh
                if fresh:
                    new.append(report)
            for level, sums in sums_of(self.plan, new).items():
                row = self._run("SELECT body FROM sums WHERE level = ?", level).fetchone()
                if row is not None:
                    sums.merge(Sums.from_text(row[0]))
                self._run(
                    "INSERT INTO sums VALUES (?, ?) "
                    "ON CONFLICT (level) DO UPDATE SET body = excluded.body",
                    level, sums.to_text(),
                )  # fmt: skip
            self._run("COMMIT")
        except BaseException:
            self._run("ROLLBACK")
            raise
        self.known += known
        return answers

    def _insert(self, report: Report) -> tuple[Answer, bool]:
        """The answer to a report, and whether it is new."""
        done = self._run(
            "INSERT INTO reports (id, digest, device, step, level, features, z) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            report.id, report.digest, report.device, report.step, report.level,
            as_words(report.features), report.z,
        )  # fmt: skip
        if done.rowcount == 1:
            return Answer.ACCEPTED, True
        row = self._run("SELECT digest FROM reports WHERE id = ?", report.id).fetchone()
        if row is None:
            return Answer.TAKEN, False
        same = bytes(row[0]) == report.digest
        return Answer.ACCEPTED if same else Answer.CONFLICT, False

    def sums(self) -> dict[str, Sums]:
        """The sums by level."""
        rows = self._run("SELECT level, body FROM sums ORDER BY level").fetchall()
        return {level: Sums.from_text(body) for level, body in rows}

    def reports(self) -> Iterator[Report]:
        """All reports, in the order of their arrival."""
        last = 0
        while True:
            rows = self._run(
                f"SELECT seq, {COLUMNS} FROM reports WHERE seq > ? ORDER BY seq LIMIT 10000", last
            ).fetchall()
            if not rows:
                return
            for last, name, device, step, level, features, z in rows:  # noqa: B007
                yield Report(name, device, step, level, from_words(features), z)

    def count(self) -> tuple[int, int]:
        """How many reports there are, and from how many devices."""
        found = self._run("SELECT count(*), count(DISTINCT device) FROM reports").fetchone()
        return int(found[0]), int(found[1])

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(address: str | Path, plan: CollectionPlan) -> SqlStore:
    """The store in a file of SQLite, or at an address postgresql://…; it is made if it is new."""
    if str(address).startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise MissingDependency(
                "PostgreSQL needs psycopg: install the extra 'collect'."
            ) from None
        try:
            found = psycopg.connect(str(address), autocommit=True)
        except psycopg.OperationalError as error:
            raise InvalidInput(f"the database does not answer ({type(error).__name__}).") from None
        return SqlStore(found, plan, postgres=True)
    try:
        # One thread at a time uses it: the collector's own.
        connection = sqlite3.connect(
            address, isolation_level=None, check_same_thread=False, timeout=30.0
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        raise InvalidInput(f"{address} cannot be used as a store ({error}).") from None
    return SqlStore(connection, plan, postgres=False)


def merge(into: SqlStore, other: SqlStore) -> dict[Answer, int]:
    """Take over the reports of another collector of the same plan; a report counts once."""
    if into.plan.hash != other.plan.hash:
        raise InvalidInput("collectors merge only where their plans are the same.")
    counts = dict.fromkeys(Answer, 0)
    for part in _parts(other.reports(), 1000):
        for answer in into.add(part):
            counts[answer] += 1
    return counts


def replay(store: SqlStore) -> bool:
    """Whether the sums are those of the reports: computed again from all of them, exactly."""
    found: dict[str, Sums] = {}
    for part in _parts(store.reports(), 10_000):
        for level, sums in sums_of(store.plan, part).items():
            if level in found:
                sums.merge(found[level])
            found[level] = sums
    return found == store.sums()


def _parts(reports: Iterator[Report], size: int) -> Iterator[list[Report]]:
    while part := list(islice(reports, size)):
        yield part
