"""Screen 5, results: what a release shows. Never from the data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from privest.app.desk import Desk, Work
from privest.app.pages import Errors, Form, desk_of, page, screen, see_other
from privest.app.privacy import percent
from privest.arrays import CONFIDENCE
from privest.errors import InvalidInput, PrivestError
from privest.ledger import Account, Cost, Ledger
from privest.report.describe import describe, fits_of
from privest.report.findings import mean_sentence
from privest.report.page import parts_html
from privest.report.sections import Chart, Part, Section, Sentence, Table
from privest.report.slider import epsilon_of, epsilon_of_amount, epsilon_text
from privest.workflow.document import TableRelease, read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import Plan
from privest.workflow.result import TableEstimate
from privest.workflow.units import row_features

MOST_ROWS = 6  # at which a mean is shown
MOST_ENTRIES = 20  # of an account


def show(request: Request, work: Work, form: Form, errors: Errors | None = None) -> Response:
    table, plan = released_of(work)
    if table is None:
        return see_other(request, "release", work)
    found, sections = results_of(work, table, plan)
    release = found.release
    features = row_features(release)
    rows = [name for name in form.names() if name.startswith("at-")] if errors else []
    return page(
        request, "results.html", work, errors=errors, step="results", release=release,
        table=table.name, typed={name: form.text(name, "")[:200] for name in rows},
        epsilon=_epsilon_of(release), history=history(desk_of(request), release),
        **_told(sections), planned=plan is not None,
        fields=[(f"at-{k}", *one) for k, one in enumerate(features.items())],
        means=[(_row_text(row), _mean(found, row)) for row in work.asked], note=found.note,
        numbers=bool(features) and release.model.family == "gaussian"
        and all(one.matrix for one in release.sums),
    )  # fmt: skip


FOLDS = ("errors", "cost", "exposure", "limits", "origin")


def _told(sections: Sequence[Section]) -> dict[str, Any]:
    """Findings, folds, and each coefficient with whether its sign is clear, and which it is."""
    charts = (part for one in sections for part in one.parts if isinstance(part, Chart))
    return {
        "findings": [_finding(one) for one in sections if one.key == "found"],
        "folds": [_fold(one) for one in sections if one.key in FOLDS],
        "clear": [(c.name, c.is_clear, c.direction.text) for chart in charts for c in chart.data],
    }


def _finding(section: Section) -> dict[str, Any]:
    sentences = [one for one in section.parts if isinstance(one, Sentence)]
    tables = [_without_source(one) for one in section.parts if isinstance(one, Table)]
    return {
        "tables": _html(tables),
        "charts": _html(one for one in section.parts if isinstance(one, Chart)),
        "said": [one.text for one in sentences if not one.warning],
        "warned": _html(one for one in sentences if one.warning),
        "reading": _html(section.details),
    }


def _without_source(table: Table) -> Table:
    named = table.caption is not None and table.caption.key == "source"
    return replace(table, caption=None) if named else table


def _fold(section: Section) -> dict[str, Any]:
    """A section as a fold; its first sentence is not repeated."""
    said = [one for one in section.parts if isinstance(one, Sentence)]
    first = said[0] if said and section.key in ("cost", "errors") else None
    parts = tuple(one for one in section.parts if one is not first)
    return {
        "title": section.heading.text, "first": "" if first is None else first.text,
        "html": Markup(parts_html(parts, section.details)),
    }  # fmt: skip


def _html(parts: Iterable[Part]) -> Markup:
    return Markup(parts_html(parts))


# --- estimates ------------------------------------------------------------------------------------


def released_of(work: Work) -> tuple[Path | None, Plan | None]:
    with work.lock:
        return work.released, work.made


def results_of(work: Work, table: Path, plan: Plan | None) -> tuple[TableEstimate, list[Section]]:
    """The estimate of a release and its sections: made once for the file as it is."""
    try:
        there = table.stat()
    except OSError:
        raise InvalidInput(f"there is no table {table.name} any more.") from None
    key, kept = (table, there.st_mtime_ns, there.st_size), work.kept
    if kept is None or kept[0] != key:
        found = estimate(table)
        work.kept = kept = key, found, list(describe(found, plan=plan))
    return kept[1], kept[2]


# --- the mean of a group --------------------------------------------------------------------------


def mean(request: Request, work: Work, form: Form) -> Response:
    table, plan = released_of(work)
    if table is None:
        raise HTTPException(404, "There are results after a release.")
    if form.flag("clear"):
        with work.lock:
            work.asked.clear()
        return see_other(request, "results", work)
    errors = Errors()
    found, _ = results_of(work, table, plan)
    row = _row(found, form, errors)
    if not errors:
        with errors.at("at-0"):
            for fit in fits_of(found):
                fit.predict(row)
    if errors:
        return show(request, work, form, errors)
    with work.lock:
        if work.released is table:  # of another release, made meanwhile, it was not asked
            others = [one for one in work.asked if one != row]
            work.asked[:] = [row, *others[: MOST_ROWS - 1]]
    return see_other(request, "results", work)


def _row(found: TableEstimate, form: Form, errors: Errors) -> dict[str, object]:
    """Values by name; the form has numbers in place of names, which may be anything."""
    row: dict[str, object] = {}
    for k, (name, choices) in enumerate(row_features(found.release).items()):
        with errors.at(f"at-{k}"):
            if choices is None:
                row[name] = form.number(f"at-{k}", said=f"“{name}”")
            elif (value := form.text(f"at-{k}", "")) in choices:
                row[name] = value
            else:
                raise InvalidInput(f"“{name}” must be one of {', '.join(choices)}.")
    return row


def _row_text(row: dict[str, object]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
    )


def _mean(found: TableEstimate, row: dict[str, object]) -> str:
    said = []
    for fit in fits_of(found):
        try:
            said.append(mean_sentence(fit, fit.predict(row), CONFIDENCE).text)
        except PrivestError as error:
            said.append(str(error))
    return " ".join(said)


# --- the account ----------------------------------------------------------------------------------


def _epsilon_of(release: TableRelease, cost: Cost | None = None) -> str:
    if cost is not None and len(release.columns) > 1:
        return "–"
    found = epsilon_of(release)
    if cost is not None and found is not None:
        unit = "level" if cost.mu2 is None else "mu2"
        found = epsilon_of_amount(release, _counted(cost, unit), unit)
    return "unlimited" if found is None else epsilon_text(found)


def history(desk: Desk, release: TableRelease) -> dict[str, Any] | None:
    """The releases of the account of a release, and what is left; None: it is not known here."""
    entry = release.entry
    if entry is None or not desk.ledger.exists():
        return None
    try:
        with Ledger(desk.ledger) as ledger:
            if entry.ledger != ledger.id:
                return None
            account = ledger.account(entry.subject)
            budget, left, unit = _balance(account)
            entries = [one for one in account.history() if one.cost is not None]
    except PrivestError:
        return None
    if not budget or left is None:
        return None
    names = {
        one.entry.sequence: name
        for name, one in releases_in(desk.folder).items()
        if one.entry is not None and one.entry.ledger == entry.ledger
    }
    rows = [
        {
            "date": one.time[:16].replace("T", " "), "name": names.get(one.sequence, "–"),
            "epsilon": _epsilon_of(release, one.cost),
            "cost": percent(_counted(one.cost, unit) / float(budget)),
            "this": one.sequence == entry.sequence,
        }
        for one in entries[-MOST_ENTRIES:]
    ]  # fmt: skip
    share = float(left) / float(budget)
    return {
        "subject": entry.subject, "rows": rows[::-1], "left": percent(share),
        "spent": f"{100 * (1 - share):.2f}", "used": percent(1 - share),
        "said": _left_of(release, float(budget), float(left), unit),
    }  # fmt: skip


def _balance(account: Account) -> tuple[Fraction | None, Fraction | None, str]:
    if account.budget.level is None and account.budget.mu is not None:
        return account.budget.mu**2, account.remaining.mu2, "mu2"
    return account.budget.level, account.remaining.level, "level"


def _left_of(release: TableRelease, budget: float, left: float, unit: str) -> str:
    if len(release.columns) > 1 or release.limits(release.column) is None:
        return ""
    values = {"limit": epsilon_of_amount(release, budget, unit)}
    if left > 0:
        values["epsilon"] = epsilon_of_amount(release, left, unit)
    return Sentence("history_left" if left > 0 else "history_none", values).text


def _counted(cost: Cost | None, unit: str) -> float:
    assert cost is not None  # entries that cost nothing are not shown
    return float((cost.information if unit == "level" else cost.mu2) or 0.0)


def releases_in(folder: Path) -> dict[str, TableRelease]:
    """The releases of a folder, by the name of the table, or of the document where it has none."""
    found = {}
    for document in sorted(folder.glob("*.json")):
        table = document.with_suffix("")
        name = table.name if table.suffix in (".csv", ".parquet") else document.name
        with contextlib.suppress(PrivestError):
            found[name] = read_release(folder / name)
    return found


ROUTES = [
    screen("/results", show, "results"),
    screen("/results/mean", mean, "results_mean", post=True),
]
