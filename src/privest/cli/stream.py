"""`privest stream`: measurements in, releases or estimates out, as they come."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console

from privest.arrays import plural
from privest.cli import stream_options as streams
from privest.cli.console import new_table, note, shown, tell_epsilon, tell_file, to_stderr
from privest.cli.options import (
    KNOWN,
    MODEL,
    as_range,
    command,
    format_of,
    group,
    listed,
)
from privest.errors import InvalidInput
from privest.report.figures import save_convergence
from privest.streaming import (
    CLIPPED,
    NOT_RECORDED,
    Owner,
    Rows,
    StreamPlan,
    StreamRun,
    counts_of,
    hidden_names,
    known_after,
    opened_rows,
    promised,
)

FileKind = Literal["csv", "jsonl"]
RUNNING = "Start and restart"


@group(MODEL)
class Columns:
    """Which columns are what.

    intercept  Add a constant to the features.
    time NAME  Public column of times or dates, written with what is released. Left out, and
               --features too: a column of dates is taken for it.
    """

    target: str = "y"
    features: str | None = None
    intercept: bool = False
    time: str | None = None


@group(
    RUNNING,
    replay={"names": ("--replay/--continue",)},
    known={"min": 0, "max": 10**9},
    block={"min": 1, "max": 10**9},
)
class Restart:
    """What lets a stream last longer than a process.

    checkpoint FILE  File in which the stream is saved after every block; the same command then
                     goes on. It is as sensitive as the measurements.
    replay           After a restart the input begins again (default for files) or continues with
                     new measurements. Standard input with a checkpoint must state which.
    known STEP       Last step that the analyst has. Up to it nothing is drawn again, also where
                     the checkpoint or the ledger are from a backup.
    block N          Rows per block: one line of estimates, one save.
    """

    checkpoint: Path | None = None
    replay: bool | None = None
    known: int | None = None
    block: int = 1


@group(KNOWN, correlation={"min": -1, "max": 1})
class Public:
    """The residual variance and the autocorrelation of the measurements.

    correlation R  Correlation of a measurement with the one before, given the features: for the
                   exposure by neighbours in time. Needs --residual-variance.
    """

    residual_variance: float | None = None
    correlation: float | None = None


@command()
def stream(
    source: Annotated[
        str, typer.Argument(help="CSV or JSON lines; a minus reads standard input.", metavar="FILE")
    ],
    privacy: streams.ScalarPrivacy,
    sides: streams.Sides,
    columns: Columns,
    output: streams.Output,
    restart: Restart,
    trial: streams.Trial,
    account: streams.Account,
    public: Public,
    range: str | None = None,
    lags: str = "",
    format: list[str] | None = None,
    input_format: FileKind | None = None,
    output_format: FileKind | None = None,
) -> None:
    """Release measurements as they come, and estimate θ from the releases alone.

    Each row is one measurement y_k (column --target) and its public features h_k, with
    y_k = h_kθ + w_k: the columns --features, or all others. --emit releases writes the features
    too. An empty measurement is a step that reveals nothing. No value is rejected; one beyond
    --range is clipped. ε is for the whole, endless stream. Intervals are by blocks of time, which
    hold for autocorrelated measurements. --simulate is a dry run.

    Examples:

    privest stream meter.csv --target load --level 4 --residual-variance 0.0625 --intercept

    sensor | privest stream - --level 1 --emit releases --output z.jsonl --checkpoint s --continue

    privest stream z.jsonl --from releases --level 1 --residual-variance 0.25 --intercept

    Options:
    input_format   Kind of FILE. Left out: by its ending, else csv.
    output_format  Kind of output. Left out: by its ending, else that of the input.
    """
    _require_sense(sides, output, restart, trial, public)
    account.require_sense(trial, real=not sides.from_releases)
    weights, ends = streams.as_weights(lags), as_range(range)
    promise = promised(privacy, ends, weights)
    json_in = _is_json(input_format, source, otherwise=False)
    plan = StreamPlan(
        source=source,
        target=columns.target,
        features=None if columns.features is None else listed(columns.features),
        level=promise.level,
        variance=None if sides.to_releases else public.residual_variance,
        intercept=columns.intercept,
        sides=sides,
        json_in=json_in,
        json_out=_is_json(output_format, str(output.output or ""), otherwise=json_in),
        output=output,
        block=restart.block,
        checkpoint=restart.checkpoint,
        replay=True if restart.replay is None and source != "-" else restart.replay,
        trial=trial,
        account=account,
        known=restart.known,
        sensitivity=promise.sensitivity,
        span=ends,
        spent=promise.spent,
        said=promise.said,
        time=columns.time,
        format=format_of(format),
        correlation=public.correlation,
        stated=public.residual_variance,
        drawn=output.png is not None,
    )
    run(plan, to_stderr())


def _require_sense(
    sides: streams.Sides,
    output: streams.Output,
    restart: Restart,
    trial: streams.Trial,
    public: Public,
) -> None:
    """Refuse options that cannot go together, or need another."""
    variance, real = public.residual_variance, not (trial.simulate or sides.from_releases)
    refused = {
        "--from releases --emit releases: there is nothing to do.": (
            sides.from_releases and sides.to_releases
        ),
        "--png draws estimates: leave out --emit releases.": (
            output.png is not None and sides.to_releases
        ),
        "--correlation is between -1 and 1, and needs --residual-variance.": (
            public.correlation is not None and (variance is None or abs(public.correlation) >= 1)
        ),
        "--simulate goes with measurements, not with --from releases.": (
            sides.from_releases and trial.simulate
        ),
        "--known is for real releases: a simulation may be drawn again.": (
            restart.known is not None and not real
        ),
    }
    for sentence, is_refused in refused.items():
        if is_refused:
            raise InvalidInput(sentence)


def _is_json(wanted: FileKind | None, path: str, *, otherwise: bool) -> bool:
    if wanted is not None:
        return wanted == "jsonl"
    ending = Path(path).suffix.lower()
    return otherwise if ending not in (".jsonl", ".ndjson", ".csv") else ending != ".csv"


# --- the work -------------------------------------------------------------------------------------


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
        _summarise(job, report, stopped)
        if stopped:
            sys.exit(130)


def _work(job: StreamRun, rows: Rows, report: Console) -> None:
    """All blocks of the input, with a line that moves on a terminal."""
    job.take_up(rows)
    with report.status("reading ...") if report.is_terminal else ExitStack() as status:
        while job.next_block():
            if not isinstance(status, ExitStack):
                status.update(plural(job.used, "row"))


def _summarise(job: StreamRun, report: Console, stopped: bool) -> None:
    """A summary: rows, the last estimate, and what the releases reveal of a measurement."""
    side, plan = job.side, job.plan
    note(counts_of(job, stopped=stopped))
    if isinstance(side, Owner) and side.retired:
        note(
            f"{side.retired:,} steps were sent before and cannot be recovered: they are retired, "
            "that is, marked missing and never redrawn."
        )
    tell_epsilon(plan.spent, plan.said, simulated=job.grid == 0.0)
    if job.grid and not job.recorded:
        note(NOT_RECORDED)
    if job.estimator is not None:
        _print_estimate(job, report)
    if job.used:
        note(*known_after(plan.level, plan.correlation, plan.stated))
    if job.estimator is not None and job.clipped:
        note(CLIPPED)
    if plan.output.png is not None and job.trail.points:
        save_convergence(job.trail, job.names, plan.output.png)
        tell_file("Figure", plan.output.png)


def _print_estimate(job: StreamRun, report: Console) -> None:
    """The last estimate with both kinds of errors and its intervals."""
    assert job.estimator is not None
    found = job.concluded()
    if found is None:
        note(f"Not yet identifiable: {', '.join(hidden_names(job.estimator, job.names))}.")
        return
    blocks, count = found.by_blocks, len(found.names)
    title = "Estimate from the releases"
    if blocks is not None:
        title += f"; intervals {blocks.method}"
    table = new_table(title, "parameter", "estimate", "s.e.", "by blocks", "df", "95% interval")
    errors = np.full(count, np.nan) if found.stated_error is None else found.stated_error
    own = np.full((2, count), np.nan)
    if blocks is not None:
        own = np.array([blocks.standard_error, blocks.degrees_of_freedom])
    rows = zip(found.names, found.value, errors, *own, found.interval())
    for name, value, error, block, freedom, (low, high) in rows:
        table.add_row(
            shown(name), f"{value:.5g}", _or_none(error, ".3g"), _or_none(block, ".3g"),
            _or_none(freedom, ".1f"), "none" if math.isnan(low) else f"{low:.4g} to {high:.4g}",
        )  # fmt: skip
    report.print(table)
    if found.stated_error is not None:
        note(f"The column s.e. is {found.stated_by}.")
    for sentence in found.warnings:
        report.print(shown(sentence), style="yellow")


def _or_none(value: float, form: str) -> str:
    return "none" if math.isnan(value) else format(value, form)
