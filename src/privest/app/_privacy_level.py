"""The level that is looked at on the privacy screen: what was moved, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.datastructures import QueryParams

from privest.app._pages import Form, as_typed
from privest.report import Section, Sentence, exposed, parts_html
from privest.report.describe import errors_expected
from privest.report.sections import Chart
from privest.report.slider import (
    POSITIONS,
    LevelScale,
    apart_meant,
    apart_text,
    chosen_level,
    level_text,
    takes_apart,
)
from privest.workflow import Plan, at_level


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
    if "delta" in form and not plan.distribution.pure:
        delta = form.optional_number("delta")
    same = level == chosen_level(plan) and delta == stated.delta  # to the last digit
    if not same:
        plan = plan.under(replace(at_level(plan.privacy, level), delta=delta))
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
    panel, errors = exposed(chosen.plan, apart=chosen.meant), errors_expected(chosen.plan)
    first = next(part for part in panel.parts if isinstance(part, Sentence))
    return {
        "chosen": chosen,
        "level": level_text(chosen.level),
        "before": as_typed(chosen.level),
        "position": chosen.scale.position(chosen.level),
        "positions": POSITIONS,
        "panel": Markup(parts_html(_charts(panel, kept=False))),
        "errors": Markup(parts_html(_charts(errors, kept=False))),
        "spoken": f"s = {level_text(chosen.level)}: {first.text}",
    }


def pictures_of(chosen: Chosen) -> list[Markup]:
    """The charts beside it."""
    sections = errors_expected(chosen.plan), exposed(chosen.plan, apart=chosen.meant)
    return [Markup(parts_html(_charts(one, kept=True))) for one in sections]


def _charts(section: Section, *, kept: bool) -> Section:
    """The charts of a section, or all else."""
    parts = tuple(part for part in section.parts if isinstance(part, Chart) == kept)
    return replace(section, parts=parts, details=() if kept else section.details)
