"""Pages from templates, checked forms, and the way from a request to its screen."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context, select_autoescape
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

import privest
from privest.app.desk import STEPS, Desk, Work, same_secret
from privest.app.tables import Table, in_words
from privest.arrays import as_number
from privest.errors import InvalidInput, PrivestError
from privest.report.sections import printable

GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?")  # 200,000 and 1,234.5
NUMBERS = itertools.count(1)
MOST_FIELDS = 5_000  # a table may have a thousand columns with a few choices each
MOST_TEXT = 100_000  # characters of one field
MOST_BYTES = 4_000_000  # of a form without a file


class Form:
    """The fields of a request, each checked when it is asked for."""

    def __init__(self, fields: FormData | QueryParams) -> None:
        self._fields = fields

    def names(self) -> list[str]:
        return list(dict.fromkeys(self._fields.keys()))

    def listed(self, name: str) -> list[str]:
        """All values of a field that may occur several times."""
        return [self._text(one, name) for one in self._fields.getlist(name)]

    def text(self, name: str, default: str | None = None) -> str:
        """A text without spaces around it; where it is not there, or empty, the default."""
        found = self._text(self._fields.get(name, ""), name).strip()
        if found or default is not None:
            return found or default or ""
        raise InvalidInput(f"{_said(name)} is missing: fill it in.")

    def number(self, name: str, default: float | None = None, said: str | None = None) -> float:
        """A finite number, with a decimal point or comma. said: what a message calls it."""
        found = self.optional_number(name, said)
        if found is None:
            if default is None:
                raise InvalidInput(f"{said or _said(name)} is missing: write a number.")
            return default
        return found

    def optional_number(
        self, name: str, said: str | None = None, *, grouped: bool = True
    ) -> float | None:
        """The same; None where the field is empty. grouped: see `number_of`."""
        found = self.text(name, "")
        return number_of(found, said or _said(name), grouped=grouped) if found else None

    def whole(self, name: str, default: int, most: int = 2**53) -> int:
        found = self.number(name, default)
        if found != int(found) or not 0 <= found <= most:
            raise InvalidInput(f"{_said(name)} must be a whole number from 0 to {most}.")
        return int(found)

    def choice(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        found = self.text(name, default)
        if found not in known:
            raise InvalidInput(f"{_said(name)} must be one of {', '.join(known)}.")
        return found

    def flag(self, name: str) -> bool:
        return bool(self.text(name, ""))

    def file(self, name: str) -> UploadFile | None:
        found = self._fields.get(name)
        return found if isinstance(found, UploadFile) and found.filename else None

    def _text(self, found: object, name: str) -> str:
        if not isinstance(found, str):
            raise InvalidInput(f"{_said(name)} must be a text, not a file.")
        if len(found) > MOST_TEXT or "\x00" in found:
            raise InvalidInput(f"{_said(name)} is too long, or holds what no text holds.")
        return found.replace("\r\n", "\n")  # which browsers send for every line of a field


def number_of(typed: str, said: str, *, grouped: bool = True) -> float:
    """A number as people type it: 200000 and 200,000; 0.5 and 0,5.

    Groups of three digits are thousands; any other comma is a decimal one. grouped: False where
    misreading it would cost privacy; 1,000 is then refused.
    """
    plain = "".join(typed.split())
    if GROUPED.fullmatch(plain):
        if not grouped:
            raise InvalidInput(f"{said} can be read in two ways: write it without a comma.")
        plain = plain.replace(",", "")
    elif plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        return as_number(float("" if "_" in plain else plain), said)  # float reads 1_000
    except ValueError:  # InvalidInput is one
        raise InvalidInput(f"{said} must be a number, such as 0.5 or 200,000.") from None


def as_typed(value: float | None) -> str:
    """A number as it is typed, to its last digit and without a power of ten; nothing for None."""
    return "" if value is None else f"{Decimal(repr(value)).normalize():,f}"


def _said(name: str) -> str:
    return f"“{printable(name.replace('_', ' '))}”"


class Errors(dict[str, str]):
    """The errors of a form: a sentence for each field, all of them at once."""

    @classmethod
    def of(cls, error: PrivestError, field: str, table: Table | None = None) -> Errors:
        """The errors of a form that does not fit; any other belongs to this field."""
        return error.errors if isinstance(error, Unfit) else cls({field: in_words(error, table)})

    @contextmanager
    def at(self, field: str) -> Iterator[None]:
        """An error within belongs to this field; the first of them counts."""
        try:
            yield
        except PrivestError as error:
            self.setdefault(field, str(error))

    def require_none(self) -> None:
        if self:
            raise Unfit(self)


class Unfit(InvalidInput):
    """A form that does not fit; `errors`: why, by field."""

    def __init__(self, errors: Errors) -> None:
        super().__init__(" ".join(errors.values()))
        self.errors = errors


# --- pages ----------------------------------------------------------------------------------------


@cache
def templates() -> Environment:
    """The templates: all texts are escaped and made safe to show; an unknown name is an error."""
    found = Environment(
        loader=PackageLoader("privest.app", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["told"] = _told
    return found


@pass_context
def _told(context: Context, message: str) -> str:
    """A message of the library as a sentence about the user's file, not the app's copy of it."""
    about = context.get("work")
    text = in_words(message, None if about is None else about.table)
    first = text.split(" ", 1)[0].rstrip(",;)")
    return text[0].upper() + text[1:] if first.isalpha() and first.islower() else text


def _finalized(value: object) -> object:
    if value is None:
        return ""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(
    request: Request,
    template: str,
    work: Work | None = None,
    *,
    errors: Errors | None = None,
    status: int = 200,
    **context: Any,  # noqa: ANN401 - what a template asks for
) -> HTMLResponse:
    """A page, or a part of one for htmx, from its template.

    Every template has what `known` lists; `place(name, **ids)` is the path of a route.
    """
    desk = desk_of(request)
    known = {
        "desk": desk, "work": work, "key": desk.key, "csrf": desk.csrf, "names": STEPS,
        "version": privest.__version__, "message": None, "step": None, "errors": errors or Errors(),
        "place": lambda name, **ids: place(request, name, **ids),
    }  # fmt: skip
    return HTMLResponse(
        templates().get_template(template).render(known | context), 422 if errors else status
    )


def says(status: int, message: str) -> HTMLResponse:
    return HTMLResponse(templates().get_template("refused.html").render(text=message), status)


def onward(address: str) -> str:
    """A page that leads on to an address at once, without a referrer."""
    return templates().get_template("onward.html").render(address=address)


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def place(request: Request, name: str, **ids: str) -> str:
    return str(request.app.url_path_for(name, key=desk_of(request).key, **ids))


def see_other(request: Request, name: str, work: Work | None = None, **ids: str) -> Response:
    if work is not None:
        ids["id"] = work.id
    return RedirectResponse(place(request, name, **ids), 303)


def from_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


# --- routes ---------------------------------------------------------------------------------------

Handler = Callable[[Request, Work, Form], Response]
Plain = Callable[[Request, Form], Response]


def screen(path: str, handler: Handler, name: str, *, post: bool = False) -> Route:
    """A route of one piece of work: /{key}/work/{id}/… ; `post`: a form, else a page."""

    def with_work(request: Request, form: Form) -> Response:
        work = desk_of(request).works.get(request.path_params["id"])
        if work is None:
            raise HTTPException(404, "This work is no longer on the desk: start again.")
        return handler(request, work, form)

    return plain_route(f"/work/{{id}}{path}", with_work, name, post=post)


def plain_route(
    path: str, handler: Plain, name: str, *, post: bool = False, most: int | None = MOST_BYTES
) -> Route:
    async def endpoint(request: Request) -> Response:
        request.state.number = next(NUMBERS)  # as they came: threads may overtake each other
        if not post:
            return await run_in_threadpool(handler, request, Form(request.query_params))
        if most is not None:
            await _require_small(request, most)
        async with request.form(
            max_files=8, max_fields=MOST_FIELDS, max_part_size=4 * MOST_TEXT
        ) as fields:
            form = Form(fields)
            given = fields.get("csrf", "")
            if not (isinstance(given, str) and same_secret(given, desk_of(request).csrf)):
                raise HTTPException(403, "This form is of another run of the app: reload the page.")
            return await run_in_threadpool(handler, request, form)

    return Route("/{key}" + path, endpoint, name=name, methods=["POST"] if post else ["GET"])


async def _require_small(request: Request, most: int) -> None:
    size, parts = 0, []
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise HTTPException(413, "That is more than a form of this app can hold.")
        parts.append(chunk)
    request._body = b"".join(parts)  # where Starlette itself keeps a body that was read


# --- what goes wrong ------------------------------------------------------------------------------


def refused(request: Request, error: Exception) -> Response:
    """The message of an error of privest, which holds no private value."""
    assert isinstance(error, PrivestError)
    work = desk_of(request).works.get(request.path_params.get("id", ""))
    return _message(request, 422, in_words(error, None if work is None else work.table))


def not_there(request: Request, error: Exception) -> Response:
    """404, 403, 405, 413, and a form that is none."""
    assert isinstance(error, HTTPException)
    known = {404: "There is no such page.", 405: "This page is not for that."}
    usual = error.detail in ("Not Found", "Method Not Allowed")
    text = known[error.status_code] if usual else str(error.detail)
    return _message(request, error.status_code, text)


def _message(request: Request, status: int, text: str) -> Response:
    template = "_message.html" if from_htmx(request) else "message.html"
    return page(request, template, status=status, message=text)
