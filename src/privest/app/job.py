"""A release or dry run under way: in the background, once for every confirmation."""

from __future__ import annotations

import itertools
import secrets
import shutil
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from privest.app.desk import Desk, Work
from privest.app.guard import note
from privest.app.tables import in_words
from privest.errors import InvalidInput, PrivestError
from privest.files import part_path
from privest.ledger import Budget
from privest.report.slider import at_epsilon
from privest.workflow.account import Account, Spending, account_name
from privest.workflow.document import TableRelease, document_path
from privest.workflow.estimate import estimate
from privest.workflow.plan import Plan
from privest.workflow.release import release, simulate_release, simulation_source
from privest.workflow.result import TableEstimate
from privest.workflow.spec import Spec

MOST_TICKETS = 20  # pages of one work that are open at once
MOST_NAME = 120  # bytes: a draft and a document have a few more, and 255 is what a folder takes
ENDINGS: dict[str, tuple[str, ...]] = {
    "rows": (".csv", ".parquet"),
    "aggregate": (".json",),
}  # by the form of a release
UNFORESEEN = (
    "It ended in a way that nobody foresaw. Where that was is on the terminal in which the app "
    "runs. If it was paid for before, the same release finishes it: look at this page again."
)


class Stopped(Exception):
    """The app ends."""


@dataclass(frozen=True)
class Choice:
    """The file and the account of a release.

    limit  of a new account, as ε of all releases together; None: what this release costs.
    """

    name: str
    subject: str
    limit: float | None = None
    again: bool = False

    def path(self, desk: Desk) -> Path:
        return desk.folder / self.name

    def account(self, desk: Desk, plan: Plan) -> Account:
        budget: Budget | None = None
        if self.limit is not None:
            most = at_epsilon(plan, self.limit)
            # Exposures depend on the squares.
            by_mu = {"mu": most.mu, "sensitivity": most.cost.sensitivity}
            budget = Budget(**by_mu) if most.splits else Budget(level=most.level)
        return Account(desk.ledger, self.subject, budget, again=self.again)

    def preview(self, desk: Desk, plan: Plan) -> Spending:
        with self.account(desk, plan) as account:
            return account.preview(plan, self.path(desk))


@dataclass(eq=False)
class Job:
    """One release or dry run; `rows`: that have left so far.

    trouble  why nothing was made; `document`: of what was; `found`: the estimate of a dry run.
    """

    plan: Plan
    path: Path
    dry: bool = False
    rows: int = 0
    running: bool = True
    trouble: str | None = None
    document: TableRelease | None = None
    found: TableEstimate | None = None

    def told(self, desk: Desk, rows: int) -> None:
        """So many rows have left; here, before anything is paid for, it can end."""
        self.rows = rows
        if desk.closing.is_set():
            raise Stopped


# --- what is offered ------------------------------------------------------------------------------


def first_choice(desk: Desk, plan: Plan) -> Choice:
    """The usual names; where a killed run left a draft that is paid for, that one."""
    spec = plan.spec
    subject, names = account_name(spec), [_usual_name(desk, spec)]
    for part in sorted(desk.folder.glob(".*.part")):
        left = part.name[1:].removesuffix(".part")
        if left.endswith(ENDINGS[spec.privacy.form]) and part_path(desk.folder / left) == part:
            names.insert(0, left)
    with Account(desk.ledger, subject) as account:
        for name in names[:-1]:
            if account.preview(plan, desk.folder / name).unfinished:
                return Choice(name, subject)
    return Choice(names[-1], subject)


def free_name(folder: Path, target: str, data: str, ending: str) -> str:
    """A name for a release that no file in the folder has, nor the data."""
    letters = (letter if letter.isalnum() else "-" for letter in target)
    word = "".join(letters).strip("-")[:40]
    stem = f"{word}-release" if word else "release"
    for number in itertools.count(1):
        name = f"{stem}{ending}" if number == 1 else f"{stem}-{number}{ending}"
        path = folder / name
        if not (path.exists() or document_path(path).exists() or same_name(name, data)):
            break
    return name


def _usual_name(desk: Desk, spec: Spec) -> str:
    return free_name(desk.folder, spec.targets[0], spec.data, ENDINGS[spec.privacy.form][0])


def as_name(given: str, spec: Spec) -> str:
    """The name of a file in the folder of releases, and of nothing else."""
    bad = set(given) & set('/\\:*?"<>|') or not given.isprintable() or given.startswith(".")
    if bad or len(given.encode()) > MOST_NAME:
        raise InvalidInput(
            "the name of the file must be a plain one, without folders, such as release: it is "
            "written to the folder of releases."
        )
    endings = ENDINGS[spec.privacy.form]
    if not given.endswith(endings):
        raise InvalidInput(f"the name of the file must end in {' or '.join(endings)}.")
    if same_name(given, spec.data):
        raise InvalidInput(
            f"“{given}” is the name of a file that the plan reads: give the release another one, "
            "so that nobody takes the one for the other."
        )
    return given


def same_name(name: str, data: str) -> bool:
    """Whether some file system, or a reader, takes a name for that of the data."""
    one, other = (unicodedata.normalize("NFC", x).casefold() for x in (name, Path(data).name))
    return one == other


def new_ticket(work: Work, plan: Plan) -> str:
    """A word that lets one release begin: of the plan that was shown with it."""
    with work.lock:
        ticket = secrets.token_urlsafe(12)
        work.tickets[ticket] = plan
        while len(work.tickets) > MOST_TICKETS:
            del work.tickets[next(iter(work.tickets))]
        return ticket


# --- doing it -------------------------------------------------------------------------------------


def begin(desk: Desk, work: Work, plan: Plan, choice: Choice) -> Job:
    """Release in the background. Within the lock of the work."""
    assert work.table is not None
    job, data = Job(plan, choice.path(desk)), work.table.data

    def make() -> None:
        with choice.account(desk, plan) as account:
            job.document = release(
                plan, job.path, data, account=account, progress=lambda n: job.told(desk, n)
            )
        with work.lock:
            desk.set_aside(work)  # the release before is an earlier one
            work.released, work.made = job.path, plan
            # Another one would have another name.
            work.choice = Choice(_usual_name(desk, plan.spec), choice.subject)

    return _started(desk, work, job, make)


def begin_dry_run(desk: Desk, work: Work, plan: Plan) -> Job:
    """The same with simulated noise: into the app's own folder, which goes; nothing is spent."""
    assert work.table is not None
    folder = desk.private / secrets.token_hex(8)
    folder.mkdir(mode=0o700)
    path = folder / f"dry-run{ENDINGS[plan.privacy.form][0]}"
    job, data = Job(plan, path, dry=True), work.table.data

    def make() -> None:
        try:
            noise = simulation_source(plan, None)
            job.document = simulate_release(
                plan, job.path, noise, data, progress=lambda n: job.told(desk, n)
            )
            job.found = estimate(job.path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return _started(desk, work, job, make)


def _started(desk: Desk, work: Work, job: Job, make: Callable[[], None]) -> Job:
    table = work.table

    def run() -> None:
        try:
            make()
        except Stopped:
            job.trouble = "The app was stopped before anything was paid for."
        except PrivestError as error:
            job.trouble = in_words(error, table)
        except Exception as error:  # never its text, which may hold a value
            note(error)
            job.trouble = UNFORESEEN
        finally:
            if job.document is None and job.trouble is None:
                job.trouble = UNFORESEEN
            job.running = False

    work.job = job
    desk.run(run)
    return job
