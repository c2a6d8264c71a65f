"""`privest stream`: measurements in, releases or estimates out, as they come."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from privest.arrays import plural
from privest.cli.console import new_table, note, shown, tell_file, to_stderr
from privest.cli.options import FILES, MODEL, command, format_of, group, listed
from privest.cli.series import ScalarPrivacy, tell_epsilon
from privest.data.lines import open_lines
from privest.report.figures import save_convergence
from privest.streaming import (
    CLIPPED,
    NOT_RECORDED,
    Choices,
    Columns,
    Owner,
    Restart,
    Rows,
    StreamPlan,
    StreamRun,
    counts_of,
    errors_of,
    hidden_names,
    known_after,
)

FileKind = Literal["csv", "jsonl"]

group(MODEL, correlation={"min": -1, "max": 1})(Columns)
group(
    "Start and restart",
    replay={"names": ("--replay/--continue",)},
    block={"min": 1, "max": 10**9},
)(Restart)


@group(FILES)
class Files:
    """How the input and the output are written.

    input_format   Kind of FILE. Left out: by its ending, else csv.
    output_format  Kind of output. Left out: by its ending, else that of the input.
    """

    format: list[str] | None = None
    input_format: FileKind | None = None
    output_format: FileKind | None = None


@command()
def stream(
    source: Annotated[
        str, typer.Argument(help="CSV or JSON lines; a minus reads standard input.", metavar="FILE")
    ],
    privacy: ScalarPrivacy,
    choices: Choices,
    columns: Columns,
    restart: Restart,
    files: Files,
) -> None:
    """Release measurements as they come, and estimate θ from the releases alone.

    Each row is one measurement y_k (column --target) and its public features h_k, with
    y_k = h_kθ + w_k: the columns --features, or all others. --emit releases writes the features
    too. An empty measurement is a step that reveals nothing. No value is rejected; one beyond
    --range is clipped. ε is for the whole, endless stream. Errors assume independent measurement
    noise: fit an autocorrelated stream with privest identify. --simulate is a dry run.

    Examples:

    privest stream meter.csv --target load --level 4 --residual-variance 0.0625 --intercept

    sensor | privest stream - --level 1 --emit releases --output z.jsonl --checkpoint s --continue

    privest stream z.jsonl --from releases --level 1 --residual-variance 0.25 --intercept
    """
    json_in = _is_json(files.input_format, source, otherwise=False)
    plan = StreamPlan(
        source,
        privacy.promise(),
        columns,
        None if columns.features is None else listed(columns.features),
        choices,
        restart,
        json_in=json_in,
        json_out=_is_json(files.output_format, str(choices.output or ""), otherwise=json_in),
        format=format_of(files.format),
    )
    run(plan, to_stderr())


def _is_json(wanted: FileKind | None, path: str, *, otherwise: bool) -> bool:
    if wanted is not None:
        return wanted == "jsonl"
    ending = Path(path).suffix.lower()
    return otherwise if ending not in (".jsonl", ".ndjson", ".csv") else ending != ".csv"


# --- the work -------------------------------------------------------------------------------------


def run(plan: StreamPlan, report: Console) -> None:
    """Work through the input; a summary goes to `report` (stderr)."""
    with ExitStack() as stack:
        rows = Rows(stack.enter_context(open_lines(plan.source, format=plan.format)), plan)
        if rows.empty and plan.features is None:
            report.print("The input has no rows: nothing to do.")
            return
        job = StreamRun(plan, rows, stack)
        stopped = False
        try:
            job.take_up()
            with report.status("reading ...") if report.is_terminal else ExitStack() as status:
                while job.next_block():
                    if not isinstance(status, ExitStack):
                        status.update(plural(job.used, "row"))
        except KeyboardInterrupt:
            stopped = True
        _summarise(job, report, stopped)
        if stopped:
            sys.exit(130)


def _summarise(job: StreamRun, report: Console, stopped: bool) -> None:
    side, plan = job.side, job.plan
    note(counts_of(job, stopped=stopped))
    if isinstance(side, Owner) and side.retired:
        note(
            f"{side.retired:,} steps were sent before and cannot be recovered: they are retired, "
            "that is, marked missing and never redrawn."
        )
    tell_epsilon(plan.promise, simulated=job.grid == 0.0)
    if job.grid and not job.recorded:
        note(NOT_RECORDED)
    if job.estimator is not None:
        _print_estimate(job, report)
    if job.used:
        columns = plan.columns
        note(*known_after(plan.promise.level, columns.correlation, columns.residual_variance))
    if job.estimator is not None and job.clipped:
        note(CLIPPED)
    if plan.choices.png is not None and job.trail.points:
        save_convergence(job.trail, job.names, plan.choices.png)
        tell_file("Figure", plan.choices.png)


def _print_estimate(job: StreamRun, report: Console) -> None:
    assert job.estimator is not None
    found = job.concluded()
    if found is None:
        note(f"Not yet identifiable: {', '.join(hidden_names(job.estimator, job.names))}.")
        return
    title = "Estimate from the releases"
    table = new_table(title, "parameter", "estimate", "s.e.", "95% interval")
    rows = zip(found.names, found.value, found.standard_error, found.interval())
    for name, value, error, (low, high) in rows:
        known = not math.isnan(error)
        size, ends = (f"{error:.3g}", f"{low:.4g} to {high:.4g}") if known else ("none", "none")
        table.add_row(shown(name), f"{value:.5g}", size, ends)
    report.print(table)
    note(errors_of(job, found))
    for sentence in job.estimator.doubts(job.shown, known=job.states_variance):
        report.print(shown(sentence), style="yellow")
