"""An allocation in words."""

from __future__ import annotations

import numpy as np

from privest.design._allocation import Allocation


def explanation(found: Allocation) -> str:
    """What was found, how sure it is, who pays."""
    return "\n".join([_result(found), _comparison(found), _proof(found), _who(found)])


def _result(found: Allocation) -> str:
    words, amount = found.criterion.words(), found.criterion.amount
    reached = f"{amount(found.value):.6g}"
    if found.direction == "budget":
        return (
            f"Made small: {words}. It is {reached} for a total privacy loss of {found.spent:.6g} "
            f"(of {found.asked:.6g})."
        )
    asked = f"Asked for: {words} of at most {amount(found.asked):.6g}"
    if found.direction == "target":
        return f"{asked}. It is {reached}, for a total privacy loss of {found.spent:.6g}."
    return (
        f"{asked}, with nobody giving up more than needed. No reading gives up more than "
        f"{found.spent:.6g}."
    )


def _comparison(found: Allocation) -> str:
    amount = found.criterion.amount
    if found.direction == "budget":
        if found.criterion.symbol == "D":
            return f"Equal levels at the same cost: {found.equal:.6g}."
        ratio = amount(found.equal) / amount(found.value)
        return (
            f"Equal levels at the same cost: {amount(found.equal):.6g}, {ratio:.4g} times as much."
        )
    if found.direction == "target":
        return (
            f"Equal levels for the same accuracy lose {found.equal:.6g}, "
            f"{found.equal / found.spent:.4g} times as much."
        )
    return "Equal levels are best here: raising one reading's level above them helps nobody else."


def _proof(found: Allocation) -> str:
    what = "privacy loss" if found.direction != "budget" else "value"
    size = (
        "in log det" if found.criterion.symbol == "D" and found.direction == "budget" else "of it"
    )
    floor = found.criterion.amount(found.floor) if found.direction == "budget" else found.floor
    sure = f"Proved: no levels within the limits have a {what} below {floor:.6g}"
    if found.certified:
        return f"{sure} (gap {found.gap:.1e} {size}; {found.method}, {found.iterations} steps)."
    return (
        f"{sure}. NOT as close as asked: the gap is {found.gap:.1e} {size}, above "
        f"{found.tolerance:.0e} ({found.method}, {found.iterations} steps)."
    )


def _who(found: Allocation) -> str:
    levels = found.levels
    m, shown = len(levels), found.support
    top = np.sort(levels)[::-1]
    tenth = max(1, round(m / 10))
    part = float(top[:tenth].sum() / top.sum())
    hidden = "" if shown == m else f" {m - shown} of {m} readings give up nothing."
    return (
        f"Levels (larger shows more): from {levels.min():.4g} to {top[0]:.4g}, the middle one "
        f"{float(np.median(levels)):.4g}.{hidden} The tenth that gives up most bears "
        f"{100 * part:.0f} % of it."
    )
