"""What is stated of a stream before it begins: privacy, trial or real, account, sides, files.

Plain records. The command line gives their fields names on a terminal (`cli._options`), a form of
the app gives them words; messages name the options, which both show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import privest as pv
from privest.data._cells import is_number
from privest.errors import InvalidInput
from privest.mechanism.source import Protected, Source, seeded
from privest.privacy import GridStatement, level_on_grid
from privest.report.figures import require_files


@contextmanager
def about(option: str) -> Iterator[None]:
    """Name the option that an error is about."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{option}: {error}") from None


class Spent(NamedTuple):
    """The differential privacy of a Gaussian release at a level."""

    epsilon: float
    delta: float
    move: float


@dataclass(frozen=True)
class Privacy:
    """A level, or the (ε, δ) for a stated difference that it amounts to; never a guess."""

    level: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    move: float | None = None

    def within(self, span: tuple[float, float] | None, *, mixed: bool) -> Self:
        """The same where --range says how far a reading can move, so that --move need not.

        `mixed`: a release shows several readings at once; then their sums are clipped, and what ε
        amounts to is told, but no level is found for it.
        """
        if span is None or self.delta is None or self.move is not None:
            return self
        if mixed and self.epsilon is not None:
            raise InvalidInput(
                "--epsilon with --lags or --shared-day needs --move, also where there is a --range."
            )
        return replace(self, move=span[1] - span[0])

    def number(self) -> float | None:
        """The level as a number, None where it is not given; for commands that refuse files."""
        if self.level is None or is_number(self.level):
            return None if self.level is None else float(self.level)
        raise InvalidInput(f"--level {self.level}: a number is needed, the level of one reading.")

    def of_stream(self, lags: list[float], shared: int | None = None) -> pv.EndlessLevel:
        """The level of every step of a stream of single readings, with weights of earlier ones.

        `shared`: steps of so many readings, whose mean is hidden at the level too.
        """
        self._require_stated()

        def made(level: float) -> pv.EndlessLevel:
            if shared is not None:
                return pv.EndlessLevel.shared(level, shared)
            return pv.EndlessLevel(level, lags)

        level = self.number()
        if level is not None:
            with about(f"--level {self.level}"):
                return made(level)
        epsilon, delta, move = self._epsilon()
        shape = made(1.0)
        return level_on_grid(epsilon, delta=delta, move=move, shape=shape)

    def spent(self, level: pv.PrivacyLevel | pv.EndlessLevel) -> Spent | None:
        """What the level amounts to, if --delta and --move were given."""
        if self.delta is None or self.move is None:
            return None
        epsilon = level.to_epsilon(delta=self.delta, move=self.move)
        return Spent(epsilon, self.delta, self.move)

    def promise(self, mechanism: pv.StreamMechanism) -> GridStatement | None:
        """What the real releases of a stream amount to, if --delta was given."""
        if self.delta is None:
            return None
        return mechanism.statement(self.move, delta=self.delta)

    def _epsilon(self) -> tuple[float, float, float]:
        assert self.epsilon is not None
        assert self.delta is not None
        assert self.move is not None
        return self.epsilon, self.delta, self.move

    def _require_stated(self) -> None:
        together = (self.delta is None) == (self.move is None)
        one = (self.level is None) != (self.epsilon is None)
        if not (together and one) or (self.epsilon is not None and self.delta is None):
            raise InvalidInput(
                "Give the privacy either as --level, or as --epsilon together with --delta and "
                "--move (--delta and --move go together; a --range stands for --move)."
            )


@dataclass(frozen=True)
class Trial:
    """Whether this is a trial: simulated noise, which protects nothing, with or without a seed."""

    simulate: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not self.simulate:
            raise InvalidInput(
                "--seed repeats the noise of a trial: say --simulate too. A real release has no "
                "seed; its noise comes from the operating system and is kept nowhere."
            )

    def source(self, *facts: object) -> Source:
        """The noise of a release: protected, or that of the trial (`facts` as in `seeded`)."""
        return seeded(self.seed, *facts) if self.simulate else Protected()


@dataclass(frozen=True)
class Account:
    """Where a real release is written down, and what it may spend."""

    ledger: Path | None = None
    subject: str | None = None
    budget: float | None = None

    def require_sense(self, trial: Trial, real: bool = True) -> None:
        """Options of an account need a ledger, and a release to write down."""
        if self.ledger is None and (self.subject, self.budget) != (None, None):
            raise InvalidInput("--subject and --budget go with --ledger.")
        if self.ledger is not None and (trial.simulate or not real):
            raise InvalidInput("--ledger is for real releases: a trial spends nothing.")

    def subject_of(self, source: str, columns: str) -> str:
        """The account: as given, else by the columns and the name of the file."""
        if self.subject is not None:
            return self.subject
        if source == "-":
            raise InvalidInput("standard input has no name: say whose account it is, --subject.")
        return f"{columns} of {Path(source).name}"

    def opened(self, stack: ExitStack, subject: str, most: float) -> pv.Ledger:
        """The ledger, with an account of the subject; `most` is the budget if none is stated."""
        assert self.ledger is not None
        found = stack.enter_context(pv.Ledger(self.ledger))
        if self.budget is not None or subject not in found.subjects():
            limit = most if self.budget is None else self.budget
            found.open_account(subject, pv.ledger.Budget(level=limit))
        return found


@dataclass(frozen=True)
class Sides:
    """Which side of a stream this is: the holder of the readings, the estimator, or both."""

    emit: Literal["estimates", "releases"] = "estimates"
    given: Literal["readings", "releases"] = "readings"

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
            raise InvalidInput(f"{path} exists: {why}say --overwrite.")
