"""One running app: its folder, its ledger, and the pieces of work on the desk.

Nothing outlives the process but releases: files sent to the app lie in a folder that only the user
can read, and that is removed at the end (if the app was killed, by the next one).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from privest.app.tables import Table
from privest.data.look import TableLook
from privest.errors import InvalidInput
from privest.files import held_lock, is_own
from privest.workflow.account import LEDGER, account_name
from privest.workflow.plan import Plan

if TYPE_CHECKING:
    from privest.app.job import Choice, Job
    from privest.report.sections import Section
    from privest.workflow.result import TableEstimate

PREFIX = "privest-app-"
ALIVE = "alive"  # a file that is locked as long as its app runs
YOUNG = 60.0  # seconds: an app locks its folder long before
STEPS = {
    "start": "Start", "data": "Columns", "privacy": "Privacy", "release": "Release",
    "results": "Results",
}  # fmt: skip
MOST_WORKS = 50  # on one desk: each may hold a table on disk


@dataclass(eq=False)
class Work:
    """One piece of work: one table, from its file to its results. Change it under its `lock`.

    look      of the table without a cell of the private column, whose place is `private`. None: it
              is not chosen yet, and only names were read.
    typed     the form of the columns screen. of: the coefficient of the privacy screen.
    moved     the last request that moved ε: one that comes late changes nothing.
    job       the release or dry run that was made last; `tickets` let one begin.
    choice    file and account of the release; account: its unit, limit and spending.
    released  the table of a release. made: its plan.
    earlier   real releases of this table, each a piece of work of its own.
    asked     rows at which a mean was asked for; `kept`: the last estimate, by its release.
    models    number of the model: forms that show an older one are refused.
    """

    id: str
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    table: Table | None = None
    look: TableLook | None = field(default=None, repr=False)
    private: int | None = None
    typed: dict[str, list[str]] = field(default_factory=dict, repr=False)
    plan: Plan | None = None
    of: int | None = None
    moved: int = 0
    job: Job | None = None
    tickets: dict[str, Plan] = field(default_factory=dict, repr=False)
    choice: Choice | None = None
    account: tuple[str, float, float] | None = None
    released: Path | None = None
    made: Plan | None = None
    earlier: list[Work] = field(default_factory=list, repr=False)
    asked: list[dict[str, object]] = field(default_factory=list, repr=False)
    kept: tuple[object, TableEstimate, list[Section]] | None = field(default=None, repr=False)
    models: int = 0

    @property
    def title(self) -> str:
        if self.plan is not None:
            return account_name(self.plan.spec)
        if self.table is not None:
            return self.table.name
        return "New work" if self.released is None else self.released.name

    @property
    def steps(self) -> dict[str, bool]:
        planned = self.plan is not None
        return {
            "start": True, "data": self.table is not None, "privacy": planned, "release": planned,
            "results": self.released is not None,
        }  # fmt: skip

    @property
    def last(self) -> str:
        """The screen that comes next."""
        return [name for name, is_open in self.steps.items() if is_open][-1]

    def require_idle(self) -> None:
        """Refuse to change table or plan while something is being made of them."""
        if self.job is not None and self.job.running:
            raise InvalidInput(
                "a release of this table is being made: wait until it is done. Nothing was changed."
            )

    def restate(self, plan: Plan | None) -> None:
        with self.lock:
            self.models += 1
            self.plan, self.of, self.choice = plan, None, None
            self.released, self.made, self.job = None, None, None

    def require_model(self, model: int) -> None:
        """Refuse what was shown, or computed, of another model than there is now."""
        if model != self.models:
            raise InvalidInput(
                "the table or the model was changed meanwhile, perhaps in another tab. Look at "
                "what it is now, and ask again. Nothing was kept."
            )

    def forget(self) -> None:
        """Drop the table and everything that was made of it but a release."""
        with self.lock:
            if self.table is not None:
                self.table.remove()
            self.table, self.look = None, None
            self.restate(None)
            self.kept = None
            for held in (self.earlier, self.asked, self.typed, self.tickets):
                held.clear()


class Desk:
    """One running app.

    folder     where releases are written; ledger: where they are charged.
    key, session, csrf   secrets of this run: the first part of every path, the cookie, and what
               every form must bring.
    hosts      the names under which it may be called, with the port.
    """

    key: str
    session: str
    csrf: str

    def __init__(
        self,
        folder: str | os.PathLike[str] = ".",
        ledger: str | os.PathLike[str] | None = None,
    ) -> None:
        self.folder: Path = Path(folder).resolve()
        if not self.folder.is_dir():
            raise InvalidInput(f"{folder} is no folder: releases are written to one that is there.")
        self.ledger: Path = self.folder / LEDGER if ledger is None else Path(ledger).resolve()
        self.key, self.session, self.csrf = (secrets.token_urlsafe(24) for _ in range(3))
        self._tokens: dict[str, Callable[[], object]] = {}
        self.hosts: frozenset[str] = frozenset()
        self.works: dict[str, Work] = {}
        self.closing: threading.Event = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        _sweep()
        self._alive = contextlib.ExitStack()
        self.private: Path = _private_folder(self._alive)

    def begin(self) -> Work:
        with self._lock:
            if len(self.works) >= MOST_WORKS:
                raise InvalidInput(
                    f"there are {MOST_WORKS} pieces of work on the desk: clear one away first."
                )
            return self._new()

    def _new(self) -> Work:
        work = Work(secrets.token_urlsafe(9))
        self.works[work.id] = work
        return work

    def clear(self, work: Work) -> None:
        """Take a piece of work off the desk, unless a release of it is being made."""
        with work.lock:
            work.require_idle()
            with self._lock:
                self.works.pop(work.id, None)
            work.forget()

    def set_aside(self, work: Work) -> None:
        """Give a real release a place of its own on the desk. Within the lock of the work."""
        if work.released is not None and work.made is not None:
            with self._lock:  # however many there are: it must not get lost
                own = self._new()
            own.released, own.made, own.asked = work.released, work.made, list(work.asked)
            work.earlier.append(own)
        work.released = work.made = None
        work.asked.clear()

    def still_there(self, works: list[Work]) -> list[Work]:
        return [one for one in works if one.id in self.works]

    def new_token(self, used: Callable[[], object] = lambda: None) -> str:
        """A secret that opens the app once; `used` is called when it does."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[token] = used
        return token

    def admits(self, given: str) -> bool:
        """Whether a token opens the app; from then on it does not."""
        with self._lock:
            same = [one for one in self._tokens if same_secret(given, one)]
            used = [self._tokens.pop(one) for one in same]
        for call in used:
            call()
        return bool(used)

    def private_file(self, ending: str) -> Path:
        """A new, empty file that only the user can read."""
        path = self.private / f"{secrets.token_hex(8)}{ending}"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path

    def run(self, job: Callable[[], None]) -> threading.Thread:
        """Run a job in the background; it looks at `closing`, and is waited for at the end."""
        thread = threading.Thread(target=job, daemon=True)
        with self._lock:
            self._threads = [*(one for one in self._threads if one.is_alive()), thread]
            thread.start()
        return thread

    def close(self, patience: float = 10.0) -> None:
        """Stop jobs, remove the user's tables. A release that is cut off can be finished later."""
        self.closing.set()
        for thread in self._threads:
            thread.join(patience)
        self._alive.close()
        shutil.rmtree(self.private, ignore_errors=True)


def same_secret(given: str, secret: str) -> bool:
    """Compared in a time that does not tell how much of it is right."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def _private_folder(alive: contextlib.ExitStack) -> Path:
    """A folder that only the user can enter; locked long before `_sweep` looks at it."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700
    alive.enter_context(held_lock(folder / ALIVE))
    return folder


def _sweep() -> None:
    """Remove what apps that were killed left behind: their lock is free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, InvalidInput):
            found = folder.lstat()
            if folder.is_symlink() or not is_own(found) or time.time() - found.st_mtime < YOUNG:
                continue
            with held_lock(folder / ALIVE):
                shutil.rmtree(folder, ignore_errors=True)
