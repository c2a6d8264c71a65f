"""Releases of a stream as JSON lines: a first line of public facts, then a line per step.

    {"format": "privest stream release", "version": 1, "grid": 0.0009765625, …, "hash": "…"}
    {"step": 0, "fingerprint": "…", "grid": 0.0009765625, "z": 1812, …, "hash": "…"}

z̃ = z·grid, z a whole number (simulated: grid is 0 and z̃ = z); null where nothing is shown. Several
measurements per step: z is a list, with null for a missing one. Every line carries the hash of all
lines up to it,

    hash_k = SHA-256(hash_{k−1} ‖ the line up to `, "hash"`) ,   hash_0 = the empty text,

and with a ledger the last line of every block the ledger's signature of its hash ("hmac") and its
entry: a file that ends at any line, as a crash may leave it, can be checked up to that line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice import GRID, MOST
from privest.privacy import StreamLevel
from privest.reading import (
    chosen,
    counted,
    optional,
    parse_json,
    read_count,
    read_fields,
    read_flag,
    read_number,
    read_text,
)
from privest.records import Record
from privest.release import Release, missing_in

FORMAT, VERSION = "privest stream release", 1
OWN = ("step", "fingerprint", "grid", "z", "hash", "hmac", "entry", "format")  # no features
LARGEST = 2.0 * MOST  # of a released integer: what is shown, and noise
LINKED = re.compile(r'^(\{.*), "hash": "([0-9a-f]{64})"(?:, "hmac": "([0-9a-f]{64})")?\}$')
Sign = Callable[[bytes], str]


def facts_of(
    level: StreamLevel, *, simulated: bool, grid: float, measurements: Sequence[str], **more: object
) -> dict[str, Any]:
    """The first line: what is public of a stream; `factors`: A_j of z̃_k = Σ_j A_j y_{k−j} + e_k.

    `unit`: where a step has one measurement, z·unit is it and noise.
    """
    factors = level.blocks(level.reach, level.reach + 1)[:, 0]
    own = float(factors[0, 0, 0]) if level.block == 1 else 0.0
    unit = (grid or 1.0) / own if own else None
    return {
        "format": FORMAT, "version": VERSION, "simulated": simulated, "grid": grid, "unit": unit,
        "fingerprint": level.fingerprint, "factors": factors.tolist(),
        "readings": list(measurements),
    } | more  # fmt: skip


def step_records(release: Release, block: int, *, listed: bool) -> list[dict[str, Any]]:
    """One record per step, z in whole numbers of the grid; None where nothing is shown.

    `listed`: z as a list of the `block` measurements of a step; else it is one number.
    """
    values = release.values.reshape(-1, block)
    absent = np.isnan(values)
    shown = np.asarray(~absent.all(axis=1))
    numbers = np.where(absent, 0.0, values)
    if release.grid:
        numbers = np.rint(numbers / release.grid).astype(np.int64)
    cells: list[Any] = numbers.tolist()
    for k, i in np.argwhere(absent & shown[:, None]).tolist():
        cells[k][i] = None
    return [
        {
            "step": release.start + k,
            "fingerprint": release.fingerprint,
            "grid": release.grid,
            "z": (z if listed else z[0]) if there else None,
        }
        for k, (z, there) in enumerate(zip(cells, shown.tolist()))
    ]


def linked(
    records: Iterable[Mapping[str, Any]], previous: str, sign: Sign | None = None
) -> tuple[str, str]:
    """The lines of these records after a line with hash `previous`, and the last hash.

    `sign`: signs the last line's hash.
    """
    lines = []
    for record in records:
        body = json.dumps(record, ensure_ascii=False)[:-1]
        previous = _hash(previous, body)
        lines.append(f'{body}, "hash": "{previous}"')
    if sign is not None and lines:
        lines[-1] += f', "hmac": "{sign(previous.encode())}"'
    return "".join(line + "}\n" for line in lines), previous


def _hash(previous: str, body: str) -> str:
    return hashlib.sha256((previous + body).encode()).hexdigest()


# --- reading ----------------------------------------------------------------------------------


HEADER: dict[str, Any] = {
    "format": chosen(FORMAT),
    "version": counted(least=1),
    "simulated": read_flag,
    "grid": read_number,
    "fingerprint": read_text,
}


def steps_only(lines: Iterable[str], facts: dict[str, Any] | None = None) -> Iterator[str]:
    """The lines of the steps: a first line of facts is looked at and left empty.

    `facts`: what it says is put there.
    """
    for text in lines:
        found = _facts(text)
        if found is not None and facts is not None:
            facts.update(found)
        yield text if found is None else "\n"


def _facts(text: str) -> dict[str, Any] | None:
    """The facts of a first line; None if this is a line of a step."""
    if '"format"' not in text[:20]:
        return None
    record = parse_json(text, "the first line")
    checked = read_fields(record, HEADER, "the first line of releases", others=True)
    if checked["version"] != VERSION:
        raise InvalidInput(
            f"these releases have version {checked['version']}; this privest reads {VERSION}."
        )
    if checked["grid"] != (0.0 if checked["simulated"] else GRID):
        raise InvalidInput(
            f"real releases are on the grid {GRID!r}, and simulated ones on none: the first line "
            "says neither, it was changed."
        )
    return dict(record) | checked


def as_values(z: Array, grid: float) -> Array:
    """z̃ of what stands in the column z; NaN where it is missing."""
    if grid not in (0.0, GRID):
        raise InvalidInput(f"the grid of a real release is {GRID!r}, and a simulated one has none.")
    if not grid:
        return z
    with np.errstate(invalid="ignore"):
        good = np.isnan(z) | ((z == np.rint(z)) & (np.abs(z) <= LARGEST))
    if not good.all():
        raise InvalidInput("releases on a grid are whole numbers of it: z of some step is not.")
    return z * grid


@dataclass(frozen=True)
class CheckedLines(Record):
    """The kind and state of a file of releases, as far as its hashes and signatures show.

    steps      lines of steps, 0 ≤ step < steps, whole and in order
    missing    of them without a release (not those that show a part)
    signed     the steps that a signature of the ledger covers; None where none was looked at
    torn       the file ends within a line, which is not counted: it was being written
    """

    facts: dict[str, Any]
    steps: int
    missing: int
    signed: int | None
    torn: bool
    hash: str


class Book(Protocol):
    """The ledger that the lines are compared with: each method raises where they differ."""

    def check(self, data: bytes, tag: str) -> bool:
        """Whether a signature is the ledger's."""

    def facts(self, facts: Mapping[str, Any]) -> None:
        """The first line."""

    def step(self, step: int, z: Array | None, entry: int | None) -> None:
        """z of a step (NaN: a part that is missing), and the entry that its line names."""


