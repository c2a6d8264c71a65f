"""Screen 2, privacy: one slider, and beside it what others will know of one person and what you
will know of all; accuracy first; what if a group says no.

What is shown is what is stored: a move of the slider changes the plan at once. The plan keeps what
was counted of the features: an answer reads no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from privest.app._desk import Work
from privest.app._pages import Form, page, place, screen, see_other
from privest.app._privacy_level import Chosen, chosen_by, meant_by, numbers_of, pictures_of
from privest.app._uploads import changed
from privest.app._withdrawal_words import withdrawal_words
from privest.arrays import CONFIDENCE
from privest.errors import InvalidInput, PrivestError
from privest.report.findings import INTERCEPT
from privest.report.slider import (
    LevelScale,
    apart_text,
    level_scale,
    level_text,
    takes_apart,
)
from privest.workflow import Plan, Spec, withdrawn

KEPT = "privacy"  # under which this screen keeps what it was asked
ASKED = ("apart", "half", "of")  # what is no part of the plan


@dataclass
class Kept:
    """What was asked besides the level, for one model of one table.

    model     which, as the work counts them.
    scale     of the slider: it stays while the level moves.
    asked     what was typed besides the level.
    request   the last one that moved the level: one that comes late changes nothing.
    said      what if a group says no, in words, at the level and all else of `said_of`.
    """

    model: int
    scale: LevelScale
    asked: dict[str, str]
    request: int = 0
    said: list[str] = field(default_factory=list)
    said_of: Spec | None = None
    ticked: frozenset[str] = frozenset()


def _planned(work: Work, form: Form) -> tuple[Plan, int]:
    """The plan that a form is about, and which model that is."""
    with work.lock:
        work.require_model(form.whole("model", work.models))
        if work.plan is None:
            raise InvalidInput("there is no plan any more: begin with the data.")
        return work.plan, work.models


# --- pages ----------------------------------------------------------------------------------------


def privacy(request: Request, work: Work, form: Form) -> Response:
    """The screen at the level that is stored."""
    return _shown(request, work)


def _shown(
    request: Request, work: Work, message: str | None = None, typed: Mapping[str, str] | None = None
) -> Response:
    """The screen; with a message, what was typed besides the level is still there."""
    with work.lock:
        plan, model = work.plan, work.models
        if plan is None:
            return see_other(request, "data", work)
        kept = replace(_kept(work))
    chosen = chosen_by(plan, Form(QueryParams({"apart": kept.asked["apart"]})), kept.scale)
    return page(
        request, "privacy.html", work, 422 if message else 200,
        message=message, step="privacy", plan=plan, model=model, pictures=pictures_of(chosen),
        takes_apart=takes_apart(plan), factor=plan.model.transform == "log",
        takes_delta=_takes_delta(plan), alone=_alone(plan), accuracy=len(plan.columns) == 1,
        typed=kept.asked | dict(typed or {}), groups=dict(plan.model.categories),
        ticked=kept.ticked, said=kept.said if kept.said_of == plan.spec else [],
        **numbers_of(chosen),
    )  # fmt: skip


def _takes_delta(plan: Plan) -> bool:
    """Whether ε has a δ here, and something that limits how far a reading moves."""
    return not plan.distribution.pure and plan.record is not None


def _alone(plan: Plan) -> bool:
    """Whether an accuracy can only be that of what privacy adds."""
    known = plan.columns[0].residual_variance is not None or plan.model.family != "gaussian"
    return len(plan.columns) == 1 and not known


def privacy_numbers(request: Request, work: Work, form: Form) -> Response:
    """The numbers alone, while the slider moves."""
    if work.plan is None:
        return see_other(request, "data", work)
    return page(request, "_privacy_live.html", work, **numbers_of(_moved(request, work, form)))


def privacy_pictures(request: Request, work: Work, form: Form) -> Response:
    """The pictures alone; nothing new where the numbers say what is wrong."""
    if work.plan is None:
        return see_other(request, "data", work)
    try:
        plan, _ = _planned(work, form)
        with work.lock:
            scale = _kept(work).scale
        pictures = pictures_of(chosen_by(plan, form, scale))
    except PrivestError:
        return Response(status_code=204)
    return page(request, "_privacy_pictures.html", work, pictures=pictures)


# --- what is decided ------------------------------------------------------------------------------


def _moved(request: Request, work: Work, form: Form) -> Chosen:
    """The level of the form, which is from now on that of the plan."""
    with work.lock:
        plan, _ = _planned(work, form)
        kept = _kept(work)
        chosen = chosen_by(plan, form, kept.scale)
        _ = chosen.meant  # refused where it is none
        if chosen.plan is not plan:
            work.require_idle()
        if request.state.number > kept.request:
            kept.request = request.state.number
            kept.asked |= {name: form.text(name, "") for name in ASKED if name in form}
            work.spec, work.plan = chosen.plan.spec, chosen.plan
        return chosen


def privacy_done(request: Request, work: Work, form: Form) -> Response:
    """Look at a level, find the one for an accuracy, or go on with it."""
    if work.plan is None:
        return see_other(request, "data", work)
    try:
        then = form.choice("then", ("show", "accuracy", "take"), "show")
        if then == "accuracy":
            plan, model = _planned(work, form)
            half, of = form.number("half"), _coefficient(plan, form)
            level = plan.level_for(half, of, CONFIDENCE, alone=_alone(plan))
            given = {name: form.text(name, "") for name in (*ASKED, "delta") if name in form}
            form = Form(QueryParams(given | {"level": level_text(level), "model": str(model)}))
        _moved(request, work, form)
    except PrivestError as error:
        return _shown(request, work, str(error), _typed(form))
    return see_other(request, "release" if then == "take" else "privacy", work)


def _typed(form: Form) -> dict[str, str]:
    return {name: form.text(name, "") for name in ("half", "of") if name in form}


def _kept(work: Work) -> Kept:
    """What was asked of this model; of another it is forgotten. Within the lock of the work."""
    found = work.more.get(KEPT)
    if not isinstance(found, Kept) or found.model != work.models:
        assert work.plan is not None
        asked = {"apart": apart_text(work.plan), "half": "", "of": _first_of(work.plan)}
        found = work.more[KEPT] = Kept(work.models, level_scale(work.plan), asked)
    return found


def apart_of(work: Work, plan: Plan) -> float | None:
    """How far apart the two values are of which this screen speaks."""
    with work.lock:
        typed = _kept(work).asked["apart"] if work.plan is plan else apart_text(plan)
    return meant_by(plan, typed)


def _coefficient(plan: Plan, form: Form) -> str:
    """Chosen by its place: a name may hold what no form brings back."""
    return plan.names[form.whole("of", 0, most=len(plan.names) - 1)]


def _first_of(plan: Plan) -> str:
    """The place of the coefficient that is asked for first: one that explains something."""
    places = (k for k, name in enumerate(plan.names) if name != INTERCEPT)
    return str(next(places, 0))


def _table(work: Work) -> str:
    if work.table is None:
        raise InvalidInput("the table was put away: choose it again on the data screen.")
    said = changed(work)
    if said is not None:
        raise InvalidInput(f"{said} Begin with the data screen.")
    return work.table.data


def privacy_without(request: Request, work: Work, form: Form) -> Response:
    """What if groups say no?"""
    if work.plan is None:
        return see_other(request, "data", work)
    ticked = frozenset(form.listed("no"))
    try:
        plan, model = _planned(work, form)
        column, groups = _ticked(plan.spec, ticked)
        said = withdrawal_words(withdrawn(plan, column, groups, _table(work)), plan)
        with work.lock:  # it took a while: another tab may have changed the model, or the table
            work.require_model(model)
            kept = _kept(work)
            kept.said, kept.said_of, kept.ticked = said, plan.spec, ticked
    except PrivestError as error:
        return _shown(request, work, str(error))
    return RedirectResponse(f"{place(request, 'privacy', id=work.id)}#no", 303)


def _ticked(spec: Spec, ticked: frozenset[str]) -> tuple[str, list[str]]:
    """Boxes are named by the places of column and group in the public lists."""
    found: dict[str, list[str]] = {}
    for i, (column, groups) in enumerate(spec.model.categories.items()):
        for j, group in enumerate(groups):
            if f"{i}-{j}" in ticked:
                found.setdefault(column, []).append(group)
    if len(found) != 1:
        raise InvalidInput(
            "tick the groups that say no, of one column."
            if not found
            else f"tick groups of one column at a time: {' or '.join(found)}."
        )
    return next(iter(found.items()))


ROUTES = [
    screen("/privacy", privacy, "privacy"),
    screen("/privacy", privacy_done, "privacy_done", post=True),
    screen("/privacy/numbers", privacy_numbers, "privacy_numbers", post=True),
    screen("/privacy/pictures", privacy_pictures, "privacy_pictures"),
    screen("/privacy/without", privacy_without, "privacy_without", post=True),
]
