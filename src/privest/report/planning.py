"""Sections of a plan: what it costs, what it reveals, and what other choices would give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from privest.arrays import Array
from privest.estimator.inference import coin_rows
from privest.lattice import Coin
from privest.report.exposure import FRACTIONS
from privest.report.sections import (
    Cell,
    Number,
    Part,
    Section,
    Sentence,
    Table,
    say,
    section,
    table,
    warn,
)
from privest.workflow.plan import Plan
from privest.workflow.terms import Column

SAME = 1.005  # errors that differ by less are the same to a reader
LEVELS = (0.1, 1 / 3, 1.0, 3.0, 10.0)  # times the chosen one
ENOUGH = 200.0  # rows × (1 − 2q)² from which on a logistic fit of answers is of use


def of_plan(
    plan: Plan, exposure: Sequence[Section], *, wanted: Mapping[str, int] | None = None
) -> list[Section]:
    """The sections of a plan. wanted: how many rows each NAME=ERROR takes."""
    parts: list[Part] = [*_size(plan), *_level(plan)]
    parts += [_rows_wanted(plan, want, rows) for want, rows in (wanted or {}).items()]
    cost = clipping_sentences(plan)
    costs = [section("range", cost)] if cost else []
    return [section("plan", parts), errors_expected(plan), *exposure, *costs]


def _size(plan: Plan) -> list[Sentence]:
    key, columns = "plan_size" if len(plan.columns) == 1 else "plan_columns", len(plan.columns)
    said = [say(key, rows=plan.rows, coefficients=len(plan.names), columns=columns)]
    strata = plan.survey.strata
    if strata is not None:
        first, last = int(strata.rows[0]), int(strata.rows[-1])
        rows = f"{first}" if first == last else f"{first} to {last:,}"
        said.append(say("plan_persons", persons=strata.count, rows=rows, mean=strata.mean_rows))
        if strata.cut:
            said.append(say("cut", most=plan.most, cut=strata.cut))
    if plan.dropped:
        said.append(say("dropped", dropped=plan.dropped))
    if plan.model.missing == "drop":
        said.append(warn("missing_unprotected" if plan.splits else "missing_public"))
    if plan.model.weights is not None:
        said.append(say("weights", column=plan.model.weights))
    return said


def _level(plan: Plan) -> list[Sentence]:
    column, levels = plan.columns[0], plan.survey.levels
    if plan.splits:
        return _sums(plan)
    law = plan.distribution.law(column.level, plan.limits(column))
    if isinstance(law, Coin):
        return [say("level_answers", wrong=float(law.wrong))]
    if levels is not None:
        said = [say("level_column", column=plan.privacy.level_column, level=column.level)]
        said.append(say("level_mean", mean=levels.mean))
        if levels.withheld:
            said.append(say("withheld", withheld=levels.withheld))
        return said
    return [say("level", level=column.level)]


def _sums(plan: Plan) -> list[Sentence]:
    own, design = plan.splits[0], plan.survey.sums
    assert design is not None
    privacy = plan.privacy
    said = [say("sums_leave"), squares_sentence(plan)]
    if privacy.pilot is not None:
        said.append(say("sums_pilot", share=privacy.pilot))
    if privacy.within is not None:
        said.append(say("sums_within", within=privacy.within))
    said.append(say("sums_all"))
    if plan.model.person is not None:
        return said
    variance = plan.columns[0].residual_variance
    share = design.efficiency(own.level, variance)
    best = "sums_best" if variance is not None else "sums_best_noise"
    # A proved lower bound is rounded down; whether it is 1 hangs on the last bit of a double.
    said.append(say(best, share=min(math.floor(share * 1000) / 1000, 0.999)))
    relative = plan.errors(plan.columns[0]).relative
    if relative is not None and np.isfinite(relative).all():
        said.append(say("sums_rel", low=float(relative.min()), high=float(relative.max())))
    if plan.privacy.epsilon is not None and own.kind != "none":
        said.append(say("sums_exposure", exposure=own.exposure))
    return said


def squares_sentence(plan: Plan) -> Sentence:
    own = plan.splits[0]
    kind = own.kind if plan.model.family == "gaussian" else "scores"
    return say(f"sums_{kind}", share=own.share)


def _rows_wanted(plan: Plan, want: str, rows: int) -> Sentence:
    if plan.survey.strata is None:
        return say("rows_wanted", want=want, rows=rows)
    persons = math.ceil(rows / plan.survey.strata.mean_rows)
    return say("persons_wanted", want=want, persons=persons)


@dataclass(frozen=True, eq=False)
class Errors:
    """Standard errors of one column: without privacy (None: unknown), and with it.

    alone    `private` is what privacy alone adds.
    guesses  by what is not stated: the residual sd, the share of yes, the mean count.
    rarest   the last of the guesses, for which `private` is, where a share or mean is not stated.
    """

    target: str
    names: tuple[str, ...]
    open: Array | None
    private: Array
    alone: bool
    guesses: Mapping[str, Array]
    rarest: str = ""


def planned_errors(plan: Plan) -> list[Errors]:
    return [_planned(plan, column) for column in plan.columns]


def _planned(plan: Plan, column: Column) -> Errors:
    found = plan.errors(column)
    if np.isfinite(found.classical).all():
        return Errors(column.target, plan.names, found.classical, found.total, False, {})
    guesses = {name: one.errors(column).total for name, one in plan.scenarios.items()}
    if guesses:
        *_, rarest = guesses
        return Errors(column.target, plan.names, None, guesses[rarest], False, guesses, rarest)
    for sd in _guessed_sds(plan, column):
        total = plan.errors(replace(column, residual_variance=sd * sd)).total
        guesses[say("if_sd", sd=sd).text] = total
    return Errors(column.target, plan.names, None, found.privacy, True, guesses)


def _guessed_sds(plan: Plan, column: Column) -> list[float]:
    limits = plan.limits(column)
    if limits is None or plan.survey.levels is not None:
        return []
    return [share * limits.width for share in FRACTIONS]


def errors_expected(plan: Plan) -> Section:
    every = planned_errors(plan)
    parts: list[Part] = [_errors_table(every), *_residual(plan, every), *_within_persons(plan)]
    if plan.rows <= len(plan.names) and not plan.splits:
        parts.append(warn("residual_none"))
    if len(every) == 1:
        parts += _ratio(plan, every[0])
        if plan.distribution.bits and plan.epsilon is not None:
            useful = coin_rows(plan.epsilon, 0.5, plan.rows)[0]
            if useful < ENOUGH:
                parts.append(warn("few_answers", needed=math.ceil(ENOUGH / useful * plan.rows)))
        parts += other_levels(plan)
    return section("errors_expected", parts)


def _errors_table(every: Sequence[Errors]) -> Table:
    header: list[Cell] = [say("coefficient")]
    columns: list[Array] = []
    guesses: Mapping[str, Array] = {} if len(every) > 1 else every[0].guesses
    for one in every:
        word = say("alone" if one.alone else "with")
        if len(every) > 1:
            word = say("of_column", target=one.target, text=word)
        elif one.open is not None:
            header += [say("without"), say("half")]
            columns.append(one.open)
        if not one.rarest:
            header += [word, say("half")]
            columns.append(one.private)
    rows = []
    for j, name in enumerate(every[0].names):
        pairs = [(float(own[j]), kind) for own in columns for kind in ("se", "half")]
        pairs += [(float(guess[j]), "se") for guess in guesses.values()]
        rows.append((name, *(Number(*pair) for pair in pairs)))
    return table([*header, *(say("quoted", text=name) for name in guesses)], rows)


def _residual(plan: Plan, every: Sequence[Errors]) -> list[Sentence]:
    column = plan.columns[0]
    if plan.model.family != "gaussian":
        read = say("read_odds" if plan.model.family == "binomial" else "read_count")
        if plan.scenarios:
            return [read, say("no_mean", names=list(plan.scenarios))]
        kind = "share" if plan.model.family == "binomial" else "mean"
        return [read, say(f"expected_{kind}", guess=plan.mean)]
    variance = column.residual_variance
    if variance is None:
        hidden = plan.splits and plan.splits[0].kind == "none"
        said = [say("residual_not_shown" if hidden else "residual_unknown")]
        if len(every) == 1 and every[0].guesses:
            said.append(say("residual_fractions"))
        return said
    if column.reference_rows is None:
        return [say("residual_stated", variance=variance)]
    return [say("residual_reference", variance=variance, rows=column.reference_rows)]


def _within_persons(plan: Plan) -> list[Sentence]:
    if plan.survey.strata is None:
        return []
    correlation = plan.spec.public.within_person_correlation
    if correlation is None:
        return [say("persons_largest")]
    return [say("persons_correlated", correlation=correlation)]


def _ratio(plan: Plan, errors: Errors) -> list[Sentence]:
    if errors.open is None:
        return []
    ratios = errors.private / errors.open
    low, high = float(ratios.min()), float(ratios.max())
    said = [say("ratio_one")]
    if high >= SAME:
        said = [say("ratio", ratio=(low, high), share=1 - (1 / float(ratios[0])) ** 2)]
    if not plan.distribution.pure and plan.model.family == "gaussian":
        return said
    share = (1 / high) ** 2
    said.append(say("worth", share=share, rows=plan.rows, worth=math.floor(plan.rows * share)))
    return said


def other_levels(plan: Plan) -> list[Sentence]:
    """Errors at other levels or ε, as multiples of those without privacy."""
    errors, column = planned_errors(plan)[0], plan.columns[0]
    if plan.splits:
        return _other_epsilons(plan, errors)
    if plan.survey.levels is not None or len(plan.columns) > 1 or plan.distribution.bits:
        return []
    if errors.open is not None:
        at = [column.level * times for times in LEVELS]
        ratios = [float(plan.errors(column, s).total[0] / errors.open[0]) for s in at]
        points = [say("level_point", ratio=one, level=s) for s, one in zip(at, ratios)]
        return [say("other_levels", points=points)]
    if not errors.alone or not errors.guesses:
        return []
    added = plan.distribution.variance(column.level, plan.limits(column))
    ratio = [math.sqrt(1 + added / sd**2) for sd in _guessed_sds(plan, column)]
    return [say("ratio_fractions", ratio=ratio)]


def _other_epsilons(plan: Plan, errors: Errors) -> list[Sentence]:
    epsilon = plan.privacy.epsilon
    if errors.open is None or epsilon is None:
        return []
    points = []
    for times in LEVELS:
        other = replace(plan.privacy, epsilon=epsilon * times)
        total = plan.under(other).errors(plan.columns[0]).total
        ratio = float((total / errors.open).max())
        points.append(say("epsilon_point", ratio=ratio, epsilon=epsilon * times))
    return [say("other_epsilons", points=points)]


def clipping_sentences(plan: Plan) -> list[Sentence]:
    span, family = plan.ends(plan.columns[0]), plan.model.family
    if len(plan.columns) > 1 or span is None or family == "binomial":
        return []
    if plan.privacy.within is not None:
        said = say("clip_within", within=plan.privacy.within)
    else:
        rows = "clip_target" if plan.distribution.pure or family != "gaussian" else "clip_later"
        said = say("clip_sums" if plan.splits else rows, low=span[0], high=span[1])
    return [said, say("clip_far", far=_far(plan.rows))]


def _far(rows: int) -> float:
    """Distance of the ends in residual sd, for a bias of at most 0.1 standard errors.

    √K·(φ(t) − tΦ(−t)) = 0.1, for normal residuals at one end.
    """
    t = np.linspace(0.0, 10.0, 10_001)
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    bias = math.sqrt(rows) * (density - t * scipy.special.ndtr(-t))
    return float(t[np.argmax(bias <= 0.1)])
