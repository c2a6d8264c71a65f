"""`privest reproduce fig2` and `fig3`: streams of real people."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.data import Table as People
from privest.paper import _blood as blood
from privest.paper import _fig2 as fig2
from privest.paper import _fig3 as fig3
from privest.paper._blood_figure import save_recursive, save_rivals
from privest.paper._commands import common
from privest.report import require_files

QUICK_REPETITIONS = 5


class Source(StrEnum):
    """Whose blood values."""

    nhanes = "nhanes"
    diabetes = "diabetes"


class FeatureUnit(StrEnum):
    """Units of the features."""

    standard = "standard"
    raw = "raw"


class ResponseUnit(StrEnum):
    """Units of the response."""

    standard = "standard"
    plain = "plain"


Data = Annotated[
    Source,
    typer.Option(
        help="diabetes: scikit-learn's table, no file needed. nhanes: the paper's 2704 people."
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the CDC's tables DEMO_G, BMX_G and TRIGLY_G (XPT, CSV or CSV.xz). "
        "Without one they are downloaded and kept.",
        metavar="DIR",
    ),
]
FeatureUnits = Annotated[
    FeatureUnit,
    typer.Option(help="Features: standard (centred and scaled by the reference set) or raw."),
]
ResponseUnits = Annotated[
    ResponseUnit, typer.Option(help="Response: standard, or plain (the bare Box-Cox transform).")
]
Repetitions = Annotated[
    int | None,
    typer.Option(
        help="Repetitions of every block (nhanes 20, as in the paper; diabetes 100).", min=2
    ),
]
Resplit = Annotated[
    bool,
    typer.Option("--resplit", help="A new random split of the people in every repetition."),
]
Quick = Annotated[bool, typer.Option("--quick", help=f"{QUICK_REPETITIONS} repetitions.")]


def _prepared(
    data: Source, folder: Path | None, features: FeatureUnit, response: ResponseUnit
) -> tuple[People, blood.Plan]:
    table = blood.load(data.value, folder)
    plan = replace(
        blood.PLANS[data.value],
        features=features.value,
        response=response.value,
    )
    return table, plan


def second_figure(
    data: Data = Source.diabetes,
    folder: Folder = None,
    quick: Quick = False,
    repetitions: Repetitions = None,
    resplit: Resplit = False,
    features: FeatureUnits = FeatureUnit.standard,
    response: ResponseUnits = ResponseUnit.standard,
    points_to: common.Json = None,
    png: common.Png = None,
    seed: common.Seed = fig2.SEED,
) -> None:
    """The private RLS on streams of real people (`fig:pprls-non-syms`).

    A reference set gives the Box-Cox exponent, the units, the parameter that counts as true and the
    noise variance; the others are streams of one person a step. S_k is uniform in [0.2, 2],
    U_k = 0.1 √S_k ξ_k. The error must stay within its chance band around the bound.
    """
    require_files(points_to, png)
    table, plan = _prepared(data, folder, features, response)
    count = repetitions or (QUICK_REPETITIONS if quick else None)
    points = fig2.figure_two(table, plan, repetitions=count, seed=seed, resplit=resplit)
    console = Console(highlight=False)
    shown = _steps([p.k for p in points])
    by = {(p.series, p.k): p for p in points}
    grid = _grid("Mean-square error as a multiple of the private bound", shown)
    for series, label in (("data", table.source), ("synthetic", "synthetic readings, same people")):
        grid.add_row(label, *(f"{by[series, k].mse / by[series, k].bound:.3f}" for k in shown))
    grid.add_section()
    grid.add_row("the private bound itself", *(f"{by['data', k].bound:.3g}" for k in shown))
    console.print(grid)
    for series in ("data", "synthetic"):
        console.print(Text(str(fig2.claim_two(points, series))))
    common.write_points(points_to, fig2.as_records(points))
    common.write_figure(png, lambda path: save_recursive(points, path, table.source))


def third_figure(
    data: Data = Source.diabetes,
    folder: Folder = None,
    quick: Quick = False,
    repetitions: Repetitions = None,
    resplit: Resplit = False,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Readings drawn from the model, same people.")
    ] = False,
    features: FeatureUnits = FeatureUnit.standard,
    response: ResponseUnits = ResponseUnit.standard,
    spread: Annotated[
        float,
        typer.Option(
            help="What the one-bit rival knows at its start: standard deviation of each "
            "coefficient, in units of one private reading. Small values are a prior.",
        ),
    ] = fig3.SPREAD,
    points_to: common.Json = None,
    png: common.Png = None,
    seed: common.Seed = fig2.SEED,
) -> None:
    """The private RLS against Laplace noise and one bit, all at level 1 (`fig:pprls-syms`).

    Rivals: y + Laplace noise with recursive least squares; 1{y + noise ≤ C} with a recursive
    quasi-Newton estimate, ours of the kind that the paper cites. Same people as fig2.
    """
    require_files(points_to, png)
    table, plan = _prepared(data, folder, features, response)
    points = fig3.figure_three(
        table,
        plan,
        repetitions=repetitions or (QUICK_REPETITIONS if quick else None),
        seed=seed,
        resplit=resplit,
        synthetic=synthetic,
        spread=spread,
    )
    console = Console(highlight=False)
    shown = _steps([p.k for p in points])
    by = {(p.series, p.k): p for p in points}
    grid = _grid("Mean-square error as a multiple of the private bound", shown)
    for series, label in fig3.SERIES.items():
        grid.add_row(label, *(f"{by[series, k].mse / by[series, k].bound:.3f}" for k in shown))
    grid.add_section()
    grid.add_row("the private bound itself", *(f"{by[fig3.OURS, k].bound:.3g}" for k in shown))
    console.print(grid)
    console.print(Text(str(fig3.claim_three(points))))
    common.write_points(points_to, fig3.as_records(points))
    common.write_figure(png, lambda path: save_rivals(points, path, table.source))


def _steps(found: list[int]) -> list[int]:
    """The first step shown, 10 or a little later, one in the middle and the last."""
    steps = sorted({k for k in found if k >= fig2.START})
    return sorted({steps[0], steps[len(steps) // 2], steps[-1]})


def _grid(title: str, steps: list[int]) -> Table:
    grid = Table(title=title, title_justify="left")
    grid.add_column("", overflow="fold", min_width=24)
    for k in steps:
        grid.add_column(f"k = {k}", justify="right", no_wrap=True)
    return grid
