"""Screen 1: which table, how it is written, and what each of its columns is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from privest.app._data_form import FAMILIES, GAPS, ROLES, Unfit, stated
from privest.app._data_rows import SHOWN, rows_of, wanted_names
from privest.app._desk import Table, Work
from privest.app._pages import Form, desk_of, page, screen, see_other
from privest.app._release_job import replanned
from privest.app._uploads import changed, in_words, local_table, sent_reference, sent_table
from privest.data import EMBEDDED, ENDINGS, MARKS, Reading, TableLook, look
from privest.errors import InvalidInput, PrivestError
from privest.workflow import Spec, make_plan

OTHER_TABLE = (
    "Another table was chosen meanwhile, or another way to read it, perhaps in another tab. Here "
    "is what it is now: say again what its columns are. Nothing was kept."
)
HIDDEN = ("csrf", "looks")  # which nobody typed
LOOK = "data"  # under which this screen keeps what it saw of the table
SEPARATORS = {"comma": "commas", "semicolon": "semicolons", "tab": "tabs", "bar": "vertical bars"}
SIGNS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {"point": "a point: 1.5", "comma": "a comma: 1,5"}
THOUSANDS = {
    "": "not stated", "none": "nothing: 139750", "comma": "a comma: 139,750",
    "point": "a point: 139.750", "apostrophe": "an apostrophe: 139'750",
    "space": "a space: 139 750",
}  # fmt: skip
ENCODINGS = {
    "utf-8": "UTF-8 (most files)", "utf-16": "UTF-16", "utf-16-le": "UTF-16, little end first",
    "utf-16-be": "UTF-16, big end first", "cp1252": "Windows, Western Europe (cp1252)",
    "iso8859-1": "Latin 1 (ISO 8859-1)", "iso8859-15": "Latin 9, with €  (ISO 8859-15)",
    "cp1250": "Windows, Central Europe (cp1250)", "cp1251": "Windows, Cyrillic (cp1251)",
    "cp1253": "Windows, Greek (cp1253)", "cp850": "DOS, Western Europe (cp850)",
    "mac-roman": "older Macs (Mac Roman)", "koi8-r": "Russian (KOI8-R)",
    "gb18030": "Chinese (GB 18030)", "big5": "Chinese (Big5)",
    "shift_jis": "Japanese (Shift JIS)", "euc_kr": "Korean (EUC-KR)",
}  # fmt: skip
KINDS = {
    "number": "numbers", "yes-no": "yes or no", "text": "texts", "date": "dates", "empty": "empty",
}  # fmt: skip
# The embedded table, ready to go on: log-triglycerides of 442 people, whose range is what a
# laboratory can report (about 7 to 1,100 mg/dl).
EXAMPLE = {
    "role-0": ["public"], "role-1": ["public"], "role-2": ["public"], "role-3": ["public"],
    "role-4": ["private"], "use-1": ["list"], "list-1": ["0\n1"], "low-4": ["2"], "high-4": ["7"],
    "noise_variance": ["0.2"], "lists_public": ["yes"], "gaps": ["refuse"],
}  # fmt: skip


def data(request: Request, work: Work, form: Form) -> Response:
    """The screen as it stands; of a file that was changed since, as it is now."""
    return _shown(request, work, note=_looked_again(work))


def _looked_again(work: Work) -> str | None:
    """Look at the table again if it is no longer the one that the plan is about, and say so.

    With other columns nothing is taken over: what was typed goes by their places.
    """
    with work.lock:
        said, old = changed(work), work.more.get(LOOK)
        if said is None or old is None or work.table is None:
            return said
        seen, why = _looked(work.table, old.reading)
        if seen is None:
            return why
        if [one.name for one in seen.columns] != [one.name for one in old.columns]:
            return f"{said} It has other columns now: choose “Take another table”, and it again."
        work.more[LOOK] = seen
        return f"{said} Here is the file as it is now: look whether all of it is right, and go on."


def _shown(
    request: Request,
    work: Work,
    message: str | None = None,
    written: dict[str, str] | None = None,
    field: str | None = None,
    note: str | None = None,
) -> Response:
    """The screen; with a message (of a `field`), what was typed is still there."""
    with work.lock:
        seen: TableLook | None = work.more.get(LOOK)
        typed = dict(work.typed)
        table, looks = work.table, work.looks
    known = {} if seen is None else _written(seen)
    return page(
        request,
        "data.html",
        work,
        422 if message else 200,
        message=message,
        field=field,
        note=note,
        step="data",
        table=table,
        looks=looks,
        look=seen,
        rows=[] if seen is None else rows_of(seen, typed),
        hidden=0 if seen is None else max(0, len(seen.columns) - SHOWN),
        further="\n".join(wanted_names(typed)),
        written=defaultdict(str, known if written is None else written),
        typed=defaultdict(str, {name: values[0] for name, values in typed.items() if values}),
        gaps=_gaps(seen, typed),
        endings=",".join(ENDINGS),
        separators=SEPARATORS,
        decimals=DECIMALS,
        thousands=THOUSANDS,
        encodings=_encodings(seen),
        kinds=KINDS,
        roles=ROLES,
        families=FAMILIES,
        gap_words=GAPS,
    )


def _written(seen: TableLook) -> dict[str, str]:
    """How the table is written, as the choices of the form."""
    return {
        "separator": SIGNS.get(seen.separator or "", ""),
        "decimal": "comma" if seen.decimal == "," else "point",
        "thousands": next((k for k, mark in MARKS.items() if mark == seen.reading.thousands), ""),
        "encoding": seen.encoding or "",
        "sheet": seen.reading.sheet or (seen.sheets[0] if seen.sheets else ""),
    }


def _encodings(seen: TableLook | None) -> dict[str, str]:
    own = None if seen is None else seen.encoding
    return ENCODINGS if own is None or own in ENCODINGS else {own: own, **ENCODINGS}


def _gaps(seen: TableLook | None, typed: dict[str, list[str]]) -> str:
    """Rows with gaps: as chosen; else to be left out where there are some."""
    if "gaps" in typed:
        return typed["gaps"][0]
    some = seen is not None and any(column.missing or column.codes for column in seen.columns)
    return "drop" if some else "refuse"


# --- which table ----------------------------------------------------------------------------------


def data_file(request: Request, work: Work, form: Form) -> Response:
    """A file that the browser sends."""
    try:
        file = form.file("table")
        if file is None:
            raise InvalidInput("choose a file first, or drop one on the field.")
        table = sent_table(desk_of(request), file.file, file.filename or "")
    except InvalidInput as error:
        return _shown(request, work, str(error))
    return _taken(request, work, table)


def data_path(request: Request, work: Work, form: Form) -> Response:
    """A file of this machine."""
    try:
        table = local_table(desk_of(request), form.text("path"))
    except InvalidInput as error:
        return _shown(request, work, str(error))
    return _taken(request, work, table)


def data_example(request: Request, work: Work, form: Form) -> Response:
    """The embedded table, with its columns chosen."""
    return _taken(request, work, Table(EMBEDDED))


def _taken(request: Request, work: Work, table: Table) -> Response:
    """Look at a new table; the one before goes. A text file that cannot be read stays, so that one
    can say how it is written.
    """
    seen, why = _looked(table, Reading())
    text = table.path is not None and not table.name.lower().endswith((".xlsx", ".parquet", ".xpt"))
    if seen is None and not text:
        table.remove()
        return _shown(request, work, why)
    with work.lock:
        if desk_of(request).works.get(work.id) is not work:  # cleared away meanwhile
            table.remove()
            raise HTTPException(404, "This work is no longer on the desk: start again.")
        try:
            work.require_idle()
        except InvalidInput as error:
            table.remove()
            return _shown(request, work, str(error))
        replanned(desk_of(request), work)
        work.forget()
        work.table = table
        _keep(work, seen)
        if table.path is None:
            work.typed.update(EXAMPLE)
    return see_other(request, "data", work) if why is None else _shown(request, work, why)


def _looked(table: Table, reading: Reading) -> tuple[TableLook | None, str | None]:
    """What is seen of a table; or why nothing is."""
    try:
        return look(table.data, reading), None
    except PrivestError as error:
        return None, in_words(error, table)


def _keep(work: Work, seen: TableLook | None) -> None:
    work.looks += 1
    if seen is None:
        work.more.pop(LOOK, None)
        return
    work.more[LOOK], work.reading = seen, seen.reading


def data_another(request: Request, work: Work, form: Form) -> Response:
    """Put the table away, and take another one."""
    with work.lock:
        try:
            work.require_idle()
        except InvalidInput as error:
            return _shown(request, work, str(error))
        replanned(desk_of(request), work)
        work.forget()
    return see_other(request, "data", work)


# --- how it is written ----------------------------------------------------------------------------


def data_written(request: Request, work: Work, form: Form) -> Response:
    """Look again, reading the file as it is said to be written."""
    with work.lock:
        table = work.table
        if table is None:
            return see_other(request, "data", work)
        given = {
            name: form.text(name, "")
            for name in ("separator", "decimal", "thousands", "encoding", "sheet")
        }
        try:
            work.require_idle()
            seen, why = _looked(table, _reading(given))
        except InvalidInput as error:
            seen, why = None, str(error)
        if seen is None:
            return _shown(request, work, why, given)
        _keep(work, seen)
        work.typed.clear()  # the columns may be others now
        replanned(desk_of(request), work)
        work.restate(None, None)
    return see_other(request, "data", work)


def _reading(given: dict[str, str]) -> Reading:
    """A decimal comma where commas are also between columns: in quotes, which the reader finds."""
    commas = given["separator"] == given["decimal"] == "comma"
    return Reading(
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
        table, seen = work.table, work.more.get(LOOK)
        if table is None or seen is None:
            return see_other(request, "data", work)
        if form.whole("looks", work.looks) != work.looks:  # its columns are counted, not named
            return _shown(request, work, OTHER_TABLE)
        try:
            work.typed = _typed(form)
            if "show" in form:
                return see_other(request, "data", work)
            spec = stated(form, desk_of(request), table, seen, work.references)
            if changed(work) is not None or not _is_known(work, spec):
                work.require_idle()
                plan = make_plan(spec, data=table.data)
                replanned(desk_of(request), work)
                work.restate(spec, plan)
                work.reading = spec.format
        except PrivestError as error:
            field = getattr(error, "field", None)
            return _shown(request, work, in_words(error, table), field=field)
    return see_other(request, "privacy", work)


def _typed(form: Form) -> dict[str, list[str]]:
    """What was typed, to be shown again; a file cannot be."""
    names = [name for name in form.names() if name not in (*HIDDEN, "public")]
    return {name: form.listed(name) for name in names}


def data_reference(request: Request, work: Work, form: Form) -> Response:
    """A public file to take the noise from, sent with all that was typed so far."""
    with work.lock:
        if work.table is None or LOOK not in work.more:
            return see_other(request, "data", work)
        if form.whole("looks", work.looks) != work.looks:
            return _shown(request, work, OTHER_TABLE)
        try:
            work.typed = _typed(form)
            file = form.file("public")
            if file is None:
                raise Unfit("choose the public file first.", "public")
            sent = sent_reference(desk_of(request), work.table, file.file, file.filename or "")
        except InvalidInput as error:
            return _shown(request, work, str(error), field=getattr(error, "field", None))
        work.references.append(sent)
        work.typed["reference"] = [sent.name]
    return see_other(request, "data", work)


def _is_known(work: Work, spec: Spec) -> bool:
    """Whether the same was stated before: then the level that was chosen since is kept."""
    old = work.spec
    if old is None or work.plan is None or _ends(old) != _ends(spec):
        return False
    return replace(spec, privacy=old.privacy) == old


def _ends(spec: Spec) -> object:
    """The public ranges; that of a yes/no outcome need not be stated."""
    usual = {spec.targets[0]: (0.0, 1.0)} if spec.model.family == "binomial" else {}
    return usual | dict(spec.privacy.range)


ROUTES = [
    screen("/data", data, "data"),
    screen("/data/file", data_file, "data_file", post=True, most=None),
    screen("/data/path", data_path, "data_path", post=True),
    screen("/data/example", data_example, "data_example", post=True),
    screen("/data/another", data_another, "data_another", post=True),
    screen("/data/written", data_written, "data_written", post=True),
    screen("/data/reference", data_reference, "data_reference", post=True, most=None),
    screen("/data", data_done, "data_done", post=True),
]
