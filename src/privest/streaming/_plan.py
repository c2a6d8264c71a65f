"""What `privest stream` was asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import privest as pv
from privest.data._reading_options import Reading
from privest.errors import InvalidInput
from privest.privacy import GridStatement
from privest.streaming._stated import Account, Output, Privacy, Sides, Spent, Trial


class Promise(NamedTuple):
    """What privacy comes to: the level of every step, and ε where it was asked for.

    spent  of exact Gaussian noise, as in a trial; said: of real releases.
    """

    level: pv.EndlessLevel
    move: float | None
    spent: Spent | None
    said: GridStatement | None


def promised(
    privacy: Privacy,
    span: tuple[float, float] | None,
    weights: Sequence[float] = (),
    shared_day: int | None = None,
) -> Promise:
    """The promise of a stream of single readings, with weights of earlier ones or days that share.

    span  the public range of a reading, which says how far one can move.
    """
    if weights and shared_day is not None:
        raise InvalidInput("--lags and --shared-day: a level has one of them.")
    mixed = bool(weights) or shared_day is not None
    asked = privacy.within(span, mixed=mixed)
    level = asked.of_stream(list(weights), shared_day)
    said = privacy.promise(pv.StreamMechanism(level, range=span, parts=False))
    return Promise(level, privacy.move if mixed else asked.move, asked.spent(level), said)


@dataclass(frozen=True)
class StreamPlan:
    """What `privest stream` was asked to do."""

    source: str  # a file, or "-"
    target: str
    features: list[str] | None
    level: pv.EndlessLevel
    variance: float | None
    intercept: bool
    sides: Sides
    json_in: bool
    json_out: bool
    output: Output
    block: int
    checkpoint: Path | None
    replay: bool | None  # after a restart: the input begins again, or goes on
    trial: Trial
    account: Account = field(default_factory=Account)
    known: int | None = None  # the last step that the receiver has
    span: tuple[float, float] | None = None  # of the readings, public
    move: float | None = None
    spent: Spent | None = None  # of a trial
    said: GridStatement | None = None  # of real releases
    time: str | None = None  # the column of times, public; None: looked for
    ar1: bool = False  # noise that remembers, fitted at the end
    reference: Path | None = None  # public rows that the noise variance is from
    correlation: float | None = None  # of neighbours in time, publicly known
    reading: Reading = field(default_factory=Reading)  # how text files are written
    stated: float | None = None  # variance of a reading given its features, as it was stated
    drawn: bool = False  # estimates along the stream are wanted for a picture
