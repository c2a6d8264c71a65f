"""Sections as HTML: one self-contained page, or parts of another.

The page loads nothing and runs nothing: charts are inside it, there is no script, and its
Content-Security-Policy forbids both to the browser, whatever a name may hold. Every string is
escaped. The same sections give the same bytes.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Sequence
from html import escape as html_escape
from importlib.resources import files
from pathlib import Path

import privest
from privest.arrays import CONFIDENCE
from privest.files import atomic_write
from privest.report.charts import svg
from privest.report.describe import describe, level_of, whose
from privest.report.findings import date_text
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
from privest.workflow import Estimate, Plan


def save_report(
    plan: Plan | None,
    estimate: Estimate,
    commands: Sequence[str],
    path: Path,
    date: datetime.date | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> None:
    """Write one page of all sections of an estimate: beside the old file, then in its place."""
    header = estimate.release
    sections = describe(estimate, plan=plan, commands=commands, date=date, confidence=confidence)
    title = Sentence("page_title", {"targets": [one.target for one in header.columns]})
    subtitle = Sentence(
        "page_subtitle",
        {"whose": whose(header), "coefficients": len(header.names), "level": level_of(header)},
    )
    foot = Sentence("page_foot", {"date": date_text(date), "version": privest.__version__})
    # A file name that is no UTF-8 reaches a command line as lone surrogates: shown as \udcxx.
    atomic_write(path, page(title, subtitle, sections, foot).encode("utf-8", "backslashreplace"))


def page(title: Sentence, subtitle: Sentence, sections: Sequence[Section], foot: Sentence) -> str:
    """The page as text."""
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
    """A string as a page may hold it: nothing in it is markup, or turns the writing about."""
    return html_escape(printable(text))


def _said(sentence: Sentence) -> str:
    return escape(sentence.text)


def section_html(section: Section, name: str) -> str:
    """One section, for this page or another; `name`: of its heading, for links."""
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{_said(section.heading)}</h2>\n'
        f"{parts_html(section)}\n</section>"
    )


def parts_html(section: Section) -> str:
    """A section without its heading; details are folded."""
    html = "\n".join(_part(part) for part in section.parts)
    if section.details:
        folded = "\n".join(_part(part) for part in section.details)
        summary = _said(Sentence("details"))
        html += f"\n<details>\n<summary>{summary}</summary>\n{folded}\n</details>"
    return html


def _part(part: Part) -> str:
    if isinstance(part, Sentence):
        return _sentence(part)
    if isinstance(part, Table):
        return _table(part)
    return _chart(part) if isinstance(part, Chart) else _commands(part)


def _sentence(sentence: Sentence) -> str:
    if sentence.warning:
        return f'<div class="note warning" role="note"><p>{_said(sentence)}</p></div>'
    return f"<p>{_said(sentence)}</p>"


def _chart(chart: Chart) -> str:
    return f"<figure>\n{svg(chart)}\n<figcaption>{_said(chart.caption)}</figcaption>\n</figure>"


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
    """A row; each cell knows its heading, for cards."""
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
