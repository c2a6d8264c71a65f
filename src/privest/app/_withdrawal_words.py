"""What if a group says no: in sentences, by the names of groups and coefficients."""

from __future__ import annotations

from collections.abc import Sequence

from privest.report.numbers import KINDS, half
from privest.workflow import Plan
from privest.workflow._withdrawing import Withdrawal

MOST_NAMED = 12


def withdrawal_words(found: Withdrawal, plan: Plan) -> list[str]:
    """What is hidden then, and whose readings would be needed; or what it costs."""
    who = f"{found.column} = {listed(found.groups)}"
    head = f"If {who} says no, nothing is shown of {KINDS['rows'](found.rows)}"
    if found.left == 0:
        return [f"{head}: that is everybody, and nothing is left to release."]
    if not found.hidden:
        return [
            f"{head}. All coefficients can still be told, from the other {found.left:,} rows.",
            *_cost(found, plan),
        ]
    one = len(found.hidden) == 1
    others = [group for group in found.helpful if group not in found.needed]
    also = f" ({listed(others)} would help as well)" if others else ""
    return [
        f"{head}, and nothing that the other {found.left:,} rows show tells "
        f"{'this coefficient' if one else 'these coefficients'} any more: {listed(found.hidden)}.",
        f"Something of the readings of {listed(found.needed)} would have to be shown{also}: any "
        "level above 0 will do, and a higher one makes errors smaller. Or leave out of the model "
        "what nobody shows.",
    ]


def _cost(found: Withdrawal, plan: Plan) -> list[str]:
    if found.standard_error is None:
        return []
    each = ", ".join(
        f"{name} {half(then)} (now {half(now)})"
        for name, then, now in zip(
            plan.names[:MOST_NAMED], found.standard_error.tolist(), plan.standard_error.tolist()
        )
    )
    return [f"95% intervals then: {each}."]


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and 7 more`."""
    shown = [f"“{name}”" for name in names[:MOST_NAMED]]
    more = len(names) - len(shown)
    if more:
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
