"""PostgreSQL, mosquitto and a collector in processes of their own, on this machine only."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
needs_postgres = pytest.mark.skipif(not POSTGRES, reason="needs Debian's postgresql")
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="needs Debian's mosquitto")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port, seconds=20.0):
    """Until something listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


class Postgres:
    """A database server that can be killed and started again."""

    def __init__(self, folder):
        self.port, self.user = free_port(), "postgres" if os.geteuid() == 0 else None
        self.data = Path(folder) / "data"
        if self.user:
            shutil.chown(folder, self.user)
        self._run("initdb", "--auth=trust", "--username=pv", "--no-sync", "-D", str(self.data))
        self.address = f"postgresql://pv@127.0.0.1:{self.port}/postgres"
        self.start()

    def _run(self, program, *words):
        command = [str(POSTGRES[0] / program), *words]
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd="/")

    def start(self):
        settings = ["-p", str(self.port), "-k", str(self.data), "-h", "127.0.0.1"]
        self.process = subprocess.Popen(
            [str(POSTGRES[0] / "postgres"), "-D", str(self.data), *settings],
            user=self.user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        end = time.monotonic() + 60
        while time.monotonic() < end:  # after a kill it recovers before it takes anyone
            try:
                self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "pv",
                          "-c", "select 1", "postgres")  # fmt: skip
            except subprocess.CalledProcessError:
                time.sleep(0.1)
            else:
                return
        raise TimeoutError("PostgreSQL does not start")

    def kill(self):
        """SIGKILL to the server; its own processes notice and end."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        pid = self.data / "postmaster.pid"
        end = time.monotonic() + 20  # its shared memory is free once all of them are gone
        while time.monotonic() < end and self._children():
            time.sleep(0.05)
        pid.unlink(missing_ok=True)

    def _children(self):
        found = subprocess.run(["pgrep", "-f", str(self.data)], capture_output=True, check=False)
        return found.stdout.split()

    def close(self):
        self.process.send_signal(signal.SIGINT)  # at once, whoever is connected
        self.process.wait()


@contextlib.contextmanager
def postgres():
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = Postgres(folder)
        try:
            yield found
        finally:
            found.close()


@contextlib.contextmanager
def mosquitto(port):
    """A broker that takes anyone from this machine; it keeps nothing when it is killed."""
    process = subprocess.Popen(
        [MOSQUITTO, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port)
        yield
    finally:
        process.kill()
        process.wait()


class Served:
    """`privest collect` in a process of its own; `files`: how many it may have open."""

    def __init__(self, plan, store, *words, port=None, files=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "privest", "collect", str(plan), "--store", str(store)]
        limit = ["prlimit", f"--nofile={files}"] if files else []
        self.process = subprocess.Popen(
            [*limit, *command, "--open", "--port", str(self.port), *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self.port)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
