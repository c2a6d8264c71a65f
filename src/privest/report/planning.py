"""Sections of a plan: what it costs, what it reveals, and what other choices would give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array
from privest.estimator.inference import coin_rows
from privest.lattice import Coin
from privest.report.describe import expected_mean
from privest.report.exposure import FRACTIONS, right
from privest.report.numbers import NEXT_TO_NONE
from privest.report.sections import (
    Cell,
    Chart,
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
from privest.workflow import Column, Plan

SAME = 1.005  # errors that differ by less are the same to a reader
LEVELS = (0.1, 1 / 3, 1.0, 3.0, 10.0)  # times the chosen one
CLIPPED = (0.05, 0.2)  # shares for which the cost of clipping is told
UNEQUAL = 20  # times the usual number of rows: beyond it a cap is worth a word
LITTLE = 0.95  # D-efficiency below which other weights are worth a word
ENOUGH = 200.0  # rows × (1 − 2q)² from which on a logistic fit of answers is of use


def of_plan(
    plan: Plan, exposure: Sequence[Section], *, wanted: Mapping[str, int] | None = None
) -> list[Section]:
    """What a plan costs and reveals. wanted: how many rows each NAME=ERROR takes."""
    parts: list[Part] = [*_size(plan), *_level(plan)]
    parts += [_rows_wanted(plan, want, rows) for want, rows in (wanted or {}).items()]
    cost = clipping_sentences(plan)
    costs = [section("range", cost)] if cost else []
    return [section("plan", parts), errors_expected(plan), *exposure, *costs, *_offers(plan)]


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
    column, levels, strata = plan.columns[0], plan.survey.levels, plan.survey.strata
    if plan.splits:
        return _sums(plan)
    if len(plan.columns) > 1:
        return [say("level_record", budget=plan.level)]
    law = plan.distribution.law(column.level, plan.limits(column))
    if isinstance(law, Coin):
        return [say("level_answers", wrong=float(law.wrong))]
    if levels is not None:
        said = [say("level_column", column=plan.privacy.level_column, level=column.level)]
        said.append(say("level_mean", mean=levels.mean))
        if levels.withheld:
            said.append(say("withheld", withheld=levels.withheld))
        return said
    said = [say("level", level=column.level)]
    if strata is not None:
        said.append(say("level_person"))
        capped = plan.model.most_rows is not None
        if not capped and strata.rows[-1] >= UNEQUAL * strata.usual:
            said.append(say("persons_unequal", largest=strata.largest, usual=strata.usual))
        elif not capped:
            said.append(say("persons_cap"))
    plain = plan.model.family == "gaussian" and law == "gaussian"
    if plain and plan.ends(column) == (0.0, 1.0):
        said.append(say("answers_hint"))
    return said


def _sums(plan: Plan) -> list[Sentence]:
    """What leaves in the aggregate form, and how good its weights are."""
    own, design = plan.splits[0], plan.survey.sums
    assert design is not None
    cut, privacy = plan.privacy.row_weights == "cut", plan.privacy
    said = [say("sums_leave"), squares_sentence(plan)]
    if privacy.pilot is not None:
        said.append(say("sums_pilot", share=privacy.pilot))
    if privacy.within is not None:
        said.append(say("sums_within", within=privacy.within))
    said.append(say("sums_alike" if cut else "sums_all"))
    if plan.model.person is not None:
        return said
    variance = plan.columns[0].residual_variance
    share = design.efficiency(own.level, variance)
    best = "sums_best" if variance is not None else "sums_best_noise"
    said.append(say(best, share=math.floor(share * 1000) / 1000))
    if share < LITTLE and variance is not None and not cut and plan.model.family == "gaussian":
        said.append(say("sums_cut"))
    relative = plan.errors(plan.columns[0]).relative
    if relative is not None and np.isfinite(relative).all():
        said.append(say("sums_rel", low=float(relative.min()), high=float(relative.max())))
    if plan.privacy.epsilon is not None and own.kind != "none":
        said.append(say("sums_exposure", exposure=own.exposure))
    return said


def squares_sentence(plan: Plan) -> Sentence:
    """What gives the intervals of the aggregate form, and what it costs."""
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

    alone: `private` is what privacy alone adds. guesses: by the residual sd.
    """

    target: str
    names: tuple[str, ...]
    open: Array | None
    private: Array
    alone: bool
    guesses: Mapping[float, Array]


