"""Levels that differ from row to row: a public column of the table, and of its release.

Every reader of a release must use the levels that its owner used: they stand in it, digit by digit.
Each row is promised its own level, and all rows the largest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privest.arrays import Array
from privest.errors import InvalidInput

if TYPE_CHECKING:
    from privest.workflow._spec import Spec


def require_level_column(spec: Spec, column: str) -> None:
    """Refuse what a level column does not go with."""
    if not plain_rows(spec):
        raise InvalidInput(
            "a level column needs Gaussian noise on one numeric outcome, one row per person, "
            "without weights."
        )
    if column in {*spec.targets, *spec.design.columns, *spec.design.names, "z"}:
        raise InvalidInput(
            f"the level column {column!r} must be a public column of its own: neither the target "
            "nor a feature, and not called 'z'."
        )


def plain_rows(spec: Spec) -> bool:
    """Whether it is Gaussian noise on one numeric outcome, one row per person, without weights."""
    gaussian = spec.privacy.law in (None, "gaussian") and spec.family == "gaussian"
    return gaussian and len(spec.targets) == 1 and spec.person is None and spec.weights is None


def require_levels(levels: Array, most: float, where: object) -> None:
    """Refuse levels that are no numbers from 0 to what is promised."""
    if not bool(((levels >= 0) & (levels <= most)).all()):
        raise InvalidInput(
            f"{where}: a level of a row is not between 0 and {most:g}, the largest of the plan: "
            "the table was changed."
        )
