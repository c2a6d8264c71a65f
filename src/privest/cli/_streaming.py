"""`privest stream`: rows in, releases or estimates out, as they come."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from privest.cli._rows import Rows
from privest.cli._stream_end import summarise
from privest.cli._stream_job import Job
from privest.cli._stream_plan import StreamPlan
from privest.data._release_lines import OWN, steps_only
from privest.data._text_table import open_lines
from privest.errors import InvalidInput


def run(plan: StreamPlan, report: Console) -> None:
    """Work through the input; a summary goes to `report` (stderr)."""
    _require_different_files(plan)
    plan.output.require_possible()  # before any noise is spent
    with ExitStack() as stack:
        lines = stack.enter_context(open_lines(plan.source, reading=plan.reading))
        received = plan.sides.from_releases
        facts: dict[str, Any] = {}
        rows = Rows(
            steps_only(lines, facts) if received and plan.json_in else lines,
            json_lines=plan.json_in,
            value="z" if received else plan.target,
            features=plan.features,
            others=[name for name in OWN if name != "z"] if received else (),
            finite=received or plan.trial.simulate,
            time=plan.time,
            reading=plan.reading,
            file=plan.source,
        )
        if rows.empty and plan.features is None:
            report.print("The input has no rows: nothing to do.")
            return
        job = Job(plan, rows.features, stack, rows.times, facts)
        stopped = False
        try:
            job.work(rows, report)
        except KeyboardInterrupt:
            stopped = True
        summarise(job, report, stopped)
        if stopped:
            sys.exit(130)


def _require_different_files(plan: StreamPlan) -> None:
    """Input, output, checkpoint, ledger and picture: none may write over another."""
    named = {"the input": None if plan.source == "-" else Path(plan.source)}
    named |= {"--output": plan.output.output, "--checkpoint": plan.checkpoint}
    named |= {"--png": plan.output.png, "--ledger": plan.account.ledger}
    named |= {"--reference": plan.reference}
    seen: dict[Path, str] = {}
    for name, path in named.items():
        if path is None or str(path) == os.devnull:
            continue
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise InvalidInput(f"{other} and {name} are the same file: {path}.")
