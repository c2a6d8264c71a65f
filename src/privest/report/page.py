"""Sections as HTML: one self-contained page, or parts of another.

The page loads nothing and runs nothing, and its Content-Security-Policy forbids both. Every string
is escaped. The same sections give the same bytes.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import textwrap
from collections.abc import Callable, Iterable, Sequence
from html import escape as html_escape
from importlib.resources import files
from pathlib import Path

import numpy as np

import privest
from privest.arrays import CONFIDENCE
from privest.files import atomic_write
from privest.report import numbers
from privest.report.describe import describe, level_of, whose
from privest.report.findings import Coefficient, date_text
from privest.report.sections import (
    Chart,
    Commands,
    Part,
    Section,
    Sentence,
    Table,
    printable,
    text_of,
)
from privest.workflow.plan import Plan
from privest.workflow.result import TableEstimate

ROW = 76  # pixels of a coefficient: name, blue bar, grey bar
LEFT, RIGHT = 16.0, 84.0  # percent: ends have room for their numbers
MOST_NAME = 40


def report(
    estimate: TableEstimate,
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    commands: Sequence[str] = (),
    date: datetime.date | None = None,
    confidence: float = CONFIDENCE,
) -> None:
    """Write one page of all sections of an estimate, in place of an older file.

    plan      of the release, for errors at other levels. commands: how to repeat it.
    """
    header = estimate.release
    sections = describe(estimate, plan=plan, commands=commands, date=date, confidence=confidence)
    title = Sentence("page_title", {"targets": [one.target for one in header.columns]})
    subtitle = Sentence(
        "page_subtitle",
        {"whose": whose(header), "coefficients": len(header.names), "level": level_of(header)},
    )
    foot = Sentence("page_foot", {"date": date_text(date), "version": privest.__version__})
    # A file name that is no UTF-8 reaches a command line as lone surrogates: shown as \udcxx.
    atomic_write(
        Path(path), page(title, subtitle, sections, foot).encode("utf-8", "backslashreplace")
    )


def page(title: Sentence, subtitle: Sentence, sections: Sequence[Section], foot: Sentence) -> str:
    sheet = files("privest.report").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    bodies = "\n".join(section_html(s, f"part-{k}") for k, s in enumerate(sections, start=1))
    links = "\n".join(
        f'<li><a href="#part-{k}">{_said(s.heading)}</a></li>'
        for k, s in enumerate(sections, start=1)
    )
    # The empty icon keeps a browser from asking a server for one.
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{_said(title)}</title>
<style>{sheet}</style>
</head>
<body>
<header>
<h1>{_said(title)}</h1>
<p class="subtitle">{_said(subtitle)}</p>
</header>
<nav aria-label="{_said(Sentence("page_links"))}">
<ul>
{links}
</ul>
</nav>
<main>
{bodies}
</main>
<footer>
<p>{_said(foot)} {_said(Sentence("page_whole"))}</p>
</footer>
</body>
</html>
"""


def escape(text: str) -> str:
    """A string as a page may hold it: no markup, no change of direction."""
    return html_escape(printable(text))


def _said(sentence: Sentence) -> str:
    return escape(sentence.text)


def section_html(section: Section, name: str) -> str:
    """One section; `name`: of its heading, for links."""
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{_said(section.heading)}</h2>\n'
        f"{parts_html(section.parts, section.details)}\n</section>"
    )


def parts_html(parts: Iterable[Part], details: Sequence[Part] = ()) -> str:
    """Parts of a section; details are folded."""
    html = "\n".join(_part(part) for part in parts)
    if details:
        folded = "\n".join(_part(part) for part in details)
        summary = _said(Sentence("details"))
        html += f"\n<details>\n<summary>{summary}</summary>\n{folded}\n</details>"
    return html


def _part(part: Part) -> str:
    match part:
        case Sentence(warning=True):
            return f'<div class="note warning" role="note"><p>{_said(part)}</p></div>'
        case Sentence():
            return f"<p>{_said(part)}</p>"
        case Table():
            return _table(part)
        case Chart():
            caption = f"<figcaption>{_said(part.caption)}</figcaption>"
            return f"<figure>\n{svg(part)}\n{caption}\n</figure>"
    return _commands(part)


