"""The choices for a stream: privacy, simulation or release, account, sides, files.

Plain records. The command line gives their fields names of options (`cli.options`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import privest as pv
from privest.data.cells import is_number
from privest.data.format import Format
from privest.errors import InvalidInput
from privest.mechanism.source import Protected, Source, seeded
from privest.privacy import Statement
from privest.reading import about
from privest.report.figures import require_files


class Spent(NamedTuple):
    """The differential privacy of a Gaussian release at a level."""

    epsilon: float
    delta: float
    sensitivity: float


@dataclass(frozen=True)
class Privacy:
    """A level, or the (ε, δ) at a stated sensitivity that it amounts to; never a guess."""

    level: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    sensitivity: float | None = None

    def within(self, span: tuple[float, float] | None, *, mixed: bool) -> Self:
        """The same where a range states the sensitivity.

        `mixed`: a release reveals several measurements at once; then their sums are clipped, and
        the ε of a level is known, but no level is found for an ε.
        """
        if span is None or self.delta is None or self.sensitivity is not None:
            return self
        if mixed and self.epsilon is not None:
            raise InvalidInput(
                "epsilon with lags needs the sensitivity, also where there is a range."
            )
        return replace(self, sensitivity=span[1] - span[0])

    def of_stream(self, lags: Sequence[float]) -> pv.StreamLevel:
        """The level of every step of a stream of single measurements, with weights of earlier
        ones.
        """
        self._require_stated()
        if self.level is not None:
            if not is_number(self.level):
                raise InvalidInput(
                    f"level {self.level}: a number is needed, the level of one measurement."
                )
            with about(f"level {self.level}"):
                return pv.StreamLevel.constant(float(self.level), lags=list(lags))
        epsilon, delta, sensitivity = self._epsilon()
        return pv.StreamLevel.from_epsilon(
            epsilon, delta=delta, sensitivity=sensitivity, lags=list(lags)
        )

    def spent(self, level: pv.PrivacyLevel | pv.StreamLevel) -> Spent | None:
        """(ε, δ) of the level, if delta and sensitivity were given."""
        if self.delta is None or self.sensitivity is None:
            return None
        epsilon = level.to_epsilon(delta=self.delta, sensitivity=self.sensitivity)
        return Spent(epsilon, self.delta, self.sensitivity)

    def promise(self, mechanism: pv.StreamMechanism) -> Statement | None:
        """The privacy statement of real releases of a stream, if delta was given."""
        if self.delta is None:
            return None
        return mechanism.statement(self.sensitivity, delta=self.delta)

    def _epsilon(self) -> tuple[float, float, float]:
        assert self.epsilon is not None
        assert self.delta is not None
        assert self.sensitivity is not None
        return self.epsilon, self.delta, self.sensitivity

    def _require_stated(self) -> None:
        together = (self.delta is None) == (self.sensitivity is None)
        one = (self.level is None) != (self.epsilon is None)
        if not (together and one) or (self.epsilon is not None and self.delta is None):
            raise InvalidInput(
                "State the privacy as a level, or as epsilon with delta and sensitivity. Delta and "
                "sensitivity go together; a range states the sensitivity."
            )


class Promise(NamedTuple):
    """What privacy comes to: the level of every step, and ε where it was asked for.

    spent  of exact Gaussian noise, as in a simulation; said: of real releases.
    """

    level: pv.StreamLevel
    sensitivity: float | None
    spent: Spent | None
    said: Statement | None


def promised(
    privacy: Privacy,
    span: tuple[float, float] | None,
    weights: Sequence[float] = (),
) -> Promise:
    """The promise of a stream of single measurements; `span`: their public range."""
    mixed = bool(weights)
    asked = privacy.within(span, mixed=mixed)
    level = asked.of_stream(weights)
    said = privacy.promise(pv.StreamMechanism(level, range=span, parts=False))
    return Promise(
        level, privacy.sensitivity if mixed else asked.sensitivity, asked.spent(level), said
    )


@dataclass(frozen=True)
class Trial:
    """Whether this is a simulation, which protects nothing, with or without a seed."""

    simulate: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not self.simulate:
            raise InvalidInput(
                "a seed repeats the noise of a simulation (simulate). A real release has no seed: "
                "its noise comes from the operating system and is stored nowhere."
            )

    def source(self, *facts: object) -> Source:
        """The noise of a release: protected, or simulated (`facts` as in `seeded`)."""
        return seeded(self.seed, *facts) if self.simulate else Protected()


@dataclass(frozen=True)
class LedgerOptions:
    """The ledger of a real release, the account in it, and its budget as a level."""

    ledger: Path | None = None
    subject: str | None = None
    budget: float | None = None

    def require_sense(self, trial: Trial, real: bool = True) -> None:
        """An account needs a ledger, and a release to write down."""
        if self.ledger is None and (self.subject, self.budget) != (None, None):
            raise InvalidInput("a subject and a budget need a ledger.")
        if self.ledger is not None and (trial.simulate or not real):
            raise InvalidInput("a ledger is for real releases: a simulation spends nothing.")

    def subject_of(self, source: str, columns: str) -> str:
        """The account: as given, else by the columns and the name of the file."""
        if self.subject is not None:
            return self.subject
        if source == "-":
            raise InvalidInput("standard input has no name: name the account (subject).")
        return f"{columns} of {Path(source).name}"

    def opened(self, stack: ExitStack, subject: str, most: float) -> pv.ledger.Account:
        """The account of the subject; `most` is its budget if none is stated and it is new."""
        assert self.ledger is not None
        found = stack.enter_context(pv.Ledger(self.ledger)).account(subject)
        if self.budget is not None or not found.is_open:
            found.open(most if self.budget is None else self.budget)
        return found


@dataclass(frozen=True)
class Sides:
    """Which side of a stream this is: the data owner, the analyst, or both."""

    emit: Literal["estimates", "releases"] = "estimates"
    given: Literal["measurements", "releases"] = "measurements"

    @property
    def to_releases(self) -> bool:
        return self.emit == "releases"

    @property
    def from_releases(self) -> bool:
        return self.given == "releases"


@dataclass(frozen=True)
class Output:
    """Where the rows and the figure go."""

    output: Path | None = None
    overwrite: bool = False
    png: Path | None = None

    def require_possible(self) -> None:
        """Refuse what cannot be written, where a stream may go on in a file that is there."""
        require_files(self.output, self.png)

    def require_free(self, why: str = "") -> None:
        """Refuse to replace a file with something in it unless told."""
        path = self.output
        if path is not None and not self.overwrite and path.is_file() and path.stat().st_size:
            raise InvalidInput(f"{path} exists: {why}allow that it is replaced (overwrite).")


@dataclass(frozen=True)
class StreamPlan:
    """The choices for one stream."""

    source: str  # a file, or "-"
    target: str
    features: list[str] | None
    level: pv.StreamLevel
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
    account: LedgerOptions = field(default_factory=LedgerOptions)
    known: int | None = None  # the last step that the analyst has
    span: tuple[float, float] | None = None  # of the measurements, public
    sensitivity: float | None = None
    spent: Spent | None = None  # of a simulation
    said: Statement | None = None  # of real releases
    time: str | None = None  # the column of times, public; None: looked for
    correlation: float | None = None  # of neighbours in time, publicly known
    format: Format = field(default_factory=Format)  # how text files are written
    stated: float | None = None  # variance of a measurement given its features, as it was stated
    drawn: bool = False  # estimates along the stream are wanted for a picture

    def require_different_files(self) -> None:
        """Input, output, checkpoint, ledger and picture: none may write over another."""
        named = {
            "the input": None if self.source == "-" else Path(self.source),
            "the output": self.output.output,
            "the checkpoint": self.checkpoint,
            "the picture": self.output.png,
            "the ledger": self.account.ledger,
        }
        seen: dict[Path, str] = {}
        for name, path in named.items():
            if path is None or str(path) == os.devnull:
                continue
            other = seen.setdefault(path.resolve(), name)
            if other != name:
                raise InvalidInput(f"{other} and {name} are the same file: {path}.")
