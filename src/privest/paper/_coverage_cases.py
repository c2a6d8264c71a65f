"""All cases of coverage, in the order of the table."""

from __future__ import annotations

from privest.paper._coverage_families import CASES as FAMILIES
from privest.paper._coverage_people import CASES as PEOPLE
from privest.paper._coverage_rows import CASES as ROWS
from privest.paper._coverage_scale import CASES as SCALE
from privest.paper._coverage_streams import CASES as STREAMS
from privest.paper._coverage_wrong import CASES as WRONG
from privest.paper.coverage import Case

CASES: tuple[Case, ...] = tuple(
    sorted(
        [*ROWS, *PEOPLE, *SCALE, *STREAMS, *FAMILIES, *WRONG],
        key=lambda case: int(case.topic.split()[0]),
    )
)
