"""What several commands print: tables, JSON, notes on stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from privest.cli._options import Spent
from privest.privacy import GridStatement
from privest.report import printable
from privest.report import shown as shown

SIMULATED = "The noise was simulated: for experiments, this is no protected release."


class SafeConsole(Console):
    """A console that obeys nobody: what `shown` was not asked about is seen to here.

    Every text passes on its way, those of tables too; what rich itself writes to steer the terminal
    is apart from them (`Segment.control`, styles).
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces that are written, with control characters spelled out."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)


def to_people() -> Console:
    """Standard output, for tables and sentences."""
    return SafeConsole()


def to_stderr() -> Console:
    """Standard error: what is said beside the output."""
    return SafeConsole(stderr=True)


@contextmanager
def at_work(what: str) -> Iterator[None]:
    """A line that moves on standard error while something takes its time, and is gone after it;
    nothing where that is no terminal.
    """
    console = to_stderr()
    with console.status(shown(f"{what} …")) if console.is_terminal else nullcontext():
        yield


def complain(text: str) -> None:
    """What is wrong, on standard error, after the name of the program."""
    to_stderr().print(shown("privest:", style="bold red"), shown(text), soft_wrap=True)


def new_table(title: str, first: str, *others: str) -> Table:
    """A column of names and columns of numbers."""
    table = Table(title=shown(title), title_justify="left")
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_json(record: Mapping[str, Any]) -> None:
    """A record for programs, with the names of the library."""
    echo_json(json.dumps(record, indent=1, ensure_ascii=False))


def echo_json(text: str) -> None:
    """JSON to standard output; in it control characters have a spelling that reads back."""
    typer.echo(re.sub(r"[^\n -~]", _json_spelling, text))


def _json_spelling(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if printable(letter) == letter else json.dumps(letter)[1:-1]


def tell_file(what: str, path: Path) -> None:
    """Say on stderr where something is now; a long path stays on one line."""
    to_stderr().print(shown(f"{what}: {path}"), soft_wrap=True)


def print_spent(console: Console, spent: Spent | None) -> None:
    """The ε of all releases of a stream, where it was asked for."""
    if spent is not None:
        console.print(
            f"All releases together, comparing streams in which one reading differs by at most "
            f"{spent.move:g}: ε = {spent.epsilon:.4g} at δ = {spent.delta:g} (for exact Gaussian "
            "noise)."
        )


def print_promise(console: Console, said: GridStatement | None) -> None:
    """What all real releases of a stream together promise, where ε was asked for."""
    if said is not None:
        held = " That it does not differ by more is not enforced: --range would." * bool(
            said.conditions
        )
        console.print(
            shown(
                f"All releases together, where {said.about}: ε = {said.epsilon:.4g} at "
                f"δ = {said.delta:g}.{held}"
            )
        )


def tell_simulated(console: Console) -> None:
    """The warning that goes with every simulated release."""
    console.print(shown(SIMULATED), style="yellow")
