"""`privest stream`: rows in, releases or estimates out, as they come."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from rich.console import Console

from privest.arrays import plural
from privest.cli._stream_end import summarise
from privest.streaming import Rows, StreamPlan, StreamRun, opened_rows


def run(plan: StreamPlan, report: Console) -> None:
    """Work through the input; a summary goes to `report` (stderr)."""
    plan.require_different_files()
    plan.output.require_possible()  # before any noise is spent
    with ExitStack() as stack:
        rows, facts = opened_rows(plan, stack)
        if rows.empty and plan.features is None:
            report.print("The input has no rows: nothing to do.")
            return
        job = StreamRun(plan, rows.features, stack, rows.times, facts)
        stopped = False
        try:
            _work(job, rows, report)
        except KeyboardInterrupt:
            stopped = True
        summarise(job, report, stopped)
        if stopped:
            sys.exit(130)


def _work(job: StreamRun, rows: Rows, report: Console) -> None:
    """All blocks of the input, with a line that moves on a terminal."""
    job.take_up(rows)
    with report.status("reading ...") if report.is_terminal else ExitStack() as status:
        while job.next_block():
            if not isinstance(status, ExitStack):
                status.update(plural(job.used, "row"))
