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
from privest.dynamics._autoregressive import autoregressive_system
from privest.errors import NumericalFailure
from privest.estimator._stream_conclusion import StreamConclusion
from privest.privacy import attacker

DAY = 24  # readings in a row, of which the mean is told


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
    title = "Huber's estimate from the releases" if found.remark else "Estimate from the releases"
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
    if found.remark:
        report.print(shown(found.remark))
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
    shown_of_one = float(np.max(level.final_blocks().diagonal()))
    if not shown_of_one > 0:
        return
    report.print(shown(_alone(level, shown_of_one)))
    if correlation is None or not variance:
        return
    error = _with_neighbours(level, correlation, variance)
    if error is not None:
        spread = math.sqrt(variance)
        report.print(
            shown(
                f"Neighbours in time tell more: one who knows the coefficients and that readings "
                f"have variance {variance:.3g} and correlation {correlation:.3g} about them knows "
                f"a reading to ± {spread:.3g} before the release and to ± {error:.3g} after it, as "
                f"if the privacy level were {attacker.as_if_level(error, spread):.3g}."
            )
        )


def _alone(level: pv.EndlessLevel, shown_of_one: float) -> str:
    said = (
        f"After the release a reading is known to ± {attacker.reading_error(shown_of_one):.3g} "
        "(one standard deviation) by one who knows nothing else of it"
    )
    if level.block > 1:
        of_mean = float(level.final_blocks().dense().sum())
        return f"{said}, and the mean of the {level.block} to ± {1 / math.sqrt(of_mean):.3g}."
    if level.reach:
        return said + "."
    mean = attacker.reading_error(shown_of_one) / math.sqrt(DAY)
    return (
        f"{said}, the mean of {DAY} in a row to ± {mean:.3g} (--shared-day {DAY} hides it better)."
    )


def _with_neighbours(level: pv.EndlessLevel, correlation: float, variance: float) -> float | None:
    """The error of an attacker who smooths; None where it has no limit."""
    if level.block == 1 and not level.reach:
        return attacker.neighbours_error(
            level.final_blocks().diagonal()[0], correlation, math.sqrt(variance)
        )
    system = autoregressive_system(correlation, variance, level.block)
    try:
        settled = pv.dynamics.steady_state(system, level).smoothed
    except NumericalFailure:
        return None
    return min(float(np.sqrt(settled.diagonal().min())), math.sqrt(variance))
