"""Reports and their sums in a database: six calls, for SQLite and for PostgreSQL.

    add      write reports in one transaction, each at most once, and their sums with them
    sums     the sums by level
    reports  all reports, in the order of their arrival
    count    how many reports and devices there are
    last     the number of the last report, for replays in parts
    close

When `add` returns, its reports are on disk. A report that comes again changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from privest.collect.plan import (
    CollectionPlan,
    Report,
    Sums,
    as_words,
    from_words,
    in_parts,
    sums_of,
)
from privest.errors import InvalidInput
from privest.files import owner_only
from privest.lazy import needed

TABLES = (
    "CREATE TABLE IF NOT EXISTS plan (hash TEXT PRIMARY KEY, body TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS reports (
        seq {serial}, id TEXT NOT NULL UNIQUE, digest {bytes} NOT NULL, device TEXT NOT NULL,
        step BIGINT NOT NULL, level TEXT NOT NULL, features TEXT NOT NULL, z BIGINT NOT NULL,
        UNIQUE (device, step))""",
    "CREATE TABLE IF NOT EXISTS sums (level TEXT PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS devices (device TEXT PRIMARY KEY)",
)
KINDS = {
    False: {"serial": "INTEGER PRIMARY KEY", "bytes": "BLOB"},
    True: {"serial": "BIGSERIAL PRIMARY KEY", "bytes": "BYTEA"},
}
ROWS = 1000  # in one statement: SQLite takes 32,766 values, a report has 7
PAGE = 10_000  # reports that are read at once
PATIENCE = 30  # seconds until a database that is busy or away is given up


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


