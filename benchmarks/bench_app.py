"""A slider move in the app, from the request to its answer, with a plan of a million rows.

Promised: numbers and pictures within 200 ms. Against making the plan again at the
new level, from a frame in memory: what a move would cost if sums of the features were not kept.
"""

import itertools
import tempfile

import numpy as np
from starlette.testclient import TestClient

from benchmarks.timing import compare, report
from privest.app import Desk, make_app
from privest.app.tables import Table
from privest.workflow import Model, Privacy, Public, Spec, make_plan

ROWS = 1_000_000
NAMES = ("age", "bmi", "bp", "hdl")
HOST = "127.0.0.1:8800"
MOST_MS = 200


def _frame():
    rng = np.random.default_rng(0)
    columns = rng.normal([50, 27, 120, 55], [15, 4, 20, 12], (ROWS, 4)).T
    return dict(zip(NAMES, columns)) | {"ldl": np.zeros(ROWS)}


def _spec(epsilon):
    privacy = Privacy(epsilon=epsilon, delta=1e-6, range={"ldl": (20.0, 400.0)})
    return Spec("people.csv", Model("ldl", NAMES), privacy, Public(900.0))


def rows():
    frame = _frame()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(folder)
        desk.hosts = frozenset({HOST})
        work = desk.begin()
        work.table, work.spec = Table("people.csv"), _spec(1.0)
        work.plan = make_plan(work.spec, frame)
        with TestClient(make_app(desk), base_url=f"http://{HOST}") as browser:
            browser.get("/", params={"token": desk.new_token()})
            asked = itertools.cycle(f"{1 + k / 100:g}" for k in range(1, 300, 7))

            def moved():
                place = f"/{desk.key}/work/{work.id}/privacy/numbers"
                own = {"origin": f"http://{HOST}", "hx-request": "true"}
                fields = {"epsilon": next(asked), "csrf": desk.csrf}
                found = browser.post(place, data=fields, headers=own)
                assert found.status_code == 200
                return found

            yield compare(
                f"app: a slider move, {ROWS:,} rows",
                moved,
                "the plan made again, from a frame",
                lambda: make_plan(_spec(2.0), frame),
                limit_us=1000 * MOST_MS,
                items=1,
                again=9,
                repeats=5,
            )
        desk.close()


if __name__ == "__main__":
    report(rows())
