"""A slider move in the app, from the request to its answer, with a plan of a million rows.

Promised: the number within 100 ms, the pictures within 300 ms. Against making the plan again at the
new level, from a frame in memory: what a move would cost if sums of the features were not kept.
"""

import itertools
import tempfile

import numpy as np
from starlette.testclient import TestClient

from benchmarks.timing import compare, report
from privest.app import Desk, make_app
from privest.app._desk import Table
from privest.workflow import Noise, Privacy, Spec, make_plan

ROWS = 1_000_000
NAMES = ("age", "bmi", "bp", "hdl")
HOST = "127.0.0.1:8800"
MOST_MS = {"numbers": 100, "pictures": 300}
SAID = {"numbers": "the number", "pictures": "the pictures"}


def _frame():
    rng = np.random.default_rng(0)
    columns = rng.normal([50, 27, 120, 55], [15, 4, 20, 12], (ROWS, 4)).T
    return dict(zip(NAMES, columns)) | {"ldl": np.zeros(ROWS)}


def _spec(level):
    privacy = Privacy(level, delta=1e-6, range=(20.0, 400.0))
    return Spec("people.csv", "ldl", NAMES, noise=Noise(900.0), privacy=privacy)


def rows():
    frame = _frame()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(folder)
        desk.hosts = frozenset({HOST})
        work = desk.begin()
        work.table, work.spec = Table("people.csv"), _spec(1e-3)
        work.plan = make_plan(work.spec, frame)
        with TestClient(make_app(desk), base_url=f"http://{HOST}") as browser:
            browser.get("/", params={"token": desk.new_token()})
            positions = itertools.cycle(range(100, 900, 7))  # each another level: nothing is kept

            def moved(part):
                asked = {
                    "position": next(positions), "level": "0.001", "before": "0.001",
                    "apart": "38", "delta": "1e-6",
                }  # fmt: skip
                place = f"/{desk.key}/work/{work.id}/privacy/{part}"
                if part == "numbers":
                    own = {"origin": f"http://{HOST}", "hx-request": "true"}
                    found = browser.post(place, data=asked | {"csrf": desk.csrf}, headers=own)
                else:
                    found = browser.get(place, params=asked)
                assert found.status_code == 200
                return found

            for part, most in MOST_MS.items():
                yield compare(
                    f"app: a slider move, {SAID[part]}, {ROWS:,} rows",
                    lambda part=part: moved(part),
                    "the plan made again, from a frame",
                    lambda: make_plan(_spec(2e-3), frame),
                    limit_us=1000 * most,
                    items=1,
                    again=9,
                    repeats=5,
                )
        desk.close()


if __name__ == "__main__":
    report(rows())
