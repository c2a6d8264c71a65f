"""Sentences about a stream: the rows it used, and how well a measurement can be guessed."""

from __future__ import annotations

import math

import numpy as np

import privest as pv
from privest.arrays import plural
from privest.dynamics import autoregressive_system
from privest.errors import NumericalFailure
from privest.privacy import attacker
from privest.streaming._run import StreamRun
from privest.streaming._sides import Analyst, Owner

DAY = 24  # measurements in a row, of which the mean is stated


def counts_of(run: StreamRun, *, stopped: bool) -> str:
    """The number of rows, and what became of them."""
    side, gone = run.side, "without a measurement"
    if run.width > 1:
        gone = f"in steps of {run.width} with a missing measurement, which reveal nothing"
    repeated = side.repeated if isinstance(side, Analyst) else 0
    resent = side.resent if isinstance(side, Owner) else 0
    parts = {
        plural(run.used, "row"): True,
        f"{run.missing:,} of them {gone}": run.missing,
        f"{run.unfinished:,} more of a step that is not complete, not used": run.unfinished,
        f"{repeated:,} repeated releases left out": repeated,
        f"{plural(resent, 'step')} sent again as they were (measurements are not compared)": resent,
        "resumed": run.resumed,
        "stopped" + ("" if run.checkpoint is None else "; the same command goes on"): stopped,
    }
    return "; ".join(part for part, there in parts.items() if there) + "."


def known_after(
    level: pv.EndlessLevel, correlation: float | None = None, variance: float | None = None
) -> list[str]:
    """How well a measurement can be guessed, from its own release and from all steps."""
    largest = float(np.max(level.final_blocks().diagonal()))
    if not largest > 0:
        return []
    said = [_alone(level, largest)]
    error = None
    if correlation is not None and variance:
        error = _from_all_steps(level, correlation, variance)
    if error is not None and variance:
        others = 1 / error**2 - largest  # information of the other steps, and of the spread
        alone = level.block == 1 and not level.reach and others > 0
        without = f"; without its own step, {1 / math.sqrt(others):.3g}" if alone else ""
        said.append(
            f"From all steps a reader guesses one measurement with sd {error:.3g}{without}; "
            f"without the stream, {math.sqrt(variance):.3g}."
        )
    return said


def _alone(level: pv.EndlessLevel, largest: float) -> str:
    said = (
        "A guess from its own release that is unbiased for every value of a measurement has sd at "
        f"least {attacker.reading_error(largest):.3g}"
    )
    if level.block > 1:
        error = 1 / math.sqrt(float(level.final_blocks().dense().sum()))
        return f"{said}, of the mean of the {level.block} at least {error:.3g}."
    if level.reach:
        return f"{said}."
    error = attacker.reading_error(largest) / math.sqrt(DAY)
    return f"{said}, of the mean of {DAY} in a row at least {error:.3g}."


def _from_all_steps(level: pv.EndlessLevel, correlation: float, variance: float) -> float | None:
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
