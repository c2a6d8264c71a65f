"""The fields of plan files, by the docstrings of their data classes, and of headers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import getdoc

from privest.arrays import as_choice
from privest.workflow.spec import SECTIONS, VERSION

WIDTH = 100
TEXTS: Mapping[str, Mapping[str, str]] = {
    "header": {
        "format": 'Always "privest release".',
        "version": "Version of this format.",
        "plan": "Sections model and privacy of the plan, as in a plan file.",
        "columns": "One object for each private column; see below.",
        "facts": "What the release holds; see below.",
        "grid": "Step of the released whole numbers; 0 for a simulation.",
        "table": "File name of the table.",
        "sha256": "SHA-256 of the table's bytes.",
        "checksum": "SHA-256 of the file's bytes up to the comma before this field.",
        "entry": "Place in the ledger: ledger, subject, sequence, hash. Null for a simulation.",
        "signature": "HMAC-SHA-256 of the checksum, with the ledger's key. Null for a simulation.",
    },
    "each of columns": {
        "target": "Private column.",
        "level": "Privacy level s of one value; a larger s reveals more.",
        "residual_variance": "Residual variance, as stated or from the reference. May be null.",
        "reference_rows": "Number of rows of the reference that it is from. May be null.",
        "name": "Column of the table with the released numbers.",
        "unit": "Scale: a value with its privacy noise is unit·z + zero.",
        "zero": "Offset of that scale.",
    },
    "facts": {
        "rows": "Number of released rows.",
        "dropped": "Number of rows left out.",
        "persons": "Number of persons, where persons have several rows. May be null.",
        "most_rows": "Largest number of rows of a person. May be null.",
        "coefficients": "Names of the coefficients.",
        "categories": "Public list of each categorical feature.",
        "simulated": "Whether the noise is simulated: no protection.",
        "warning": "The warning of a simulation. May be null.",
        "epsilon": "ε of the release, where it is known. May be null.",
    },
    "each of sums": {
        "target": "Private column.",
        "kind": "What gives the intervals: squares, free, persons, none or scores.",
        "level": "Fisher information of the sums about one value.",
        "estimate": "Coefficients; null where the score equations have no solution.",
        "variance": "Squares of the standard errors.",
        "freedom": "Degrees of freedom of Student's t; null for normal intervals.",
        "residual_variance": "As the squares show it, approximate; may be left out.",
        "r_squared": "Share of the variance that the features explain; may be left out.",
        "matrix": "Noisy sums, squares, weights, a covariance, where they are published.",
    },
}  # fmt: skip


def schema(kind: str) -> str:
    """The fields of a "plan" file (TOML), or of a release's "header" (JSON), as text."""
    as_choice(kind, ("plan", "header"), "schema")
    return "\n".join(_plan() if kind == "plan" else _header()) + "\n"


def _plan() -> Iterator[str]:
    yield f"# A plan file: TOML, version {VERSION}. Every field is public."
    yield f"version = {VERSION}"
    yield 'data = "people.csv"    # path, relative to this file'
    for name, section in SECTIONS.items():
        yield f"\n[{name}]"
        said = descriptions(section)
        assert is_dataclass(section)
        for one in fields(section):
            default = one.default if one.default_factory is MISSING else one.default_factory()
            shown = "none" if default in (None, (), {}, "") else str(default).lower()
            yield _line(f"{one.name:<18} # ", f"{said[one.name].rstrip('.')}. Default: {shown}.")


def descriptions(kind: type) -> dict[str, str]:
    """The texts on fields in the docstring of a class: lines `name[, name]  text`."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in (getdoc(kind) or "").splitlines()[1:]:
        start = re.match(r"(\w+(?:, \w+)*)(?:\s{2,}(.*)|$)", line)
        if start is not None:
            names = start.group(1).split(", ")
            found |= dict.fromkeys(names, start.group(2) or "")
        elif line.startswith(" ") and names:
            for name in names:
                found[name] = f"{found[name]} {line.strip()}".strip()
        elif line.strip():
            names = []
    return found


def _header() -> Iterator[str]:
    yield "The header of a release: JSON, beside its table."
    for title, texts in TEXTS.items():
        if title == "each of sums":
            yield "\nThe aggregate form has no table: its header also has a list, sums."
        yield f"\n{title}"
        for name, text in texts.items():
            yield _line(f"  {name:<18} ", text)


def _line(start: str, text: str) -> str:
    if text[0].isascii():
        text = text[0].upper() + text[1:]
    below = "".join("#" if one == "#" else " " for one in start)
    return textwrap.fill(start + text, WIDTH, subsequent_indent=below)
