"""A plan and an estimate as one page."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

import privest
from privest.arrays import CONFIDENCE, as_confidence
from privest.estimator.result import Result
from privest.linalg.tolerances import SINGULAR, condition
from privest.privacy import PrivacyLevel
from privest.report._canvas import save
from privest.report._coefficients import INTERCEPT
from privest.report._digits import at_most, plural, short
from privest.report._exposure import exposed_by, exposed_of
from privest.report._facts import Facts, Outcome, Provenance
from privest.report._page import Section, save_page
from privest.report._page_sections import found, further
from privest.report._split import added_variance
from privest.report._streams import Trail
from privest.report._tradeoff import Curve, tradeoff_figure
from privest.workflow import Estimate, Plan, TableRelease
from privest.workflow._original_units import range_sentence
from privest.workflow._route_columns import ColumnsEstimate


def curve_of(plan: Plan, estimate: Estimate | None = None) -> Curve:
    """Standard errors over levels, with ε where δ and the move are stated.

    With an estimate: for the rows that were released. The plan does not know which readings are
    missing, so its rows may be more. (Not with one that undoes clipping: what that costs at other
    levels is another curve.)
    """
    levels, errors = plan.curve()
    open_errors = plan.classical_error
    if estimate is not None:
        assert estimate.classical_error is not None
        # Sampling stays as it is; what privacy adds goes with 1/s.
        open_errors = estimate.classical_error
        added = added_variance(estimate)
        assert added is not None
        errors = np.sqrt(open_errors**2 + np.outer(estimate.release.level / levels, added))
    stated, move = plan.spec.privacy, plan.move
    epsilons = None
    if stated.delta is not None and move is not None:
        epsilons = np.array(
            [PrivacyLevel(s).to_epsilon(delta=stated.delta, move=move) for s in levels]
        )
    return Curve(plan.names, levels, errors, open_errors, epsilons, stated.wanted)


def save_plan_figure(plan: Plan, path: Path) -> None:
    """Write the curve of errors over levels, before any data; it needs a noise variance."""
    _ = plan.model
    save(tradeoff_figure(curve_of(plan), plan.level), path)


def report_sections(
    plan: Plan | None,
    estimate: Estimate,
    commands: Sequence[str] = (),
    *,
    confidence: float = CONFIDENCE,
    date: datetime.date | None = None,
) -> list[Section]:
    """The sections of a report: what was found, what it cost, what one person is exposed to.

    plan        None where there is only the release: what other levels would cost is then not told.
    commands    how to repeat it; none: that is not told.
    confidence  of the intervals.
    date        of the page; today where it is not given.
    """
    return [
        *found_sections(estimate, confidence=confidence, plan=plan),
        *further_sections(plan, estimate, commands, date=date),
    ]


def found_sections(
    estimate: Estimate, *, confidence: float = CONFIDENCE, plan: Plan | None = None
) -> list[Section]:
    """What was found, of each private column: all that depends on the confidence."""
    return found(replace(_facts(plan, estimate), confidence=as_confidence(confidence)))


def further_sections(
    plan: Plan | None,
    estimate: Estimate,
    commands: Sequence[str] = (),
    *,
    date: datetime.date | None = None,
) -> list[Section]:
    """The other sections of `report_sections`."""
    facts, single = _facts(plan, estimate), len(estimate.release.columns) == 1
    return further(
        replace(
            facts,
            commands=commands,
            record=None if single else _record(estimate.release),
            curve=_curve(plan, estimate) if single and plan is not None else None,
            pair=_pair(estimate) if single else None,
            trail=_trail(estimate) if single else None,
            provenance=_provenance(estimate.release, date),
        )
    )


def _facts(plan: Plan | None, estimate: Estimate) -> Facts:
    """What all sections are about."""
    header, parts = estimate.release, _columns(estimate)
    informed = getattr(estimate, "informed_error", None)
    return Facts(
        outcomes=tuple(
            _outcome(plan, part, None if informed is None else float(informed[j]))
            for j, part in enumerate(parts)
        ),
        rows=header.rows,
        dropped=header.dropped,
        simulated=header.simulated,
        commands=(),
        persons=header.persons,
        people=_people(header),
        weights=_weights(header),
        joint=_joint(estimate),
        levels=_levels(header),
    )


def save_report(
    plan: Plan | None,
    estimate: Estimate,
    commands: Sequence[str],
    path: Path,
    date: datetime.date | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> None:
    """One self-contained page of the `report_sections`."""
    header = estimate.release
    told = _provenance(header, date)
    names = ", ".join(column.target for column in header.columns)
    save_page(
        f"{names}: what a private release shows",
        f"{_whose(header)}, {plural(len(header.names), 'coefficient')}, privacy level "
        f"s {'=' if header.columns[0].level_column is None else 'up to'} "
        f"{', '.join(short(column.level) for column in header.columns)} (larger shows more)",
        report_sections(plan, estimate, commands, confidence=confidence, date=date),
        path,
        f"Made on {told.date} by privest {told.version}.",
    )


def _levels(header: TableRelease) -> str | None:
    """Where rows have levels of their own: which, and what is promised."""
    column = header.columns[0]
    if column.level_column is None:
        return None
    return (
        f"Every row has its own privacy level, the public column “{column.level_column}” of the "
        f"release. A row of level 0 is withheld. The largest, s = {at_most(column.level)}, is "
        "promised to all rows."
    )


def _record(header: TableRelease) -> tuple[float, float] | None:
    """ε and δ for replacing a whole record of several columns, where they are stated."""
    epsilon, delta = header.epsilon, header.columns[0].delta
    return None if epsilon is None or delta is None else (epsilon, delta)


def _columns(estimate: Estimate) -> tuple[Estimate, ...]:
    """The estimates of the private columns, one by one."""
    return estimate.parts if isinstance(estimate, ColumnsEstimate) else (estimate,)


def _outcome(plan: Plan | None, estimate: Estimate, informed: float | None) -> Outcome:
    column = estimate.release.column
    exposed = exposed_of(column)
    if plan is not None:  # it may state what difference matters
        exposed = next(
            one for one, planned in zip(exposed_by(plan), plan.columns)
            if planned.target == column.target
        )  # fmt: skip
    if exposed.spread is None and column.person is None and estimate.noise_found:
        exposed = replace(exposed, spread=math.sqrt(estimate.noise_found))
    return Outcome(
        response=column.target,
        result=estimate,
        level=column.level,
        noise_variance=column.noise_variance,
        reference_rows=column.reference_rows,
        found_variance=estimate.noise_sentence,
        transform=column.transform,
        family=estimate.release.family,
        doubts=estimate.warnings,
        checked=_checked(estimate),
        remark=estimate.remark,
        exposed=exposed,
        epsilon=column.epsilon,
        delta=None if column.epsilon is None else column.delta or 0.0,
        move=None if column.epsilon is None else column.counted_move,
        informed=informed,
        ranged=_ranged(estimate),
        whole=column.person is not None,
    )


def _ranged(estimate: Estimate) -> str | None:
    """What the range did to the readings, and to the estimate."""
    column = estimate.release.column
    if column.range is None:
        return None
    if column.law == "coin":
        return "What is neither of the two answers counts as the nearer of both."
    return range_sentence(estimate) or (
        f"Readings beyond {short(column.range[0])} to {short(column.range[1])} count as its "
        "ends: the estimate is of readings so clipped."
    )


def _checked(estimate: Estimate) -> str | None:
    """What was compared with the stated noise variance, where it agrees."""
    if estimate.misfit is None or estimate.misfit_p is None or estimate.doubt is not None:
        return None
    return (
        f"The release scatters {short(estimate.misfit)} times as much as the stated noise variance "
        f"and the level say, as chance allows (p = {short(estimate.misfit_p)})."
    )


def _provenance(header: TableRelease, given: datetime.date | None) -> Provenance:
    date = given or datetime.datetime.now(datetime.UTC).date()
    entry = header.entry
    ledger = "none: the noise was simulated" if header.simulated else "none"
    if entry is not None:
        ledger = f"entry {entry.sequence} of ledger {entry.ledger}, {entry.subject}; {entry.hash}"
    return Provenance(
        table=header.table,
        checksum=header.checksum,
        sha256=header.sha256,
        ledger=ledger,
        version=privest.__version__,
        date=f"{date.day} {date:%B %Y}",
    )


def _whose(header: TableRelease) -> str:
    rows = plural(header.rows, "row")
    return rows if header.persons is None else f"{header.persons:,} people with {rows}"


def _people(header: TableRelease) -> str | None:
    if header.people is None or header.persons is None:
        return None
    most = header.people.most
    cut = "" if most is None else f" Rows of a person beyond {most} were left out."
    return (
        f"The rows are of {header.persons:,} people; the level is that of all rows of a person "
        "together: a promise for the whole person. How many rows a person has is public."
        f"{cut}"
    )


def _weights(header: TableRelease) -> str | None:
    if header.weights is None:
        return None
    return (
        f"Rows are weighted by “{header.weights.column}”, which is public: as many people as each "
        "row stands for (survey weights)."
    )


def _joint(estimate: Estimate) -> str | None:
    """Which features go with any of the columns at all."""
    if not isinstance(estimate, ColumnsEstimate):
        return None
    if estimate.joint is None or estimate.joint.p_value is None:
        return None if estimate.silent is None else f"No joint test: {estimate.silent}."
    names = estimate.parts[0].names
    said = [
        f"{name} (p = {short(float(p))})"
        for name, p in zip(names, estimate.joint.p_value)
        if name != INTERCEPT
    ]
    if not said:
        return None
    return (
        "All columns together (Hotelling's test, p: how often chance alone would look like this): "
        f"{', '.join(said)}."
    )


def _curve(plan: Plan, estimate: Estimate) -> Curve | None:
    """The errors at other levels, where they are known: of rows, Gaussian noise, no clipping."""
    header = estimate.release
    plain = (
        plan.noise_variance is not None
        and estimate.classical_error is not None
        and bool((estimate.classical_error > 0).all())
        and (estimate.floor is not None or estimate.sampling is not None)
        and estimate.clipped is None
        and header.people is None
        and header.weights is None
        and header.column.level_column is None
        and header.family == "gaussian"
        and header.column.law == "gaussian"
    )
    return curve_of(plan, estimate) if plain else None


def _pair(result: Result) -> Result | None:
    """The two coefficients, not the intercept, whose errors are tied most."""
    slopes = [i for i, name in enumerate(result.names) if name != INTERCEPT]
    classical = result.classical
    if len(slopes) < 2 or classical is None or not (np.diagonal(classical) > 0).all():
        return None
    size = result.standard_error
    tied = np.abs(result.covariance / np.outer(size, size))
    two = list(max(combinations(slopes, 2), key=lambda pair: tied[pair]))
    # Release noise may hide a direction of what there would be without it: no ellipse then.
    if not condition(classical[np.ix_(two, two)]) < 1 / SINGULAR:
        return None
    return Result(
        estimate=result.estimate[two],
        covariance=result.covariance[np.ix_(two, two)],
        classical=classical[np.ix_(two, two)],
        names=(result.names[two[0]], result.names[two[1]]),
    )


def _trail(estimate: Estimate) -> Trail | None:
    if estimate.trail is None:
        return None
    trail = Trail()
    for count, value, error in zip(*estimate.trail):
        trail.add(int(count) - 1, value, error)
    return trail
