"""Sections of a plan, a release, an estimate, a verification: the one place that reads them.

Every number is public: a function of the plan's public inputs, or of a release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.privacy import OneRecord, PrivacyLevel, grid_statement
from privest.privacy.reader import DELTA
from privest.report.exposure import FRACTIONS, Private, exposure, right
from privest.report.findings import fits_of, left_out, level_of, of_estimate
from privest.report.numbers import NEXT_TO_NONE
from privest.report.sections import Cell, Chart, Number, Part, Section, Sentence, Table
from privest.workflow import Account, Estimate, Plan, TableRelease, Verified
from privest.workflow._law_plan import offered

SAME = 1.005  # errors that differ by less are the same to a reader
LEVELS = (0.1, 1 / 3, 1.0, 3.0, 10.0)  # times the chosen one
CLIPPED = (0.05, 0.2)  # shares for which the cost of clipping is told
ENOUGH = 200.0  # rows × (1 − 2q)² from which on a logistic fit of answers is of use


def describe(found: Plan | TableRelease | Estimate | Verified, **how: Any) -> list[Section]:  # noqa: ANN401
    """The sections of what the workflow makes; `how`: see of_plan, of_release, of_estimate.

    An estimate also takes the `plan` of its release, for errors at other levels.
    """
    if isinstance(found, Estimate):
        plan = how.pop("plan", None)
        curve = [] if plan is None or len(found.release.columns) > 1 else curve_of(plan)
        return of_estimate(found, exposure=exposed(found), curve=curve, **how)
    if isinstance(found, Plan):
        return of_plan(found, **how)
    if isinstance(found, TableRelease):
        return of_release(found, **how)
    return of_verification(found)


# --- exposure: of a plan, a header or an estimate -------------------------------------------------


def exposed(found: Plan | TableRelease | Estimate, *, apart: float | None = None) -> Section:
    """The exposure panel; apart: a difference that matters, in modelled units."""
    whole: Any = found
    if isinstance(found, Estimate):
        whole, fits = found.release, fits_of(found)
        variances = [_estimated(one) for one in fits]
        joint = getattr(found, "joint", None)
        covariance = None if joint is None else joint.shown_covariance
        rows = whole.rows
    else:
        variances = [None] * len(found.columns)
        covariance, rows = getattr(found, "covariance", None), found.rows
    leverage = min(len(whole.names) / max(rows, 1), 0.999)
    if isinstance(found, Plan) and len(found.columns) == 1:
        apart = found.spec.privacy.tolerance if apart is None else apart
    columns = [
        _private(column, known, apart, leverage, _share_of(found), _family(found))
        for column, known in zip(whole.columns, variances)
    ]
    delta = _delta(whole.columns)
    return exposure(
        columns, _epsilon(whole.columns, delta), delta,
        covariance=covariance, unenforced=_unenforced(whole.columns, found),
    )  # fmt: skip


def _family(found: Plan | TableRelease | Estimate) -> str:
    if isinstance(found, Plan):
        return str(found.spec.family)
    return str(found.release.family if isinstance(found, Estimate) else found.family)


def _share_of(found: object) -> tuple[float, str] | None:
    """What is expected of a yes/no or a count: the guess of a plan, and its source."""
    guess = getattr(found, "guess", None)
    if guess is None:
        return None
    return float(guess), "stated" if getattr(found, "stated", False) else "assumed"


def _estimated(fit: Estimate) -> tuple[float, bool] | None:
    """σ² as the release shows it; where that is zero its upper 95% limit."""
    if fit.noise_found is None or fit.release.column.person is not None:
        return None
    if fit.noise_found > 0:
        return fit.noise_found, False
    upper = 0.0 if fit.noise_interval is None else fit.noise_interval[1]
    return (upper, True) if upper > 0 else None


def _private(
    column: Any,  # noqa: ANN401
    known: tuple[float, bool] | None,
    apart: float | None,
    leverage: float,
    expected: tuple[float, str] | None,
    family: str,
) -> Private:
    variance, source = column.noise_variance, "stated"
    if column.reference_rows is not None:
        source = "estimated"
    if known is not None:
        variance, source = known[0], "estimated"
    share = None
    if family == "binomial":
        share, source = expected or (0.5, "assumed")
    elif family == "poisson" and expected is not None and expected[1] == "stated":
        variance, source = expected
    return Private(
        target=column.target,
        level=column.level,
        distribution=str(column.law),
        logarithm=column.transform == "log",
        ends=column.range,
        width=None if column.limits is None else column.limits.width,
        sd=None if variance is None else math.sqrt(variance),
        source=source,
        limit=known is not None and known[1],
        leverage=leverage,
        rows=None if column.person is None else column.person.rows,
        share=share,
        apart=apart,
        largest=column.level_column is not None,
    )


def _delta(columns: Sequence[Any]) -> float:
    if columns[0].law != "gaussian":
        return 0.0
    return DELTA if columns[0].delta is None else float(columns[0].delta)


def _epsilon(columns: Sequence[Any], delta: float) -> float | None:
    """ε of all values of a person replaced anywhere in their ranges; None without them."""
    if any(one.limits is None for one in columns):
        return None
    if len(columns) == 1:
        whole = replace(columns[0], move=None, delta=delta or None)
        return float(whole.epsilon)
    widths = OneRecord([one.limits.width for one in columns])
    level = PrivacyLevel([one.level for one in columns])
    return grid_statement(level, move=widths, delta=delta).epsilon


def _unenforced(columns: Sequence[Any], found: object) -> tuple[float, float] | None:
    """A stated difference that no range enforces, and its ε."""
    first, epsilon = columns[0], getattr(found, "epsilon", None)
    if first.move is None or epsilon is None:
        return None
    if all(one.limits is not None and one.move >= one.limits.width for one in columns):
        return None
    return first.move / (first.scale or 1.0), float(epsilon)


# --- a plan ---------------------------------------------------------------------------------------


def of_plan(
    plan: Plan, *, wanted: Mapping[str, int] | None = None, apart: float | None = None
) -> list[Section]:
    """What a plan costs and reveals. wanted: how many rows each NAME=ERROR takes."""
    parts: list[Part] = [*_size(plan), *_level(plan)]
    parts += [_rows_wanted(plan, want, rows) for want, rows in (wanted or {}).items()]
    sections = [Section("plan", Sentence("plan"), tuple(parts)), errors_expected(plan)]
    sections.append(exposed(plan, apart=apart))
    if cost := _clipping(plan):
        sections.append(Section("range", Sentence("range"), tuple(cost)))
    return [*sections, *_offers(plan)]


def _size(plan: Plan) -> list[Sentence]:
    values = {"rows": plan.rows, "coefficients": len(plan.names), "columns": len(plan.columns)}
    said = [Sentence("plan_size" if len(plan.columns) == 1 else "plan_columns", values)]
    people = plan.people
    if people is not None:
        first, last = int(people.rows[0]), int(people.rows[-1])
        rows = f"{first}" if first == last else f"{first} to {last:,}"
        said.append(
            Sentence(
                "plan_persons", {"persons": people.persons, "rows": rows, "mean": people.mean_rows}
            )
        )
        if people.cut:
            said.append(Sentence("cut", {"most": people.person.rows, "cut": people.cut}))
    if plan.dropped:
        said.append(Sentence("dropped", {"dropped": plan.dropped}))
    if plan.spec.missing == "drop":
        said.append(Sentence("missing_public", warning=True))
    if plan.spec.weights is not None:
        said.append(Sentence("weights", {"column": plan.spec.weights.column}))
    return said


def _level(plan: Plan) -> list[Sentence]:
    column = plan.columns[0]
    if len(plan.columns) > 1:
        budget = sum(c.level * (c.scale or 1.0) ** 2 for c in plan.columns)
        return [Sentence("level_record", {"budget": budget})]
    if column.law == "coin":
        return [Sentence("level_answers", {"wrong": float(column.coin.wrong)})]
    if column.level_column is not None:
        values = {"column": column.level_column, "level": column.level}
        rows: Any = plan  # has what the levels of its rows add up to
        said = [Sentence("level_column", values), Sentence("level_mean", {"mean": rows.mean_level})]
        if rows.withheld:
            said.append(Sentence("withheld", {"withheld": rows.withheld}))
        return said
    said = [Sentence("level", {"level": column.level})]
    if plan.people is not None:
        said.append(Sentence("level_person"))
        if plan.people.advice is not None:
            usual = int(np.median(np.repeat(plan.people.rows, plan.people.people)))
            values = {"largest": plan.people.largest, "usual": usual}
            said.append(Sentence("persons_unequal", values))
        elif not plan.people.person.capped:
            said.append(Sentence("persons_cap"))
    if plan.spec.family == "gaussian" and column.law == "gaussian" and column.range == (0.0, 1.0):
        said.append(Sentence("answers_hint"))
    return said


def _rows_wanted(plan: Plan, want: str, rows: int) -> Sentence:
    if plan.people is None:
        return Sentence("rows_wanted", {"want": want, "rows": rows})
    persons = math.ceil(rows / plan.people.mean_rows)
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
    return [_planned(part) for part in getattr(plan, "plans", (plan,))]


def _planned(plan: Plan) -> Errors:
    column, expected = plan.column, getattr(plan, "guess", None)
    open_ = np.asarray(plan.classical_error)
    known = bool(np.isfinite(open_).all())
    if known or expected is not None:
        return Errors(
            column.target, plan.names, open_ if known else None, plan.standard_error, False, {}
        )
    added, guesses = column.added(simulated=False), {}
    alone = plan.standard_error if column.law != "gaussian" else plan.privacy_error
    sds = [] if column.limits is None else [share * column.limits.width for share in FRACTIONS]
    for sd in sds if column.level_column is None else []:
        if plan.people is None:
            guesses[sd] = alone * math.sqrt(1 + sd * sd / added)
        else:
            guesses[sd] = plan.people.errors(plan.level, sd * sd / 2, sd * sd / 2)
    return Errors(column.target, plan.names, None, alone, True, guesses)


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
    column, expected = plan.columns[0], _share_of(plan)
    if expected is not None:
        key, read = "expected_mean", "read_count"
        if plan.spec.family == "binomial":
            key, read = "expected_share", "read_odds"
        values = {"guess": expected[0], "source": Sentence(expected[1])}
        return [Sentence(read), Sentence(key, values)]
    variance = column.noise_variance
    if variance is None:
        said = [Sentence("residual_unknown")]
        if len(every) == 1 and every[0].guesses:
            said.append(Sentence("residual_fractions"))
        if plan.rows <= len(plan.names):
            said.append(Sentence("residual_none", warning=True))
        return said
    if plan.people is not None:
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
        said = [Sentence("ratio", {"ratio": (low, high), "share": 1 - 1 / float(ratios[0]) ** 2})]
    if plan.columns[0].law == "gaussian" and plan.spec.family == "gaussian":
        return said
    share = 1 / high**2
    said.append(
        Sentence(
            "worth", {"share": share, "rows": plan.rows, "worth": math.floor(plan.rows * share)}
        )
    )
    useful = getattr(plan, "usefulness", None)
    if useful is not None and useful < ENOUGH:
        needed = math.ceil(ENOUGH / useful * plan.rows)
        said.append(Sentence("few_answers", {"needed": needed}, warning=True))
    return said


def curve_of(plan: Plan) -> list[Part]:
    """Errors at other levels, as multiples of those without privacy: a sentence and a chart."""
    errors, column = planned_errors(plan)[0], plan.columns[0]
    if column.level_column is not None or len(plan.columns) > 1 or column.law == "coin":
        return []
    if errors.open is not None:
        levels, found = plan.curve()
        ratios = [plan.errors_at(column.level * x)[0] / errors.open[0] for x in LEVELS]
        points = [
            Sentence("level_point", {"ratio": float(one), "level": column.level * times})
            for times, one in zip(LEVELS, ratios)
        ]
        said = Sentence("other_levels", {"points": points})
        return [said, _curve(levels, [found[:, 0] / errors.open[0]], column.level, said)]
    if not errors.guesses or plan.people is not None:
        return []
    added, levels = column.added(simulated=False), column.level * np.geomspace(1e-2, 1e2, 41)
    lines = [np.sqrt(1 + added * column.level / levels / sd**2) for sd in errors.guesses]
    now = [math.sqrt(1 + added / sd**2) for sd in errors.guesses]
    said = Sentence("ratio_fractions", {"ratio": now})
    return [said, _curve(levels, lines, column.level, said)]


def _curve(levels: Array, lines: Sequence[Array], chosen: float, alt: Sentence) -> Chart:
    data = {"levels": levels, "lines": lines, "chosen": chosen}
    return Chart("curve", data, alt, Sentence("curve_caption"))


def _clipping(plan: Plan) -> list[Sentence]:
    """What share the range clips and what that costs, as far as it is known."""
    if len(plan.columns) > 1 or plan.columns[0].range is None or plan.columns[0].law == "coin":
        return []
    low, high = plan.columns[0].range
    ends = {"low": low, "high": high}
    if plan.columns[0].law != "gaussian" or plan.spec.family != "gaussian":
        return [Sentence("clip_target", ends)]
    cost: Any = plan.clipping
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
    for name in plan.spec.privacy.wanted:
        error = float(cost.standard_error[plan.index(name)])
        said.append(Sentence("clip_missed", {"name": name, "error": error}))
    return said


def _offers(plan: Plan) -> list[Section]:
    """Gaussian and Laplace noise at the ε that was asked for."""
    every = offered(plan)
    if not every:
        return []
    variances = {one.law: one.variance for one in every}
    least = min(variances.values())
    width = plan.move or 1.0
    keys = ("distribution", "noise_variance", "rows_needed", "right_at_ends", "promise")
    table = Table(
        tuple(Sentence(key) for key in keys),
        tuple(
            (str(one.law), Number(one.variance * width**2, "near"),
             Number(variances[one.law] / least, "near"), right(one.guess),
             Sentence("promise_delta", {"delta": one.delta}) if one.delta
             else Sentence("promise_pure"))
            for one in every
        ),
        Sentence("offer_table", {"width": width}),
    )  # fmt: skip
    parts: list[Part] = [table, Sentence("offer_rows"), Sentence("offer_attack")]
    best, mine = min(variances, key=lambda law: variances[law]), plan.columns[0].law
    if best != mine:
        values = {"name": str(best).capitalize(), "ratio": variances[mine] / least}
        parts.append(Sentence("offer_better", values))
    heading = Sentence("distributions", {"epsilon": every[0].epsilon})
    return [Section("distributions", heading, tuple(parts))]


# --- a release ------------------------------------------------------------------------------------


def of_release(
    header: TableRelease, *, paths: tuple[Path, Path] | None = None, account: Account | None = None
) -> list[Section]:
    """What was released, where it is, and what the ledger says of it."""
    parts: list[Part] = [Sentence("released", {"rows": header.rows, "level": level_of(header)})]
    parts += left_out(header)
    if paths is not None:
        keys = ("file_table", "file_header")
        parts += [Sentence(key, {"path": str(path)}) for key, path in zip(keys, paths)]
    if header.simulated:
        parts.append(Sentence("simulated", warning=True))
    if account is not None and header.entry is not None:
        parts += [
            Sentence("file_ledger", {"path": str(account.path)}),
            Sentence(
                "entry",
                {"sequence": header.entry.sequence, "subject": account.subject,
                 "left": budget_left(account)},
            ),
            Sentence("head", {"head": str(account.ledger.head)}),
        ]  # fmt: skip
    return [Section("release", Sentence("release"), tuple(parts)), exposed(header)]


def budget_left(account: Account) -> Sentence:
    """What the budget of an account leaves."""
    left = account.ledger.remaining(account.subject).level
    return Sentence("left_level", {"level": float(left)}) if left else Sentence("left_none")


def of_verification(found: Verified) -> list[Section]:
    """What was examined of a release, and what was not."""
    key = "whole_charged" if found.signed else "whole_simulated" if found.simulated else "whole"
    first = Sentence(key if found.verified else "not_verified", {"path": str(found.path)})
    parts: list[Part] = [first]
    parts += [Sentence("examined", {"what": what}) for what in found.examined]
    parts += [Sentence("not_examined", {"what": what}) for what in found.not_examined]
    parts.append(Sentence("no_file_shows", {"what": found.no_file_shows}))
    return [Section("verification", Sentence("verification"), tuple(parts))]


# --- levels, without data -------------------------------------------------------------------------


def levels_section(
    found: Sequence[Any], apart: float, spread: float | None, delta: float
) -> Section:
    """Levels by an attacker's rate (`privest levels`)."""
    keys = ["levels_rate", "levels_level", "levels_unbiased"]
    keys += [] if spread is None else ["levels_reader"]
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        reader = [] if one.informed_error is None else [Number(one.informed_error, "down")]
        rows.append(
            (Number(one.chance, "most").text, Number(one.level, "level"),
             Number(one.reading_error, "down"), *reader, Number(one.epsilon, "epsilon"))
        )  # fmt: skip
    table = Table(tuple(Sentence(key) for key in [*keys, "levels_epsilon"]), tuple(rows))
    said = [
        Sentence("levels_rate_is", {"apart": apart}),
        Sentence("levels_unbiased_is"),
        *([] if spread is None else [Sentence("levels_reader_is", {"sd": spread})]),
        Sentence("levels_epsilon_is", {"apart": apart, "delta": delta}),
    ]
    return Section("levels", Sentence("levels"), (table, *said))


def one_level(
    level: float, apart: float, spread: float | None, epsilon: float, delta: float
) -> list[Section]:
    """The panel of one level, for values of which nothing else is known."""
    value = Private(target=Sentence("value").text, level=level, sd=spread, apart=apart)
    said = Section("level", Sentence("levels"), (Sentence("level", {"level": level}),))
    return [said, exposure([value], None, delta, unenforced=(apart, epsilon))]
