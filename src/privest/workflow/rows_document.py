"""The header of rows that left by the door, version 2.0: what it says beside what left.

    plan      model, privacy, columns     promise   the charge of the entry, in ε where δ is known
    rows      how many, and left out      table     name, bytes, SHA-256, columns

Numbers with a fraction are texts, and what users name stands in lists of pairs: names of members
are ASCII. The vault adds what left and the seal.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from privest.errors import InvalidInput
from privest.reading import read_count, read_text
from privest.vault.record import parse, require_version, unknown_needs
from privest.workflow.document import LedgerPlace, TableRelease
from privest.workflow.rows_planner import RowGrid
from privest.workflow.spec import Model, Privacy, Public, Spec, section, stated
from privest.workflow.terms import Column

NUMBERS = ("level", "epsilon", "delta", "sensitivity", "within", "pilot")
PAIRS = ("categories", "range", "standard_error")  # keyed by what users name
FRACTIONS = ("level", "residual_variance")  # of a column


def plan_members(release: TableRelease) -> dict[str, Any]:
    columns = [{name: _text(x) for name, x in vars(column).items()} for column in release.columns]
    return spec_members(release.model, release.privacy) | {"columns": columns}


def spec_members(model: Model, privacy: Privacy) -> dict[str, Any]:
    """Model and privacy without floats, as documents and `asked` have them."""
    return {"model": _plain(stated(model)), "privacy": _plain(stated(privacy))}


def members_of(release: TableRelease, size: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """All of a header but what left and the seal; entry: its body, size: bytes of the table."""
    return {
        "plan": plan_members(release),
        "promise": _promise(release, entry),
        "rows": {"count": release.rows, "dropped": release.dropped},
        "table": {
            "name": release.table,
            "bytes": size,
            "sha256": release.sha256,
            "columns": list(release.table_columns),
        },
    }


def _promise(release: TableRelease, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Information, and ε where it is defined: the stated one, or that of the charge."""
    promise = {"information": entry["cost"]["information"], "neighbours": entry["neighbours"]}
    privacy = release.privacy
    epsilon = release.epsilon if privacy.epsilon is None else privacy.epsilon
    if epsilon is not None:
        promise["epsilon"] = _text(epsilon)
        promise["delta"] = "0" if privacy.delta is None else _text(privacy.delta)
    return promise


def is_sealed(data: bytes) -> bool:
    """Whether a header is one of version 2, by its last member."""
    return b'\n "seal": {' in data


def read_header(data: bytes) -> TableRelease:
    """The release of a sealed header, without its table; whether it is true only `verify` says."""
    record = parse(data)
    try:
        require_version(record, "this release")
        if unknown_needs(record):
            listed = ", ".join(unknown_needs(record))
            raise InvalidInput(f"its numbers cannot be used by this version, without {listed}.")
        return _release_of(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("this header lacks a member, or one has another form.") from None


def _release_of(record: Mapping[str, Any]) -> TableRelease:
    plan, table, rows = record["plan"], record["table"], record["rows"]
    model = section(Model, _read(plan["model"]), "plan: model")
    privacy = section(Privacy, _read(plan["privacy"]), "plan: privacy")
    columns = tuple(_column(one) for one in plan["columns"])
    Spec("the release", model, privacy, Public(columns[0].residual_variance))
    if [one.target for one in columns] != list(model.target):
        raise InvalidInput("columns must be those of the model's target: the header was changed.")
    [left], [place] = record["left"], record["seal"]["entries"]
    design = model.design
    release = TableRelease(
        model=model, privacy=privacy, columns=columns,
        rows=read_count(rows["count"], "rows"), dropped=read_count(rows["dropped"], "dropped"),
        simulated=False, table=read_text(table["name"], "table"), sha256=table["sha256"],
        coefficients=tuple(design.names), categories=dict(design.categories),
        drawn=RowGrid.read(left),
        entry=LedgerPlace(record["seal"]["ledger"], "", place["seq"], place["hash"]),
        signature=record["seal"]["hmac"], stored=record,
    )  # fmt: skip
    if list(release.table_columns) != table["columns"]:
        raise InvalidInput("the table's columns must be those of the plan: the header was changed.")
    return release


def _column(member: Mapping[str, Any]) -> Column:
    numbers = {name: float(member[name]) for name in FRACTIONS if member[name] is not None}
    return Column(**{**member, **numbers})


# --- plain values without floats ------------------------------------------------------------------


def _text(value: Any) -> Any:  # noqa: ANN401 - a number becomes a text, all else stays
    """The shortest text that gives the same double back."""
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else value


def _plain(value: Any) -> Any:  # noqa: ANN401 - plain values of a section
    if isinstance(value, Mapping):
        return {
            name: [[key, _plain(inner)] for key, inner in member.items()]
            if name in PAIRS
            else _plain(member)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return _text(value)


def _read(member: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_plain` for a section."""
    read: dict[str, Any] = dict(member)
    for name in NUMBERS:
        if isinstance(read.get(name), str):
            read[name] = float(read[name])
    for name in PAIRS:
        if name in read:
            read[name] = {key: _number_of(name, inner) for key, inner in read[name]}
    return read


def _number_of(name: str, inner: Any) -> Any:  # noqa: ANN401 - a text, or a list of them
    if name == "categories":
        return inner
    return [float(end) for end in inner] if isinstance(inner, list) else float(inner)
