"""Whether a release reads the table that its plan was made for.

A plan gives the rows of a table their levels by their numbers in it: in a table that was sorted
since, rows would leave at the levels of others. So the release compares the public columns of every
row with those that the levels were made for. Of a plan with one level for all rows the promise does
not depend on it, but what was shown and confirmed does: a file that was changed is refused.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import AnyArray, Index
from privest.data import Source, open_source
from privest.data._cells import Texts
from privest.data._rows import Block
from privest.data._source import Stamp, stamp_of
from privest.errors import InvalidInput
from privest.workflow._planning import Plan
from privest.workflow._planning_levels import AllocatedPlan
from privest.workflow._terms import Terms, require_target

SAME = 1e-12  # of a feature: logarithms and powers may be rounded otherwise in other blocks
CHANGED = "was changed since the plan was made: make the plan again."


def table_of(plan: Terms, data: object) -> Source:
    """The table of a release, open; None: that of the plan. Refused where its file was changed."""
    source = open_source(plan.spec.data if data is None else data, plan.spec.reading)
    _require_unchanged(plan, source.stamp, own=data is None)
    require_target(plan.spec, source)
    return source


def require_same_table(plan: Terms, data: object) -> None:
    """Refuse a file that was changed since the plan was made for it; it is not opened."""
    _require_unchanged(plan, stamp_of(data), own=False)


def _require_unchanged(plan: Terms, now: Stamp | None, *, own: bool) -> None:
    """own: the table is that of the plan, wherever it lies now. Another one may be released too."""
    before = plan._stamp if isinstance(plan, Plan) else None
    if before is None or now is None or now == before:
        return
    if own or now.path == before.path:
        raise InvalidInput(f"{plan.spec.data} {CHANGED}")


def levels_of(plan: Terms, block: Block) -> AnyArray:
    """The levels of the rows of a block; refused where these are others than those of the plan."""
    levels = plan.row_levels(block.line)
    assert isinstance(plan, AllocatedPlan)
    at = np.searchsorted(plan._lines, block.line)
    same = np.isclose(block.H, plan._rows[at], rtol=SAME, atol=0.0).all()
    column = plan.spec.privacy.groups
    if same and column is not None and plan._groups is not None:
        numbers = _numbers(block.beside[column], plan._labels)
        same = (numbers == plan._groups[at]).all()
    if not same:
        raise InvalidInput(f"the table {CHANGED} Its rows would have the levels of others.")
    return levels


def _numbers(cells: AnyArray | Texts, labels: tuple[object, ...]) -> Index:
    """The numbers of the groups of these rows in the plan; −1: it has no such group."""
    known = {label: number for number, label in enumerate(labels)}
    if isinstance(cells, Texts):
        return np.array([known.get(text, -1) for text in cells.distinct])[cells.codes]
    return np.array([known.get(one, -1) for one in cells.tolist()])


def require_all_rows(plan: Terms, rows: int) -> None:
    """Refuse, after the last of them, a table with fewer rows or more than that of the plan."""
    if isinstance(plan, Plan) and rows != plan.rows + plan.dropped:
        raise InvalidInput(
            f"the table has {rows:,} rows now, and had {plan.rows + plan.dropped:,}: it {CHANGED}"
        )
