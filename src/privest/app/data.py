"""Screen 2, columns: what each column of the table is.

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
    Typed,
    errors_of,
    first_of,
    offered,
    stated,
)
from privest.app.desk import Desk, Work
from privest.app.pages import Errors, Form, desk_of, page, screen, see_other
from privest.data.look import ColumnLook, TableLook
from privest.errors import PrivestError
from privest.workflow.plan import make_plan
from privest.workflow.spec import Spec

UNTYPED = ("csrf", "then")
FIELDS = ("role", "low", "high", "sd", "share", "use")  # of one column
SHOWN = 400  # columns
MOST_NUMBERS = 20  # different ones that are offered as categories
KINDS = {
    "number": "number", "yes-no": "yes or no", "text": "text", "date": "date", "empty": "empty",
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
    return [_row(at, column, typed) for at, column in enumerate(look.columns[:SHOWN])]


def _row(at: int, column: ColumnLook, typed: Typed) -> ColumnRow:
    sure = {str(k): code.code for k, code in enumerate(column.codes) if code.plain}
    own = {name: first_of(typed, f"{name}-{at}") for name in FIELDS}
    listed = first_of(typed, f"list-{at}") or "\n".join(offered(column, sure))
    known = f"role-{at}" in typed
    return ColumnRow(
        at, column, own, listed, frozenset(typed.get(f"codes-{at}", ()) if known else sure)
    )


def data(request: Request, work: Work, form: Form, errors: Errors | None = None) -> Response:
    with work.lock:
        seen, typed, table = work.look, dict(work.typed), work.table
    if table is None or seen is None:
        return see_other(request, "start")
    rows = rows_of(seen, typed)
    counts = {role: sum(one.role == role for one in rows) for role in ROLES}
    return page(
        request, "data.html", work, errors=errors, step="data", table=table, look=seen, rows=rows,
        hidden=len(seen.columns) - len(rows), counts=counts, gaps=_gaps(seen, typed), roles=ROLES,
        typed=defaultdict(str, {name: values[0] for name, values in typed.items() if values}),
        families=FAMILIES, forms=FORMS, gap_words=GAPS,
    )  # fmt: skip


def _gaps(seen: TableLook, typed: Typed) -> str:
    some = any(column.missing or column.codes for column in seen.columns)
    return first_of(typed, "gaps") or ("drop" if some else "refuse")


# --- what its columns are -------------------------------------------------------------------------


def data_done(request: Request, work: Work, form: Form) -> Response:
    """The plan that the form states, checked on the table; then the privacy screen."""
    with work.lock:
        table, seen = work.table, work.look
        if table is None or seen is None:
            return see_other(request, "data", work)
        try:
            work.typed = {one: form.listed(one) for one in form.names() if one not in UNTYPED}
            then = form.choice("then", ("go", "public"), "go")
            if then == "public":
                work.typed |= _others_public(seen, work.typed)
                return see_other(request, "data", work)
            _take_up(desk_of(request), work, stated(form, table, seen))
        except PrivestError as error:
            return data(request, work, form, errors_of(error, form, table))
    return see_other(request, "privacy", work)


def _take_up(desk: Desk, work: Work, spec: Spec) -> None:
    """A new plan, unless the form states the one that is there."""
    table = work.table
    assert table is not None
    old = None if work.plan is None else work.plan.spec
    if old is not None and _same_values(old, spec):
        spec = replace(spec, privacy=old.privacy)  # ε as it was chosen since
    if spec != old:
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
    screen("/data", data_done, "data_done", post=True),
]