class Closing:
    """Closed at the end of a `with`, or when nobody uses it any more."""

    def close(self) -> None:
        raise NotImplementedError

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # one that was never opened; one of another thread
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqlStore(Closing):
    """A store in a database; `open_store` makes it.

    plan   whose reports it holds.
    known  how many reports came again since it was opened.
    """

    def __init__(self, address: str, plan: CollectionPlan) -> None:
        self.plan: CollectionPlan = plan
        self.address: str = address
        self.known: int = 0
        self._postgres = address.startswith(("postgresql://", "postgres://"))
        self._connection = self._connect()
        self._inside = False
        try:
            self._begin()
            for statement in TABLES:
                self._run(statement.format(**KINDS[self._postgres]))
            row = self._run("SELECT hash FROM plan").fetchone()
            if row is None:
                self._run("INSERT INTO plan VALUES (?, ?)", plan.hash, json.dumps(plan.to_dict()))
            self._end("COMMIT")
            if row is not None and row[0] != plan.hash:
                raise InvalidInput("this store holds reports of another plan: use a new one.")
        except BaseException:
            self._connection.close()
            raise

    def _connect(self) -> Any:  # noqa: ANN401 - a connection
        return _postgres(self.address) if self._postgres else _sqlite(self.address)

    def _run(self, statement: str, *values: object) -> Any:  # noqa: ANN401 - a cursor
        if self._postgres:
            statement = statement.replace("?", "%s")
            if self._connection.closed and not self._inside:  # did the database come back?
                self._connection = self._connect()
        return self._connection.execute(statement, values)

    def _begin(self) -> None:
        """Begin a transaction that alone may write, on one connection to its end."""
        self._run("BEGIN" if self._postgres else "BEGIN IMMEDIATE")
        self._inside = True
        if self._postgres:
            self._run("SELECT pg_advisory_xact_lock(5327)")

    def _end(self, word: str) -> None:
        """COMMIT or ROLLBACK."""
        try:
            self._run(word)
        finally:
            self._inside = False

    def add(self, reports: Sequence[Report]) -> list[Answer]:
        """Write reports of this plan that are new, and add them to the sums: all or none."""
        for report in reports:
            self.plan.require(report)
        try:
            self._begin()
            new: list[Report] = []
            stored: dict[str, bytes] = {}
            for part in in_parts(reports, ROWS):
                new += self._insert(part, stored)
            for level, sums in sums_of(self.plan, new).items():
                row = self._run("SELECT body FROM sums WHERE level = ?", level).fetchone()
                if row is not None:
                    sums.merge(Sums.from_text(row[0]))
                self._run(
                    "INSERT INTO sums VALUES (?, ?) "
                    "ON CONFLICT (level) DO UPDATE SET body = excluded.body",
                    level, sums.to_text(),
                )  # fmt: skip
            self._end("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong before is told
                self._end("ROLLBACK")
            raise
        answers = [_answer(report, stored.get(report.id)) for report in reports]
        self.known += answers.count(Answer.ACCEPTED) - len(new)
        return answers

    def _insert(self, reports: list[Report], stored: dict[str, bytes]) -> list[Report]:
        """Insert reports; those that are new, and in `stored` the digest that each id has now."""
        values = [
            value for one in reports for value in
            (one.id, one.digest, one.device, one.step, one.level, as_words(one.features), one.z)
        ]  # fmt: skip
        rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(reports))
        fresh = {
            name for (name,) in self._run(
                "INSERT INTO reports (id, digest, device, step, level, features, z) "
                f"VALUES {rows} ON CONFLICT DO NOTHING RETURNING id", *values,
            ).fetchall()
        }  # fmt: skip
        names = list({one.id for one in reports})
        marks = ", ".join("?" * len(names))
        found = self._run(f"SELECT id, digest FROM reports WHERE id IN ({marks})", *names)
        stored |= {name: bytes(digest) for name, digest in found.fetchall()}
        # Twice in one request with two bodies: the one that was stored is new.
        new = [one for one in reports if one.id in fresh and stored[one.id] == one.digest]
        new = list({one.id: one for one in new}.values())
        if new:
            devices = sorted({one.device for one in new})
            rows = ", ".join(["(?)"] * len(devices))
            self._run(f"INSERT INTO devices VALUES {rows} ON CONFLICT DO NOTHING", *devices)
        return new

    def sums(self) -> dict[str, Sums]:
        """The sums by level."""
        rows = self._run("SELECT level, body FROM sums ORDER BY level").fetchall()
        return {level: Sums.from_text(body) for level, body in rows}

    def reports(self, after: int = 0, to: int | None = None) -> Iterator[Report]:
        """All reports, or those after one number up to another, in the order of their arrival."""
        end = self.last() if to is None else to
        while rows := self._run(
            "SELECT seq, id, device, step, level, features, z FROM reports "
            f"WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT {PAGE}", after, end,
        ).fetchall():  # fmt: skip
            after = rows[-1][0]
            for _, name, device, step, level, features, z in rows:
                yield Report(name, device, step, level, from_words(features), z)

    def snapshot(self) -> tuple[int, dict[str, Sums]]:
        """The number of the last report and the sums at one moment, while others write."""
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ" if self._postgres else "BEGIN")
        self._inside = True
        try:
            return self.last(), self.sums()
        finally:
            self._end("COMMIT")

    def last(self) -> int:
        """The number of the last report; 0: there is none."""
        return int(self._run("SELECT coalesce(max(seq), 0) FROM reports").fetchone()[0])

    def count(self) -> tuple[int, int]:
        """How many reports there are, and from how many devices."""
        devices = self._run("SELECT count(*) FROM devices").fetchone()
        return sum(one.count for one in self.sums().values()), int(devices[0])

    def close(self) -> None:
        self._connection.close()


def _answer(report: Report, stored: bytes | None) -> Answer:
    if stored is None:
        return Answer.TAKEN
    return Answer.ACCEPTED if stored == report.digest else Answer.CONFLICT


def open_store(address: str | Path, plan: CollectionPlan) -> SqlStore:
    """The store in a file of SQLite, or at an address postgresql://…; it is made if it is new."""
    return SqlStore(str(address), plan)