def _table(table: Table) -> str:
    header = [escape(text_of(cell)) for cell in table.header]
    head = "".join(f'<th scope="col" role="columnheader">{cell}</th>' for cell in header)
    rows = "\n".join(_row(header, [escape(text_of(cell)) for cell in row]) for row in table.rows)
    caption = "" if table.caption is None else f"<figcaption>{_said(table.caption)}</figcaption>\n"
    label = ", ".join(header) if table.caption is None else _said(table.caption)
    # The caption stays in sight: only the box scrolls, and the keyboard can reach it. On a phone
    # each row is a card; roles say that it is still a table.
    return (
        f'<figure class="table{" facts" if table.facts else ""}">\n{caption}'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">\n'
        '<table role="table">\n'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{rows}\n</tbody>\n</table>\n</div>\n</figure>'
    )


def _row(header: Sequence[str], row: Sequence[str]) -> str:
    cells = "".join(
        f'<td role="cell" data-label="{name}">{cell}</td>'
        for name, cell in zip(header[1:], row[1:], strict=True)
    )
    return f'<tr role="row"><th scope="row" role="rowheader">{row[0]}</th>{cells}</tr>'


def _commands(commands: Commands) -> str:
    # Each word is kept whole: a browser would break "--level" after its hyphens.
    lines = (
        " ".join(f"<span>{escape(word)}</span>" if word else "" for word in line.split(" "))
        for line in commands.lines
    )
    return "<pre>" + "".join(f"<code>{line}\n</code>" for line in lines) + "</pre>"


# --- the chart: x in percent, so that letters stay 15 px at every width ---------------------------


def svg(chart: Chart) -> str:
    body, height = intervals(chart.data)
    alt = _said(chart.alt)
    return f'<svg class="chart" height="{height}" role="img" aria-label="{alt}">{body}</svg>'


def _text(x: str, y: float, said: str, *, anchor: str = "start", dx: int = 0, strong: bool = False,
          ) -> str:  # fmt: skip
    return (
        f'<text x="{x}" y="{y:g}"{f" dx={chr(34)}{dx}{chr(34)}" if dx else ""} '
        f'text-anchor="{anchor}"{" class=" + chr(34) + "strong" + chr(34) if strong else ""}>'
        f"{escape(said)}</text>"
    )


def _bar(start: float, end: float, y: float, height: int, kind: str) -> str:
    width = max(end - start, 0.2)
    return (
        f'<rect class="{kind}" x="{start:.2f}%" y="{y:g}" width="{width:.2f}%" height="{height}" '
        'rx="2"/>'
    )


def intervals(every: Sequence[Coefficient]) -> tuple[str, int]:
    """A row for each coefficient on its own scale; all share the dashed line at zero."""
    zero = _zero_place(every)
    height = 20 + ROW * len(every)
    parts = [
        f'<line class="zero" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="18" y2="{height}"/>',
        _text(f"{zero:.2f}%", 14, numbers.end(0.0), anchor="middle"),
    ]
    for k, one in enumerate(every):
        y, place = 20 + ROW * k, _scale(one, zero)
        low, high = place(one.low), place(one.high)
        name = textwrap.shorten(one.name, MOST_NAME, placeholder=" …") or "?"
        size = one.error
        parts += [
            _text("0", y + 20, name, strong=True),
            _text("100%", y + 20, numbers.value((one.estimate, size)), anchor="end", strong=True),
            _bar(low, high, y + 32, 12, "with"),
            f'<circle class="dot" cx="{place(one.estimate):.2f}%" cy="{y + 38}" r="4"/>',
            _text(f"{low:.2f}%", y + 43, numbers.value((one.low, size)), anchor="end", dx=-6),
            _text(f"{high:.2f}%", y + 43, numbers.value((one.high, size)), dx=6),
        ]
        if one.low_open is not None and one.high_open is not None:
            parts.append(_bar(place(one.low_open), place(one.high_open), y + 48, 8, "without"))
    return "".join(parts), height


def _zero_place(every: Sequence[Coefficient]) -> float:
    """Where zero is, in percent: at an end if all intervals are on one side of it."""
    shares = [max(-one.low, 0.0) / (max(one.high, 0.0) - min(one.low, 0.0)) for one in every]
    middle = float(np.median(shares))
    if min(shares) < max(shares) or 0 < middle < 1:
        middle = min(max(middle, 0.2), 0.8)
    return LEFT + (RIGHT - LEFT) * middle


def _scale(one: Coefficient, zero: float) -> Callable[[float], float]:
    """The largest scale on which the interval fits beside the common zero."""
    room = []
    if one.high > 0:
        room.append((RIGHT - zero) / one.high)
    if one.low < 0:
        room.append((zero - LEFT) / -one.low)
    unit = min(room)
    return lambda x: zero + unit * x
