"""`privest reproduce`: the paper's experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.experiments import fig1
from privest.experiments.first import paper_levels
from privest.report.mechanisms import save_mechanisms

app = typer.Typer(
    help="The paper's experiments, with figures and data.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

QUICK_LEVELS = np.array([0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0])
QUICK_TRIALS = 200
PICTURES = (".png", ".pdf", ".svg")
# Chance that a Gaussian mechanism that does attain the bound is said not to, over all levels.
FALSE_ALARM = 1e-3


@app.callback()
def _several() -> None:
    """The paper's experiments, with figures and data."""


@app.command(name="fig1")
def first_figure(
    quick: Annotated[
        bool, typer.Option("--quick", help="8 levels and 200 trials, in about ten seconds.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option("--json", help="Write the points.", metavar="FILE")
    ] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Write the figure.", metavar="FILE")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Trials a point (2000, as in the paper).", min=2)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = fig1.SEED,
    workers: Annotated[
        int, typer.Option(help="Processes. The result does not depend on it.", min=1)
    ] = 2,
    resume: Annotated[
        Path | None,
        typer.Option(help="Keep finished work here; a stopped run goes on.", metavar="FILE"),
    ] = None,
) -> None:
    """Seven mechanisms and their estimators against the private bound (`fig:ppcr`).

    θ has five entries, H is drawn from [−1, 1]^{10×5}, w ~ N(0, 0.2² I), S = sI with s = 0.1, 0.2,
    …, 10. All mechanisms are calibrated to the same level; only the Gaussian one attains the bound.
    """
    for path in (data, png):
        if path is not None and path.is_dir():
            raise InvalidInput(f"{path} is a folder; name a file.")
    if png is not None and png.suffix.lower() not in PICTURES:
        raise InvalidInput(f"{png}: the figure can be {', '.join(PICTURES)}.")
    levels = QUICK_LEVELS if quick else paper_levels()
    count = trials or (QUICK_TRIALS if quick else fig1.TRIALS)
    report = Console(stderr=True, highlight=False)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=report, transient=True, disable=not report.is_terminal,
    ) as bars:  # fmt: skip
        bar = bars.add_task("simulating", total=None)
        points = fig1.figure_one(
            levels,
            trials=count,
            seed=seed,
            workers=workers,
            resume=resume,
            progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )
    _print(Console(highlight=False), points, levels)
    if data is not None:
        data.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(fig1.as_records(points), indent=1)
        data.write_text(text + "\n", encoding="utf-8")
        report.print(Text(f"Points: {data}"))
    if png is not None:
        save_mechanisms(points, png)
        report.print(Text(f"Figure: {png}"))


def _print(console: Console, points: list[fig1.Point], levels: Array) -> None:
    """A table at a few levels, and whether the Gaussian mechanism attains the bound at all."""
    wanted = (0.1, 1.0, 10.0)
    shown = [float(levels[np.abs(levels - s).argmin()]) for s in wanted]
    table = Table(title="Mean-square error (median)", title_justify="left")
    table.add_column("mechanism and estimator", overflow="fold", min_width=24)
    for s in shown:
        table.add_column(f"s = {s:g}", justify="right", no_wrap=True)
    by = {(p.mechanism, p.s): p for p in points}
    for name, method in fig1.METHODS.items():
        cells = [by[name, s] for s in shown]
        table.add_row(
            method.label,
            *(f"{p.mse:.3g} ({p.median:.2g})" for p in cells),
        )
    table.add_section()
    table.add_row("private bound", *(f"{by['gaussian', s].bound:.3g}" for s in shown))
    console.print(table)
    verdict = fig1.attains(points, FALSE_ALARM)
    console.print(Text(str(verdict)))
