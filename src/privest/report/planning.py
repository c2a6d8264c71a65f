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
from privest.report.sections import Cell, Chart, Number, Part, Section, Sentence, Table
from privest.workflow import Column, Plan

SAME = 1.005  # errors that differ by less are the same to a reader
LEVELS = (0.1, 1 / 3, 1.0, 3.0, 10.0)  # times the chosen one
CLIPPED = (0.05, 0.2)  # shares for which the cost of clipping is told
UNEQUAL = 20  # times the usual number of rows: beyond it a cap is worth a word
ENOUGH = 200.0  # rows × (1 − 2q)² from which on a logistic fit of answers is of use


def of_plan(
    plan: Plan, exposure: Sequence[Section], *, wanted: Mapping[str, int] | None = None
) -> list[Section]:
    """What a plan costs and reveals. wanted: how many rows each NAME=ERROR takes."""
    parts: list[Part] = [*_size(plan), *_level(plan)]
    parts += [_rows_wanted(plan, want, rows) for want, rows in (wanted or {}).items()]
    sections = [Section("plan", Sentence("plan"), tuple(parts)), errors_expected(plan)]
    sections += exposure
    if cost := _clipping(plan):
        sections.append(Section("range", Sentence("range"), tuple(cost)))
    return [*sections, *_offers(plan)]


def _size(plan: Plan) -> list[Sentence]:
    values = {"rows": plan.rows, "coefficients": len(plan.names), "columns": len(plan.columns)}
    said = [Sentence("plan_size" if len(plan.columns) == 1 else "plan_columns", values)]
    strata = plan.survey.strata
    if strata is not None:
        first, last = int(strata.rows[0]), int(strata.rows[-1])
        rows = f"{first}" if first == last else f"{first} to {last:,}"
        counts = {"persons": strata.count, "rows": rows, "mean": strata.mean_rows}
        said.append(Sentence("plan_persons", counts))
        if strata.cut:
            said.append(Sentence("cut", {"most": plan.most, "cut": strata.cut}))
    if plan.dropped:
        said.append(Sentence("dropped", {"dropped": plan.dropped}))
    if plan.model.missing == "drop":
        said.append(Sentence("missing_public", warning=True))
    if plan.model.weights is not None:
        said.append(Sentence("weights", {"column": plan.model.weights}))
    return said


def _level(plan: Plan) -> list[Sentence]:
    column, levels, strata = plan.columns[0], plan.survey.levels, plan.survey.strata
    if plan.splits:
        return _sums(plan)
    if len(plan.columns) > 1:
        return [Sentence("level_record", {"budget": plan.level})]
    law = plan.distribution.law(column.level, plan.limits(column))
    if isinstance(law, Coin):
        return [Sentence("level_answers", {"wrong": float(law.wrong)})]
    if levels is not None:
        values = {"column": plan.privacy.level_column, "level": column.level}
        said = [Sentence("level_column", values), Sentence("level_mean", {"mean": levels.mean})]
        if levels.withheld:
            said.append(Sentence("withheld", {"withheld": levels.withheld}))
        return said
    said = [Sentence("level", {"level": column.level})]
    if strata is not None:
        said.append(Sentence("level_person"))
        capped = plan.model.most_rows is not None
        if not capped and strata.rows[-1] >= UNEQUAL * strata.usual:
            values = {"largest": strata.largest, "usual": strata.usual}
            said.append(Sentence("persons_unequal", values))
        elif not capped:
            said.append(Sentence("persons_cap"))
    plain = plan.model.family == "gaussian" and law == "gaussian"
    if plain and plan.ends(column) == (0.0, 1.0):
        said.append(Sentence("answers_hint"))
    return said


def _sums(plan: Plan) -> list[Sentence]:
    """What leaves in the aggregate form, and how good its weights are."""
    own, design = plan.splits[0], plan.survey.sums
    assert design is not None
    kind = own.kind if plan.model.family == "gaussian" else "scores"
    values = {"share": own.share, "coefficients": len(plan.names)}
    variance = plan.columns[0].residual_variance
    share = design.efficiency(own.level, variance)
    best = "sums_best" if variance is not None else "sums_best_noise"
    said = [Sentence("sums_leave"), Sentence(f"sums_{kind}", values), Sentence("sums_all", values)]
    said.append(Sentence(best, {"share": math.floor(share * 1000) / 1000}))
    if plan.model.person is None and plan.privacy.epsilon is not None:
        said.append(Sentence("sums_exposure", {"exposure": own.exposure}))
    return said


