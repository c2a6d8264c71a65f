"""Whether a release reads the table that its plan was made for: what was shown and confirmed."""

from __future__ import annotations

from privest.data import Source, Stamp, open_source, stamp_of
from privest.errors import InvalidInput
from privest.workflow._planning import Plan
from privest.workflow._terms import Terms, require_target

CHANGED = "was changed since the plan was made: make the plan again."


def table_of(plan: Terms, data: object) -> Source:
    """The table of a release, open; None: that of the plan. Refused where its file was changed."""
    source = open_source(plan.spec.data if data is None else data, plan.spec.reading)
    _require_unchanged(plan, data, source.stamp)
    require_target(plan.spec, source)
    return source


def require_same_table(plan: Terms, data: object) -> None:
    """Refuse a file that was changed since the plan was made for it; it is not opened."""
    _require_unchanged(plan, data, stamp_of(data))


def _require_unchanged(plan: Terms, data: object, now: Stamp | None) -> None:
    """The plan's own table (None) is where it was; another one that is named may be released."""
    before = plan._stamp if isinstance(plan, Plan) else None
    if before is None or now is None or now == before:
        return
    if data is None or now.path == before.path:
        raise InvalidInput(f"{plan.spec.data} {CHANGED}")


def require_all_rows(plan: Terms, rows: int) -> None:
    """Refuse, after the last of them, a table with fewer rows or more than that of the plan."""
    if isinstance(plan, Plan) and rows != plan.rows + plan.dropped:
        raise InvalidInput(
            f"the table has {rows:,} rows now, and had {plan.rows + plan.dropped:,}: it {CHANGED}"
        )
