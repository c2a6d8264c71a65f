"""The first page: begin, or go on with what is on the desk."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from privest.app._desk import Work
from privest.app._pages import Form, desk_of, page, plain_route, screen, see_other


def start(request: Request, form: Form) -> Response:
    """What the app is for, and the pieces of work on the desk."""
    works = [
        one for one in desk_of(request).works.values()
        if one.table is not None or one.released is not None
    ]  # fmt: skip
    return page(request, "start.html", works=works)


def begin(request: Request, form: Form) -> Response:
    """A new piece of work."""
    return see_other(request, "data", desk_of(request).begin())


def clear(request: Request, work: Work, form: Form) -> Response:
    """Take a piece of work off the desk: the app's copy of its table is removed."""
    desk_of(request).clear(work)
    return see_other(request, "start")


ROUTES = [
    plain_route("/", start, "start"),
    plain_route("/begin", begin, "begin", post=True),
    screen("/clear", clear, "clear", post=True),
]
