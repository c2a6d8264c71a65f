"""Which pairs y, y' must stay hard to tell apart: the adjacency of a privacy number.

A Gaussian release at level S makes the pair exactly μ-GDP with μ² = (y − y')ᵀS(y − y'). A number
ε without its adjacency means nothing, so every conversion takes a move.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import (
    Array,
    ArrayLike,
    Index,
    as_array,
    as_count,
    as_counts,
    as_number,
    as_positive,
)
from privest.errors import InvalidInput
from privest.linalg import PSD, Blocks
from privest.privacy import gdp
from privest.privacy._spans import largest_of_spans
from privest.records import Record


class Move(ABC):
    """A set of differences y − y'."""

    @property
    @abstractmethod
    def length(self) -> float:
        """The largest ‖y − y'‖: μ for the level S = I."""

    @abstractmethod
    def mu(self, level: PSD) -> float:
        """μ = max √((y − y')ᵀS(y − y')) over the set."""


@dataclass(frozen=True)
class OneReading(Move):
    """One scalar reading y_k, any k, moves by at most `by`: μ = by·max_k √S_kk."""

    by: float

    def __post_init__(self) -> None:
        as_positive(self.by, "move")

    @property
    def length(self) -> float:
        return self.by

    def mu(self, level: PSD) -> float:
        return self.by * math.sqrt(float(np.max(level.diagonal())))


@dataclass(frozen=True)
class OneBlock(Move):
    """One block of readings moves by at most `by` in Euclidean norm: μ = by·max_k √λ_max(S_kk).

    `sizes` are the block sizes in order; without them the level's own blocks are meant (of a
    stream: its steps). Blocks of a stream may span steps, and S is what all steps together show;
    where the stream has no end, the blocks repeat.
    """

    by: float
    sizes: Sequence[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", as_positive(self.by, "move"))
        if self.sizes is None:
            return
        sizes = as_counts(self.sizes, "sizes of the blocks", least=1)
        object.__setattr__(self, "sizes", sizes)

    @property
    def length(self) -> float:
        return self.by

    def mu(self, level: PSD) -> float:
        own = level.sizes if isinstance(level, Blocks) else None
        if self.sizes is None or self.sizes == own:
            return self.by * math.sqrt(level.norm())
        return self.by * math.sqrt(largest_of_spans(level, *self.spans(level.size)))

    def spans(self, readings: int) -> tuple[Index, Index]:
        """Where the blocks begin and end."""
        assert self.sizes is not None
        if sum(self.sizes) != readings:
            raise InvalidInput(
                f"sizes of the blocks add up to {sum(self.sizes)}; the level has {readings} rows."
            )
        ends = np.cumsum(self.sizes)
        return ends - np.asarray(self.sizes), ends


@dataclass(frozen=True)
class AdjacentSteps(Move):
    """Any `steps` adjacent steps together move by at most `by` in Euclidean norm.

        μ = by·max over windows of √λ_max(S_window)

    "A day of one meter" that is read every hour is AdjacentSteps(by, 24), whenever the day begins;
    if each of these n readings moves by at most c, `by` = c√n holds for all of them. Readings of a
    `PrivacyLevel` are steps of one reading each. All steps of a stream that has fewer.

    >>> from privest.privacy import EndlessLevel
    >>> level = EndlessLevel(1.0, lags=[1.0])  # every reading is shown in two sums
    >>> round(level.to_mu(move=AdjacentSteps(1.0, 1)) ** 2, 12)
    2.0
    >>> round(level.to_mu(move=AdjacentSteps(1.0, 2)) ** 2, 12)  # [[2, 1], [1, 2]]
    3.0
    """

    by: float
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", as_positive(self.by, "move"))
        object.__setattr__(self, "steps", as_count(self.steps, "adjacent steps", least=1))

    @property
    def length(self) -> float:
        return self.by

    def mu(self, level: PSD) -> float:
        return self.by * math.sqrt(largest_of_spans(level, *self.spans(range(level.size + 1))))

    def spans(self, ends: Sequence[int]) -> tuple[Index, Index]:
        """Where the windows begin and end, given 0 and the ends of all steps."""
        known = np.asarray(ends)
        wide = min(self.steps, len(known) - 1)
        return known[:-wide], known[wide:]


class Along(Move):
    """y moves by the given vector v (or a smaller multiple): μ² = vᵀSv."""

    def __init__(self, direction: ArrayLike) -> None:
        self.direction: Array = as_array(direction, "direction of the move", ndim=1).copy()
        if not self.direction.any():
            raise InvalidInput("direction of the move must not be zero.")

    def __repr__(self) -> str:
        return f"Along(a direction of length {len(self.direction)})"

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.direction))

    def mu(self, level: PSD) -> float:
        if len(self.direction) != level.size:
            raise InvalidInput(
                f"direction of the move has length {len(self.direction)}; "
                f"the level has {level.size} rows."
            )
        return float(np.linalg.norm(level.factor_rows(self.direction[:, None])))


