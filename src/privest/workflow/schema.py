"""The fields of plan files and release documents, from the classes that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from inspect import getdoc

from privest.arrays import as_choice
from privest.workflow.document import COLUMN, DOCUMENT, FACTS
from privest.workflow.spec import SECTIONS, VERSION

SCHEMAS = ("plan", "release")
READERS = {
    "read_text": "text", "read_count": "whole number", "read_positive": "number above 0",
    "read_number": "number", "read_flag": "true or false", "read_hash": "64 hexadecimal digits",
}  # fmt: skip


def schema(kind: str) -> str:
    """The fields of a "plan" file (TOML) or of the document of a "release" (JSON), as text."""
    as_choice(kind, SCHEMAS, "schema")
    return "\n".join(_plan() if kind == "plan" else _release()) + "\n"


def _plan() -> Iterator[str]:
    yield f"# A plan file: TOML, version {VERSION}. Every field is public."
    yield f"version = {VERSION}"
    yield 'data = "people.csv"    # path, relative to this file'
    for name, section in SECTIONS.items():
        yield f"\n[{name}]"
        yield from _fields(section)


def _fields(kind: type) -> Iterator[str]:
    """A line for each field: name, default, and its sentence of the class's docstring."""
    said = descriptions(kind)
    assert is_dataclass(kind)
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        shown = "required" if default is MISSING else _plain(default)
        text = said.get(one.name, "")
        yield f"{one.name:<18} # default: {shown}. {text}".rstrip()


def descriptions(kind: type) -> dict[str, str]:
    """What the docstring of a class says of its fields: lines `name[, name]  text`."""
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


def _plain(value: object) -> str:
    return "none" if value in (None, (), {}, "") else str(value).lower()


def _release() -> Iterator[str]:
    yield "The document of a release: JSON, beside its table. The checksum covers everything but"
    yield "checksum and signature, as sorted compact JSON. `plan` has the sections model and"
    yield "privacy of the plan."
    for title, kinds in (("document", DOCUMENT), ("each of columns", COLUMN), ("facts", FACTS)):
        yield f"\n{title}"
        for name, reader in kinds.items():
            yield f"  {name:<18} {READERS.get(getattr(reader, '__name__', ''), 'see below')}"
