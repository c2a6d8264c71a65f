"""What a stream says at its end, for people: the estimate, its errors, and what is known of a
reading.
"""

from __future__ import annotations

import math

import numpy as np
from rich.console import Console

import privest as pv
from privest.cli._console import new_table, shown
from privest.dynamics import AutoregressiveFit
from privest.estimator._stream_conclusion import StreamConclusion
from privest.streaming import known_after


def of_autoregressive(fit: AutoregressiveFit) -> StreamConclusion:
    """The conclusion where the noise was fitted as one that remembers."""
    return StreamConclusion(
        names=fit.names, estimate=fit.estimate, stated_error=fit.standard_error,
        stated_by="of the AR(1) model", by_blocks=fit.by_blocks, floor=None,
        noise_variance=fit.noise_variance,
    )  # fmt: skip


def print_conclusion(report: Console, found: StreamConclusion) -> None:
    """The estimate with both kinds of errors and its intervals, and what is to be said of them."""
    blocks = found.by_blocks
    title = "Estimate from the releases"
    if blocks is not None:
        title += f"; intervals {blocks.method}"
    table = new_table(title, "parameter", "estimate", "error", "by blocks", "df", "95 % interval")
    errors = np.full(len(found.names), np.nan) if found.stated_error is None else found.stated_error
    own = np.full((2, len(found.names)), np.nan)
    if blocks is not None:
        own = np.array([blocks.standard_error, blocks.degrees_of_freedom])
    rows = zip(found.names, found.estimate, errors, *own, found.interval())
    for name, value, error, block, freedom, (low, high) in rows:
        interval = "none" if math.isnan(low) else f"{low:.4g} … {high:.4g}"
        table.add_row(
            shown(name), f"{value:.5g}", _or_none(error, ".3g"), _or_none(block, ".3g"),
            _or_none(freedom, ".1f"), interval,
        )  # fmt: skip
    report.print(table)
    if found.stated_error is not None:
        report.print(shown(f"The column `error` is {found.stated_by}."))
    for sentence in found.warnings:
        report.print(shown(sentence), style="yellow")


def _or_none(value: float, form: str) -> str:
    return "none" if math.isnan(value) else format(value, form)


def print_fit(report: Console, fit: AutoregressiveFit) -> None:
    """What the noise was found to remember."""
    said = f"Noise: variance {fit.noise_variance:.4g}"
    if fit.remembers:
        said += f", correlation {fit.correlation:.3g} from one reading to the next"
    else:
        said += "; that a reading remembers the one before is no more than chance here"
    report.print(shown(said + " (fitted to the releases: no privacy is spent by it)."))


def print_exposure(
    report: Console, level: pv.EndlessLevel, correlation: float | None, variance: float | None
) -> None:
    """How well a reading is known after the release, alone and with its neighbours in time."""
    for sentence in known_after(level, correlation, variance):
        report.print(shown(sentence))
