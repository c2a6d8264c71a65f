"""The header of a release: the public facts that make its table usable, and whether they are true.

A header is read with distrust: every field is checked, ε is computed again from level, δ, move and
range, and a checksum covers all of it and the table. That finds mistakes and edited files. Who
writes a whole new header, checksum and all, is found out by the signature only, which is made with
a key that the ledger of the data holder keeps (`verify_release`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np

from privest.arrays import Array
from privest.data import Block, Features, open_source, read_rows
from privest.errors import InvalidInput, PrivestError
from privest.files import atomic_write
from privest.lattice import GRID
from privest.reading import (
    parse_json,
    read_count,
    read_document,
    read_flag,
    read_number,
    read_text,
    require_parameters,
)
from privest.records import as_frame, plain
from privest.release import Release, StreamRelease
from privest.workflow._column import Column, OneColumn
from privest.workflow._header_fields import (
    LedgerPlace,
    read_categories,
    read_hash,
    read_names,
    require_bits,
    require_whole,
)
from privest.workflow._held import HELD, HeldTable, KeptBlocks
from privest.workflow._person_sums import readings_of
from privest.workflow._row_levels import require_levels
from privest.workflow._sections import People, Weights
from privest.workflow._spec import FAMILIES

WARNING = (
    "SIMULATED noise: made with an ordinary random generator, for trying things out. It gives no "
    "protection; do not publish it as a private release."
)
DERIVED = ("warning", "checksum")  # written for readers; computed again on reading
OUTSIDE = ("path", "memory", "signature")  # not under the checksum: the signature is of it


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """Rows of a release: H (rows, n), z (rows, columns) in units of the modelled targets.

    levels  of the rows, where each has its own; z is NaN where it is 0, and nothing was shown.
    """

    H: Array = field(repr=False)
    z: Array = field(repr=False)
    weights: Array | None = field(default=None, repr=False)
    people: Array | None = field(default=None, repr=False)
    levels: Array | None = field(default=None, repr=False)

    @property
    def shown(self) -> ReleasedRows:
        """Those whose reading is shown: rows of level 0 are left out."""
        if self.levels is None or (self.levels > 0).all():
            return self
        kept = self.levels > 0
        return ReleasedRows(self.H[kept], self.z[kept], levels=self.levels[kept])

    def __len__(self) -> int:
        return len(self.H)


@dataclass(frozen=True, kw_only=True)
class TableRelease(Release, OneColumn):
    """A release that is a table of rows (features, z), and the public facts that make z usable.

    table           its name; `path` is where it was found, `memory` holds it where there is no
                    file. `blocks`, `stream`, `values` read it.
    columns         of private readings: how each of them left, its level among that. z·unit is a
                    reading with its noise, in the units of the modelled target; z·unit/√level
                    where a level column has a level for every row.
    names           of the coefficients, `intercept` among them where there is one.
    categories      the public list of each column of categories, as the plan states it.
    family          of the readings given the features.
    people          whose rows they are, where a person has several, and `persons`, how many.
    weights         of the rows: a public column.
    grid            of protected noise, 2⁻¹⁰: z are whole numbers; 0 where simulated.
    entry           where the release is in the ledger of the data holder; `signature`: of the
                    checksum, with the key of that ledger. None where there is no ledger.
    sha256          of the table; `checksum` is of all these facts, this one among them, so that
                    header and table can neither be mixed up nor be edited.

    With one private column its facts are also those of the release: `target`, `level`, `range`, ...
    """

    KIND: ClassVar[str] = "privest release 3"

    table: str
    rows: int
    dropped: int
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    simulated: bool
    sha256: str
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    family: str = "gaussian"
    people: People | None = None
    persons: int | None = None
    weights: Weights | None = None
    grid: float = 0.0
    entry: LedgerPlace | None = None
    signature: str | None = None
    path: Path | None = field(default=None, compare=False, repr=False)
    memory: HeldTable | None = field(default=None, compare=False, repr=False)

    @property
    def fingerprint(self) -> str:  # type: ignore[override] # of the level of its column
        """Of the level."""
        return self.column.fingerprint

    @property
    def unit(self) -> float:
        """z·unit is a reading with its noise: of one private column."""
        return self.column.unit(simulated=self.simulated)

    @property
    def charged(self) -> int:
        """How many indices of a ledger it is: persons where rows belong to them, else rows."""
        return self.rows if self.persons is None else self.persons

    @property
    def warning(self) -> str | None:
        """What goes with every simulated release."""
        return WARNING if self.simulated else None

    @property
    def checksum(self) -> str:
        """SHA-256 of the facts, in one spelling: JSON with sorted names and no spaces."""
        text = json.dumps(self._facts(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def values(self) -> Array:  # type: ignore[override] # read when asked for, not kept
        """The noisy readings of every row, in the units of the modelled target.

        (rows,), or (rows, columns) where several columns are private.
        """
        blocks = list(self.blocks())
        z = np.concatenate([block.z for block in blocks])
        if self.people is not None:
            numbers = np.concatenate([block.people for block in blocks if block.people is not None])
            z[:, 0] = readings_of(self.column, z[:, 0], numbers)
        return z[:, 0] if len(self.columns) == 1 else z

    def blocks(self) -> Iterator[ReleasedRows]:
        """The table in blocks: H, the noisy readings, and the columns of persons and weights.

        Raises InvalidInput where a real release holds anything but whole numbers.
        """
        kept = None if self.memory is None else self.memory.kept
        return self._blocks() if kept is None else kept.through(self._blocks())

    def _blocks(self) -> Iterator[ReleasedRows]:
        units = np.array([column.unit(simulated=self.simulated) for column in self.columns])
        zeros = np.array([column.zero for column in self.columns])
        for block in self._read():
            z, levels = block.targets * units + zeros, self._levels(block)
            if levels is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    z = np.where(levels > 0, z[:, 0] / np.sqrt(levels), np.nan)[:, None]
            yield ReleasedRows(
                block.H, z, self._found(self.weights, block), self._found(self.people, block),
                levels,
            )  # fmt: skip

    def remembered(self) -> TableRelease:
        """The same; it keeps its rows from the first pass on where they are HELD numbers or less.

        For the time of an estimate that reads them several times.
        """
        if self.rows * (len(self.names) + len(self.columns) + len(self._beside)) > HELD:
            return self
        memory = HeldTable(self.library) if self.memory is None else self.memory
        return replace(self, memory=replace(memory, kept=KeptBlocks(self.rows)))

    def shown_blocks(self) -> Iterator[ReleasedRows]:
        """The same without rows of level 0, of which nothing was shown."""
        for part in self.blocks():
            if len(shown := part.shown):
                yield shown

    def _levels(self, block: Block) -> Array | None:
        """The levels of some rows, where each has its own."""
        column = self.columns[0]
        if column.level_column is None:
            return None
        found = np.asarray(block.beside[column.level_column])
        require_levels(found, column.level, self.table if self.path is None else self.path)
        return found

    def stream(self) -> Iterator[tuple[StreamRelease, Array]]:
        """The table in blocks, as releases z̃ = √s·(y + noise) of a stream at level s, each with H.

        Of one private column, one reading a person.
        """
        if self.column.level_column is not None:
            raise InvalidInput(
                "rows of this release have levels of their own, and a stream at one level has not: "
                "read it by `blocks`."
            )
        start, level, mark = 0, self.level, self.fingerprint
        factor = math.sqrt(level) if self.simulated else self.grid
        for block in self._read():
            assert block.y is not None
            z = factor * block.y
            yield StreamRelease(start, len(z), z, None, mark, self.simulated, self.grid), block.H
            start += len(z)

    def _read(self) -> Iterator[Block]:
        """The table as it is written."""
        held = None if self.memory is None else self.memory.columns
        table = self.path if held is None else held
        if table is None:
            raise InvalidInput(f"where is the table {self.table}? read_release finds it.")
        design = Features(self._features, {}, "intercept" in self.names)
        private = tuple(column.name for column in self.columns)
        where = Path(self.table) if self.path is None else self.path
        for block in read_rows(open_source(table), design, private, beside=self._beside):
            if not self.simulated:
                require_whole(block.targets, where)
            for column, z in zip(self.columns, block.targets.T):
                if column.law == "coin":
                    require_bits(z, where)
            yield block

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a table that is held in memory, and its header, into a folder; where it is now.

        Both keep their names. A file that exists is never written over.
        """
        if self.memory is None or self.memory.columns is None:
            raise InvalidInput(
                f"the release {self.table} is a file already: copy it and its header."
            )
        if not self.memory.text:
            raise InvalidInput("a trial that was made without a file cannot be saved as one.")
        table = Path(folder) / self.table
        for file in (table, header_path(table)):
            if file.exists():
                raise InvalidInput(f"{file} exists: choose another folder.")
        atomic_write(table, self.memory.text)
        atomic_write(header_path(table), self.header_text)
        return table

    @property
    def header_text(self) -> str:
        """What is in the header file."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def to_frame(self, library: str | None = None) -> Any:  # noqa: ANN401 - pandas or polars
        """The table: public columns, and the noisy readings in units of the modelled target."""
        blocks = list(self.blocks())
        columns = dict(zip(self.names, np.concatenate([block.H for block in blocks]).T))
        columns.pop("intercept", None)
        for part, own in ((self.weights, "weights"), (self.people, "people")):
            if part is not None:
                columns[part.column] = np.concatenate([getattr(block, own) for block in blocks])
        unequal = self.columns[0].level_column
        if unequal is not None:
            columns[unequal] = np.concatenate([np.asarray(block.levels) for block in blocks])
        readings = np.concatenate([block.z for block in blocks])
        columns |= {column.name: z for column, z in zip(self.columns, readings.T)}
        return as_frame(columns, library or self.library)

    @property
    def library(self) -> str:
        """Of the frames it is shown as."""
        return "pandas" if self.memory is None else self.memory.library

    @property
    def _beside(self) -> tuple[str, ...]:
        """Columns that are neither features nor readings."""
        parts = (self.weights, self.people)
        found = [*(None if part is None else part.column for part in parts),
                 self.columns[0].level_column]  # fmt: skip
        return tuple(name for name in found if name is not None)

    def _found(self, part: Weights | People | None, block: Block) -> Array | None:
        return None if part is None else np.asarray(block.beside[part.column])

    @property
    def _features(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != "intercept")

    @property
    def table_columns(self) -> tuple[str, ...]:
        """Of the table: features, weights, persons, levels of the rows, readings."""
        return (*self._features, *self._beside, *(column.name for column in self.columns))

    def _facts(self) -> dict[str, Any]:
        own = [one.name for one in fields(self) if one.name not in OUTSIDE]
        facts = {"kind": self.KIND} | {name: plain(getattr(self, name)) for name in own}
        return facts | {
            "columns": [column.facts(simulated=self.simulated) for column in self.columns],
        }

    def to_dict(self) -> dict[str, Any]:
        """The header: plain values, for JSON."""
        derived = {name: getattr(self, name) for name in (*DERIVED, "signature")}
        columns = [column.header(simulated=self.simulated) for column in self.columns]
        return self._facts() | {"columns": columns} | derived

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`: every field checked, whatever was received."""
        known = {"kind", *DERIVED, *(one.name for one in fields(cls))} - {"path", "memory"}
        kind = record.get("kind") if isinstance(record, Mapping) else None
        another = str(kind).startswith("privest release") and kind != cls.KIND
        if another or (kind == cls.KIND and set(record) != known):
            raise InvalidInput(
                "the header is of another version of privest, or was changed: fields of this one "
                "are not there, or others are. Read it with the version that wrote it."
            )
        found = super().from_dict(
            {**record, "path": None, "memory": None} if isinstance(record, Mapping) else record
        )
        found._require_derived(record)
        return found

    def _require_derived(self, record: Mapping[str, Any]) -> None:
        """What the header says of itself must be what its facts say."""
        if record["warning"] != self.warning:
            raise InvalidInput("warning is not that of this kind of noise: it was changed.")
        if record["checksum"] != self.checksum:
            raise InvalidInput(
                "the checksum is not that of the header: the header was changed after the release "
                "was made. Ask for the one that was written with the table."
            )

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        for name in ("table", "sha256", "family"):
            record[name] = read_text(record[name], name)
        for name in ("rows", "dropped"):
            record[name] = read_count(record[name], name)
        for name, read in (
            ("signature", read_hash), ("entry", LedgerPlace.read), ("persons", read_count),
            ("people", People.read), ("weights", Weights.read),
        ):  # fmt: skip
            if record[name] is not None:
                record[name] = read(record[name], name)
        record["simulated"] = read_flag(record["simulated"], "simulated")
        record["grid"] = read_number(record["grid"], "grid")
        record["names"] = read_names(record["names"])
        record["categories"] = read_categories(record["categories"], record["names"])
        record["columns"] = _read_columns(record["columns"], simulated=record["simulated"])
        _require_sense(record)
        return record


