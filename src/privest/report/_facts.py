"""What a report tells: the estimates of one release, and the public facts they are from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_positive
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.report._coefficients import FACTORS, open_errors
from privest.report._exposure import Exposed
from privest.report._streams import Trail
from privest.report._tradeoff import Curve


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What was found of one private column, released at the level s.

    response        what was measured
    result          the private estimate; where it is known also the errors without privacy
    transform       of the readings; `family` of the model: both say whether coefficients are logs
    noise_variance  σ² of a reading given its features, as stated or from `reference_rows` rows of a
                    public reference set; None: nobody stated it
    found_variance  what the release itself says of σ², in a sentence
    doubts          what the estimate says against itself; `checked`: what spoke for it
    remark          what else should be known of it
    exposed         one reading to an attacker; None: as the level and σ² say
    epsilon, delta, move
                    together or not at all, comparing data in which one reading differs by at most
                    `move`
    informed        ± of one who knows the model and sees all other columns, where there are some
    ranged          what the public range did to the readings, in a sentence
    whole           whether ε speaks of all readings of a person at once
    """

    response: str
    result: Result
    level: float
    noise_variance: float | None = None
    reference_rows: int | None = None
    found_variance: str | None = None
    transform: str = "none"
    family: str = "gaussian"
    doubts: tuple[str, ...] = ()
    checked: str | None = None
    remark: str | None = None
    exposed: Exposed | None = None
    epsilon: float | None = None
    delta: float | None = None
    move: float | None = None
    informed: float | None = None
    ranged: str | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        as_positive(self.level, "level")
        if self.noise_variance is not None:
            as_positive(self.noise_variance, "noise_variance")
        if len({x is None for x in (self.epsilon, self.delta, self.move)}) > 1:
            raise InvalidInput("epsilon, delta and move belong together: give all three or none.")

    @property
    def scale(self) -> str:
        """Whether coefficients are logarithms, and of what."""
        return self.family if self.family in FACTORS else self.transform

    @property
    def attacked(self) -> Exposed:
        """What an attacker sees of one reading."""
        if self.exposed is not None:
            return self.exposed
        known = self.noise_variance
        spread = None if known is None else float(np.sqrt(known))
        return Exposed(level=self.level, spread=spread, transform=self.transform)

    @property
    def bounded(self) -> bool:
        """Whether the release bounds the coefficients: else there is no interval to show."""
        return bool(np.isfinite(self.result.standard_error).all())

    @property
    def ratios(self) -> Array | None:
        """(n,): standard errors with privacy over those without; None where these are not known."""
        plain = open_errors(self.result)
        return None if plain is None else np.asarray(self.result.standard_error / plain)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Which release a page is about, and what made the page; texts as they are shown."""

    table: str
    checksum: str
    sha256: str
    ledger: str
    version: str
    date: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """All that a report tells.

    outcomes        one for each private column
    rows, dropped   used, and left out for missing values; of so many `persons`, where a person has
                    several; `people` and `weights` in words
    joint           a sentence on all columns together
    record          ε and δ of several columns for replacing all of a person's readings at once
    curve, pair, trail
                    the errors over levels, two coefficients together, the estimates as rows came:
                    told where they are given, of one column
    levels          where rows have levels of their own: which, in a sentence
    commands        how to repeat it; none: that is not told
    confidence      of the intervals
    """

    outcomes: tuple[Outcome, ...]
    rows: int
    simulated: bool
    commands: Sequence[str]
    dropped: int = 0
    persons: int | None = None
    people: str | None = None
    weights: str | None = None
    joint: str | None = None
    record: tuple[float, float] | None = None
    curve: Curve | None = None
    pair: Result | None = None
    trail: Trail | None = None
    provenance: Provenance | None = None
    levels: str | None = None
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InvalidInput(f"rows must be at least 1; received {self.rows}.")
        if not self.outcomes:
            raise InvalidInput("outcomes must hold at least one column.")
