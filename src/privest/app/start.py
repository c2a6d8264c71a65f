"""Screen 1, start: a table, a plan, a release; the work on the desk."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from privest.app.columns import FORMS, typed_of
from privest.app.data import EXAMPLE, keep_look
from privest.app.desk import Desk, Work
from privest.app.pages import Errors, Form, desk_of, page, plain_route, screen, see_other
from privest.app.tables import Table, local_path, local_table, sent_table, shown_name
from privest.data.format import Format
from privest.data.look import inspect as look
from privest.data.source import EMBEDDED, ENDINGS
from privest.errors import InvalidInput, PrivestError
from privest.reading import DOCUMENT, as_text
from privest.workflow.document import read_release
from privest.workflow.plan import make_plan
from privest.workflow.spec import Spec, load_spec, read_spec

MOST_LISTED = 50  # releases of a folder


def start(request: Request, form: Form, errors: Errors | None = None) -> Response:
    works = [
        one for one in desk_of(request).works.values()
        if one.table is not None or one.released is not None
    ]  # fmt: skip
    typed = {one: form.text(one, "") if errors else "" for one in ("path", "form")}
    return page(
        request, "start.html", errors=errors, works=works[::-1], endings=",".join(ENDINGS),
        typed=typed,
    )  # fmt: skip


# --- a table --------------------------------------------------------------------------------------


def begin(request: Request, form: Form) -> Response:
    """A new piece of work on a file that is sent or named, or on the embedded table."""
    desk, given = desk_of(request), form.text("path", "")
    try:
        sent, leaves = form.file("table"), form.choice("form", list(FORMS), "aggregate")
        if form.flag("example"):
            table = Table(EMBEDDED)
        elif sent is not None:
            table = sent_table(desk, sent.file, sent.filename or "")
        elif given:
            table = local_table(desk, given)
        else:
            raise InvalidInput("choose a file first.")
    except InvalidInput as error:
        field = "path" if given else "table"
        return start(request, form, Errors.of(error, field))
    seen, why = table.look(Format())
    if seen is None and not table.is_text:
        table.remove()
        return start(request, form, Errors({"table": why or ""}))
    try:
        work = desk.begin()
    except InvalidInput as error:
        table.remove()
        return start(request, form, Errors.of(error, "table"))
    with work.lock:
        work.table = table
        keep_look(work, seen)
        work.typed = {"form": [leaves]} | (EXAMPLE if table.path is None else {})
    return see_other(request, "data", work)


def clear(request: Request, work: Work, form: Form) -> Response:
    desk_of(request).clear(work)
    return see_other(request, "start")


# --- a plan ---------------------------------------------------------------------------------------


def ask_plan(request: Request, form: Form, errors: Errors | None = None) -> Response:
    typed = {name: form.text(name, "") for name in ("plan_path", "data_path")} if errors else {}
    return page(request, "open_plan.html", typed=typed, errors=errors)


def open_plan(request: Request, form: Form) -> Response:
    desk = desk_of(request)
    work = desk.begin()
    try:
        with work.lock:
            _fill(desk, work, form)
    except PrivestError as error:
        errors = Errors.of(error, "plan", work.table)
        desk.clear(work)
        return ask_plan(request, form, errors)
    except BaseException:
        desk.clear(work)
        raise
    return see_other(request, "privacy", work)


def _fill(desk: Desk, work: Work, form: Form) -> None:
    """The table, the plan, and what the columns screen would show had it been typed there."""
    errors = Errors()
    with errors.at("plan"):
        spec = _spec(desk, form)
        _require_shown(spec)
    errors.require_none()
    with errors.at("data"):
        work.table = _table(desk, form, spec)
    errors.require_none()
    assert work.table is not None
    seen = look(work.table.data, spec.format)
    # What was found of how the file is written is now stated, as on the columns screen.
    codes = spec.format.missing_codes
    spec = replace(spec, data=work.table.name, format=replace(seen.format, missing_codes=codes))
    work.restate(make_plan(spec, work.table.data))
    keep_look(work, seen)
    work.typed = typed_of(spec, seen)


def _require_shown(spec: Spec) -> None:
    privacy = spec.privacy
    found = {
        "a level for each row": privacy.level_column is not None,
        "several private columns": len(spec.targets) > 1,
        "a reference set": spec.public.reference is not None,
        "a stated sensitivity": privacy.sensitivity is not None,
        "a private column without a range": (not privacy.range and spec.model.family != "binomial"),
    }
    for what, is_so in found.items():
        if is_so:
            raise InvalidInput(f"this plan has {what}: use it on the command line.")


def _spec(desk: Desk, form: Form) -> Spec:
    sent, typed = form.file("plan"), form.text("plan_path", "")
    if sent is None:
        if not typed:
            raise InvalidInput("choose a plan file, or write where it is.")
        return load_spec(local_path(desk, typed))
    name = shown_name(sent.filename or "")
    data = sent.file.read(DOCUMENT + 1)
    if len(data) > DOCUMENT:
        raise InvalidInput(f"{name} is too large to be a plan.")
    return read_spec(as_text(data, name), name)


def _table(desk: Desk, form: Form, spec: Spec) -> Table:
    sent, typed = form.file("data"), form.text("data_path", "")
    if sent is not None:
        return sent_table(desk, sent.file, sent.filename or "")
    try:
        return local_table(desk, typed or spec.data)
    except InvalidInput:
        if typed:
            raise
        raise InvalidInput(
            f"the plan is about {Path(spec.data).name}: choose that file too, or write where it is."
        ) from None


# --- a release ------------------------------------------------------------------------------------


def ask_release(request: Request, form: Form, errors: Errors | None = None) -> Response:
    listed, typed = releases_in(desk_of(request).folder), form.text("path", "") if errors else ""
    return page(request, "open_release.html", errors=errors, listed=listed, typed=typed)


def open_release(request: Request, form: Form) -> Response:
    """A piece of work that begins with a release: its results, and nothing else."""
    desk, given = desk_of(request), form.text("path", "")
    try:
        if not given:
            raise InvalidInput("name a release, such as release.csv or release.json.")
        path = local_path(desk, given)
        is_document = path.name.endswith((".csv.json", ".parquet.json"))
        table = path.with_suffix("") if is_document else path
        read_release(table)
        work = desk.begin()
    except PrivestError as error:
        return ask_release(request, form, Errors.of(error, "path"))
    with work.lock:
        work.released = table
    return see_other(request, "results", work)


def releases_in(folder: Path) -> list[str]:
    """The names of the releases in a folder: tables with a document beside them, or documents."""
    names = (one.name.removesuffix(".json") for one in folder.glob("*.json"))
    found = (one if one.endswith((".csv", ".parquet")) else f"{one}.json" for one in names)
    return sorted(one for one in found if _is_release(folder / one))[:MOST_LISTED]


def _is_release(path: Path) -> bool:
    with contextlib.suppress(PrivestError):
        return path.is_file() if path.suffix != ".json" else bool(read_release(path).sums)
    return False


ROUTES = [
    plain_route("/", start, "start"),
    plain_route("/begin", begin, "begin", post=True, most=None),
    screen("/clear", clear, "clear", post=True),
    plain_route("/plan", ask_plan, "open_plan"),
    plain_route("/plan", open_plan, "opened_plan", post=True, most=None),
    plain_route("/release", ask_release, "open"),
    plain_route("/release", open_release, "open_release", post=True),
]
