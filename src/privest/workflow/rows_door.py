"""The real release of rows: whole numbers by `vault.leave`, then a table and its sealed header.

    first pass → leave → second pass, beside the table's place → header → table in its place

The integers are in the ledger before anything is shown. A run that was killed is finished by the
same call, with the same integers: the table is a function of them and of the public columns, whose
hash is part of what was asked.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from privest import vault
from privest.data.cells import require_no_formula
from privest.errors import InvalidInput
from privest.files import draft, require_writable
from privest.mechanism.source import as_protected
from privest.vault.record import canonical
from privest.workflow.document import TableRelease, digest, document_path, read_release
from privest.workflow.plan import Plan
from privest.workflow.rows import LeavingRows, PrivateColumn
from privest.workflow.rows_document import members_of, spec_members
from privest.workflow.rows_planner import RowGrid

PURPOSE = "privest rows 2"


def release_rows(
    plan: Plan,
    table: Path,
    book: vault.Book,
    subject: str,
    data: object = None,
    *,
    line: str | None = None,
) -> TableRelease:
    """The table and its header at `table`, charged to a subject of a ledger that is open.

    line  what is charged beside the subject; None: "rows of COLUMN". The same values once more,
          with new noise, are a line of their own.
    """
    _require_place(plan, table)
    own_line = f"rows of {plan.column.target}" if line is None else line
    header = document_path(table)
    with draft(table) as part:  # one process at a time
        rows = LeavingRows(plan, as_protected(None), data)
        column = rows.column()
        asked = asked_of(plan, column)
        place = (subject, own_line, 0, len(column.values))
        if table.exists() or header.exists():
            _require_own(book, place, asked, table)
        left = _leave(plan, rows, column, book, place, asked)
        part.empty()
        release = _described(plan, rows, left, table)
        rows.write(release, part.file, rows.rendered(left.integers, column.public))  # type: ignore[arg-type]
        part.settle()
        release = replace(release, sha256=_digest_of(part.file))
        if table.exists() and _digest_of_file(table) != release.sha256:
            raise InvalidInput(f"{table} exists, and is not this release: choose another name.")
        members = members_of(release, part.file.seek(0, 2), left.body)
        vault.publish(book, vault.seal(book, [left.seq], members), header)
        if not table.exists():
            part.publish()
    return read_release(table)


def _require_place(plan: Plan, table: Path) -> None:
    """Refuse a place where the table cannot be written, before anything is charged."""
    plan.form.require_name(table)
    if table.suffix.lower() == ".csv":
        model = plan.model
        require_no_formula(chain(model.target, model.features, *model.categories.values()))
    require_writable(table)


def asked_of(plan: Plan, column: PrivateColumn) -> str:
    """SHA-256 of what is planned, as it was stated, and of the public columns."""
    asked = {
        "purpose": PURPOSE,
        "plan": spec_members(plan.model, plan.privacy),
        "public": column.public,
    }
    return hashlib.sha256(canonical(asked)).hexdigest()


def _require_own(
    book: vault.Book, place: tuple[str, str, int, int], asked: str, table: Path
) -> None:
    """Refuse a name that is taken by anything but a run of this release."""
    if vault.left_before(book, *place, asked) is None:
        raise InvalidInput(
            f"{table} or its header exists, and is not of this release. Releasing the same values "
            "again, with new noise, spends their privacy again: use the release that is there, or "
            "another name if these are other values."
        )


def _leave(
    plan: Plan,
    rows: LeavingRows,
    column: PrivateColumn,
    book: vault.Book,
    place: tuple[str, str, int, int],
    asked: str,
) -> vault.Left:
    grid = rows.grid
    subject, line, _, count = place
    source = {"column": plan.column.target, "transform": plan.model.transform}
    return vault.leave(
        vault.sealed(column.values, source=source),
        map=grid.map(count, column.levels),
        law=grid.law,
        range=grid.range,
        by=grid.by,
        book=book,
        subject=subject,
        line=line,
        asked=asked,
    )


def _described(plan: Plan, rows: LeavingRows, left: vault.Left, table: Path) -> TableRelease:
    """The release by its entry: noise and range of the run that drew, not of this one."""
    return TableRelease(
        **plan.terms, rows=len(left.integers), dropped=rows.dropped, simulated=False,
        table=table.name, coefficients=plan.names, categories=dict(plan.spec.design.categories),
        drawn=RowGrid.read(left.body), path=table,
    )  # fmt: skip


def _digest_of(file: BinaryIO) -> str:
    file.seek(0)
    return digest(file)


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return digest(file)
