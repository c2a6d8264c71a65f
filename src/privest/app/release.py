"""Screen 4, release: dry run, what leaves, what it costs, a confirmation.

Nothing begins without a tick and a ticket that is good for one release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from privest.app.desk import Desk, Work
from privest.app.job import Choice, as_name, begin, begin_dry_run, first_choice, new_ticket
from privest.app.pages import (
    Errors,
    Form,
    as_typed,
    desk_of,
    from_htmx,
    page,
    place,
    screen,
    see_other,
)
from privest.app.privacy import percent
from privest.errors import InvalidInput, PrivestError
from privest.ledger import Ledger, as_subject
from privest.report.describe import describe
from privest.report.numbers import down, near
from privest.report.page import parts_html
from privest.report.sections import Part, Sentence, Table
from privest.report.slider import epsilon_of, epsilon_of_amount, epsilon_text, require_epsilon
from privest.workflow.account import Spending
from privest.workflow.plan import Plan

OTHER_PLAN = (
    "The plan was changed after this page was shown, perhaps in another tab. Look at what it is "
    "now, and confirm again. Nothing was released."
)
RELEASED_BEFORE = (
    "These values were released before: use that release. If once more is meant, which reveals "
    "more of them, tick the box that says so. Nothing was released."
)
TOO_MUCH = (
    "This release is more than is left of the account. Choose a smaller ε. Nothing was released."
)
NOT_SURE = "Tick this if you are sure: a release cannot be taken back. Nothing was released."
FIELDS = ("name", "subject", "limit", "again")


def show(request: Request, work: Work, form: Form, errors: Errors | None = None) -> Response:
    desk, plan, job = desk_of(request), work.plan, work.job
    if plan is None or work.table is None:
        return see_other(request, "data", work)
    mine = job is not None and job.plan.spec == plan.spec
    running = job is not None and job.running
    typed = {name: form.text(name, "")[:200] for name in FIELDS} if errors else {}
    told: dict[str, Any] = {
        "step": "release", "plan": plan, "job": job, "mine": mine,
        "running": running,  # asked once: a job may end while its page is made
        "trouble": job.trouble if job is not None and mine and not errors else None,
        "earlier_works": desk.still_there(work.earlier),
        "leaves": _leaves(plan), "stays": _stays(work, plan),
        "epsilon": _epsilon_text(plan), "target": plan.column.target,
        "dry": _dry_run(work), "ticket": None, "cost": None, "typed": typed,
        "choosing": Sentence("dry_run_choice").text, "is_dry": Sentence("dry_run").text,
        "order": Sentence("cost_order").text,
    }  # fmt: skip
    if not running:
        told |= _confirmation(desk, work, plan, typed)
    return page(request, "release.html", work, errors=errors, **told)


def _confirmation(desk: Desk, work: Work, plan: Plan, typed: dict[str, str]) -> dict[str, Any]:
    choice = work.choice or first_choice(desk, plan)
    usual = {
        "name": choice.name, "subject": choice.subject, "limit": as_typed(choice.limit),
        "again": "yes" if choice.again else "",
    }  # fmt: skip
    return {
        "cost": _cost(desk, plan, choice), "ticket": new_ticket(work, plan),
        "typed": typed or usual, "accounts": _accounts(desk),
    }  # fmt: skip


def _leaves(plan: Plan) -> list[str]:
    if plan.splits:
        said = [Sentence("leaves_sums", {"coefficients": len(plan.names)})]
        matrix = [Sentence("leaves_matrix")] if plan.privacy.publish != "estimates" else []
        return [one.text for one in (*said, *matrix, Sentence("leaves_facts"))]
    said = [Sentence("leaves_rows", {"rows": plan.rows, "target": plan.column.target})]
    columns = [*plan.model.features, *filter(None, (plan.model.weights, plan.model.person))]
    if columns:
        said.append(Sentence("leaves_public", {"names": columns}))
    said.append(Sentence("leaves_facts" if not plan.distribution.pure else "leaves_facts_pure"))
    if plan.model.missing == "drop":
        said.append(Sentence("missing_public"))
    return [one.text for one in said]


def _stays(work: Work, plan: Plan) -> list[str]:
    target = {"target": plan.column.target}
    said = [Sentence("stays_values", target), Sentence("stays_noise")]
    if plan.splits:
        said = [Sentence("stays_rows", target), Sentence("stays_sums")]
    used = {*plan.model.features, *plan.spec.targets, plan.model.weights, plan.model.person}
    if work.look is not None and any(one.name not in used for one in work.look.columns):
        said.insert(1, Sentence("stays_columns"))
    return [one.text for one in said]


def _dry_run(work: Work) -> Markup | None:
    """The findings of a dry run, for the data owner's eyes only."""
    job = work.job
    if job is None or not job.dry or job.found is None:
        return None
    section = describe(job.found)[0]
    parts: list[Part] = [
        replace(one, caption=None) for one in section.parts if isinstance(one, Table)
    ]
    parts += [one for one in section.parts if isinstance(one, Sentence) and one.warning]
    return Markup(parts_html(parts))


