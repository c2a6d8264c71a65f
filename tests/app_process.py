"""`privest app` as a process of its own, as a user starts it."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)")
NUMBERS = itertools.count()


class AppProcess:
    """The app in a folder; `said()` is all that it printed and logged.

    address  opens the app once, as the last one that it printed.
    """

    def __init__(self, folder: Path, *options: str, patience: float = 60.0) -> None:
        self.folder, self._log = folder, folder.parent / f"{folder.name}-{next(NUMBERS)}.log"
        with self._log.open("wb") as log:
            self._running = subprocess.Popen(
                [sys.executable, "-m", "privest", "app", "--no-browser", *options],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.port = self._told(patience)
        self.origin = f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return list(ADDRESS.finditer(self.said()))[-1][0]

    @property
    def tokens(self) -> list[str]:
        return [found[2] for found in ADDRESS.finditer(self.said())]

    def _told(self, patience: float) -> str:
        until = time.monotonic() + patience
        while time.monotonic() < until and self._running.poll() is None:
            if found := ADDRESS.search(self.said()):
                return found[1]
            time.sleep(0.05)
        self._running.kill()
        self._running.wait()
        raise AssertionError(f"the app told no address: {self.said()[-2000:]}")

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> int:
        """As Ctrl-C does; the exit code."""
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGINT)
        try:
            return self._running.wait(30)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
            raise AssertionError(f"the app did not stop: {self.said()[-2000:]}") from None
