"""Kills and races at the door of the vault: killed_vault.py kills|races FOLDER COUNT.

A child is forked, and ends at once at one step of two releases and their document. Whatever is on
disk then, a second run ends with one entry each, the integers that were fixed, and one document.
Prints as JSON what was wrong: [] is right.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

from privest import vault
from privest.vault import door, maps, mark
from privest.vault.cost import Budget
from privest.vault.ledger import Book

Y = np.array([1.5, 80.0, -3.0, 44.25])
SOURCE = {"table": "stamp 1", "column": "y"}
RANGE = vault.Range(0, 400, -2)
LAW = vault.RoundedNormal((2**20,))
SUMS = vault.Sums([[900, 1], [1000, -30], [7, 7], [512, 64]], norm2=2**21)
SQUARES = vault.Squares(np.full((4, 1), 3), np.full(4, 200), SUMS)
PROMISE = {"epsilon": "30", "delta": "1e-6", "neighbours": {"kind": "one value"}}
# Where a run may end: (object, function, before or after it). S0 to P2 of the blueprint.
POINTS = [
    (Book, "require_newest", "before"), (Book, "require_newest", "after"),  # S0
    (Book, "look_up", "after"),  # S1
    (Book, "require_budget", "after"),  # S2
    (vault.RoundedNormal, "drawn", "after"), (maps.np, "ldexp", "before"),  # S3
    (Book, "append", "before"), (Book, "append", "after"),  # S4
    (Book, "advance", "before"), (Book, "advance", "after"),  # S5
    (mark.MarkFile, "advance", "before"), (mark.MarkFile, "advance", "after"),
    (os, "fsync", "before"), (os, "fsync", "after"), (os, "write", "before"),
    (Book, "numbers", "before"), (door, "left", "after"),  # S6
    (vault, "seal", "before"), (vault, "seal", "after"),  # P1
    (door, "write_whole", "before"), (os, "replace", "before"), (os, "replace", "after"),  # P2
    (door, "write_whole", "after"),
]  # fmt: skip
LEAST_ENDED = 18  # of 23 points, for each of the first two times: else nothing is tested


def opened(folder):
    return vault.Book(folder / "ledger.db", marks=folder / "marks")


def begin(folder):
    folder.mkdir(parents=True)
    with opened(folder) as book:
        with book.writing():
            book.set_budget("people", Budget({}))
        book.advance()


def release(folder):
    """Sums, squares, and the document of both; what they left."""
    private = vault.sealed(Y, source=SOURCE)
    with opened(folder) as book:
        more = {"range": RANGE, "book": book, "subject": "people", "asked": "a5"}
        reserve = vault.cost_of(SUMS.facts, LAW, RANGE)
        sums = vault.leave(private, map=SUMS, law=LAW, line="sums", reserve=reserve, **more)
        law = vault.RoundedNormal((2**30,))
        squares = vault.leave(private, map=SQUARES, law=law, line="squares", after=sums.seq, **more)
        data = vault.seal(book, [sums.seq, squares.seq], {"promise": PROMISE})
        vault.publish(book, data, folder / "release.json")
    return sums.integers, squares.integers


def state(folder):
    """What is on disk: released integers by line, and the document."""
    with opened(folder) as book:
        book.check()
        bodies = [entry.body for entry in book.entries("people")]
        left = {b["line"]: tuple(book.numbers(b["seq"])) for b in bodies if b["kind"] == "release"}
        spent = book.spent("people").peak.amounts
    path = folder / "release.json"
    parts = [p.name for p in folder.iterdir() if ".part" in p.name]
    return left, path.read_bytes() if path.exists() else None, spent, parts


def end_at(point, time):
    """Replace a function so that this process ends when it is called for the `time`-th time."""
    target, name, when = point
    true = getattr(target, name)
    calls = [0]

    def ending(*args, **more):
        calls[0] += 1
        if calls[0] == time and when == "before":
            os._exit(9)
        result = true(*args, **more)
        if calls[0] == time:
            os._exit(9)
        return result

    setattr(target, name, ending)


def child(work):
    """The status of a forked process."""
    number = os.fork()
    if number == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitpid(number, 0)[1] >> 8


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
    left, document, _, _ = state(folder)
    if child(lambda: release(folder)):
        return f"{point} {time}: the second run failed"
    again, whole, spent, _ = state(folder)
    once = vault.cost_of(SUMS.facts, LAW, RANGE)
    for unit, amount in (once + once).amounts.items():
        if not amount <= spent[unit] <= amount * (1 + 1e-12):  # texts of 15 digits
            return f"{point} {time}: {unit} was charged {float(spent[unit] / amount)} times"
    if set(again) != {"sums", "squares"} or any(again[line] != left[line] for line in left):
        return f"{point} {time}: integers were drawn again"
    if document is not None and document != whole:
        return f"{point} {time}: the document changed"
    with opened(folder) as book:
        if vault.verify(whole, book).entries != (3, 4):
            return f"{point} {time}: the document is not verified"
    if child(lambda: release(folder)) or state(folder)[:3] != (again, whole, spent):
        return f"{point} {time}: a third run changed something"
    return ""


def kills(folder, times):
    faults, ended = [], 0
    for place, point in enumerate(POINTS):
        for time in range(1, times + 1):
            found = killed(folder / f"{place}-{time}", point, time)
            ended += found is not None
            faults += [found] if found else []
    if ended < LEAST_ENDED * min(times, 2):
        faults.append(f"only {ended} runs were killed")
    return faults


def races(folder, rounds):
    """Six processes make one release at once: one entry and one document each."""
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
                    release(place)
                except BaseException as error:
                    print(repr(error), file=sys.stderr)
                    os._exit(1)
                os._exit(0)
            numbers.append(number)
        os.close(gate)
        os.close(start)
        statuses = [os.waitpid(number, 0)[1] for number in numbers]
        left, document, _, parts = state(place)
        with opened(place) as book:
            if any(statuses) or book.head.seq != 4 or parts:
                faults.append(f"round {k}: {statuses}, {book.head.seq} entries, {parts}")
            elif not vault.verify(document, book).charged or len(left) != 2:
                faults.append(f"round {k}: the document is not verified")
    return faults


if __name__ == "__main__":
    task, place, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    print(json.dumps({"kills": kills, "races": races}[task](place, count)))
