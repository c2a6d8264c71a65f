"""Sections of an estimate: findings, how the errors were made, what privacy cost, which release."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import privest
from privest.arrays import CONFIDENCE, Array, as_confidence
from privest.data.features import INTERCEPT
from privest.estimator import Prediction, WaldTest
from privest.report.describe import fits_of, left_out, level_of, whose
from privest.report.planning import SAME, other_levels
from privest.report.sections import (
    Cell,
    Chart,
    Commands,
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
from privest.workflow.document import TableRelease
from privest.workflow.plan import Plan
from privest.workflow.result import TableEstimate

SMALL = 0.05  # standard errors: what clipping may do to least squares
MOST_NAMED = 4
METHODS = ("HC", "Student")  # whose meaning is told
KINDS = {"log": "value", "binomial": "odds", "poisson": "count"}  # coefficients are logarithms


def of_estimate(
    estimate: TableEstimate,
    *,
    exposure: Sequence[Section],
    plan: Plan | None = None,
    confidence: float = CONFIDENCE,
    means: Mapping[str, Prediction] | None = None,
    wald: WaldTest | None = None,
    commands: Sequence[str] = (),
    date: datetime.date | None = None,
) -> list[Section]:
    """All sections of an estimate; a medium chooses by key.

    plan   of the release, for errors at other levels.
    means  predictions at one row each, by the name of the row.
    """
    as_confidence(confidence)
    fits, header = fits_of(estimate), estimate.release
    several, sections = len(fits) > 1, list[Section]()
    for fit in fits:
        sections.append(found_section(fit, confidence, several=several))
        sections.append(errors_section(fit, several=several))
    sections += asked_section(estimate, means or {}, wald, confidence)
    other = [] if plan is None or several else other_levels(plan)
    sections += [cost_section(fits, other), *exposure, limits_section(header.simulated)]
    sections.append(origin_section(header, date))
    if commands:
        once = [] if header.simulated else [say("commands_once")]
        made = Commands(tuple(commands))
        sections.append(section("repeat", [say("commands_made"), *once, made]))
    return sections


# --- findings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coefficient:
    """One coefficient as it is shown.

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
        return self.low > 0 or self.high < 0

    @property
    def strength(self) -> float:
        """How far zero is from the interval, in its widths."""
        return min(abs(self.low), abs(self.high)) / max(self.high - self.low, 1e-300)

    @property
    def direction(self) -> Sentence:
        return say("higher" if self.estimate > 0 else "lower")

    @property
    def ends(self) -> tuple[float, float, float]:
        """Its interval, with the error to whose digits it is rounded."""
        return self.low, self.high, self.error

    @property
    def change(self) -> list[float]:
        """e^θ − 1 and the ends of its interval."""
        made: list[float] = np.expm1(np.minimum([self.estimate, self.low, self.high], 600)).tolist()
        return made


def kind_of(fit: TableEstimate) -> str | None:
    """The kind of logarithm of the coefficients: "log", "binomial", "poisson"; None: of none."""
    family = fit.release.model.family
    name = family if family != "gaussian" else fit.release.model.transform
    return name if name in KINDS else None


def open_errors(fit: TableEstimate) -> Array | None:
    """(n,): the errors without privacy; None where they are unknown, or hidden by the noise."""
    plain = fit.classical_error
    if plain is None or not (np.isfinite(plain).all() and (plain > 0).all()):
        return None
    return np.asarray(plain)


def coefficients(fit: TableEstimate, confidence: float) -> list[Coefficient]:
    ends, plain, found = fit.interval(confidence).tolist(), open_errors(fit), []
    for j, (name, (low, high)) in enumerate(zip(fit.names, ends)):
        middle, error = float(fit.value[j]), float(fit.standard_error[j])
        around: tuple[float | None, float | None] = None, None
        if plain is not None:
            less = min(float(plain[j]) / error, 1.0) * (high - low) / 2
            around = middle - less, middle + less
        found.append(Coefficient(name, middle, error, low, high, *around))
    return found


