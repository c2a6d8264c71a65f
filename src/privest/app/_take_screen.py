"""Screen 5, take it along: plan, commands, script, notebook, report, ledger entry; one archive.

Every text is made when it is asked for, from the plan and the release as they are. What is written
for a download lies in the private folder of the app and goes as soon as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from privest.app._along import (
    COMMANDS,
    ENTRY,
    NOTEBOOK,
    SCRIPT,
    Along,
    ledger_entry,
    save_along,
)
from privest.app._desk import Desk, Made, Work
from privest.app._pages import Form, desk_of, page, screen, see_other
from privest.app._results_screen import Seen, estimate_of, seen_of
from privest.errors import PrivestError
from privest.report import save_report
from privest.workflow import (
    ColumnsEstimate,
    Plan,
    TableRelease,
    read_release,
)
from privest.workflow._commands import Steps
from privest.workflow._header import header_path

PLAN, REPORT, ARCHIVE = "plan.toml", "report.html", "privest.zip"


@dataclass(frozen=True, eq=False)
class Taken:
    """What there is to take: of a plan alone, or of a release too."""

    desk: Desk
    plan: Plan
    along: Along
    header: TableRelease | None = None
    table: Path | None = None
    seen: Seen | None = None  # whose results are kept
    moved: bool = False  # the plan, since it was released

    @property
    def real(self) -> bool:
        """Whether something was released, and not just tried."""
        return self.header is not None and not self.header.simulated

    @property
    def entry(self) -> str | None:
        """The entry of the ledger."""
        assert self.header is not None
        return ledger_entry(self.desk.ledger, self.header)

    def write_report(self, path: Path) -> None:
        """The page for people."""
        assert self.seen is not None
        steps, commands = self.along.steps, self.along.commands
        estimate = estimate_of(self.seen)
        save_report(self.plan, estimate, commands, path, confidence=steps.confidence)

    def write_archive(self, path: Path) -> None:
        """All of it as one file."""
        if self.table is None:
            save_along(path, self.along)
            return
        table, entry = (self.table, self.entry) if self.real else (None, None)
        made = self.desk.private_file(".html")
        try:
            self.write_report(made)
            save_along(path, self.along, table=table, report=made, entry=entry)
        finally:
            made.unlink(missing_ok=True)


def taken_of(desk: Desk, work: Work) -> Taken | None:
    """What a piece of work has; None: not even a plan."""
    with work.lock:
        made, seen = work.made, seen_of(work)
        plan = made.plan if work.plan is None and made is not None else work.plan
    if plan is None:
        return None
    if seen is None:
        return Taken(desk, plan, Along(plan.spec, Steps(PLAN, page=REPORT)))
    table = seen.table
    header, how = read_release(table), made or Made(plan)
    noise: dict[str, Any] = {"simulated": True, "seed": how.seed}
    if not header.simulated:
        subject = how.subject if header.entry is None else header.entry.subject
        noise = {"ledger": desk.ledger, "subject": subject, "budget": how.budget,
                 "again": how.again}  # fmt: skip
    steps = Steps(PLAN, table, REPORT, made=True, **noise, **_answered(seen))
    moved = how.plan.spec != plan.spec
    return Taken(desk, how.plan, Along(how.plan.spec, steps), header, table, seen, moved)


def _answered(seen: Seen) -> dict[str, Any]:
    """What was asked for and is there: not every release has means and totals in its own units."""
    asked = seen.asked
    if not asked.get("at") and not asked.get("total"):
        return asked
    found = estimate_of(seen)
    parts = found.parts if isinstance(found, ColumnsEstimate) else (found,)
    rows = asked.get("at", ())
    there = tuple(row for row in rows if all(_is_there(one.mean_at, row) for one in parts))
    total = bool(asked.get("total")) and all(_is_there(one.total) for one in parts)
    return asked | {"at": there, "total": total}


def _is_there(ask: Callable[..., object], *given: object) -> bool:
    try:
        ask(*given)
    except PrivestError:
        return False
    return True


def take(request: Request, work: Work, form: Form) -> Response:
    """The texts, and what can be downloaded."""
    taken = taken_of(desk_of(request), work)
    if taken is None:
        return see_other(request, "data", work)
    return page(request, "take.html", work, step="take", taken=taken, **_told(taken))


def _told(taken: Taken) -> dict[str, Any]:
    """What the page says of a release; an entry that cannot be read is said in words."""
    told: dict[str, Any] = {"entry": None, "trouble": None, "beside": ()}
    if taken.table is not None:
        told["beside"] = (taken.table.name, header_path(taken.table).name)
    if taken.real:
        try:
            told["entry"] = taken.entry
        except PrivestError as error:
            told["trouble"] = str(error)
    return told


# --- downloads ------------------------------------------------------------------------------------

Writer = Callable[[Taken, Path], None]


def _text(name: str) -> Writer:
    """One of the texts, as a file."""

    def write(taken: Taken, path: Path) -> None:
        text = taken.entry if name == "entry" else getattr(taken.along, name)
        path.write_text(text or "", encoding="utf-8", errors="backslashreplace")

    return write


# By the word in the address: the name of the file, its kind, who writes it, what it needs.
FILES: dict[str, tuple[str, str, Writer, str]] = {
    "plan": (PLAN, "application/toml", _text("plan"), "plan"),
    "commands": (COMMANDS, "text/x-shellscript", _text("shell"), "plan"),
    "script": (SCRIPT, "text/x-python", _text("script"), "plan"),
    "notebook": (NOTEBOOK, "application/x-ipynb+json", _text("notebook"), "plan"),
    "report": (REPORT, "text/html", Taken.write_report, "release"),
    "entry": (ENTRY, "application/json", _text("entry"), "real"),
    "all": (ARCHIVE, "application/zip", Taken.write_archive, "plan"),
}


def download(request: Request, work: Work, form: Form) -> Response:
    """One file, under a name that is the same for everybody: no text of others is in it."""
    desk, what = desk_of(request), request.path_params["what"]
    taken = taken_of(desk, work)
    if taken is None or what not in FILES:
        raise HTTPException(404, "There is no such file.")
    name, kind, write, needs = FILES[what]
    there = {"plan": True, "release": taken.table is not None, "real": taken.real}
    if not there[needs]:
        raise HTTPException(404, "That is there after a release.")
    path = desk.private_file(Path(name).suffix)
    try:
        write(taken, path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    gone = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type=kind, filename=name, background=gone)


ROUTES = [
    screen("/take", take, "take"),
    screen("/take/{what}", download, "take_file"),
]
