"""Screen 3, privacy: one slider for ε, and beside it what you will learn of all and what others
learn about one person.

What is shown is what is stored: a move of the slider changes the plan at once. The plan keeps what
was counted of the features: an answer reads no data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from privest.app.desk import Desk, Work
from privest.app.job import at_epsilon, first_choice
from privest.app.pages import Errors, Form, as_typed, desk_of, page, screen, see_other
from privest.arrays import CONFIDENCE
from privest.errors import InvalidInput, PrivestError
from privest.privacy import gdp
from privest.privacy.reader import DELTA, band
from privest.report import Section, Sentence, exposed, parts_html
from privest.report.describe import Errors as PlannedErrors
from privest.report.describe import errors_expected, planned_errors
from privest.report.findings import INTERCEPT
from privest.report.numbers import BAND, down, half, most, near
from privest.report.sections import Chart, Part
from privest.workflow import Plan

BANDS = (0.1, 1.0, 3.0, 10.0, 100.0)  # borders of small, moderate, large and very large ε
WORDS = ("small", "moderate", "large", "very large")
POSITIONS = 400  # of the slider: a quarter for each band
LEAST, MOST = 0.01, 1000.0  # ε that may be typed
CUT = 6.0  # times the error without privacy: longer bars are cut
STEPS = 61  # points of the curve
PARTS = {  # of the exposure panel, by the beginnings of their keys
    "Best guess of one value": ("largest", "guess"),
    "Telling two values apart": ("pair", "ends", "no_range"),
    "ε in words": ("epsilon", "suspicion", "band", "unenforced"),
    "What stays visible": ("not_hidden",),
}


# --- the scale of the slider ----------------------------------------------------------------------


def position_of(epsilon: float) -> float:
    """Where an ε is, from 0 to 1: every band has a quarter, within which ε multiplies.

    >>> [round(position_of(x), 3) for x in (0.1, 1.0, 3.0, 10.0, 100.0, 1000.0)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """
    given = min(max(epsilon, BANDS[0]), BANDS[-1])
    for k, (low, high) in enumerate(pairwise(BANDS)):
        if given <= high:
            return (k + math.log(given / low) / math.log(high / low)) / (len(BANDS) - 1)
    return 1.0


def epsilon_at(position: float) -> float:
    """The inverse of `position_of`."""
    place = min(max(position, 0.0), 1.0) * (len(BANDS) - 1)
    k = min(int(place), len(BANDS) - 2)
    return BANDS[k] * (BANDS[k + 1] / BANDS[k]) ** (place - k)


def epsilon_of(plan: Plan) -> float:
    """ε over the whole range: as stated, or as it follows from the level."""
    stated = plan.privacy.epsilon
    if stated is not None:
        return stated
    found = plan.over_the_range(_delta(plan)).epsilon
    assert found is not None  # a range is there
    return found


def _delta(plan: Plan) -> float:
    return 0.0 if plan.distribution.pure else plan.privacy.delta or DELTA


def relative_level(plan: Plan, epsilon: float) -> float:
    """The level in units of the range, s·R², at an ε (`gdp`; pure distributions: closed forms)."""
    if plan.distribution.name == "laplace":
        return epsilon**2
    if plan.distribution.name == "randomised response":
        return 4 * math.sinh(epsilon / 2) ** 2
    return gdp.mu_of(epsilon, _delta(plan)) ** 2


def epsilon_text(epsilon: float) -> str:
    """ε to be typed again, three digits, never below it.

    >>> epsilon_text(1.0), epsilon_text(0.1234), epsilon_text(96.71)
    ('1', '0.124', '96.8')
    """
    digits = 2 - math.floor(math.log10(epsilon))
    return as_typed(math.ceil(round(epsilon * 10**digits, 6)) / 10**digits)


# --- what is shown --------------------------------------------------------------------------------


def privacy(request: Request, work: Work, form: Form) -> Response:
    """The screen at the ε that is stored."""
    return _shown(request, work)


def _shown(
    request: Request, work: Work, errors: Errors | None = None, typed: str = "", said: str = ""
) -> Response:
    with work.lock:
        plan, model, of = work.plan, work.models, _of(work)
    if plan is None:
        return see_other(request, "data", work)
    return page(
        request, "privacy.html", work, 422 if errors else 200, step="privacy", plan=plan,
        model=model, errors=errors or Errors(), need=typed, said=said, positions=POSITIONS,
        **numbers_of(desk_of(request), work, plan, of),
    )  # fmt: skip


def numbers(request: Request, work: Work, form: Form) -> Response:
    """The numbers alone, while the slider moves."""
    if work.plan is None:
        return see_other(request, "data", work)
    plan = _moved(request, work, form)
    told = numbers_of(desk_of(request), work, plan, _of(work))
    return page(request, "_privacy_live.html", work, live=True, **told)


def numbers_of(desk: Desk, work: Work, plan: Plan, of: int) -> dict[str, Any]:
    """What is said of a plan at its ε, for the templates."""
    panel, epsilon = exposed(plan), epsilon_of(plan)
    errors = planned_errors(plan)[0]
    word, rate = band(epsilon), _rate(panel)
    told = {
        "epsilon": epsilon_text(epsilon), "position": round(POSITIONS * position_of(epsilon)),
        "words": WORDS, "word": word, "zone": WORDS.index(word), "borders": BANDS,
        "note": _sentences(panel, ("suspicion", "band")),
        "level": _level(plan, epsilon), "of": of, "coefficients": plan.names, "name": plan.names[of],
        "head": _head(errors, of), "table": _rows(errors), "alone": errors.alone,
        "guesses": [near(sd) for sd in errors.guesses],
        "residual": _residual(plan), "rate": rate, "panel": _panel(panel),
        "details": Markup(parts_html(replace(panel, parts=panel.details, details=()))),
        "budget": _budget(desk, work, plan), "curve": _curve(plan, errors, of, epsilon),
        "accuracy": True,
    }  # fmt: skip
    told["spoken"] = (
        f"ε {told['epsilon']}, {word}: {plan.names[of]} {told['head']['with']}; ends of the range "
        f"told apart in at most {rate['said']}"
    )
    return told


def _of(work: Work) -> int:
    """The coefficient that the screen is about: at first one that explains something."""
    with work.lock:
        if work.of is None and work.plan is not None:
            places = (k for k, name in enumerate(work.plan.names) if name != INTERCEPT)
            work.of = next(places, 0)
        return work.of or 0


def _level(plan: Plan, epsilon: float) -> str:
    """The level relative to the range, and the noise that it means."""
    limits = plan.limits(plan.column)
    assert limits is not None
    noise = plan.distribution.variance(plan.column.level, limits, simulated=False)
    values = {"relative": plan.column.level * limits.width**2, "sd": math.sqrt(noise)}
    if plan.distribution.name == "randomised response":
        return Sentence("level_relative_answers", values).text
    if plan.model.transform == "log":
        return Sentence("level_relative_log", values | {"width": limits.width}).text
    return Sentence("level_relative", values | {"width": limits.width}).text


def _head(errors: PlannedErrors, of: int) -> dict[str, str]:
    plain = None if errors.open is None else float(errors.open[of])
    return {
        "with": half(float(errors.private[of])),
        "without": "" if plain is None else half(plain),
    }


def _rows(errors: PlannedErrors) -> list[dict[str, Any]]:
    """A row for each coefficient: half-widths of 95% intervals, and the widths of two bars."""
    found = []
    for j, name in enumerate(errors.names):
        error = float(errors.private[j])
        row: dict[str, Any] = {"name": name, "with": half(error)}
        if errors.open is not None:
            plain = float(errors.open[j])
            row |= {
                "without": half(plain), "times": near(error / plain), "cut": error > CUT * plain,
                "wide": 100 * min(1.0, error / plain / CUT), "narrow": 100 / CUT,
            }  # fmt: skip
        row["guesses"] = [half(float(one[j])) for one in errors.guesses.values()]
        found.append(row)
    return found


def _residual(plan: Plan) -> list[str]:
    """What the errors are for, in sentences."""
    parts = errors_expected(plan).parts
    return [one.text for one in parts if isinstance(one, Sentence) and one.key != "other_levels"]


def _sentences(panel: Section, beginnings: Sequence[str]) -> str:
    return " ".join(one.text for one in _said(panel, beginnings))


def _said(panel: Section, beginnings: Sequence[str]) -> Iterator[Sentence]:
    for part in panel.parts:
        if isinstance(part, Sentence) and part.key.startswith(tuple(beginnings)):
            yield part


def _panel(panel: Section) -> list[dict[str, Any]]:
    """The panel in four parts, each with its sentences; the bars go with the first."""
    charts = [part for part in panel.parts if isinstance(part, Chart)]
    found: list[dict[str, Any]] = []
    for title, keys in PARTS.items():
        parts: list[Part] = list(_said(panel, keys))
        if keys[-1] == "guess":
            parts += charts
        if parts:
            html = parts_html(replace(panel, parts=tuple(parts), details=()))
            found.append({"title": title, "html": Markup(html), "dots": keys[0] == "pair"})
    found[0]["bars"] = [] if charts else _bars(panel)
    return found


def _bars(panel: Section) -> list[dict[str, str]]:
    """The reader's sd before and after, for each residual sd that is guessed."""
    for sentence in _said(panel, ("guess_fractions", "guess_person_fractions")):
        before = sentence.values["sds"]
        after = sentence.values.get("after") or sentence.values["mean"]
        return [
            {
                "before": near(a), "after": down(b), "wide": f"{96 * a / max(before):.1f}",
                "narrow": f"{96 * b / max(before):.1f}",
            }
            for a, b in zip(before, after)
        ]  # fmt: skip
    return []


def _rate(panel: Section) -> dict[str, Any]:
    """How often an attacker is right between the two ends of the range, of 100 times."""
    chance = 1.0
    for sentence in _said(panel, ("ends",)):
        right = sentence.values["right"]
        if right.key == "right_most":
            chance = float(right.values["p"][0])
    return {"right": min(100, math.ceil(100 * chance - 1e-9)), "said": most(chance)}


def _budget(desk: Desk, work: Work, plan: Plan) -> dict[str, Any]:
    """What a release at this ε would leave of its account."""
    with work.lock:
        choice = work.choice[1] if work.choice is not None else None
    if desk.read_only:
        return {"known": False, "fits": True}
    try:
        choice = choice or first_choice(desk, plan)
        found = replace(choice, limit=None, again=True).preview(desk, plan)
    except PrivestError:
        return {"known": False, "fits": True}
    if not found.known or not found.budget or found.remaining is None:
        return {"known": False, "fits": True}
    return {
        "known": True, "fits": found.fits, "uses": percent(found.level / found.budget),
        "left": percent(max(found.remaining, 0.0) / found.budget),
    }  # fmt: skip


def percent(share: float) -> str:
    """A share of an account, without digits where it has two before the point.

    >>> percent(0.284), percent(0.0312), percent(1.0)
    ('28%', '3.1%', '100%')
    """
    return f"{100 * share:.0f}%" if share >= 0.0995 or not share else f"{100 * share:.1f}%"


# --- the curve ------------------------------------------------------------------------------------


def _curve(plan: Plan, errors: PlannedErrors, of: int, epsilon: float) -> dict[str, Any]:
    """95% errors of one coefficient against ε, on the scale of the slider."""
    column, now = plan.column, relative_level(plan, min(max(epsilon, LEAST), MOST))
    xs = np.linspace(0.0, 1.0, STEPS)
    levels = [column.level * relative_level(plan, epsilon_at(x)) / now for x in xs.tolist()]
    alone = errors.alone
    ys = np.array([_error(plan, level, of, alone=alone) for level in levels])
    plain = None if errors.open is None else float(errors.open[of])
    top, bottom = float(ys.max()) * 1.15, (float(ys.min()) if plain is None else plain) * 0.72

    def y(error: float) -> float:
        return 24 + 190 * math.log(top / max(error, bottom)) / math.log(top / bottom)

    def clear_of(place: float) -> bool:
        """Whether a label there is free of the axis and of the line without privacy."""
        return place < 196 and (plain is None or abs(place - y(plain)) > 40)

    here = float(errors.private[of])
    place = 100 * position_of(epsilon)
    return {
        "points": " ".join(f"{100 * x:.2f},{y(e):.1f}" for x, e in zip(xs.tolist(), ys.tolist())),
        "x": f"{place:.2f}", "y": f"{y(here):.1f}", "here": half(here),
        "after": place < 60, "plain": None if plain is None else (f"{y(plain):.1f}", half(plain)),
        "ticks": [(f"{y(tick / BAND):.1f}", f"± {near(tick)}")
                  for tick in _ticks(BAND * bottom, BAND * top / 2.5) if clear_of(y(tick / BAND))],
        "axis": [(f"{100 * position_of(x):g}", as_typed(x)) for x in BANDS],
        "ends": (half(float(ys[0])), half(float(ys[-1]))),
    }  # fmt: skip


def _error(plan: Plan, level: float, of: int, *, alone: bool) -> float:
    found = plan.errors(plan.column, level)
    return float((found.privacy if alone else found.total)[of])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two, at most four."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [d * 10.0**p for p in range(first, last + 1) for d in (1, 2, 5)]
    inside = [tick for tick in every if low <= tick <= high]
    return inside[:: max(1, math.ceil(len(inside) / 4))]


# --- what is decided ------------------------------------------------------------------------------


def _moved(request: Request, work: Work, form: Form) -> Plan:
    """The plan at the ε of the form, which from now on is that of the work."""
    with work.lock:
        work.require_model(form.whole("model", work.models))
        if work.plan is None:
            raise InvalidInput("there is no plan any more: begin with the columns.")
        plan, of = work.plan, form.whole("of", _of(work), most=len(work.plan.names) - 1)
        wanted = form.optional_number("epsilon", "ε")
        if wanted is not None and epsilon_text(epsilon_of(plan)) != as_typed(wanted):
            if not LEAST <= wanted <= MOST:
                raise InvalidInput(f"ε must be between {LEAST:g} and {as_typed(MOST)}.")
            work.require_idle()
            plan = at_epsilon(plan, wanted)
        if request.state.number > work.moved:
            work.moved, work.of = request.state.number, of
            work.spec, work.plan = plan.spec, plan
        return plan


def privacy_done(request: Request, work: Work, form: Form) -> Response:
    """Look at an ε, find the one for an accuracy, or go on with it."""
    if work.plan is None:
        return see_other(request, "data", work)
    then = form.choice("then", ("show", "need", "go"), "show")
    try:
        _moved(request, work, form)
    except PrivestError as error:
        return _shown(request, work, Errors({"epsilon": str(error)}))
    if then != "need":
        return see_other(request, "release" if then == "go" else "privacy", work)
    try:
        return _shown(request, work, typed=form.text("need", ""), said=_found(work, form))
    except PrivestError as error:
        return _shown(request, work, Errors({"need": str(error)}), form.text("need", "")[:30])


def _found(work: Work, form: Form) -> str:
    """Take the smallest ε that gives the error that is needed; what is said of it."""
    wanted = form.number("need", said="The error that you need")
    with work.lock:
        work.require_idle()
        plan, of = work.plan, _of(work)
        assert plan is not None
        name = plan.names[of]
        level = plan.level_for(wanted, name, CONFIDENCE, alone=planned_errors(plan)[0].alone)
        epsilon = epsilon_of(plan.at(level))
        if epsilon > MOST:
            raise InvalidInput(f"that needs an ε above {as_typed(MOST)}.")
        text = epsilon_text(max(epsilon, LEAST))
        work.plan = at_epsilon(plan, float(text.replace(",", "")))
        work.spec = work.plan.spec
    return Sentence(
        "need_found", {"epsilon": text, "error": wanted, "name": name}
    ).text


ROUTES = [
    screen("/privacy", privacy, "privacy"),
    screen("/privacy", privacy_done, "privacy_done", post=True),
    screen("/privacy/numbers", numbers, "privacy_numbers", post=True),
]
