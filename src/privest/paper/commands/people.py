"""`privest reproduce fig2` and `fig3`: streams of real people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from privest.data import Table
from privest.paper import _people as people
from privest.paper import fig2, fig3
from privest.paper._engine import Claim
from privest.paper.commands import options
from privest.report.figures import require_files

QUICK_REPETITIONS = 5


Source = StrEnum("Source", ["nhanes", "diabetes"])
FeatureUnit = StrEnum("FeatureUnit", ["standard", "raw"])
ResponseUnit = StrEnum("ResponseUnit", ["standard", "plain"])

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
    bool, typer.Option("--resplit", help="A new random split of the people in every repetition.")
]
Quick = Annotated[bool, typer.Option("--quick", help=f"{QUICK_REPETITIONS} repetitions.")]


def _prepared(
    data: Source, folder: Path | None, features: FeatureUnit, response: ResponseUnit
) -> tuple[Table, people.Plan]:
    table = people.load(data.value, folder)
    plan = people.PLANS[data.value]
    return table, replace(plan, features=features.value, response=response.value)


def second_figure(
    data: Data = Source.diabetes,
    folder: Folder = None,
    quick: Quick = False,
    repetitions: Repetitions = None,
    resplit: Resplit = False,
    features: FeatureUnits = FeatureUnit.standard,
    response: ResponseUnits = ResponseUnit.standard,
    points_to: options.Json = None,
    png: options.Png = None,
    seed: options.Seed = fig2.SEED,
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
    _print(points, fig2.labels(table.source), fig2.claims(points))
    options.write_points(points_to, points)
    options.write_figure(png, lambda path: fig2.save_figure(points, path, table.source))


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
            "coefficient, in units of one private reading. Small values are a prior."
        ),
    ] = fig3.SPREAD,
    points_to: options.Json = None,
    png: options.Png = None,
    seed: options.Seed = fig2.SEED,
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
    _print(points, fig3.SERIES, fig3.claims(points))
    options.write_points(points_to, points)
    options.write_figure(png, lambda path: fig3.save_figure(points, path, table.source))


def _print(
    points: Sequence[fig2.Point] | Sequence[fig3.Point],
    labels: Mapping[str, str],
    found: Sequence[Claim],
) -> None:
    """Ratios to the bound: the first step shown (10 or a little later), the middle, the last."""
    steps = sorted({p.k for p in points if p.k >= fig2.START})
    shown = sorted({steps[0], steps[len(steps) // 2], steps[-1]})
    by = {(p.series, p.k): p for p in points}
    table = options.grid(
        "Mean-square error as a multiple of the private bound", "", [f"k = {k}" for k in shown]
    )
    for series, label in labels.items():
        own = [by[series, k] for k in shown]
        table.add_row(label, *(f"{p.mse / p.bound:.3f}" for p in own))
    table.add_section()
    first = next(iter(labels))
    table.add_row("the private bound itself", *(f"{by[first, k].bound:.3g}" for k in shown))
    console = Console(highlight=False)
    console.print(table)
    for claim in found:
        console.print(Text(str(claim)))
