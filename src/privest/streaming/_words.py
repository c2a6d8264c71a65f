"""What a stream did, and what it reveals of a measurement, in sentences for a terminal."""

from __future__ import annotations

import math

import numpy as np

import privest as pv
from privest.arrays import plural
from privest.dynamics._autoregressive import autoregressive_system
from privest.errors import NumericalFailure
from privest.privacy import reader
from privest.report import Sentence
from privest.streaming._holder import Holder
from privest.streaming._job import Job
from privest.streaming._receiver import Receiver


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
    """What a reader knows of one measurement after the release, and of neighbours in time."""
    shown_of_one = float(np.max(level.final_blocks().diagonal()))
    if not shown_of_one > 0:
        return []
    said = [Sentence("unbiased_steps", {"least": 1 / math.sqrt(shown_of_one)})]
    if level.block > 1:
        least = 1 / math.sqrt(float(level.final_blocks().dense().sum()))
        said.append(Sentence("unbiased_block", {"steps": level.block, "least": least}))
    if correlation is not None and variance:
        said += _smoothed(level, correlation, variance)
    return [one.text for one in said]


def _smoothed(level: pv.EndlessLevel, correlation: float, variance: float) -> list[Sentence]:
    """The reader who smooths: measurements of this variance and correlation about the fit."""
    sd = math.sqrt(variance)
    if level.block == 1 and not level.reach:
        shown = float(level.final_blocks().diagonal()[0])
        before, others, after = reader.stream_sds(shown, correlation, sd)
        values = {"before": before, "others": others, "after": after}
        return [Sentence("guess_stream", values)]
    after_all = _with_neighbours(level, correlation, variance)
    if after_all is None:
        return []
    return [Sentence("guess_steps", {"before": sd, "after": after_all})]


def _with_neighbours(level: pv.EndlessLevel, correlation: float, variance: float) -> float | None:
    """The error of an attacker who smooths; None where it has no limit."""
    system = autoregressive_system(correlation, variance, level.block)
    try:
        settled = pv.dynamics.steady_state(system, level).smoothed
    except NumericalFailure:
        return None
    return min(float(np.sqrt(settled.diagonal().min())), math.sqrt(variance))
