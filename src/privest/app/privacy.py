"""Screen 3, privacy: one slider for ε, the errors of the estimates and the exposure of one person.

The slider changes the stored plan, whose sums over the features answer without the data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from privest.app.desk import Desk, Work
from privest.app.job import first_choice
from privest.app.pages import Errors, Form, desk_of, number_of, page, screen, see_other
from privest.data.features import INTERCEPT
from privest.errors import InvalidInput, PrivestError
from privest.privacy.exposures import band
from privest.report.describe import exposed
from privest.report.numbers import half
from privest.report.page import parts_html
from privest.report.planning import clipping_sentences, errors_expected, planned_errors
from privest.report.sections import Section, Sentence
from privest.report.slider import (
    BORDERS,
    POSITIONS,
    WORDS,
    at_epsilon,
    ends_rate,
    epsilon_for,
    epsilon_of,
    epsilon_text,
    error_curve,
    error_rows,
    first_slope,
    guess_bars,
    level_sentence,
    position_of,
    require_epsilon,
)
from privest.workflow.plan import Plan

PARTS: dict[str, tuple[str, ...]] = {  # of the exposure panel, by the beginnings of their keys
    "Best guess of one value": ("largest", "guess"),
    "Telling two values apart": ("pair", "ends", "no_range"),
    "ε in words": ("epsilon", "suspicion", "band", "unenforced"),
    "What stays visible": ("not_hidden",),
}


def privacy(
    request: Request, work: Work, form: Form, errors: Errors | None = None, said: str = ""
) -> Response:
    with work.lock:
        plan, model, of = work.plan, work.models, _of(work)
    if plan is None:
        return see_other(request, "data", work)
    _look_at_account(desk_of(request), work, plan)
    need = form.text("need", "")[:30] if said or (errors and "need" in errors) else ""
    return page(
        request, "privacy.html", work, errors=errors, step="privacy", plan=plan, model=model,
        need=need, said=said, positions=POSITIONS, **numbers_of(work, plan, of),
    )  # fmt: skip


def numbers(request: Request, work: Work, form: Form) -> Response:
    if work.plan is None:
        return see_other(request, "data", work)
    plan = _moved(request, work, form)
    told = numbers_of(work, plan, _of(work))
    return page(request, "_privacy_live.html", work, live=True, **told)


def numbers_of(work: Work, plan: Plan, of: int) -> dict[str, Any]:
    panel, epsilon, errors = exposed(plan), epsilon_of(plan), planned_errors(plan)[0]
    assert epsilon is not None  # the screens ask for a range
    word, rate, name = band(epsilon), ends_rate(panel), plan.names[of]
    text, error = epsilon_text(epsilon), half(float(errors.private[of]))
    residual = [one for one in errors_expected(plan).parts if isinstance(one, Sentence)]
    residual += clipping_sentences(plan) if plan.splits else []
    return {
        "epsilon": text, "position": round(POSITIONS * position_of(epsilon)),
        "borders": BORDERS, "words": WORDS, "word": word, "zone": WORDS.index(word),
        "note": " ".join(one.text for one in _said(panel, ("suspicion", "band"))),
        "level": level_sentence(plan).text, "of": of, "coefficients": plan.names, "name": name,
        "head": {
            "with": error, "without": "" if errors.open is None else half(float(errors.open[of])),
        },
        "ends": "Yes and no" if plan.model.family == "binomial" else "Ends of range",
        "table": error_rows(errors), "alone": errors.alone, "rate": rate,
        "guesses": list(errors.guesses), "rarest": errors.rarest,
        "residual": [one.text for one in residual if not one.key.startswith("other_")],
        "panel": _panel(panel),
        "details": Markup(parts_html(panel.details)),
        "budget": _budget(work, plan), "curve": error_curve(plan, errors, of, epsilon),
        "spoken": f"ε {text}, {word}: {name} {error}; an attacker is right in at most "
        f"{rate['said']}",
    }  # fmt: skip


def _of(work: Work) -> int:
    with work.lock:
        if work.of is None and work.plan is not None:
            work.of = first_slope(work.plan.names, INTERCEPT)
        return work.of or 0


def _said(panel: Section, beginnings: Sequence[str]) -> Iterator[Sentence]:
    for part in panel.parts:
        if isinstance(part, Sentence) and part.key.startswith(tuple(beginnings)):
            yield part


def _panel(panel: Section) -> list[dict[str, Any]]:
    """The panel in parts, each with its sentences; bars go with the first."""
    guesses = (one.values for one in _said(panel, ("guess",)) if "sds" in one.values)
    bars = [bar for values in guesses for bar in guess_bars(values)]
    found: list[dict[str, Any]] = []
    for title, keys in PARTS.items():
        if html := Markup(parts_html(_said(panel, keys))):
            dots, own = "ends" in keys, bars if "guess" in keys else []
            found.append({"title": title, "html": html, "dots": dots, "bars": own})
    return found


def _budget(work: Work, plan: Plan) -> dict[str, Any]:
    if work.account is None:
        return {"known": False, "fits": True}
    unit, limit, spent = work.account
    own = float(plan.counted(unit) or 0)
    left = limit - spent - own
    return {
        "known": True, "fits": left >= 0, "uses": percent(own / limit),
        "left": percent(max(left, 0.0) / limit),
    }  # fmt: skip


def _look_at_account(desk: Desk, work: Work, plan: Plan) -> None:
    work.account = None
    with contextlib.suppress(PrivestError):
        choice = work.choice or first_choice(desk, plan)
        found = replace(choice, limit=None, again=True).preview(desk, plan)
        if found.known and found.budget and found.spent is not None:
            work.account = found.unit, found.budget, found.spent


def percent(share: float) -> str:
    """A share of an account, in percent."""
    return f"{100 * share:.0f}%" if share >= 0.0995 or not share else f"{100 * share:.1f}%"


# --- what is decided ------------------------------------------------------------------------------


def _moved(request: Request, work: Work, form: Form) -> Plan:
    """The plan at the ε of the form, which from now on is that of the work."""
    with work.lock:
        work.require_model(form.whole("model", work.models))
        if work.plan is None:
            raise InvalidInput("there is no plan any more: begin with the columns.")
        plan, of = work.plan, form.whole("of", _of(work), most=len(work.plan.names) - 1)
        wanted = form.optional_number("epsilon", "ε", grouped=False)
        if wanted is not None and not _is_shown(plan, wanted):
            work.require_idle()
            plan = at_epsilon(plan, require_epsilon(wanted, "ε"))
        if request.state.number > work.moved:
            work.moved, work.of, work.plan = request.state.number, of, plan
        return plan


def _is_shown(plan: Plan, wanted: float) -> bool:
    """Whether that is how the ε of the plan is shown: then it was not moved, and stays exact."""
    now = epsilon_of(plan)
    if now is None or not now / 2 < wanted < 2 * now:
        return False
    return epsilon_text(now) == epsilon_text(wanted)


def privacy_done(request: Request, work: Work, form: Form) -> Response:
    if work.plan is None:
        return see_other(request, "data", work)
    then = form.choice("then", ("show", "need", "go"), "show")
    try:
        _moved(request, work, form)
    except PrivestError as error:
        return privacy(request, work, form, Errors.of(error, "epsilon"))
    if then != "need":
        return see_other(request, "release" if then == "go" else "privacy", work)
    try:
        return privacy(request, work, form, said=_found(work, form))
    except PrivestError as error:
        return privacy(request, work, form, Errors.of(error, "need"))


def _found(work: Work, form: Form) -> str:
    wanted = form.number("need", said="The error that you need")
    with work.lock:
        work.require_idle()
        plan, of = work.plan, _of(work)
        assert plan is not None
        name = plan.names[of]
        epsilon = epsilon_for(plan, wanted, name)
        text = epsilon_text(require_epsilon(epsilon, "the ε that this needs"))
        work.plan = at_epsilon(plan, number_of(text, "ε"))
    return Sentence("need_found", {"epsilon": text, "error": wanted, "name": name}).text


ROUTES = [
    screen("/privacy", privacy, "privacy"),
    screen("/privacy", privacy_done, "privacy_done", post=True),
    screen("/privacy/numbers", numbers, "privacy_numbers", post=True),
]
