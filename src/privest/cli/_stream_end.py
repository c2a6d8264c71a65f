"""The end of a stream, for people: what was done, what was found, what it shows of a reading."""

from __future__ import annotations

from rich.console import Console

from privest.cli._console import print_promise, print_spent, shown, tell_file, tell_simulated
from privest.cli._stream_summary import (
    of_autoregressive,
    print_conclusion,
    print_exposure,
    print_fit,
)
from privest.dynamics import AutoregressiveFit, fit_autoregressive
from privest.report.figures import save_convergence
from privest.streaming import (
    CLIPPED,
    NOT_RECORDED,
    Owner,
    StreamRun,
    counts_of,
    hidden_names,
)


def summarise(job: StreamRun, report: Console, stopped: bool) -> None:
    """What was done, and the last estimate."""
    side, plan = job.side, job.plan
    report.print(shown(counts_of(job, stopped=stopped)))
    if isinstance(side, Owner) and side.retired:
        report.print(
            shown(
                f"{side.retired:,} steps were sent before and cannot be recovered: they are "
                "retired, that is, marked missing and never redrawn."
            )
        )
    if job.grid == 0.0:
        print_spent(report, plan.spent)
        tell_simulated(report)
    else:
        print_promise(report, plan.said)
    if job.grid and isinstance(side, Owner) and job.checkpoint is None and side.account is None:
        report.print(shown(NOT_RECORDED))
    if job.estimator is not None:
        _print_estimate(job, report)
        if plan.span is not None or job.facts.get("range") is not None:
            report.print(shown(CLIPPED))
    elif job.used:
        print_exposure(report, plan.level, plan.correlation, plan.stated)
    if plan.output.png is not None and job.trail.points:
        save_convergence(job.trail, job.names, plan.output.png)
        tell_file("Picture", plan.output.png)


def _print_estimate(job: StreamRun, report: Console) -> None:
    """The last estimate, and what the releases show of a reading."""
    assert job.estimator is not None
    found, plan = job.concluded(), job.plan
    correlation, variance = plan.correlation, plan.stated
    if found is None:
        hidden = hidden_names(job.estimator, job.names)
        report.print(shown(f"Not yet identifiable: {', '.join(hidden)}."))
    elif plan.ar1:
        fit = _fitted(job)
        found = of_autoregressive(fit)
        print_fit(report, fit)
        if correlation is None and fit.remembers:
            correlation, variance = fit.correlation, fit.noise_variance
        job.output.write(job.estimate_line(found, heading=not job.output.begun))
    if found is not None:
        print_conclusion(report, found)
    if job.used:
        print_exposure(report, plan.level, correlation, variance)


def _fitted(job: StreamRun) -> AutoregressiveFit:
    """The fit of noise that remembers, to all releases."""
    return fit_autoregressive(job.plan.level, *job.releases.whole(), names=tuple(job.names))
