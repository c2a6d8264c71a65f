"""All cases of coverage, in the order of the table."""

from __future__ import annotations

from benchmarks.coverage import Case
from benchmarks.coverage.families import CASES as FAMILIES
from benchmarks.coverage.rows import CASES as ROWS
from benchmarks.coverage.scale import CASES as SCALE
from benchmarks.coverage.wrong import CASES as WRONG

CASES: tuple[Case, ...] = tuple(
    sorted(
        [*ROWS, *SCALE, *FAMILIES, *WRONG],
        key=lambda case: int(case.topic.split()[0]),
    )
)
