"""Ledgers to mutate: bytes of the file, and entries whose chain is made right again."""

import contextlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np

from fuzz import mutations
from privest.ledger import Cost, Ledger
from privest.ledger._store import COLUMNS, FIRST, Row

HERE = Path(__file__).parents[1] / "golden" / "ledgers"


def made() -> bytes:
    """A ledger with entries of every kind, those that only privest 0.2 wrote too."""
    return (HERE / "every-kind-0.2.db").read_bytes()


def of_entries(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One to three fields of entries changed, the hashes computed again: as if privest wrote it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as raw:
        raw.deserialize(data[:18] + b"\1\1" + data[20:])  # in memory there is no write-ahead log
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = triggers.fetchall()
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        rows = [Row._make(row) for row in raw.execute(f"SELECT {COLUMNS} FROM entries")]
        for _ in range(rng.choice((1, 1, 2, 3))):
            at = rng.randrange(len(rows))
            rows[at] = _changed(rows[at], rng)
        raw.execute("DELETE FROM entries")
        previous = FIRST
        for row in rows:
            with contextlib.suppress(sqlite3.Error, OverflowError, TypeError, UnicodeEncodeError):
                done = row._replace(hash=row.digest(previous))
                marks = ",".join("?" * len(done))
                raw.execute(f"INSERT INTO entries ({COLUMNS}) VALUES ({marks})", done)
                previous = done.hash
        for _, sql in triggers:
            raw.execute(sql)
        written = raw.serialize()
    return written[:18] + data[18:20] + written[20:]


def _changed(row: Row, rng: random.Random) -> Row:
    name = rng.choice(("body",) * 6 + Row._fields[:-1])
    if name == "body":
        text = mutations.written(mutations.of_node(json.loads(row.body), rng))
        return row._replace(body=text)
    return row._replace(**{name: rng.choice((None, 0, -1, 1, 2**62, 0.5, "", "spent", "a", b"x"))})


def use_ledger(path: Path) -> None:
    """Without a mark, so that the file alone decides: adopted, spent from, verified."""
    path.chmod(0o600)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    marks = path.with_name("marks")
    shutil.rmtree(marks, ignore_errors=True)
    with Ledger(path, create=False, marks=marks) as ledger:
        ledger.adopt()
        for subject in ledger.subjects():
            ledger.account(subject).spent.to_dict()
            ledger.account(subject).remaining.to_dict()
            with contextlib.suppress(ValueError):  # refused, as documented
                ledger.account(subject).preview(
                    Cost(0.5, mu2=0.01, sensitivity=0.5), start=2, stop=5
                )
                ledger.account(subject).spend(Cost(0.5, mu2=0.01, sensitivity=0.5), start=2, stop=5)
                ledger.account(subject).spend_and_write(
                    Cost(1.0), None, 1, {}, lambda: (np.array([1]), None)
                )
        ledger.export()
        ledger.sign(b"x")
        ledger.verify()
