"""Sections of an estimate: findings, how the errors were made, what privacy cost, which release."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import privest
from privest.arrays import CONFIDENCE, Array, as_confidence
from privest.report.describe import fits_of, left_out, level_of, whose
from privest.report.planning import SAME, curve_of
from privest.report.sections import (
    Cell,
    Chart,
    Commands,
    Number,
    Part,
    Section,
    Sentence,
    Table,
)
from privest.workflow import Estimate, Plan, TableRelease

INTERCEPT = "intercept"
SMALL = 0.05  # standard errors: what clipping may do to least squares
MOST_NAMED = 4
METHODS = ("HC", "CR2", "Student")  # whose meaning is told
KINDS = {
    "log": "value",
    "binomial": "odds",
    "poisson": "count",
}  # whose coefficients are logarithms


def kind_of(fit: Estimate) -> str | None:
    """Of which logarithms the coefficients are: "log", "binomial", "poisson"; None: of none."""
    family = fit.release.model.family
    name = family if family != "gaussian" else fit.release.model.transform
    return name if name in KINDS else None


# --- findings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coefficient:
    """One coefficient as it is shown; after a logarithm its interval is also one in percent.

    low_open, high_open  of the same data without privacy, around the same estimate; None: unknown.
    """

    name: str
    estimate: float
    error: float
    low: float
    high: float
    low_open: float | None
    high_open: float | None

    @property
    def is_clear(self) -> bool:
        """Whether the interval does not hold zero."""
        return self.low > 0 or self.high < 0

    @property
    def strength(self) -> float:
        """How far zero is from the interval, in its widths."""
        return min(abs(self.low), abs(self.high)) / max(self.high - self.low, 1e-300)

    @property
    def direction(self) -> Sentence:
        return Sentence("higher" if self.estimate > 0 else "lower")


def open_errors(fit: Estimate) -> Array | None:
    """(n,): the errors without privacy; None where they are unknown, or hidden by the noise."""
    plain = fit.classical_error
    if plain is None or not (np.isfinite(plain).all() and (plain > 0).all()):
        return None
    return np.asarray(plain)


def coefficients(fit: Estimate, confidence: float) -> list[Coefficient]:
    """All of them in order."""
    ends, plain, found = fit.interval(confidence), open_errors(fit), []
    for j, name in enumerate(fit.names):
        middle, error = float(fit.estimate[j]), float(fit.standard_error[j])
        low, high = float(ends[j, 0]), float(ends[j, 1])
        less = None if plain is None else min(float(plain[j]) / error, 1.0) * (high - low) / 2
        found.append(
            Coefficient(
                name, middle, error, low, high,
                None if less is None else middle - less,
                None if less is None else middle + less,
            )
        )  # fmt: skip
    return found


def found_section(fit: Estimate, confidence: float, *, several: bool = False) -> Section:
    """The findings of one column: in words, as a table, as a chart."""
    target, header = fit.release.column.target, fit.release
    parts: list[Part] = []
    bounded = bool(np.isfinite(fit.standard_error).all())
    every = coefficients(fit, confidence) if bounded else []
    parts += _finding(fit, every, confidence)
    parts += [Sentence("quoted", {"text": text}, warning=True) for text in fit.warnings]
    if header.simulated:
        parts.append(Sentence("simulated", warning=True))
    parts.append(_table(fit, confidence))
    kind = kind_of(fit)
    details: list[Part] = []
    if every:
        if kind is not None and len(every) > 1:
            parts.append(_percents(target, kind, every, confidence))
        parts.append(_intervals(every, confidence))
        details = [
            Sentence("read_value" if kind is None else f"read_{KINDS[kind]}"
                     if kind != "log" else "read_log"),
            Sentence("read_interval", {"confidence": confidence}),
        ]  # fmt: skip
    heading = Sentence("found_of", {"target": target}) if several else Sentence("found")
    return Section("found", heading, tuple(parts), tuple(details), of=target if several else "")


def _finding(fit: Estimate, every: Sequence[Coefficient], confidence: float) -> list[Sentence]:
    target = fit.release.column.target
    if not every:
        return [Sentence("unbounded", {"target": target}, warning=True)]
    slopes = [one for one in every if one.name != INTERCEPT]
    if not slopes:
        one = every[0]
        values = {
            "target": target, "value": (one.estimate, one.error), "confidence": confidence,
            "ends": (one.low, one.high, one.error),
        }  # fmt: skip
        return [Sentence("mean_found" if kind_of(fit) is None else "log_mean_found", values)]
    clear = sorted((one for one in slopes if one.is_clear), key=lambda one: -one.strength)
    left = _names([one.name for one in slopes if not one.is_clear])
    if not clear:
        values = {"target": target, "names": left, "confidence": confidence}
        return [Sentence("none_clear", values)]
    said = [_clearest(fit, clear[0], confidence)]
    if len(clear) > 1:
        others = [
            Sentence("named", {"name": one.name, "direction": one.direction}) for one in clear[1:]
        ]
        said.append(Sentence("also_clear", {"names": _names(others)}))
    if left:
        said.append(Sentence("open", {"names": left, "confidence": confidence}))
    return said


def _names(names: Sequence[Any]) -> list[Any]:
    if len(names) <= MOST_NAMED:
        return list(names)
    more = Sentence("and_more", {"count": len(names) - MOST_NAMED})
    return [*names[:MOST_NAMED], more]


def _clearest(fit: Estimate, one: Coefficient, confidence: float) -> Sentence:
    kind, target = kind_of(fit), fit.release.column.target
    subject = {"binomial": "subject_odds", "poisson": "subject_count"}.get(kind or "", "subject")
    column, equals, value = one.name.partition("=")
    where = Sentence("per_unit", {"name": one.name})
    if equals and value and ":" not in one.name:
        where = Sentence("per_category", {"column": column, "value": value})
    values = {
        "subject": Sentence(subject, {"target": target}), "direction": one.direction,
        "confidence": confidence, "where": where,
    }  # fmt: skip
    if kind is None:
        values |= {"size": (abs(one.estimate), one.error), "ends": (one.low, one.high, one.error)}
        return Sentence("clear", values)
    size, low, high = np.expm1([one.estimate, one.low, one.high]).tolist()
    values |= {
        "size": Number(abs(size), "percent"), "low": Number(low, "change"),
        "high": Number(high, "change"),
    }  # fmt: skip
    return Sentence("clear_percent", values)


def _table(fit: Estimate, confidence: float) -> Table:
    plain, ends = open_errors(fit), fit.interval(confidence)
    header: list[Cell] = [
        Sentence("coefficient"), Sentence("estimate"), Sentence("standard_error"),
        Sentence("interval", {"confidence": confidence}),
    ]  # fmt: skip
    if plain is not None:
        header.append(Sentence("error_without"))
    rows = []
    for j, name in enumerate(fit.names):
        value, error = float(fit.estimate[j]), float(fit.standard_error[j])
        row: list[Cell] = [
            name, Number((value, error), "value"), Number(error, "se"),
            Number((float(ends[j, 0]), float(ends[j, 1]), error), "interval"),
        ]  # fmt: skip
        rows.append(tuple(row if plain is None else [*row, Number(float(plain[j]), "se")]))
    release = fit.release
    caption = Sentence("source", {"whose": whose(release), "level": level_of(release)})
    return Table(tuple(header), tuple(rows), caption)


def _percents(target: str, kind: str, every: Sequence[Coefficient], confidence: float) -> Table:
    """Effects of coefficients that are logarithms, 100(e^θ − 1)."""
    wide = Sentence("interval", {"confidence": confidence})
    header = Sentence("coefficient"), Sentence("change"), wide
    rows = []
    for one in every:
        if one.name == INTERCEPT:
            continue
        middle, low, high = np.expm1(np.clip([one.estimate, one.low, one.high], None, 600)).tolist()
        ends = Sentence(
            "change_interval", {"low": Number(low, "change"), "high": Number(high, "change")}
        )
        rows.append((one.name, Number(middle, "change"), ends))
    what = Sentence(f"what_{KINDS[kind]}", {"target": target})
    return Table(header, tuple(rows), Sentence("percent_table", {"what": what}))


def _intervals(every: Sequence[Coefficient], confidence: float) -> Chart:
    points = [
        Sentence("interval_point", {"name": one.name, "ends": (one.low, one.high, one.error)})
        for one in every
    ]
    known = every[0].low_open is not None
    key = "intervals_caption" if known else "intervals_caption_alone"
    return Chart(
        "intervals", list(every),
        Sentence("intervals_alt", {"confidence": confidence, "points": points}),
        Sentence(key, {"confidence": confidence}),
    )  # fmt: skip


# --- how the errors were made ---------------------------------------------------------------------


def errors_section(fit: Estimate, *, several: bool = False) -> Section:
    """Method, residual variance, range, and what the release says against itself."""
    header, target = fit.release, fit.release.column.target
    said = [*left_out(header), *_design(header), *_method(fit), *_residual(fit), *_range(fit)]
    if fit.remark is not None:
        said.append(Sentence("quoted", {"text": f"{fit.remark[0].upper()}{fit.remark[1:]}"}))
    details = [Sentence(f"method_{name}") for name in METHODS if name in (fit.method or "")]
    if not fit.warnings:
        details.append(Sentence("no_warning"))
    heading = Sentence("errors_of", {"target": target}) if several else Sentence("errors")
    of = target if several else ""
    return Section("errors", heading, tuple(said), tuple(details), of=of)


def _design(header: TableRelease) -> list[Sentence]:
    said, model, levels = [], header.model, header.privacy.level_column
    if model.person is not None:
        said.append(Sentence("level_person"))
    if levels is not None:
        values = {"column": levels, "level": header.column.level}
        said.append(Sentence("level_column", values))
    if model.weights is not None:
        said.append(Sentence("weights", {"column": model.weights}))
    return said


def _method(fit: Estimate) -> list[Sentence]:
    if fit.method is None:
        return []
    freedom = np.asarray([] if fit.degrees_of_freedom is None else fit.degrees_of_freedom, float)
    freedom = freedom[np.isfinite(freedom)]
    said = [Sentence("method", {"method": fit.method})]
    if freedom.size:
        ends = float(freedom.min()), float(freedom.max())
        said = [Sentence("method_freedom", {"method": fit.method, "freedom": ends})]
    return said


def _residual(fit: Estimate) -> list[Sentence]:
    said, column = [], fit.release.column
    if column.residual_variance is not None:
        values: dict[str, Any] = {
            "variance": column.residual_variance,
            "rows": column.reference_rows,
        }
        known = column.reference_rows is not None
        said.append(Sentence("residual_reference" if known else "residual_stated", values))
    if fit.noise_found is not None:
        if fit.noise_interval is None or fit.noise_interval[1] == 0:
            said.append(Sentence("residual_hidden"))
        else:
            low, high = fit.noise_interval
            values = {"found": fit.noise_found, "ends": (low, high, (high - low) / 20)}
            said.append(Sentence("residual_found", values))
    if fit.misfit is not None and fit.misfit_p is not None and fit.doubt is None:
        key = "check_same" if abs(fit.misfit - 1) < SAME - 1 else "check"
        said.append(Sentence(key, {"misfit": fit.misfit, "p": fit.misfit_p}))
    return said


def _range(fit: Estimate) -> list[Sentence]:
    """What the range did to the estimate, and what was done about it."""
    header = fit.release
    span = header.ends(header.column)
    if span is None or header.distribution.bits:
        return []
    ends = {"low": span[0], "high": span[1]}
    if fit.beyond is not None:
        return [Sentence("range_beyond", ends | {"side": fit.beyond}, warning=True)]
    if header.sums:
        return [Sentence("clip_target", ends), Sentence("sums_silent")]
    share, bias = fit.clipped, fit.clipping_bias
    if share is None or bias is None:
        return [Sentence("clip_target", ends)]
    said = [Sentence("range_found", ends | {"share": share})]
    if fit.likelihood is not None:
        return [*said, Sentence("range_likelihood", {"bias": bias})]
    if bias < SMALL:
        return [*said, Sentence("range_small", {"small": SMALL})]
    return [*said, Sentence("range_left", {"bias": bias, "why": Sentence(_why(header))})]


def _why(header: TableRelease) -> str:
    if header.model.person is not None:
        return "why_people"
    if not header.distribution.normal:
        return "why_distribution"
    return "why_flat" if header.model.weights is None else "why_weights"


# --- in the units of the file; all columns --------------------------------------------------------


def asked_section(
    estimate: Estimate,
    means: Mapping[str, Any],
    total: Any,  # noqa: ANN401
    confidence: float,
) -> list[Section]:
    """Means at rows (`Estimate.mean_at`, by the row's name) and the total, where they are asked."""
    target, parts = ", ".join(one.target for one in estimate.release.columns), list[Part]()
    if means:
        header: tuple[Cell, ...] = (
            Sentence("at"), Sentence("mean"), Sentence("interval", {"confidence": confidence}),
            Sentence("median"),
        )  # fmt: skip
        rows = []
        for name, one in means.items():
            low, high = (float(end) for end in one.interval)
            size = (high - low) / 4
            rows.append((name, Number((one.mean, size), "value"), Number((low, high), "interval"),
                         Number((one.median, size), "value")))  # fmt: skip
        parts.append(Table(header, tuple(rows), Sentence("what_value", {"target": target})))
        parts.append(Sentence("mean_method", {"method": next(iter(means.values())).method}))
    if total is not None:
        parts += total_sentences(estimate, total, confidence)
    return [Section("asked", Sentence("asked"), tuple(parts))] if parts else []


def mean_sentence(fit: Estimate, mean: Any, confidence: float) -> Sentence:  # noqa: ANN401
    """The mean and the median at a row."""
    low, high = (float(end) for end in mean.interval)
    size = (high - low) / 4
    return Sentence(
        "mean_at",
        {"target": fit.release.column.target, "mean": (mean.mean, size), "confidence": confidence,
         "ends": (low, high), "median": (mean.median, size)},
    )  # fmt: skip


def total_sentences(estimate: Estimate, total: Any, confidence: float) -> list[Sentence]:  # noqa: ANN401
    """The total of these rows, its interval, and what counts in it."""
    low, high = (float(end) for end in total.interval)
    values = {
        "target": estimate.release.column.target, "rows": total.rows, "confidence": confidence,
        "total": (total.total, total.standard_error), "ends": (low, high, total.standard_error),
    }  # fmt: skip
    said = [Sentence("total", values)]
    if estimate.beyond is not None:
        said.append(Sentence("total_beyond"))
    elif estimate.clipped:
        said.append(Sentence("total_clipped", {"share": estimate.clipped}))
    if estimate.release.model.weights is not None:
        said.append(Sentence("total_weights"))
    if not total.trusted:
        said.append(Sentence("total_skewed", warning=True))
    return said


def joint_section(estimate: Estimate) -> list[Section]:
    """The test of each coefficient on all columns, where there are several."""
    fits = fits_of(estimate)
    if len(fits) == 1:
        return []
    joint, reason = estimate.joint, estimate.silent
    parts: list[Part] = []
    if joint is None:
        parts.append(Sentence("joint_none", {"reason": reason}))
    elif joint.statistic is not None and joint.p_value is not None:
        header = Sentence("coefficient"), Sentence("statistic"), Sentence("p_value")
        rows = tuple(
            (name, Number(float(statistic), "near"), Number(float(p), "p"))
            for name, statistic, p in zip(estimate.release.names, joint.statistic, joint.p_value)
        )
        parts += [Table(header, rows, Sentence("joint_table")), Sentence("joint_exact")]
    return [Section("joint", Sentence("joint"), tuple(parts))] if parts else []


# --- the page -------------------------------------------------------------------------------------


def cost_section(estimate: Estimate, curve: Sequence[Part]) -> Section:
    """Errors with privacy against those without, what is sampling and what is privacy noise."""
    parts: list[Part] = []
    for fit in fits_of(estimate):
        parts += _cost(fit)
        if (table := split_table(fit)) is not None:
            parts.append(table)
    return Section("cost", Sentence("cost"), (*parts, *curve, Sentence("errors_public")))


def _cost(fit: Estimate) -> list[Sentence]:
    plain, errors = open_errors(fit), fit.standard_error
    if plain is None or not np.isfinite(errors).all():
        hidden = fit.floor is not None and bool((fit.floor >= 0.999 * errors).all())
        return [Sentence("noise_hides" if hidden else "errors_unknown")]
    ratios = np.maximum(errors / plain, 1.0)
    low, high = float(ratios.min()), float(ratios.max())
    if high < SAME:
        return [Sentence("ratio_one")]
    rows = fit.release.rows
    values = {"ratio": (low, high), "share": 1 - 1 / float(ratios[0]) ** 2}
    worth = [Number(rows / x**2, "count") for x in dict.fromkeys((high, low))]
    return [
        Sentence("ratio", values),
        Sentence("equal_rows", {"rows": rows, "worth": worth[:1] if low * SAME > high else worth}),
    ]


def split_table(fit: Estimate) -> Table | None:
    """Standard errors in two parts, whose squares add up; None where they are not told apart."""
    added = None if fit.privacy is None else np.diagonal(fit.privacy)
    if fit.floor is not None:
        added = fit.floor**2
    whole = fit.standard_error**2
    if added is None or not (np.isfinite(whole).all() and (whole > 0).all()):
        return None
    keys = ("coefficient", "standard_error", "sampling", "privacy_noise", "share_of_privacy")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(Number(float(np.sqrt(x)), "se") for x in (all_, all_ - own, own)),
         Number(float(own / all_), "share"))
        for name, all_, own in zip(fit.names, whole, np.clip(added, 0.0, whole))
    )  # fmt: skip
    caption = Sentence("split_table", {"target": fit.release.column.target})
    return Table(tuple(Sentence(key) for key in keys), rows, caption)


