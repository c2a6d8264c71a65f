"""`privest app`: a server of this machine alone, which leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from workflow_command import runner

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)")


def started(folder, *options, **more):
    """The app as a process, and the first link that it prints."""
    found = subprocess.Popen(
        [sys.executable, "-m", "privest", "app", str(folder), *options],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)} | more,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    return found, link(found)


def link(app):
    """The next link that the terminal shows."""
    said = ""
    while (address := LINK.search(said)) is None:
        line = app.stderr.readline()
        assert line, said
        said += line
    return address[0]


def opened(address):
    """A new browser that follows a link, and what it shows in the end."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = browser.open(address).read().decode()
    on = re.search(r'content="0;url=([^"]+)"', page)[1]
    return browser, browser.open(urllib.parse.urljoin(address, on)).read().decode()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serves_on_this_machine_only_and_leaves_nothing(tmp_path, stop):
    app, address = started(tmp_path, "--no-browser")
    port = int(LINK.match(address)[1])
    assert "Start a release" in opened(address)[1]
    link(app)  # for another window
    with pytest.raises(urllib.error.HTTPError, match="403"):  # without the cookie
        urllib.request.urlopen(address.replace("token=", "token=x"))
    (private,) = tmp_path.glob("privest-app-*")
    own = socket.gethostbyname(socket.gethostname())
    if not own.startswith("127."):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((own, port), timeout=2)
    app.send_signal(stop)
    rest = app.communicate(timeout=60)[1]
    assert app.returncode == (0 if stop == signal.SIGINT else 128 + stop)
    assert "token" not in rest
    assert "Traceback" not in rest
    assert not private.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_for_one_use_and_the_next_is_printed(tmp_path):
    app, first = started(tmp_path, "--no-browser")
    browser, _ = opened(first)
    for other in (browser, urllib.request.build_opener()):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            other.open(first)
    second = link(app)
    assert second != first
    assert "Start a release" in opened(second)[1]
    app.send_signal(signal.SIGINT)
    app.communicate(timeout=60)


def test_no_token_is_in_the_arguments_of_the_browser(tmp_path):
    """Every user of the machine can read them. A browser that waits holds up nothing."""
    folder, told, command = tmp_path / "work", tmp_path / "told", tmp_path / "browser"
    folder.mkdir()
    command.write_text(
        f'#!/bin/sh\nprintf "%s\\n" $$ "$@" > {told}.part\nmv {told}.part {told}\n'
        "exec sleep 600 2> /dev/null\n"
    )
    command.chmod(0o700)
    app, printed = started(folder, BROWSER=f"{command} %s")
    while not told.exists():
        assert app.poll() is None
        time.sleep(0.05)
    process, given = told.read_text().split()
    file = Path(urllib.parse.unquote(urllib.parse.urlsplit(given).path))
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    page = file.read_text(encoding="utf-8")
    assert 'name="referrer" content="no-referrer"' in page
    address, _, token = LINK.search(page).group(0, 1, 2)
    assert token not in given
    assert address != printed
    assert "Start a release" in opened(address)[1]
    assert not file.exists()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address)
    assert "Start a release" in opened(printed)[1]  # who lost the window has it from the terminal
    app.send_signal(signal.SIGINT)
    app.communicate(timeout=60)
    os.kill(int(process), signal.SIGKILL)  # it still waits
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("port", ["-1", "65536", "x", "1e3", ""])
def test_no_port(capsys, monkeypatch, port):
    done = runner(capsys, monkeypatch)("app", "--no-browser", "--port", port)
    assert done.code == 2


def test_port_of_another(capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = runner(capsys, monkeypatch)("app", "--no-browser", "--port", str(port))
    assert done.code == 2
    assert "choose another" in done.err


def test_no_folder(capsys, monkeypatch, tmp_path):
    done = runner(capsys, monkeypatch)("app", str(tmp_path / "none"), "--no-browser")
    assert done.code == 2
    assert "no folder" in done.err


def test_without_its_extra(capsys, monkeypatch):
    for name in [one for one in sys.modules if one.split(".")[0] == "starlette"]:
        monkeypatch.delitem(sys.modules, name)
    for name in [one for one in sys.modules if one.startswith("privest.app")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    done = runner(capsys, monkeypatch)("app", "--no-browser")
    assert done.code == 2
    assert "extra 'app'" in done.err
