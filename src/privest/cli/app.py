"""The commands of `privest`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import privest
from privest.cli import demo as demo_command
from privest.cli import tables
from privest.cli.files import read_table, read_value
from privest.errors import InvalidInput, PrivestError
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.privacy import PrivacyLevel

app = typer.Typer(
    name="privest",
    help="Private estimation at the Cramér-Rao limit: what a privacy level costs, exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def run() -> None:
    """Run the command line; an error of ours is one line on stderr and exit code 2."""
    try:
        app()
    except PrivestError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            "[bold red]privest:[/]", str(error), markup=True
        )
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privest {privest.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def bound(
    h: Annotated[
        Path,
        typer.Option(
            "--h",
            help="CSV file of H: one row a reading, one column a parameter; a first line may "
            "name the parameters.",
            metavar="FILE",
        ),
    ],
    noise_cov: Annotated[
        str,
        typer.Option(
            help="Covariance of the measurement noise: a number (variance of every reading), or a "
            "CSV file with a vector of variances or a matrix.",
            metavar="NUMBER|FILE",
        ),
    ],
    level: Annotated[
        str | None,
        typer.Option(
            help="Privacy level S, the Fisher information about the readings that may be "
            "released: a number (s·I), or a CSV file with a vector (diagonal) or a matrix.",
            metavar="NUMBER|FILE",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Instead of --level: ε of (ε, δ)-differential privacy.", metavar="ε"),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ that goes with --epsilon.", metavar="δ")
    ] = None,
    move: Annotated[
        float | None,
        typer.Option(
            help="What --epsilon speaks of: one reading moves by at most this, in its own units.",
            metavar="C",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON with the names of the library.")
    ] = False,
) -> None:
    """The least error of any unbiased estimate of θ in y = Hθ + w under a privacy level.

    Nothing is released and no reading is needed: H, the noise and the level are enough.

    Example: privest bound --h H.csv --noise-cov 0.04 --level 1.0
    """
    wanted = _privacy(level, epsilon, delta, move)
    covariance = read_value(noise_cov, "--noise-cov")
    matrix, names = read_table(h, "--h")
    model = LinearModel(matrix, noise=Gaussian(cov=covariance))
    result = privest.bound(model, wanted)
    if json:
        tables.print_json(result)
    else:
        tables.print_bound(Console(), result, model, wanted, names)


def _privacy(
    level: str | None, epsilon: float | None, delta: float | None, move: float | None
) -> PrivacyLevel:
    """The level as given, or the one that (ε, δ) for a stated move amounts to; never a guess."""
    if level is not None and epsilon is None:
        return PrivacyLevel(read_value(level, "--level"))
    if level is None and epsilon is not None and delta is not None and move is not None:
        return PrivacyLevel.from_epsilon(epsilon, delta=delta, move=move)
    raise InvalidInput(
        "Give the privacy either as --level, or as --epsilon together with --delta and --move."
    )


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.", metavar="DIR")] = Path("out"),
) -> None:
    """The paper's first example: the bound against the privacy level, a table and a picture."""
    demo_command.show(Console(), out)
