"""Screen 2, columns: how the file is written, and what each of its columns is.

The form becomes a specification (`stated`); what is missing or does not fit is said beside its
field, all of it at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import Response

from privest.app.desk import Work
from privest.app.pages import Errors, Form, Unfit, as_typed, desk_of, page, screen, see_other
from privest.app.tables import Table, in_words
from privest.data import EMBEDDED, MARKS, ColumnLook, Format, MissingCode, TableLook
from privest.errors import InvalidInput, PrivestError
from privest.report import printable
from privest.workflow import Model, NotOffered, Plan, Privacy, Public, Spec, make_plan

OTHER_TABLE = (
    "Another format was chosen for this table meanwhile, perhaps in another tab. Here is what it "
    "is now: say again what its columns are. Nothing was kept."
)
UNTYPED = ("csrf", "looks", "then")
SHOWN = 100  # columns that are shown without being asked for
MOST_SHOWN = 400
MOST_NUMBERS = 20  # different ones that are offered as categories
EPSILON, DELTA = 1.0, 1e-6  # to begin with
ROLES = {
    "unused": "Not used", "private": "Private: protect it", "public": "Public: explains it",
    "person": "Person identifier", "weight": "Weight",
}  # fmt: skip
KINDS = {
    "number": "number", "yes-no": "yes or no", "text": "text", "date": "date", "empty": "empty",
}  # fmt: skip
FAMILIES = {
    "auto": "Number, or yes/no where the column says so", "gaussian": "Number",
    "binomial": "Yes or no", "poisson": "Count",
}  # fmt: skip
GAPS = {"drop": "Leave them out", "refuse": "Stop"}
SEPARATORS = {"comma": "comma", "semicolon": "semicolon", "tab": "tab", "bar": "vertical bar"}
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
# Where on the form a combination that does not exist is marked, by the key of its refusal.
FIELD_OF = {
    "person-distribution": "family", "person-family": "family", "cap": "most",
    "yes-no": "family", "family-transform": "logarithm", "log-range": "low",
    "family-variance": "sd",
}  # fmt: skip
# The embedded table, ready to go on: log-triglycerides of 442 people, whose range is what a
# laboratory can report (about 7 to 1,100 mg/dl).
EXAMPLE = {
    "role-0": ["public"], "role-1": ["public"], "role-2": ["public"], "role-3": ["public"],
    "role-4": ["private"], "use-1": ["list"], "list-1": ["0\n1"], "low-4": ["2"], "high-4": ["7"],
    "sd-4": ["0.45"], "known": ["yes"], "gaps": ["refuse"],
}  # fmt: skip
Typed = Mapping[str, Sequence[str]]


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
        """What it holds, in a few words: no number of it."""
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
    """The columns that are shown: the first ones, and those that were asked for by name."""
    asked = set(_lines(_first(typed, "further")))
    some = [at for at, column in enumerate(look.columns) if at < SHOWN or column.name in asked]
    return [_row(at, look.columns[at], typed) for at in some[:MOST_SHOWN]]


def _row(at: int, column: ColumnLook, typed: Typed) -> ColumnRow:
    sure = {str(k): code.code for k, code in enumerate(column.codes) if code.sure}
    own = {name: _first(typed, f"{name}-{at}") for name in ("role", "low", "high", "sd", "share", "use")}
    listed = _first(typed, f"list-{at}") or "\n".join(offered(column, sure))
    known = f"role-{at}" in typed
    return ColumnRow(
        at, column, own, listed, frozenset(typed.get(f"codes-{at}", ()) if known else sure)
    )


def offered(column: ColumnLook, codes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The categories in the file as they are shown, each on one line; and what each of them is.

    codes: what stands for a missing value, which is none.
    """
    without = set((codes or {}).values())
    kept = (one for one in column.different or () if one not in without)
    return {" ".join(printable(one).split()): one for one in kept}


def _first(typed: Typed, name: str) -> str:
    found = typed.get(name, ())
    return found[0] if found else ""


