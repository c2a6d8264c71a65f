"""The output of a stream: releases and estimates as lines."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.errors import CheckpointError, InvalidInput
from privest.estimator import Estimate
from privest.files import make_folder
from privest.records import plain
from privest.report.sections import printable
from privest.stream_file import step_records

PART = 1e-6  # of a unit vector: less is rounding, not a part in what is hidden


class Public(NamedTuple):
    """The public columns of the rows of a block: features (rows, n) and times, by name."""

    names: Sequence[str]
    features: Array
    times: Sequence[str]
    written: Sequence[tuple[str, ...]]  # the times of every row; none where rows are not known

    def time(self, row: int) -> dict[str, str]:
        return dict(zip(self.times, self.written[row])) if self.written else {}

    @property
    def mark(self) -> dict[str, str]:
        """A hash of them, by which the ledger recognises these rows, under a name of the columns.

        No measurement goes into it: whether a step is sent again must not depend on one.
        """
        digest = hashlib.sha256(np.ascontiguousarray(self.features + 0.0, "<f8").tobytes())
        digest.update(repr(list(self.written)).encode())
        which = hashlib.sha256(repr([*self.names, *self.times]).encode()).hexdigest()[:16]
        return {f"public {which}": digest.hexdigest()}


def released_records(release: pv.Release, public: Public) -> list[dict[str, Any]]:
    """One record per measurement: its release, and the public features (None where not known)."""
    records = step_records(release, 1, listed=False)
    features = plain(public.features.tolist())
    return [
        record | dict(zip(public.names, h)) | public.time(k)
        for k, (record, h) in enumerate(zip(records, features))
    ]


def estimated_record(
    found: Estimate | None, estimator: pv.PrivateRLS, names: Sequence[str],
    time: dict[str, str], *, nested: bool,
) -> dict[str, Any]:  # fmt: skip
    """The estimate after a step; for JSON by kind, for CSV as columns. None: not identifiable."""
    record: dict[str, Any] = {"step": estimator.steps - 1} | time
    if found is None and nested:
        return record | {"identifiable": False, "hidden": hidden_names(estimator, names)}
    columns = dict.fromkeys(("estimate", "standard_error"), [None] * len(names))
    if found is not None:
        columns = {"estimate": plain(found.value), "standard_error": plain(found.standard_error)}
    by_name = {kind: dict(zip(names, own)) for kind, own in columns.items()}
    if found is not None and nested:
        by_name["interval"] = dict(zip(names, plain(found.interval())))
        return record | {"identifiable": True} | by_name
    endings = {"estimate": "", "standard_error": "_error"}
    for kind, ending in endings.items():
        record |= {f"{name}{ending}": value for name, value in by_name[kind].items()}
    return record


def hidden_names(estimator: pv.PrivateRLS, names: Sequence[str]) -> list[str]:
    """The parameters that have a part in what is not identifiable yet."""
    if estimator.identifiable:
        return []
    part = np.abs(estimator.hidden_directions).max(axis=1)
    return [name for name, share in zip(names, part) if share > PART]


def as_lines(records: Sequence[dict[str, Any]], *, json_lines: bool, heading: bool) -> str:
    if json_lines:
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heading:
        writer.writerow(records[0])
    writer.writerows(record.values() for record in records)
    return text.getvalue()


def require_behind(path: Path, offset: int, lines: str) -> None:
    """Refuse an output that holds more than a checkpoint knows of: `lines` after `offset`.

    A checkpoint that comes from a backup is behind its output: what that holds was revealed, and
    would be drawn again.
    """
    saved = lines.encode()
    with open(path, "rb") as file:
        file.seek(offset)
        if not saved.startswith(file.read(len(saved) + 1)):
            raise CheckpointError(
                f"{path} holds other lines than its checkpoint, which is from a backup: those "
                "steps were sent, and would be drawn again. Begin a new stream, or keep a ledger, "
                "which knows what was sent."
            )


class LineOutput:
    """Standard output, or a file that is cut back to what was certain after a restart."""

    path: Path | None
    stack: ExitStack[bool | None]
    offset: int

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self.path, self.stack = path, stack
        self.file: Any = None
        self.offset = 0

    @property
    def begun(self) -> bool:
        return self.offset > 0

    def begin(self, offset: int) -> None:
        """Start at `offset`: whatever the file has beyond it was not certain."""
        self.offset = offset
        if self.path is None:
            self.file = sys.stdout.buffer
            return
        make_folder(self.path)
        try:
            mode = "r+b" if offset else "wb"
            self.file = self.stack.enter_context(open(self.path, mode))  # noqa: SIM115
            if offset:
                if self.file.seek(0, io.SEEK_END) < offset:
                    raise CheckpointError(f"{self.path} is shorter than when it was saved.")
                self.file.truncate(offset)
                self.file.seek(offset)
        except OSError as error:
            if isinstance(error, CheckpointError):
                raise
            raise InvalidInput(f"cannot write {self.path}: {error.strerror}.") from None

    def sync(self) -> None:
        if self.path is not None and self.path.is_file():
            os.fsync(self.file.fileno())

    def write(self, text: str) -> None:
        """Print lines now, not later."""
        if self.path is None and sys.stdout.isatty():
            text = printable(text)  # names must not steer the terminal
        data = text.encode()
        self.file.write(data)
        self.file.flush()
        self.offset += len(data)
