"""`privest reproduce all`: four figures, and one table of what they are said to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from privest.paper import _people, fig1, fig2, fig3, fig4
from privest.paper._engine import Claim
from privest.paper.commands import options, people, simulated
from privest.records import Record


def all_figures(
    out: Annotated[
        Path, typer.Option(help="Folder for figures, points and verdicts.", metavar="DIR")
    ] = Path("out/reproduce"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: half a minute.")] = False,
    data: people.Data = people.Source.diabetes,
    folder: people.Folder = None,
    workers: options.Workers = 2,
    scheduler: options.Scheduler = None,
) -> None:
    """The four figures of the paper, and whether what it says of them holds."""
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file.", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    table, plan = _people.load(data.value, folder), _people.PLANS[data.value]
    count = people.QUICK_REPETITIONS if quick else None
    with options.running(workers, scheduler, "fig1") as who:
        one = simulated.run_first(quick, who)
    two = fig2.figure_two(table, plan, repetitions=count)
    three = fig3.figure_three(table, plan, repetitions=count)
    with options.running(workers, scheduler, "fig4") as who:
        four = simulated.run_fourth(quick, who)
    fig1.save_figure(one, out / "fig1.png")
    fig2.save_figure(two, out / "fig2.png", table.source)
    fig3.save_figure(three, out / "fig3.png", table.source)
    fig4.save_figure(four, out / "fig4.png")
    found = [*fig1.claims(one), *fig2.claims(two), *fig3.claims(three), *fig4.claims(four)]
    written: dict[str, Sequence[Record]] = {
        "fig1": one, "fig2": two, "fig3": three, "fig4": four, "claims": found,
    }  # fmt: skip
    for name, records in written.items():
        options.write_json(out / f"{name}.json", records)
    _print(Console(highlight=False), found)
    options.tell(f"Figures and numbers: {out}")


def _print(console: Console, found: list[Claim]) -> None:
    table = Table(title="What the figures are said to show", title_justify="left")
    table.add_column("label", overflow="fold")
    table.add_column("figure", no_wrap=True)
    table.add_column("claim", overflow="fold", ratio=1)
    table.add_column("holds", no_wrap=True)
    for claim in found:
        table.add_row(claim.label, claim.figure, claim.claim, "yes" if claim.holds else "NO")
    console.print(table)
