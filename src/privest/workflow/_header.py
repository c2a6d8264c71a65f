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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np

from privest.arrays import Array
from privest.data import Features, open_source, read_rows
from privest.errors import InvalidInput, PrivestError
from privest.privacy import Range
from privest.reading import (
    parse_json,
    read_count,
    read_document,
    read_flag,
    read_number,
    read_positive,
    read_text,
)
from privest.records import plain
from privest.release import Release, StreamRelease
from privest.workflow._header_fields import (
    READING,
    LedgerPlace,
    read_ends,
    read_hash,
    read_names,
    require_sense,
    require_whole,
)
from privest.workflow._modelled import Ends, counted_move, epsilon_of, modelled_range

WARNING = (
    "SIMULATED noise: made with an ordinary random generator, for trying things out. It gives no "
    "protection; do not publish it as a private release."
)
DERIVED = ("epsilon", "warning", "checksum")  # written for readers; computed again on reading
OUTSIDE = ("path", "signature")  # not under the checksum: the signature is of it
# ε is the root of an equation, found to about 1e-12: a stored one may come from another machine.
SAME_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True)
class TableRelease(Release):
    """A release that is a table of rows (features, z), and the public facts that make z usable.

    table           its name; `path` is where it was found. `values` and `stream` read it.
    grid            of protected noise, 2⁻¹⁰: the column z holds whole numbers; 0 where simulated.
    unit            z·unit is a reading with its noise, in the units of the modelled target: g/√s;
                    1 where simulated.
    level           s: a reading has noise of variance 1/s; `fingerprint`: of that level.
    noise_variance  σ² of y given the features.
    names           of the coefficients, `intercept` among them where there is one.
    delta, move     where they are stated the level has an `epsilon`; a range limits the move.
    range           (low, high) of the readings before the transform: beyond it they were clipped.
    entry           where the release is in the ledger of the data holder; `signature`: of the
                    checksum, with the key of that ledger. None where there is no ledger.
    reference_rows  rows of the public reference that σ² is from; None where σ² was given.
    sha256          of the table; `checksum` is of all these facts, this one among them, so that
                    header and table can neither be mixed up nor be edited.
    """

    KIND: ClassVar[str] = "privest release 2"

    table: str
    rows: int
    dropped: int
    target: str
    transform: str
    exponent: float | None
    names: tuple[str, ...]
    level: float
    fingerprint: str
    noise_variance: float
    reference_rows: int | None
    delta: float | None
    move: float | None
    simulated: bool
    sha256: str
    grid: float = 0.0
    unit: float = 1.0
    range: Ends | None = None
    entry: LedgerPlace | None = None
    signature: str | None = None
    path: Path | None = field(default=None, compare=False, repr=False)

    @cached_property
    def epsilon(self) -> float | None:
        """What the level means as differential privacy, where δ and the move are stated."""
        return epsilon_of(self.level, self.delta, counted_move(self.move, self.limits))

    @property
    def limits(self) -> Range | None:
        """The range of the readings, in the units of the modelled target."""
        return modelled_range(self.transform, self.exponent, self.range)

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
        """The noisy reading of every row, (rows,), in the units of the modelled target."""
        return np.concatenate([part.values for part, _ in self.stream()]) / math.sqrt(self.level)

    def stream(self) -> Iterator[tuple[StreamRelease, Array]]:
        """The table in blocks, as releases z̃ = √s·(y + noise) of a stream at level s, each with H.

        Raises InvalidInput where a real release holds anything but whole numbers.
        """
        if self.path is None:
            raise InvalidInput(f"where is the table {self.table}? read_release finds it.")
        design = Features(self._columns, {}, "intercept" in self.names)
        start, factor = 0, math.sqrt(self.level) if self.simulated else self.grid
        for block in read_rows(open_source(self.path), design, READING):
            assert block.y is not None
            if not self.simulated:
                require_whole(block.y, self.path)
            z = factor * block.y
            made = StreamRelease(
                start, len(z), z, None, self.fingerprint, self.simulated, self.grid
            )
            yield made, block.H
            start += len(z)

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != "intercept")

    def _facts(self) -> dict[str, Any]:
        own = [one.name for one in fields(self) if one.name not in OUTSIDE]
        facts = {"kind": self.KIND} | {name: plain(getattr(self, name)) for name in own}
        return facts | {"entry": None if self.entry is None else self.entry.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """The header: plain values, for JSON."""
        derived = {name: getattr(self, name) for name in (*DERIVED, "signature")}
        return self._facts() | derived

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`: every field checked, whatever was received."""
        known = {"kind", *DERIVED, *(one.name for one in fields(cls))} - {"path"}
        kind = record.get("kind") if isinstance(record, Mapping) else None
        another = str(kind).startswith("privest release") and kind != cls.KIND
        if another or (kind == cls.KIND and set(record) != known):
            raise InvalidInput(
                "the header is of another version of privest, or was changed: fields of this one "
                "are not there, or others are. Read it with the version that wrote it."
            )
        found = super().from_dict(
            {**record, "path": None} if isinstance(record, Mapping) else record
        )
        found._require_derived(record)
        return found

    def _require_derived(self, record: Mapping[str, Any]) -> None:
        """What the header says of itself must be what its facts say."""
        stated, epsilon = record["epsilon"], self.epsilon
        if stated is not None:
            stated = read_number(stated, "epsilon")
        if (stated is None) != (epsilon is None) or not math.isclose(
            stated or 0.0, epsilon or 0.0, rel_tol=SAME_EPSILON
        ):
            raise InvalidInput(
                "epsilon is not that of level, delta, move and range: it was changed."
            )
        if record["warning"] != self.warning:
            raise InvalidInput("warning is not that of this kind of noise: it was changed.")
        if record["checksum"] != self.checksum:
            raise InvalidInput(
                "the checksum is not that of the header: the header was changed after the release "
                "was made. Ask for the one that was written with the table."
            )

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        for name in ("table", "target", "transform", "fingerprint", "sha256"):
            record[name] = read_text(record[name], name)
        for name in ("level", "noise_variance", "unit"):
            record[name] = read_positive(record[name], name)
        for name in ("rows", "dropped"):
            record[name] = read_count(record[name], name)
        for name, read in (
            ("exponent", read_number), ("delta", read_positive), ("move", read_positive),
            ("reference_rows", read_count), ("range", read_ends), ("signature", read_hash),
            ("entry", LedgerPlace.read),
        ):  # fmt: skip
            if record[name] is not None:
                record[name] = read(record[name], name)
        record["simulated"] = read_flag(record["simulated"], "simulated")
        record["grid"] = read_number(record["grid"], "grid")
        record["names"] = read_names(record["names"])
        require_sense(record)
        return record


def header_path(table: Path) -> Path:
    """Where the header of a release is: z.csv → z.csv.json."""
    return table.with_name(table.name + ".json")


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
    if open_source(table).columns != (*release._columns, READING):
        raise InvalidInput(
            f"{table} does not have the columns that its header names: the header was changed."
        )


def parsed_header(file: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What a header file holds, as JSON gives it."""
    if not file.exists():
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
