"""`privest reproduce coverage`: how often the printed intervals hold the truth."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from privest.files import atomic_write, require_writable
from privest.paper import coverage as cover
from privest.paper._commands import options
from privest.paper._coverage_cases import CASES

QUICK = 100
FIELDS = (
    "topic", "case", "of", "interval", "coverage", "error", "refused", "trials", "known", "verdict",
)  # fmt: skip


def coverage(
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Only these, by the number of their section: 1, 2, ... Repeat.",
            metavar="N",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK} trials a case.")] = False,
    data: options.Json = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Write the table.", metavar="FILE")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help=f"Trials a case ({cover.TRIALS:,}).", min=2)
    ] = None,
    seed: options.Seed = cover.SEED,
    workers: options.Workers = 2,
    resume: options.Resume = None,
) -> None:
    """How often the intervals that the commands print hold the truth, case by case.

    Readings are drawn, released with simulated noise and estimated by the code of `privest release`
    and `privest estimate` (of `privest stream` for streams), many times: people with several rows,
    several private columns, weights, logarithms, streams that remember, yes/no and counts. The
    intervals are the default ones, of 95 %. Next to each: its Monte Carlo error, what was known of
    it before, and whether it is where it has to be (93 to 97 %, or wider where it is meant to be).
    """
    for file in (data, table):
        if file is not None:
            require_writable(file)
    cases = cover.chosen(CASES, topics or [])
    count = trials or (QUICK if quick else cover.TRIALS)
    with options.running(workers, None, resume) as running:
        found = cover.coverage_table(cases, trials=count, seed=seed, **running)
    options.write_points(data, found)
    if table is not None:
        atomic_write(table, as_csv(found))
        options.tell(f"Table: {table}")
    _print(Console(highlight=False), found)


def as_csv(found: Sequence[cover.Covered]) -> str:
    """The rows as CSV, with their names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows([getattr(row, name) for name in FIELDS] for row in found)
    return text.getvalue()


def _print(console: Console, found: Sequence[cover.Covered]) -> None:
    table = Table(title="Coverage of 95 % intervals", title_justify="left")
    for name in ("case", "interval", "of", "coverage", "known", "as it should"):
        table.add_column(name, overflow="fold", justify="right" if name == "coverage" else "left")
    topic = case = ""
    for row in found:
        if row.topic != topic:
            topic = row.topic
            table.add_section()
            table.add_row(f"[bold]{topic}[/bold]")
        first = row.case != case
        case = row.case
        share = f"{row.coverage:.3f} ± {row.error:.3f}"
        refused = f" ({100 * row.refused:.2g} % none)" if row.refused else ""
        table.add_row(
            row.case if first else "", row.interval if first else "", row.of, share + refused,
            row.known if first else "", row.verdict,
        )  # fmt: skip
    console.print(table)
    wrong = sum(row.verdict == "NO" for row in found)
    console.print(f"{len(found)} intervals, {wrong} of them not where they should be.")
