"""Whether a release was made under a plan."""

from __future__ import annotations

from privest.errors import InvalidInput
from privest.workflow._header import TableRelease
from privest.workflow._planning import Plan

COMPARED = {
    "target": "target", "transform": "transform",
    "level": "level", "level column": "level_column", "law of the noise": "law", "δ": "delta",
    "difference that ε speaks of (--move)": "move", "range": "range",
    "noise variance": "noise_variance", "number of reference rows": "reference_rows",
}  # fmt: skip


def require_same_plan(found: Plan, header: TableRelease, table: str) -> None:
    """Refuse a release that was made under another plan, naming what differs."""
    pairs = {
        "family": (found.spec.family, header.family),
        "column of persons, or their cap": (found.spec.person, header.people),
        "column of weights": (found.spec.weights, header.weights),
        "number of private columns": (len(found.columns), len(header.columns)),
        **{
            what: (
                [getattr(column, name) for column in found.columns],
                [getattr(column, name) for column in header.columns],
            )
            for what, name in COMPARED.items()
        },
        "set of coefficients": (found.names, header.names),
        "list of categories": (dict(found.spec.design.categories), dict(header.categories)),
        "rule for missing values": (found.spec.missing == "refuse" and header.dropped > 0, False),
    }
    for what, (planned, released) in pairs.items():
        if planned != released:
            raise InvalidInput(
                f"{table} was released under another plan than this one: the {what} differs."
            )
