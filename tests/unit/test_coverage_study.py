"""The table of coverage: what it counts, and how it is written. Its figures are in
statistics/test_coverage.py.
"""

import csv
import json
import sqlite3

import benchmarks.coverage.__main__ as command
import numpy as np
import pytest
from benchmarks import coverage as cover
from benchmarks.coverage import Case, Covered, chosen, coverage_table
from benchmarks.coverage.cases import CASES
from benchmarks.coverage.kept import Kept

from montecarlo_tasks import normal, pair
from privest.errors import InvalidInput
from privest.paper._engine import CHUNK, Task, monte_carlo, trials_of


def covered(coverage, error=0.01, expected=(0.93, 0.97)):
    return Covered("1", "a", "x", "t", coverage, error, 0.0, 100, "", expected)


@pytest.mark.parametrize(
    ("coverage", "verdict"),
    [(0.95, "yes"), (0.93, "yes"), (0.91, "by chance"), (0.89, "NO"), (0.99, "by chance")],
)
def test_verdicts(coverage, verdict):
    assert covered(coverage).verdict == verdict
    assert covered(coverage).to_dict()["verdict"] == verdict


def hits(rng, trials):
    made = np.ones((trials, 2))
    made[0, 0] = 0.0
    made[: trials // 2, 1] = np.nan
    return made


def test_trials_without_an_interval_are_told_and_not_counted():
    case = Case("1 one", "a", hits, ("x", "y"), "t", "")
    one, other = coverage_table([case], trials=50)
    assert (one.coverage, one.refused) == (0.98, 0.0)
    assert (other.coverage, other.refused) == (1.0, 0.5)
    assert 0 < other.error < 0.06  # no certainty from 25 trials


def warned_hits(rng, trials):
    made = np.ones((trials, 1))
    made[:10] = cover.WARNED  # missed, and said
    made[10] = 0.0
    return made


def test_a_warning_counts_in_the_trials_that_miss():
    (one,) = coverage_table([Case("1 one", "a", warned_hits, ("x",), "t", "")], trials=50)
    assert (one.coverage, one.warned) == pytest.approx((0.78, 10 / 11))
    assert (
        Covered("1", "a", "x", "t", 0.5, 0.01, 0.0, 9, "", (0.93, 0.97), 0.96).verdict == "warned"
    )


def test_every_interval_must_have_a_name():
    with pytest.raises(InvalidInput, match="3 intervals"):
        coverage_table([Case("1 one", "a", pair, ("x", "y", "z"), "t", "")], trials=2)


def test_topics():
    assert {case.topic.split()[0] for case in CASES} == set("1234568") | {"9", "10", "11"}
    assert {case.topic.split()[0] for case in chosen(CASES, ["2", "3"])} == {"2", "3"}
    assert len({case.key for case in CASES}) == len(CASES)
    with pytest.raises(InvalidInput, match="no topic 77"):
        chosen(CASES, ["77"])


def test_the_command(tmp_path, capsys):
    command.coverage(
        topics=["3"], trials=4, workers=1, data=tmp_path / "c.json", table=tmp_path / "c.csv"
    )
    shown = capsys.readouterr().out
    assert "4 intervals" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "exact F" in shown
    records = json.loads((tmp_path / "c.json").read_text())
    assert [record["trials"] for record in records] == [4] * 4
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    assert cover.TRIALS >= 1000


# --- finished work, kept --------------------------------------------------------------------------


def tasks():
    return [Task(f"scale {s}", normal, {"scale": s}) for s in (1.0, 2.0, 5.0)]


def run(tasks, *, trials, seed, chunk=CHUNK, kept=None, progress=None):
    if kept is None:
        return monte_carlo(tasks, trials=trials, seed=seed, chunk=chunk, progress=progress)
    with Kept(kept, seed, chunk) as store:
        return monte_carlo(
            tasks, trials=trials, seed=seed, chunk=chunk, store=store, progress=progress
        )


def test_rows_of_numbers_are_kept(tmp_path):
    task = Task("pair", pair)
    whole = trials_of([task], trials=50, seed=1, chunk=20)["pair"]
    for _ in range(2):
        with Kept(tmp_path / "run.sqlite", 1, 20) as store:
            again = trials_of([task], trials=50, seed=1, chunk=20, store=store)["pair"]
        assert np.array_equal(again, whole)


def test_a_stopped_run_goes_on(tmp_path):
    kept = tmp_path / "deep" / "run.sqlite"
    whole = run(tasks(), trials=400, seed=1, chunk=100)
    done = []

    def stop(count, total):
        done.append((count, total))
        if count == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tasks(), trials=400, seed=1, chunk=100, kept=kept, progress=stop)
    assert done[-1] == (5, 12)
    after = []
    found = run(
        tasks(), trials=400, seed=1, chunk=100, kept=kept, progress=lambda *a: after.append(a)
    )
    assert found == whole
    assert after[0] == (5, 12)  # nothing was done twice
    assert after[-1] == (12, 12)
    # more trials later: the chunks that exist are used
    more = run(tasks(), trials=600, seed=1, chunk=100, kept=kept)
    assert more == run(tasks(), trials=600, seed=1, chunk=100)


def test_a_shorter_last_chunk_is_done_again(tmp_path):
    # 150 trials leave a chunk of 50 in the file: not the one that 200 trials need.
    kept = tmp_path / "run.sqlite"
    run(tasks(), trials=150, seed=1, chunk=100, kept=kept)
    done = []
    found = run(
        tasks(), trials=200, seed=1, chunk=100, kept=kept, progress=lambda *a: done.append(a)
    )
    assert done[0] == (3, 6)
    assert all(summary.trials == 200 for summary in found.values())
    assert found == run(tasks(), trials=200, seed=1, chunk=100)


def test_a_file_belongs_to_one_run(tmp_path):
    kept = tmp_path / "run.sqlite"
    run(tasks(), trials=100, seed=1, kept=kept)
    with pytest.raises(InvalidInput, match=r"seed 1.*seed 2"):
        run(tasks(), trials=100, seed=2, kept=kept)
    again = run(tasks(), trials=100, seed=1, kept=kept)  # not ruined by the refusal
    assert again == run(tasks(), trials=100, seed=1)
    other = [Task("scale 1.0", normal, {"scale": 3.0})]  # the same key, other work
    assert run(other, trials=100, seed=1, kept=kept) == run(other, trials=100, seed=1)
    with pytest.raises(InvalidInput, match="is a folder"):
        run(tasks(), trials=100, seed=1, kept=tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("hello" * 1000)
    with pytest.raises(InvalidInput, match="does not hold an experiment"):
        run(tasks(), trials=100, seed=1, kept=text)
    assert sqlite3.connect(kept).execute("select count(*) from units").fetchone() == (4,)
