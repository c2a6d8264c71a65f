"""Sections of a plan, a release, an estimate, a verification.

Every number is public: a function of the plan's public inputs, or of a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privest.privacy.exposures import DELTA
from privest.report.exposure import Private, exposure
from privest.report.sections import Number, Part, Section, Sentence, say, section, table, warn
from privest.workflow.account import Account
from privest.workflow.document import TableRelease
from privest.workflow.plan import Plan
from privest.workflow.result import TableEstimate
from privest.workflow.terms import Column, Terms
from privest.workflow.verify import Verification


def describe(
    found: Plan | TableRelease | TableEstimate | Verification,
    *,
    keys: Sequence[str] | None = None,
    **how: Any,  # noqa: ANN401
) -> list[Section]:
    """The sections of a plan, release, estimate or verification; `keys`: those wanted, None: all.

    how: as `of_plan`, `of_release` and `of_estimate` take it.
    """
    if isinstance(found, Verification):
        return of_verification(found)
    panel = [exposed(found)] if keys is None or "exposure" in keys else []
    if isinstance(found, Plan):
        from privest.report.planning import of_plan

        sections = of_plan(found, panel, **how)
    elif isinstance(found, TableRelease):
        sections = [*of_release(found, **how), *panel]
    else:
        from privest.report.findings import of_estimate

        sections = of_estimate(found, exposure=panel, **how)
    return [one for one in sections if keys is None or one.key in keys]


def fits_of(estimate: TableEstimate) -> tuple[TableEstimate, ...]:
    return estimate.parts or (estimate,)


# --- exposure: of a plan, a header or an estimate -------------------------------------------------


def exposed(found: Plan | TableRelease | TableEstimate) -> Section:
    terms: Plan | TableRelease = found.release if isinstance(found, TableEstimate) else found
    variances: list[tuple[float, bool] | None] = [None] * len(terms.columns)
    if isinstance(found, TableEstimate):
        variances = [_estimated(one) for one in fits_of(found)]
    leverage = min(len(terms.names) / max(terms.rows, 1), 0.999)
    columns = [
        _private(terms, column, known, leverage) for column, known in zip(terms.columns, variances)
    ]
    delta = 0.0 if terms.distribution.pure else terms.privacy.delta or DELTA
    return exposure(columns, _epsilon(terms, delta), delta, unenforced=_unenforced(terms))


def _estimated(fit: TableEstimate) -> tuple[float, bool] | None:
    """σ² as the release shows it; where that is zero its upper 95% limit."""
    if fit.noise_found is None or fit.release.model.person is not None:
        return None
    if fit.noise_found > 0:
        return fit.noise_found, False
    upper = 0.0 if fit.noise_interval is None else fit.noise_interval[1]
    return (upper, True) if upper > 0 else None


def _private(terms: Terms, column: Column, known: tuple[float, bool] | None, h: float) -> Private:
    """A column as an attacker sees it; known: σ² as the release shows it; h: mean leverage."""
    variance, share, source = _variance(terms, column, known)
    limits, sums = terms.limits(column), dict[str, Any]()
    if terms.splits and limits is not None:
        own = terms.splits[terms.columns.index(column)]
        sums = {"mu_apart": own.mu_apart, "exposure": own.exposure}
    return Private(
        target=column.target, level=column.level, distribution=terms.distribution.name,
        logarithm=terms.model.transform == "log", ends=terms.ends(column),
        width=None if limits is None else limits.width,
        sd=None if variance is None else math.sqrt(variance), source=source,
        limit=known is not None and known[1], leverage=h, rows=terms.most, share=share,
        largest=terms.privacy.level_column is not None, **sums,
    )  # fmt: skip


def _variance(
    terms: Terms, column: Column, known: tuple[float, bool] | None
) -> tuple[float | None, float | None, str]:
    """Residual variance, share of yes, and whether they are stated, estimated or assumed."""
    mean = terms.mean if isinstance(terms, Plan) else math.nan
    if terms.model.family == "binomial":
        share, source = (0.5, "assumed") if math.isnan(mean) else (mean, "stated")
        return None, share, source
    if terms.model.family == "poisson" and not math.isnan(mean):
        return mean, None, "stated"
    if known is not None:
        return known[0], None, "estimated"
    source = "stated" if column.reference_rows is None else "estimated"
    return column.residual_variance, None, source


def _epsilon(terms: Terms, delta: float) -> float | None:
    """ε of all values of a person replaced anywhere in their ranges; None without ranges."""
    if any(terms.limits(column) is None for column in terms.columns):
        return None
    return terms.over_the_range(delta).epsilon


def _unenforced(terms: Terms) -> tuple[float, float] | None:
    """A stated sensitivity that no range enforces, and its ε."""
    stated, epsilon = terms.privacy.sensitivity, terms.epsilon
    return None if stated is None or epsilon is None or terms.enforced else (stated, epsilon)


# --- a release ----------------------------------------------------------------------------------


def whose(header: TableRelease) -> Sentence:
    if header.persons is None:
        return say("rows", rows=header.rows)
    return say("persons_rows", persons=header.persons, rows=header.rows)


def level_of(header: TableRelease) -> Sentence:
    """The level of a release, or the ε of sums."""
    columns = header.columns
    if header.splits:
        delta = header.privacy.delta or DELTA
        epsilon = header.over_the_range(delta).epsilon
        return say("at_epsilon_delta", epsilon=epsilon, delta=delta)
    if header.distribution.pure and header.epsilon is not None:
        return say("at_epsilon", epsilon=header.epsilon)
    key = "at_level" if header.privacy.level_column is None else "at_levels"
    return say(key, level=columns[0].level)


def left_out(header: TableRelease) -> list[Sentence]:
    """Rows with missing values: which they are is public."""
    if not header.dropped:
        return []
    key = "missing_unprotected" if header.sums else "missing_public"
    return [say("dropped", dropped=header.dropped), warn(key)]


def of_release(
    header: TableRelease, *, paths: tuple[Path, Path] | None = None, account: Account | None = None
) -> list[Section]:
    level = level_of(header)
    parts: list[Part] = [say("released", rows=header.rows, level=level)]
    if header.sums:
        n = len(header.names)
        parts = [say("released_sums", rows=header.rows, coefficients=n, level=level)]
        parts.append(say("sums_leave"))
    elif not header.simulated:
        parts.append(_meaning(header, header.column))
    parts += left_out(header)
    if paths is not None:
        keys = ["file_document"] if header.sums else ["file_table", "file_header"]
        parts += [say(key, path=str(path)) for key, path in zip(keys, paths)]
    if header.simulated:
        parts.append(warn("simulated"))
    if account is not None and header.entry is not None:
        left = account.ledger.account(account.subject).remaining.level
        kept = say("left_level", level=float(left)) if left else say("left_none")
        number, subject = header.entry.sequence, account.subject
        parts += [
            say("file_ledger", path=str(account.path)),
            say("entry", sequence=number, subject=subject, left=kept),
            say("head", head=str(account.ledger.head)),
        ]
    return [section("release", parts)]


def _meaning(header: TableRelease, column: Column) -> Sentence:
    values = {"name": "z", "unit": header.scale(column)[0]}
    if header.distribution.bits:
        return say("z_answers", **values)
    if header.privacy.level_column is not None:
        return say("z_levels", **values)
    return say("z_steps" if header.model.transform == "none" else "z_log", **values)


def of_verification(found: Verification) -> list[Section]:
    key = "whole_charged" if found.signed else "whole_simulated" if found.simulated else "whole"
    parts = [say(key if found.verified else "not_verified", path=str(found.path))]
    parts += [say("examined", what=what) for what in found.examined]
    parts += [say("not_examined", what=what) for what in found.not_examined]
    parts.append(say("no_file_shows", what=found.no_file_shows))
    return [section("verification", parts)]


# --- levels, without data -------------------------------------------------------------------------


def levels_section(
    found: Sequence[Any], apart: float, spread: float | None, delta: float
) -> Section:
    """Levels by an attacker's rate (`privest levels`)."""
    keys = ["levels_rate", "levels_level", "levels_unbiased"]
    keys += [] if spread is None else ["levels_reader"]
    rows = []
    for one in found:
        reader = [] if one.informed_error is None else [Number(one.informed_error, "down")]
        first = Number(one.chance, "most").text, Number(one.level, "level")
        rows.append(
            (*first, Number(one.measurement_error, "down"), *reader, Number(one.epsilon, "up"))
        )
    said = [say("levels_rate_is", apart=apart), say("levels_unbiased_is")]
    said += [] if spread is None else [say("levels_reader_is", sd=spread)]
    said.append(say("levels_epsilon_is", apart=apart, delta=delta))
    return section("levels", [table([*keys, "levels_epsilon"], rows), *said])


def one_level(
    level: float, apart: float, spread: float | None, epsilon: float, delta: float
) -> list[Section]:
    """The panel of one level, for values of which nothing else is known."""
    value = Private(target=say("value").text, level=level, sd=spread, apart=apart)
    said = Section("level", say("levels"), (say("level", level=level),))
    return [said, exposure([value], None, delta, unenforced=(apart, epsilon))]
