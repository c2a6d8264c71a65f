"""`privest verify`: is this release whole, and is it in the ledger?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privest.cli import _options as common
from privest.cli._console import print_json, shown, to_people
from privest.cli._options import option
from privest.workflow import verify_release


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="A release: a table with its header beside it, or a stream of JSON lines.",
            metavar="RELEASE",
        ),
    ],
    ledger: Annotated[
        Path | None,
        option("The ledger of the data holder: its signature and its entry too.", "FILE"),
    ] = None,
    allow_simulated: Annotated[
        bool, option("A trial too: whether it is whole.", "", names=("--allow-simulated",))
    ] = False,
    json: common.Json = False,
) -> None:
    """Was a release changed since it was written, and is it the one that was paid for?

    Says what was examined and what was not. Exit code 0: all that was examined is true; 2:
    something is not, and one line says what.

    Example:

    privest verify release.csv --ledger privest-ledger.db
    """
    found = verify_release(file, ledger, allow_simulated=allow_simulated)
    if json:
        print_json(found.to_dict())
        return
    console = to_people()
    kind = "a simulation, which protects nothing; it is whole" if found.simulated else "whole"
    theirs = {None: "", True: ", and the one that is in this ledger", False: ""}[found.signed]
    console.print(shown(f"{found.path} is {kind}{theirs}."), soft_wrap=True)
    for line in found.examined:
        console.print(shown(f"examined: {line}"), soft_wrap=True)
    for line in found.not_examined:
        console.print(shown(f"not examined: {line}"), soft_wrap=True)