def _rows_wanted(plan: Plan, want: str, rows: int) -> Sentence:
    if plan.survey.strata is None:
        return Sentence("rows_wanted", {"want": want, "rows": rows})
    persons = math.ceil(rows / plan.survey.strata.mean_rows)
    return Sentence("persons_wanted", {"want": want, "persons": persons})


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
    parts: list[Part] = [_several(every)] if len(every) > 1 else [_one(every[0])]
    parts += _residual(plan, every)
    if len(every) == 1:
        parts += _ratio(plan, every[0])
        parts += curve_of(plan)
    return Section("errors_expected", Sentence("errors_expected"), tuple(parts))


def _two(error: float) -> tuple[Cell, Cell]:
    return Number(error, "se"), Number(error, "half")


def _one(errors: Errors) -> Table:
    half = Sentence("half")
    header: list[Cell] = [Sentence("coefficient")]
    if errors.open is not None:
        header += [Sentence("without"), half]
    header += [Sentence("alone" if errors.alone else "with"), half]
    header += [Sentence("if_sd", {"sd": sd}) for sd in errors.guesses]
    rows = []
    for j, name in enumerate(errors.names):
        row: list[Cell] = [name]
        if errors.open is not None:
            row += _two(float(errors.open[j]))
        row += _two(float(errors.private[j]))
        row += [Number(float(guess[j]), "se") for guess in errors.guesses.values()]
        rows.append(tuple(row))
    return Table(tuple(header), tuple(rows))


def _several(every: Sequence[Errors]) -> Table:
    word = Sentence("alone" if every[0].alone else "with")
    header: list[Cell] = [Sentence("coefficient")]
    for one in every:
        header += [Sentence("of_column", {"target": one.target, "text": word}), Sentence("half")]
    rows = [
        (name, *(cell for one in every for cell in _two(float(one.private[j]))))
        for j, name in enumerate(every[0].names)
    ]
    return Table(tuple(header), tuple(rows))


def _residual(plan: Plan, every: Sequence[Errors]) -> list[Sentence]:
    """What the errors are for: the residual variance, or what is expected of the outcome."""
    column, expected = plan.columns[0], expected_mean(plan)
    if expected is not None:
        key, read = "expected_mean", "read_count"
        if plan.model.family == "binomial":
            key, read = "expected_share", "read_odds"
        values = {"guess": expected[0], "source": Sentence(expected[1])}
        return [Sentence(read), Sentence(key, values)]
    variance = column.residual_variance
    if variance is None:
        said = [Sentence("residual_unknown")]
        if len(every) == 1 and every[0].guesses:
            said.append(Sentence("residual_fractions"))
        if plan.rows <= len(plan.names):
            said.append(Sentence("residual_none", warning=True))
        return said
    if plan.survey.strata is not None:
        return [Sentence("residual_persons", {"variance": variance})]
    if column.reference_rows is None:
        return [Sentence("residual_stated", {"variance": variance})]
    return [Sentence("residual_reference", {"variance": variance, "rows": column.reference_rows})]


def _ratio(plan: Plan, errors: Errors) -> list[Sentence]:
    if errors.open is None:
        return []
    ratios = errors.private / errors.open
    low, high = float(ratios.min()), float(ratios.max())
    said = [Sentence("ratio_one")]
    if high >= SAME:
        said = [Sentence("ratio", {"ratio": (low, high), "share": 1 - (1 / float(ratios[0])) ** 2})]
    if not plan.distribution.pure and plan.model.family == "gaussian":
        return said
    share = (1 / high) ** 2
    said.append(
        Sentence(
            "worth", {"share": share, "rows": plan.rows, "worth": math.floor(plan.rows * share)}
        )
    )
    if plan.distribution.bits and plan.epsilon is not None:
        useful = coin_rows(plan.epsilon, 0.5, plan.rows)[0]
        if useful >= ENOUGH:
            return said
        needed = math.ceil(ENOUGH / useful * plan.rows)
        said.append(Sentence("few_answers", {"needed": needed}, warning=True))
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
        at = [plan.errors(column, column.level * times).total[0] for times in LEVELS]
        ratios = [one / errors.open[0] for one in at]
        points = [
            Sentence("level_point", {"ratio": float(one), "level": column.level * times})
            for times, one in zip(LEVELS, ratios)
        ]
        said = Sentence("other_levels", {"points": points})
        return [said, _curve(levels, [found[:, 0] / errors.open[0]], column.level, said)]
    if not errors.guesses or plan.survey.strata is not None:
        return []
    added = plan.distribution.variance(column.level, plan.limits(column), simulated=False)
    levels = column.level * np.geomspace(1e-2, 1e2, 41)
    lines = [np.sqrt(1 + added * column.level / levels / sd**2) for sd in errors.guesses]
    now = [math.sqrt(1 + added / sd**2) for sd in errors.guesses]
    said = Sentence("ratio_fractions", {"ratio": now})
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
        points.append(Sentence("epsilon_point", {"ratio": ratio, "epsilon": epsilon * times}))
    return [Sentence("other_epsilons", {"points": points})]


