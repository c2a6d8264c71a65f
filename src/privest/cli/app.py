"""The commands of `privest`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

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
    rich_markup_mode="markdown",
)


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


@contextmanager
def _about(option: str) -> Iterator[None]:
    """Name the option that an error is about."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{option}: {error}") from None


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


@app.command()
def bound(
    h: Annotated[
        Path,
        typer.Option(
            "--h",
            help="CSV file of H: one row per reading, one column per parameter; a first line may "
            "name the parameters. A minus reads standard input.",
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
        float | None, typer.Option(help="δ of (ε, δ)-differential privacy.", metavar="δ")
    ] = None,
    move: Annotated[
        float | None,
        typer.Option(
            help="What ε speaks of: one reading moves by at most this, in its own units.",
            metavar="C",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON with the names of the library.", metavar="")
    ] = False,
) -> None:
    """The least error of any unbiased estimate of θ in y = Hθ + w under a privacy level.

    Nothing is released and no reading is needed: H, the noise and the level are enough. State
    the privacy as --level, or as --epsilon with --delta and --move; --level with --delta and
    --move also prints the ε that the level amounts to. CSV files use commas and decimal points.

    Examples:

    privest bound --h H.csv --noise-cov 0.04 --level 1.0

    privest bound --h H.csv --noise-cov cov.csv --epsilon 1 --delta 1e-6 --move 0.5 --json
    """
    wanted = _privacy(level, epsilon, delta, move)
    with _about(f"--noise-cov {noise_cov}"):
        noise = Gaussian(cov=read_value(noise_cov))
    with _about(f"--h {h}"):
        matrix, names = read_table(str(h))
    model = LinearModel(matrix, noise=noise)
    result = privest.bound(model, wanted)
    spent = None
    if delta is not None and move is not None:
        spent = tables.Spent(wanted.to_epsilon(delta=delta, move=move), delta, move)
    answer = tables.Answer(result, model, wanted, names, spent)
    if json:
        tables.print_json(answer)
    else:
        tables.print_bound(Console(), answer)


def _privacy(
    level: str | None, epsilon: float | None, delta: float | None, move: float | None
) -> PrivacyLevel:
    """The level as given, or the one that (ε, δ) for a stated move amounts to; never a guess."""
    stated = delta is not None and move is not None
    if level is not None and epsilon is None and (stated or (delta is None and move is None)):
        with _about(f"--level {level}"):
            return PrivacyLevel(read_value(level))
    if level is None and epsilon is not None and delta is not None and move is not None:
        return PrivacyLevel.from_epsilon(epsilon, delta=delta, move=move)
    raise InvalidInput(
        "Give the privacy either as --level, or as --epsilon together with --delta and --move "
        "(--delta and --move go together)."
    )


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.", metavar="DIR")] = Path("out"),
) -> None:
    """The paper's first example: the bound against the privacy level, a table and a picture."""
    demo_command.show(Console(), out)
