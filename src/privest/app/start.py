"""Screen 1, start: a table, the work on the desk, and the releases of the folder."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from privest.app.columns import FORMS
from privest.app.data import EXAMPLE, look_without
from privest.app.desk import Work
from privest.app.pages import Errors, Form, desk_of, page, plain_route, screen, see_other
from privest.app.results import releases_in
from privest.app.tables import Table, sent_table
from privest.data.look import inspect as look
from privest.data.source import EMBEDDED, ENDINGS
from privest.errors import InvalidInput, PrivestError

MOST_LISTED = 50  # releases of a folder


def start(request: Request, form: Form, errors: Errors | None = None) -> Response:
    works = [
        one for one in desk_of(request).works.values()
        if one.table is not None or one.released is not None
    ]  # fmt: skip
    chosen = form.text("form", "") if errors else ""
    return page(
        request, "start.html", errors=errors, works=works[::-1], endings=",".join(ENDINGS),
        chosen=chosen, releases=list(releases_in(desk_of(request).folder))[:MOST_LISTED],
    )  # fmt: skip


def begin(request: Request, form: Form) -> Response:
    """A new piece of work on a file that is sent, or on the embedded table."""
    desk, table = desk_of(request), Table(EMBEDDED)
    try:
        sent, leaves = form.file("table"), form.choice("form", list(FORMS), "aggregate")
        if not form.flag("example"):
            if sent is None:
                raise InvalidInput("choose a file first.")
            table = sent_table(desk, sent.file, sent.filename or "")
        seen, work = look(table.data), desk.begin()
    except PrivestError as error:
        table.remove()
        return start(request, form, Errors.of(error, "table", table))
    with work.lock:
        work.table, work.look, work.typed = table, seen, {"form": [leaves]}
        if table.path is None:
            look_without(work, len(seen.columns) - 1)
            work.typed |= EXAMPLE
    return see_other(request, "data", work)


def clear(request: Request, work: Work, form: Form) -> Response:
    desk_of(request).clear(work)
    return see_other(request, "start")


def open_release(request: Request, form: Form) -> Response:
    """A piece of work that begins with a release of the folder: its results, and nothing else."""
    desk, name = desk_of(request), form.text("name", "")
    if name not in releases_in(desk.folder):
        return start(request, form, Errors({"": "That release is not in the folder any more."}))
    work = desk.begin()
    with work.lock:
        work.released = desk.folder / name
    return see_other(request, "results", work)


ROUTES = [
    plain_route("/release", open_release, "open_release", post=True),
    plain_route("/", start, "start"),
    plain_route("/begin", begin, "begin", post=True, most=None),
    screen("/clear", clear, "clear", post=True),
]
