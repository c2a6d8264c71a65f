"""Options and habits that all figures share."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from privest.arrays import Array
from privest.data import is_number, open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.paper._engine import Running
from privest.paper._first import Setting, paper_setting
from privest.records import Record

MOST_LEVELS = 10_000
Json = Annotated[Path | None, typer.Option("--json", help="Write the points.", metavar="FILE")]
Png = Annotated[Path | None, typer.Option("--png", help="Write the figure.", metavar="FILE")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]
Workers = Annotated[int, typer.Option(help="Processes. The result does not depend on it.", min=1)]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Run on a Dask cluster: the address of its scheduler. The result does not depend on "
        "it.",
        metavar="ADDRESS",
    ),
]


def names(given: Sequence[str] | None) -> list[str]:
    """Names separated by commas, in one option or several."""
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]


def setting(h: str | None, theta: str | None, sigma: float) -> Setting:
    """H, θ and σ as they were given, else the paper's."""
    paper = paper_setting()
    matrix = paper.matrix if h is None else _table("--h", h)
    if theta is not None:
        truth = _numbers("--theta", theta)
    elif matrix.shape[1] == len(paper.theta):
        truth = paper.theta
    else:
        raise InvalidInput(
            f"--h {h}: H has {matrix.shape[1]} columns, so --theta with as many numbers is needed."
        )
    return Setting(matrix, truth, sigma)


def levels(text: str) -> Array:
    """Numbers separated by commas, or FIRST:LAST:STEP with both ends."""
    if ":" not in text:
        return _numbers("--levels", text)
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3 or not all(map(is_number, parts)):
        raise InvalidInput(f"--levels {text}: a range is FIRST:LAST:STEP, as in 0.1:10:0.1.")
    first, last, step = map(float, parts)
    if not (0 < first <= last and step > 0 and (last - first) / step < MOST_LEVELS):
        raise InvalidInput(
            f"--levels {text}: a range needs 0 < FIRST ≤ LAST, STEP > 0 and fewer than "
            f"{MOST_LEVELS:,} levels."
        )
    count = math.floor((last - first) / step + 1e-9) + 1
    # Rounded as they were typed: 0.1:10:0.1 has 0.3 and not 0.30000000000000004.
    return np.array([float(f"{first + step * k:.12g}") for k in range(count)])


def _numbers(option: str, text: str) -> Array:
    """Numbers separated by commas, or those of a CSV file with one row or column."""
    cells = [cell.strip() for cell in text.split(",")]
    if all(map(is_number, cells)):
        return np.array([float(cell) for cell in cells])
    if not os.path.exists(text):
        raise InvalidInput(f"{option} {text}: neither numbers with commas nor an existing file.")
    table = _table(option, text)
    if 1 not in table.shape:
        raise InvalidInput(f"{option} {text}: one row or one column is needed, not {table.shape}.")
    return table.ravel()


def _table(option: str, path: str) -> Array:
    try:
        with open_lines(path, name="") as lines:
            return read_matrix(lines)[0]
    except InvalidInput as error:
        raise InvalidInput(f"{option} {path}: {error}") from None


@contextmanager
def running(workers: int, scheduler: str | None, what: str = "simulating") -> Iterator[Running]:
    """Who does the work of an experiment, with a bar; a Dask cluster where one is named."""
    with executor_of(scheduler) as executor, progress_bar(what) as progress:
        yield Running(workers=workers, executor=executor, progress=progress)


@contextmanager
def executor_of(scheduler: str | None) -> Iterator[Executor | None]:
    """The cluster's executor, or None for this machine."""
    if scheduler is None:
        yield None
        return
    from privest.scale import cluster_executor

    with cluster_executor(scheduler) as executor:
        yield executor


@contextmanager
def progress_bar(what: str = "simulating") -> Iterator[Callable[[int, int], None]]:
    """A bar on the error channel; Ctrl-C ends the command without a traceback."""
    report = Console(stderr=True, highlight=False)
    words = TextColumn("{task.description}")
    shown = (words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not report.is_terminal
    try:
        with Progress(*shown, console=report, transient=True, disable=hidden) as bars:
            bar = bars.add_task(what, total=None)
            yield lambda done, total: bars.update(bar, completed=done, total=total)
    except KeyboardInterrupt:
        report.print(Text("Stopped; nothing was written."))
        raise typer.Exit(130) from None


def grid(title: str, head: str, columns: Sequence[str]) -> Table:
    """A table with a column of names and columns of numbers."""
    table = Table(title=title, title_justify="left")
    table.add_column(head, overflow="fold", min_width=24)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def write_json(path: Path, records: Sequence[Record]) -> None:
    """Points or claims, as a list; whole or not at all."""
    text = json.dumps([record.to_dict() for record in records], indent=1, ensure_ascii=False)
    atomic_write(path, text + "\n")


def write_points(path: Path | None, points: Sequence[Record]) -> None:
    """The points as JSON, and where they are."""
    if path is not None:
        write_json(path, points)
        tell(f"Points: {path}")


def write_figure(path: Path | None, save: Callable[[Path], None]) -> None:
    """The figure, and where it is."""
    if path is not None:
        save(path)
        tell(f"Figure: {path}")


def tell(text: str) -> None:
    """A line on the error channel."""
    Console(stderr=True, highlight=False).print(Text(text))
