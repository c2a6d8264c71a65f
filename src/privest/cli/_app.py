"""The commands of `privest`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import privest
from privest.cli import _demo, _workflow
from privest.cli._bound import bound
from privest.cli._consensus import consensus_command
from privest.cli._filtering import filter_command
from privest.cli._stream import stream
from privest.errors import PrivestError
from privest.paper import _commands as reproduce

app = typer.Typer(
    name="privest",
    help="Private estimation at the Cramér-Rao limit: what a privacy level costs, exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

app.add_typer(reproduce.app, name="reproduce")


def run() -> None:
    """Run the command line; an error of ours is one line on stderr and exit code 2."""
    try:
        app()
    except PrivestError as error:
        _complain(str(error))
        sys.exit(2)
    except OSError as error:  # a full disk, a closed pipe
        _complain(f"cannot write the output ({error.strerror}).")
        sys.exit(1)


def _complain(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(
        Text("privest:", style="bold red"), Text(text)
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privest {privest.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version.", metavar=""
        ),
    ] = False,
) -> None:
    pass


for _command in (_workflow.plan, _workflow.release, _workflow.estimate, _workflow.report):
    app.command()(_command)
app.command(name="filter")(filter_command)
app.command(name="consensus")(consensus_command)
app.command()(bound)
app.command()(stream)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what it makes.", metavar="DIR")] = Path(
        "out/demo"
    ),
    first: Annotated[
        bool,
        typer.Option("--first", help="Instead: the bound of the paper's first example, a table."),
    ] = False,
) -> None:
    """Plan, release, estimate and report on embedded data: 442 people, their triglycerides."""
    if first:
        reproduce.show_first_example(Console(), out)
    else:
        _demo.show(Console(highlight=False), out)
