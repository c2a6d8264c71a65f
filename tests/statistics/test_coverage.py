"""Every interval that is printed by default covers what it says: real-tables.md, topic by topic.

400 trials a case: a coverage of .95 has the Monte Carlo error .011. A verdict of "NO" is an
interval that is further than three of them from where it should be (`Covered.verdict`).
`python -m benchmarks.coverage` prints the table, with 1000 trials.
"""

import pytest
from benchmarks.coverage import chosen, coverage_table
from benchmarks.coverage.cases import CASES

TRIALS = 400
TOPICS = sorted({case.topic.split()[0] for case in CASES}, key=int)


@pytest.mark.slow
@pytest.mark.parametrize("topic", TOPICS)
def test_coverage(topic):
    found = coverage_table(chosen(CASES, [topic]), trials=TRIALS)
    wrong = [f"{r.case}, {r.of}: {r.coverage:.3f} ± {r.error:.3f}" for r in found]
    assert not [line for line, row in zip(wrong, found) if row.verdict == "NO"]
