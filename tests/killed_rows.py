"""Kills and races of row releases through the door: killed_rows.py kills|races FOLDER COUNT.

A child is forked, and ends at once at one step between the first look at the table and the release
in its place. Whatever is on disk then, a second run ends with one entry, the integers that were
fixed, one table and one header. Prints as JSON what was wrong: [] is right.
"""

import json
import os
import sys
from pathlib import Path

import pyarrow.csv  # noqa: F401 - before the forks, which then need not

from killed_vault import begin as begin_ledger
from killed_vault import child, end_at, opened
from privest import vault
from privest.errors import InvalidInput
from privest.files import Draft
from privest.vault import door, mark
from privest.vault.ledger import Book
from privest.workflow import rows_door
from privest.workflow.plan import stated_plan
from privest.workflow.rows import LeavingRows
from privest.workflow.rows_door import release_rows
from privest.workflow.spec import Model, Privacy, Spec

ROWS = 40
POINTS = [
    (LeavingRows, "column", "before"), (LeavingRows, "column", "after"),
    (Book, "require_newest", "after"), (Book, "look_up", "after"),  # S0, S1
    (Book, "require_budget", "after"), (vault.RoundedNormal, "drawn", "after"),  # S2, S3
    (Book, "append", "before"), (Book, "append", "after"),  # S4
    (Book, "advance", "before"), (Book, "advance", "after"),  # S5
    (mark.MarkFile, "advance", "before"), (mark.MarkFile, "advance", "after"),
    (os, "fsync", "before"), (os, "fsync", "after"), (Book, "numbers", "before"),  # S6
    (vault, "leave", "after"), (LeavingRows, "write", "before"), (LeavingRows, "write", "after"),
    (Draft, "settle", "before"), (Draft, "settle", "after"), (rows_door, "members_of", "after"),
    (vault, "seal", "before"), (vault, "seal", "after"),  # P1
    (door, "write_whole", "before"), (os, "replace", "before"), (os, "replace", "after"),  # P2
    (vault, "publish", "after"), (Draft, "publish", "before"), (Draft, "publish", "after"),
]  # fmt: skip
LEAST_ENDED = 27  # of 29 points: else nothing is tested


def begin(folder):
    begin_ledger(folder)
    lines = [f"{20 + i},{(i * 7) % 11}" for i in range(ROWS)]
    (folder / "people.csv").write_text("\n".join(["age,y", *lines]) + "\n")


def release(folder):
    model = Model(target=("y",), features=("age",))
    privacy = Privacy(level=2.0, delta=1e-6, range={"y": (0.0, 10.0)}, form="rows")
    plan = stated_plan(Spec(str(folder / "people.csv"), model, privacy))
    with opened(folder) as book:
        release_rows(plan, folder / "z.csv", book, "people")


def state(folder):
    """What is on disk: released integers, table and header, what was spent, parts of files."""
    with opened(folder) as book:
        book.check()
        entries = [e for e in book.entries("people") if e.body["kind"] == "release"]
        left = [book.numbers(entry.seq).tolist() for entry in entries]
        spent = book.spent("people").peak.amounts
    files = [folder / name for name in ("z.csv", "z.csv.json")]
    shown = [path.read_bytes() if path.exists() else None for path in files]
    parts = [p.name for p in folder.iterdir() if ".part" in p.name]
    return left, shown, spent, parts


def fault_of(folder, shown_before=(None, None), left_before=()):
    """What is wrong with a release that is finished; "" if nothing is."""
    left, (table, header), spent, parts = state(folder)
    # A header's part has a name of its own and is public: a killed run may leave it.
    if len(left) != 1 or table is None or header is None or ".z.csv.part" in parts:
        return f"{len(left)} entries, parts {parts}, or a file is not there"
    if left_before and left != left_before:
        return "integers were drawn again"
    if any(old is not None and old != new for old, new in zip(shown_before, (table, header))):
        return "a file changed"
    z = [int(line.rsplit(b",", 1)[1]) for line in table.splitlines()[1:]]
    if z != left[0]:
        return "the table has other integers than the ledger"
    with opened(folder) as book:
        if not vault.verify(header, book, table=table).charged:
            return "the header is not verified"
        charged = book.entries("people")[-1].body["cost"]["information"]
    return "" if float(spent["information"]) == float(charged) else "charged more than once"


def killed(folder, point, time):
    """What is wrong after a kill at a point; None where it was not reached."""
    begin(folder)

    def work():
        end_at(point, time)
        release(folder)

    status = child(work)
    if status == 0:
        return None
    if status != 9:
        return f"{point} {time}: the run failed"
    left, shown, _, _ = state(folder)
    if shown[0] is not None and shown[1] is None:
        return f"{point} {time}: a table without its header"
    for run in ("second", "third"):
        if child(lambda: release(folder)):
            return f"{point} {time}: the {run} run failed"
        fault = fault_of(folder, shown, left)
        if fault:
            return f"{point} {time}, {run} run: {fault}"
        left, shown, _, _ = state(folder)
    return ""


def kills(folder, times):
    faults, ended = [], 0
    for place, point in enumerate(POINTS):
        for time in range(1, times + 1):
            found = killed(folder / f"{place}-{time}", point, time)
            ended += found is not None
            faults += [found] if found else []
    if ended < LEAST_ENDED:
        faults.append(f"only {ended} runs were killed")
    return faults


def patient(folder):
    """A release, once no other process is at it."""
    while True:
        try:
            return release(folder)
        except InvalidInput as error:
            if "written by another process" not in str(error):
                raise


def races(folder, rounds):
    """Six processes make one release at once: one entry, one table and one header."""
    faults = []
    for k in range(rounds):
        place = folder / f"race-{k}"
        begin(place)
        gate, start = os.pipe()
        numbers = []
        for _ in range(6):
            number = os.fork()
            if number == 0:
                os.close(start)
                os.read(gate, 1)  # until the parent closes it
                try:
                    patient(place)
                except BaseException as error:
                    print(repr(error), file=sys.stderr)
                    os._exit(1)
                os._exit(0)
            numbers.append(number)
        os.close(gate)
        os.close(start)
        statuses = [os.waitpid(number, 0)[1] for number in numbers]
        fault = "a run failed" if any(statuses) else fault_of(place)
        faults += [f"round {k}: {fault}"] if fault else []
    return faults


if __name__ == "__main__":
    task, place, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    print(json.dumps({"kills": kills, "races": races}[task](place, count)))
