"""A release that is under way: in the background, once for every confirmation."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from privest.app._desk import Desk, Made, Work
from privest.app._guard import note
from privest.app._uploads import in_words, require_other_name, same_name
from privest.errors import InvalidInput, PrivestError
from privest.files import part_path
from privest.report import Sentence, describe
from privest.report.describe import budget_left
from privest.workflow import (
    Account,
    Plan,
    Spec,
    Spending,
    TableRelease,
    account_name,
    document_path,
    release,
    simulate_release,
    simulation_source,
)

JOB, TICKETS, CHOICE = "release job", "release tickets", "release choice"
MOST_TICKETS = 20  # pages of one work that are open at once
MOST_NAME = 120  # bytes: a draft and a header have a few more, and 255 is what a folder takes
ENDINGS = (".csv", ".parquet")
TRIAL = "trial.csv"
STOPPED = "It was stopped before anything was paid for: nothing was released, nothing was spent."
UNFORESEEN = (
    "It ended in a way that nobody foresaw. Where that was is on the terminal in which the app "
    "runs. If it was paid for before, the same release finishes it: look at this page again."
)


class Stopped(Exception):
    """Somebody wants no release any more, or the app ends."""


@dataclass(frozen=True)
class Choice:
    """What was chosen for a release: its file, and the account.

    budget  of a new account; None: what the release costs.
    """

    name: str
    subject: str
    budget: float | None = None
    again: bool = False

    def path(self, desk: Desk) -> Path:
        """Where the table will be."""
        return desk.folder / self.name

    def account(self, desk: Desk) -> Account:
        """Where it is charged."""
        return Account(desk.ledger, self.subject, self.budget, again=self.again)


@dataclass(eq=False)
class Job:
    """One release or trial, and how far it is.

    rows    that have left so far, of about `of`.
    said    what came of it, in words; `trouble`: why nothing did.
    header  of what was made; `left`: of the budget, in words; `head`: of the ledger after it.
    """

    plan: Plan
    path: Path
    of: int
    trial: bool = False
    rows: int = 0
    running: bool = True
    said: str = ""
    trouble: str | None = None
    header: TableRelease | None = None
    left: str = ""
    head: str = ""
    stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def told(self, desk: Desk, rows: int) -> None:
        """So many rows have left; here, before anything is paid for, it can end."""
        self.rows = rows
        if self.stop.is_set() or desk.closing.is_set():
            raise Stopped

    @property
    def document_path(self) -> Path:
        return document_path(self.path)


# --- what is offered ------------------------------------------------------------------------------


def first_choice(desk: Desk, plan: Plan) -> Choice:
    """The usual names; where a killed run left a draft that is paid for, that one."""
    subject, names = account_name(plan.spec), [usual_name(desk, plan.spec)]
    for part in sorted(desk.folder.glob(".*.part")):
        left = part.name[1:].removesuffix(".part")
        if left.endswith(ENDINGS) and part_path(desk.folder / left) == part:
            names.insert(0, left)
    with Account(desk.ledger, subject) as account:
        for name in names[:-1]:
            if account.preview(plan, desk.folder / name).unfinished:
                return Choice(name, subject)
    return Choice(names[-1], subject)


def free_name(folder: Path, target: str, inputs: Sequence[str] = ()) -> str:
    """A name for the table of a release that no file has, and none of the files that are read."""
    others = {same_name(one) for one in inputs}
    word = "".join(letter if letter.isalnum() else "-" for letter in target).strip("-")[:40]
    stem = f"{word}-release" if word else "release"
    number = 1
    while True:
        name = f"{stem}.csv" if number == 1 else f"{stem}-{number}.csv"
        there = (folder / name).exists() or document_path(folder / name).exists()
        if not there and same_name(name) not in others:
            return name
        number += 1


def input_names(spec: Spec) -> list[str]:
    """The files that a plan reads."""
    return [Path(one).name for one in (spec.data, spec.public.reference) if one is not None]


def usual_name(desk: Desk, spec: Spec) -> str:
    """The name that is offered."""
    return free_name(desk.folder, spec.targets[0], input_names(spec))


def as_name(given: str, spec: Spec) -> str:
    """The name of a file in the folder of releases, and of nothing else."""
    bad = set(given) & set('/\\:*?"<>|') or not given.isprintable() or given.startswith(".")
    if bad or len(given.encode()) > MOST_NAME:
        raise InvalidInput(
            "the name of the file must be a plain one, without folders, such as release.csv: it is "
            "written to the folder of releases."
        )
    if not given.endswith(ENDINGS):
        raise InvalidInput("the name of the file must end in .csv or .parquet.")
    require_other_name(given, input_names(spec))
    return given


def spending(desk: Desk, plan: Plan, choice: Choice) -> Spending:
    """What the release would spend; nothing is."""
    with choice.account(desk) as account:
        return account.preview(plan, choice.path(desk))


def new_ticket(work: Work, plan: Plan) -> str:
    """A word that lets one release begin: of the plan that was shown with it."""
    with work.lock:
        tickets: dict[str, Plan] = work.more.setdefault(TICKETS, {})
        ticket = secrets.token_urlsafe(12)
        tickets[ticket] = plan
        while len(tickets) > MOST_TICKETS:
            del tickets[next(iter(tickets))]
        return ticket


def take_ticket(work: Work, ticket: str) -> Plan | None:
    """The plan that the word is for; None: it was used, or never given."""
    tickets: dict[str, Plan] = work.more.get(TICKETS, {})
    return tickets.pop(ticket, None)


# --- doing it -------------------------------------------------------------------------------------


def begin(desk: Desk, work: Work, plan: Plan, choice: Choice) -> Job:
    """Release in the background. Within the lock of the work."""
    assert work.table is not None
    job, data = Job(plan, choice.path(desk), plan.rows), work.table.data

    def make() -> None:
        with choice.account(desk) as account:
            job.header = release(
                plan, job.path, data, account=account, progress=lambda n: job.told(desk, n)
            )
            job.said = _sentence(job.header)
            job.left, job.head = budget_left(account).text, str(account.ledger.head)
        made = Made(plan, subject=choice.subject, budget=choice.budget, again=choice.again)
        _keep(desk, work, job, made)
        with work.lock:  # another one would have another name
            name = usual_name(desk, plan.spec)
            work.more[CHOICE] = (plan, Choice(name, choice.subject))

    return _started(desk, work, job, make)


def begin_trial(desk: Desk, work: Work, plan: Plan, seed: int) -> Job:
    """The same with simulated noise: into the app's own folder, spending nothing."""
    assert work.table is not None
    folder = desk.private / secrets.token_hex(8)
    folder.mkdir(mode=0o700)
    job, data = Job(plan, folder / TRIAL, plan.rows, trial=True), work.table.data
    made = Made(plan, seed=seed, folder=folder)

    def make() -> None:
        job.header = simulate_release(
            plan,
            job.path,
            simulation_source(plan, seed),
            data,
            progress=lambda n: job.told(desk, n),
        )
        job.said = _sentence(job.header)
        _keep(desk, work, job, made)

    return _started(desk, work, job, make, made)


def _sentence(header: TableRelease) -> str:
    parts = describe(header)[0].parts
    return " ".join(part.text for part in parts if isinstance(part, Sentence))


def _keep(desk: Desk, work: Work, job: Job, made: Made) -> None:
    """The work has a release now; the one before is an earlier one, and a trial goes."""
    with work.lock:
        desk.set_aside(work)
        work.released, work.made = job.path, made


def replanned(desk: Desk, work: Work) -> None:
    """What was made was made of another plan. Within the lock of the work."""
    desk.set_aside(work)
    work.more.pop(JOB, None)


def _started(
    desk: Desk,
    work: Work,
    job: Job,
    make: Callable[[], None],
    trial: Made | None = None,
) -> Job:
    table = work.table

    def run() -> None:
        try:
            make()
        except Stopped:
            job.trouble = STOPPED
        except PrivestError as error:
            job.trouble = in_words(error, table)
        except Exception as error:  # never its text, which may hold a reading
            note(error)
            job.trouble = UNFORESEEN
        finally:
            if job.header is None and job.trouble is None:
                job.trouble = UNFORESEEN
            if trial is not None and job.trouble is not None:
                trial.remove()
            job.running = False

    work.more[JOB] = job
    desk.run(run)
    return job
