"""The commands of `privest`, each loaded when it is called: `privest --help` stays quick."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import privest
from privest.errors import BudgetExceeded, PrivestError


class Command(NamedTuple):
    """Where a command is (.module:name), and its line in `privest --help`."""

    place: str
    text: str


PANELS = {
    "For data owners": {
        "look": Command(".owner:look", "Columns of a table, and the format of its file."),
        "plan": Command(".plan:plan", "Cost of a private regression; reads public columns."),
        "design": Command(".design:design", "Privacy levels by row, as a public column."),
        "release": Command(".owner:release", "Write the private release of a plan."),
        "verify": Command(".owner:verify", "Check a release: unchanged, and in the ledger?"),
        "estimate": Command(".owner:estimate", "Coefficients and intervals from a release alone."),
        "report": Command(".owner:report", "One page: estimates, cost of privacy, exposure."),
        "stream": Command(".stream:stream", "Release measurements as they come, and estimate."),
        "collect": Command(".collect:collect", "Gather protected measurements of many devices."),
        "contribute": Command(".collect:contribute", "Protect a device's measurements; send them."),
        "ledger": Command(".ledger:app", "Budgets, and what was spent of them."),
        "schema": Command(".owner:schema", "Fields of plan files and release headers."),
        "app": Command(".owner:app", "All of this in a browser, on this machine."),
        "demo": Command(".demo:demo", "The whole path on embedded data."),
    },
    "For researchers": {
        "bound": Command(".researcher:bound", "Least error of an estimate under a privacy level."),
        "levels": Command(".researcher:levels", "Privacy levels by what an attacker can do."),
        "filter": Command(".filter:filter_states", "States of a dynamic model from releases."),
        "identify": Command(".identify:identify", "Parameters of a dynamic model from releases."),
        "reproduce": Command(".reproduce:app", "The paper's experiments and figures."),
    },
}
COMMANDS = {name: one for commands in PANELS.values() for name, one in commands.items()}


@cache
def loaded(name: str) -> Any:  # noqa: ANN401 - a command of Typer's own copy of click
    module, _, attribute = COMMANDS[name].place.partition(":")
    found = getattr(import_module(module, __package__), attribute)
    if not isinstance(found, typer.Typer):
        own = typer.Typer(rich_markup_mode="markdown", add_completion=False)
        own.command(name)(found)
        return typer.main.get_command(own)
    made = typer.main.get_group(found)
    made.name = name
    return made


class Commands(TyperGroup):
    """Lists all commands by their lines above, and loads the one that is called."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - Typer's
        super().__init__(**attributes)
        for panel, commands in PANELS.items():
            for name, one in commands.items():
                self.commands[name] = TyperCommand(name, help=one.text, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's
        """The command that is called, loaded, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        return name, loaded(name), rest


app: typer.Typer = typer.Typer(
    name="privest",
    cls=Commands,
    help="Private estimation at the Cramér-Rao limit: what a privacy level costs, exactly.",
    epilog="Exit codes: 0 done; 2 something given is wrong or missing, or cannot be written; "
    "1 begun, but not finished (a full disk, a claim that fails); 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

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
        where = "" if context is None else f" See {context.command_path} --help."
        message = message.rstrip(".") + "." * (not message.endswith("?"))
        _stop(f"{message}{where}" if error.format_message() else "", 2)  # else: help was printed
    except PrivestError as error:
        hint = " (privest ledger budget --change)" if isinstance(error, BudgetExceeded) else ""
        _stop(f"{error}{hint}", 2)
    except OSError as error:  # a full disk
        _stop(f"cannot write the output ({error.strerror}).", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _stop(message: str, code: int) -> NoReturn:
    if message:
        from privest.cli.console import complain

        complain(message)
    sys.exit(code)


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
