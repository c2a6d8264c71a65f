"""`privest reproduce`: the paper's experiments, one command a figure."""

from __future__ import annotations

import typer

from privest.paper.commands.everything import all_figures
from privest.paper.commands.first_example import show as show_first_example
from privest.paper.commands.people import second_figure, third_figure
from privest.paper.commands.simulated import first_figure, fourth_figure

__all__ = ["app", "show_first_example"]

app = typer.Typer(
    help="The paper's experiments, with figures and data.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.command(name="fig1")(first_figure)
app.command(name="fig2")(second_figure)
app.command(name="fig3")(third_figure)
app.command(name="fig4")(fourth_figure)
app.command(name="all")(all_figures)
