"""Screen 3, release: what will be written and spent, a confirmation, progress, what came of it.

Nothing begins without a tick and a word that is good for one release: a double click, a reload or
the back button find what the first one did.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from privest.app import _release_job as jobs
from privest.app._desk import Desk, Work
from privest.app._pages import Form, desk_of, from_htmx, page, screen, see_other
from privest.app._privacy_screen import apart_of
from privest.app._release_job import Choice, Job
from privest.app._uploads import changed
from privest.errors import InvalidInput, PrivestError
from privest.ledger import Entry, as_subject
from privest.report import Sentence, exposed
from privest.report.findings import level_of
from privest.report.numbers import KINDS
from privest.report.numbers import level as level_number
from privest.workflow import Plan, Spending
from privest.workflow._header import header_path
from privest.workflow._releasing import described_before, planned_release

READ_ONLY = "The app runs read-only: it shows plans, and releases nothing."
SEED = 1
OTHER_PLAN = (
    "The plan was changed after this page was shown, perhaps in another tab. Look at what it is "
    "now, and confirm again. Nothing was released."
)
RELEASED_BEFORE = (
    "These readings were released before: use that release. If once more is meant, which shows "
    "more of them, tick the box that says so. Nothing was released."
)
NOT_SURE = "Tick the box if you are sure: a release cannot be taken back. Nothing was released."


def show(request: Request, work: Work, form: Form) -> Response:
    """What a release would write and spend; how far one is; what came of it."""
    return _page(request, work)


def _page(
    request: Request,
    work: Work,
    status: int = 200,
    message: str | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    desk, plan = desk_of(request), work.plan
    if plan is None:
        return see_other(request, "data", work)
    job: Job | None = work.more.get(jobs.JOB)
    moved = job is not None and job.plan.spec != plan.spec
    trouble = None if job is None or moved or message else job.trouble
    told: dict[str, Any] = {
        "step": "release", "message": message, "plan": plan, "job": job,
        "moved": moved, "trouble": trouble, "shown": (message, trouble),
        "earlier_works": [one for one in work.earlier if one.id in desk.works],
        "real": work.real, "ticket": None, "amounts": None, "typed": typed,
        "rows": KINDS["rows"](plan.rows), "changed": changed(work),
        "panel": _panel(plan, apart_of(work, plan)),
    }  # fmt: skip
    if not desk.read_only and (job is None or not job.running):
        choice = _choice_of(desk, work, plan)
        told |= _offered(desk, plan, choice)
        if told["spending"].unfinished:  # it is finished without the table
            told["changed"] = None
        told["ticket"] = jobs.new_ticket(work, plan)
        told["typed"] = typed or _as_typed(choice)
    else:
        told |= _written(plan, "release.csv")
    return page(request, "release.html", work, status, **told)


# --- what is offered ------------------------------------------------------------------------------


def _choice_of(desk: Desk, work: Work, plan: Plan) -> Choice:
    """What was chosen on this page before, or the usual."""
    with work.lock:
        kept: tuple[Plan, Choice] | None = work.more.get(jobs.CHOICE)
    if kept is not None and kept[0].spec.targets == plan.spec.targets:
        return kept[1]
    return jobs.first_choice(desk, plan)


def _offered(desk: Desk, plan: Plan, choice: Choice) -> dict[str, Any]:
    """The files and the account, as the page shows them."""
    spent = jobs.spending(desk, plan, choice)
    return _written(plan, choice.name) | {
        "spending": spent, "amounts": _amounts(spent), "choice": choice,
        "earlier": [_release_words(one) for one in spent.earlier],
    }  # fmt: skip


def _panel(plan: Plan, apart: float | None) -> list[str]:
    """What one person is exposed to, a sentence each."""
    parts = exposed(plan, apart=apart).parts
    return [part.text for part in parts if isinstance(part, Sentence)]


def _written(plan: Plan, name: str) -> dict[str, Any]:
    form = planned_release(plan, name)
    return {
        "table": name, "header": header_path(Path(name)).name,
        "columns": form.table_columns, "level": level_of(form).text,
        "facts": json.dumps(described_before(plan, name), indent=1, ensure_ascii=False),
    }  # fmt: skip


def _amounts(spent: Spending) -> dict[str, str]:
    """What the account has, in words; what is not known is not said."""
    found = {}
    if spent.budget is not None:
        found["Budget of the account" if spent.known else "Budget of the new account"] = (
            level_number(spent.budget)
        )
    if spent.known and spent.spent is not None:
        found["Spent so far"] = level_number(spent.spent)
    found["This release"] = level_number(0.0 if spent.unfinished else spent.level)
    if spent.remaining is not None and spent.fits:
        found["Left after it"] = "nothing" if not spent.remaining else level_number(spent.remaining)
    return found


def _release_words(entry: Entry) -> str:
    """`entry 3, 2026-11-16 13:00 UTC`."""
    return f"entry {entry.sequence}, {entry.time[:16].replace('T', ' ')} UTC"


def _as_typed(choice: Choice) -> dict[str, str]:
    return {
        "name": choice.name, "subject": choice.subject, "again": "yes" if choice.again else "",
        "budget": "" if choice.budget is None else repr(choice.budget),
    }  # fmt: skip


def _as_choice(desk: Desk, plan: Plan, form: Form) -> Choice:
    """What was typed, checked; an account that is known keeps its budget."""
    usual = jobs.first_choice(desk, plan)
    choice = Choice(
        jobs.as_name(form.text("name", usual.name), plan.spec),
        as_subject(form.text("subject", usual.subject)),
        form.optional_number("budget"),
        form.flag("again"),
    )
    if choice.budget is not None and not choice.budget > 0:
        raise InvalidInput("“budget” must be a privacy level above 0, or empty.")
    bare = replace(choice, budget=None)
    return bare if jobs.spending(desk, plan, bare).known else choice


def look(request: Request, work: Work, form: Form) -> Response:
    """The same page with another file or account: nothing is spent."""
    desk, plan = desk_of(request), _plan_of(request, work)
    try:
        choice = _as_choice(desk, plan, form)
    except PrivestError as error:
        return _again(request, work, form, str(error))
    with work.lock:
        if work.plan is plan:  # an account of another table is none of this one
            work.more[jobs.CHOICE] = (plan, choice)
    if from_htmx(request):
        told = _offered(desk, plan, choice) | {
            "typed": _as_typed(choice), "plan": plan, "shown": (),
        }  # fmt: skip
        return page(request, "_release_spending.html", work, **told)
    return see_other(request, "release", work)


def _again(request: Request, work: Work, form: Form, message: str) -> Response:
    """The screen with a message and what was typed."""
    if from_htmx(request):
        return page(request, "_release_refused.html", work, 422, text=message)
    names = ("name", "subject", "budget", "again")
    typed = {name: form.text(name, "")[:200] for name in names}
    return _page(request, work, 422, message, typed)


def _plan_of(request: Request, work: Work) -> Plan:
    """The plan, for what changes something."""
    if desk_of(request).read_only:
        raise HTTPException(403, READ_ONLY)
    if work.plan is None or work.table is None:
        raise InvalidInput("there is no plan yet: begin with the data.")
    return work.plan


# --- what is done ---------------------------------------------------------------------------------


def make(request: Request, work: Work, form: Form) -> Response:
    """Release, once."""
    desk = desk_of(request)
    with work.lock:
        plan = _plan_of(request, work)
        if _is_running(work):
            return see_other(request, "release", work)
        shown = jobs.take_ticket(work, form.text("ticket", ""))
        if shown is None:  # sent twice: the first one has done it
            return see_other(request, "release", work)
        try:
            if shown is not plan:
                raise InvalidInput(OTHER_PLAN)
            choice = _as_choice(desk, plan, form)
            work.more[jobs.CHOICE] = (plan, choice)
            if not form.flag("sure"):
                raise InvalidInput(NOT_SURE)
            spent = jobs.spending(desk, plan, choice)
            _require_allowed(spent)
            if not spent.unfinished:
                _require_unchanged(work)
        except PrivestError as error:
            return _again(request, work, form, str(error))
        jobs.begin(desk, work, plan, choice)
    return see_other(request, "release", work)


def _require_allowed(spent: Spending) -> None:
    """Refuse now what would be refused later."""
    if spent.refusal is not None:
        raise InvalidInput(spent.refusal_again or RELEASED_BEFORE)


def _require_unchanged(work: Work) -> None:
    """Refuse a table that is no longer the one that the plan, as it was shown, is about."""
    said = changed(work)
    if said is not None:
        raise InvalidInput(f"{said} Nothing was released.")


def trial(request: Request, work: Work, form: Form) -> Response:
    """A trial with simulated noise: it spends nothing, and is not written to the folder."""
    desk, seed = desk_of(request), form.whole("seed", SEED, most=2**32 - 1)
    with work.lock:
        plan = _plan_of(request, work)
        if _is_running(work):
            return see_other(request, "release", work)
        if work.real:
            raise InvalidInput("this work has a real release: begin a new one for another trial.")
        try:
            _require_unchanged(work)
        except InvalidInput as error:
            return _page(request, work, 422, str(error))
        jobs.begin_trial(desk, work, plan, seed)
    return see_other(request, "release", work)


def stop(request: Request, work: Work, form: Form) -> Response:
    """End a release that is under way, if nothing was paid for yet."""
    _plan_of(request, work)
    job: Job | None = work.more.get(jobs.JOB)
    if job is not None:
        job.stop.set()
    return see_other(request, "release", work)


def _is_running(work: Work) -> bool:
    job: Job | None = work.more.get(jobs.JOB)
    return job is not None and job.running


def progress(request: Request, work: Work, form: Form) -> Response:
    """How far it is, for a page that asks every second; when it has ended the page comes anew."""
    if not from_htmx(request):
        return see_other(request, "release", work)
    job: Job | None = work.more.get(jobs.JOB)
    if job is None or not job.running:
        return Response(status_code=200, headers={"HX-Refresh": "true"})
    return page(request, "_release_progress.html", work, job=job)


def file(request: Request, work: Work, form: Form) -> Response:
    """The table of a real release, or its header."""
    what = request.path_params["what"]
    with work.lock:
        table = work.released if work.real else None
    if table is None or what not in ("table", "header"):
        raise HTTPException(404, "That is there after a release.")
    path = table if what == "table" else header_path(table)
    if not path.is_file():
        raise HTTPException(404, "The file is no longer where it was written.")
    return FileResponse(path, filename=path.name)


ROUTES = [
    screen("/release", show, "release"),
    screen("/release/look", look, "release_look", post=True),
    screen("/release/make", make, "release_make", post=True),
    screen("/release/trial", trial, "release_trial", post=True),
    screen("/release/stop", stop, "release_stop", post=True),
    screen("/release/progress", progress, "release_progress"),
    screen("/release/file/{what}", file, "release_file"),
]
