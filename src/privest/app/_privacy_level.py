"""The level that is looked at on the privacy screen: what was moved, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.datastructures import QueryParams

from privest.app._pages import Form, as_typed
from privest.report._choice_pictures import curve_sketch, intervals_sketch
from privest.report._choosing import (
    POSITIONS,
    LevelScale,
    apart_meant,
    apart_text,
    choice_headlines,
    choice_table,
    choice_words,
    chosen_level,
    cost_words,
    level_text,
    takes_apart,
)
from privest.workflow import Plan
from privest.workflow._law_plan import LawPlan
from privest.workflow._replanning import at_level


@dataclass(frozen=True, eq=False)
class Chosen:
    """A level that is looked at, and the plan at it.

    moved  by what: the slider ("position"), the number ("level"), or neither.
    """

    plan: Plan
    scale: LevelScale
    level: float
    moved: str
    apart: str
    delta: str

    @property
    def meant(self) -> float | None:
        """How far apart two values are, in the units of the model."""
        return meant_by(self.plan, self.apart)


def meant_by(plan: Plan, apart: str) -> float | None:
    """The difference that was typed, in the units of the model."""
    typed = Form(QueryParams({"apart": apart})).optional_number("apart")
    return apart_meant(plan, typed) if takes_apart(plan) else None


def chosen_by(plan: Plan, form: Form, scale: LevelScale) -> Chosen:
    """The plan at the level of the form; without one as it is stored."""
    stated = plan.spec.privacy
    level, moved = _level(plan, scale, form)
    delta = stated.delta
    if "delta" in form and (not isinstance(plan, LawPlan) or plan.column.law == "gaussian"):
        delta = form.optional_number("delta")
    same = level == chosen_level(plan) and delta == stated.delta  # to the last digit
    if not same:
        plan = plan.under(replace(at_level(plan, level), delta=delta))
    apart = form.text("apart", "") if "apart" in form else apart_text(plan)
    return Chosen(plan, scale, level, moved, apart, as_typed(delta))


def _level(plan: Plan, scale: LevelScale, form: Form) -> tuple[float, str]:
    """What was moved counts: the number where it is another than was shown, then the slider.

    What is shown is rounded; what was not moved stays what it is.
    """
    typed, before = form.optional_number("level"), form.optional_number("before")
    shown = chosen_level(plan) if before is None else scale.require(before)
    if typed is not None and (before is None or not as_shown(typed, shown)):
        return scale.require(typed), "level"
    position = form.optional_number("position")
    if position is not None and round(position) != scale.position(shown):
        return scale.at(position), "position"
    return shown, ""


def as_shown(typed: float, level: float) -> bool:
    """Whether that is how the level is shown."""
    return typed == float(level_text(level))


def numbers_of(chosen: Chosen) -> dict[str, Any]:
    """What is said of a level, for the templates."""
    plan, apart = chosen.plan, chosen.meant
    said = choice_headlines(plan, apart)
    return {
        "chosen": chosen,
        "level": level_text(chosen.level),
        "before": as_typed(chosen.level),
        "position": chosen.scale.position(chosen.level),
        "positions": POSITIONS,
        "headlines": said,
        "words": choice_words(plan, apart),
        "cost": cost_words(plan),
        "table": choice_table(plan),
        "spoken": f"s = {level_text(chosen.level)}: {said[0].number}",
    }


def pictures_of(chosen: Chosen) -> list[Any]:
    """The pictures beside it."""
    return [intervals_sketch(chosen.plan), curve_sketch(chosen.plan, chosen.scale)]