# --- the account ----------------------------------------------------------------------------------


def _accounts(desk: Desk) -> list[str]:
    if not desk.ledger.exists():
        return []
    try:
        with Ledger(desk.ledger) as ledger:
            return ledger.subjects()
    except PrivestError:
        return []


def _cost(desk: Desk, plan: Plan, choice: Choice) -> dict[str, Any]:
    spent = choice.preview(desk, plan)
    told: dict[str, Any] = {
        "subject": choice.subject, "known": spent.known, "unfinished": spent.unfinished,
        "refusal": _refusal(spent, again=False), "epsilon": _epsilon_text(plan),
        "earlier": [f"{one.time[:16].replace('T', ' ')} UTC" for one in spent.earlier],
        "again": choice.again, "share": None, "facts": {}, "said": [],
    }  # fmt: skip
    if not spent.budget:
        return told
    before = 0.0 if spent.spent is None else spent.spent / spent.budget
    share = 0.0 if spent.unfinished else spent.level / spent.budget
    left = max(1 - before - share, 0.0)
    told |= {
        "share": percent(share), "left": percent(left), "fits": spent.fits,
        "bars": (f"{100 * before:.2f}", f"{100 * min(share, 1 - before):.2f}"),
        "before": percent(before),
    }  # fmt: skip
    told["facts"] = {
        "Limit, all releases together": _epsilon(plan, spent.budget, spent.unit),
        "Spent before": _epsilon(plan, spent.spent, spent.unit),
        "This release": f"ε = {told['epsilon']}",
        "Still possible afterwards": _epsilon(plan, spent.remaining, spent.unit, down),
    }
    times = int(Fraction(spent.remaining or 0.0) / Fraction(spent.level))
    if share > 0 and times > 0:
        told["said"].append(Sentence("cost_more", {"times": times}).text)
    return told


def _epsilon_text(plan: Plan) -> str:
    found = epsilon_of(plan)
    assert found is not None  # the screens ask for a range
    return epsilon_text(found)


def _epsilon(
    plan: Plan, amount: float | None, unit: str, rounded: Callable[[float], str] = near
) -> str:
    """An amount of the account as ε of one release of these values."""
    if not amount or amount < 0:
        return "none"
    try:
        return f"ε = {rounded(epsilon_of_amount(plan, amount, unit) or 0.0)}"
    except PrivestError:  # so small that it has no ε
        return "almost none"


def _refusal(spent: Spending, *, again: bool) -> str | None:
    """Why the release would be refused now, in the words of this screen."""
    if spent.refusal is None or spent.unfinished:
        return None
    if not spent.fits:
        return TOO_MUCH
    if spent.refusal_again is not None:
        return spent.refusal_again
    return RELEASED_BEFORE if again or not spent.earlier else None


