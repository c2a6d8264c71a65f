"""The release: a table with public columns and noisy values, and its header. Never y.

`release` draws protected noise and writes whole numbers; it refuses nothing because of a value.
`simulate_release` draws from an ordinary generator: no protection, and the header says so.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from privest.arrays import AnyArray
from privest.data.cells import require_no_formula
from privest.data.source import open_source
from privest.errors import InvalidInput
from privest.files import Draft, atomic_write, draft, part_path, require_writable
from privest.ledger import Account as LedgerAccount
from privest.mechanism.source import Source, as_protected, as_source, seeded
from privest.reading import parse_json
from privest.workflow.account import Account, PublicRows
from privest.workflow.aggregate import Published
from privest.workflow.document import HeldTable, TableRelease, digest, document_path, library_of
from privest.workflow.plan import Plan
from privest.workflow.rows import grid_of

Progress = Callable[[int], object]


def simulation_source(plan: Plan, seed: int | None) -> Source:
    model, levels = plan.model, [column.level for column in plan.columns]
    if plan.found is not None and plan.found.levels is not None:
        levels.append(plan.found.levels.mean)  # the largest level does not state the others
    numbers = (f"{level:.6g}" for level in levels)
    return seeded(
        seed, "table", *model.target, model.transform, *plan.names, *numbers, model.most_rows
    )


def simulate_release(
    plan: Plan,
    path: str | Path,
    rng: np.random.Generator | Source,
    data: object = None,
    *,
    progress: Progress | None = None,
) -> TableRelease:
    """A simulation of `release`: the same files, and no protection."""
    return _released(plan, Path(path), as_source(rng), data, progress)


def release(
    plan: Plan,
    path: str | Path,
    data: object = None,
    *,
    account: Account,
    source: Source | None = None,
    progress: Progress | None = None,
) -> TableRelease:
    """Write the release of the plan's data to `path` and its header beside it.

    Nobody but the owner can read the table until it is whole, paid for and its header is there. A
    file that exists is never written over. The same call finishes a run that was killed: with the
    same table if it was paid for, else drawn anew. No value is refused.

    account   that is charged: there is no release without one.
    source    of the noise; None: protected noise, which has no seed.
    progress  is told how many rows have left so far; an exception that it raises ends the release.
    """
    if not isinstance(account, Account):
        raise InvalidInput("account is required: a release is charged to an account of a ledger.")
    return _released(plan, Path(path), as_protected(source), data, progress, account)


def _released(
    plan: Plan,
    table: Path,
    source: Source,
    data: object,
    progress: Progress | None,
    account: Account | None = None,
) -> TableRelease:
    plan.form.require_name(table)
    if table.suffix.lower() == ".csv":  # now: before an account is opened
        model = plan.model
        require_no_formula(chain(model.target, model.features, *model.categories.values()))
    require_writable(table)
    _ = plan.epsilon  # now: what can fail must not fail after the noise is drawn
    with draft(table) as part:  # now no other process can begin
        whole = document_path(table) == table and table.exists()  # then the draft has no use
        part.kept = part.left and not whole  # until it is known whether it was paid for
        if table.exists() or account is None or not part.left:
            _require_free(table, simulated=source.simulated)
        elif (found := _paid(plan, table, source, part, account)) is not None:
            return _shown(found, table, part)
        _require_free(table, simulated=source.simulated)
        part.kept = False
        rows = plan.form.leaving(plan, source, data)
        if account is not None:
            account.open(plan, table.resolve().parent)
        part.empty()
        form = described(plan, table, source, "")
        public = PublicRows(len(plan.names) - plan.spec.design.intercept)
        blocks = rows.blocks() if account is None else public.through(rows.blocks())
        blocks = _told(blocks, progress)
        count, sums = rows.write(form, part.file, blocks)
        part.settle()
        found = replace(
            form, sha256=_digest(part), rows=count, dropped=rows.dropped, persons=rows.persons,
            sums=sums,
        )  # fmt: skip
        if account is not None:
            found = _charged(plan, found, part, account, public)
        return _shown(found, table, part)


def _told(
    blocks: Iterator[Sequence[AnyArray]], progress: Progress | None
) -> Iterator[Sequence[AnyArray]]:
    rows = 0
    for block in blocks:
        yield block
        rows += len(block[-1])
        if progress is not None:
            progress(rows)


def _paid(
    plan: Plan, table: Path, source: Source, part: Draft, account: Account
) -> TableRelease | None:
    """The rest of a killed run in the draft, if it is whole and in the ledger."""
    part.kept = True  # whatever happens while this is not known
    whole = described(plan, table, source, _digest(part))
    if plan.splits:
        whole = replace(whole, sums=_left_sums(part, len(plan.names)))
    found = account.paid(whole)
    part.kept = found is not None
    return found


def _left_sums(part: Draft, n: int) -> tuple[Published, ...]:
    """The sums of a killed run; () where they are not whole."""
    part.file.seek(0)
    try:
        listed = parse_json(part.file.read().decode(), "the draft")
        return tuple(Published.from_dict(one, n) for one in listed)
    except (InvalidInput, UnicodeDecodeError, TypeError):
        return ()


def _charged(
    plan: Plan, found: TableRelease, part: Draft, account: Account, public: PublicRows
) -> TableRelease:
    part.kept = True
    try:
        return account.charge(plan, found, public)
    except BaseException:
        part.kept = False
        part.kept = account.is_paid(found.sha256)  # what failed may have come after the entry
        raise


def _shown(found: TableRelease, table: Path, part: Draft) -> TableRelease:
    header = document_path(table)
    try:
        _write_document(found, table)
        if header == table:
            part.kept = False  # the document holds all of it
            return found
        part.publish()
    except BaseException:
        if not part.kept:
            header.unlink(missing_ok=True)  # a header without its table is no release
        raise
    return found


def _digest(part: Draft) -> str:
    part.file.seek(0)
    return digest(part.file)


def _write_document(found: TableRelease, table: Path) -> None:
    beside = table.resolve().with_name(f"{table.name}.json")
    atomic_write(document_path(table), found.text, beside=part_path(beside))


def _require_free(table: Path, *, simulated: bool) -> None:
    if simulated and (there := [one for one in (table, document_path(table)) if one.exists()]):
        raise InvalidInput(f"{there[0]} exists: choose another name.")
    again = "Releasing the same values again, with new noise, spends their privacy again"
    if table.exists():
        raise InvalidInput(
            f"{table} exists. {again}: use the release that is there, or another name if these are "
            "other values."
        )
    header = document_path(table)
    if header.exists():
        raise InvalidInput(
            f"{header} exists, without its table. {again}: find the table. If it was never "
            "complete, or nobody has seen it, delete the header."
        )


def described(plan: Plan, table: Path, source: Source, sha256: str) -> TableRelease:
    return TableRelease(
        **plan.terms, rows=1, dropped=0, simulated=source.simulated, table=table.name,
        sha256=sha256, coefficients=plan.names, categories=dict(plan.spec.design.categories),
        grid=source.grid, persons=None if plan.model.person is None else 1, path=table,
        drawn=grid_of(plan, plan.found) if source.simulated and not plan.splits else None,
    )  # fmt: skip


# --- as methods of a plan -------------------------------------------------------------------------


def release_plan(
    plan: Plan,
    path: str | os.PathLike[str] | None = None,
    *,
    account: LedgerAccount,
    again: bool = False,
) -> TableRelease:
    if not isinstance(account, LedgerAccount):
        raise InvalidInput('account is that of a ledger: Ledger("ledger.db").account("name").')
    with Account(account.ledger, account.subject, again=again) as own:
        return _made(plan, path, lambda to: release(plan, to, account=own))


def simulate_plan(
    plan: Plan, path: str | os.PathLike[str] | None = None, *, rng: int | np.random.Generator
) -> TableRelease:
    noise = rng if isinstance(rng, np.random.Generator) else simulation_source(plan, rng)
    return _made(plan, path, lambda to: simulate_release(plan, to, noise))


def _made(
    plan: Plan, path: str | os.PathLike[str] | None, make: Callable[[Path], TableRelease]
) -> TableRelease:
    library = library_of(plan.data)
    if path is not None:
        return replace(make(Path(path)), memory=HeldTable(library))
    with tempfile.TemporaryDirectory(prefix="privest-") as folder:
        table = Path(folder) / ("release.json" if plan.splits else "release.csv")
        found, held = make(table), HeldTable(library)
        if not found.sums:
            columns = open_source(table).read(found.table_columns)
            held = HeldTable(library, columns, table.read_bytes())
        return replace(found, path=None, memory=held)
