"""`privest reproduce all`: four figures, and one table of what they are said to show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.paper import _blood as blood_experiment
from privest.paper import _fig1 as first
from privest.paper import _fig2 as second
from privest.paper import _fig3 as third
from privest.paper import _fig4 as fourth
from privest.paper._blood_figure import save_recursive, save_rivals
from privest.paper._claim import Claim
from privest.paper._commands import blood as people
from privest.paper._commands import common, fig1, fig4
from privest.paper._first import paper_levels
from privest.paper._likelihood_figure import save_likelihood
from privest.paper._mechanisms_figure import save_mechanisms


def all_figures(
    out: Annotated[
        Path, typer.Option(help="Folder for figures, points and verdicts.", metavar="DIR")
    ] = Path("out/reproduce"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: half a minute.")] = False,
    data: people.Data = people.Source.diabetes,
    folder: people.Folder = None,
    workers: common.Workers = 2,
    scheduler: common.Scheduler = None,
) -> None:
    """The four figures of the paper, and whether what it says of them holds.

    Stopped runs go on where they were: fig1 and fig4 keep finished work in the folder.
    """
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file.", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    table = blood_experiment.load(data.value, folder)
    plan = blood_experiment.PLANS[data.value]
    count = people.QUICK_REPETITIONS if quick else None
    kept = out / ("quick.sqlite" if quick else "finished.sqlite")

    with common.executor_of(scheduler) as executor, common.progress_bar("fig1", out) as progress:
        one = first.figure_one(
            fig1.QUICK_LEVELS if quick else paper_levels(),
            trials=fig1.QUICK_TRIALS if quick else first.TRIALS,
            workers=workers,
            executor=executor,
            resume=kept.with_stem(f"fig1-{kept.stem}"),
            progress=progress,
        )
    two = second.figure_two(table, plan, repetitions=count)
    three = third.figure_three(table, plan, repetitions=count)
    with common.executor_of(scheduler) as executor, common.progress_bar("fig4", out) as progress:
        four = fourth.figure_four(
            "laplace",
            fig4.QUICK_COUNTS if quick else None,
            trials=fig4.QUICK_TRIALS if quick else fourth.TRIALS,
            workers=workers,
            executor=executor,
            resume=kept.with_stem(f"fig4-{kept.stem}"),
            progress=progress,
        )
    save_mechanisms(one, out / "fig1.png")
    save_recursive(two, out / "fig2.png", table.source)
    save_rivals(three, out / "fig3.png", table.source)
    save_likelihood(four, out / "fig4.png")
    records = {
        "fig1": first.as_records(one),
        "fig2": second.as_records(two),
        "fig3": third.as_records(three),
        "fig4": fourth.as_records(four),
    }
    for name, points in records.items():
        (out / f"{name}.json").write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    found = [
        *first.claims(one),
        second.claim_two(two, "data"),
        second.claim_two(two, "synthetic"),
        third.claim_three(three),
        *fourth.claims(four),
    ]
    text = json.dumps([claim.as_record() for claim in found], indent=1, ensure_ascii=False)
    (out / "claims.json").write_text(text + "\n", encoding="utf-8")
    _print(Console(highlight=False), found)
    Console(stderr=True, highlight=False).print(Text(f"Figures and numbers: {out}"))


def _print(console: Console, found: list[Claim]) -> None:
    table = Table(title="What the figures are said to show", title_justify="left")
    table.add_column("label", overflow="fold")
    table.add_column("figure", no_wrap=True)
    table.add_column("claim", overflow="fold", ratio=1)
    table.add_column("holds", no_wrap=True)
    for claim in found:
        table.add_row(claim.label, claim.figure, claim.claim, "yes" if claim.holds else "NO")
    console.print(table)
