"""How commands print: tables, JSON, notes on standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from privest.report.sections import printable
from privest.report.terminal import shown as shown


class SafeConsole(Console):
    """A console on which no text can steer the terminal: control characters are spelled out.

    What Rich itself writes to steer it is apart from texts (`Segment.control`, styles).
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)


def to_people() -> Console:
    return SafeConsole()


def to_stderr() -> Console:
    return SafeConsole(stderr=True)


def note(*sentences: str | None) -> None:
    """Sentences on standard error; None is left out."""
    for one in sentences:
        if one is not None:
            to_stderr().print(shown(one))


def complain(text: str) -> None:
    """An error message on standard error, after the name of the program."""
    to_stderr().print(shown("privest:", style="bold red"), shown(text), soft_wrap=True)


def new_table(title: str, first: str, *others: str) -> Table:
    """A column of names and columns of numbers."""
    table = Table(title=shown(title), title_justify="left")
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_json(record: Mapping[str, Any]) -> None:
    """A record for programs, with the names of the library; control characters are escaped."""

    def spelled(found: re.Match[str]) -> str:
        return found[0] if printable(found[0]) == found[0] else json.dumps(found[0])[1:-1]

    text = json.dumps(record, indent=1, ensure_ascii=False)
    typer.echo(re.sub(r"[^\n -~]", spelled, text))


def tell_file(what: str, path: Path) -> None:
    """Where something is now, on standard error; a long path stays on one line."""
    to_stderr().print(shown(f"{what}: {path}"), soft_wrap=True)