def _as_choice(desk: Desk, plan: Plan, form: Form) -> Choice:
    """The typed choices, all checked at once; an account that is known keeps its limit."""
    usual, errors = first_choice(desk, plan), Errors()
    choice = replace(usual, again=form.flag("again"))
    with errors.at("name"):
        choice = replace(choice, name=as_name(form.text("name", usual.name), plan.spec))
    with errors.at("subject"):
        choice = replace(choice, subject=as_subject(form.text("subject", usual.subject)))
    with errors.at("limit"):
        limit = form.optional_number("limit", "The limit of the account", grouped=False)
        if limit is not None:
            require_epsilon(limit, "the limit, an ε,")
            if limit < (epsilon_of(plan) or 0.0) * (1 - 1e-9):
                raise InvalidInput("the limit must be at least the ε of this release.")
        choice = replace(choice, limit=limit)
    errors.require_none()
    bare = replace(choice, limit=None)
    return bare if bare.preview(desk, plan).known else choice


def look(request: Request, work: Work, form: Form) -> Response:
    desk, plan = desk_of(request), _plan_of(request, work)
    try:
        choice = _as_choice(desk, plan, form)
    except PrivestError as error:
        return _again(request, work, form, error)
    with work.lock:
        if work.plan is plan:  # an account of another table is none of this one
            work.choice = choice
    if from_htmx(request):
        cost, order = _cost(desk, plan, choice), Sentence("cost_order").text
        return page(request, "_release_cost.html", work, cost=cost, order=order, trouble=None)
    return see_other(request, "release", work)


def _again(request: Request, work: Work, form: Form, error: PrivestError) -> Response:
    errors = Errors.of(error, "sure")
    if from_htmx(request):
        return page(request, "_errors.html", work, errors=errors)
    return show(request, work, form, errors)


def _plan_of(request: Request, work: Work) -> Plan:
    if work.plan is None or work.table is None:
        raise InvalidInput("there is no plan yet: begin with the columns.")
    return work.plan


# --- what is done ---------------------------------------------------------------------------------


def make(request: Request, work: Work, form: Form) -> Response:
    desk = desk_of(request)
    with work.lock:
        plan = _plan_of(request, work)
        if work.job is not None and work.job.running:
            return see_other(request, "release", work)
        shown = work.tickets.pop(form.text("ticket", ""), None)
        if shown is None:  # sent twice: the first one has done it
            return see_other(request, "release", work)
        try:
            if shown is not plan:
                raise InvalidInput(OTHER_PLAN)
            choice = _as_choice(desk, plan, form)
            work.choice = choice
            if not form.flag("sure"):
                raise InvalidInput(NOT_SURE)
            spent = choice.preview(desk, plan)
            refusal = None if spent.unfinished else _refusal(spent, again=True)
            if refusal is not None:
                raise InvalidInput(refusal)
        except PrivestError as error:
            return _again(request, work, form, error)
        begin(desk, work, plan, choice)
    return see_other(request, "release", work)


def dry_run(request: Request, work: Work, form: Form) -> Response:
    with work.lock:
        plan = _plan_of(request, work)
        if work.job is not None and work.job.running:
            return see_other(request, "release", work)
        begin_dry_run(desk_of(request), work, plan)
    return see_other(request, "release", work)


def progress(request: Request, work: Work, form: Form) -> Response:
    """How far it is, for a page that asks every second; then on to the results."""
    if not from_htmx(request):
        return see_other(request, "release", work)
    job = work.job
    if job is not None and job.running:
        return page(request, "_release_progress.html", work, job=job)
    if job is not None and not job.dry and job.trouble is None:
        return Response(headers={"HX-Redirect": place(request, "results", id=work.id)})
    return Response(headers={"HX-Refresh": "true"})


ROUTES = [
    screen("/release", show, "release"),
    screen("/release/look", look, "release_look", post=True),
    screen("/release/make", make, "release_make", post=True),
    screen("/release/dry", dry_run, "release_dry", post=True),
    screen("/release/progress", progress, "release_progress"),
]
