"""What a stream did, and what it shows of a reading, in sentences for a terminal."""

from __future__ import annotations

import math

import numpy as np

import privest as pv
from privest.arrays import plural
from privest.dynamics._autoregressive import autoregressive_system
from privest.errors import NumericalFailure
from privest.privacy import attacker
from privest.streaming._holder import Holder
from privest.streaming._job import Job
from privest.streaming._receiver import Receiver

DAY = 24  # readings in a row, of which the mean is told


def counts_of(job: Job, *, stopped: bool) -> str:
    """How many rows there were, and what became of them."""
    side, gone = job.side, "without a reading"
    if job.width > 1:
        gone = f"in steps of {job.width} with a missing reading, which show nothing"
    repeated = side.repeated if isinstance(side, Receiver) else 0
    resent = side.resent if isinstance(side, Holder) else 0
    parts = {
        plural(job.used, "row"): True,
        f"{job.missing:,} of them {gone}": job.missing,
        f"{job.unfinished:,} more of a step that is not complete, not used": job.unfinished,
        f"{repeated:,} repeated releases left out": repeated,
        f"{plural(resent, 'step')} sent again as they were (readings are not compared)": resent,
        "resumed": job.resumed,
        "stopped" + ("" if job.kept is None else "; the same command goes on"): stopped,
    }
    return "; ".join(part for part, there in parts.items() if there) + "."


def known_after(
    level: pv.EndlessLevel, correlation: float | None = None, variance: float | None = None
) -> list[str]:
    """How well a reading is known after the release, alone and with its neighbours in time."""
    shown_of_one = float(np.max(level.final_blocks().diagonal()))
    if not shown_of_one > 0:
        return []
    said = [_alone(level, shown_of_one)]
    if correlation is None or not variance:
        return said
    error = _with_neighbours(level, correlation, variance)
    if error is not None:
        spread = math.sqrt(variance)
        said.append(
            f"Neighbours in time tell more: one who knows the coefficients and that readings "
            f"have variance {variance:.3g} and correlation {correlation:.3g} about them knows "
            f"a reading to ± {spread:.3g} before the release and to ± {error:.3g} after it, as "
            f"if the privacy level were {attacker.as_if_level(error, spread):.3g}."
        )
    return said


def _alone(level: pv.EndlessLevel, shown_of_one: float) -> str:
    said = (
        f"After the release a reading is known to ± {attacker.reading_error(shown_of_one):.3g} "
        "(one standard deviation) by one who knows nothing else of it"
    )
    if level.block > 1:
        error = 1 / math.sqrt(float(level.final_blocks().dense().sum()))
        return f"{said}, and the mean of the {level.block} to ± {error:.3g}."
    if level.reach:
        return f"{said}."
    error = attacker.reading_error(shown_of_one) / math.sqrt(DAY)
    return (
        f"{said}, the mean of {DAY} in a row to ± {error:.3g} (--shared-day {DAY} hides it better)."
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
