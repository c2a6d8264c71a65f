"""The commands of `privest reproduce`."""

from __future__ import annotations

import typer

from privest.paper._commands.blood import second_figure, third_figure
from privest.paper._commands.everything import all_figures
from privest.paper._commands.fig1 import first_figure
from privest.paper._commands.fig4 import fourth_figure

app = typer.Typer(
    help="The paper's experiments, with figures and data.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.callback()
def _several() -> None:
    """The paper's experiments, with figures and data."""


app.command(name="fig1")(first_figure)
app.command(name="fig2")(second_figure)
app.command(name="fig3")(third_figure)
app.command(name="fig4")(fourth_figure)
app.command(name="all")(all_figures)
