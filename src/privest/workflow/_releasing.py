"""The release: z = y + e/√s for every row, with the public features and a header. Never y.

The noise of this version comes from a simulation generator: it protects nothing against somebody
who knows how it was made. The header says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array, as_positive
from privest.data import open_source, read_rows, write_table
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.noise._law import as_generator
from privest.workflow._planning import Plan
from privest.workflow._terms import (
    Terms,
    add_rows,
    new_sums,
    require_full,
    require_target,
    transformed,
)

KIND = "privest release"
READING = "z"
WARNING = (
    "SIMULATED noise: made with an ordinary random generator, for trying things out. It gives no "
    "protection; do not publish it as a private release."
)


@dataclass(frozen=True)
class ReleaseHeader:
    """The public facts that make z usable.

    level           s: z has noise of variance 1/s on every reading.
    noise_variance  σ² of y given the features.
    names           of the coefficients, `intercept` among them where there is one.
    epsilon, delta, move: what the level means as differential privacy, where it was stated.
    reference_rows  rows of the public reference that σ² is from; None where σ² was given.
    sha256          of the table, so that header and table cannot be mixed up.
    """

    kind: str
    table: str
    rows: int
    dropped: int
    target: str
    transform: str
    exponent: float | None
    names: tuple[str, ...]
    level: float
    noise_variance: float
    reference_rows: int | None
    epsilon: float | None
    delta: float | None
    move: float | None
    simulated: bool
    warning: str | None
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"names": list(self.names)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ReleaseHeader:
        """The inverse of `to_dict`."""
        if record.get("kind") != KIND:
            raise InvalidInput("this is not the header of a release.")
        try:
            found = cls(**(dict(record) | {"names": tuple(record["names"])}))
        except (KeyError, TypeError):
            raise InvalidInput("the header is incomplete, or of another version.") from None
        as_positive(found.level, "level")
        as_positive(found.noise_variance, "noise_variance")
        if not isinstance(found.rows, int) or found.rows < 1:
            raise InvalidInput("rows must be a number of rows.")
        for name in ("dropped", "exponent", "reference_rows", "epsilon", "delta", "move"):
            if not isinstance(getattr(found, name), int | float | None):
                raise InvalidInput(f"{name} must be a number, or null.")
        if not all(isinstance(name, str) for name in found.names) or "intercept" in found.names[1:]:
            raise InvalidInput("names must be texts, the intercept first.")
        return found


def header_path(table: Path) -> Path:
    """Where the header of a release is: z.csv → z.csv.json."""
    return table.with_name(table.name + ".json")


def trial_generator(plan: Terms, seed: int | None) -> np.random.Generator:
    """A generator for a trial release: None is fresh, a seed repeats this plan's noise only.

    The same noise on two releases (of another level, target or set of rows) would give the
    readings away: y + e/√s and y + e/√s' are two equations with two unknowns. So the seed is mixed
    with everything that makes a release.
    """
    if seed is None:
        return np.random.default_rng()
    if not isinstance(plan, Plan):
        raise InvalidInput("a seed is mixed with the rows of a plan: make the plan first.")
    spec = plan.spec
    what = [Path(spec.data).name, spec.target, spec.transform, plan.exponent, plan.names]
    what += [spec.missing, plan.rows, plan.level]
    if Path(spec.data).is_file():  # the same people on another day are other readings
        what.append(checksum(Path(spec.data)))
    digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()
    return np.random.default_rng([seed, int(digest, 16)])


def simulate_release(
    plan: Terms, path: str | Path, rng: np.random.Generator, data: object = None
) -> ReleaseHeader:
    """Write the release of the plan's data to `path` (.csv or .parquet) and its header beside it.

    In blocks; the table appears when it is whole, then its header. A file that exists is never
    written over: the same readings released twice, with new noise, show twice as much.
    `plan` may be bare terms (`stated_terms`): the data are then read once, and features that do
    not determine the coefficients are refused at their end, before the table appears.
    """
    as_generator(rng)
    table = Path(path)
    for file in (table, header_path(table)):
        if file.exists():
            raise InvalidInput(
                f"{file} exists. Releasing the same readings again, with new noise, spends their "
                "privacy again: use the release that is there, or another name if these are other "
                "readings."
            )
    spec, design = plan.spec, plan.spec.design
    epsilon = plan.epsilon  # now: what can fail must not fail after the table is there
    source = open_source(spec.data if data is None else data)
    require_target(spec, source)
    counted = {"dropped": 0, "rows": 0}
    sums = None if isinstance(plan, Plan) else new_sums(design)

    def blocks() -> Iterator[Sequence[Array]]:
        for block in read_rows(source, design, spec.target, missing=spec.missing):
            assert block.y is not None
            counted["dropped"] += block.dropped
            counted["rows"] += len(block.H)
            if sums is not None:
                add_rows(sums, block.H, np.zeros(len(block.H)))
            y = transformed(spec, plan.exponent, block.y, source.name)
            z = y + rng.standard_normal(len(y)) / np.sqrt(plan.level)
            if (z == y).any():  # noise below the rounding of y: by chance about never
                raise InvalidInput(
                    f"the level {plan.level:g} is so large that its noise is lost in rounding, and "
                    "readings would be shown as they are. Choose a smaller one."
                )
            first = 1 if design.intercept else 0
            yield [*block.H.T[first:], z]
        if sums is not None:
            require_full(sums, design, source.name, counted["rows"])

    names = [name for name in plan.names if name != "intercept"]
    rows = write_table(table, [*names, READING], blocks())
    try:
        return _describe(plan, table, rows, counted["dropped"], epsilon)
    except BaseException:
        table.unlink()  # a table without its header is no release
        raise


def _describe(
    plan: Terms, table: Path, rows: int, dropped: int, epsilon: float | None
) -> ReleaseHeader:
    """The header of a table that is there, written beside it."""
    spec = plan.spec
    header = ReleaseHeader(
        kind=KIND,
        table=table.name,
        rows=rows,
        dropped=dropped,
        target=spec.target,
        transform=spec.transform,
        exponent=plan.exponent,
        names=plan.names,
        level=plan.level,
        noise_variance=plan.variance,
        reference_rows=plan.reference_rows,
        epsilon=epsilon,
        delta=spec.privacy.delta,
        move=spec.privacy.move,
        simulated=True,
        warning=WARNING,
        sha256=checksum(table),
    )
    text = json.dumps(header.to_dict(), indent=1, ensure_ascii=False)
    atomic_write(header_path(table), text + "\n")
    return header


def read_header(table: Path) -> ReleaseHeader:
    """The header of a release."""
    file = header_path(table)
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise InvalidInput(
            f"there is no header {file}: a release is a table and its header, side by side."
        ) from None
    except ValueError:
        raise InvalidInput(f"{file} is not JSON.") from None
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{file} is not the header of a release.")
    try:
        return ReleaseHeader.from_dict(record)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from None


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
