"""The same plan under other privacy, without the data: what was counted of the features is enough.

A plan keeps a triangle of HᵀH, the sums of persons, what a reference set said; levels, errors and ε
follow from these. Only what a range costs with coefficients to expect needs the features again: it
is left to `make_plan`, and the cost is said by the share that is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from privest.arrays import as_positive
from privest.errors import InvalidInput, PrivestError
from privest.records import quantile
from privest.workflow._planning import MOST_ROWS, Plan, finished
from privest.workflow._terms import KnownNoise, columns_of, level_for_error

if TYPE_CHECKING:
    from privest.workflow._sections import Privacy

FARTHEST = 1e30  # times the level of the plan: where a level for an accuracy is looked for
DECADES = 10.0


def replanned(plan: Plan, privacy: Privacy) -> Plan:
    """The plan of the same table and model with another section on privacy; nothing is read."""
    if privacy.level_column is not None:
        raise InvalidInput("a level column is read from its table: make_plan(spec).")
    spec = replace(plan.spec, privacy=privacy)
    person = None if plan.people is None else plan.people.person
    facts = columns_of(spec, plan.names, _known(plan), plan._unit_covariance, person)
    kept = {one.name: getattr(plan, one.name) for one in fields(Plan)}
    whole = Plan(**kept | facts | {"spec": spec, "_cost": None})
    if len(whole.columns) == 1:
        return finished(whole, _expected(plan), None)
    from privest.workflow._record_plan import RecordPlan, joined

    covariance = plan.covariance if isinstance(plan, RecordPlan) else None
    return joined(whole, lambda one: finished(one, None, None), covariance)


def _known(plan: Plan) -> list[KnownNoise]:
    """What the plan, or its reference set, said of the noise of each target."""
    expected = plan.expected or (None,) * len(plan.columns)
    return [
        KnownNoise(one.noise_variance, one.reference_rows, theta)
        for one, theta in zip(plan.columns, expected)
    ]


def _expected(plan: Plan) -> dict[str, float] | None:
    """What was stated of the readings of other laws and families, for which they stand."""
    from privest.workflow._law_plan import LawPlan

    if isinstance(plan, LawPlan) and plan.stated and plan.guess is not None:
        return {plan.column.target: plan.guess}
    return None


def at_level(plan: Plan, level: float) -> Privacy:
    """The plan's section on privacy with this level, in place of what it follows from."""
    return replace(
        plan.spec.privacy, level=as_positive(level, "level"), epsilon=None, standard_error=None,
        of=None, tolerance=None, attacker=None, level_column=None,
    )  # fmt: skip


def level_for(
    plan: Plan, error: float, of: str, confidence: float | None = None, *, alone: bool = False
) -> float:
    """The level that gives a coefficient this accuracy: `Plan.level_for` says how."""
    from privest.workflow._law_plan import LawPlan

    _require_one_level(plan, of)
    place = plan.index(of)
    times = 1.0 if confidence is None else float(quantile(confidence))
    wanted = as_positive(error, "the error that is wanted") / times
    if alone and not isinstance(plan, LawPlan):
        ratio = float(plan.privacy_error[place]) / wanted
        return _number(plan.level * (ratio * ratio), error, of)
    if plan.noise_variance is None and not isinstance(plan, LawPlan):
        raise InvalidInput(
            "the level for a wanted error needs the noise variance of the readings, which is not "
            "stated: give a guess from public knowledge (--noise-variance) or a reference set, or "
            "ask for what privacy alone may add."
        )
    _require_reachable(plan, place, wanted, times)
    if plan.people is None and not isinstance(plan, LawPlan):
        assert plan.noise_variance is not None
        return level_for_error(of, wanted, plan.noise_variance, plan._unit_covariance[place, place])
    return _searched(lambda s: float(plan.errors_at(s)[place]) - wanted, plan.level, error, of)


def _require_one_level(plan: Plan, of: str) -> None:
    if plan.spec.privacy.level_column is not None or len(plan.columns) > 1:
        raise InvalidInput(
            f"the level for the error of {of!r} is that of one private column with the same level "
            "for all rows: plan it so."
        )


def _require_reachable(plan: Plan, place: int, wanted: float, times: float) -> None:
    """Refuse what not even the readings themselves would show, saying how many rows it takes."""
    least = float(plan.classical_error[place])
    if not wanted <= least:
        return
    ratio = least / wanted
    rows = plan.rows * (ratio * ratio)  # which may be infinite: ** would refuse to be
    what = "a standard error of" if times == 1 else "±"
    more = f"{math.floor(rows) + 1:,}" if rows < MOST_ROWS else f"{rows:.0e}"
    raise InvalidInput(
        f"privacy: {plan.names[place]!r} cannot have {what} {wanted * times:g}: without any "
        f"privacy it is {least * times:.4g}. More rows are needed: {more} like these, and more for "
        f"any privacy; there are {plan.rows:,}."
    )


def _searched(excess: Callable[[float], float], start: float, error: float, of: str) -> float:
    """The level at which errors, which fall with it, are those wanted."""
    import scipy

    def beyond(log: float) -> float:
        try:
            return excess(math.exp(log))
        except PrivestError:  # no numbers any more
            return math.nan

    low = high = math.log(start)
    step, limit = math.log(DECADES), math.log(FARTHEST)
    while beyond(low) <= 0 and low > math.log(start) - limit:
        low -= step
    while beyond(high) > 0 and high < math.log(start) + limit:
        high += step
    if not (beyond(low) > 0 >= beyond(high)):
        raise InvalidInput(
            f"privacy: no level gives {of!r} the error {error:g}: at the laxest ones that are "
            "numbers it is larger, or at the strictest smaller. More rows, or another wish."
        )
    return _number(math.exp(float(scipy.optimize.brentq(beyond, low, high, xtol=1e-13))), error, of)


def _number(level: float, error: float, of: str) -> float:
    if not 0 < level < math.inf:
        raise InvalidInput(
            f"privacy: the level that gives {of!r} the error {error:g} is too small or too large "
            "for a number."
        )
    return level
