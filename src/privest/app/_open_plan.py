"""Open a plan that is there already: its file, and the table it is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from privest.app._data_form import typed_of
from privest.app._data_screen import LOOK
from privest.app._desk import Desk, Table, Work
from privest.app._pages import Form, desk_of, page, plain_route, see_other
from privest.app._uploads import (
    in_words,
    local_path,
    local_table,
    require_other_file,
    sent_table,
    shown_name,
)
from privest.data import EMBEDDED, look
from privest.errors import InvalidInput, PrivestError
from privest.reading import DOCUMENT, as_text
from privest.workflow import Public, Spec, load_spec, make_plan, read_spec

TYPED = ("plan_path", "data_path")


def ask(request: Request, form: Form) -> Response:
    """Which plan, and where its table is."""
    return page(request, "open_plan.html", typed=dict.fromkeys(TYPED, ""))


def opened(request: Request, form: Form) -> Response:
    """A piece of work with this plan, on to the slider."""
    desk = desk_of(request)
    work = desk.begin()
    try:
        with work.lock:
            _fill(desk, work, form)
    except PrivestError as error:
        said = in_words(error, work.table)
        desk.clear(work)
        typed = {name: form.text(name, "") for name in TYPED}
        return page(request, "open_plan.html", status=422, typed=typed, message=said)
    except BaseException:
        desk.clear(work)
        raise
    return see_other(request, "privacy", work)


def _fill(desk: Desk, work: Work, form: Form) -> None:
    """The table, the plan, and what the data screen would show had it been typed there."""
    spec = _spec(desk, form)
    if spec.privacy.level_column is not None:
        raise InvalidInput(
            "plans with a level column are for the command line: privest release PLAN."
        )
    work.table = _table(desk, form, spec)
    spec = replace(spec, data=work.table.name, public=_public(desk, work.table, spec))
    seen = look(work.table.data, spec.format)
    # What was found of how the file is written is now stated, as on the data screen.
    codes = spec.format.missing_codes
    spec = replace(spec, format=replace(seen.reading, missing_codes=codes))
    work.restate(spec, make_plan(spec, work.table.data))
    work.reading, work.more[LOOK] = spec.format, seen
    work.typed = typed_of(spec, seen)


def _spec(desk: Desk, form: Form) -> Spec:
    """The plan as it is stated; of one that lies on this machine with its paths found."""
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
    """The table that is sent or named; else the one that the plan names, where that is found."""
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


def _public(desk: Desk, table: Table, spec: Spec) -> Public:
    """With the place of the public reference set, which a plan names."""
    name = spec.public.reference
    if name is None or name == EMBEDDED:
        return spec.public
    path = local_path(desk, name)
    require_other_file(table, path)
    return replace(spec.public, reference=str(path))


ROUTES = [
    plain_route("/plan", ask, "open_plan"),
    plain_route("/plan", opened, "opened_plan", post=True, most=None),
]
