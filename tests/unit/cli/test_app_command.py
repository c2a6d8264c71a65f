"""`privest app`: a server of this machine alone, which leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from workflow_command import runner


def started(folder, *options):
    found = subprocess.Popen(
        [sys.executable, "-m", "privest", "app", str(folder), "--no-browser", *options],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    said = ""
    while (address := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said)) is None:
        line = found.stderr.readline()
        assert line, said
        said += line
    return found, address[0]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serves_on_this_machine_only_and_leaves_nothing(tmp_path, stop):
    app, address = started(tmp_path)
    port = int(re.search(r":(\d+)/", address)[1])
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = opener.open(address).read().decode()
    assert "What will I know" in page
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
