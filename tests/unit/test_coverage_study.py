"""The table of coverage: what it counts, and how it is written. Its figures are in
statistics/test_coverage.py.
"""

import csv
import json

import benchmarks.coverage.__main__ as command
import numpy as np
import pytest
from benchmarks import coverage as cover
from benchmarks.coverage import Case, Covered, chosen, coverage_table
from benchmarks.coverage.cases import CASES

from montecarlo_tasks import pair
from privest.errors import InvalidInput


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
    assert {case.topic.split()[0] for case in CASES} == set("1458") | {"9", "11"}
    assert {case.topic.split()[0] for case in chosen(CASES, ["1", "5"])} == {"1", "5"}
    assert len({case.key for case in CASES}) == len(CASES)
    with pytest.raises(InvalidInput, match="no topic 77"):
        chosen(CASES, ["77"])


def test_the_command(tmp_path, capsys):
    command.coverage(
        topics=["5"], trials=4, workers=1, data=tmp_path / "c.json", table=tmp_path / "c.csv"
    )
    shown = capsys.readouterr().out
    assert "6 intervals" in shown
    assert max(map(len, shown.splitlines())) <= 80
    records = json.loads((tmp_path / "c.json").read_text())
    assert [record["trials"] for record in records] == [4] * 6
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    assert cover.TRIALS >= 1000
