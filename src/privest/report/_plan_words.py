"""What a plan promises as differential privacy, in words: on a terminal and on a screen."""

from __future__ import annotations

import math

from privest.report._digits import at_most, plural, short
from privest.workflow import Plan, RecordPlan


def size_words(plan: Plan) -> str:
    """`442 rows, 3 coefficients`."""
    return f"{plural(plan.rows, 'row')}, {plural(len(plan.names), 'coefficient')}"


def left_out_words(dropped: int) -> str:
    """What a plan says of rows with gaps, after its first sentence."""
    return f" Left out for missing features: {plural(dropped, 'row')}." if dropped else ""


def differential_words(found: Plan) -> list[str]:
    """ε, where it is stated what it compares: by the range, or on a condition; [] where not."""
    if found.epsilon is None:
        return []
    if isinstance(found, RecordPlan):
        return [_of_record(found, found.epsilon)]
    if found.people is not None:
        return [_of_person(found, found.epsilon)]
    if found.column.law != "gaussian":
        return [_pure(found, found.epsilon)]
    return [_of_reading(found, found.epsilon)]


def _of_reading(found: Plan, epsilon: float) -> str:
    stated, limits = found.spec.privacy, found.limits
    head = f"As differential privacy: ε = {at_most(epsilon)} at δ = {stated.delta:g}, "
    if limits is not None and (stated.move is None or stated.move >= limits.width):
        return (
            f"{head}for any two values that one reading may have: within the range they are at "
            f"most {found.move:.4g} apart{_units(found)}."
        )
    allowed = "" if limits is None else f" (it allows {limits.width:.4g})"
    return (
        f"{head}comparing tables in which one reading{_units(found)} differs by at most "
        f"{found.move:g}. That it differs by no more is a condition, which only a range enforces"
        f"{allowed}; a larger difference has a larger ε."
    )


def _units(found: Plan) -> str:
    """Where what differs is the reading as it is modelled, in those units."""
    return "" if found.spec.transform == "none" else f" (after {found.spec.transform})"


def _of_person(found: Plan, epsilon: float) -> str:
    assert found.people is not None
    assert found.move is not None
    limits = found.limits
    sure = limits is not None and found.move >= limits.width
    why = "the range makes it so" if sure else "a condition, which only a range enforces"
    return (
        f"As differential privacy for a whole person: ε = {at_most(epsilon)} at δ = "
        f"{found.spec.privacy.delta:g}, comparing tables in which every reading of one person (up "
        f"to {found.people.person.rows:,} rows) differs by at most {short(found.move)}: {why}."
    )


def _pure(found: Plan, epsilon: float) -> str:
    ranged = found.limits is not None
    by = "whatever one reading is" if ranged else f"readings {found.move:g} apart"
    return (
        f"As differential privacy: ε = {at_most(epsilon)}, without a δ, {by}: no outcome is "
        f"more than {at_most(math.exp(min(epsilon, 600.0)))} times as likely for one reading "
        "as for another. Several rows or columns of a person so released: their ε add up."
    )


def _of_record(found: RecordPlan, epsilon: float) -> str:
    free = [column.target for column in found.columns if column.range is None]
    condition = ", by the ranges, whatever the readings are"
    if free:
        condition = (
            f"; that {', '.join(free)} differ by no more is a condition, which only a range "
            "enforces"
        )
    return (
        f"As differential privacy for replacing the whole record: ε = {at_most(epsilon)} "
        f"at δ = {found.columns[0].delta:g}{condition}."
    )
