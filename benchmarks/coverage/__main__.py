"""`python -m benchmarks.coverage`: how often the printed intervals hold the truth."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import coverage as cover
from benchmarks.coverage.cases import CASES
from privest.cli import reproduce as options
from privest.cli.console import tell_file
from privest.files import atomic_write, require_writable

QUICK = 100
FIELDS = (
    "topic", "case", "of", "interval", "coverage", "error", "refused", "warned", "trials", "known",
    "verdict",
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
    data: Annotated[
        Path | None, typer.Option("--json", help="Write the rows.", metavar="FILE")
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Write the table.", metavar="FILE")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help=f"Trials a case ({cover.TRIALS:,}).", min=2)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = cover.SEED,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
) -> None:
    """How often the intervals that the commands print hold the truth, case by case.

    Readings are drawn, released with simulated noise and estimated by the code of `privest release`
    and `privest estimate`, many times: several private columns, weights, logarithms, yes/no and
    counts. The
    intervals are the default ones, of 95 %. Next to each: its Monte Carlo error, what was known of
    it before, and whether it is where it has to be (93 to 97 %, or wider where it is meant to be).
    """
    for file in (data, table):
        if file is not None:
            require_writable(file)
    cases = cover.chosen(CASES, topics or [])
    count = trials or (QUICK if quick else cover.TRIALS)
    with options.progress_bar() as progress:
        found = cover.coverage_table(
            cases, trials=count, seed=seed, workers=workers, progress=progress
        )
    if data is not None:
        options.write_json(data, found)
    if table is not None:
        atomic_write(table, as_csv(found))
        tell_file("Table", table)
    _print(Console(highlight=False), found)


def as_csv(found: Sequence[cover.Covered]) -> str:
    """The rows as CSV, with their names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows([getattr(row, name) for name in FIELDS] for row in found)
    return text.getvalue()


def _print(console: Console, found: Sequence[cover.Covered]) -> None:
    """A table for every way of making intervals, and how many of all are not as they should be."""
    for (topic, interval, known), rows in groupby(found, _heading):
        table = new_table(f"{topic}: {interval} (known before: {known})")
        case = ""
        for row in rows:
            first, case = row.case != case, row.case
            refused = f", none in {100 * row.refused:.2g} %" if row.refused else ""
            share = f"{row.coverage:.3f} ± {row.error:.3f}{refused}"
            told = f", {100 * row.warned:.3g} % of misses warned of" if row.warned else ""
            table.add_row(row.case if first else "", row.of, share, row.verdict + told)
        console.print(table)
    warned = sum(row.verdict == "warned" for row in found)
    wrong = sum(row.verdict == "NO" for row in found)
    chance = sum(row.verdict == "by chance" for row in found)
    wide = sum(row.verdict == "wide" for row in found)
    right = len(found) - wrong - chance - warned - wide
    console.print(
        f"{len(found)} intervals: {right} where they should be, {chance} beyond it by what chance "
        f"may do, {wide} above it, {warned} below it with a warning, {wrong} not."
    )


def _heading(row: cover.Covered) -> tuple[str, str, str]:
    return row.topic, row.interval, row.known


def new_table(title: str) -> Table:
    """Four columns under a title that may be long."""
    table = Table(title=title, title_justify="left", min_width=76)
    table.add_column("case", overflow="fold", ratio=1)
    table.add_column("of", overflow="fold")
    table.add_column("coverage of 95 %", justify="right")
    table.add_column("as it should")
    return table


if __name__ == "__main__":
    typer.run(coverage)
