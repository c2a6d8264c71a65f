"""What one running app holds: its folder, its ledger, and the pieces of work on the desk.

Nothing of it outlives the process but what was released: files of the user that were sent to the
app lie in a folder that only the user can read, and that is removed at the end (one that a killed
app left behind is removed by the next).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privest.data import EMBEDDED, Reading
from privest.errors import InvalidInput
from privest.files import held_lock
from privest.workflow import LEDGER, Plan, Spec

PREFIX = "privest-app-"
ALIVE = "alive"  # a file that is locked as long as its app runs
STEPS = {
    "data": "Data", "privacy": "Privacy", "release": "Release", "results": "Results",
    "take": "Take it along",
}  # fmt: skip
MOST_ANSWERS = 20  # pages that are kept for the Back button
MOST_WORKS = 50  # on one desk: each may hold a table on disk


@dataclass(frozen=True)
class Table:
    """A table of the user: `name` as it is shown and written into plans, `path` where it lies.

    path  None: the embedded table. own: the app's copy, to be removed.
    """

    name: str
    path: Path | None = None
    own: bool = False

    @property
    def data(self) -> str:
        """What `open_source` takes."""
        return EMBEDDED if self.path is None else str(self.path)

    def remove(self) -> None:
        """The app's copy goes; a file of the user stays."""
        if self.own and self.path is not None:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class Made:
    """How a release was made here: what is shown of it later, and taken along.

    plan     as it was then: the slider may have moved since.
    seed     of a trial that can be repeated; a real release has none.
    subject, budget, again   as in `Account`; None: as it is without being stated.
    folder   the app's own, of a trial: it goes with it.
    """

    plan: Plan
    seed: int | None = None
    subject: str | None = None
    budget: float | None = None
    again: bool = False
    folder: Path | None = None

    def remove(self) -> None:
        """The table of a trial, which protects nothing, goes; a real release stays."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(eq=False)
class Work:
    """One piece of work: one table, from its file to its report. Change it under its `lock`.

    reading   how the file is read, as the user confirmed it.
    spec      the plan as stated, public; None until the data screen is done.
    plan      what is known before a release, at the level that is chosen; None as `spec`.
    typed     what was typed on the data screen, to be shown there again.
    released  the table of a release (or a trial) that was made here; its header is beside it.
    made      how: set together with `released`.
    earlier   real releases of this table that were made before, under this plan or another: each
              is a piece of work of its own, with its results.
    asked     what the results were last asked for: confidence, errors, at, total, by the names of
              `workflow.Steps`; what is not in it is as usual.
    references  public files that were sent, each alone in a folder of the app.
    more      what a screen keeps for itself, by its own name.
    looks     how often there was another table, or another way to read it; `models`: another model.
              What was shown, or is still being computed, of an earlier one is not of this one.
    """

    id: str
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    table: Table | None = None
    reading: Reading = field(default_factory=Reading)
    spec: Spec | None = None
    plan: Plan | None = None
    typed: dict[str, Any] = field(default_factory=dict, repr=False)
    released: Path | None = None
    made: Made | None = None
    earlier: list[Work] = field(default_factory=list, repr=False)
    asked: dict[str, Any] = field(default_factory=dict, repr=False)
    references: list[Path] = field(default_factory=list, repr=False)
    more: dict[str, Any] = field(default_factory=dict, repr=False)
    looks: int = 0
    models: int = 0

    @property
    def title(self) -> str:
        """For the list of works, and for tabs: names only."""
        if self.spec is not None:
            return f"{', '.join(self.spec.targets)} of {self.spec.data}"
        if self.table is not None:
            return self.table.name
        return "New work" if self.released is None else f"the release {self.released.name}"

    @property
    def steps(self) -> dict[str, bool]:
        """Which screens can be opened now."""
        planned = self.plan is not None
        return {
            "data": True, "privacy": planned, "release": planned,
            "results": self.released is not None, "take": planned or self.made is not None,
        }  # fmt: skip

    @property
    def real(self) -> bool:
        """Whether it has a release that was made here and paid for."""
        return self.released is not None and self.made is not None and self.made.seed is None

    def require_idle(self) -> None:
        """Refuse to change table or plan while something is being made of them."""
        if any(getattr(one, "running", False) for one in self.more.values()):
            raise InvalidInput(
                "a release of this table is being made: wait until it is done, or stop it on the "
                "release page. Nothing was changed."
            )

    def restate(self, spec: Spec | None, plan: Plan | None) -> None:
        """Another model; None: not yet. What was made of the one before is not of this one."""
        with self.lock:
            self.models += 1
            if self.made is not None:
                self.made.remove()
            self.spec, self.plan, self.released, self.made = spec, plan, None, None

    def require_model(self, model: int) -> None:
        """Refuse what was shown, or computed, of another model than there is now."""
        if model != self.models:
            raise InvalidInput(
                "The table or the model was changed meanwhile, perhaps in another tab. Look at "
                "what it is now, and ask again. Nothing was kept."
            )

    def forget(self) -> None:
        """The table and everything that was made of it but a release."""
        with self.lock:
            if self.table is not None:
                self.table.remove()
            for sent in self.references:
                shutil.rmtree(sent.parent, ignore_errors=True)
            self.references.clear()
            self.table, self.looks = None, self.looks + 1
            self.restate(None, None)
            self.earlier.clear()
            self.asked.clear()
            self.typed.clear()
            self.more.clear()


class Desk:
    """One running app.

    folder     where releases are written; ledger: where they are charged.
    read_only  plans only: nothing is released, nothing is written to the folder or the ledger.
    key, session, csrf   secrets of this run: the first part of every path, the cookie, and what
               every form must bring. `new_token` gives what opens the app, once.
    hosts      the names under which it may be called, with the port; set when that is known.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = ".",
        ledger: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise InvalidInput(f"{folder} is no folder: releases are written to one that is there.")
        self.ledger = self.folder / LEDGER if ledger is None else Path(ledger).resolve()
        self.read_only = read_only
        self.key, self.session, self.csrf = (secrets.token_urlsafe(24) for _ in range(3))
        self._tokens: dict[str, Callable[[], object]] = {}
        self.answers: dict[str, object] = {}  # pages that answered forms, the last ones
        self.hosts: frozenset[str] = frozenset()
        self.works: dict[str, Work] = {}
        self.closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        _sweep()
        self._alive = contextlib.ExitStack()
        self.private = _private_folder(self._alive)

    def begin(self) -> Work:
        """A new piece of work."""
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
        """Take a piece of work off the desk, with the app's copy of its table; not while a release
        of it is being made.
        """
        with work.lock:
            work.require_idle()
            with self._lock:
                self.works.pop(work.id, None)
            work.forget()

    def set_aside(self, work: Work) -> None:
        """Make room for another plan or release: a trial goes; a real release stays true, and gets
        a place of its own on the desk. Within the lock of the work.
        """
        if work.real:
            with self._lock:  # however many there are: it must not get lost
                own = self._new()
            own.released, own.made, own.asked = work.released, work.made, dict(work.asked)
            work.earlier.append(own)
        elif work.made is not None:
            work.made.remove()
        work.released = work.made = None
        work.asked.clear()

    def keep(self, answer: object) -> str:
        """The name under which an answer to a form is kept, among the last of them."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self.answers[name] = answer
            while len(self.answers) > MOST_ANSWERS:
                del self.answers[next(iter(self.answers))]
        return name

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
        """A new, empty file for one table of the user, which only they can read."""
        path = self.private / f"{secrets.token_hex(8)}{ending}"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path

    def run(self, job: Callable[[], None]) -> threading.Thread:
        """Work in the background; it should look at `closing`, and is waited for at the end."""
        thread = threading.Thread(target=job, daemon=True)
        with self._lock:
            self._threads = [*(one for one in self._threads if one.is_alive()), thread]
            thread.start()
        return thread

    def close(self, patience: float = 10.0) -> None:
        """Stop what runs, and remove the user's tables. A release that is cut off is safe: the same
        release, begun again, is finished as it was.
        """
        self.closing.set()
        for thread in self._threads:
            thread.join(patience)
        self._alive.close()
        shutil.rmtree(self.private, ignore_errors=True)


def same_secret(given: str, secret: str) -> bool:
    """Compared in a time that does not tell how much of it is right."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def _private_folder(alive: contextlib.ExitStack) -> Path:
    """A folder that only the user can enter; it has its name when it is locked, not before: another
    app that starts now must not take it for one that was left behind.
    """
    new = Path(tempfile.mkdtemp(prefix="privest-new-"))  # 0700
    alive.enter_context(held_lock(new / ALIVE))
    return new.rename(new.with_name(f"{PREFIX}{secrets.token_hex(8)}"))


def _sweep() -> None:
    """Remove what apps that were killed left behind: their lock is free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, InvalidInput):
            if folder.stat().st_uid != os.getuid() or folder.is_symlink():
                continue
            with held_lock(folder / ALIVE):
                shutil.rmtree(folder, ignore_errors=True)
