"""`privest ledger`: budgets, what was spent of them, and whether the file can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privest.cli.console import new_table, print_json, shown, tell_file, to_people
from privest.cli.options import command, group
from privest.errors import InvalidInput
from privest.ledger import Account, Budget, Head, Ledger
from privest.streaming import Output

app: typer.Typer = typer.Typer(
    help="Budgets of people, tables and streams, and what was spent of them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

File = Annotated[Path, typer.Argument(help="The ledger.", metavar="LEDGER")]


def _opened(path: Path) -> Ledger:
    return Ledger(path, create=False)


@app.command()
@command()
def show(ledger: File, subject: str | None = None, json: bool = False) -> None:
    """Budgets, what was spent and what is left; the head, to be noted elsewhere.

    Example: privest ledger show ledger.db --subject people.csv

    Options:
    subject NAME  Only this account, with its entries.
    """
    with _opened(ledger) as opened:
        subjects = opened.subjects() if subject is None else [subject]
        accounts = {name: _facts(opened.account(name)) for name in subjects}
        entries = [] if subject is None else [one.to_dict() for one in opened.history(subject)]
        head, trouble = opened.head, opened.trouble
    if json:
        record = {"head": head.to_dict(), "trouble": trouble, "accounts": accounts}
        print_json(record | ({} if subject is None else {"entries": entries}))
    else:
        _print_accounts(accounts, entries, head, trouble)


def _facts(account: Account) -> dict[str, Any]:
    return {
        "budget": account.budget.in_words(),
        "spent": account.spent.to_dict(),
        "remaining": account.remaining.to_dict(),
        "next_index": account.next_index(),
    }


def _print_accounts(
    accounts: dict[str, Any], entries: list[dict[str, Any]], head: Head, trouble: str | None
) -> None:
    console = to_people()
    table = new_table("Accounts", "subject", "budget", "spent", "left")
    table.columns[0].min_width, table.columns[1].no_wrap = 20, False  # whose it is, before all
    for name, account in accounts.items():
        left = account["remaining"].items()
        left = {k: v for k, v in left if isinstance(v, int | float) and k != "delta"}
        spent = [f"{unit} {account['spent'][unit]:.6g}" for unit in left]
        rest = [f"{unit} {value:.6g}" for unit, value in left.items()]
        table.add_row(shown(name), shown(account["budget"]), "\n".join(spent), "\n".join(rest))
    console.print(table)
    if entries:
        rows = new_table("Entries", "entry", "kind", "from", "to", "time (UTC)")
        for one in entries:
            steps = ["", ""] if one["stop"] is None else [str(one["start"]), str(one["stop"] - 1)]
            rows.add_row(str(one["sequence"]), one["kind"], *steps, one["time"][:19])
        console.print(rows)
    console.print(shown(f"Head: {head}"), soft_wrap=True)
    if trouble is not None:
        console.print(shown(trouble, style="bold red"), soft_wrap=True)


@app.command()
@command()
def verify(ledger: File, head: str | None = None, json: bool = False) -> None:
    """Check every entry: chain, totals summed again, released numbers, key, mark.

    Example: privest ledger verify ledger.db

    Options:
    head HEAD  Head that was noted earlier: it must be part of the history.
    """
    noted = None if head is None else _head(head)
    with _opened(ledger) as opened:
        found = opened.verify(noted)
    if json:
        print_json({"verified": True} | found.to_dict())
    else:
        console = to_people()
        console.print(f"{found.sequence} entries follow from one another, and no budget is broken.")
        console.print(shown(f"Head: {found}"), soft_wrap=True)


def _head(text: str) -> Head:
    parts = text.split(":")
    if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 18:
        raise InvalidInput("--head: a head is ID:NUMBER:HASH, as `privest ledger show` prints it.")
    return Head(parts[0], int(parts[1]), parts[2])


@app.command()
@command()
def export(ledger: File, output: Path | None = None, overwrite: bool = False) -> None:
    """The whole ledger as JSON, without its key and the released numbers.

    Example: privest ledger export ledger.db --output ledger.json

    Options:
    output FILE  File to write. Left out: standard output.
    """
    with _opened(ledger) as opened:
        Output(output, overwrite).write(opened.export())


@group("Budget")
class Limits:
    """A budget, limit by limit: all that are given hold.

    level S        Privacy level s (a larger s reveals more): Fisher information about one
                   measurement.
    trace T        Fisher information summed over all measurements.
    mu μ           μ of Gaussian differential privacy, with --sensitivity.
    rho ρ          ρ of zero-concentrated differential privacy, with --sensitivity.
    epsilon ε      ε of differential privacy, with --delta and --sensitivity.
    delta δ        δ; 0 for pure releases only.
    sensitivity C  Sensitivity of μ, ρ and ε: one measurement differs by at most this.
    """

    level: float | None = None
    trace: float | None = None
    mu: float | None = None
    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    sensitivity: float | None = None


@app.command()
@command()
def budget(
    ledger: File, limits: Limits, subject: str, change: bool = False, json: bool = False
) -> None:
    """Open an account with a budget, or change it. The ledger is made if it is not there.

    Examples:

    privest ledger budget ledger.db --subject people.csv --level 4

    privest ledger budget ledger.db --subject meter --epsilon 1 --delta 1e-6 --sensitivity 0.5

    Options:
    subject NAME  Account of a person, a table or a stream.
    change        Change the budget of an account that is open; this is recorded.
    """
    wanted = Budget(**vars(limits))
    with Ledger(ledger) as opened:
        own = opened.account(subject)
        if change:
            own.change_budget(wanted)
        else:
            own.open(wanted)
        account, head = _facts(own), opened.head
    if json:
        print_json({"subject": subject, "head": head.to_dict()} | account)
    else:
        _print_accounts({subject: account}, [], head, None)


@app.command()
def adopt(ledger: File) -> None:
    """Go on with this file: it was moved, or restored without loss. Other copies are refused.

    Example: privest ledger adopt ledger.db
    """
    with _opened(ledger) as opened:
        opened.adopt()
        tell_file("adopted", ledger)


@app.command()
@command()
def recover(ledger: File, highest: list[str]) -> None:
    """Go on with an old copy: nothing is drawn again up to the indices that were released.

    Example: privest ledger recover ledger.db --highest people.csv=299 --highest meter=-1

    Options:
    highest SUBJECT=INDEX  Highest index released of an account (-1: none), from release files or
                           the analyst; once for every account.
    """
    with _opened(ledger) as opened:
        opened.recover(dict(map(_indexed, highest)))
        tell_file("recovered", ledger)


def _indexed(text: str) -> tuple[str, int]:
    subject, equals, index = text.rpartition("=")
    digits = index.removeprefix("-")
    if not (equals and subject and digits.isdecimal() and len(digits) <= 18):
        raise InvalidInput(f"--highest {text}: SUBJECT=INDEX is needed, such as meter=299.")
    return subject, int(index)