def _lines(text: str) -> list[str]:
    """The lines that hold something, without spaces around."""
    lines = (" ".join(line.split()) for line in text.replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def data(request: Request, work: Work, form: Form) -> Response:
    """The screen as it stands; of a file that was changed since, as it is now."""
    return _shown(request, work, note=_looked_again(work))


def _looked_again(work: Work) -> str | None:
    """Look at the table again if it is no longer the one that the plan is about, and say so.

    With other columns nothing is taken over: what was typed goes by their places.
    """
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
    """The screen; with errors, what was typed is still there."""
    with work.lock:
        seen, typed, table, looks = work.look, dict(work.typed), work.table, work.looks
    if table is None:
        return see_other(request, "start")
    rows = [] if seen is None else rows_of(seen, typed)
    counts = {role: sum(one.role == role for one in rows) for role in ROLES}
    known = _written(seen) if written is None else written
    return page(
        request, "data.html", work, 422 if errors else 200, step="data",
        errors=errors or Errors(), note=note, table=table, looks=looks, look=seen, rows=rows,
        hidden=0 if seen is None else max(0, len(seen.columns) - SHOWN), counts=counts,
        written=defaultdict(str, known), gaps=_gaps(seen, typed), roles=ROLES, families=FAMILIES,
        typed=defaultdict(str, {name: values[0] for name, values in typed.items() if values}),
        gap_words=GAPS, separators=SEPARATORS, decimals=DECIMALS, thousands=THOUSANDS,
        encodings=_encodings(seen),
    )  # fmt: skip


def _gaps(seen: TableLook | None, typed: Typed) -> str:
    """Rows with gaps: as chosen; else to be left out where there are some."""
    some = seen is not None and any(column.missing or column.codes for column in seen.columns)
    return _first(typed, "gaps") or ("drop" if some else "refuse")


# --- how the file is written ----------------------------------------------------------------------


def keep_look(work: Work, seen: TableLook | None) -> None:
    """What was seen of the table from now on; None: it could not be read. Within the lock."""
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
        work.typed.clear()  # the columns may be others now
        desk_of(request).set_aside(work)
        work.restate(None, None)
    return see_other(request, "data", work)


def _written(seen: TableLook | None) -> dict[str, str]:
    """How the table is written, as the choices of the form."""
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
            spec, old = stated(form, table, seen), work.spec
            if old is not None and _same_values(old, spec):
                spec = replace(spec, privacy=old.privacy)  # ε as it was chosen since
            if spec != old or work.plan is None or table.changed(work.plan) is not None:
                work.require_idle()
                plan = make_plan(spec, data=table.data)
                desk_of(request).set_aside(work)
                work.restate(spec, plan)
        except PrivestError as error:
            return _shown(request, work, _errors(error, form, table))
    return see_other(request, "privacy", work)


def _others_public(seen: TableLook, typed: Typed) -> dict[str, list[str]]:
    """Every column that is not used yet and can explain something becomes public."""
    rows = [one for one in rows_of(seen, typed) if one.look.problem is None and not one.names_rows]
    return {f"role-{one.at}": ["public"] for one in rows if one.role == "unused"}


def _same_values(old: Spec, new: Spec) -> bool:
    """Whether both protect the same values in the same units."""
    return (
        old.targets == new.targets
        and old.model.family == new.model.family
        and _ranges(old) == _ranges(new)
    )


def _ranges(spec: Spec) -> object:
    """The public ranges; that of a yes/no outcome need not be stated."""
    usual = {spec.targets[0]: (0.0, 1.0)} if spec.model.family == "binomial" else {}
    return usual | dict(spec.privacy.range)


def _errors(error: PrivestError, form: Form, table: Table) -> Errors:
    """What was refused, by field."""
    if isinstance(error, Unfit):
        return error.errors
    if not isinstance(error, NotOffered):
        return Errors({"": in_words(error, table)})
    private = next((n for n in form.names() if n.startswith("role-") and form.text(n) == "private"), "")
    found = Errors()
    for key, said in error.refused.items():
        name = FIELD_OF.get(key, "")
        found[name + private.removeprefix("role") if name in ("low", "sd") else name] = said
    return found


def stated(form: Form, table: Table, look: TableLook) -> Spec:
    """The plan that a form states; all that is missing or does not fit is said by field."""
    errors = Errors()
    roles = _roles(form, look, errors)
    target = _only(roles["private"])
    names = [column.name for column in look.columns]
    model, privacy, public = {}, None, Public()
    with errors.at("family"):
        model["family"] = _family(form, look, target)
    model["transform"] = "log" if form.flag("logarithm") else "none"
    if target is not None:
        column, family = look.columns[target], model.get("family", "gaussian")
        ends = _range(form, column, target, family, errors)
        public = _public(form, column.name, target, family, errors)
        delta = None if family == "binomial" else DELTA
        if ends is not None:
            privacy = Privacy(epsilon=EPSILON, delta=delta, range={column.name: ends})
    lists = {at: _category_list(form, look.columns[at], at, errors)
             for at in roles["public"] if _as_list(form, look.columns[at], at)}  # fmt: skip
    used = [at for role, places in roles.items() if role != "unused" for at in places]
    format = replace(look.format.of_columns([names[at] for at in used]), missing_codes=())
    with errors.at("codes"):
        format = replace(format, missing_codes=_codes(form, look, roles, used, errors))
    with errors.at("gaps"):
        model["missing"] = form.choice("gaps", list(GAPS), "refuse")
    person = _only(roles["person"])
    with errors.at("most"):
        if person is not None:
            model["most_rows"] = form.whole("most", 0, most=10**9) or None
    if not form.flag("known") and (privacy is not None or lists):
        errors["known"] = "confirm that this comes from public knowledge: a release shows it."
    errors.require_none()
    assert target is not None and privacy is not None
    model |= {"target": (names[target],), "person": None if person is None else names[person]}
    model["weights"] = names[roles["weight"][0]] if roles["weight"] else None
    categories = {names[at]: found for at, found in lists.items()}
    with errors.at("formula"):
        model |= _terms(form, [names[at] for at in roles["public"]], categories)
        made = Model(**model)
    errors.require_none()
    data = EMBEDDED if table.path is None else table.name
    return Spec(data=data, model=made, privacy=privacy, public=public, format=format)


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


def _only(found: Sequence[int]) -> int | None:
    return found[0] if found else None


def _family(form: Form, look: TableLook, target: int | None) -> str:
    given = form.choice("family", list(FAMILIES), "auto")
    if given != "auto":
        return given
    answers = target is not None and look.columns[target].kind == "yes-no"
    return "binomial" if answers else "gaussian"


def _range(
    form: Form, column: ColumnLook, at: int, family: str, errors: Errors
) -> tuple[float, float] | None:
    """The public range of the private column: it must be stated, but of a yes or no."""
    if column.kind not in ("number", "yes-no"):
        errors[f"role-{at}"] = "a private column holds numbers, or yes and no (1 and 0)."
        return None
    ends: list[float | None] = [None, None]
    for k, (end, said) in enumerate((("low", "The lowest value"), ("high", "The highest value"))):
        with errors.at(f"{end}-{at}"):
            ends[k] = form.optional_number(f"{end}-{at}", said)
    low, high = ends
    if low is None and high is None and (column.kind == "yes-no" or family == "binomial"):
        return 0.0, 1.0
    if low is None:
        errors.setdefault(f"low-{at}", "give the lowest value that anybody can have.")
    if high is None:
        errors.setdefault(f"high-{at}", "give the highest value that anybody can have.")
    if low is None or high is None:
        return None
    if not low < high:
        errors[f"high-{at}"] = "the highest value must be above the lowest."
        return None
    return low, high


def _public(form: Form, name: str, at: int, family: str, errors: Errors) -> Public:
    """The residual sd of a number, the share of yes, the mean of a count; each may be left out."""
    found = Public()
    if family == "binomial":
        with errors.at(f"share-{at}"):
            share = form.optional_number(f"share-{at}", "The share of yes")
            if share is not None and not 0 < share < 100:
                raise InvalidInput("the share of yes is between 0 and 100 percent.")
            found = Public(expected={} if share is None else {name: share / 100})
    elif family == "poisson":
        with errors.at("count"):
            count = form.optional_number("count", "The mean count")
            if count is not None and not count > 0:
                raise InvalidInput("the mean count must be above 0.")
            found = Public(expected={} if count is None else {name: count})
    else:
        with errors.at(f"sd-{at}"):
            sd = form.optional_number(f"sd-{at}", "The residual sd")
            if sd is not None and not sd > 0:
                raise InvalidInput("the residual sd must be above 0, or empty.")
            found = Public(None if sd is None else sd * sd)
    return found


def _terms(
    form: Form, features: Sequence[str], categories: Mapping[str, tuple[str, ...]]
) -> dict[str, object]:
    """The public columns, or the formula of them; lists of columns that it leaves out go."""
    formula = form.text("formula", "")
    if not formula:
        return {"features": tuple(features), "categories": categories}
    return {"formula": formula, "categories": categories}


def _as_list(form: Form, column: ColumnLook, at: int) -> bool:
    return column.kind not in ("number", "yes-no") or form.text(f"use-{at}", "") == "list"


def _category_list(
    form: Form, column: ColumnLook, at: int, errors: Errors
) -> tuple[str, ...]:
    known, lines = offered(column), _lines(form.text(f"list-{at}", ""))
    if len(lines) < 2:
        errors[f"list-{at}"] = (
            "write the public list of categories, one per line, the first to compare with. For "
            "a date, use a column with the year."
        )
    gone = set(_ticked(form, column, at, public=True))
    return tuple(one for one in (known.get(line, line) for line in lines) if one not in gone)


# --- codes for missing values ---------------------------------------------------------------------


def _codes(
    form: Form, look: TableLook, roles: Mapping[str, list[int]], used: Sequence[int], errors: Errors
) -> tuple[str, ...]:
    """The codes that were ticked, and those that were typed; no word may be left among numbers."""
    typed = [one.strip() for line in _lines(form.text("codes", "")) for one in line.split(";")]
    ticked = []
    for at in used:
        codes = _ticked(form, look.columns[at], at, public=at in roles["public"])
        ticked += [f"{look.columns[at].name}={code}" for code in codes]
    every = replace(look.format, missing_codes=(*ticked, *filter(None, typed)))
    for at in (*roles["private"], *roles["public"]):
        column, public = look.columns[at], at in roles["public"]
        if public and _as_list(form, column, at):
            continue
        left = {word: rows for word, rows in column.words if word not in every.codes(column.name)}
        if left and f"role-{at}" not in errors:
            errors[f"role-{at}"] = _words_left(column, left, public=public)
    return every.missing_codes


def _ticked(form: Form, column: ColumnLook, at: int, *, public: bool) -> list[str]:
    """The codes of a column that were confirmed; only plain ones of a column that is not public."""
    may = {code.code for code in _offers(column, public=public)}
    known = {str(k): one.code for k, one in enumerate(column.codes) if one.code in may}
    return [known[one] for one in form.listed(f"codes-{at}") if one in known]


def _offers(column: ColumnLook, *, public: bool) -> list[MissingCode]:
    """What can be ticked: a word of a private column only where it looks like a code."""
    return [code for code in column.codes if public or code.plain]


def _words_left(column: ColumnLook, left: Mapping[str, int], *, public: bool) -> str:
    """What to do about words among numbers; the plan is public, so not every word is a code."""
    rows = sum(left.values())
    said = f"words are among its numbers, in {rows:,} row{'s' * (rows > 1)}."
    if {code.code for code in _offers(column, public=public)} & left.keys():
        said += " Tick those that stand for a missing value."
    else:
        said += " Empty or correct these cells in the file."
    return said


# --- and back -------------------------------------------------------------------------------------


def typed_of(spec: Spec, look: TableLook) -> dict[str, list[str]]:
    """What would have been typed to state this plan."""
    model, public = spec.model, spec.public
    roles = dict.fromkeys(model.features, "public") | dict.fromkeys(spec.targets, "private")
    roles |= {name: role for role, name in (("person", model.person), ("weight", model.weights))
              if name is not None}  # fmt: skip
    found = {
        "gaps": model.missing, "family": model.family, "known": "yes",
        "logarithm": "yes" if model.transform == "log" else "", "formula": model.formula or "",
        "codes": "; ".join(spec.format.missing_codes), "most": as_typed(model.most_rows),
        "further": "\n".join(roles) if len(look.columns) > SHOWN else "",
    }  # fmt: skip
    expected = next(iter(public.expected.values()), None)
    for at, column in enumerate(look.columns):
        found[f"role-{at}"] = roles.get(column.name, "unused")
        ends = spec.privacy.range.get(column.name)
        if ends is not None:
            found[f"low-{at}"], found[f"high-{at}"] = map(as_typed, ends)
        if roles.get(column.name) == "private":
            variance = public.residual_variance
            found[f"sd-{at}"] = as_typed(None if variance is None else round(variance**0.5, 12))
            share = expected if model.family == "binomial" else None
            found[f"share-{at}"] = as_typed(None if share is None else 100 * share)
            found["count"] = as_typed(expected if model.family == "poisson" else None)
        if column.name in model.categories:
            shown = {value: name for name, value in offered(column).items()}
            lines = [shown.get(one, one) for one in model.categories[column.name]]
            found |= {f"use-{at}": "list", f"list-{at}": "\n".join(lines)}
    return {name: [value] for name, value in found.items() if value}


def plan_of(work: Work) -> Plan:
    """The plan of a work; refused where there is none."""
    if work.plan is None:
        raise InvalidInput("there is no plan any more: begin with the columns.")
    return work.plan


ROUTES = [
    screen("/data", data, "data"),
    screen("/data/written", data_written, "data_written", post=True),
    screen("/data", data_done, "data_done", post=True),
]
