"""Plans and releases of privest 0.2 (version 3), mapped to today's sections."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from privest.errors import InvalidInput
from privest.reading import optional, read_count, read_fields, read_flag, read_number, read_text

LAWS = {"gaussian": "gaussian", "laplace": "laplace", "coin": "randomised response"}
REMOVED = "{} of privest 0.2 and before: read it with the version that wrote it."
MODEL = (
    "features", "formula", "categories", "intercept", "missing", "transform", "family", "target",
)  # fmt: skip


def plan_of_version_3(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The sections of today's plan from the flat plan of version 3."""
    given = dict(record)
    if "model" in given:
        raise InvalidInput(f"{where}: a plan with sections states version = 4.")
    model = {name: given.pop(name) for name in MODEL if name in given}
    if model.get("transform") == "box-cox":
        raise InvalidInput(f"{where}: " + REMOVED.format("Box-Cox transforms are"))
    person, weights = given.pop("person", None), given.pop("weights", None)
    if person is not None:
        known = {"column": read_text, "most": optional(read_count), "design": read_text}
        person = read_fields({"most": None, "design": "A", **_table(person, where)}, known, where)
        if person["design"] != "A":
            raise InvalidInput(f"{where}: " + REMOVED.format("person design B is"))
        model |= {"person": person["column"], "most_rows": person["most"]}
    if weights is not None:
        weights = {"kind": "survey", **_table(weights, where)}
        if weights["kind"] != "survey":
            raise InvalidInput(f"{where}: " + REMOVED.format("precision weights are"))
        model["weights"] = weights.get("column")
    if "privacy" not in given:
        raise InvalidInput(f"{where}: there is no section [privacy].")
    noise = dict(_table(given.pop("noise", {}), where))
    if "variance" in noise:
        noise["residual_variance"] = noise.pop("variance")
    found = {
        "model": {name: value for name, value in model.items() if value is not None},
        "privacy": _privacy(_table(given.pop("privacy"), where), model, where),
        "public": noise,
        "format": given.pop("reading", given.pop("format", {})),
    }
    return {**given, **found}


def _table(given: object, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where}: names with values are expected.")
    return given


