"""The app as a server on this machine."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from privest.app import data, export, privacy, release, results, start
from privest.app.desk import Desk
from privest.app.guard import Guard
from privest.app.pages import not_there, onward, refused
from privest.data.xlsx import silence_openpyxl
from privest.errors import InvalidInput, PrivestError
from privest.files import stopped_by_exception
from privest.serving import BACKLOG, LimitedProtocol

HOST = "127.0.0.1"
STATIC = Path(__file__).with_name("static")
SCREENS = (start, data, privacy, release, results, export)  # each has its ROUTES


def make_app(desk: Desk) -> Starlette:
    """The app of a desk, as ASGI. `desk.hosts` says under which names it may be called."""
    silence_openpyxl()  # before there are threads: each of their lists of filters begins with this
    static = Mount("/{key}/static", StaticFiles(directory=STATIC), name="static")
    app = Starlette(
        routes=[static, *(route for screen in SCREENS for route in screen.ROUTES)],
        middleware=[Middleware(Guard, desk=desk)],
        exception_handlers={PrivestError: refused, HTTPException: not_there},
    )
    app.state.desk = desk
    return app


def serve(
    desk: Desk,
    *,
    port: int = 0,
    browser: bool = True,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the app on 127.0.0.1 until Ctrl-C; then the user's tables are removed.

    port  0: any that is free.
    tell  is given an address that opens the app once, and the next one when it was used.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopped_by_exception())  # uvicorn passes a SIGTERM on when it is done
        stack.callback(desk.close)
        listening = stack.enter_context(contextlib.closing(_listening(port)))
        port = listening.getsockname()[1]
        desk.hosts = frozenset({f"{HOST}:{port}", f"localhost:{port}"})
        # Files that are being sent lie where the others do, and go with them.
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(desk.private)
        config = uvicorn.Config(
            make_app(desk), log_level="warning", access_log=False, server_header=False,
            lifespan="off", ws="none", timeout_graceful_shutdown=2, http=LimitedProtocol,
            backlog=BACKLOG,
        )  # fmt: skip
        server = uvicorn.Server(config)
        address = f"http://{HOST}:{port}/?token="

        def print_link() -> None:
            tell(address + desk.new_token(print_link))  # once it is used, the next one

        print_link()
        if browser:
            _open_browser(desk, address)  # the socket listens: the page waits for the server
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


def _open_browser(desk: Desk, address: str) -> None:
    """Show the app by way of a file: every user of the machine can read a browser's arguments."""
    page = desk.private_file(".html")  # 0600
    token = desk.new_token(lambda: page.unlink(missing_ok=True))
    page.write_text(onward(address + token), encoding="utf-8")
    # In a thread: some commands wait until their window is closed.
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()


def _listening(port: int) -> socket.socket:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen(128)
    except (OSError, OverflowError) as error:
        found.close()
        why = getattr(error, "strerror", None) or "it is no port"
        raise InvalidInput(
            f"port {port} of this machine cannot be used ({why}): choose another."
        ) from None
    return found
