"""Screen 2, columns: how the file is written, and what each of its columns is.

The form becomes a specification (`stated`); errors are said beside their fields, all at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import Response

from privest.app.columns import (
    FAMILIES,
    FORMS,
    GAPS,
    ROLES,
    SHOWN,
    Typed,
    errors_of,
    first_of,
    lines_of,
    offered,
    stated,
    typed_of,
)
from privest.app.desk import Desk, Work
from privest.app.pages import Errors, Form, desk_of, page, screen, see_other
from privest.data.format import MARKS, Format
from privest.data.look import ColumnLook, TableLook
from privest.errors import InvalidInput, PrivestError
from privest.workflow.plan import make_plan
from privest.workflow.spec import Spec

OTHER_TABLE = (
    "Another format was chosen for this table meanwhile, perhaps in another tab. Here is what it "
    "is now: say again what its columns are. Nothing was kept."
)
UNTYPED = ("csrf", "looks", "then")
FIELDS = ("role", "low", "high", "sd", "share", "use")  # of one column
MOST_SHOWN = 400
MOST_NUMBERS = 20  # different ones that are offered as categories
KINDS = {
    "number": "number", "yes-no": "yes or no", "text": "text", "date": "date", "empty": "empty",
}  # fmt: skip
SIGNS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {"point": "point (1.5)", "comma": "comma (1,5)"}
THOUSANDS = {
    "": "not stated", "none": "nothing (139750)", "comma": "comma (139,750)",
    "point": "point (139.750)", "apostrophe": "apostrophe (139'750)", "space": "space (139 750)",
}  # fmt: skip
ENCODINGS = {
    "utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Western Europe (Windows)",
    "iso8859-15": "Western Europe (ISO 8859-15)", "cp1250": "Central Europe (Windows)",
    "cp1251": "Cyrillic (Windows)", "gb18030": "Chinese (GB 18030)",
    "shift_jis": "Japanese (Shift JIS)",
}  # fmt: skip
# The embedded table, ready to go on: log-triglycerides of 442 people, whose range is what a
# laboratory can report (about 7 to 1,100 mg/dl).
EXAMPLE = {
    "role-0": ["public"], "role-1": ["public"], "role-2": ["public"], "role-3": ["public"],
    "role-4": ["private"], "use-1": ["list"], "list-1": ["0\n1"], "low-4": ["2"], "high-4": ["7"],
    "sd-4": ["0.45"], "known": ["yes"], "gaps": ["refuse"],
}  # fmt: skip


# --- the screen -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnRow:
    """A column on the screen, with what was chosen for it."""

    at: int
    look: ColumnLook
    typed: Mapping[str, str]
    categories: str
    ticked: frozenset[str] = field(default_factory=frozenset)

    @property
    def role(self) -> str:
        return self.typed.get("role") or "unused"

    @property
    def kind(self) -> str:
        """Its content in a few words, without a number of it."""
        few = len(self.look.different or ())
        if self.look.kind == "text":
            return f"{few} categories" if few else "many different texts"
        return "whole number" if self.look.whole and self.is_number else KINDS[self.look.kind]

    @property
    def is_number(self) -> bool:
        return self.look.kind == "number"

    @property
    def may_be_list(self) -> bool:
        """Whether it has few enough values for a list of categories."""
        few = len(self.look.different or ())
        return few > 1 and (few <= MOST_NUMBERS or not self.is_number)

    @property
    def as_list(self) -> bool:
        return self.look.kind not in ("number", "yes-no") or self.typed.get("use") == "list"

    @property
    def names_rows(self) -> bool:
        """Whether it can explain nothing: texts that are all different, or no value at all."""
        return self.look.kind == "empty" or (self.look.kind != "number" and not self.may_be_list)


def rows_of(look: TableLook, typed: Typed) -> list[ColumnRow]:
    asked = set(lines_of(first_of(typed, "further")))
    some = [at for at, column in enumerate(look.columns) if at < SHOWN or column.name in asked]
    return [_row(at, look.columns[at], typed) for at in some[:MOST_SHOWN]]


def _row(at: int, column: ColumnLook, typed: Typed) -> ColumnRow:
    sure = {str(k): code.code for k, code in enumerate(column.codes) if code.sure}
    own = {name: first_of(typed, f"{name}-{at}") for name in FIELDS}
    listed = first_of(typed, f"list-{at}") or "\n".join(offered(column, sure))
    known = f"role-{at}" in typed
    return ColumnRow(
        at, column, own, listed, frozenset(typed.get(f"codes-{at}", ()) if known else sure)
    )


def data(request: Request, work: Work, form: Form) -> Response:
    """The screen as it stands; of a file that was changed since, as it is now."""
    return _shown(request, work, note=_looked_again(work))


def _looked_again(work: Work) -> str | None:
    """Look at the table again if it is no longer the one that the plan is about, and say so."""
    with work.lock:
        said = None if work.table is None else work.table.changed(work.plan)
        if said is None or work.look is None or work.table is None:
            return said
        seen, why = work.table.look(work.look.format)
        if seen is None:
            return why
        if [one.name for one in seen.columns] != [one.name for one in work.look.columns]:
            return f"{said} It has other columns now: start again with this file."
        work.look = seen
        return f"{said} Here is the file as it is now: look whether all of it is right, and go on."


def _shown(
    request: Request,
    work: Work,
    errors: Errors | None = None,
    note: str | None = None,
    written: Mapping[str, str] | None = None,
) -> Response:
    with work.lock:
        seen, typed, table, looks = work.look, dict(work.typed), work.table, work.looks
    if table is None:
        return see_other(request, "start")
    rows = [] if seen is None else rows_of(seen, typed)
    counts = {role: sum(one.role == role for one in rows) for role in ROLES}
    known = _written(seen) if written is None else written
    return page(
        request, "data.html", work, errors=errors, step="data", note=note, table=table,
        looks=looks, look=seen, rows=rows,
        hidden=0 if seen is None else max(0, len(seen.columns) - SHOWN), counts=counts,
        written=defaultdict(str, known), gaps=_gaps(seen, typed), roles=ROLES, families=FAMILIES,
        typed=defaultdict(str, {name: values[0] for name, values in typed.items() if values}),
        forms=FORMS, gap_words=GAPS, decimals=DECIMALS, thousands=THOUSANDS,
        encodings=_encodings(seen),
    )  # fmt: skip


def _gaps(seen: TableLook | None, typed: Typed) -> str:
    some = seen is not None and any(column.missing or column.codes for column in seen.columns)
    return first_of(typed, "gaps") or ("drop" if some else "refuse")


# --- how the file is written ----------------------------------------------------------------------


def keep_look(work: Work, seen: TableLook | None) -> None:
    """Keep the look of the table; None: it could not be read. Within the lock."""
    work.looks += 1
    work.look = seen


def data_written(request: Request, work: Work, form: Form) -> Response:
    """Look again, reading the file as it is said to be written."""
    names = ("separator", "decimal", "thousands", "encoding", "sheet")
    given = {name: form.text(name, "") for name in names}
    with work.lock:
        if work.table is None:
            return see_other(request, "start")
        try:
            work.require_idle()
            seen, why = work.table.look(_format(given))
        except InvalidInput as error:
            seen, why = None, str(error)
        if seen is None:
            return _shown(request, work, Errors({"separator": why or ""}), written=given)
        keep_look(work, seen)
        work.typed = {one: value for one, value in work.typed.items() if one == "form"}
        desk_of(request).set_aside(work)
        work.restate(None)
    return see_other(request, "data", work)


def _written(seen: TableLook | None) -> dict[str, str]:
    if seen is None:
        return {}
    return {
        "separator": SIGNS.get(seen.separator or "", ""),
        "decimal": "comma" if seen.decimal == "," else "point",
        "thousands": next((k for k, mark in MARKS.items() if mark == seen.format.thousands), ""),
        "encoding": seen.encoding or "",
        "sheet": seen.format.sheet or (seen.sheets[0] if seen.sheets else ""),
    }


def _encodings(seen: TableLook | None) -> dict[str, str]:
    own = None if seen is None else seen.encoding
    return ENCODINGS if own is None or own in ENCODINGS else {own: own, **ENCODINGS}


def _format(given: Mapping[str, str]) -> Format:
    """A decimal comma where commas are also between columns: in quotes, which the reader finds."""
    commas = given["separator"] == given["decimal"] == "comma"
    return Format(
        separator=None if commas else given["separator"] or None,
        decimal=given["decimal"] or None,
        encoding=given["encoding"] or None,
        sheet=given["sheet"] or None,
        thousands=given["thousands"] or None,
    )


# --- what its columns are -------------------------------------------------------------------------


def data_done(request: Request, work: Work, form: Form) -> Response:
    """The plan that the form states, checked on the table; then the privacy screen."""
    with work.lock:
        table, seen = work.table, work.look
        if table is None or seen is None:
            return see_other(request, "data", work)
        if form.whole("looks", work.looks) != work.looks:  # its columns are counted, not named
            return _shown(request, work, Errors({"": OTHER_TABLE}))
        try:
            work.typed = {one: form.listed(one) for one in form.names() if one not in UNTYPED}
            then = form.choice("then", ("go", "show", "public"), "go")
            if then == "public":
                work.typed |= _others_public(seen, work.typed)
            if then != "go":
                return see_other(request, "data", work)
            _take_up(desk_of(request), work, stated(form, table, seen))
        except PrivestError as error:
            return _shown(request, work, errors_of(error, form, table))
    return see_other(request, "privacy", work)


def _take_up(desk: Desk, work: Work, spec: Spec) -> None:
    """A new plan, unless the form states the one that is there."""
    table, seen = work.table, work.look
    assert table is not None
    assert seen is not None
    old = None if work.plan is None else work.plan.spec
    if old is not None and _same_values(old, spec):
        spec = replace(spec, privacy=old.privacy)  # ε as it was chosen since
        if typed_of(spec, seen) == typed_of(old, seen):
            spec = old  # to the last digit, and with what no form shows
    if spec != old or table.changed(work.plan) is not None:
        work.require_idle()
        plan = make_plan(spec, data=table.data)
        desk.set_aside(work)
        work.restate(plan)


def _others_public(seen: TableLook, typed: Typed) -> dict[str, list[str]]:
    """Every column that is not used yet and can explain something becomes public."""
    rows = [one for one in rows_of(seen, typed) if one.look.problem is None and not one.names_rows]
    return {f"role-{one.at}": ["public"] for one in rows if one.role == "unused"}


def _same_values(old: Spec, new: Spec) -> bool:
    """Whether both protect the same values in the same units, and the same leaves."""
    return (
        old.targets == new.targets
        and old.model.family == new.model.family
        and old.privacy.form == new.privacy.form
        and _ranges(old) == _ranges(new)
    )


def _ranges(spec: Spec) -> object:
    """The public ranges; that of a yes/no outcome need not be stated."""
    usual = {spec.targets[0]: (0.0, 1.0)} if spec.model.family == "binomial" else {}
    return usual | dict(spec.privacy.range)


ROUTES = [
    screen("/data", data, "data"),
    screen("/data/written", data_written, "data_written", post=True),
    screen("/data", data_done, "data_done", post=True),
]