def limits_section(simulated: bool) -> Section:
    """What a release does not promise."""
    first = Sentence("limit_simulated", warning=True) if simulated else Sentence("limit_noise")
    keys = ("limit_time", "limit_public", "limit_everybody", "limit_again", "limit_model")
    return Section("limits", Sentence("limits"), (first, *(Sentence(key) for key in keys)))


def origin_section(header: TableRelease, date: datetime.date | None) -> Section:
    """Which release a page is of, and what made the page."""
    entry = header.entry
    ledger = Sentence("ledger_simulated" if header.simulated else "ledger_none")
    if entry is not None:
        ledger = Sentence(
            "ledger_entry",
            {"sequence": entry.sequence, "ledger": entry.ledger, "subject": entry.subject,
             "hash": entry.hash},
        )  # fmt: skip
    facts: dict[str, Cell] = {
        "table_name": header.table, "header_checksum": header.checksum,
        "table_checksum": header.sha256, "ledger_name": ledger,
        "made_with": f"privest {privest.__version__}", "page_date": date_text(date),
    }  # fmt: skip
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (Sentence(key), value) for key, value in facts.items()
    )
    table = Table((Sentence("fact"), Sentence("which")), rows, facts=True)
    return Section("origin", Sentence("origin"), (table,))


def date_text(date: datetime.date | None) -> str:
    """Today, where none is given."""
    day = date or datetime.datetime.now(datetime.UTC).date()
    return f"{day.day} {day:%B %Y}"


