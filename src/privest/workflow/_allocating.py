"""Levels for the rows of a plan, by a design: from public features and what is asked for.

The design holds all of H. Levels at which the grid cannot hold the range (such a row would show
next to nothing) become 0: a lower level promises more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privest.arrays import AnyArray, Array, Index
from privest.bounds import bound, classical_bound, identifiability
from privest.data import open_source, read_rows
from privest.data._cells import Texts
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.model import LinearModel
from privest.privacy import PrivacyLevel, Range
from privest.records import standard_errors
from privest.workflow._planning import Plan
from privest.workflow._planning_levels import AllocatedPlan, with_levels
from privest.workflow._spec import Spec
from privest.workflow._terms import index_of

if TYPE_CHECKING:
    from privest.design import Allocation, Criterion

FAR = 1e30  # how many times one may be another: σ² and 1/s, an error and that without privacy
TRACE = 1e-5  # of the mean level
MOST_RAISED = 1.001
STEPS = 4  # of the grid that a range must be wide at the level of a row


@dataclass(frozen=True, eq=False)
class HeldRows:
    """All rows of a table that a plan counts: H, their numbers in it, and the group of each.

    groups  (rows,) numbers of groups, which `labels` names; None: there are none.
    """

    H: Array
    lines: Index
    groups: Index | None
    dropped: int
    labels: tuple[object, ...] = ()


def held_rows(spec: Spec, data: object, groups: str | None) -> HeldRows:
    """The public rows of a plan, all of them: the private column is not read.

    (Without any feature, for a mean, rows are counted by the target, as the plan does.)
    """
    source = open_source(spec.data if data is None else data, spec.reading)
    beside = () if groups is None else (groups,)
    counted_by = None if spec.design.columns else spec.targets
    # A column that is a feature too is read as the model needs it.
    text = [name for name in beside if name not in spec.design.columns]
    blocks = list(
        read_rows(source, spec.design, counted_by, beside=beside, text=text, missing=spec.missing)
    )
    label: Index | None = None
    names: tuple[object, ...] = ()
    if groups is not None:
        label, names = _labels([block.beside[groups] for block in blocks])
    return HeldRows(
        np.concatenate([block.H for block in blocks]),
        np.concatenate([block.line for block in blocks]),
        label,
        sum(block.dropped for block in blocks),
        names,
    )


def _labels(parts: list[AnyArray | Texts]) -> tuple[Index, tuple[object, ...]]:
    """Numbers 0, 1, ... for the values of a column, the same for the same, and the values."""
    seen: dict[object, int] = {}
    found = []
    for part in parts:
        if isinstance(part, Texts):
            own = np.array([seen.setdefault(text, len(seen)) for text in part.distinct])
            found.append(own[part.codes])
        else:
            found.append(np.array([seen.setdefault(one, len(seen)) for one in part.tolist()]))
    numbers, place = np.unique(np.concatenate(found), return_inverse=True)
    named = tuple(seen)
    return place.astype(np.intp), tuple(named[k] for k in numbers)


def allocated_plan(plan: Plan, data: object) -> AllocatedPlan:
    """The plan with levels of its rows, as its section on privacy asks for."""
    return allocated(plan, held_rows(plan.spec, data, plan.spec.privacy.groups))


def rows_of(plan: AllocatedPlan) -> HeldRows:
    """The rows that such a plan holds, to choose other levels for them."""
    return HeldRows(plan._rows, plan._lines, plan._groups, plan.dropped, plan._labels)


def allocated(plan: Plan, rows: HeldRows) -> AllocatedPlan:
    """The plan with levels of these rows."""
    privacy = plan.spec.privacy
    plan = replace(plan, rows=len(rows.H), dropped=rows.dropped)
    cap = limit_of(plan)
    wanted = privacy.wanted
    found = designed(
        plan, rows, wanted, privacy.criterion or "A", cap,
        None if wanted else privacy.level,
    )  # fmt: skip
    asked: dict[str, Any] = {
        "criterion": "standard errors" if wanted else privacy.criterion or "A",
        "standard_error": wanted,
        "budget": None if wanted else privacy.level,
        "cap": cap,
        "groups": privacy.groups,
    }
    equal = found.equal / len(rows.H) if wanted else privacy.level
    return settled(plan, rows, found, equal=equal, **asked)


def limit_of(plan: Plan) -> float | None:
    """The level that no row may be above: a cap, or that of the ε or the attacker stated."""
    privacy = plan.spec.privacy
    if privacy.epsilon is not None or privacy.tolerance is not None:
        return plan.level
    return privacy.cap


def designed(
    plan: Plan,
    rows: HeldRows,
    wanted: dict[str, float],
    criterion: str,
    cap: float | None,
    mean: float | None,
) -> Allocation:
    """Levels of least sum for these standard errors, or of the best accuracy for a mean level."""
    from privest import design

    model = model_of(plan, rows)
    _require_scale(model, plan.noise_variance or 0.0, wanted, [cap, mean])
    limits: dict[str, Any] = {"cap": math.inf if cap is None else cap, "groups": rows.groups}
    if wanted:
        require_reachable(model, wanted, cap)
        return design.least_loss(model, design.StandardErrors(dict(wanted.items())), **limits)
    assert mean is not None
    if cap is not None and cap < mean:
        raise InvalidInput(
            f"privacy: no row may be above {cap:g}, and the mean of all rows is to be {mean:g}: "
            "the cap must be above the mean."
        )
    return design.allocate(
        model, mean * len(rows.H), criterion=criterion_of(criterion, model), **limits
    )


def _require_scale(
    model: LinearModel, variance: float, wanted: dict[str, float], levels: list[float | None]
) -> None:
    """Refuse numbers so far from each other that a design would leave the range of doubles."""
    if not 1 / FAR**3 < variance < FAR**3:
        raise InvalidInput(
            f"the noise variance {variance:g} is too large or too small for a design: state "
            "readings in another unit."
        )
    asked = {f"the level {one:g}": one * variance for one in levels if one is not None}
    errors = standard_errors(classical_bound(model))
    for name, error in wanted.items():
        place = index_of(model.names, name)
        asked[f"the standard error {error:g} of {name!r}"] = error / float(errors[place])
    for what, ratio in asked.items():
        if not 1 / FAR < ratio < FAR:
            raise InvalidInput(
                f"privacy: {what} is too large or too small beside the noise variance "
                f"{variance:g} of the readings for a design. State another."
            )


def criterion_of(name: str, model: LinearModel) -> Criterion:
    """A, D or E in units that do not matter: every error as a multiple of that without privacy.

    tr WΣ and λ_max(W^½ΣW^½) with W = diag(1/Σ_jj) of no privacy: years or decades, an intercept far
    from all rows: none of it decides what is accurate.
    """
    from privest import design

    if name == "D":
        return design.D()
    weight = 1 / np.diagonal(classical_bound(model))
    return design.A(weight) if name == "A" else design.E(weight)


def model_of(plan: Plan, rows: HeldRows) -> LinearModel:
    """The linear model of all rows; refused where σ² is not known."""
    if plan.noise_variance is None:
        raise InvalidInput(
            "a design needs the noise variance of the readings: how much a row is worth depends on "
            "it. State a guess from public knowledge (--noise-variance), or a reference set "
            "(--reference)."
        )
    return LinearModel(rows.H, plan.noise_variance, names=plan.names)


def require_reachable(model: LinearModel, wanted: dict[str, float], cap: float | None) -> None:
    """Refuse standard errors that no levels within the cap give, naming the nearest ones."""
    open_ = standard_errors(classical_bound(model))
    best = open_ if cap is None else bound(model, cap).standard_error
    missed = []
    for name, error in wanted.items():
        place = index_of(model.names, name)
        if error <= open_[place]:
            raise InvalidInput(
                f"privacy: {name!r} cannot have the standard error {error:g}: without any privacy "
                f"it is {open_[place]:.4g}. More rows are needed."
            )
        if error <= best[place]:
            missed.append(f"{name!r} {best[place]:.4g} (asked for: {error:g})")
    if missed:
        raise InvalidInput(
            f"privacy: with every row at the most that is allowed, level {cap:.4g}, standard "
            f"errors are at best {', '.join(missed)}. Allow more, or ask for less."
        )


def settled(
    plan: Plan,
    rows: HeldRows,
    found: Allocation,
    *,
    equal: float | None,
    **asked: Any,  # noqa: ANN401 - fields of RowLevels
) -> AllocatedPlan:
    """The plan with the levels of a design, without traces, and how far from the best they are.

    What an interior method leaves of a row (below 1e-5 of the mean) becomes 0, so that such rows
    show nothing at all; the others go up by as little as the standard errors that are asked for
    need. The floor of the design holds for these levels too, and gives their gap.
    """
    model, wanted, cap = model_of(plan, rows), asked["standard_error"], asked["cap"]
    levels = np.where(found.levels < TRACE * found.levels.mean(), 0.0, found.levels)
    if cap is not None:  # a promise: not even by the rounding of a unit
        levels = np.minimum(levels, cap)
    levels = usable(levels, plan.limits)
    require_estimable(model, levels)
    if wanted:
        levels = _meeting(model, levels, wanted, cap)
        require_met(model, levels, wanted)
    return with_levels(
        plan, levels, rows.lines, rows.H, design=found, gap=_gap(model, levels, found), equal=equal,
        groups_of=(rows.groups, rows.labels), **asked,
    )  # fmt: skip


def require_estimable(model: LinearModel, levels: Array) -> None:
    """Refuse levels from which nothing could be estimated after the release: it would be lost."""
    found, shown = identifiability(model, PrivacyLevel(levels)), int(np.count_nonzero(levels))
    if not found.identifiable:
        parts = np.abs(found.hidden_directions).max(axis=1, initial=0.0)
        hidden = ", ".join(repr(name) for name, part in zip(model.names, parts) if part > 1e-8)
        raise InvalidInput(
            f"privacy: the best levels for what is asked for do not show {hidden}. Ask for a "
            "standard error of that too (--standard-error), however large, or leave it out of the "
            "model."
        )
    if shown <= model.parameters:
        raise InvalidInput(
            f"privacy: the best levels show {shown} of {len(levels)} rows, as many as there are "
            "coefficients: nothing is left over to see the noise by. Limit what one row shows "
            "(--cap), or let rows share levels (--groups)."
        )


def require_met(model: LinearModel, levels: Array, wanted: dict[str, float]) -> None:
    """Refuse levels that miss the errors asked for without the rows that the grid cannot show."""
    got = bound(model, PrivacyLevel(levels)).standard_error
    missed = [
        f"{name!r} {got[model.names.index(name)]:.4g} (asked for: {error:g})"
        for name, error in wanted.items()
        if got[model.names.index(name)] > error * (1 + 1e-6)
    ]
    if missed:
        raise InvalidInput(
            "privacy: the range is so narrow beside the noise that rows of low levels show "
            f"nothing, and without them standard errors are {', '.join(missed)}. Ask for other "
            "errors, or for the same level of all rows (without --allocate)."
        )


def usable(levels: Array, limits: Range | None) -> Array:
    """The levels with 0 where the range is narrower than some steps of the grid."""
    if limits is None:
        return levels
    least = (STEPS * GRID / limits.width) ** 2
    return np.where(levels < least, 0.0, levels)


def _meeting(
    model: LinearModel, levels: Array, wanted: dict[str, float], cap: float | None
) -> Array:
    """The least multiple t ≥ 1 of the levels, within the cap, that gives these standard errors.

    What was taken off is a trace: t is within a thousandth of 1, or the levels stay as they are.
    """
    places = [model.names.index(name) for name in wanted]
    errors = np.array(list(wanted.values()))

    def raised(t: float) -> Array:
        return t * levels if cap is None else np.minimum(t * levels, cap)

    def excess(t: float) -> float:
        got = bound(model, PrivacyLevel(raised(t))).standard_error[places]
        return float((got / errors).max()) - 1.0

    if excess(1.0) <= 0 or excess(MOST_RAISED) > 0:
        return levels
    t = float(scipy.optimize.brentq(excess, 1.0, MOST_RAISED, xtol=1e-14))
    return raised(t if excess(t) <= 0 else t + 1e-13)


def _gap(model: LinearModel, levels: Array, found: Allocation) -> float:
    """How far above the floor of the design these levels are, relative; of log det absolute."""
    from privest import design

    if found.direction == "equalised":
        return max(float(levels.max()) / found.floor - 1.0, 0.0)
    if found.direction == "target":
        return max(1.0 - found.floor / float(levels.sum()), 0.0)
    value = design.certify(model, levels, found.criterion, found.asked).value
    lost = value - found.floor
    return max(lost if found.criterion.symbol == "D" else lost / value, 0.0)
