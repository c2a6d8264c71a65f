"""A release and its header: the public facts that make the table usable, and checks of them.

The header is read with distrust: its sections pass the checks of a plan, what follows from other
fields (ε, names, units) is computed again, and a checksum covers its bytes and the table. Only its
signature, by the key of the owner's ledger, exposes a header that was written anew (`verify`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from privest.arrays import Array
from privest.data.features import Features
from privest.data.rows import Block, read_rows
from privest.data.source import open_source
from privest.errors import InvalidInput, PrivestError
from privest.files import atomic_write
from privest.lattice import GRID
from privest.reading import (
    optional,
    parse_json,
    read_count,
    read_document,
    read_fields,
    read_flag,
    read_number,
    read_positive,
    read_text,
    require_parameters,
)
from privest.records import as_frame, plain
from privest.release import ReleaseRecord
from privest.workflow.aggregate import SCORES, Published, payload
from privest.workflow.before import level_before
from privest.workflow.rows_planner import RowGrid, epsilon_of
from privest.workflow.spec import (
    VERSION,
    Model,
    Privacy,
    Public,
    Spec,
    require_version,
    section,
    stated,
)
from privest.workflow.survey import require_levels, require_weights
from privest.workflow.terms import Column, Known, Terms, close, solve, splits_of_kinds

WARNING = (
    "SIMULATED noise: made with an ordinary random generator. It gives no protection; do not "
    "publish it as a private release."
)
ALTERED = "it was changed after the release was made, or written before 1.0.0rc1."
MOST = 2.0**53  # whole numbers are exact up to here
TABLES = (".csv", ".parquet")
HELD = 1 << 23  # numbers that are kept in memory so that a file is not read again: 64 MB


@dataclass(frozen=True)
class LedgerPlace:
    """The ledger entry of a release; `hash` binds all entries before it too."""

    ledger: str
    subject: str
    sequence: int
    hash: str

    @classmethod
    def read(cls, given: object, name: str) -> LedgerPlace:
        return cls(**read_fields(given, ENTRY, name))


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """Rows of a release: H (rows, n) and noisy values z (rows,), as in `values`.

    levels  of the rows with a level column; z is NaN where the level is 0.
    """

    H: Array = field(repr=False)
    z: Array = field(repr=False)
    weights: Array | None = field(default=None, repr=False)
    levels: Array | None = field(default=None, repr=False)

    @property
    def shown(self) -> ReleasedRows:
        if self.levels is None or (self.levels > 0).all():
            return self
        kept = self.levels > 0
        return ReleasedRows(self.H[kept], self.z[kept], levels=self.levels[kept])

    def __len__(self) -> int:
        return len(self.H)


def library_of(data: object) -> str:
    return "polars" if type(data).__module__.partition(".")[0] == "polars" else "pandas"


@dataclass(frozen=True, eq=False)
class HeldTable:
    """What this process knows about a release besides its header.

    library  that makes its frames: pandas or polars.
    columns  of a table that is held in memory; `text`: the bytes of its file.
    blocks   of the table, while an estimate is made.
    """

    library: str
    columns: Mapping[str, Array] | None = field(default=None, repr=False)
    text: bytes = field(default=b"", repr=False)
    blocks: tuple[ReleasedRows, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableRelease(ReleaseRecord, Terms):
    """A table of rows (features, z) and the public facts that make z usable.

    rows, dropped   of the table, and left out for missing values; `persons`: how many.
    coefficients    their names; `categories`: public list of each categorical feature.
    grid            2⁻¹⁰ of protected noise, z are whole numbers; 0 where simulated.
    drawn           of rows that are whole numbers of a `RowGrid`; None: of the grid 2⁻¹⁰.
    sums            of the aggregate form: what leaves of each column, in place of a table.
    table, sha256   name and digest of the table; `path`: where it is; `memory`: a held table.
    entry           place in the data owner's ledger; `signature`: of the checksum, by its key.
    stored          what the checksum covers of a header that was read: never computed again.
    """

    KIND: ClassVar[str] = "privest release"

    rows: int
    dropped: int
    simulated: bool
    table: str
    sha256: str = ""
    persons: int | None = None
    coefficients: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    grid: float = 0.0
    drawn: RowGrid | None = None
    sums: tuple[Published, ...] = ()
    entry: LedgerPlace | None = None
    signature: str | None = None
    path: Path | None = field(default=None, repr=False)
    memory: HeldTable | None = field(default=None, repr=False)
    stored: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients."""
        return self.coefficients

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        from privest.privacy import StreamLevel

        return StreamLevel.constant(self.column.level).fingerprint

    @cached_property
    def epsilon(self) -> float | None:
        if self.drawn is None or self.simulated:
            return super().epsilon
        largest = None if self.privacy.level_column is None else self.column.level
        return epsilon_of(self.drawn.cost(largest), self.privacy.delta)

    @property
    def charged(self) -> int:
        return self.rows if self.persons is None else self.persons

    @property
    def warning(self) -> str | None:
        return WARNING if self.simulated else None

    # --- the header -----------------------------------------------------------------------------

    def _facts(self) -> Mapping[str, Any]:
        if self.stored is not None:
            return self.stored
        columns = []
        for one in self.columns:
            is_table = self.privacy.form == "rows"
            slope, offset = self.scale(one) if is_table else (1.0, 0.0)
            name = "z" if len(self.model.target) == 1 else f"z:{one.target}"
            columns.append(vars(one) | {"name": name, "unit": slope, "zero": offset})
        found: dict[str, Any] = plain(
            {
                "format": self.KIND, "version": VERSION,
                "plan": {"model": stated(self.model), "privacy": stated(self.privacy)},
                "columns": columns,
                "facts": {
                    "rows": self.rows, "dropped": self.dropped, "persons": self.persons,
                    "most_rows": self.most, "coefficients": self.coefficients,
                    "categories": self.categories, "simulated": self.simulated,
                    "warning": self.warning, "epsilon": self.epsilon,
                },
                "grid": self.grid, "table": self.table, "sha256": self.sha256,
                **({} if self.drawn is None else {"drawn": self.drawn.said()}),
                **({"sums": [one.to_dict() for one in self.sums]} if self.sums else {}),
                "entry": None if self.entry is None else vars(self.entry),
            }
        )  # fmt: skip
        return found

    @property
    def checksum(self) -> str:
        return checksum_of(self._facts())

    @property
    def signed_text(self) -> bytes:
        return f"{self.KIND} {VERSION} {self.checksum}".encode()

    def to_dict(self) -> dict[str, Any]:
        """The header: plain values, for JSON."""
        if self.stored is not None and "seal" in self.stored:
            return dict(self.stored)
        return {**self._facts(), "checksum": self.checksum, "signature": self.signature}

    @property
    def text(self) -> str:
        return _text(self.to_dict())

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TableRelease:
        """The inverse of `to_dict`: every field checked."""
        if not isinstance(record, Mapping):
            raise InvalidInput("a release's header holds names with values.")
        if record.get("format", record.get("kind")) not in (cls.KIND, f"{cls.KIND} 3"):
            raise InvalidInput("this is not the header of a privest release.")
        require_version(record.get("version"), "the header is")
        schema = DOCUMENT | {name: _any for name in ("sums", "drawn") if name in record}
        given = read_fields(record, schema, "the header")
        outside = ("checksum", "signature")
        stored = {name: value for name, value in record.items() if name not in outside}
        if given["checksum"] != checksum_of(stored):
            raise InvalidInput(f"the checksum is not that of the header: {ALTERED}")
        found = _of_sections(given)
        for derived, written in zip(found._facts()["columns"], record["columns"], strict=True):
            scales = [[one["unit"], one["zero"]] for one in (derived, written)]
            if derived["name"] != written["name"] or not close(*scales):
                raise InvalidInput("columns: name, unit or zero do not follow from the level.")
        return replace(found, stored=stored)

    def scale(self, column: Column) -> tuple[float, float]:
        if self.drawn is not None:
            levelled = self.privacy.level_column is not None
            return self.drawn.level_scale if levelled else self.drawn.scale
        return self.distribution.scale_before(self.unit_level(column), self.limits(column))

    # --- the table --------------------------------------------------------------------------------

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for name in self.coefficients if name != "intercept")

    @property
    def table_columns(self) -> tuple[str, ...]:
        """Features, public columns beside them, the noisy value."""
        return (*self.features, *self.beside, "z")

    def blocks(self) -> Iterator[ReleasedRows]:
        if self.sums:
            raise InvalidInput("this release has no rows: its form is aggregate.")
        kept = () if self.memory is None else self.memory.blocks
        return iter(kept) if kept else self._blocks()

    def shown_blocks(self) -> Iterator[ReleasedRows]:
        for part in self.blocks():
            if len(shown := part.shown):
                yield shown

    def _blocks(self) -> Iterator[ReleasedRows]:
        model, where = self.model, self.table if self.path is None else self.path
        for block in self._read():
            levels = None
            if self.privacy.level_column is not None:
                levels = np.asarray(block.beside[self.privacy.level_column])
                require_levels(levels, self.column.level, where)
            z = self._in_units(block.targets[:, 0], levels)
            weights = None
            if model.weights is not None:
                weights = np.asarray(block.beside[model.weights])
                require_weights(weights, model.weights, str(where))
            yield ReleasedRows(block.H, z, weights, levels)

    def _in_units(self, z: Array, levels: Array | None) -> Array:
        if self.drawn is not None:
            return self.drawn.values(z, levels)
        slope, offset = self.scale(self.column)
        values = z * slope + offset
        if levels is None:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(levels > 0, values / np.sqrt(levels), np.nan)

    def _read(self) -> Iterator[Block]:
        held = None if self.memory is None else self.memory.columns
        table = self.path if held is None else held
        if table is None:
            raise InvalidInput(f"the table {self.table} is not here: read_release finds it.")
        design = Features(self.features, {}, "intercept" in self.coefficients)
        beside = dict.fromkeys(self.beside, False)
        for block in read_rows(open_source(table), design, ("z",), beside=beside):
            self._require_values(block.targets)
            yield block

    def _require_values(self, z: Array) -> None:
        where = self.table if self.path is None else self.path
        self.distribution.require(z, where)
        if not ((np.trunc(z) == z) & (np.abs(z) <= MOST)).all():
            raise InvalidInput(
                f"{where}: a release holds whole numbers, and this one does not: the table was "
                "changed."
            )

    @property
    def values(self) -> Array:  # type: ignore[override]
        """The noisy target of every row, (rows,), or its noisy logarithm where that is modelled."""
        return np.concatenate([block.z for block in self.blocks()])

    def remembered(self) -> TableRelease:
        """The same release, a small table held in memory for estimates of many passes."""
        width = len(self.coefficients) + 1 + len(self.beside)
        if self.sums or self.rows * width > HELD:
            return self
        memory = HeldTable(self.library) if self.memory is None else self.memory
        return replace(self, memory=replace(memory, blocks=tuple(self.blocks())))

    @property
    def library(self) -> str:
        return "pandas" if self.memory is None else self.memory.library

    def to_frame(self, library: str | None = None) -> Any:  # noqa: ANN401 - pandas or polars
        """The table: public columns, and the noisy `values` as z."""
        blocks = list(self.blocks())
        columns = dict(zip(self.coefficients, np.concatenate([one.H for one in blocks]).T))
        columns.pop("intercept", None)
        beside = (self.model.weights, self.privacy.level_column)
        for name, own in zip(beside, ("weights", "levels")):
            if name is not None:
                columns[name] = np.concatenate([getattr(one, own) for one in blocks])
        columns["z"] = np.concatenate([one.z for one in blocks])
        return as_frame(columns, library or self.library)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a held table and its header into a folder; a file is never written over."""
        if self.memory is None or not self.memory.text:
            raise InvalidInput(f"the release {self.table} is not held in memory: copy its files.")
        table = Path(folder) / self.table
        for file in (table, document_path(table)):
            if file.exists():
                raise InvalidInput(f"{file} exists: choose another folder.")
        atomic_write(table, self.memory.text)
        atomic_write(document_path(table), self.text)
        return table


# --- reading --------------------------------------------------------------------------------------


def read_hash(given: object, name: str) -> str:
    text = read_text(given, name)
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise InvalidInput(f"{name} must be 64 hexadecimal digits.")
    return text


def _any(given: object, name: str) -> Any:  # noqa: ANN401 - checked later
    return given


DOCUMENT: dict[str, Any] = {
    "format": read_text, "version": read_count, "plan": _any, "columns": _any, "facts": _any,
    "grid": read_number, "table": read_text, "sha256": read_hash, "checksum": read_hash,
    "entry": optional(LedgerPlace.read), "signature": optional(read_hash),
}  # fmt: skip
ENTRY: dict[str, Any] = {
    "ledger": read_text,
    "subject": read_text,
    "sequence": read_count,
    "hash": read_hash,
}
FACTS: dict[str, Any] = {
    "rows": read_count, "dropped": read_count, "persons": optional(read_count),
    "most_rows": optional(read_count), "coefficients": _any, "categories": _any,
    "simulated": read_flag, "warning": optional(read_text), "epsilon": optional(read_positive),
}  # fmt: skip
COLUMN: dict[str, Any] = {
    "target": read_text, "level": read_positive, "residual_variance": optional(read_positive),
    "reference_rows": optional(read_count), "name": read_text, "unit": read_positive,
    "zero": read_number,
}  # fmt: skip


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def checksum_of(facts: Mapping[str, Any]) -> str:
    """SHA-256 of the bytes of a header before its checksum."""
    before = _text(facts).removesuffix("\n}\n")
    return hashlib.sha256(before.encode()).hexdigest()


def _of_sections(given: Mapping[str, Any]) -> TableRelease:
    sections = read_fields(given["plan"], {"model": _any, "privacy": _any}, "plan")
    model = section(Model, sections["model"], "plan: model")
    privacy = section(Privacy, sections["privacy"], "plan: privacy")
    facts = read_fields(given["facts"], FACTS, "facts")
    columns, design = _columns(given["columns"]), model.design
    known = columns[0].residual_variance if len(columns) == 1 else None
    Spec("the release", model, privacy, Public(known))
    n = len(design.names)
    sums = _sums(given, model, privacy, n)
    kinds = [("none" if one.kind == SCORES else one.kind, one.level) for one in sums]
    found = TableRelease(
        model=model, privacy=privacy, columns=columns, sums=sums,
        splits=splits_of_kinds(model, privacy, kinds, n, facts["most_rows"]) if sums else (),
        most=facts["most_rows"], rows=facts["rows"], dropped=facts["dropped"],
        simulated=facts["simulated"], table=given["table"], sha256=given["sha256"],
        persons=facts["persons"], coefficients=tuple(design.names),
        categories=dict(design.categories), grid=given["grid"], entry=given["entry"],
        signature=given["signature"], drawn=_drawn(given, facts["simulated"]),
    )  # fmt: skip
    _require_whole(found, facts)
    return found


def _sums(
    given: Mapping[str, Any], model: Model, privacy: Privacy, n: int
) -> tuple[Published, ...]:
    if privacy.form == "rows":
        if "sums" in given:
            raise InvalidInput("sums are of the aggregate form: the header was changed.")
        return ()
    listed = given.get("sums")
    if not isinstance(listed, list) or len(listed) != len(model.target):
        raise InvalidInput("an aggregate release has sums for every private column.")
    found = tuple(Published.from_dict(one, n) for one in listed)
    if hashlib.sha256(payload(found)).hexdigest() != given["sha256"]:
        raise InvalidInput("the sums are not those of their SHA-256: the header was changed.")
    return found


def _drawn(given: Mapping[str, Any], simulated: bool) -> RowGrid | None:
    if "drawn" not in given:
        if simulated and "sums" not in given:
            raise InvalidInput("a simulation of an earlier version: simulate it again.")
        return None
    try:
        return RowGrid.read(given["drawn"])
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput("drawn: law and range of rows are expected.") from None


def _columns(given: object) -> tuple[Column, ...]:
    parts = given if isinstance(given, list) else ()
    require_parameters(len(parts), "columns")
    read = [read_fields(part, COLUMN, "each of the columns") for part in parts]
    names = [one.name for one in fields(Column)]
    return tuple(Column(*(record[name] for name in names)) for record in read)


def _require_whole(found: TableRelease, facts: Mapping[str, Any]) -> None:
    model, n = found.model, len(found.coefficients)
    targets, beside = tuple(one.target for one in found.columns), found.beside
    persons = {model.person is None, found.persons is None, found.most is None}
    design = plain([found.coefficients, found.categories])
    apart = {*found.coefficients, *targets, *beside}
    _refuse(
        {
            "the table must have a name": not found.table,
            "rows must be 1 or more": found.rows < 1,
            "columns must be those of the model's target": targets != model.target,
            "coefficients must be those of the model": design
            != [facts["coefficients"], facts["categories"]],
            "private and public columns must differ": len(apart) < n + len(targets) + len(beside),
            "reference_rows goes with a residual variance and exceeds the coefficients": any(
                one.reference_rows is not None
                and (one.residual_variance is None or one.reference_rows <= n)
                for one in found.columns
            ),
            "persons and most_rows go with a column of persons": len(persons) > 1,
            "there are no more persons than rows": (found.persons or 0) > found.rows,
            "most_rows must be the cap": (model.most_rows or found.most) != found.most,
            "grid must be that of its noise, 0 where it is simulated": found.grid
            != GRID * (not found.simulated),
            "a release has an entry, a simulation has none": found.simulated
            != (found.entry is None),
            "entry and signature go together": (found.entry is None) != (found.signature is None),
            "warning is not that of this kind of noise": facts["warning"] != found.warning,
        }
    )
    levels = [(one.target, one.level) for one in found.columns]
    _refuse(  # now that levels, targets and persons fit each other
        {
            "epsilon does not follow from level, delta, sensitivity and range": not close(
                [facts["epsilon"]], [found.epsilon]
            ),
            "levels must be those of the privacy section": not _keeps_promise(found),
            "an aggregate release names its targets and levels in its sums": bool(found.sums)
            and [(one.target, one.level) for one in found.sums] != levels,
        }
    )


def _refuse(wrong: Mapping[str, bool]) -> None:
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidInput(f"{what}: the header was changed.")


def _keeps_promise(found: TableRelease) -> bool:
    """Whether its levels follow from its privacy section; for an accuracy that needs the table."""
    levels = [one.level for one in found.columns]
    if found.splits:
        if close(levels, [own.level for own in found.splits]):
            return True
        widths = [found.summed(one).width for one in found.columns]
        n = len(found.names)
        before = [level_before(own, n, width) for own, width in zip(found.splits, widths)]
        return close(levels, before)
    if found.privacy.standard_error is not None or found.privacy.level_column is not None:
        return True
    terms = solve(found.model, found.privacy, (Known(),) * len(levels))
    return close(levels, [one.level for one in terms.columns])


# --- files ----------------------------------------------------------------------------------------


def document_path(table: Path) -> Path:
    """The header of a release: z.csv → z.csv.json; an aggregate one is z.json itself."""
    if table.suffix.lower() == ".json":
        return table
    return table.parent / (table.name + ".json")


def read_release(path: str | Path) -> TableRelease:
    """A release from its table and the header beside it, which must belong together.

    >>> import tempfile, privest as pv
    >>> path = tempfile.mkdtemp() + "/z.json"
    >>> plan = pv.plan("diabetes", "s5 ~ age", epsilon=3.0, range=(3.0, 6.5))
    >>> read_release(plan.simulate(path, rng=1).path).column.target
    's5'
    """
    table = Path(path)
    if table.name.endswith(tuple(f"{ending}.json" for ending in TABLES)):
        raise InvalidInput(f"{table} is the header; name the table, {table.with_suffix('')}.")
    file = document_path(table)
    try:
        release = _read_header(file)
    except PrivestError as error:
        raise InvalidInput(f"{file}: {error}") from None
    if release.sums:
        return replace(release, path=table)
    if not table.is_file():
        raise InvalidInput(f"there is no table {table}.")
    if table.name != release.table:
        raise InvalidInput(
            f"{table} is not the table of its header, which is called {release.table!r}."
        )
    with table.open("rb") as bytes_:
        if digest(bytes_) != release.sha256:
            raise InvalidInput(
                f"{table} is not the table of its header: it was changed or replaced."
            )
    if open_source(table).columns != release.table_columns:
        raise InvalidInput(f"{table} does not have the columns that its header names.")
    return replace(release, path=table)


def _read_header(file: Path) -> TableRelease:
    from privest.workflow.rows_document import is_sealed, read_header

    if file.is_file() and is_sealed(data := file.read_bytes()):
        return read_header(data)
    release = TableRelease.from_dict(parsed_document(file))
    if file.read_bytes() != release.text.encode():  # spaces, order, spellings of one number
        raise InvalidInput(f"its bytes are not those that were written: {ALTERED}")
    return release


def parsed_document(file: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    if not os.path.isfile(file):  # nor a pipe, which would be waited for
        raise InvalidInput(
            "there is no such file: a release is a document of noisy sums, or a table and its "
            "header, side by side."
        )
    return parse_json(read_document(file, "not JSON: it"), "the header")


def digest(file: BinaryIO) -> str:
    """SHA-256 of a file, from where it stands to its end."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def require_same_terms(plan: Terms, release: TableRelease, table: str) -> None:
    """Refuse a release that was made under a different plan, naming what differs."""
    own, other = plan.privacy, release.privacy
    privacy = ("form", "level_column", "delta", "range", "within", "pilot")
    pairs: dict[str, tuple[object, object]] = {
        "target": (plan.model.target, release.model.target),
        **{name: (getattr(own, name), getattr(other, name)) for name in privacy},
        "set of coefficients": (plan.names, release.names),
        "distribution": (plan.distribution, release.distribution),
        "sensitivity": (own.sensitivity, other.sensitivity),
        "model": (plan.model, release.model),
    }
    if plan.splits:
        promised = [(one.epsilon, one.level, one.standard_error) for one in (own, other)]
        pairs["level or residual variance"] = promised[0], promised[1]
    different = [what for what, (planned, released) in pairs.items() if planned != released]
    for planned, released in zip(plan.columns, release.columns):
        # Of sums the promise stands for the level, which is rounded otherwise since 2.0.
        levels = [0.0 if plan.splits else one.level for one in (planned, released)]
        numbers = [
            [level, one.residual_variance] for level, one in zip(levels, (planned, released))
        ]
        if planned.reference_rows != released.reference_rows or not close(*numbers):
            different.append("level or residual variance")
    if different:
        raise InvalidInput(
            f"{table} was released under a different plan, with a different {different[0]}."
        )
