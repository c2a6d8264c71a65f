"""One self-contained HTML page from plain parts: paragraphs, pictures, tables, notes, commands.

The page loads nothing and runs nothing: pictures are inside it, there is no script, and its
Content-Security-Policy forbids both to the browser, whatever a string may hold. Every string is
escaped. The same parts give the same bytes: no clock is read here, no random identifiers.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape as html_escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.report._drawing import embedded
from privest.report._page_css import SHEET
from privest.report._words import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, in words for those who do not see it (`alt`), and the line below it."""

    figure: Figure
    alt: str
    caption: str


@dataclass(frozen=True)
class TableBlock:
    """A table; the first cell of a row names it. Wide ones scroll in their own box.

    facts: its cells are words or long codes, which may go over several lines.
    """

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    caption: str = ""
    facts: bool = False


@dataclass(frozen=True)
class Note:
    """A paragraph that stands out."""

    text: str
    kind: Literal["info", "warning"] = "info"


@dataclass(frozen=True)
class Commands:
    """Lines for a terminal, shown exactly."""

    lines: tuple[str, ...]


MADE = "Made by privest."
Part = str | Picture | TableBlock | Note | Commands


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a plain string is a paragraph."""

    heading: str
    parts: tuple[Part, ...]


def save_page(
    title: str, subtitle: str, sections: Sequence[Section], path: Path, made: str = MADE
) -> None:
    """Write the page: beside the old file, then in its place, so there is always a whole one.

    The folder is made if need be. Raises InvalidInput if a part is malformed (an empty title,
    heading or alternative text, a ragged table) or the file cannot be written.
    """
    text = render_page(title, subtitle, sections, made)
    # A file name that is no UTF-8 reaches a command line as lone surrogates: shown as \udcxx.
    atomic_write(path, text.encode("utf-8", "backslashreplace"))


def render_page(title: str, subtitle: str, sections: Sequence[Section], made: str = MADE) -> str:
    """The page as text; `made`: by what and when, for its foot."""
    _require(bool(title.strip()), "the page needs a title.")
    _require(len(sections) > 0, "the page needs a section.")
    digest = base64.b64encode(hashlib.sha256(SHEET.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    bodies = "\n".join(render_section(s, f"part-{k}") for k, s in enumerate(sections, start=1))
    links = "\n".join(
        f'<li><a href="#part-{k}">{escape(s.heading)}</a></li>'
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
<title>{escape(title)}</title>
<style>{SHEET}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="subtitle">{escape(subtitle)}</p>
</header>
<nav aria-label="On this page">
<ul>
{links}
</ul>
</nav>
<main>
{bodies}
</main>
<footer>
<p>{escape(made)} This page is one file: it runs no script and loads nothing from elsewhere.</p>
</footer>
</body>
</html>
"""


def escape(text: str) -> str:
    """A string as a page may hold it: nothing in it is markup, or turns the writing about."""
    return html_escape(printable(text))


# --- parts ----------------------------------------------------------------------------------------


def render_section(section: Section, name: str) -> str:
    """One section as HTML, for this page or another; `name`: of its heading, for links.

    Every string is escaped; pictures are inside, as data: addresses. It has no script or style.
    """
    _require(bool(section.heading.strip()), f"section {name} needs a heading.")
    _require(name.replace("-", "").isalnum(), "the name of a section is letters, digits, hyphens.")
    parts = "\n".join(_part(part) for part in section.parts)
    return (
        f'<section aria-labelledby="{name}">\n'
        f'<h2 id="{name}">{escape(section.heading)}</h2>\n{parts}\n</section>'
    )


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{_prose(part)}</p>"
    for kind, write in WRITERS.items():
        if isinstance(part, kind):
            return write(part)
    raise InvalidInput(
        "a part must be a string, Picture, TableBlock, Note or Commands; "
        f"received {type(part).__name__}."
    )


def _prose(text: str) -> str:
    """Escaped; a number and its per cent sign stay on one line."""
    return escape(text).replace(" %", "&nbsp;%")


def _picture(picture: Picture) -> str:
    _require(bool(picture.alt.strip()), "a picture needs alternative text (alt).")
    drawn = embedded(picture.figure)
    caption = f"\n<figcaption>{_prose(picture.caption)}</figcaption>" if picture.caption else ""
    image = (
        f'<img src="{drawn.light}" width="{drawn.width}" height="{drawn.height}" '
        f'alt="{escape(picture.alt)}">'
    )
    if drawn.dark is None:
        return f'<figure class="pixels">\n{image}{caption}\n</figure>'
    # On paper it is the light one, whatever the screen is.
    dark = f'<source media="screen and (prefers-color-scheme: dark)" srcset="{drawn.dark}">'
    return f"<figure>\n<picture>{dark}{image}</picture>{caption}\n</figure>"


def _table(table: TableBlock) -> str:
    columns = len(table.header)
    _require(columns > 0, "a table needs a header.")
    for k, row in enumerate(table.rows):
        _require(
            len(row) == columns,
            f"row {k} of a table has {len(row)} cells; its header has {columns}.",
        )
    head = "".join(
        f'<th scope="col" role="columnheader">{escape(cell)}</th>' for cell in table.header
    )
    rows = "\n".join(_row(table.header, row) for row in table.rows)
    label = escape(table.caption or "Table: " + ", ".join(table.header))
    caption = f"<figcaption>{_prose(table.caption)}</figcaption>\n" if table.caption else ""
    # The caption stays in sight: only the box scrolls, and the keyboard can reach it. On a phone
    # each row is a card; roles say that it is still a table.
    return (
        f'<figure class="table{" facts" if table.facts else ""}">\n{caption}'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">\n'
        '<table role="table">\n'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{rows}\n</tbody>\n</table>\n</div>\n</figure>'
    )


def _row(header: tuple[str, ...], row: tuple[str, ...]) -> str:
    """A row; each cell knows its heading, for cards."""
    cells = "".join(
        f'<td role="cell" data-label="{escape(name)}">{escape(cell)}</td>'
        for name, cell in zip(header[1:], row[1:])
    )
    return f'<tr role="row"><th scope="row" role="rowheader">{escape(row[0])}</th>{cells}</tr>'


def _note(note: Note) -> str:
    _require(note.kind in ("info", "warning"), "a note is of kind 'info' or 'warning'.")
    return f'<div class="note {note.kind}" role="note"><p>{_prose(note.text)}</p></div>'


def _commands(commands: Commands) -> str:
    _require(len(commands.lines) > 0, "a block of commands needs a line.")
    # Each word is kept whole: a browser would break "--level" after its hyphens.
    lines = (
        " ".join(f"<span>{escape(word)}</span>" if word else "" for word in line.split(" "))
        for line in commands.lines
    )
    return "<pre>" + "".join(f"<code>{line}\n</code>" for line in lines) + "</pre>"


WRITERS: dict[type, Callable[..., str]] = {
    Picture: _picture,
    TableBlock: _table,
    Note: _note,
    Commands: _commands,
}


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidInput(message)