def found_section(fit: TableEstimate, confidence: float, *, several: bool = False) -> Section:
    target, kind, details = fit.release.column.target, kind_of(fit), list[Part]()
    bounded = bool(np.isfinite(fit.standard_error).all())
    every = coefficients(fit, confidence) if bounded else []
    parts: list[Part] = [*_finding(fit, every, confidence)]
    parts += [warn("quoted", text=text) for text in fit.warnings]
    if fit.release.simulated:
        parts.append(warn("simulated"))
    parts.append(_table(fit, confidence))
    if every:
        if kind is not None and len(every) > 1:
            parts.append(_percents(target, kind, every, confidence))
        parts.append(_intervals(every, confidence))
        read = {"log": "read_log", None: "read_value"}.get(kind, f"read_{KINDS.get(kind or '')}")
        details = [say(read), say("read_interval", confidence=confidence)]
    return _of_column("found", target, several, parts, details)


def _of_column(
    key: str, target: str, several: bool, parts: Sequence[Part], details: Sequence[Part]
) -> Section:
    """A section of one column; of several its heading names the column."""
    heading = say(f"{key}_of", target=target) if several else say(key)
    return Section(key, heading, tuple(parts), tuple(details), of=target if several else "")


def _finding(fit: TableEstimate, every: Sequence[Coefficient], confidence: float) -> list[Sentence]:
    target = fit.release.column.target
    if not every:
        return [warn("unbounded", target=target)]
    slopes = [one for one in every if one.name != INTERCEPT]
    if not slopes:
        (one,), key = every, "mean_found" if kind_of(fit) is None else "log_mean_found"
        value = one.estimate, one.error
        return [say(key, target=target, value=value, confidence=confidence, ends=one.ends)]
    clear = sorted(filter(lambda one: one.is_clear, slopes), key=lambda one: -one.strength)
    left = _names([one.name for one in slopes if one not in clear])
    if not clear:
        return [say("none_clear", target=target, names=left, confidence=confidence)]
    others = [say("named", name=one.name, direction=one.direction) for one in clear[1:]]
    said = [_clearest(fit, clear[0], confidence)]
    said += [say("also_clear", names=_names(others))] if others else []
    return [*said, say("open", names=left, confidence=confidence)] if left else said


def _names(names: Sequence[Any]) -> list[Any]:
    if len(names) <= MOST_NAMED:
        return list(names)
    return [*names[:MOST_NAMED], say("and_more", count=len(names) - MOST_NAMED)]


def _clearest(fit: TableEstimate, one: Coefficient, confidence: float) -> Sentence:
    kind, target = kind_of(fit), fit.release.column.target
    subject = {"binomial": "subject_odds", "poisson": "subject_count"}.get(kind or "", "subject")
    column, equals, value = one.name.partition("=")
    where = say("per_unit", name=one.name)
    if equals and value and ":" not in one.name:
        where = say("per_category", column=column, value=value)
    values = {
        "subject": say(subject, target=target), "direction": one.direction,
        "confidence": confidence, "where": where,
    }  # fmt: skip
    if kind is None:
        return say("clear", **values, size=(abs(one.estimate), one.error), ends=one.ends)
    size, low, high = one.change
    changes = {"low": Number(low, "change"), "high": Number(high, "change")}
    return say("clear_percent", **values, **changes, size=Number(abs(size), "percent"))


def _table(fit: TableEstimate, confidence: float) -> Table:
    plain, ends = open_errors(fit), fit.interval(confidence).tolist()
    wide = say("interval", confidence=confidence)
    letter = "z" if fit.degrees_of_freedom is None else "t"
    header = ["coefficient", "estimate", "se", letter, "p_value", wide]
    chance, rows = fit.p_values(), []
    for j, name in enumerate(fit.names):
        value, error = float(fit.value[j]), float(fit.standard_error[j])
        row: list[Cell] = [name, Number((value, error), "value"), Number(error, "se")]
        row += [
            Number(value / error if error else np.inf, "t"),
            Number(float(chance[j]), "short_p"),
        ]
        row.append(Number((*ends[j], error), "interval"))
        rows.append(row if plain is None else [*row, Number(float(plain[j]), "se")])
    caption = say("source", whose=whose(fit.release), level=level_of(fit.release))
    return table(header if plain is None else [*header, "error_without"], rows, caption)


