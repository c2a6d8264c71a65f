"""The form of the columns screen as a specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privest.app.pages import Errors, Form
from privest.app.tables import Table
from privest.data.look import ColumnLook, TableLook
from privest.data.source import EMBEDDED
from privest.errors import InvalidInput, NotOffered, PrivestError
from privest.report.sections import printable
from privest.workflow.refusals import YES_NO
from privest.workflow.spec import Model, Privacy, Public, Spec

EPSILON, DELTA = 1.0, 1e-6  # to begin with
ROLES = {
    "unused": "Not used", "private": "Private: protect it", "public": "Public: explains it",
    "person": "Person identifier", "weight": "Weight",
}  # fmt: skip
FAMILIES = {
    "gaussian": "Number", "binomial": "Yes or no, as 1 and 0", "poisson": "Count, every row leaves",
}  # fmt: skip
DECIMALS = {"": "As in the public columns", ".": "Point, 1.5", ",": "Comma, 1,5"}
FORMS = {
    "aggregate": "Estimates from noisy sums; no row",
    "rows": "Every row, with noise on its private value",
}
GAPS = {"drop": "Leave them out", "refuse": "Stop"}
Typed = Mapping[str, Sequence[str]]


# Where on the form a combination that does not exist is marked, by the key of its refusal.
FIELD_OF = {
    "person-rows": "form", "person-family": "family", "cap": "most",
    "yes-no": "family", "family-transform": "logarithm", "log-range": "low",
    "family-variance": "sd", "aggregate-weights": "form", "aggregate-counts": "family",
}  # fmt: skip


def stated(form: Form, table: Table, look: TableLook) -> Spec:
    """The plan that a form states; what does not fit is an error of its field."""
    errors = Errors()
    roles = _roles(form, look, errors)
    model = _model(form, look, roles, errors)
    target = next(iter(roles["private"]), None)
    privacy, public = _privacy(form, look, target, model["family"], errors)
    format = look.format
    with errors.at("decimal"):
        mark = form.choice("decimal", list(DECIMALS), "")
        format = replace(format, decimal=mark or format.decimal)
    with errors.at("codes"):
        format = replace(format, missing_codes=_codes(form, look, roles["public"], errors))
    if not form.flag("known") and (privacy is not None or model["categories"]):
        errors["known"] = "confirm that this comes from public knowledge: a release shows it."
    errors.require_none()
    assert privacy is not None
    with errors.at("formula"):
        made = Model(**model)
    errors.require_none()
    data = EMBEDDED if table.path is None else table.name
    return Spec(data=data, model=made, privacy=privacy, public=public, format=format)


def _model(
    form: Form, look: TableLook, roles: dict[str, list[int]], errors: Errors
) -> dict[str, Any]:
    by_role = {role: [look.columns[at].name for at in places] for role, places in roles.items()}
    names = [column.name for column in look.columns]
    model: dict[str, Any] = {
        "family": "gaussian", "transform": "log" if form.flag("logarithm") else "none",
        "target": tuple(by_role["private"][:1]),
        "person": next(iter(by_role["person"]), None),
        "weights": next(iter(by_role["weight"]), None),
        "categories": {
            names[at]: _category_list(form, look.columns[at], at, errors)
            for at in roles["public"]
            if _as_list(form, look.columns[at], at)
        },
    }  # fmt: skip
    with errors.at("family"):
        model["family"] = form.choice("family", list(FAMILIES), "gaussian")
    with errors.at("gaps"):
        model["missing"] = form.choice("gaps", list(GAPS), "refuse")
    with errors.at("most"):
        if by_role["person"]:
            model["most_rows"] = form.whole("most", 0, most=10**9) or None
    formula = form.text("formula", "")
    return model | ({"formula": formula} if formula else {"features": by_role["public"]})


def _privacy(
    form: Form, look: TableLook, target: int | None, family: str, errors: Errors
) -> tuple[Privacy | None, Public]:
    """The fields of [privacy], None where they do not fit, and of [public]."""
    leaves = "aggregate"
    with errors.at("form"):
        leaves = form.choice("form", list(FORMS), leaves)
    if target is None:
        return None, Public()
    name = look.columns[target].name
    ends = _range(form, target, family, errors)
    public = _public(form, name, target, family, errors)
    if ends is None:
        return None, public
    delta = None if family == "binomial" and leaves == "rows" else DELTA
    return Privacy(epsilon=EPSILON, delta=delta, range={name: ends}, form=leaves), public


def _roles(form: Form, look: TableLook, errors: Errors) -> dict[str, list[int]]:
    roles: dict[str, list[int]] = {role: [] for role in ROLES}
    for at, column in enumerate(look.columns):
        with errors.at(f"role-{at}"):
            role = form.choice(f"role-{at}", list(ROLES), "unused")
            roles[role].append(at)
            if role != "unused" and column.problem is not None:
                raise InvalidInput(f"it cannot be used: {column.problem}")
            if role != "unused" and column.kind == "empty":
                raise InvalidInput("it is empty: no row has a value there.")
    if not roles["private"]:
        first = next((k for k, one in enumerate(look.columns) if not one.problem), 0)
        errors.setdefault(f"role-{first}", "choose “Private” for the column to protect.")
    for role in ("private", "person", "weight"):
        for at in roles[role][1:]:
            errors.setdefault(f"role-{at}", f"only one column can be “{ROLES[role]}”.")
    return roles


def _range(form: Form, at: int, family: str, errors: Errors) -> tuple[float, float] | None:
    fields = {f"low-{at}": "lowest", f"high-{at}": "highest"}
    if family == "binomial":
        for field in fields:
            if form.text(field, ""):
                errors[field] = "a yes or no has no range: leave both ends empty."
        return YES_NO
    ends = []
    for field, said in fields.items():
        with errors.at(field):
            end = form.optional_number(field, f"The {said} value")
            if end is None:
                raise InvalidInput(f"give the {said} value that anybody can have.")
            ends.append(end)
    if len(ends) < 2:
        return None
    if not ends[0] < ends[1]:
        errors[f"high-{at}"] = "the highest value must be above the lowest."
        return None
    return ends[0], ends[1]


def _public(form: Form, name: str, at: int, family: str, errors: Errors) -> Public:
    """The residual sd of a number, the share of yes, the mean of a count; each may be left out."""
    fields = {
        "binomial": (f"share-{at}", "The share of yes"),
        "poisson": ("count", "The mean count"),
    }
    field, said = fields.get(family, (f"sd-{at}", "The residual sd"))
    found = Public()
    with errors.at(field):
        value = form.optional_number(field, said)
        if family == "binomial" and value is not None and not 0 < value < 100:
            raise InvalidInput("the share of yes is between 0 and 100 percent.")
        if value is not None and not value > 0:
            raise InvalidInput(f"{said} must be above 0, or empty.")
        if value is not None and family == "gaussian":
            found = Public(value * value)
        elif value is not None:
            found = Public(expected={name: value / 100 if family == "binomial" else value})
    return found


def _as_list(form: Form, column: ColumnLook, at: int) -> bool:
    return column.kind not in ("number", "yes-no") or form.text(f"use-{at}", "") == "list"


def _category_list(form: Form, column: ColumnLook, at: int, errors: Errors) -> tuple[str, ...]:
    known, lines = offered(column), lines_of(form.text(f"list-{at}", ""))
    if len(lines) < 2:
        errors[f"list-{at}"] = (
            "write the public list of categories, one per line, the first to compare with. For "
            "a date, use a column with the year."
        )
    gone = set(_ticked(form, column, at))
    return tuple(one for one in (known.get(line, line) for line in lines) if one not in gone)


# --- codes for missing values ---------------------------------------------------------------------


def _codes(form: Form, look: TableLook, public: Sequence[int], errors: Errors) -> tuple[str, ...]:
    typed = [one.strip() for line in lines_of(form.text("codes", "")) for one in line.split(";")]
    ticked = []
    for at in public:
        codes = _ticked(form, look.columns[at], at)
        ticked += [f"{look.columns[at].name}={code}" for code in codes]
    every = replace(look.format, missing_codes=(*ticked, *filter(None, typed)))
    for at in public:
        column = look.columns[at]
        if _as_list(form, column, at):
            continue
        known = every.codes(column.name)
        left = [code for code in column.codes if code.word and code.code not in known]
        if left and f"role-{at}" not in errors:
            rows = sum(code.rows for code in left)
            errors[f"role-{at}"] = (
                f"words are among its numbers, in {rows:,} row{'s' * (rows > 1)}. Tick those that "
                "stand for a missing value, or correct the file."
            )
    return every.missing_codes


def _ticked(form: Form, column: ColumnLook, at: int) -> list[str]:
    """The codes of a column that were confirmed."""
    known = {str(k): one.code for k, one in enumerate(column.codes) if "=" not in one.code}
    return [known[one] for one in form.listed(f"codes-{at}") if one in known]


# --- texts ----------------------------------------------------------------------------------------


def offered(column: ColumnLook, codes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The categories in the file as they are shown, each on one line; and what each of them is."""
    without = set((codes or {}).values())
    kept = (one for one in column.different or () if one not in without)
    return {" ".join(printable(one).split()): one for one in kept}


def lines_of(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in text.replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def first_of(typed: Typed, name: str) -> str:
    found = typed.get(name, ())
    return found[0] if found else ""


def errors_of(error: PrivestError, private: int | None, table: Table) -> Errors:
    """The errors of a form by its fields; `private` is the place of the private column."""
    if not isinstance(error, NotOffered):
        return Errors.of(error, "", table)
    found = Errors()
    for key, said in error.refused.items():
        name = FIELD_OF.get(key, "")
        found[f"{name}-{private}" if name in ("low", "sd") else name] = said
    return found