def _postgres(address: str) -> Any:  # noqa: ANN401 - a connection
    psycopg = needed("psycopg", "PostgreSQL needs psycopg", "collect")
    try:
        # A database that has gone is noticed, and one that is locked is not waited for long.
        found = psycopg.connect(
            address, autocommit=True, connect_timeout=PATIENCE, tcp_user_timeout=1000 * PATIENCE
        )
        found.execute("SET synchronous_commit = on")  # a report is on disk before it is answered
        found.execute(f"SET statement_timeout = '{PATIENCE}s'")
    except psycopg.Error as error:  # of an address that is none too
        raise InvalidInput(f"the database does not answer ({type(error).__name__}).") from None
    return found


def owner_only_database(
    address: str, *, timeout: float, check_same_thread: bool = True
) -> sqlite3.Connection:
    """A database of SQLite in a file that, if it is new, is its owner's alone, as its journals are.

    A file that is there is not opened here: to close it again would clear SQLite's locks on it.
    """
    if address != ":memory:":
        with contextlib.suppress(FileExistsError), open(address, "x", opener=owner_only):
            pass
    return sqlite3.connect(
        address, isolation_level=None, timeout=timeout, check_same_thread=check_same_thread
    )


def _sqlite(address: str) -> sqlite3.Connection:
    try:
        # One thread at a time uses it: the collector's own.
        found = owner_only_database(address, check_same_thread=False, timeout=PATIENCE)
        tables = [name for (name,) in found.execute("SELECT name FROM sqlite_master")]
        if tables and "reports" not in tables:
            found.close()
            raise InvalidInput(f"{address} is a database of something else.")
        found.execute("PRAGMA journal_mode = WAL")
        found.execute("PRAGMA synchronous = FULL")
    except (OSError, sqlite3.Error) as error:
        raise InvalidInput(f"{address} cannot be used as a store ({error}).") from None
    return found


def merge(into: SqlStore, other: SqlStore) -> dict[Answer, int]:
    """Take over the reports of another collector of the same plan; a report counts once."""
    if into.plan.hash != other.plan.hash:
        raise InvalidInput("collectors merge only where their plans are the same.")
    return Counter(one for part in in_parts(other.reports(), ROWS) for one in into.add(part))


def replay(store: SqlStore, tasks: int = 1) -> bool:
    """Whether the sums are those of the reports: computed again from all of them, exactly.

    tasks  into how many parts the reports are split; Dask computes them where there are several.
    """
    last, sums = store.snapshot()
    if tasks == 1:
        return sums_of(store.plan, store.reports(to=last)) == sums
    dask = needed("dask", "a replay in parts needs Dask", "dask")
    if not (tasks > 1 and Path(store.address).is_file() | store.address.startswith("postgres")):
        raise InvalidInput("a replay in parts takes two tasks or more, and a store on disk.")
    part = dask.delayed(_sums_between)
    ends = [last * k // tasks for k in range(tasks + 1)]
    jobs = [part(store.address, store.plan, *two) for two in pairwise(ends)]
    return total(dask.compute(*jobs)) == sums


def _sums_between(address: str, plan: CollectionPlan, after: int, to: int) -> dict[str, Sums]:
    with open_store(address, plan) as store:
        return sums_of(plan, store.reports(after, to))


def total(parts: Sequence[dict[str, Sums]]) -> dict[str, Sums]:
    """The sums of several parts."""
    found: dict[str, Sums] = {}
    for part in parts:
        for level, own in part.items():
            found.setdefault(level, Sums(len(own.gram))).merge(own)
    return found


def running_sums(store: SqlStore) -> Iterator[tuple[int, dict[str, Sums]]]:
    """Each step k with the sums of all reports of steps 0 to k, late ones too.

    `estimate` of them is the course of θ̂_k (`algo:PP_RLS`, phase 2).
    """
    steps: dict[int, dict[str, Sums]] = {}
    by_step = attrgetter("step")
    for part in in_parts(store.reports(), PAGE):
        for step, reports in groupby(sorted(part, key=by_step), key=by_step):
            steps[step] = total([steps.get(step, {}), sums_of(store.plan, reports)])
    until: dict[str, Sums] = {}
    for step in sorted(steps):
        until = total([until, steps[step]])
        yield step, until
