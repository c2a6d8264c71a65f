"""What may be shown of the readings of a subject, and what a release shows: exact numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from privest.arrays import ArrayLike, as_array, fingerprint_of
from privest.errors import InvalidInput
from privest.ledger._exact import Matrix, as_exact, is_psd
from privest.ledger._shown import (
    Runs,
    Shown,
    plain_exact,
    read_information,
    read_matrix,
    read_number,
    trace_of,
)
from privest.privacy import Along, Move
from privest.privacy._adjacency import as_move
from privest.records import Record

LARGEST_MATRIX = 32  # readings of a matrix budget: its order is decided in rationals


Information = Fraction | Runs | Matrix


def move_text(move: float | Move | str | None) -> str | None:
    """What differential privacy speaks of, as a text that tells moves apart.

    >>> move_text(0.5)
    'OneReading(by=0.5)'
    """
    if move is None or isinstance(move, str):
        return move
    found = as_move(move)
    if isinstance(found, Along):
        return f"Along({fingerprint_of('along', found.direction)})"
    return repr(found)


def move_words(move: str | None) -> str:
    """The same for people.

    >>> move_words("OneReading(by=0.5)")
    'one reading that differs by 0.5'
    """
    own = re.fullmatch(r"OneReading\(by=(.*)\)", move or "")
    return f"one reading that differs by {float(own[1]):g}" if own else str(move)


def as_matrix(given: ArrayLike, name: str) -> Matrix:
    """A symmetric matrix ≥ 0, in exact numbers: refused unless both hold exactly."""
    array = as_array(given, name, ndim=2)
    size = len(array)
    if array.shape != (size, size) or not 1 <= size <= LARGEST_MATRIX:
        raise InvalidInput(
            f"{name} must be a square matrix of 1 to {LARGEST_MATRIX} readings; received shape "
            f"{array.shape}."
        )
    exact = tuple(tuple(Fraction(x) for x in row) for row in array.tolist())
    if not np.array_equal(array, array.T) or not is_psd(exact):
        raise InvalidInput(
            f"{name} must be symmetric and positive semi-definite to the last bit (decided in "
            "rationals): give A.T @ A computed once and symmetrised, or add to its diagonal."
        )
    return exact


def _as_information(given: object) -> Information:
    name = "information of a cost"
    if isinstance(given, Fraction):
        return as_exact(given, name)
    if isinstance(given, Runs) or _is_exact_matrix(given):
        return cast(Information, given)
    array = as_array(cast(ArrayLike, given), name, ndim=(0, 1, 2))
    if array.ndim == 0:
        return as_exact(float(array), name)
    if array.ndim == 2:
        return as_matrix(array, name)
    if not array.size:
        raise InvalidInput(f"{name} must not be empty.")
    if (array < 0).any():
        raise InvalidInput(f"{name} must be ≥ 0: what was shown cannot be taken back.")
    return Runs.of(array)


def _is_exact_matrix(given: object) -> bool:
    """AᵀA in fractions, as `cost_of` makes it: ≥ 0 as it stands."""
    return (
        isinstance(given, tuple)
        and given != ()
        and isinstance(given[0], tuple)
        and all(isinstance(x, Fraction) for row in given for x in row)
        and is_psd(given)
    )


@dataclass(frozen=True)
class Cost(Record):
    """What a release shows of the readings at each index of its range, in every unit known of it.

    information  Fisher information about the reading: a number, a vector (one number an index), or
                 a matrix where an index holds several readings
    mu2          μ² of a Gaussian release for `move` (exactly Gaussian differential privacy)
    rho          of zero-concentrated differential privacy for `move`
    epsilon      of pure differential privacy for `move`; not for a Gaussian release
    move         what mu2, rho and epsilon speak of: a number (one reading moves by at most that),
                 or a `privacy.Move`

    A budget in a unit that the cost does not state refuses it; ρ follows from μ² (μ²/2) and from a
    pure ε (ε²/2). Costs add up for independent noise only: y + d and y − d together show y.
    """

    information: Any = None
    mu2: Any = None
    rho: Any = None
    epsilon: Any = None
    move: Any = None

    def __post_init__(self) -> None:
        if self.information is not None:
            object.__setattr__(self, "information", _as_information(self.information))
        for unit in ("mu2", "rho", "epsilon"):
            if getattr(self, unit) is not None:
                object.__setattr__(self, unit, as_exact(getattr(self, unit), unit))
        object.__setattr__(self, "move", move_text(self.move))
        if all(v is None for v in (self.information, self.mu2, self.rho, self.epsilon)):
            raise InvalidInput("a cost must state at least one of information, mu2, rho, epsilon.")
        if self.mu2 is not None and self.epsilon is not None:
            raise InvalidInput(
                "a cost states mu2 (a Gaussian release) or epsilon (pure), not both: a Gaussian "
                "release has no finite epsilon."
            )

    def to_dict(self) -> dict[str, Any]:
        """As it is written in a ledger: exact numbers as texts m·2^e."""
        return {
            "information": plain_exact(self.information),
            **{unit: plain_exact(getattr(self, unit)) for unit in ("mu2", "rho", "epsilon")},
            "move": self.move,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cost:
        """The inverse of `to_dict`. Raises ValueError, KeyError or TypeError for others."""
        found = cls.__new__(cls)
        object.__setattr__(found, "information", read_information(record["information"]))
        for unit in ("mu2", "rho", "epsilon"):
            object.__setattr__(found, unit, read_number(record[unit]))
        object.__setattr__(found, "move", _read_move(record))
        return found

    def trace(self, count: int) -> Fraction | None:
        """tr I over `count` indices."""
        given = self.information
        if given is None:
            return None
        if isinstance(given, Fraction):
            return count * given
        return given.total if isinstance(given, Runs) else count * trace_of(given)

    def pieces(self, start: int, stop: int, size: int | None) -> list[tuple[int, int, Shown]]:
        """What the release shows at each index, in runs of equal indices.

        `size`: how many readings an index holds, where a matrix budget says so.
        """
        given, runs = self.information, [(self.information, stop - start)]
        if isinstance(given, Runs):
            if given.count != stop - start:
                raise InvalidInput(
                    f"the information of a cost has {given.count} numbers for {stop - start} "
                    f"indices ({start} to {stop - 1})."
                )
            runs = list(given.runs)
        found, at = [], start
        for value, count in runs:
            found.append((at, at + count, self._shown(value, size)))
            at += count
        return found

    def _shown(self, value: Fraction | Matrix | None, size: int | None) -> Shown:
        level: Fraction | None
        matrix: Matrix | None = None
        if isinstance(value, tuple):
            level = max(value[i][i] for i in range(len(value)))
            matrix = value
        else:
            level = value
            if value is not None and size is not None:
                zero = Fraction(0)
                matrix = tuple(
                    tuple(value if i == j else zero for j in range(size)) for i in range(size)
                )
        return Shown(
            level=level,
            mu2=self.mu2 or Fraction(0),
            epsilon=self.epsilon or Fraction(0),
            rest=Fraction(0) if self.mu2 is not None else self._rest(),
            rho=self.total_rho,
            matrix=matrix,
        )

    @property
    def total_rho(self) -> Fraction | None:
        """ρ as stated, or as it follows; None where it is not known."""
        if self.rho is not None:
            return cast(Fraction, self.rho)
        if self.mu2 is not None:
            return cast(Fraction, self.mu2 / 2)
        return None if self.epsilon is None else cast(Fraction, self.epsilon**2 / 2)

    def _rest(self) -> Fraction:
        """ρ of what is neither Gaussian nor pure."""
        return Fraction(0) if self.epsilon is not None or self.rho is None else self.rho


@dataclass(frozen=True)
class Budget(Record):
    """The most that may be shown of a subject. Several limits: all of them hold.

    level            information about the reading at any one index
    matrix           the same where an index holds several readings: I ≤ matrix (PSD order)
    trace            information summed over all indices and readings of the subject
    mu               of Gaussian differential privacy for `move`
    rho              of zero-concentrated differential privacy for `move`
    epsilon, delta   of differential privacy for `move`; delta = 0 takes pure releases only
    move             a number (one reading moves by at most that) or a `privacy.Move`
    """

    level: Any = None
    matrix: Any = None
    trace: Any = None
    mu: Any = None
    rho: Any = None
    epsilon: Any = None
    delta: Any = None
    move: Any = None

    def __post_init__(self) -> None:
        for unit in ("level", "trace", "mu", "rho", "epsilon", "delta"):
            if getattr(self, unit) is not None:
                name = f"{unit} of a budget"
                object.__setattr__(self, unit, as_exact(getattr(self, unit), name))
        if self.matrix is not None:
            object.__setattr__(self, "matrix", as_matrix(self.matrix, "matrix of a budget"))
        object.__setattr__(self, "move", move_text(self.move))
        self._require_whole()

    def _require_whole(self) -> None:
        if all(getattr(self, unit) is None for unit in LIMITS):
            raise InvalidInput(f"a budget needs at least one of {', '.join(LIMITS)}.")
        if (self.epsilon is None) != (self.delta is None):
            raise InvalidInput("a budget of differential privacy needs epsilon and delta together.")
        if self.delta is not None and not self.delta < 1:
            raise InvalidInput("delta of a budget must be ≥ 0 and < 1.")
        private = any(getattr(self, unit) is not None for unit in ("mu", "rho", "epsilon"))
        if private and self.move is None:
            raise InvalidInput(
                "mu, rho and epsilon mean nothing without the move they speak of: state move=, the "
                "most that one reading can change by."
            )

    def to_dict(self) -> dict[str, Any]:
        """As it is written in a ledger."""
        units = (*LIMITS, "delta")
        return {unit: plain_exact(getattr(self, unit)) for unit in units} | {"move": self.move}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Budget:
        """The inverse of `to_dict`. Raises ValueError, KeyError or TypeError for others."""
        found = cls.__new__(cls)
        for unit in (*LIMITS, "delta"):
            read = read_matrix if unit == "matrix" else read_number
            object.__setattr__(found, unit, read(record[unit]))
        object.__setattr__(found, "move", _read_move(record))
        found._require_whole()
        return found

    @property
    def size(self) -> int | None:
        """How many readings an index holds, where a matrix says so."""
        return None if self.matrix is None else len(self.matrix)

    def in_words(self) -> str:
        """One line, numbers rounded for people."""
        words = [f"{unit} {short(getattr(self, unit))}" for unit in LIMITS if self._has(unit)]
        if self.delta is not None:
            words.append(f"delta {short(self.delta)}")
        return ", ".join(words) + (f" for {move_words(self.move)}" if self.move else "")

    def _has(self, unit: str) -> bool:
        return getattr(self, unit) is not None


def _read_move(record: Mapping[str, Any]) -> str | None:
    if not isinstance(record["move"], str | None):
        raise ValueError("not a move")
    return record["move"]


LIMITS = ("level", "matrix", "trace", "mu", "rho", "epsilon")


def short(value: Any) -> str:  # noqa: ANN401
    """A number for people."""
    if isinstance(value, tuple):
        return f"of {len(value)} readings"
    return f"{float(value):.6g}" if value <= Fraction(1.7e308) else "beyond doubles"


def as_double(value: Fraction | None) -> float | None:
    """The nearest double for people and JSON; None as it is."""
    if value is None:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
