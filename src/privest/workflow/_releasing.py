"""The release: z = y + e/√s for every row, with the public features and a header. Never y.

The noise of this version comes from a simulation generator: it protects nothing against somebody
who knows how it was made. The header says so.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from privest.arrays import Array, ArrayLike, as_number, as_positive
from privest.data import Features, open_source, read_rows, write_table
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.mechanism import RunningMechanism, StreamMechanism
from privest.mechanism.source import Source, as_source, seeded
from privest.privacy import EndlessLevel
from privest.records import plain
from privest.release import Release, StreamRelease, read_count, read_flag, read_text
from privest.workflow._planning import Plan
from privest.workflow._terms import (
    Terms,
    add_rows,
    new_sums,
    require_full,
    require_target,
    transformed,
)

READING = "z"
WARNING = (
    "SIMULATED noise: made with an ordinary random generator, for trying things out. It gives no "
    "protection; do not publish it as a private release."
)


@dataclass(frozen=True, kw_only=True)
class TableRelease(Release):
    """A release that is a table of rows (features, z), and the public facts that make z usable.

    table           its name; `path` is where it was found. `values` and `stream` read it.
    level           s: z has noise of variance 1/s on every reading; `fingerprint`: of that level.
    noise_variance  σ² of y given the features.
    names           of the coefficients, `intercept` among them where there is one.
    epsilon, delta, move: what the level means as differential privacy, where it was stated.
    reference_rows  rows of the public reference that σ² is from; None where σ² was given.
    sha256          of the table, so that header and table cannot be mixed up.
    """

    KIND: ClassVar[str] = "privest release"

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
    epsilon: float | None
    delta: float | None
    move: float | None
    simulated: bool
    warning: str | None
    sha256: str
    path: Path | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> Array:  # type: ignore[override] # read when asked for, not kept
        """z of every row, (rows,)."""
        return np.concatenate([part.values for part, _ in self.stream()]) / math.sqrt(self.level)

    def stream(self) -> Iterator[tuple[StreamRelease, Array]]:
        """The table in blocks, as releases z̃ = √s·z of a stream at level s, each with its H."""
        if self.path is None:
            raise InvalidInput(f"where is the table {self.table}? read_release finds it.")
        columns = tuple(name for name in self.names if name != "intercept")
        design, root = Features(columns, {}, "intercept" in self.names), math.sqrt(self.level)
        start = 0
        for block in read_rows(open_source(self.path), design, READING):
            assert block.y is not None
            z = root * block.y
            yield StreamRelease(start, len(z), z, None, self.fingerprint, self.simulated), block.H
            start += len(z)

    def to_dict(self) -> dict[str, Any]:
        """The header: plain values, for JSON."""
        own = [one.name for one in fields(self) if one.name != "path"]
        return {"kind": self.KIND} | {name: plain(getattr(self, name)) for name in own}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`: every field checked, whatever was received."""
        known = {"kind", *(one.name for one in fields(cls))} - {"path"}
        if isinstance(record, Mapping) and set(record) - known:
            raise InvalidInput("the header is of another version: it has fields not known here.")
        return super().from_dict(
            {**record, "path": None} if isinstance(record, Mapping) else record
        )

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        for name in ("table", "target", "transform", "fingerprint", "sha256"):
            record[name] = read_text(record[name], name)
        for name in ("level", "noise_variance"):
            record[name] = as_positive(record[name], name)
        for name in ("exponent", "epsilon", "delta", "move"):
            if record[name] is not None:
                record[name] = as_number(record[name], name)
        for name in ("rows", "dropped", "reference_rows"):
            if record[name] is not None or name != "reference_rows":
                record[name] = read_count(record[name], name)
        record["simulated"] = read_flag(record["simulated"], "simulated")
        if record["warning"] is not None:
            record["warning"] = read_text(record["warning"], "warning")
        record["names"] = _names(record["names"])
        if record["rows"] < 1:
            raise InvalidInput("rows must be a number of rows.")
        if record["fingerprint"] != EndlessLevel(record["level"]).fingerprint:
            raise InvalidInput("the fingerprint is not that of the level: one of them was changed.")
        return record


def _names(given: object) -> tuple[str, ...]:
    """Names of coefficients, as JSON gives them."""
    names = tuple(given) if isinstance(given, list | tuple) else ()
    good = names and all(isinstance(name, str) for name in names)
    if not good or "intercept" in names[1:] or len(set(names)) < len(names):
        raise InvalidInput("names must be different texts, the intercept first.")
    return names