def _privacy(given: Mapping[str, Any], model: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Today's names of the section on privacy."""
    found = dict(given)
    if {"allocate", "cap", "criterion", "groups"} & set(found):
        raise InvalidInput(f"{where}: " + REMOVED.format("levels designed inside a plan are"))
    if "move" in found:
        found["sensitivity"] = found.pop("move")
    if "law" in found:
        law = found.pop("law")
        if law == "bit":
            raise InvalidInput(f"{where}: " + REMOVED.format("one-bit numbers are"))
        found["distribution"] = LAWS.get(law, law) if isinstance(law, str) else law
    error, of = found.get("standard_error"), found.pop("of", None)
    if error is not None and not isinstance(error, Mapping):
        if not isinstance(of, str):
            raise InvalidInput(f"{where}: standard_error needs the coefficient that it is for.")
        found["standard_error"] = {of: error}
    ends = found.get("range")
    if isinstance(ends, list | tuple):
        named = model.get("target")
        targets = tuple(name for name in _list(named) or [named] if isinstance(name, str) and name)
        if model.get("formula") is not None and not targets:
            from privest.data import read_formula

            given = _table(model.get("categories", {}), where)
            lists = {k: tuple(map(str, v)) for k, v in given.items() if isinstance(v, list)}
            targets = read_formula(model["formula"], lists).targets
        if len(targets) > 1:
            raise InvalidInput(f"{where}: each of several targets needs a range of its own.")
        found["range"] = dict.fromkeys(targets, ends)
    return {name: value for name, value in found.items() if value is not None}


# --- releases -------------------------------------------------------------------------------------


def release_of_version_3(record: Mapping[str, Any]) -> tuple[dict[str, Any], float | None]:
    """The fields of a release from a header of version 3, its checksum verified, and its ε."""
    if record.get("kind") != "privest release 3":
        raise InvalidInput(
            "the header is of an earlier version of privest: read it with the version that wrote "
            "it."
        )
    given = read_fields(record, HEADER, "the header")
    listed = _list(given["columns"])
    if not listed or not all(isinstance(one, Mapping) for one in listed):
        raise InvalidInput("columns must be one or more, names with values each.")
    columns = [
        read_fields({"level_column": None, **one}, COLUMN, "each of the columns") for one in listed
    ]
    _require_checksum(record)
    first, names = columns[0], _list(given["names"])
    people, persons = given["people"], first["person"]
    kinds = (
        (people, "design", "A"),
        (persons, "design", "A"),
        (given["weights"], "kind", "survey"),
    )
    if (
        any(one["exponent"] is not None or one["law"] not in LAWS for one in columns)
        or any(one is not None and _of(one, name) != usual for one, name, usual in kinds)
    ):  # fmt: skip
        raise InvalidInput(REMOVED.format("this release is of a kind"))
    shared = ("transform", "law", "delta", "person", "level_column")
    units = len(columns) > 1 and not all(one["scale"] for one in columns)
    if units or any(one[name] != first[name] for one in columns for name in shared):
        raise InvalidInput("columns must be of one kind: the header was changed.")
    model = {
        "target": [one["target"] for one in columns],
        "features": [name for name in names if name != "intercept"],
        "intercept": "intercept" in names,
        "transform": first["transform"], "family": given["family"],
        "weights": _of(given["weights"], "column"),
        "person": _of(people, "column"),
        "most_rows": _of(people, "most"),
        "missing": "drop" if given["dropped"] else "refuse",
    }  # fmt: skip
    ranges = {one["target"]: one["range"] for one in columns if one["range"] is not None}
    privacy: dict[str, Any] = {
        "delta": first["delta"], "sensitivity": first["move"], "range": ranges,
        "distribution": LAWS[first["law"]], "level_column": first["level_column"],
    }  # fmt: skip
    if len(columns) > 1:
        privacy["units"] = {one["target"]: one["scale"] for one in columns}
        privacy["level"] = sum(one["level"] * one["scale"] * one["scale"] for one in columns)
        if first["move"] is not None:
            privacy["sensitivity"] = first["move"] / first["scale"]
    elif first["level_column"] is None:
        privacy["level"] = first["level"]
    kept = ("rows", "dropped", "simulated", "table", "sha256", "persons", "grid", "entry")
    found = {name: given[name] for name in (*kept, "signature")}
    found |= {
        "model": {k: v for k, v in model.items() if v is not None},
        "privacy": {k: v for k, v in privacy.items() if v is not None},
        "columns": [
            {"target": one["target"], "level": one["level"],
             "residual_variance": one["noise_variance"], "reference_rows": one["reference_rows"]}
            for one in columns
        ],
        "coefficients": names, "categories": given["categories"],
        "most": _of(persons, "rows"),
        "old_checksum": given["checksum"],
    }  # fmt: skip
    # ε of a record stands in no single column of version 3.
    return found, first["epsilon"] if len(columns) == 1 else None


def _require_checksum(record: Mapping[str, Any]) -> None:
    """The checksum of version 3 is of all fields but what was written for readers."""
    outside = ("warning", "checksum", "signature")
    facts = {name: value for name, value in record.items() if name not in outside}
    facts["columns"] = [
        {name: value for name, value in one.items() if name != "epsilon"}
        for one in facts["columns"]
    ]
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode()).hexdigest() != record["checksum"]:
        raise InvalidInput(
            "the checksum is not that of the header: the header was changed after the release was "
            "made."
        )


def _list(given: object) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else []


def _of(given: object, name: str) -> Any:  # noqa: ANN401 - checked by the model
    return given.get(name) if isinstance(given, Mapping) else None


def _any(given: object, name: str) -> Any:  # noqa: ANN401 - checked later
    return given


HEADER = {
    "kind": read_text, "table": read_text, "rows": read_count, "dropped": read_count,
    "columns": _any, "names": _any, "simulated": read_flag, "sha256": read_text,
    "categories": _any, "family": read_text, "people": _any, "persons": optional(read_count),
    "weights": _any, "grid": read_number, "entry": _any, "warning": _any, "checksum": read_text,
    "signature": optional(read_text),
}  # fmt: skip
COLUMN = {
    "target": read_text, "level": read_number, "transform": read_text, "range": _any,
    "law": read_text, "noise_variance": optional(read_number),
    "reference_rows": optional(read_count), "delta": optional(read_number),
    "move": optional(read_number), "alone": read_flag, "scale": optional(read_number),
    "person": _any, "level_column": optional(read_text), "epsilon": optional(read_number),
    "name": read_text, "unit": read_number, "zero": read_number, "exponent": _any,
}  # fmt: skip
