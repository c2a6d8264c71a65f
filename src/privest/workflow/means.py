"""The mean of a target, and the means of groups, as linear models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privest.errors import InvalidInput


def means_by(
    targets: Sequence[str], by: Sequence[str], categories: Mapping[str, Sequence[object]]
) -> dict[str, Any]:
    """`features`, `intercept` or `formula` of a `Spec` whose coefficients are the means.

    Without groups: the mean of all, which is the intercept alone. By one column: a 0/1 column for
    each group, and no intercept. By several: the cells of all of them.

    >>> means_by(["ldl"], ["sex"], {"sex": ["f", "m"]})
    {'features': ('sex',), 'intercept': False}
    >>> means_by(["ldl"], ["sex", "ward"], {"sex": ["f", "m"], "ward": ["a", "b"]})
    {'formula': '`ldl` ~ 0 + `sex`:`ward`'}
    """
    for name in by:
        if name not in categories:
            raise InvalidInput(
                f"means by {name!r} need the public list of its groups (categories). It is never "
                "made from private data."
            )
    if not by:
        return {"features": (), "intercept": True}
    if len(by) == 1:
        return {"features": tuple(by), "intercept": False}
    if any("`" in name for name in (*targets, *by)):
        raise InvalidInput("means by several columns: the names must not have ` in them.")
    left, right = " + ".join(f"`{name}`" for name in targets), ":".join(f"`{name}`" for name in by)
    return {"formula": f"{left} ~ 0 + {right}"}