def check_lines(lines: Iterable[str], book: Book | None = None) -> CheckedLines:
    """Go through the lines of a release file, and compare them with those of a ledger.

    Raises InvalidInput, naming the line, for what was changed, left out or put in.
    """
    facts: dict[str, Any] = {}
    found = CheckedLines(facts, 0, 0, None if book is None else 0, False, "")
    for number, text in enumerate(lines, start=1):
        if not text.endswith("\n"):
            found = replace(found, torn=True)
            break
        try:
            found = _next(found, text[:-1], book)
        except InvalidInput as error:
            raise InvalidInput(f"line {number}: {error}") from None
    if not facts:
        raise InvalidInput("this is not a release of a stream: it has no first line of facts.")
    return found


def _next(found: CheckedLines, text: str, book: Book | None) -> CheckedLines:
    """With one line more; the first one gives the facts."""
    parts = LINKED.match(text)
    if parts is None or _hash(found.hash, parts[1]) != parts[2]:
        raise InvalidInput("it, or a line before it, was changed, left out or put in.")
    found = replace(found, hash=parts[2])
    if found.facts:
        found = _next_step(found, parse_json(text, "it"), book)
    else:
        found.facts.update(_facts(text) or {})
        if not found.facts:
            raise InvalidInput("the facts of the stream are not there.")
        if book is not None:
            book.facts(found.facts)
    if parts[3] is None or book is None:
        return found
    if not book.check(parts[2].encode(), parts[3]):
        raise InvalidInput("its signature is not one of this ledger.")
    return replace(found, signed=found.steps)


def _next_step(found: CheckedLines, record: Any, book: Book | None) -> CheckedLines:  # noqa: ANN401
    step = read_fields(record, STEP, "it", others=True)
    same = all(step[name] == found.facts[name] for name in ("grid", "fingerprint"))
    if step["step"] != found.steps or not same:
        raise InvalidInput("it is not the next step of this stream.")
    z = None if step["z"] is None else np.array(step["z"], dtype=float).ravel()
    if z is not None:
        as_values(z, step["grid"])  # None is NaN
    entry = optional(read_count)(record.get("entry"), "entry")
    if book is not None:
        book.step(found.steps, z, entry)
    return replace(found, steps=found.steps + 1, missing=found.missing + (z is None))


def _cell(given: object, name: str) -> Any:  # noqa: ANN401
    """z: a number, a list of them, some perhaps nothing, or nothing."""
    if isinstance(given, list):
        cells = [None if part is None else read_number(part, name) for part in given]
        if not any(cell is not None for cell in cells):
            raise InvalidInput(f"{name} of a step that shows nothing is null.")
        return cells
    return None if given is None else read_number(given, name)


STEP: dict[str, Any] = {
    "step": read_count,
    "grid": read_number,
    "fingerprint": read_text,
    "z": _cell,
}


def _steps_in_order(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The records of steps 0, 1, …; a repeated one is left out, a gap is refused."""
    step = 0
    for number, text in enumerate(steps_only(lines), start=1):
        if not text.strip():
            continue
        record = read_fields(parse_json(text, f"line {number}"), STEP, "it", others=True)
        if record["step"] > step:
            raise InvalidInput(f"the release of step {step} is missing.")
        if record["step"] == step:
            step += 1
            cell = record["z"]
            yield record | {"z": cell if isinstance(cell, list | None) else [cell]}


def read_release(lines: Iterable[str]) -> Release:
    """All lines as one release (unchecked hashes: `check_lines`), for steps 0, 1, …"""
    records = list(_steps_in_order(lines))
    seen = {(record["grid"], record["fingerprint"]) for record in records}
    z = [record["z"] for record in records]
    sizes = {len(cell) for cell in z if cell is not None}
    if len(seen) != 1 or len(sizes) != 1:
        raise InvalidInput("releases of one stream are needed: one level, one grid, steps alike.")
    (grid, fingerprint), (block,) = seen.pop(), sizes
    cells = [[None] * block if cell is None else cell for cell in z]
    values = np.array(cells, dtype=np.float64).ravel()
    missing = missing_in(np.isnan(values), [block] * len(z))
    return Release.from_dict(
        {
            "kind": Release.KIND, "start": 0, "steps": len(z),
            "values": [None if v != v else v for v in as_values(values, grid).tolist()],
            "missing": None if missing is None else missing.tolist(),
            "fingerprint": fingerprint, "simulated": not grid, "grid": grid,
        }
    )  # fmt: skip
