"""`privest reproduce fig1`."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.arrays import Array
from privest.paper import _fig1 as fig1
from privest.paper._commands import common
from privest.paper._first import paper_levels
from privest.paper._mechanisms_figure import save_mechanisms
from privest.report import require_files

QUICK_LEVELS = np.array([0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0])
QUICK_TRIALS = 200


def first_figure(
    quick: Annotated[
        bool, typer.Option("--quick", help="8 levels and 200 trials, in about ten seconds.")
    ] = False,
    data: common.Json = None,
    png: common.Png = None,
    trials: Annotated[
        int | None, typer.Option(help="Trials a point (2000, as in the paper).", min=2)
    ] = None,
    seed: common.Seed = fig1.SEED,
    workers: common.Workers = 2,
    scheduler: common.Scheduler = None,
    resume: common.Resume = None,
) -> None:
    """Seven mechanisms and their estimators against the private bound (`fig:ppcr`).

    θ has five entries, H is drawn from [−1, 1]^{10×5}, w ~ N(0, 0.2² I), S = sI with s = 0.1, 0.2,
    …, 10. All mechanisms are calibrated to the same level; only the Gaussian one attains the bound.
    """
    require_files(data, png)
    levels = QUICK_LEVELS if quick else paper_levels()
    count = trials or (QUICK_TRIALS if quick else fig1.TRIALS)
    with common.executor_of(scheduler) as executor, common.progress_bar(kept=resume) as progress:
        points = fig1.figure_one(
            levels,
            trials=count,
            seed=seed,
            workers=workers,
            executor=executor,
            resume=resume,
            progress=progress,
        )
    _print(Console(highlight=False), points, levels)
    common.write_points(data, fig1.as_records(points))
    common.write_figure(png, lambda path: save_mechanisms(points, path))


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
    verdict = fig1.attains(points, fig1.FALSE_ALARM)
    console.print(Text(str(verdict)))
