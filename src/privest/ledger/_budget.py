"""Budgets of accounts and costs of releases, in exact numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from privest.arrays import ArrayLike, as_array
from privest.errors import InvalidInput, LedgerError
from privest.ledger._exact import (
    Matrix,
    Revealed,
    Runs,
    as_exact,
    plain_exact,
    read_information,
    read_number,
    trace_of,
)
from privest.privacy import Adjacency, as_adjacency
from privest.records import Record

LIMITS = ("level", "trace", "mu", "rho", "epsilon")
Information = Fraction | Runs | Matrix


def sensitivity_text(sensitivity: float | Adjacency | str | None) -> str | None:
    """The sensitivity that a statement of differential privacy is for, as a text.

    >>> sensitivity_text(0.5)
    'OneReading(by=0.5)'
    """
    if sensitivity is None or isinstance(sensitivity, str):
        return sensitivity
    return as_adjacency(sensitivity).key


def sensitivity_words(sensitivity: str | None) -> str:
    """The same for people.

    >>> sensitivity_words("OneReading(by=0.5)")
    'a sensitivity of 0.5'
    """
    own = re.fullmatch(r"OneReading\(by=(.*)\)", sensitivity or "")
    return f"a sensitivity of {float(own[1]):g}" if own else str(sensitivity)


def _as_information(given: object) -> Information:
    name = "information of a cost"
    if isinstance(given, Fraction):
        return as_exact(given, name)
    if isinstance(given, Runs) or _is_exact_matrix(given):
        return cast(Information, given)
    array = as_array(cast(ArrayLike, given), name, ndim=(0, 1))
    if array.ndim == 0:
        return as_exact(float(array), name)
    if not array.size:
        raise InvalidInput(f"{name} must not be empty.")
    if (array < 0).any():
        raise InvalidInput(f"{name} must be ≥ 0: a release cannot be taken back.")
    return Runs.of(array)


def _is_exact_matrix(given: object) -> bool:
    """AᵀA in fractions, as `cost_of` makes it where an index holds several measurements."""
    if not isinstance(given, tuple) or not given:
        return False
    return all(isinstance(r, tuple) and all(isinstance(x, Fraction) for x in r) for r in given)


@dataclass(frozen=True)
class Cost(Record):
    """The cost of a release: what it reveals at each index of its range.

    information  Fisher information about the measurement: a number, or one number per index
    mu2          μ² of a Gaussian release for `sensitivity` (exactly Gaussian differential privacy)
    rho          ρ of zero-concentrated differential privacy for `sensitivity`
    epsilon      ε of pure differential privacy for `sensitivity`; not for a Gaussian release
    sensitivity  the sensitivity of mu2, rho and epsilon: a number (one measurement differs by at
                 most that), or a `privacy.Adjacency`

    A budget in a unit that the cost does not state refuses it; ρ follows from μ² (μ²/2) and from a
    pure ε (ε²/2). Costs add up for independent noise only: y + d and y − d together reveal y.
    """

    information: Any = None
    mu2: Any = None
    rho: Any = None
    epsilon: Any = None
    sensitivity: Any = None

    def __post_init__(self) -> None:
        if self.information is not None:
            object.__setattr__(self, "information", _as_information(self.information))
        for unit in ("mu2", "rho", "epsilon"):
            if getattr(self, unit) is not None:
                object.__setattr__(self, unit, as_exact(getattr(self, unit), unit))
        object.__setattr__(self, "sensitivity", sensitivity_text(self.sensitivity))
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
            "move": self.sensitivity,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cost:
        """The inverse of `to_dict`. Raises ValueError, KeyError or TypeError for others."""
        found = cls.__new__(cls)
        object.__setattr__(found, "information", read_information(record["information"]))
        for unit in ("mu2", "rho", "epsilon"):
            object.__setattr__(found, unit, read_number(record[unit]))
        object.__setattr__(found, "sensitivity", _read_sensitivity(record))
        return found

    def trace(self, count: int) -> Fraction | None:
        """tr I over `count` indices."""
        given = self.information
        if given is None:
            return None
        if isinstance(given, Fraction):
            return count * given
        return given.total if isinstance(given, Runs) else count * trace_of(given)

    @property
    def largest_level(self) -> Fraction | None:
        """The most information about the measurement at any one index."""
        given: Information | None = self.information
        if isinstance(given, tuple):
            return max(given[i][i] for i in range(len(given)))
        return given.largest if isinstance(given, Runs) else given

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, Revealed]]:
        """The cost at each index, in runs of equal indices."""
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
            found.append((at, at + count, self._revealed(value)))
            at += count
        return found

    def _revealed(self, value: Fraction | Matrix | None) -> Revealed:
        level = self.largest_level if isinstance(value, tuple) else value
        mu2, epsilon, zero = self.mu2 or Fraction(0), self.epsilon or Fraction(0), Fraction(0)
        if self.mu2 is not None or self.epsilon is not None:  # ρ as stated, or as it follows
            follows = mu2 / 2 if self.mu2 is not None else epsilon**2 / 2
            return Revealed(level, mu2, epsilon, zero, follows if self.rho is None else self.rho)
        return Revealed(level, mu2, epsilon, self.rho or zero, self.rho)  # None: not known


@dataclass(frozen=True)
class Budget(Record):
    """The most that may be revealed of a subject. Several limits: all of them hold.

    level            information about the measurement at any one index
    trace            information summed over all indices of the subject
    mu               μ of Gaussian differential privacy for `sensitivity`
    rho              ρ of zero-concentrated differential privacy for `sensitivity`
    epsilon, delta   ε and δ of differential privacy; delta = 0 takes pure releases only
    sensitivity      the sensitivity: a number (one measurement differs by at most that), or a
                     `privacy.Adjacency`
    """

    level: Any = None
    trace: Any = None
    mu: Any = None
    rho: Any = None
    epsilon: Any = None
    delta: Any = None
    sensitivity: Any = None

    def __post_init__(self) -> None:
        for unit in (*LIMITS, "delta"):
            if getattr(self, unit) is not None:
                name = f"{unit} of a budget"
                object.__setattr__(self, unit, as_exact(getattr(self, unit), name))
        object.__setattr__(self, "sensitivity", sensitivity_text(self.sensitivity))
        self._require_whole()

    def _require_whole(self) -> None:
        if all(getattr(self, unit) is None for unit in LIMITS):
            raise InvalidInput(f"a budget needs at least one of {', '.join(LIMITS)}.")
        if (self.epsilon is None) != (self.delta is None):
            raise InvalidInput("a budget of differential privacy needs epsilon and delta together.")
        if self.delta is not None and not self.delta < 1:
            raise InvalidInput("delta of a budget must be ≥ 0 and < 1.")
        private = any(getattr(self, unit) is not None for unit in ("mu", "rho", "epsilon"))
        if private and self.sensitivity is None:
            raise InvalidInput(
                "mu, rho and epsilon need the sensitivity that they are for: state "
                "sensitivity=, the most that one measurement can differ by."
            )

    def to_dict(self) -> dict[str, Any]:
        """As it is written in a ledger; `matrix` was a limit up to privest 0.2."""
        exact = {unit: plain_exact(getattr(self, unit)) for unit in (*LIMITS, "delta")}
        return exact | {"matrix": None, "move": self.sensitivity}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Budget:
        """The inverse of `to_dict`. Raises ValueError, KeyError or TypeError for others."""
        if record["matrix"] is not None:
            raise LedgerError(
                "this ledger has an account with a matrix as its budget, which privest 0.2 reads: "
                "use that version, or open an account with a level."
            )
        found = cls.__new__(cls)
        for unit in (*LIMITS, "delta"):
            object.__setattr__(found, unit, read_number(record[unit]))
        object.__setattr__(found, "sensitivity", _read_sensitivity(record))
        found._require_whole()
        return found

    def in_words(self) -> str:
        """One line, numbers rounded for people."""
        stated = [unit for unit in (*LIMITS, "delta") if getattr(self, unit) is not None]
        words = [f"{unit} {short(getattr(self, unit))}" for unit in stated]
        return ", ".join(words) + (
            f" for {sensitivity_words(self.sensitivity)}" if self.sensitivity else ""
        )


def _read_sensitivity(record: Mapping[str, Any]) -> str | None:
    if not isinstance(record["move"], str | None):
        raise ValueError("not a move")
    return record["move"]


def short(value: Fraction | float) -> str:
    """A number for people."""
    return f"{float(value):.6g}" if value <= Fraction(1.7e308) else "beyond doubles"
