"""A slider move in the app, from the request to its answer, with a plan of a million rows.

Promised: numbers and charts within 100 ms. Against making the plan again at the new ε, from a frame
in memory: what a move would cost if sums of the features were not kept.
"""

import itertools
import tempfile

import numpy as np
from starlette.testclient import TestClient

import privest as pv
from benchmarks.timing import compare, report
from privest.app import Desk, make_app

ROWS = 1_000_000
NAMES = ("age", "bmi", "bp", "hdl")
HOST = "127.0.0.1:8800"
MOST_MS = 100


def _frame():
    rng = np.random.default_rng(0)
    columns = rng.normal([50, 27, 120, 55], [15, 4, 20, 12], (ROWS, 4)).T
    return dict(zip(NAMES, columns)) | {"ldl": np.zeros(ROWS)}


def _plan(frame, epsilon):
    return pv.plan(
        frame, target="ldl", features=NAMES, epsilon=epsilon, delta=1e-6, range=(20.0, 400.0),
        residual_variance=900.0,
    )  # fmt: skip


def rows():
    frame = _frame()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(folder)
        desk.hosts = frozenset({HOST})
        work = desk.begin()
        plan = _plan(frame, 1.0)
        work.restate(plan)
        with TestClient(make_app(desk), base_url=f"http://{HOST}") as browser:
            browser.get("/", params={"token": desk.new_token()})
            moves = itertools.cycle(np.geomspace(0.2, 20, 200).round(3).tolist())

            def moved():
                found = browser.post(
                    f"/{desk.key}/work/{work.id}/privacy/numbers",
                    data={"csrf": desk.csrf, "model": work.models, "epsilon": next(moves)},
                    headers={"origin": f"http://{HOST}", "hx-request": "true"},
                )
                assert found.status_code == 200
                return found

            yield compare(
                f"app: a slider move, {ROWS:,} rows",
                moved,
                "the plan made again, from a frame",
                lambda: _plan(frame, 2.0),
                limit_us=1000 * MOST_MS,
                items=1,
                again=9,
                repeats=5,
            )
        desk.close()


if __name__ == "__main__":
    report(rows())
