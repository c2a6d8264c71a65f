"""A stream on the desk: a file, what is asked of it, and the thread that plays it.

The thread owns the replay: files, ledger and locks are opened, used and let go of in it. Pages see
copies of where it is, which it leaves after every block.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from privest.app._desk import Desk, Table
from privest.data import TableLook
from privest.errors import InvalidInput, PrivestError
from privest.report import Trail
from privest.streaming import Replay, ReplayPlan, ReplayState

log = logging.getLogger("privest.app")

PACES = (1, 2, 5, 10, 25)  # blocks a second
WATCHED = 0.2  # seconds between looks at whether the app ends
PATIENCE = 60.0  # for a file to be opened and taken up
WORDS = {
    "ready": "Ready. Nothing has been released in this run.",
    "playing": "It plays.",
    "paused": "Paused: nothing is released until you go on.",
    "ended": "The file is at its end.",
    "stopped": "Stopped.",
    "failed": "It stopped because something went wrong.",
}
OVER = ("ended", "stopped", "failed")
UNFORESEEN = (
    "Something went wrong that nobody foresaw. What was released before is whole. Where it "
    "happened (not what was in your data) is on the terminal in which the app runs."
)


class View(NamedTuple):
    """Where a replay was after a block; `version` tells whether a page has it already."""

    version: int
    state: ReplayState
    trail: Trail


class Now(NamedTuple):
    """Where a player is, in one look; `mark` names it, for a page that has it already."""

    view: View
    status: str
    pace: int

    @property
    def mark(self) -> str:
        return f"{self.view.version}-{self.status}-{self.pace}"


class Player:
    """Plays a replay in a thread of the desk, from pause to pause."""

    def __init__(self, plan: ReplayPlan, desk: Desk, pace: int = 2) -> None:
        self.plan, self.pace = plan, pace
        self.status: str = "ready"
        self.trouble: PrivestError | None = None
        self._desk, self._turn = desk, threading.Condition()
        self._steps, self._due, self._stopping = 0, 0.0, False
        self._opened: Future[None] = Future()
        self._thread: threading.Thread | None = None
        self._view: View | None = None

    def begin(self) -> None:
        """Open the file, and wait at its place; what cannot be opened is an error here."""
        self._thread = self._desk.run(self._run)
        try:
            self._opened.result(PATIENCE)
        except TimeoutError:
            self.stop()
            raise InvalidInput(
                "the file takes too long to be taken up again: choose more readings at a time."
            ) from None

    @property
    def over(self) -> bool:
        return self.status in OVER

    @property
    def now(self) -> Now:
        """Where it is; there is something to see since `begin`."""
        with self._turn:
            assert self._view is not None
            return Now(self._view, self.status, self.pace)

    # --- buttons --------------------------------------------------------------------------------

    def play(self) -> None:
        """Block after block."""
        self._now("playing")

    def pause(self) -> None:
        """Nothing is released until it is played again."""
        self._now("paused")

    def step(self) -> None:
        """One block, then a pause."""
        with self._turn:
            if not self.over:
                self.status, self._steps = "paused", self._steps + 1
                self._turn.notify_all()

    def faster(self) -> None:
        """The next pace."""
        self._at_pace(PACES.index(self.pace) + 1)

    def slower(self) -> None:
        """The pace before."""
        self._at_pace(PACES.index(self.pace) - 1)

    def stop(self) -> None:
        """Let go of the file, the ledger and the locks; they are free when this returns."""
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _now(self, status: str) -> None:
        with self._turn:
            if not self.over:
                self.status, self._steps = status, 0
                self._turn.notify_all()

    def _at_pace(self, place: int) -> None:
        with self._turn:
            self.pace = PACES[min(max(place, 0), len(PACES) - 1)]
            self._due = 0.0
            self._turn.notify_all()

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        status = "failed"
        try:
            with Replay(self.plan) as replay:
                self._seen(replay)
                self._opened.set_result(None)
                status = self._played(replay)
        except PrivestError as error:
            self._fails(error)
        except Exception as error:  # never its text, which may hold a reading
            log.error("%s in a stream", type(error).__name__)
            self._fails(InvalidInput(UNFORESEEN))
        with self._turn:
            self.status = status

    def _played(self, replay: Replay) -> str:
        """Blocks, each when its time has come; why it ended."""
        while self._awaited():
            more = replay.next_block()
            self._seen(replay)
            if not more:
                return "ended"
        return "stopped"

    def _awaited(self) -> bool:
        """Wait for the next block; False: there is to be none."""
        with self._turn:
            while not (self._stopping or self._desk.closing.is_set()):
                if self._steps:
                    self._steps -= 1
                    return True
                rest = WATCHED
                if self.status == "playing":
                    rest = self._due - time.monotonic()
                    if rest <= 0:
                        self._due = time.monotonic() + 1 / self.pace
                        return True
                self._turn.wait(min(rest, WATCHED))
        return False

    def _seen(self, replay: Replay) -> None:
        version = 0 if self._view is None else self._view.version + 1
        view = View(version, replay.state(), replay.trail.copy())
        with self._turn:
            self._view = view

    def _fails(self, error: PrivestError) -> None:
        self.trouble = error
        if not self._opened.done():
            self._opened.set_exception(error)


class Drawn(NamedTuple):
    """The sections of a page: of which player, of which version, and when they were drawn; what a
    page counts beside them is of the same moment.
    """

    player: Player | None
    version: int
    when: float
    html: str
    state: ReplayState | None


@dataclass(eq=False)
class StreamWork:
    """One stream: its file, how it was found to be written, and its player. Change it under `lock`.

    typed   what was typed on the settings, to be shown again; no readings.
    player  None until it is set up.
    drawn   what a page shows of a version, so that several tabs draw it once.
    """

    id: str
    table: Table
    look: TableLook = field(repr=False)
    example: bool = False
    typed: dict[str, Any] = field(default_factory=dict, repr=False)
    player: Player | None = None
    drawn: Drawn = field(default_factory=lambda: Drawn(None, -1, 0.0, "", None), repr=False)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def title(self) -> str:
        """Names only."""
        if self.player is None:
            return self.table.name
        return f"{self.player.plan.target} of {self.table.name}, as a stream"

    def forget(self) -> None:
        """Stop it, and remove the app's copy of its file."""
        with self.lock:
            if self.player is not None:
                self.player.stop()
            self.table.remove()