def planned_errors(plan: Plan) -> list[Errors]:
    """Of every private column of a plan."""
    return [_planned(plan, column) for column in plan.columns]


def _planned(plan: Plan, column: Column) -> Errors:
    found = plan.errors(column)
    if np.isfinite(found.classical).all():
        return Errors(column.target, plan.names, found.classical, found.total, False, {})
    limits, guesses = plan.limits(column), {}
    sds = [] if limits is None else [share * limits.width for share in FRACTIONS]
    for sd in sds if plan.survey.levels is None else []:
        guesses[sd] = plan.errors(replace(column, residual_variance=sd * sd)).total
    return Errors(column.target, plan.names, None, found.privacy, True, guesses)


def errors_expected(plan: Plan) -> Section:
    """The standard errors of a plan, what they are for, and what other levels would give."""
    every = planned_errors(plan)
    parts: list[Part] = [_errors_table(every), *_residual(plan, every)]
    if len(every) == 1:
        parts += _ratio(plan, every[0])
        parts += curve_of(plan)
    return section("errors_expected", parts)


def _errors_table(every: Sequence[Errors]) -> Table:
    """Standard errors and 95% half-widths; of one column also those without privacy."""
    header: list[Cell] = [say("coefficient")]
    columns: list[Array] = []
    guesses: Mapping[float, Array] = {} if len(every) > 1 else every[0].guesses
    for one in every:
        word = say("alone" if one.alone else "with")
        if len(every) > 1:
            word = say("of_column", target=one.target, text=word)
        elif one.open is not None:
            header += [say("without"), say("half")]
            columns.append(one.open)
        header += [word, say("half")]
        columns.append(one.private)
    rows = []
    for j, name in enumerate(every[0].names):
        pairs = [(float(own[j]), kind) for own in columns for kind in ("se", "half")]
        pairs += [(float(guess[j]), "se") for guess in guesses.values()]
        rows.append((name, *(Number(*pair) for pair in pairs)))
    return table([*header, *(say("if_sd", sd=sd) for sd in guesses)], rows)


def _residual(plan: Plan, every: Sequence[Errors]) -> list[Sentence]:
    """What the errors are for: the residual variance, or what is expected of the outcome."""
    column, expected = plan.columns[0], expected_mean(plan)
    if expected is not None:
        key, read = "expected_mean", "read_count"
        if plan.model.family == "binomial":
            key, read = "expected_share", "read_odds"
        return [say(read), say(key, guess=expected[0], source=say(expected[1]))]
    variance = column.residual_variance
    if variance is None:
        hidden = plan.splits and plan.splits[0].kind == "none"
        said = [say("residual_not_shown" if hidden else "residual_unknown")]
        if len(every) == 1 and every[0].guesses:
            said.append(say("residual_fractions"))
        if plan.rows <= len(plan.names):
            said.append(warn("residual_none"))
        return said
    if plan.survey.strata is not None:
        return [say("residual_persons", variance=variance)]
    if column.reference_rows is None:
        return [say("residual_stated", variance=variance)]
    return [say("residual_reference", variance=variance, rows=column.reference_rows)]


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
    if plan.distribution.bits and plan.epsilon is not None:
        useful = coin_rows(plan.epsilon, 0.5, plan.rows)[0]
        if useful < ENOUGH:
            said.append(warn("few_answers", needed=math.ceil(ENOUGH / useful * plan.rows)))
    return said


def curve_of(plan: Plan) -> list[Part]:
    """Errors at other levels, as multiples of those without privacy: a sentence and a chart."""
    errors, column = planned_errors(plan)[0], plan.columns[0]
    if plan.splits:
        return _other_epsilons(plan, errors)
    if plan.survey.levels is not None or len(plan.columns) > 1 or plan.distribution.bits:
        return []
    if errors.open is not None:
        levels, found = plan.curve()
        at = [column.level * times for times in LEVELS]
        ratios = [float(plan.errors(column, s).total[0] / errors.open[0]) for s in at]
        points = [say("level_point", ratio=one, level=s) for s, one in zip(at, ratios)]
        said = say("other_levels", points=points)
        return [said, _curve(levels, [found[:, 0] / errors.open[0]], column.level, said)]
    if not errors.guesses or plan.survey.strata is not None:
        return []
    added = plan.distribution.variance(column.level, plan.limits(column), simulated=False)
    levels = column.level * np.geomspace(1e-2, 1e2, 41)
    lines = [np.sqrt(1 + added * column.level / levels / sd**2) for sd in errors.guesses]
    now = [math.sqrt(1 + added / sd**2) for sd in errors.guesses]
    said = say("ratio_fractions", ratio=now)
    return [said, _curve(levels, lines, column.level, said)]


