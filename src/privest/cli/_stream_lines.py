"""What a stream writes: releases and estimates as lines, the last estimate as a table."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import privest as pv
from privest.arrays import Array
from privest.cli._console import new_table, shown
from privest.data._release_lines import step_records
from privest.errors import CheckpointError, InvalidInput
from privest.files import make_folder
from privest.reading import as_text, parse_json
from privest.records import plain
from privest.report import printable

PART = 1e-6  # of a unit vector: less is rounding, not a part in what is hidden


def released_records(
    release: pv.StreamRelease, features: Array, names: Sequence[str]
) -> list[dict[str, Any]]:
    """One record a step: what was released, and the public features (None where not known)."""
    records = step_records(release, 1, listed=False)
    return [record | dict(zip(names, h)) for record, h in zip(records, plain(features.tolist()))]


def estimated_record(
    estimator: pv.PrivateRLS, names: Sequence[str], *, nested: bool
) -> dict[str, Any]:
    """The estimate after the last step; for JSON by kind, for CSV as columns."""
    known = estimator.identifiable
    nothing = [None] * len(names)
    values = dict(zip(names, estimator.estimate.tolist() if known else nothing))
    errors = dict(zip(names, estimator.standard_error.tolist() if known else nothing))
    record: dict[str, Any] = {"step": estimator.steps - 1}
    if not nested:
        return record | values | {f"{name}_error": error for name, error in errors.items()}
    found = {"estimate": values, "standard_error": errors}
    return (
        record
        | {"identifiable": known}
        | (found if known else {"hidden": _hidden(estimator, names)})
    )


def _hidden(estimator: pv.PrivateRLS, names: Sequence[str]) -> list[str]:
    """The parameters that have a part in what is not identifiable yet."""
    part = np.abs(estimator.hidden_directions).max(axis=1)
    return [name for name, share in zip(names, part) if share > PART]


def as_lines(records: Sequence[dict[str, Any]], *, json_lines: bool, heading: bool) -> str:
    """Records as CSV, after a line of names where wanted, or as JSON lines."""
    if json_lines:
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heading:
        writer.writerow(records[0])
    writer.writerows(record.values() for record in records)
    return text.getvalue()


def print_estimate(report: Console, estimator: pv.PrivateRLS, names: Sequence[str]) -> None:
    """The estimate with its intervals, or what is not identifiable yet."""
    if not estimator.identifiable:
        report.print(shown(f"Not yet identifiable: {', '.join(_hidden(estimator, names))}."))
        return
    found = estimator.result(names)
    table = new_table(
        "Estimate from the releases", "parameter", "estimate", "standard error", "95 % interval"
    )
    for name, value, error, (low, high) in zip(
        names, found.estimate, found.standard_error, found.interval()
    ):
        table.add_row(shown(name), f"{value:.5g}", f"{error:.3g}", f"{low:.4g} … {high:.4g}")
    report.print(table)


class Sent(NamedTuple):
    """What a file holds beyond what was saved."""

    step: int  # the last that was sent, perhaps in part: a line that was not finished counts
    whole: int  # the last that has a whole line
    end: int  # of its whole lines, in bytes
    chain: str  # hash of the last of them, where lines have one


def sent_since(path: Path, offset: int, lines: str) -> Sent | None:
    """What a file holds after `lines`, which were saved as those at `offset`; None: nothing.

    A checkpoint that comes from a backup is behind its output, and does not know it: what the
    output holds was shown, and must not be drawn again.
    """
    saved, torn = lines.encode(), False
    with open(path, "rb") as file:
        file.seek(offset)
        start = file.read(len(saved))
        if start != saved:
            if b"\n" in start and not saved.startswith(start):
                raise CheckpointError(f"{path} holds other lines than those that were saved.")
            return None  # not all of them were written: they are written again
        last, end = saved.splitlines()[-1] if saved else b"", file.tell()
        for line in file:
            torn = not line.endswith(b"\n")
            if not torn:
                last, end = line, end + len(line)
    if end == offset + len(saved) and not torn:
        return None
    step, chain = _place(last, path)
    return Sent(step + torn, step, end, chain)


def _place(line: bytes, path: Path) -> tuple[int, str]:
    """The step and the hash of a line of output; −1 for a first line, which has none."""
    try:
        text = as_text(line, "it")
        if text.startswith("{"):
            record = parse_json(text, "it")
            return int(record.get("step", -1)), str(record.get("hash", ""))
        first = text.partition(",")[0].strip()
        return (-1 if first in ("", "step") else int(first)), ""
    except (InvalidInput, ValueError, TypeError, AttributeError):
        raise CheckpointError(
            f"{path}: its last line is not one of a stream. What was sent cannot be told: say the "
            "last step that the receiver has, --known, and choose another --output."
        ) from None


class LineOutput:
    """Standard output, or a file that is cut back to what was certain after a restart."""

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
        """Force a file to disk."""
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