@dataclass(frozen=True)
class OneRecord(Move):
    """All readings of one record move at once, reading j by at most by[j]: μ² = Σ_j c_j²S_jj.

    For a level of one record whose readings have noise of their own (a diagonal S): the private
    columns of one row of a table. Where S mixes readings the worst corner of the box is not known
    here, and it is refused.

    >>> from privest.privacy import PrivacyLevel
    >>> round(PrivacyLevel([4.0, 0.25]).to_mu(move=OneRecord((1.0, 6.0))) ** 2, 9)  # 4·1 + 36/4
    13.0
    """

    by: Sequence[float]

    def __post_init__(self) -> None:
        given = as_array(self.by, "moves of a record", ndim=1)
        if not given.size or not (given > 0).all():
            raise InvalidInput("moves of a record are numbers > 0, one for each of its readings.")
        object.__setattr__(self, "by", tuple(given.tolist()))

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.by))

    def mu(self, level: PSD) -> float:
        return float(np.linalg.norm(np.sqrt(self.levels(level)) * self.by))

    def levels(self, level: PSD) -> Array:
        """S_jj of a record of this many readings. Raises InvalidInput for any other level."""
        if level.pointwise is None:
            raise InvalidInput(
                "OneRecord is known for a level that is a diagonal, one number for each reading of "
                "the record: this one mixes readings."
            )
        if level.size != len(self.by):
            raise InvalidInput(
                f"the record has moves of {len(self.by)} readings; the level is for {level.size}."
            )
        return level.diagonal()


class Convertible(ABC):
    """A level in the language of differential privacy, for its Gaussian release (docs/theory.md 5).

    `move`: a number c (one reading moves by at most c), `OneBlock(c)`, `AdjacentSteps(c, n)`,
    `OneRecord(c)`, or `Along(v)`.
    The constraint I_z(y) ≤ S alone implies no differential privacy; these conversions are facts
    about the Gaussian release that attains it.
    """

    @abstractmethod
    def to_mu(self, *, move: float | Move) -> float:
        """μ: the release is exactly μ-GDP for this move."""

    def to_epsilon(self, *, delta: float, move: float | Move) -> float:
        """The smallest ε for which the Gaussian release is (ε, δ)-differentially private.

        >>> from privest.privacy import PrivacyLevel
        >>> round(PrivacyLevel(1.0).to_epsilon(delta=1e-5, move=1.0), 4)
        4.3772
        """
        return gdp.epsilon_of(self.to_mu(move=move), delta)

    def to_delta(self, *, epsilon: float, move: float | Move) -> float:
        """The smallest δ for which the Gaussian release is (ε, δ)-differentially private."""
        return gdp.delta_of(self.to_mu(move=move), epsilon)

    def to_rho(self, *, move: float | Move) -> float:
        """ρ of zero-concentrated differential privacy (zCDP): μ²/2."""
        return gdp.rho_of(self.to_mu(move=move))


def as_move(move: float | Move) -> Move:
    """A number c means: one reading moves by at most c."""
    if isinstance(move, Move):
        return move
    given: object = move
    if isinstance(given, list | tuple) or np.ndim(move):
        raise InvalidInput(
            "move must be a number (one reading moves by at most that), OneBlock(...), "
            "AdjacentSteps(...), OneRecord(c) for all readings of a record, or Along(v) for a move "
            "along a vector."
        )
    return OneReading(as_positive(move, "move"))


# --- a public range of the readings: what clipping to it makes true, for every value of a readi ---


@dataclass(frozen=True)
class Range(Record):
    """low ≤ y ≤ high, in the units of the readings: public knowledge, never from private data.

    >>> Range(0.0, 10.0).move
    OneReading(by=10.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = as_number(getattr(self, name), f"the {name} end of the range")
            object.__setattr__(self, name, end)
        if not self.low < self.high or not math.isfinite(self.width):
            raise InvalidInput(
                "a range is low, high with low < high and a width that is a number; received "
                f"{self.low:g}, {self.high:g}."
            )

    @property
    def width(self) -> float:
        """high − low."""
        return self.high - self.low

    @property
    def move(self) -> OneReading:
        """What clipping makes true at a pointwise level: one reading moves by at most the width."""
        return OneReading(self.width)