def _read_columns(given: object, *, simulated: bool) -> tuple[Column, ...]:
    parts = given if isinstance(given, list | tuple) else ()
    require_parameters(len(parts), "columns")
    return tuple(Column.read(part, simulated=simulated) for part in parts)


def _require_sense(record: Mapping[str, Any]) -> None:
    """What the fields must be to each other."""
    columns: tuple[Column, ...] = record["columns"]
    targets = {column.target for column in columns}
    levels = [column.level_column for column in columns if column.level_column is not None]
    parts = [part for part in (record["people"], record["weights"]) if part is not None]
    beside = [*(part.column for part in parts), *levels]
    rows = [column.reference_rows for column in columns if column.reference_rows is not None]
    wrong = {
        "the table must have a name": not record["table"],
        "rows must be 1 or more": record["rows"] < 1,
        "columns must be one or more, each with its own target": not columns
        or len(targets) < len(columns),
        "alone is said of the only column": any(c.alone != (len(columns) == 1) for c in columns),
        "names must not hold the target: it is private": bool(targets & set(record["names"])),
        "the columns of persons, weights and levels must be others": bool(
            set(beside) & (targets | set(record["names"]) | {c.name for c in columns})
        )
        or len(set(beside)) < len(beside),
        "levels of the rows have neither persons nor weights nor a family": bool(levels)
        and (bool(parts) or record["family"] != "gaussian"),
        "reference_rows must be more than the coefficients": any(
            known <= len(record["names"]) for known in rows
        ),
        "law coin goes with family binomial": any(c.law == "coin" for c in columns)
        and record["family"] != "binomial",
        f"family must be one of {', '.join(FAMILIES)}": record["family"] not in FAMILIES,
        "persons goes with people": (record["people"] is None) != (record["persons"] is None),
        "person of a column goes with people": any(
            (column.person is None) != (record["people"] is None) for column in columns
        ),
        "grid must be that of its noise, 0 where it is simulated": record["grid"]
        != (0.0 if record["simulated"] else GRID),
        "a simulated release must have no entry": record["simulated"]
        and record["entry"] is not None,
        "entry and signature go together": (record["entry"] is None)
        != (record["signature"] is None),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidInput(f"{what}.")


def header_path(table: Path) -> Path:
    """Where the header of a release is: z.csv → z.csv.json."""
    return table.parent / (table.name + ".json")


def read_release(path: str | Path) -> TableRelease:
    """A release from its table and the header beside it.

    Raises InvalidInput where one of them is not there or not right, or they do not belong together.
    """
    table = Path(path)
    if table.name.endswith((".csv.json", ".parquet.json")):
        raise InvalidInput(f"{table} is the header; name the table, {table.with_suffix('')}.")
    file = header_path(table)
    try:
        release = TableRelease.from_dict(parsed_header(file))
    except PrivestError as error:
        raise InvalidInput(f"{file}: {error}") from None
    if not table.is_file():
        raise InvalidInput(f"there is no table {table}.")
    _require_its_table(release, table)
    return replace(release, path=table)


def _require_its_table(release: TableRelease, table: Path) -> None:
    """The name, the bytes and the columns that the header speaks of."""
    if table.name != release.table:
        raise InvalidInput(
            f"{table} is not the table that its header was made for: that one is called "
            f"{release.table!r}. Give both files their names back."
        )
    with table.open("rb") as file:
        if digest(file) != release.sha256:
            raise InvalidInput(
                f"{table} is not the table that its header was made for: it was changed or "
                "replaced."
            )
    if open_source(table).columns != release.table_columns:
        raise InvalidInput(
            f"{table} does not have the columns that its header names: the header was changed."
        )


def parsed_header(file: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What a header file holds, as JSON gives it."""
    if not os.path.isfile(file):  # nor a pipe, which would be waited for
        raise InvalidInput(
            "there is no such header: a release is a table and its header, side by side. (The "
            "releases of a stream carry theirs where they are JSON lines, *.jsonl.)"
        )
    return parse_json(read_document(file, "not JSON: it"), "the header")


def digest(file: BinaryIO) -> str:
    """SHA-256 of a file, from where it stands to its end."""
    found = hashlib.sha256()
    while part := file.read(1 << 20):
        found.update(part)
    return found.hexdigest()