def _percents(target: str, kind: str, every: Sequence[Coefficient], confidence: float) -> Table:
    """Effects of coefficients that are logarithms, 100(e^θ − 1)."""
    rows = []
    for one in every:
        if one.name != INTERCEPT:
            middle, low, high = (Number(x, "change") for x in one.change)
            rows.append((one.name, middle, say("change_interval", low=low, high=high)))
    caption = say("percent_table", what=say(f"what_{KINDS[kind]}", target=target))
    return table(["coefficient", "change", say("interval", confidence=confidence)], rows, caption)


def _intervals(every: Sequence[Coefficient], confidence: float) -> Chart:
    points = [say("interval_point", name=one.name, ends=one.ends) for one in every]
    key = "intervals_caption" if every[0].low_open is not None else "intervals_caption_alone"
    alt = say("intervals_alt", confidence=confidence, points=points)
    return Chart(list(every), alt, say(key, confidence=confidence))


# --- how the errors were made ---------------------------------------------------------------------


def errors_section(fit: TableEstimate, *, several: bool = False) -> Section:
    header = fit.release
    said = [*left_out(header), *_design(header), *_method(fit), *_residual(fit), *_range(fit)]
    details = [say(f"method_{name}") for name in METHODS if name in (fit.method or "")]
    details += [] if fit.warnings else [say("no_warning")]
    return _of_column("errors", header.column.target, several, said, details)


def _design(header: TableRelease) -> list[Sentence]:
    said, model, levels = [], header.model, header.privacy.level_column
    if levels is not None:
        said.append(say("level_column", column=levels, level=header.column.level))
    if model.weights is not None:
        said.append(say("weights", column=model.weights))
    return said


def _method(fit: TableEstimate) -> list[Sentence]:
    if fit.method is None:
        return []
    freedom = np.asarray([] if fit.degrees_of_freedom is None else fit.degrees_of_freedom, float)
    freedom = freedom[np.isfinite(freedom)]
    if not freedom.size:
        return [say("method", method=fit.method)]
    ends = float(freedom.min()), float(freedom.max())
    return [say("method_freedom", method=fit.method, freedom=ends)]


def _residual(fit: TableEstimate) -> list[Sentence]:
    said, column = [], fit.release.column
    if column.residual_variance is not None:
        key = "residual_stated" if column.reference_rows is None else "residual_reference"
        said.append(say(key, variance=column.residual_variance, rows=column.reference_rows))
    if fit.noise_found is not None:
        said += _shown_variance(fit, fit.noise_found)
    return said


def _shown_variance(fit: TableEstimate, variance: float) -> list[Sentence]:
    if fit.release.sums:
        share = [] if fit.r_squared is None else [say("sums_explained", share=fit.r_squared)]
        return [say("sums_variance", variance=variance), *share]
    if fit.noise_interval is None or fit.noise_interval[1] == 0:
        return [say("residual_hidden")]
    low, high = fit.noise_interval
    return [say("residual_found", found=variance, ends=(low, high, (high - low) / 20))]


def _range(fit: TableEstimate) -> list[Sentence]:
    header = fit.release
    span = header.ends(header.column)
    if span is None or header.distribution.bits:
        return []
    ends = {"low": span[0], "high": span[1]}
    if header.sums:
        return [say("clip_target", **ends), say("sums_silent")]
    share, bias = fit.clipped, fit.clipping_bias
    if share is None or bias is None:
        return [say("clip_target", **ends)]
    said = say("range_found", **ends, share=share)
    if bias < SMALL:
        return [said, say("range_small", small=SMALL)]
    return [said, say("range_left", bias=bias)]


# --- in the units of the file; all columns --------------------------------------------------------


def asked_section(
    estimate: TableEstimate,
    means: Mapping[str, Prediction],
    wald: WaldTest | None,
    confidence: float,
) -> list[Section]:
    target, parts = ", ".join(one.target for one in estimate.release.columns), list[Part]()
    if means:
        first = next(iter(means.values()))
        header = ["at", first.kind, say("interval", confidence=confidence)]
        if first.prediction_interval is not None:
            header.append(say("interval_new", confidence=confidence))
        rows = [(name, *_mean(one)) for name, one in means.items()]
        parts.append(table(header, rows, say("what_value", target=target)))
    if wald is not None:
        freedom = (float(wald.restrictions), wald.degrees_of_freedom)
        key = "wald" if np.isfinite(wald.degrees_of_freedom) else "wald_many"
        facts = {"names": list(wald.names), "p": wald.p_value, "statistic": wald.statistic}
        parts.append(say(key, **facts, first=freedom[0], second=freedom[1]))
    if parts and estimate.note is not None:
        parts.append(say("quoted", text=estimate.note))
    return [section("asked", parts)] if parts else []


