"""A stream as it goes, for a page: what has left, what it shows, what it costs one reading."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import CONFIDENCE
from privest.errors import InvalidInput
from privest.estimator._stream_conclusion import StreamConclusion
from privest.privacy import EndlessLevel
from privest.report import (
    Exposed,
    Note,
    Section,
    TableBlock,
    Trail,
    at_least,
    exposure,
    level_words,
    released_picture,
    rounded,
    short,
    trail_picture,
)
from privest.report._page import Part
from privest.streaming._replay import ReplayState
from privest.streaming._replay_plan import ReplayPlan
from privest.streaming._words import mean_known

FAR = 4.0  # deviations of the noise: beyond it two values are told apart
LISTED = 8  # releases in a table
MOST_PANELS = 4  # a picture within 300 ms
NOTHING = 1e-9  # of a budget: less is rounding


def live_sections(plan: ReplayPlan, state: ReplayState, trail: Trail) -> list[Section]:
    """What a page shows of a replay: all of it comes from releases."""
    return [
        Section("What others see", _released(plan, state)),
        Section("What the releases show", _estimated(state, trail)),
        Section("What it costs one reading", _spent(plan, state)),
    ]


# --- what has left ------------------------------------------------------------------------------


def _released(plan: ReplayPlan, state: ReplayState) -> tuple[Part, ...]:
    if not state.last:
        return ("Nothing has been released yet.",)
    numbers = np.array([one.number + 1 for one in state.last])
    values = np.array([one.value for one in state.last])
    timed = any(one.time for one in state.last)
    rows = [
        (f"{one.number + 1:,}", *((one.time,) if timed else ()), _seen(one.value, state.noise))
        for one in reversed(state.last[-LISTED:])
    ]
    header = ("reading", *(("time",) if timed else ()), f"{plan.target}, with noise")
    table = TableBlock(header, rows, f"The last releases; the noise is ± {short(state.noise)}.")
    return (released_picture(numbers, values, state.noise, plan.target), table)


def _seen(value: float, noise: float) -> str:
    return "nothing: it is missing" if math.isnan(value) else rounded(value, noise)


# --- what they show -----------------------------------------------------------------------------


def _estimated(state: ReplayState, trail: Trail) -> tuple[Part, ...]:
    found = state.found
    if found is None:
        hidden = ", ".join(state.hidden) or "anything"
        return (f"The releases so far do not show {hidden} yet: more readings are needed.",)
    parts: list[Part] = [_table(found)]
    if len(trail.points) > 1:
        parts.append(trail_picture(trail, state.names, MOST_PANELS))
    parts += [Note(sentence, "warning") for sentence in found.warnings]
    return tuple(parts)


def _table(found: StreamConclusion) -> TableBlock:
    """Estimates with their intervals, in the digits that these leave."""
    rows: list[tuple[str, ...]] = []
    for name, value, (low, high) in zip(found.names, found.estimate, found.interval()):
        half = (high - low) / 2
        ends = "none yet" if math.isnan(half) else f"{rounded(low, half)} … {rounded(high, half)}"
        rows.append((name, rounded(value, half) if half > 0 else short(value), ends))
    title = "Estimates from the releases alone"
    if found.by_blocks is not None:
        title += f"; intervals {found.by_blocks.method}"
    return TableBlock(
        ("coefficient", "estimate", f"{100 * CONFIDENCE:g} % interval"), rows, f"{title}."
    )


# --- what that costs ----------------------------------------------------------------------------


def _spent(plan: ReplayPlan, state: ReplayState) -> tuple[Part, ...]:
    level = plan.promise.level
    shown = float(np.max(level.final_blocks().diagonal()))
    return (
        f"Every reading is released once, at {level_words(shown)}. That is all that is ever "
        "shown of it, however long the stream runs.",
        *_account(plan, state),
        *exposed(plan),
    )


def _account(plan: ReplayPlan, state: ReplayState) -> list[Part]:
    """What the ledger says of the account."""
    if state.spent is None:
        return []
    left = 0.0 if state.left is None else state.left
    rows: list[tuple[str, ...]] = [
        ("Account", str(plan.account.subject)),
        ("Spent of one reading", _level(state.spent)),
        ("Its budget", "none stated" if state.budget is None else _level(state.budget)),
    ]
    if state.budget is not None:
        none = left <= NOTHING * state.budget
        rows.append(("Left", "nothing" if none else _level(left)))
    return [TableBlock(("ledger", ""), rows, "What the ledger holds, on disk.", facts=True)]


def _level(value: float) -> str:
    return f"privacy level {short(value)}"


def exposed(plan: ReplayPlan) -> list[str]:
    """What one reading, and a day of them, is exposed to, in sentences."""
    level = plan.promise.level
    if level.reach:
        raise InvalidInput("a replay shows every reading once.")
    variance, one = plan.noise_variance, float(np.max(level.final_blocks().diagonal()))
    move = plan.promise.move
    said = exposure(
        Exposed(
            level=one,
            spread=None if variance is None else math.sqrt(variance),
            # Values that are further apart are told from each other anyway.
            apart=move if move is not None and move * math.sqrt(one) < FAR else None,
        )
    )
    return [*said, *_day(level), *_epsilon(plan)]


def _day(level: EndlessLevel) -> list[str]:
    """Several readings tell more of their mean than one does of itself."""
    mean = mean_known(level)
    if mean is None:
        return []
    said = f"The mean of {mean.readings} readings in a row is known to ± {at_least(mean.error)}"
    if level.block > 1:
        return [f"{said}, as one reading is: they share a noise."]
    return [f"{said}. A noise that the readings of a day share would hide it as one is hidden."]


def _epsilon(plan: ReplayPlan) -> list[str]:
    """ε as a consequence, where δ and a move (or a range) are stated."""
    promise = plan.promise
    if promise.said is not None:
        held = " That it does not differ by more is a condition; a range would enforce it."
        return [
            f"As differential privacy, all releases together, where {promise.said.about}: "
            f"ε = {promise.said.epsilon:.4g} at δ = {promise.said.delta:g}."
            f"{held if promise.said.conditions else ''}"
        ]
    return []
