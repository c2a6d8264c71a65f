"""What is asked of a replay: a file of readings that is released as a stream, and looked at."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from privest.arrays import as_count, as_positive
from privest.data._names import joined
from privest.data._reading_options import Reading
from privest.errors import InvalidInput
from privest.privacy import level_for_attacker
from privest.streaming._plan import Promise, StreamPlan, promised
from privest.streaming._stated import Account, Output, Privacy, Sides, Trial

CAUGHT_UP = 2000  # steps, about, in which a stream that was written before is read
MOST_BLOCK = 100_000  # rows of a block of a replay, which are held at once


def privacy_of(
    *,
    level: float | None = None,
    known_to: float | None = None,
    apart: float | None = None,
    chance: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    move: float | None = None,
) -> Privacy:
    """Privacy in one of four ways; `delta` and `move` also tell the ε of the other three.

    level          s (larger shows more), of one reading.
    known_to       ± this is the least error of one who guesses a reading from its release, 1/√s.
    apart, chance  who must tell two values so far apart is right with at most this chance.
    epsilon        with delta, and move or a range.

    >>> privacy_of(known_to=0.5).level
    '4'
    """
    ways = {"level": level, "± of a reading": known_to, "values apart": apart, "ε": epsilon}
    stated = [name for name, value in ways.items() if value is not None]
    if len(stated) != 1:
        raise InvalidInput(
            f"state the privacy in exactly one way: {', '.join(ways)}. Received "
            f"{' and '.join(stated) or 'none of them'}."
        )
    if epsilon is not None:
        return Privacy(None, as_positive(epsilon, "ε"), delta, move)
    if apart is not None:
        if chance is None:
            raise InvalidInput("two values apart need a chance: how often a guess may be right.")
        level = level_for_attacker(apart, chance).number
    elif known_to is not None:
        error = as_positive(known_to, "± of a reading")
        level = 1 / error / error  # beyond all numbers it is no level, and refused below
    assert level is not None
    return Privacy(_number(as_positive(level, "level")), None, delta, move)


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """What is asked of a replay. All of it is public, but for the readings in the file.

    source          text table of readings with a first line of names, or JSON lines.
    features        public columns, each with a coefficient; `intercept`: and a constant.
    privacy         as `privacy_of` gives it; span: the public range of a reading.
    shared_day      so many readings share a noise that hides their mean at the level too.
    noise_variance  of a reading given its features, from public knowledge; None: from the releases.
    trial, account  simulated noise with a seed, or a real release that a ledger is charged for.
    output          of a real one: where the releases go, JSON lines. Beside it is what makes it go
                    on where it was (`checkpoint`), which is as sensitive as the readings.
    """

    source: Path
    target: str
    features: tuple[str, ...]
    privacy: Privacy
    intercept: bool = True
    span: tuple[float, float] | None = None
    shared_day: int | None = None
    noise_variance: float | None = None
    trial: Trial = field(default_factory=Trial)
    account: Account = field(default_factory=Account)
    output: Path | None = None
    block: int = 1
    time: str | None = None
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self) -> None:
        if as_count(self.block, "rows of a block", least=1) > MOST_BLOCK:
            raise InvalidInput(f"a block has at most {MOST_BLOCK:,} rows; received {self.block:,}.")
        if self.noise_variance is not None:
            as_positive(self.noise_variance, "noise variance")
        self.account.require_sense(self.trial)
        if not self.trial.simulate and (self.output is None or self.account.ledger is None):
            raise InvalidInput(
                "a real stream needs a file for its releases and a ledger, so that nothing is "
                "released twice; or let it be a trial."
            )
        _ = self.promise  # refused now, not when it begins

    @cached_property
    def promise(self) -> Promise:
        """The level of every step, and ε where it was asked for."""
        return promised(self.privacy, self.span, (), self.shared_day)

    @property
    def checkpoint(self) -> Path | None:
        """Beside the releases; a trial has none."""
        return None if self.output is None else self.output.with_name(f"{self.output.name}.going")

    @property
    def json_in(self) -> bool:
        return self.source.suffix.lower() in (".jsonl", ".ndjson")

    def held(self) -> StreamPlan:
        """The side that holds the readings: they leave as releases."""
        return self._plan(Sides("releases"), str(self.source), self.json_in, None)

    def followed(self, written: int = 0) -> StreamPlan:
        """The side that sees the releases only, and estimates from them.

        written  readings whose releases are there already: they are caught up with in steps as many
                 as a picture shows, and not in as many as they were made in.
        """
        steps = 1 + written // (CAUGHT_UP * self.block)
        return replace(
            self._plan(Sides(given="releases"), str(self.output), True, self.noise_variance),
            block=steps * self.block,
        )

    def _plan(self, sides: Sides, source: str, json_in: bool, variance: float | None) -> StreamPlan:
        holds = not sides.from_releases
        return StreamPlan(
            source=source,
            target=self.target,
            features=list(self.features),
            level=self.promise.level,
            variance=variance,
            intercept=self.intercept,
            sides=sides,
            json_in=json_in,
            json_out=holds,
            output=Output(self.output) if holds else Output(),
            block=self.block,
            checkpoint=self.checkpoint if holds else None,
            replay=True,
            trial=self.trial,
            account=self.account if holds else Account(),
            span=self.span,
            move=self.promise.move,
            spent=self.promise.spent,
            said=self.promise.said,
            time=self.time,
            reading=self.reading if holds else Reading(),
            stated=self.noise_variance,
            drawn=not holds,
        )

    # --- the same on a command line -------------------------------------------------------------

    def commands(self, source: str | None = None) -> tuple[str, ...]:
        """Lines for a terminal that do the same; `source`: how the file is called there."""
        named = str(self.source) if source is None else source
        own = [*self._columns(named), *self._privacy()]
        text = _options(
            separator=self.reading.separator, decimal=self.reading.decimal,
            encoding=self.reading.encoding,
        )  # fmt: skip
        estimated = [
            *(["--intercept"] if self.intercept else []),
            *_options(noise_variance=_number(self.noise_variance)),
        ]
        block = _options(block=str(self.block))
        if self.trial.simulate:
            trial = ["--simulate", *_options(seed=_number(self.trial.seed))]
            return (shlex.join([*own, *estimated, *trial, *text, *block]),)
        assert self.output is not None
        kept = _options(output=self.output.name, checkpoint=f"{self.output.name}.going")
        account = _options(
            ledger=str(self.account.ledger), subject=self.account.subject,
            budget=_number(self.account.budget),
        )  # fmt: skip
        own += ["--intercept"] * self.intercept
        receiver = [*self._columns(self.output.name, target=False), *self._privacy()]
        return (
            shlex.join([*own, "--emit", "releases", *kept, *account, *text, *block]),
            shlex.join([*receiver, "--from", "releases", *estimated, *block]),
        )

    def _columns(self, source: str, *, target: bool = True) -> list[str]:
        said = _options(target=self.target) if target else []
        return [
            "privest", "stream", source, *said, *_options(features=joined(self.features)),
            *_options(time=self.time),
        ]  # fmt: skip

    def _privacy(self) -> list[str]:
        stated = self.privacy
        return _options(
            level=stated.level, epsilon=_number(stated.epsilon), delta=_number(stated.delta),
            move=_number(stated.move), range=_ends(self.span),
            shared_day=_number(self.shared_day),
        )  # fmt: skip


def _options(**given: str | None) -> list[str]:
    """Those that are given; a value that begins with a minus is no option."""
    words: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value:
            words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return words


def _number(value: float | None) -> str | None:
    """To the last digit, without a zero behind the point."""
    return None if value is None else repr(value).removesuffix(".0")


def _ends(span: tuple[float, float] | None) -> str | None:
    return None if span is None else ",".join(str(_number(end)) for end in span)
