"""Connections that do not send a request's head in time, or are too many, are closed."""

import asyncio
import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from privest.serving import LimitedProtocol

ROOT = Path(__file__).parents[2]
HEAD = 0.5  # seconds for a head, here
GOOD = b"GET /quick HTTP/1.1\r\nHost: c\r\n\r\n"
HALF = b"GET /quick HTTP/1.1\r\nHost: "


async def quick(_):
    return PlainTextResponse("done")


async def long(_):
    """An answer that takes three times as long as a head may."""

    async def parts():
        for _ in range(6):
            yield b"."
            await asyncio.sleep(HEAD / 2)

    return StreamingResponse(parts())


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr("privest.serving.LONGEST_HEAD", HEAD)
    monkeypatch.setattr("privest.serving.MOST_CONNECTIONS", 20)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            Starlette(routes=[Route("/quick", quick), Route("/long", long)]), http=LimitedProtocol,
            log_config=None, ws="none", lifespan="off", timeout_keep_alive=60, backlog=8,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)


@contextlib.contextmanager
def connected(port, *sent):
    with socket.create_connection(("127.0.0.1", port), 20 * HEAD) as own:
        for part in sent:
            own.sendall(part)
        yield own


def ended(own):
    """What comes until the other side closes the connection, or resets it; else a TimeoutError."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := own.recv(65536):
            found += part
    return found


@pytest.mark.parametrize("sent", [b"", HALF, GOOD + HALF, GOOD])
def test_a_connection_without_a_head_is_closed(port, sent):
    """Also one whose earlier request was answered, however patient the server is with others."""
    with connected(port, sent) as own:
        begun = time.monotonic()
        assert ended(own).count(b"done") == sent.startswith(GOOD)
        assert HEAD * 0.9 < time.monotonic() - begun < HEAD * 10


def drip(own):
    for _ in range(40):
        own.sendall(b"x")
        time.sleep(HEAD / 4)


def test_a_head_that_drips_is_closed(port):
    with connected(port, HALF) as own, pytest.raises((ConnectionResetError, BrokenPipeError)):
        drip(own)


def test_an_answer_may_take_longer_than_a_head(port):
    with connected(port, GOOD.replace(b"quick", b"long")) as own:
        assert ended(own).count(b".") >= 6


@pytest.mark.processes
def test_the_connection_that_has_waited_longest_gives_way(port):
    """Requests that are being answered stay, and so do those that came last."""
    with contextlib.ExitStack() as stack:
        long = stack.enter_context(connected(port, GOOD.replace(b"quick", b"long")))
        assert long.recv(12) == b"HTTP/1.1 200"
        for _ in range(60):
            stack.enter_context(connected(port, HALF))
        with connected(port, GOOD) as own:
            assert own.recv(12) == b"HTTP/1.1 200"
        assert ended(long).count(b".") >= 6


@pytest.mark.processes
def test_the_app_is_limited_too(tmp_path):
    """260 half-sent heads, where it may open 200 files."""
    command = [sys.executable, "-u", "-m", "privest", "app", "--no-browser"]
    app = subprocess.Popen(
        ["prlimit", "--nofile=200", *command], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        port = next(int(found[1]) for line in app.stdout if (found := re.search(r":(\d+)/", line)))
        with contextlib.ExitStack() as stack:
            for _ in range(260):
                stack.enter_context(connected(port, HALF))
            with connected(port, b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as own:
                own.settimeout(5.0)
                assert own.recv(9) == b"HTTP/1.1 "
    finally:
        app.kill()
        app.communicate()
