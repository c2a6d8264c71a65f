"""Files that are there whole or not at all, private until they are."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from privest.errors import InvalidInput
from privest.files import (
    ORDINARY,
    OWNER_ONLY,
    atomic_file,
    atomic_write,
    part_path,
    require_writable,
)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(("permissions", "end"), [(ORDINARY, 0o640), (OWNER_ONLY, 0o600)])
def test_only_the_owner_reads_what_is_not_complete(tmp_path, permissions, end):
    before = os.umask(0o027)
    try:
        with atomic_file(tmp_path / "x", permissions=permissions) as file:
            file.write(b"released")
            file.flush()
            (part,) = tmp_path.iterdir()
            assert mode(part) == 0o600
        assert os.umask(0o027) == 0o027  # as it was
    finally:
        os.umask(before)
    assert mode(tmp_path / "x") == end
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


STOPPED = """
import signal, sys, time
from privest.files import atomic_file
def stop(*_):
    sys.exit(3)
signal.signal(signal.SIGTERM, {handler})
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have us ignore it
try:
    with atomic_file(sys.argv[1]) as file:
        print("open", flush=True)
        for _ in range(600):
            time.sleep(0.05)  # a signal just before a sleep is handled after it
finally:
    print("unwound", signal.getsignal(signal.SIGTERM) == {handler}, flush=True)
"""


@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "signal.SIG_IGN", "stop"])
def test_a_signal_that_somebody_handles_is_left_to_him(tmp_path, handler):
    """The default ends the process, here after what it began is gone; afterwards it is again."""
    command = [sys.executable, "-c", STOPPED.format(handler=handler), str(tmp_path / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"open\n"
        process.send_signal(signal.SIGTERM)
        if handler == "signal.SIG_IGN":
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert out == b"unwound True\n"
    codes = {"signal.SIG_DFL": 143, "signal.SIG_IGN": -2, "stop": 3}
    assert process.returncode == codes[handler]
    assert not list(tmp_path.iterdir())


def test_in_a_thread_too(tmp_path):
    """Where no handler can be set."""
    work = threading.Thread(target=atomic_write, args=(tmp_path / "x", "whole"))
    work.start()
    work.join()
    assert (tmp_path / "x").read_text() == "whole"


def test_what_cannot_be_written_is_known_before(tmp_path):
    (tmp_path / "file").touch()
    require_writable(tmp_path / "file")
    require_writable(tmp_path / "new" / "deep" / "x")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]  # nothing was made
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "file" / "x", "is not a folder")):
        for refuse in (require_writable, lambda path: atomic_write(path, "")):
            with pytest.raises(InvalidInput, match=f"{words}|cannot be written"):
                refuse(path)


def test_of_several_writers_the_first_to_end_wins(tmp_path):
    path = tmp_path / "x"
    with atomic_file(path, first=True) as slow:
        slow.write(b"slow")
        with atomic_file(path, first=True) as quick:
            quick.write(b"quick")
        with pytest.raises(FileExistsError), atomic_file(path, first=True) as late:
            late.write(b"late")
        path.rename(tmp_path / "y")  # so that the slow one is the first again
    assert path.read_bytes() == b"slow"
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]
    part_path(path).write_bytes(b"left by a killed process")
    with pytest.raises(FileExistsError), atomic_file(path, first=True):
        pass


@pytest.mark.skipif(not hasattr(os, "link"), reason="a rename is never over another there")
def test_a_file_system_without_links_is_refused(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with (
        pytest.raises(InvalidInput, match="z cannot be written: Operation not permitted"),
        atomic_file(tmp_path / "z", first=True),
    ):
        pass
