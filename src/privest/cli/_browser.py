"""`privest app`: the same in a browser, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privest.cli._console import shown, to_stderr
from privest.cli._options import option
from privest.errors import InvalidInput
from privest.workflow import LEDGER

NEEDED = ("jinja2", "markupsafe", "python_multipart", "starlette", "uvicorn")


def app_command(
    folder: Annotated[
        Path,
        typer.Argument(help="Where releases and their ledger are kept.", metavar="[FOLDER]"),
    ] = Path(),
    ledger: Annotated[
        Path | None, option(f"The ledger. Left out: {LEDGER} in the folder.", "FILE")
    ] = None,
    port: Annotated[
        int, option("Of this machine. Left out: any that is free.", "N", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Open the page, or only print its address.", metavar=""
        ),
    ] = True,
    read_only: Annotated[
        bool,
        option(
            "For showing plans: nothing is released, and nothing is written to the folder or the "
            "ledger.",
            "",
            names=("--read-only",),
        ),
    ] = False,
) -> None:
    """See what privacy costs, release, and explain, in a browser, without writing code.

    A page on this machine only (127.0.0.1): your data do not leave it, and nothing is loaded from
    elsewhere. The address that is printed opens the app once; for another window use the one that
    is printed then. Files that you drop on the page lie in a private temporary folder, which is
    removed at the end. Stop it with Ctrl-C.

    Examples:

    privest app

    privest app ~/study --ledger ~/study/ledger.db

    privest app --read-only --no-browser --port 8800
    """
    try:
        from privest.app import Desk, serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in NEEDED:
            raise
        raise InvalidInput(
            f"the app needs the extra 'app' ({missing.name} is not installed): for example "
            'pip install ".[app]" in the source folder.'
        ) from None
    console = to_stderr()
    desk = Desk(folder, ledger, read_only=read_only)

    def tell(address: str) -> None:
        console.print(shown("privest app runs. This address opens it, once; then a new one comes:"))
        console.print(shown(f"  {address}", style="bold"), soft_wrap=True)
        kept = "Plans only (--read-only)." if read_only else f"Releases go to {desk.folder}."
        console.print(shown(f"{kept} Stop it with Ctrl-C."), soft_wrap=True)

    serve(desk, port=port, browser=browser, tell=tell)
    console.print(shown("Stopped; the tables that were sent to the app are removed."))
