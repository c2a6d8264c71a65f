"""What if a group says no? Which coefficients are then hidden, and whose readings would be needed.

Levels of 0 for the rows of these groups: what the others show is all there is (`thm:identifiable`).
Only public columns are read, all of their rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.bounds import bound, identifiability
from privest.bounds._classical import Identifiability
from privest.data import meant
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record
from privest.workflow._column import UNIT
from privest.workflow._held_rows import group_name, held_rows
from privest.workflow._planning import Plan
from privest.workflow._row_levels import plain_rows

SEEN = 1e-8  # of a direction of length 1: a smaller part is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Withdrawal(Record):
    """What groups of a public column take with them when nothing of their readings is shown.

    column, groups   who says no: `rows` of them; `left` rows stay.
    hidden           coefficients that nothing of the others shows.
    needed           groups of a smallest set of readings that would show them all, in any measure;
                     `helpful`: all groups that see something of what is hidden.
    standard_error   (n,) with the others at the plan's level; None where something is hidden, or
                     errors are not known before the release.
    """

    column: str
    groups: tuple[str, ...]
    rows: int
    left: int
    hidden: tuple[str, ...]
    needed: tuple[str, ...]
    helpful: tuple[str, ...]
    standard_error: Array | None


def withdrawn(plan: Plan, column: str, groups: Sequence[str], data: object = None) -> Withdrawal:
    """The plan if these groups of a public column say no; `data` as in `make_plan`."""
    rows = held_rows(plan.spec, data, column)
    assert rows.groups is not None
    names = list(rows.labels)
    out = np.isin(rows.groups, [_place(names, group_name(one), column) for one in groups])
    if not out.any():
        raise InvalidInput("choose at least one group that says no.")
    levels = np.where(out, 0.0, plan.columns[0].level)
    model = LinearModel(rows.H, plan.columns[0].noise_variance or 1.0, names=plan.names)
    verdict = identifiability(model, PrivacyLevel(levels))

    def of(readings: Sequence[int]) -> tuple[str, ...]:
        assert rows.groups is not None
        return tuple(names[g] for g in np.unique(rows.groups[list(readings)]).tolist())

    return Withdrawal(
        column=column,
        groups=tuple(names[g] for g in np.unique(rows.groups[out]).tolist()),
        rows=int(out.sum()),
        left=int((~out).sum()),
        hidden=_hidden(verdict),
        needed=of(verdict.readings_to_reveal),
        helpful=of(verdict.helpful_readings.tolist()),
        standard_error=_errors(plan, model, levels, verdict),
    )


def _place(names: list[str], name: str, column: str) -> int:
    if name not in names:
        raise InvalidInput(f"{column!r} has no group {name!r} here.{meant(name, names)}")
    return names.index(name)


def _hidden(verdict: Identifiability) -> tuple[str, ...]:
    """Coefficients that take part in a hidden direction: they cannot be told on their own."""
    parts = np.abs(verdict.hidden_directions).max(axis=1, initial=0.0)
    return tuple(name for name, part in zip(verdict.names, parts) if part > SEEN)


def _errors(
    plan: Plan, model: LinearModel, levels: Array, verdict: Identifiability
) -> Array | None:
    """Of rows that count alike; others have them from a plan without the groups."""
    if not (plain_rows(plan.spec) and plan.noise_variance is not None and verdict.identifiable):
        return None
    return bound(model, PrivacyLevel(levels / UNIT)).standard_error
