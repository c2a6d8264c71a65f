"""What several commands print: tables, JSON, notes on stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.cli._options import Spent

SIMULATED = "The noise was simulated: for experiments, this is no protected release."


def to_people() -> Console:
    """Standard output, for tables and sentences."""
    return Console(highlight=False)


def to_stderr() -> Console:
    """Standard error: what is said beside the output."""
    return Console(stderr=True, highlight=False)


def new_table(title: str, first: str, *others: str) -> Table:
    """A column of names and columns of numbers."""
    table = Table(title=title, title_justify="left")
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_json(record: Mapping[str, Any]) -> None:
    """A record for programs, with the names of the library."""
    typer.echo(json.dumps(record, indent=1, ensure_ascii=False))


def tell_file(what: str, path: Path) -> None:
    """Say on stderr where something is now; a long path stays on one line."""
    to_stderr().print(Text(f"{what}: {path}"), soft_wrap=True)


def print_spent(console: Console, spent: Spent | None) -> None:
    """The ε of all releases of a stream, where it was asked for."""
    if spent is not None:
        console.print(
            f"All releases together, if a reading moves by {spent.move:g}: ε = {spent.epsilon:.4g} "
            f"at δ = {spent.delta:g} (for exact Gaussian noise)."
        )


def tell_simulated(console: Console) -> None:
    """The warning that goes with every simulated release."""
    console.print(Text(SIMULATED), style="yellow")
