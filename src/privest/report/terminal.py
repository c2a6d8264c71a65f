"""Sections on a terminal, or as plain text: Rich makes the tables, `describe` all words."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from privest.report.sections import Chart, Part, Section, Sentence, Table, printable, text_of

if TYPE_CHECKING:  # Rich is loaded when the first text is shown
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

WIDTH = 100  # of plain text
WHOLE = {"path", "head", "what"}  # values that stay on one line, to be copied
MANY = 6  # columns: more stand closer, so that they fit on 80
HEADING = 14  # letters of a line of a heading: numbers below it are not wrapped


def shown(text: str, style: str = "") -> Text:
    """A text as it is, for a console: neither markup nor anything that steers a terminal."""
    from rich.text import Text

    return Text(printable(text), style=style)


def print_sections(console: Console, sections: Sequence[Section]) -> None:
    """The sections, a heading before each of several; charts and details are for other media."""
    for k, one in enumerate(sections):
        if len(sections) > 1:
            console.print(*([""] if k else []), shown(one.heading.text, style="bold"), sep="\n")
        for part in one.parts:
            _print(console, part)


def as_text(sections: Sequence[Section]) -> str:
    """The same without colour."""
    from rich.console import Console

    written = io.StringIO()
    console = Console(
        file=written, width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False
    )
    print_sections(console, sections)
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def _print(console: Console, part: Part) -> None:
    if isinstance(part, Chart):
        return
    if isinstance(part, Sentence):
        whole = not WHOLE.isdisjoint(part.values)
        console.print(shown(part.text, style="bold" if part.warning else ""), soft_wrap=whole)
    elif isinstance(part, Table):
        if part.caption is not None:
            console.print(shown(part.caption.text))
        console.print(_table(part))
    else:
        for line in part.lines:
            console.print(shown(line), soft_wrap=True)


def _table(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable

    dense = len(table.header) > MANY
    made = RichTable(box=box.SIMPLE_HEAD, show_edge=False, collapse_padding=dense)
    for k, cell in enumerate(table.header):
        heading = shown("\n".join(textwrap.wrap(text_of(cell), HEADING)))
        if k == 0:
            made.add_column(heading, overflow="fold")
        else:
            made.add_column(heading, justify="left" if table.facts else "right", no_wrap=True)
    for row in table.rows:
        made.add_row(*(shown(text_of(cell)) for cell in row))
    return made