class TableMechanism:
    """What puts noise on the rows of a table: z_k = y_k + e_k/√s, e_k ~ N(0, 1), I_z(y) = s·I.

    A stream at level s, z = z̃/√s: rows may come in blocks of any size.

    >>> mechanism = TableMechanism(4.0)
    >>> mechanism.simulate([0.3, 0.1], np.random.default_rng(1)).round(3).tolist()
    [0.473, 0.511]
    """

    def __init__(self, level: float) -> None:
        self.level = as_positive(level, "level")
        self._stream, self._root = StreamMechanism(self.level), math.sqrt(self.level)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z of the next rows, with simulated noise."""
        return self._stream.simulate(y, rng).values / self._root

    def as_mechanism(self, readings: int = 1) -> RunningMechanism:
        """A table of so many rows as one mechanism, for an audit, in units of the noise: √s·z.

        Every draw is a table of its own, in one block.
        """
        fresh = type(self)

        def draw(y: Array, rng: np.random.Generator | Source) -> Array:
            return self._root * fresh(self.level).simulate(y, rng)

        return RunningMechanism.at_level(self.level, readings, draw, repr(self))

    def __repr__(self) -> str:
        return f"TableMechanism({self.level:g})"


def header_path(table: Path) -> Path:
    """Where the header of a release is: z.csv → z.csv.json."""
    return table.with_name(table.name + ".json")


def trial_source(terms: Terms, seed: int | None) -> Source:
    """The noise of a trial release: fresh for None; a seed repeats the very same release only.

    Bound row by row to the reading, its place and its level by the source itself, to target and
    coefficients here: two different releases never share their noise.
    """
    return seeded(seed, "table", terms.spec.target, terms.spec.transform, list(terms.names))


def simulate_release(
    plan: Terms, path: str | Path, rng: np.random.Generator | Source, data: object = None
) -> TableRelease:
    """Write the release of the plan's data to `path` (.csv or .parquet) and its header beside it.

    In blocks; the table appears when it is whole, then its header. A file that exists is never
    written over: the same readings released twice, with new noise, show twice as much.
    `plan` may be bare terms (`stated_terms`): the data are then read once, and features that do
    not determine the coefficients are refused at their end, before the table appears.
    """
    source, table = as_source(rng), Path(path)
    for file in (table, header_path(table)):
        if file.exists():
            raise InvalidInput(
                f"{file} exists. Releasing the same readings again, with new noise, spends their "
                "privacy again: use the release that is there, or another name if these are other "
                "readings."
            )
    epsilon = plan.epsilon  # now: what can fail must not fail after the table is there
    released = _Rows(plan, source, plan.spec.data if data is None else data)
    columns = [name for name in plan.names if name != "intercept"]
    rows = write_table(table, [*columns, READING], released.blocks())
    try:
        return _describe(plan, table, rows, released.dropped, epsilon, source.simulated)
    except BaseException:
        table.unlink()  # a table without its header is no release
        raise


class _Rows:
    """The rows of a table as they leave: public features and z, block by block."""

    def __init__(self, plan: Terms, source: Source, data: object) -> None:
        self.plan, self.source = plan, source
        self.data = open_source(data)
        require_target(plan.spec, self.data)
        self.dropped = 0

    def blocks(self) -> Iterator[Sequence[Array]]:
        plan, design = self.plan, self.plan.spec.design
        sums = None if isinstance(plan, Plan) else new_sums(design)
        mechanism, rows = TableMechanism(plan.level), 0
        for block in read_rows(self.data, design, plan.spec.target, missing=plan.spec.missing):
            assert block.y is not None
            self.dropped += block.dropped
            rows += len(block.H)
            if sums is not None:
                add_rows(sums, block.H)
            y = transformed(plan.spec, plan.exponent, block.y, self.data.name)
            yield [*block.H.T[int(design.intercept) :], mechanism.simulate(y, self.source)]
        if sums is not None:
            require_full(sums, design.names, self.data.name, rows)


def _describe(
    plan: Terms, table: Path, rows: int, dropped: int, epsilon: float | None, simulated: bool
) -> TableRelease:
    """The header of a table that is there, written beside it."""
    spec = plan.spec
    stated = ("exponent", "names", "level", "noise_variance", "reference_rows")
    release = TableRelease(
        **{name: getattr(plan, name) for name in stated},
        table=table.name,
        rows=rows,
        dropped=dropped,
        target=spec.target,
        transform=spec.transform,
        fingerprint=EndlessLevel(plan.level).fingerprint,
        epsilon=epsilon,
        delta=spec.privacy.delta,
        move=spec.privacy.move,
        simulated=simulated,
        warning=WARNING if simulated else None,
        sha256=checksum(table),
        path=table,
    )
    text = json.dumps(release.to_dict(), indent=1, ensure_ascii=False)
    atomic_write(header_path(table), text + "\n")
    return release


def read_release(path: str | Path) -> TableRelease:
    """A release from its table and the header beside it.

    Raises InvalidInput where one of them is not there or not right, or they do not belong together.
    """
    table = Path(path)
    if table.name.endswith((".csv.json", ".parquet.json")):
        raise InvalidInput(f"{table} is the header; name the table, {table.with_suffix('')}.")
    file = header_path(table)
    try:
        release = TableRelease.from_dict(_parsed(file))
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from None
    if not table.is_file():
        raise InvalidInput(f"there is no table {table}.")
    if checksum(table) != release.sha256:
        raise InvalidInput(
            f"{table} is not the table that its header was made for: it was changed or replaced."
        )
    return replace(release, path=table)


def _parsed(file: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise InvalidInput(
            "there is no such header: a release is a table and its header, side by side."
        ) from None
    except ValueError:
        raise InvalidInput("not JSON.") from None


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
