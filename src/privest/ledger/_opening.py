"""How a ledger begins and ends: made whole with its mark, or discarded with it."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from privest.errors import LedgerError
from privest.ledger._entries import body_of
from privest.ledger._mark import MarkFile, left_behind, mark_of, marks_folder
from privest.ledger._store import Row, Store, create, damaged


def make(path: Path, wanted: bool, busy: float, folder: Path) -> None:
    """A new ledger, unless none is wanted or one was there before."""
    if not wanted:
        raise LedgerError(f"there is no ledger {path}.")
    require_none_before(path, folder)
    key, own, instance = (secrets.token_bytes(size) for size in (32, 16, 16))
    body = {
        "ledger": own.hex(), "instance": instance.hex(),
        "key": hashlib.sha256(key).hexdigest(),
    }  # fmt: skip

    def begin_mark(file: Path, row: Row) -> None:
        own = body_of(row)
        mark = mark_of(file, own["ledger"], own["instance"], row.seq, row.hash, at=path)
        MarkFile(folder, own["ledger"]).begin(mark)

    try:
        create(path, busy, body, {"key": key}, begin_mark)
    except (FileExistsError, LedgerError):
        if not path.exists():  # else another process was quicker
            raise


def require_none_before(path: Path, folder: Path) -> None:
    """Refuse a place where there was a ledger, by the marks in `folder`."""
    if left_behind(folder, path) is not None:
        raise LedgerError(
            f"there was a ledger at {path}, and it is gone: a new one would give the same "
            "readings a new budget. Put it back, choose another place, or take leave of what "
            "it knew (privest.ledger.discard)."
        )


def first_of(store: Store) -> tuple[str, str]:
    """The name of a ledger and the hash of its key; within a transaction."""
    row = store.row(1)
    body = {} if row is None else body_of(row)
    if row is None or row.kind != "created" or not {"ledger", "instance", "key"} <= set(body):
        raise damaged(store.path, "it does not begin as a ledger does")
    if len(body["ledger"]) != 32 or not set(body["ledger"]) <= set("0123456789abcdef"):
        raise damaged(store.path, "it has no name")
    return body["ledger"], body["key"]


def discard(path: str | os.PathLike[str], *, marks: str | os.PathLike[str] | None = None) -> None:
    """Delete a ledger and its mark: whatever it knew of what was shown is lost.

    For readings that are no longer there or were never private (a demonstration). A ledger that is
    made in its place gives everybody a new budget, which is why deleting the file alone does not.
    """
    place, folder = Path(path).resolve(), marks_folder(marks)
    try:
        for ending in ("", "-wal", "-shm"):
            Path(f"{place}{ending}").unlink(missing_ok=True)
        while (mark := left_behind(folder, place, least=0)) is not None:
            (folder / mark.ledger).unlink()
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be deleted: {error.strerror}.") from None