def _mean(found: Prediction) -> list[Number]:
    """A mean at one row and its intervals, to the digits of a quarter of the interval."""
    (low, high), error = found.interval[0].tolist(), float(np.ptp(found.interval[0])) / 4
    shown = [Number((float(found.value[0]), error), "value"), Number((low, high), "interval")]
    if found.prediction_interval is not None:
        shown.append(Number((*found.prediction_interval[0].tolist(), error), "interval"))
    return shown


def mean_sentence(fit: TableEstimate, found: Prediction, confidence: float) -> Sentence:
    value, ends, *_ = _mean(found)
    said = {"kind": say(found.kind), "value": value, "ends": ends, "confidence": confidence}
    return say("mean_at", target=fit.release.column.target, **said)


# --- the page -------------------------------------------------------------------------------------


def cost_section(fits: Sequence[TableEstimate], other: Sequence[Part]) -> Section:
    parts: list[Part] = []
    for fit in fits:
        parts += _cost(fit)
        parts += _split(fit)
    return section("cost", [*parts, *other, say("errors_public")])


def _cost(fit: TableEstimate) -> list[Sentence]:
    plain, errors, rows = open_errors(fit), fit.standard_error, fit.release.rows
    if plain is None or not np.isfinite(errors).all():
        hidden = fit.floor is not None and bool((fit.floor >= 0.999 * errors).all())
        return [say("noise_hides" if hidden else "errors_unknown")]
    ratios = np.maximum(errors / plain, 1.0)
    low, high = float(ratios.min()), float(ratios.max())
    if high < SAME:
        return [say("ratio_one")]
    worth = [Number(rows / x**2, "count") for x in dict.fromkeys((high, low))]
    return [
        say("ratio", ratio=(low, high), share=1 - 1 / float(ratios[0]) ** 2),
        say("equal_rows", rows=rows, worth=worth[:1] if low * SAME > high else worth),
    ]


def _split(fit: TableEstimate) -> list[Table]:
    """Standard errors in two parts, whose squares add up; none where they are not told apart."""
    added = None if fit.privacy is None else np.diagonal(fit.privacy)
    if fit.floor is not None:
        added = fit.floor**2
    whole = fit.standard_error**2
    if added is None or not (np.isfinite(whole).all() and (whole > 0).all()):
        return []
    rows = []
    for name, all_, own in zip(fit.names, whole, np.clip(added, 0.0, whole)):
        errors = (Number(float(np.sqrt(x)), "se") for x in (all_, all_ - own, own))
        rows.append((name, *errors, Number(float(own / all_), "share")))
    keys = ("coefficient", "standard_error", "sampling", "privacy_noise", "share_of_privacy")
    return [table(keys, rows, say("split_table", target=fit.release.column.target))]


def limits_section(simulated: bool) -> Section:
    first = warn("limit_simulated") if simulated else say("limit_noise")
    keys = ("limit_time", "limit_public", "limit_everybody", "limit_again", "limit_model")
    return section("limits", [first, *(say(key) for key in keys)])


def origin_section(header: TableRelease, date: datetime.date | None) -> Section:
    ledger = say("ledger_simulated" if header.simulated else "ledger_none")
    if header.entry is not None:
        ledger = say("ledger_entry", **vars(header.entry))
    facts: dict[str, Cell] = {
        "table_name": header.table, "header_checksum": header.checksum,
        "table_checksum": header.sha256, "ledger_name": ledger,
        "made_with": f"privest {privest.__version__}", "page_date": date_text(date),
    }  # fmt: skip
    rows = [(say(key), value) for key, value in facts.items()]
    return section("origin", [table(["fact", "which"], rows, facts=True)])


def date_text(date: datetime.date | None) -> str:
    day = date or datetime.datetime.now(datetime.UTC).date()
    return f"{day.day} {day:%B %Y}"