def of_estimate(
    estimate: Estimate,
    *,
    exposure: Sequence[Section],
    plan: Plan | None = None,
    confidence: float = CONFIDENCE,
    means: Mapping[str, Any] | None = None,
    total: Any = None,  # noqa: ANN401
    commands: Sequence[str] = (),
    date: datetime.date | None = None,
) -> list[Section]:
    """All sections of an estimate; a medium chooses by key.

    plan        of the release, for errors at other levels.
    means       `Estimate.mean_at` by the name of the row; total: `Estimate.total`.
    commands    how to repeat it.
    """
    as_confidence(confidence)
    fits, header = fits_of(estimate), estimate.release
    several = len(fits) > 1
    sections = []
    for fit in fits:
        sections += [
            found_section(fit, confidence, several=several), errors_section(fit, several=several)
        ]  # fmt: skip
    sections += asked_section(estimate, means or {}, total, confidence)
    sections += joint_section(estimate)
    curve = [] if plan is None or several else curve_of(plan)
    sections += [cost_section(estimate, curve), *exposure, limits_section(header.simulated)]
    sections.append(origin_section(header, date))
    if commands:
        said: list[Part] = [Sentence("commands_made")]
        if not header.simulated:
            said.append(Sentence("commands_once"))
        said.append(Commands(tuple(commands)))
        sections.append(Section("repeat", Sentence("repeat"), tuple(said)))
    return sections