def _other_epsilons(plan: Plan, errors: Errors) -> list[Part]:
    """Errors of noisy sums at other ε, as multiples of those without privacy."""
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


def _curve(levels: Array, lines: Sequence[Array], chosen: float, alt: Sentence) -> Chart:
    data = {"levels": levels, "lines": lines, "chosen": chosen}
    return Chart("curve", data, alt, say("curve_caption"))


def clipping_sentences(plan: Plan) -> list[Sentence]:
    """What share the range clips and what that costs, as far as it is known."""
    span = plan.ends(plan.columns[0])
    if len(plan.columns) > 1 or span is None or plan.distribution.bits:
        return []
    ends = {"low": span[0], "high": span[1]}
    if plan.splits and plan.model.family != "binomial":
        said = [say("clip_sums", **ends)]
        if plan.privacy.within is not None:
            said = [say("clip_within", within=plan.privacy.within)]
        return [*said, say("clip_far", far=_far(plan.rows))]
    if plan.splits:
        return []
    if plan.distribution.pure or plan.model.family != "gaussian":
        return [say("clip_target", **ends)]
    cost: Any = plan.clipping[0]
    if cost is None:
        return [say("clip_later", **ends)]
    if not hasattr(cost, "one_end"):
        return _expected_clipping(plan, cost, ends)
    points = [
        say("clip_point", ratio=float(np.interp(share, cost.share, cost.one_end)), share=share)
        for share in CLIPPED
    ]
    said = [say("clip_unknown", **ends)]
    if cost.least_share is not None and cost.least_share >= NEXT_TO_NONE:
        said.append(say("clip_least", least=cost.least_share))
    return [*said, say("clip_cost", points=points)]


def _far(rows: int) -> float:
    """How many residual sd the ends should be away, for a bias of at most 0.1 standard errors.

    √K·(φ(t) − tΦ(−t)) = 0.1, for normal residuals at one end (curator.md §4).
    """
    t = np.linspace(0.0, 10.0, 10_001)
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    bias = math.sqrt(rows) * (density - t * scipy.special.ndtr(-t))
    return float(t[np.argmax(bias <= 0.1)])


def _expected_clipping(plan: Plan, cost: Any, ends: dict[str, float]) -> list[Sentence]:  # noqa: ANN401
    if cost.share < NEXT_TO_NONE:
        said = [say("clip_none", **ends, share=cost.share)]
    else:
        worst, ratio = int(np.argmax(cost.least_squares_ratio)), float(cost.variance_ratio.max())
        said = [
            say("clip_some", **ends, share=cost.share, ratio=ratio),
            say("clip_bias", bias=float(cost.bias[worst]), name=plan.names[worst]),
        ]
    for name in plan.privacy.standard_error or {}:
        error = float(cost.standard_error[plan.index(name)])
        said.append(say("clip_missed", name=name, error=error))
    return said


def _offers(plan: Plan) -> list[Section]:
    """Gaussian and Laplace noise at the ε that was asked for."""
    every = plan.offers()
    if not every:
        return []
    variances = {one.distribution: one.variance for one in every}
    least = min(variances.values())
    rows = []
    for one in every:
        promise = say("promise_delta", delta=one.delta) if one.delta else say("promise_pure")
        costs = Number(one.variance, "near"), Number(one.variance / least, "near")
        rows.append((one.distribution, *costs, right(one.guess), promise))
    keys = ("distribution", "noise_variance", "rows_needed", "right_at_ends", "promise")
    caption = say("offer_table", width=plan.sensitivity(plan.column) or 1.0)
    parts: list[Part] = [table(keys, rows, caption), say("offer_rows"), say("offer_attack")]
    best, mine = min(variances, key=lambda name: variances[name]), plan.distribution.name
    if best != mine:
        ratio = variances[mine] / least
        parts.append(say("offer_better", name=best.capitalize(), ratio=ratio))
    heading = say("distributions", epsilon=every[0].epsilon)
    return [Section("distributions", heading, tuple(parts))]
