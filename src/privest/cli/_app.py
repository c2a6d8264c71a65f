"""The commands of `privest`; its demo runs the whole workflow on embedded data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.rule import Rule

import privest
from privest import workflow
from privest.cli import _ledger, _workflow
from privest.cli._bound import bound
from privest.cli._browser import app_command
from privest.cli._consensus import consensus_command
from privest.cli._console import complain, shown, to_people
from privest.cli._design import design
from privest.cli._filtering import filter_command
from privest.cli._identify import identify_command
from privest.cli._levels import levels
from privest.cli._stream import stream
from privest.cli._verify import verify
from privest.data import open_source, write_table
from privest.errors import InvalidInput, PrivestError
from privest.files import atomic_write
from privest.ledger import discard
from privest.paper import _commands as reproduce
from privest.report import describe, print_sections, save_report
from privest.workflow import LEDGER, Steps, commands_of, document_path

COLUMNS = ("age", "sex", "bmi", "bp", "s5")
REFERENCE = 142  # of 442 people, a fixed random choice; the others are the private ones
SEED = 1  # of the trial: so that its commands, typed again, give the same page
FILES = ("people.csv", "reference.csv", "plan.toml", "release.csv", "report.html")

app = typer.Typer(
    name="privest",
    help="Private estimation at the Cramér-Rao limit: what a privacy level costs, exactly.",
    epilog="Exit codes: 0 done; 2 something given is wrong or missing, or cannot be written; "
    "1 begun, but not finished (a full disk, a claim that fails); 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

app.add_typer(reproduce.app, name="reproduce")
app.add_typer(_ledger.app, name="ledger")


# Typer brings its own copy of click, or uses the one that is installed.
Misuse: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def run() -> None:
    """Run the command line. Its exit codes are one rule, printed by `privest --help`:

    2 for whatever is wrong with what was given (options, files, values, outputs that cannot be
    written), as one line on stderr; 1 where the work began and could not be finished.
    """
    try:
        code = app(standalone_mode=False)
    except Misuse as error:
        message, context = error.format_message(), getattr(error, "ctx", None)
        if message:  # else it has printed the help
            where = "" if context is None else f" See {context.command_path} --help."
            complain(f"{message.rstrip('.')}.{where}")
        sys.exit(2)
    except PrivestError as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:  # a full disk
        complain(f"cannot write the output ({error.strerror}).")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


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
app.command()(design)
app.command()(levels)
app.command(name="filter")(filter_command)
app.command(name="identify")(identify_command)
app.command(name="consensus")(consensus_command)
app.command()(bound)
app.command()(stream)
app.command()(verify)
app.command(name="app")(app_command)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what it makes.", metavar="DIR")] = Path(
        "out/demo"
    ),
    first: Annotated[
        bool,
        typer.Option("--first", help="Instead: the bound of the paper's first example, a table."),
    ] = False,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate", help="With simulated noise of a fixed seed: the same page every time."
        ),
    ] = False,
) -> None:
    """Plan, release, estimate and report on embedded data: triglycerides of 300 people.

    142 more people are a public reference. The release is real, with a ledger: its noise, and so
    the estimates, differ in every run. A demo that is run again begins with a new ledger, which no
    private values should ever do.
    """
    if first:
        reproduce.show_first_example(to_people(), out)
    else:
        _show_demo(to_people(), out, SEED if simulate else None)


def _show_demo(console: Console, folder: Path, seed: int | None) -> None:
    """Run it, print it, and say where the page is."""
    people, reference, plan_file, release, page = (folder / name for name in FILES)
    spec = workflow.Spec(
        people.name,
        workflow.Model(("s5",), ("age", "sex", "bmi", "bp"), categories={"sex": ("0", "1")}),
        workflow.Privacy(level=4.0, delta=1e-6, range={"s5": (2.0, 7.0)}),
        workflow.Public(reference=reference.name),
    )
    plan_text = workflow.to_toml(spec)
    ledger = folder / LEDGER
    made = [people, reference, plan_file, release, document_path(release), page, ledger]
    _clear(folder, made, plan_file, plan_text)
    discard(ledger)  # these people are public: every run is their first release
    atomic_write(plan_file, plan_text)
    _split(people, reference)
    console.print(
        shown(
            "300 people; their (logarithmic) triglycerides s5 are private. How do they depend on "
            f"age, sex, body mass index and blood pressure? {REFERENCE} more people are a public "
            "reference set for the residual variance."
        )
    )
    commands = commands_of(Steps(plan_file, release, page, seed=seed))
    _type(console, f"{commands.plan} --want bmi=0.005")
    found = workflow.make_plan(workflow.load_spec(plan_file))
    wanted = {"bmi=0.005": found.rows_for(0.005, "bmi")}
    print_sections(console, describe(found, wanted=wanted))
    _type(console, commands.release)
    if seed is None:
        with _workflow.Charged().account(found.spec, plan_file) as account:
            header = workflow.release(found, release, account=account)
            sections = describe(header, account=account)
    else:
        header = workflow.simulate_release(found, release, workflow.simulation_source(found, seed))
        sections = describe(header)
    print_sections(console, sections, ("release",))
    _type(console, commands.estimate)
    estimated = workflow.estimate(release)
    print_sections(console, describe(estimated), _workflow.ESTIMATED)
    _type(console, commands.report)
    save_report(found, estimated, commands, page)
    console.print(shown(f"The report, one page for people: {page}", style="bold"), soft_wrap=True)


def _clear(folder: Path, made: list[Path], plan_file: Path, plan: str) -> None:
    """Take away what an earlier demo made, and nothing else of that name."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [file for file in made if file.exists()]
        if there and not (plan_file.is_file() and plan_file.read_bytes() == plan.encode()):
            raise InvalidInput(
                f"{there[0]} was not made by the demo, which would write over it: choose another "
                "folder with --out."
            )
        for file in there:
            file.unlink()
    except OSError as error:
        raise InvalidInput(f"--out {folder} cannot be used: {error.strerror}.") from None


def _type(console: Console, line: str) -> None:
    console.print(Rule(style="dim"))
    console.print(shown(f"$ {line}", style="bold"), soft_wrap=True)  # to be copied as one line


def _split(people: Path, reference: Path) -> None:
    """The embedded table as two files."""
    rows = np.column_stack(list(open_source("diabetes").read(COLUMNS).values()))
    order = np.random.default_rng(7).permutation(len(rows))
    write_table(reference, COLUMNS, [list(rows[np.sort(order[:REFERENCE])].T)])
    write_table(people, COLUMNS, [list(rows[np.sort(order[REFERENCE:])].T)])
