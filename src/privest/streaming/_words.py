"""Sentences for a terminal: what a stream did, and what it reveals of a measurement."""

from __future__ import annotations

import math

import numpy as np

import privest as pv
from privest.arrays import plural
from privest.errors import NumericalFailure
from privest.privacy import exposures
from privest.report.sections import Sentence
from privest.streaming._run import StreamRun
from privest.streaming._sides import Analyst, Owner


def counts_of(run: StreamRun, *, stopped: bool) -> str:
    """The number of rows, and what became of them."""
    side = run.side
    repeated = side.repeated if isinstance(side, Analyst) else 0
    resent = side.resent if isinstance(side, Owner) else 0
    parts = {
        plural(run.used, "row"): True,
        f"{run.missing:,} of them without a measurement": run.missing,
        f"{repeated:,} repeated releases left out": repeated,
        f"{plural(resent, 'step')} sent again as they were (measurements are not compared)": resent,
        "resumed": run.resumed,
        "stopped" + ("" if run.checkpoint is None else "; the same command goes on"): stopped,
    }
    return "; ".join(part for part, there in parts.items() if there) + "."


def known_after(
    level: pv.StreamLevel, correlation: float | None = None, variance: float | None = None
) -> list[str]:
    """How closely a reader guesses one measurement after the release."""
    shown_of_one = float(np.max(level.final_blocks().diagonal()))
    if not shown_of_one > 0:
        return []
    said = [Sentence("unbiased_steps", {"least": 1 / math.sqrt(shown_of_one)})]
    if correlation is not None and variance:
        said += _smoothed(level, correlation, variance)
    return [one.text for one in said]


def _smoothed(level: pv.StreamLevel, correlation: float, variance: float) -> list[Sentence]:
    """The reader who smooths: measurements of this variance and correlation about the fit."""
    sd = math.sqrt(variance)
    if not level.reach:
        shown = float(level.final_blocks().diagonal()[0])
        before, others, after = exposures.stream_sds(shown, correlation, sd)
        values = {"before": before, "others": others, "after": after}
        return [Sentence("guess_stream", values)]
    after_all = _from_all_steps(level, correlation, variance)
    if after_all is None:
        return []
    return [Sentence("guess_steps", {"before": sd, "after": after_all})]


def _from_all_steps(level: pv.StreamLevel, correlation: float, variance: float) -> float | None:
    """The error of an attacker who smooths; None where it has no limit."""
    system = autoregressive_system(correlation, variance)
    try:
        settled = pv.dynamics.steady_state(system, level).smoothed
    except NumericalFailure:
        return None
    return min(float(np.sqrt(settled.diagonal().min())), math.sqrt(variance))


def autoregressive_system(correlation: float, variance: float) -> pv.dynamics.StateSpace:
    """The stationary AR(1) process u_k = φu_{k−1} + w_k of variance γ₀."""
    innovation = variance * (1 - correlation**2)
    return pv.dynamics.StateSpace(A=correlation, C=1.0, Q=innovation, R=0.0, cov0=variance)
