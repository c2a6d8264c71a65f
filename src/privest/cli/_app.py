"""The commands of `privest`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import privest
from privest.cli import _consensus as consensus
from privest.cli import _demo as demo_command
from privest.cli import _filtering as filtering
from privest.cli import _streaming as streaming
from privest.cli import _tables as tables
from privest.cli import _workflow as workflow
from privest.cli._files import read_table, read_value
from privest.errors import InvalidInput, PrivestError
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.paper import _commands as reproduce
from privest.privacy import EndlessLevel, PrivacyLevel

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


for _step in (workflow.plan, workflow.release, workflow.estimate, workflow.report):
    app.command()(_step)
app.command(name="filter")(filtering.filter_command)
app.command(name="consensus")(consensus.consensus_command)


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


class Format(StrEnum):
    """How rows are written."""

    csv = "csv"
    jsonl = "jsonl"


class Emit(StrEnum):
    """What goes out."""

    estimates = "estimates"
    releases = "releases"


class Given(StrEnum):
    """What comes in."""

    readings = "readings"
    releases = "releases"


@app.command()
def stream(
    source: Annotated[
        str, typer.Argument(help="CSV or JSON lines; a minus reads standard input.", metavar="FILE")
    ],
    level: Annotated[
        float | None,
        typer.Option(
            help="Fisher level S of one reading: what each step may show of it.", metavar="S"
        ),
    ] = None,
    lags: Annotated[
        str,
        typer.Option(
            help="A step also shows earlier readings: weights of the last 1, 2, … of them.",
            metavar="W,W,…",
        ),
    ] = "",
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Instead of --level: ε of the whole, endless stream, with --delta and --move.",
            metavar="ε",
        ),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ.", metavar="δ")] = None,
    move: Annotated[
        float | None,
        typer.Option(help="What ε speaks of: one reading moves by at most this.", metavar="C"),
    ] = None,
    target: Annotated[
        str, typer.Option(help="Column of the sensitive readings.", metavar="NAME")
    ] = "y",
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns of H, public: they are part of what --emit releases writes. All other "
            "columns if not given.",
            metavar="NAME,NAME,…",
        ),
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="Add a constant to the features.")
    ] = False,
    noise_variance: Annotated[
        float | None,
        typer.Option(
            help="Variance of a reading about Hθ; needed for estimates. Never fitted on the "
            "readings.",
            metavar="V",
        ),
    ] = None,
    emit: Annotated[Emit, typer.Option(help="What to write.")] = Emit.estimates,
    given: Annotated[
        Given,
        typer.Option(
            "--from",
            help="What the rows hold: readings, or releases that `--emit releases` wrote "
            "elsewhere (then no reading is ever seen here).",
        ),
    ] = Given.readings,
    block: Annotated[
        int,
        typer.Option(
            min=1,
            help="Rows at a time. One line of estimates, and one save, a block.",
            metavar="N",
        ),
    ] = 1,
    output: Annotated[
        Path | None, typer.Option(help="File to write. Standard output if not given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an --output that exists.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Save the stream here after every block; the same command then goes on where it "
            "was, killed or not. As sensitive as the readings.",
        ),
    ] = None,
    replay: Annotated[
        bool | None,
        typer.Option(
            "--replay/--continue",
            help="After a restart the input begins again (default for files) or goes on with new "
            "readings. Standard input with a checkpoint must say which.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the simulated noise, to repeat a run. Whoever knows it can take the "
            "noise off again; never use one twice on other readings.",
            metavar="N",
            min=0,
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            help="Draw the estimates and their intervals along the stream.", metavar="PNG"
        ),
    ] = None,
    input_format: Annotated[
        Format | None, typer.Option(help="By the file's ending, else csv.")
    ] = None,
    output_format: Annotated[
        Format | None, typer.Option(help="By the file's ending, else that of the input.")
    ] = None,
) -> None:
    """Release readings as they come, and estimate θ from the releases alone.

    Each row is one reading y_k (column --target) and its public features h_k, y_k = h_kθ + w_k.
    An empty reading is a step that shows nothing. The noise of this version is simulated.

    Examples:

    privest stream meter.csv --target load --level 4 --noise-variance 0.0625 --intercept

    sensor | privest stream - --level 1 --emit releases --output z.jsonl --checkpoint s --continue

    privest stream z.jsonl --from releases --level 1 --noise-variance 0.25 --intercept
    """
    json_in = _is_json(input_format, source, False)
    json_out = _is_json(output_format, "" if output is None else str(output), json_in)
    if given is Given.releases and emit is Emit.releases:
        raise InvalidInput("--from releases --emit releases: there is nothing to do.")
    if png is not None and emit is Emit.releases:
        raise InvalidInput("--png draws estimates: leave out --emit releases.")
    if emit is Emit.estimates and noise_variance is None:
        raise InvalidInput(
            "estimates need --noise-variance, from public knowledge (or use --emit releases)."
        )
    wanted = _endless(level, lags, epsilon, delta, move)
    spent = None
    if delta is not None and move is not None:
        spent = (wanted.to_epsilon(delta=delta, move=move), delta, move)
    streaming.run(
        streaming.StreamPlan(
            source=source,
            target=target,
            features=None if features is None else _names(features),
            level=wanted,
            variance=noise_variance if emit is Emit.estimates else None,
            intercept=intercept,
            from_releases=given is Given.releases,
            emit_releases=emit is Emit.releases,
            json_in=json_in,
            json_out=json_out,
            output=output,
            block=block,
            checkpoint=checkpoint,
            replay=True if replay is None and source != "-" else replay,
            seed=seed,
            picture=png,
            overwrite=overwrite,
            spent=spent,
        ),
        Console(stderr=True, highlight=False),
    )


def _endless(
    level: float | None, lags: str, epsilon: float | None, delta: float | None, move: float | None
) -> EndlessLevel:
    try:
        weights = [float(weight) for weight in lags.split(",") if weight.strip()]
    except ValueError:
        raise InvalidInput("--lags must be numbers separated by commas.") from None
    wanted = _privacy(None if level is None else str(level), epsilon, delta, move)
    if epsilon is not None and delta is not None and move is not None:
        return EndlessLevel.from_epsilon(epsilon, delta=delta, move=move, lags=weights)
    assert wanted.number is not None
    return EndlessLevel(wanted.number, weights)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_json(wanted: Format | None, path: str, otherwise: bool) -> bool:
    if wanted is not None:
        return wanted is Format.jsonl
    ending = Path(path).suffix.lower()
    return True if ending in (".jsonl", ".ndjson") else False if ending == ".csv" else otherwise


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
        demo_command.show(Console(highlight=False), out)
