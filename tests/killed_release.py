"""Releases that are killed, in processes of their own: killed_release.py FOLDER SEED COUNT FORM.

Each trial has a table, a plan and a ledger. A child releases it and is killed without a chance to
clean up: at one of the named points, or whenever an alarm goes off. Then the files are looked at,
and the same release is run to its end. Prints how often it was killed where; any broken promise is
an AssertionError.
"""

import hashlib
import importlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import workflow_inside as workflow
from privest import files
from privest.ledger import Account, Ledger
from workflow_tables import people, spec, write

ROWS, FORM = 3000, "aggregate" if sys.argv[4:] == ["aggregate"] else "rows"
NAME = {"rows": "z.csv", "aggregate": "z.json"}[FORM]
ASKED = {
    "rows": workflow.Privacy(2.0),
    "aggregate": workflow.Privacy(epsilon=1.0, range={"ldl": (0.0, 9.0)}, form="aggregate"),
}[FORM]
RELEASE = importlib.import_module("privest.workflow.release")


def run(folder, until):
    """Release in a child that dies at `until`: a point by its name, or after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            if isinstance(until, str):
                die_at(until)
            elif until is not None:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, until)
            own = workflow.load_spec(folder / "plan.toml")
            account = workflow.Account(Ledger(folder / "ledger.db", marks=folder / "marks"), "ldl")
            plan = workflow.stated_plan(own) or workflow.make_plan(own)
            workflow.release(plan, folder / NAME, account=account)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(7)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def die_at(point):
    """Die before or after a call, or at a point after it."""
    kind, name, when = (POINTS | LATER)[point]
    own = getattr(kind, name)

    def dying(*args, **kwargs):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = own(*args, **kwargs)
        if when != "after":
            die_at(when)
            return found
        os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(kind, name, dying)


POINTS = {
    "drawn": (files.Draft, "settle", "before"),
    "whole": (workflow.Account, "charge", "before"),
    "spent": (Account, "spend_and_write", "after"),
    "paid": (workflow.Account, "charge", "after"),
    "describing": (workflow.Account, "charge", "header"),
    "described": (RELEASE, "_write_document", "after"),
    "shown": (files.Draft, "publish", "after"),
}


LATER = {"header": (files, "_umask", "before")}  # its file is written, and has not its name yet


def entries(folder):
    """The hashes of the tables that the ledger knows."""
    if not (folder / "ledger.db").exists():
        return []
    with Ledger(folder / "ledger.db", marks=folder / "marks") as ledger:
        ledger.verify()
        found = [e for e in ledger.history() if e.cost is not None]
        words = [ledger.written(e).integers[:4] for e in found]
    return [w.astype("<i8").tobytes().hex() for w in words]


def digest(path):
    """That of the table; an aggregate release is one document, which names its own."""
    if not path.exists():
        return None
    if FORM == "aggregate":
        return workflow.read_release(path).sha256
    return hashlib.sha256(path.read_bytes()).hexdigest()


def trial(folder, until):
    folder.mkdir()
    write(people(ROWS, seed=4), folder / "people.csv")
    (folder / "plan.toml").write_text(workflow.to_toml(spec("people.csv", privacy=ASKED)))
    status = run(folder, until)
    paid, there = entries(folder), digest(folder / NAME)
    assert len(paid) <= 1, "two tables for one subject"
    if there is not None:
        assert paid == [there], "a table without its entry"
        document = workflow.document_path(folder / NAME)
        assert json.loads(document.read_text())["sha256"] == there
    if status == 0:
        return "not"
    if there is None:
        assert run(folder, None) == 0, "the same release does not finish"
    elif FORM == "aggregate":
        assert run(folder, None) != 0, "it is there, and is made again"
    made = digest(folder / NAME)
    assert entries(folder) == [made], "not the table that is paid for"
    assert paid in ([], [made]), "another table than the one that was paid for"
    assert not [*folder.glob(f".{NAME}*")], "a part is left"
    if there is not None:
        return "shown"
    return "paid" if paid else "drawing"


def main():
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.environ["PRIVEST_STATE_HOME"] = str(folder / "marks")
    rng, killed = random.Random(seed), Counter()
    last = "described" if FORM == "aggregate" else "shown"
    for k, point in enumerate(POINTS):
        if FORM == "aggregate" and point == "shown":  # the document is all there is to show
            continue
        status = trial(folder / f"p{k}", point)
        expected = {"drawn": "drawing", "whole": "drawing", last: "shown"}.get(point, "paid")
        assert status == expected, (point, status)
    began = time.monotonic()
    assert trial(folder / "whole", None) == "not"
    took = time.monotonic() - began
    for k in range(count):
        killed[trial(folder / f"r{k}", rng.uniform(0.001, took))] += 1
    print(json.dumps(killed))


if __name__ == "__main__":
    main()
