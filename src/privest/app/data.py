"""Screen 2, columns: which column is private; then what each of the others is.

A plan is public: nothing on the way to a release may come from a private cell. Before the private
column is chosen only names are read; from then on the other columns alone are looked at.
The form becomes a specification (`stated`); errors are said beside their fields, all at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from privest.app.columns import (
    DECIMALS,
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
from privest.data.look import ColumnLook, TableLook, inspect
from privest.errors import InvalidInput, PrivestError
from privest.workflow.plan import make_plan
from privest.workflow.spec import Spec

UNTYPED = ("csrf", "then")
FIELDS = ("role", "low", "high", "sd", "share", "use")  # of one column
SHOWN = 400  # columns
MOST_NUMBERS = 20  # different ones that are offered as categories
KINDS = {
    "number": "number", "yes-no": "yes or no", "text": "text", "date": "date", "empty": "empty",
    "unread": "not read",
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
    ticked: Collection[str]

    @property
    def role(self) -> str:
        return self.typed.get("role") or "unused"

    @property
    def may_be_list(self) -> bool:
        """Whether it has few enough values for a list of categories."""
        few = len(self.look.different or ())
        return few > 1 and (few <= MOST_NUMBERS or self.look.kind != "number")

    @property
    def as_list(self) -> bool:
        return self.look.kind not in ("number", "yes-no") or self.typed.get("use") == "list"

    @property
    def names_rows(self) -> bool:
        """Whether it can explain nothing: texts that are all different, or no value at all."""
        return self.look.kind not in ("number", "unread") and not self.may_be_list


def rows_of(look: TableLook, typed: Typed) -> list[ColumnRow]:
    return [_row(at, column, typed) for at, column in enumerate(look.columns[:SHOWN])]


def _row(at: int, column: ColumnLook, typed: Typed) -> ColumnRow:
    sure = {str(k): code.code for k, code in enumerate(column.codes) if code.plain}
    own = {name: first_of(typed, f"{name}-{at}") for name in FIELDS}
    listed = first_of(typed, f"list-{at}") or "\n".join(offered(column, sure))
    ticked = typed.get(f"codes-{at}", ()) if "gaps" in typed else sure  # gaps: the form was sent
    return ColumnRow(at, column, own, listed, ticked)


def data(request: Request, work: Work, form: Form, errors: Errors | None = None) -> Response:
    with work.lock:
        seen, typed, table, private = work.look, dict(work.typed), work.table, work.private
    if table is None or seen is None:
        return see_other(request, "start")
    if private is None:
        return page(
            request, "private.html", work, errors=errors, step="data", table=table, look=seen,
            columns=seen.columns[:SHOWN], hidden=max(len(seen.columns) - SHOWN, 0),
        )  # fmt: skip
    rows = rows_of(seen, typed)
    counts = {role: sum(one.role == role for one in rows) for role in ROLES}
    return page(
        request, "data.html", work, errors=errors, step="data", table=table, look=seen, rows=rows,
        private=private, hidden=len(seen.columns) - len(rows), counts=counts, roles=ROLES,
        gaps=_gaps(seen, typed), kinds=KINDS,
        typed=defaultdict(str, {name: values[0] for name, values in typed.items() if values}),
        families=FAMILIES, forms=FORMS, gap_words=GAPS, decimals=DECIMALS,
    )  # fmt: skip


def _gaps(seen: TableLook, typed: Typed) -> str:
    some = any(column.missing or column.codes for column in seen.columns)
    return first_of(typed, "gaps") or ("drop" if some else "refuse")


# --- what its columns are -------------------------------------------------------------------------


def choose_private(request: Request, work: Work, form: Form) -> Response:
    """The private column is chosen: the others are looked at."""
    with work.lock:
        if work.look is None:
            return see_other(request, "data", work)
        places = [str(at) for at, column in enumerate(work.look.columns) if not column.problem]
        try:
            if form.text("private", "") not in places:
                raise InvalidInput("choose the column to protect.")
            look_without(work, int(form.text("private")))
            if form.text("then", "") == "public":
                work.typed |= _others_public(work.look, work.typed)
        except PrivestError as error:
            return data(request, work, form, Errors.of(error, "private", work.table))
    return see_other(request, "data", work)


def look_without(work: Work, private: int) -> None:
    """Look at the table without its private column; what its cells proposed before is forgotten."""
    assert work.table is not None
    assert work.look is not None
    names = [column.name for column in work.look.columns]
    public = [name for at, name in enumerate(names) if at != private]
    work.look, work.private = inspect(work.table.data, public=public), private
    for proposed in ("gaps", f"list-{private}", f"use-{private}", f"codes-{private}"):
        work.typed.pop(proposed, None)
    work.typed[f"role-{private}"] = ["private"]


def data_done(request: Request, work: Work, form: Form) -> Response:
    """The plan that the form states, checked on the table; then the privacy screen."""
    with work.lock:
        table, seen = work.table, work.look
        if table is None or seen is None or work.private is None:
            return see_other(request, "data", work)
        try:
            work.typed = {one: form.listed(one) for one in form.names() if one not in UNTYPED}
            roles = (first_of(work.typed, f"role-{at}") for at in range(len(seen.columns)))
            chosen = [at for at, role in enumerate(roles) if role == "private"]
            if len(chosen) == 1 and chosen != [work.private]:
                look_without(work, chosen[0])
                return see_other(request, "data", work)
            if form.text("then", "") == "public":
                work.typed |= _others_public(seen, work.typed)
                return see_other(request, "data", work)
            _take_up(desk_of(request), work, stated(form, table, seen))
        except PrivestError as error:
            return data(request, work, form, errors_of(error, work.private, table))
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
        and old.privacy.range == new.privacy.range
    )


ROUTES = [
    screen("/data", data, "data"),
    screen("/data", data_done, "data_done", post=True),
    screen("/data/private", choose_private, "data_private", post=True),
]
