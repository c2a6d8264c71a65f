"""`privest verify`: is this release whole, and is it in the ledger?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privest.cli import _options as common
from privest.cli._console import complain, print_json, to_people
from privest.cli._options import option
from privest.errors import PrivestError
from privest.report import describe, print_sections
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
        option("The ledger of the data owner: signature, entries, every number.", "FILE"),
    ] = None,
    allow_simulated: Annotated[
        bool, option("A trial too: whether it is whole.", "", names=("--allow-simulated",))
    ] = False,
    json: common.Json = False,
) -> None:
    """Was a release changed since it was written, and is it the one that was charged?

    Says what was examined and what was not. Exit code 0: all was examined and is true. 1: something
    is not true, or was not examined; without --ledger nobody can tell who made a release.

    Example:

    privest verify release.csv --ledger privest-ledger.db
    """
    try:
        found = verify_release(file, ledger, allow_simulated=allow_simulated)
    except PrivestError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    if json:
        print_json(found.to_dict() | {"verified": found.verified})
    else:
        print_sections(to_people(), describe(found))
    if not found.verified:
        raise typer.Exit(1)