def _curve(levels: Array, lines: Sequence[Array], chosen: float, alt: Sentence) -> Chart:
    data = {"levels": levels, "lines": lines, "chosen": chosen}
    return Chart("curve", data, alt, Sentence("curve_caption"))


def _clipping(plan: Plan) -> list[Sentence]:
    """What share the range clips and what that costs, as far as it is known."""
    span = plan.ends(plan.columns[0])
    if len(plan.columns) > 1 or span is None or plan.distribution.bits:
        return []
    ends = {"low": span[0], "high": span[1]}
    if plan.splits and plan.model.family != "binomial":
        return [Sentence("clip_sums", ends), Sentence("clip_far", {"far": _far(plan.rows)})]
    if plan.splits:
        return []
    if plan.distribution.pure or plan.model.family != "gaussian":
        return [Sentence("clip_target", ends)]
    cost: Any = plan.clipping[0]
    if cost is None:
        return [Sentence("clip_later", ends)]
    if not hasattr(cost, "one_end"):
        return _expected_clipping(plan, cost, ends)
    points = [
        Sentence("clip_point", {"ratio": float(np.interp(share, cost.share, cost.one_end)),
                                "share": share})
        for share in CLIPPED
    ]  # fmt: skip
    said = [Sentence("clip_unknown", ends)]
    if cost.least_share is not None and cost.least_share >= NEXT_TO_NONE:
        said.append(Sentence("clip_least", {"least": cost.least_share}))
    return [*said, Sentence("clip_cost", {"points": points})]


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
        said = [Sentence("clip_none", ends | {"share": cost.share})]
    else:
        worst = int(np.argmax(cost.least_squares_ratio))
        ratio = float(cost.variance_ratio.max())
        said = [
            Sentence("clip_some", ends | {"share": cost.share, "ratio": ratio}),
            Sentence("clip_bias", {"bias": float(cost.bias[worst]), "name": plan.names[worst]}),
        ]
    for name in plan.privacy.standard_error or {}:
        error = float(cost.standard_error[plan.index(name)])
        said.append(Sentence("clip_missed", {"name": name, "error": error}))
    return said


def _offers(plan: Plan) -> list[Section]:
    """Gaussian and Laplace noise at the ε that was asked for."""
    every = plan.offers()
    if not every:
        return []
    variances = {one.distribution: one.variance for one in every}
    least = min(variances.values())
    width = plan.sensitivity(plan.column) or 1.0
    keys = ("distribution", "noise_variance", "rows_needed", "right_at_ends", "promise")
    table = Table(
        tuple(Sentence(key) for key in keys),
        tuple(
            (one.distribution, Number(one.variance, "near"),
             Number(one.variance / least, "near"), right(one.guess),
             Sentence("promise_delta", {"delta": one.delta}) if one.delta
             else Sentence("promise_pure"))
            for one in every
        ),
        Sentence("offer_table", {"width": width}),
    )  # fmt: skip
    parts: list[Part] = [table, Sentence("offer_rows"), Sentence("offer_attack")]
    best, mine = min(variances, key=lambda name: variances[name]), plan.distribution.name
    if best != mine:
        values = {"name": best.capitalize(), "ratio": variances[mine] / least}
        parts.append(Sentence("offer_better", values))
    heading = Sentence("distributions", {"epsilon": every[0].epsilon})
    return [Section("distributions", heading, tuple(parts))]
