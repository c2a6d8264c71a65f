"""Workers that release through a ledger and are killed (SIGKILL) at random points.

A worker sends index after index of subjects with a budget of BUDGET releases each, and goes on with
the next subject when a budget is used up. What it draws is random (`os.urandom`), so that two draws
for one index differ. After `spend_and_write` has returned it appends one line to `sent`, as a
network would: what is there was seen by others.
"""

import os
import random
import signal
import sys
import time

import numpy as np

from privest.errors import BudgetExceeded, LedgerError
from privest.ledger import Budget, Cost, Ledger

BUDGET = 12
EVENTS = 26_000  # about 3,000 for a release that is sent again, 5,500 for a new one
COST = Cost(1.0, mu2=0.25, sensitivity=1.0)


def drawn():
    return np.frombuffer(os.urandom(16), dtype=np.int64).copy(), None


def work(folder, parent, first=0, watch=None):
    """Release until killed, from index `first` of all on. `watch` is called when it is set up."""
    sent = os.open(folder / "sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ledger = Ledger(folder / "ledger.db", marks=folder / "marks")
    if watch is not None:
        watch()
    start, begin = divmod(first, BUDGET)
    for number in range(start, 10**9):
        subject = f"s{number}"
        ledger.account(subject, budget=Budget(trace=float(BUDGET), rho=9.0, sensitivity=1.0))
        for index in range(begin, BUDGET + 1):
            if os.getppid() != parent:
                os._exit(4)  # nobody is left to kill it
            try:
                found = ledger.account(subject).spend_and_write(
                    COST, index, 1, {"of": subject}, drawn
                )
            except BudgetExceeded:
                break
            text = " ".join(map(str, found.integers))
            os.write(sent, f"{number} {index} {text}\n".encode())
        begin = 0


def killed_at_call(folder, first, event):
    """A worker that kills itself at its `event`-th call or return, of Python or of C."""
    parent, worker = os.getpid(), os.fork()
    if worker == 0:
        left = [event]

        def count(frame, kind, argument):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            work(folder, parent, first, lambda: sys.setprofile(count))
        finally:
            os._exit(3)  # it went wrong before it was killed
    return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == -signal.SIGKILL


def kill_several(folder, first, workers, kills, rng):
    """So many workers at a time; one after another is killed after a random time and replaced."""
    alive, good, parent = [], 0, os.getpid()

    def start():
        worker = os.fork()
        if worker == 0:
            try:
                work(folder, parent, first)
            finally:
                os._exit(3)
        alive.append(worker)

    for _ in range(workers):
        start()
    for k in range(kills):
        time.sleep(rng.uniform(0.0, 0.015))
        victim = alive.pop(rng.randrange(len(alive)))
        os.kill(victim, signal.SIGKILL)
        good += os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL
        if k < kills - workers:
            start()
    return good


def lines_of(folder):
    """What was seen: {(subject, index): the set of different releases}; a torn line is none."""
    seen = {}
    text = (folder / "sent").read_text() if (folder / "sent").exists() else ""
    for line in text.splitlines():
        number, index, *values = map(int, line.split())
        seen.setdefault((f"s{number}", index), set()).add(tuple(values))
    return seen


def check(folder):
    """All that must hold whatever was killed; returns how many releases were seen."""
    seen = lines_of(folder)
    with Ledger(folder / "ledger.db", create=False, marks=folder / "marks") as ledger:
        assert ledger.trouble is None
        ledger.verify()  # pages, chain, totals, budgets
        for subject in ledger.subjects():
            assert ledger.account(subject).spent.trace <= BUDGET

        def never():
            raise LedgerError("a release without an entry")

        for (subject, index), releases in seen.items():
            assert len(releases) == 1, "two noises for one index"
            entry = ledger.account(subject).spend_and_write(COST, index, 1, {"of": subject}, never)
            assert tuple(entry.integers) in releases
        assert all(index < BUDGET for _, index in seen), "overspent"
    return len(seen)


def run(folder, kills, seed, workers=1):
    """`kills` kills; checks the file every now and then, and at the end."""
    rng = random.Random(seed)
    Ledger(folder / "ledger.db", marks=folder / "marks").close()
    killed = 0
    if workers > 1:
        while killed < kills:
            some = min(kills - killed, 500)
            killed += kill_several(folder, _first(folder), workers, some, rng)
            check(folder)
        return killed, check(folder)
    while killed < kills:
        killed += killed_at_call(folder, _first(folder), rng.randrange(1, EVENTS))
        if killed % 50 == 0:
            check(folder)
    return killed, check(folder)


def _first(folder):
    """Where a worker begins: the last three that were seen are sent again."""
    seen = (int(subject[1:]) * BUDGET + index for subject, index in lines_of(folder))
    return max(max(seen, default=0) - 2, 0)
