"""The choices for a stream: privacy, simulation or release, account, sides, files.

Plain records. A line `name METAVAR  text` of a docstring describes a field; the command line makes
the help of an option of it (`cli.options`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import privest as pv
from privest.arrays import Array
from privest.data.cells import is_number
from privest.data.format import Format
from privest.data.lines import open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.mechanism.source import Protected, Source, seeded
from privest.privacy import Statement
from privest.reading import HELD_WHOLE, about
from privest.report.figures import require_files

# --- privacy --------------------------------------------------------------------------------------


class Spent(NamedTuple):
    """The differential privacy of a Gaussian release at a level."""

    epsilon: float
    delta: float
    sensitivity: float


@dataclass(frozen=True)
class Privacy:
    """A level, or the (ε, δ) at a stated sensitivity that it amounts to.

    level NUMBER|FILE  Privacy level S, a cap on Fisher information (a larger S reveals more);
                       unbiased guesses have sd ≥ 1/√s. A number (s·I), or a CSV file with a vector
                       (diagonal) or a matrix.
    epsilon ε          ε of differential privacy, instead of a level; needs δ.
    delta δ            δ. With a level: also print the ε that it amounts to.
    sensitivity C      Sensitivity for ε: one measurement differs by at most this, in its units.
    """

    level: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    sensitivity: float | None = None

    def read(self) -> pv.PrivacyLevel:
        """The level, as it is given or by (ε, δ) of real releases."""
        self._require_stated()
        if self.level is None:
            epsilon, delta, sensitivity = self._epsilon()
            return pv.PrivacyLevel.from_epsilon(epsilon, delta=delta, sensitivity=sensitivity)
        with about(f"level {self.level}"):
            return pv.PrivacyLevel(read_value(self.level))

    def of_stream(self, lags: Sequence[float]) -> pv.StreamLevel:
        """The level of a stream of single measurements, with weights of earlier ones."""
        self._require_stated()
        if self.level is None:
            epsilon, delta, sensitivity = self._epsilon()
            return pv.StreamLevel.from_epsilon(
                epsilon, delta=delta, sensitivity=sensitivity, lags=list(lags)
            )
        with about(f"level {self.level}"):
            if not is_number(self.level):
                raise InvalidInput("a number is needed, the level of one measurement.")
            return pv.StreamLevel.constant(float(self.level), lags=list(lags))

    def within(self, span: tuple[float, float] | None, *, mixed: bool = False) -> Self:
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

    def spent(self, level: pv.PrivacyLevel | pv.StreamLevel) -> Spent | None:
        if self.delta is None or self.sensitivity is None:
            return None
        epsilon = level.to_epsilon(delta=self.delta, sensitivity=self.sensitivity)
        return Spent(epsilon, self.delta, self.sensitivity)

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
    """The level of a stream and the public range of its measurements; ε where it was asked for.

    spent  of exact Gaussian noise, as in a simulation; said: of real releases.
    """

    level: pv.StreamLevel
    span: tuple[float, float] | None
    sensitivity: float | None
    spent: Spent | None
    said: Statement | None

    def mechanism(self) -> pv.StreamMechanism:
        """A mechanism at step 0. Where a sensitivity is stated, ε is of whole steps."""
        return pv.StreamMechanism(self.level, range=self.span)


def promised(
    privacy: Privacy,
    span: tuple[float, float] | None,
    weights: Sequence[float] = (),
    *,
    measurements: int | None = None,
) -> Promise:
    """The privacy of a stream with a public range `span`.

    weights: of earlier measurements in each release. measurements: how many a step has, at a level
    that may be a matrix; None: one, at a level that is a number.
    """
    mixed = bool(weights)
    asked = privacy.within(span, mixed=mixed)
    if measurements is None:
        level = asked.of_stream(weights)
    else:
        level = pv.StreamLevel.constant(asked.read().dense(measurements))
    sensitivity = privacy.sensitivity if mixed else asked.sensitivity
    promise = Promise(level, span, sensitivity, asked.spent(level), None)
    if privacy.delta is None:
        return promise
    said = promise.mechanism().statement(privacy.sensitivity, delta=privacy.delta)
    return promise._replace(said=said)


def read_table(source: str) -> tuple[Array, list[str] | None]:
    """A matrix from a CSV file ("-": standard input), and its column names if it has any."""
    with open_lines(source, name="", most=HELD_WHOLE) as lines:
        return read_matrix(lines)


def read_value(text: str) -> Array | float:
    """A number, or the content of a CSV file: one row or column is a vector, else a matrix."""
    if is_number(text):
        return float(text)
    try:
        exists = text == "-" or (text != "" and Path(text).exists())
    except OSError:
        exists = False
    if not exists:
        raise InvalidInput("neither a number nor an existing file.")
    matrix, _ = read_table(text)
    return matrix.ravel() if 1 in matrix.shape else matrix


# --- noise, account, sides, files -----------------------------------------------------------------


@dataclass(frozen=True)
class Simulation:
    """Whether this is a simulation, which protects nothing, with or without a seed."""

    simulate: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not self.simulate:
            raise InvalidInput(
                "a seed repeats the noise of a simulation (simulate). A real release has no seed: "
                "its noise comes from the operating system and is stored nowhere."
            )

    def source(self, *facts: str | None) -> Source:
        """The noise of a release: protected, or simulated (`facts` as in `seeded`)."""
        return seeded(self.seed, *facts) if self.simulate else Protected()


@dataclass(frozen=True)
class LedgerOptions:
    """Where a real release is charged, and what it may spend.

    ledger FILE   Ledger, made if it is not there: a release is in it before it leaves, within the
                  budget.
    subject NAME  Account. Left out: the columns and the name of FILE.
    budget S      Budget of a new account: the privacy level of one measurement (a larger one
                  reveals more), all releases together. Left out: that of this release.
    """

    ledger: Path | None = None
    subject: str | None = None
    budget: float | None = None

    def account(
        self, stack: ExitStack, source: str, columns: str, most: float
    ) -> pv.ledger.Account:
        """The account; `most` is its budget if none is stated and it is new."""
        assert self.ledger is not None
        if self.subject is None and source == "-":
            raise InvalidInput("standard input has no name: name the account (subject).")
        subject = self.subject or pv.ledger.spelled(f"{columns} of {Path(source).name}")
        found = stack.enter_context(pv.Ledger(self.ledger)).account(subject)
        if self.budget is not None or not found.is_open:
            found.open(most if self.budget is None else self.budget)
        return found


@dataclass(frozen=True)
class Sides:
    """Which side of a stream this is: the data owner, the analyst, or both.

    emit   What to write.
    given  What FILE holds: measurements, or releases that were written elsewhere.
    """

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
    """Where the rows and the figure go.

    output FILE  File to write. Left out: standard output.
    png FILE     Figure of the estimates and their intervals by step.
    """

    output: Path | None = None
    overwrite: bool = False
    png: Path | None = None

    def require_free(self, why: str = "") -> None:
        """Refuse to replace a file with something in it unless told."""
        path = self.output
        if path is not None and not self.overwrite and path.is_file() and path.stat().st_size:
            raise InvalidInput(f"{path} exists: {why}allow that it is replaced (overwrite).")

    def write(self, text: str) -> None:
        """All of the output at once."""
        self.require_free()
        if self.output is None:
            sys.stdout.write(text)
        elif self.output.exists() and not self.output.is_file():  # /dev/null, a pipe
            self.output.write_text(text, encoding="utf-8")
        else:
            atomic_write(self.output, text)


@dataclass(frozen=True)
class Choices(Output, LedgerOptions, Simulation, Sides):
    """The choices that `privest stream`, `filter` and `identify` share."""

    def require_sense(self) -> None:
        """Refuse what cannot go together, and files that cannot be written."""
        if self.from_releases and self.to_releases:
            raise InvalidInput("releases in and releases out: there is nothing to do.")
        if self.from_releases and self.simulate:
            raise InvalidInput("`simulate` goes with measurements, not with releases.")
        if self.ledger is None and (self.subject, self.budget) != (None, None):
            raise InvalidInput("a `subject` and a `budget` need a ledger.")
        if self.ledger is not None and (self.simulate or self.from_releases):
            raise InvalidInput("a `ledger` is for real releases: a simulation spends nothing.")
        require_files(self.output, self.png)


@dataclass(frozen=True)
class Columns:
    """The columns of a stream, and what is publicly known of the measurements.

    intercept      Add a constant to the features.
    time NAME      Public column of times or dates, written with what is released. Left out, and
                   the features too: a column of dates is taken for it.
    correlation R  Correlation of a measurement with the one before, given the features: for the
                   exposure by neighbours in time. Needs the residual variance, and no lags.
    """

    target: str = "y"
    features: str | None = None
    intercept: bool = False
    time: str | None = None
    residual_variance: float | None = None
    correlation: float | None = None


@dataclass(frozen=True)
class Restart:
    """What lets a stream last longer than a process.

    checkpoint FILE  File in which the stream is saved after every block; the same command then
                     goes on. It is as sensitive as the measurements.
    replay           After a restart the input begins again (default for files) or continues with
                     new measurements. Standard input with a checkpoint must state which.
    block N          Rows per block: one line of estimates, one save.
    """

    checkpoint: Path | None = None
    replay: bool | None = None
    block: int = 1


@dataclass(frozen=True)
class StreamPlan:
    """The choices for one stream."""

    source: str  # a file, or "-"
    promise: Promise
    columns: Columns
    features: list[str] | None
    choices: Choices
    restart: Restart = field(default_factory=Restart)
    json_in: bool = False
    json_out: bool = False
    format: Format = field(default_factory=Format)  # how text files are written

    def __post_init__(self) -> None:
        self._require_different_files()
        self.choices.require_sense()
        columns = self.columns
        refused = {
            "a figure (`png`) is of estimates, not of releases.": (
                self.choices.png is not None and self.choices.to_releases
            ),
            "a `correlation` is between -1 and 1. It needs a `residual_variance`, and no `lags`.": (
                columns.correlation is not None
                and (
                    columns.residual_variance is None
                    or abs(columns.correlation) >= 1
                    or self.promise.level.reach > 0
                )
            ),
        }
        for sentence, is_refused in refused.items():
            if is_refused:
                raise InvalidInput(sentence)

    @property
    def replay(self) -> bool | None:
        """After a restart: the input begins again, or goes on; None: not known."""
        stated = self.restart.replay
        return True if stated is None and self.source != "-" else stated

    def _require_different_files(self) -> None:
        named = {
            "the input": None if self.source == "-" else Path(self.source),
            "the output": self.choices.output,
            "the checkpoint": self.restart.checkpoint,
            "the picture": self.choices.png,
            "the ledger": self.choices.ledger,
        }
        seen: dict[Path, str] = {}
        for name, path in named.items():
            if path is None or str(path) == os.devnull:
                continue
            other = seen.setdefault(path.resolve(), name)
            if other != name:
                raise InvalidInput(f"{other} and {name} are the same file: {path}.")
