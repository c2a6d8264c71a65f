"""Budgets of accounts and costs of releases, in exact numbers.

Doubles are fractions m·2^e, and so are their sums and products. A float total loses small spends
(1 + 2⁻⁶⁰ = 1); here nothing is lost, not even a subnormal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_number
from privest.errors import InvalidInput, LedgerError
from privest.privacy import Adjacency, as_adjacency
from privest.records import Record

DYADIC = re.compile(r"(-?[0-9]{1,2000})p(-?[0-9]{1,4})")
MOST_RUNS = 256  # different levels along a range; beyond, the largest of them counts for all
Matrix = tuple[tuple[Fraction, ...], ...]


def as_exact(given: ArrayLike | Fraction, name: str) -> Fraction:
    if isinstance(given, Fraction):
        found = given
        if found.denominator & (found.denominator - 1):
            raise InvalidInput(f"{name} must be a double or a fraction over a power of two.")
    else:
        found = Fraction(as_number(given, name))
    if found < 0:
        raise InvalidInput(f"{name} must be ≥ 0: a release cannot be taken back.")
    return found


def exact_text(number: Fraction) -> str:
    """m·2^e as a text, m odd or 0: one text per number.

    >>> exact_text(Fraction(0.375)), exact_text(Fraction(0)), exact_text(Fraction(12))
    ('3p-3', '0p0', '3p2')
    """
    top, down = number.numerator, number.denominator.bit_length() - 1
    if down == 0 and top:
        up = (top & -top).bit_length() - 1
        return f"{top >> up}p{up}"
    return f"{top}p{-down}"


def read_exact(text: object) -> Fraction:
    found = DYADIC.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("not a number of a ledger")
    top, power = int(found[1]), int(found[2])
    number = Fraction(top << power) if power >= 0 else Fraction(top, 1 << -power)
    if exact_text(number) != text:
        raise ValueError("not a number as a ledger writes it")
    return number


@dataclass(frozen=True)
class Runs:
    """Levels along a range: (level, number of indices) one after another, and their sum.

    Beyond MOST_RUNS the largest level counts for all indices.
    """

    runs: tuple[tuple[Fraction, int], ...]
    total: Fraction

    @classmethod
    def of(cls, levels: Array) -> Runs:
        starts = np.flatnonzero(np.append(True, levels[1:] != levels[:-1]))
        if len(starts) > MOST_RUNS:
            total = Fraction(math.nextafter(math.fsum(levels.tolist()), math.inf))
            return cls(((Fraction(float(levels.max())), len(levels)),), total)
        counts = np.diff(np.append(starts, len(levels))).tolist()
        runs = tuple((Fraction(x), n) for x, n in zip(levels[starts].tolist(), counts))
        return cls(runs, sum((n * x for x, n in runs), Fraction(0)))

    @property
    def count(self) -> int:
        return sum(n for _, n in self.runs)


@dataclass(frozen=True)
class Revealed:
    """What all releases so far reveal of one index; None: not known, because one did not say.

    `mu2` and `epsilon` are sums over Gaussian and over pure releases, `rest` is ρ of the others,
    `rho` is that of all.
    """

    level: Fraction | None = Fraction(0)
    mu2: Fraction = Fraction(0)
    epsilon: Fraction = Fraction(0)
    rest: Fraction = Fraction(0)
    rho: Fraction | None = Fraction(0)

    def __add__(self, other: Revealed) -> Revealed:
        return Revealed(
            _sum(self.level, other.level),
            self.mu2 + other.mu2,
            self.epsilon + other.epsilon,
            self.rest + other.rest,
            _sum(self.rho, other.rho),
        )

    def to_list(self) -> list[Any]:
        """As it is written in a ledger; its end was once a matrix."""
        numbers = (self.level, self.mu2, self.epsilon, self.rest, self.rho)
        return [*map(plain_exact, numbers), None]

    @classmethod
    def from_list(cls, given: Sequence[Any]) -> Revealed:
        level, mu2, epsilon, rest, rho, _ = given
        sums = read_exact(mu2), read_exact(epsilon), read_exact(rest)
        return cls(read_number(level), *sums, read_number(rho))

    def peak(self, other: Revealed) -> Revealed:
        return Revealed(
            _largest(self.level, other.level),
            max(self.mu2, other.mu2),
            max(self.epsilon, other.epsilon),
            max(self.rest, other.rest),
            _largest(self.rho, other.rho),
        )


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def _largest(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else max(one, other)


# --- as entries hold them -------------------------------------------------------------------------


def plain_exact(value: Any) -> Any:  # noqa: ANN401 - None, a number, levels along a range, a matrix
    if isinstance(value, Runs):
        runs = [[exact_text(level), count] for level, count in value.runs]
        return {"runs": runs, "total": exact_text(value.total)}
    if isinstance(value, tuple):
        return [plain_exact(part) for part in value]
    return None if value is None else exact_text(value)


def read_number(value: object) -> Fraction | None:
    return None if value is None else read_exact(value)


def read_information(value: object) -> Fraction | Runs | Matrix | None:
    """The inverse of `plain_exact`."""
    if isinstance(value, list):
        if not value or not all(isinstance(r, list) and len(r) == len(value) for r in value):
            raise ValueError("not a square matrix")
        return tuple(tuple(read_exact(x) for x in row) for row in value)
    if not isinstance(value, dict):
        return read_number(value)
    runs = tuple((read_exact(level), read_whole(count)) for level, count in value["runs"])
    return Runs(runs, read_exact(value["total"]))


def read_whole(value: object) -> int:
    """A whole number ≥ 0. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a whole number")
    return value


# --- costs and budgets ----------------------------------------------------------------------------

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
    if not isinstance(given, tuple) or not given:
        return False
    return all(isinstance(r, tuple) and all(isinstance(x, Fraction) for x in r) for r in given)


def _diagonal(matrix: Matrix) -> list[Fraction]:
    return [row[i] for i, row in enumerate(matrix)]


@dataclass(frozen=True)
class Cost(Record):
    """The cost of a release: what it reveals at each index of its range.

    information  Fisher information about the measurement: a number, or one number per index.
    mu2          μ² of Gaussian differential privacy.
    rho          ρ of zero-concentrated differential privacy; left out: μ²/2, or ε²/2.
    epsilon      ε of pure differential privacy; not of a Gaussian release.
    sensitivity  of mu2, rho and epsilon: a number (one measurement differs by at most that), or a
                 `privacy.Adjacency`.

    Costs add up for independent noise only: y + d and y − d together reveal y.
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
        return {
            "information": plain_exact(self.information),
            **{unit: plain_exact(getattr(self, unit)) for unit in ("mu2", "rho", "epsilon")},
            "move": self.sensitivity,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cost:
        found = cls.__new__(cls)
        object.__setattr__(found, "information", read_information(record["information"]))
        for unit in ("mu2", "rho", "epsilon"):
            object.__setattr__(found, unit, read_number(record[unit]))
        object.__setattr__(found, "sensitivity", _read_sensitivity(record))
        return found

    def trace(self, count: int) -> Fraction | None:
        given = self.information
        if given is None:
            return None
        if isinstance(given, Fraction):
            return count * given
        return (
            given.total if isinstance(given, Runs) else count * sum(_diagonal(given), Fraction(0))
        )

    @property
    def largest_level(self) -> Fraction | None:
        """The most information about the measurement at any one index."""
        given: Information | None = self.information
        if isinstance(given, Runs):
            return max(level for level, _ in given.runs)
        return max(_diagonal(given)) if isinstance(given, tuple) else given

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, Revealed]]:
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
        level = max(_diagonal(value)) if isinstance(value, tuple) else value
        mu2, epsilon, zero = self.mu2 or Fraction(0), self.epsilon or Fraction(0), Fraction(0)
        if self.mu2 is not None or self.epsilon is not None:  # ρ as stated, or as it follows
            follows = mu2 / 2 if self.mu2 is not None else epsilon**2 / 2
            return Revealed(level, mu2, epsilon, zero, follows if self.rho is None else self.rho)
        return Revealed(level, mu2, epsilon, self.rho or zero, self.rho)  # None: not known


@dataclass(frozen=True)
class Budget(Record):
    """The most that may be revealed of a subject. Several limits: all of them hold.

    level            information about the measurement at any one index.
    trace            information summed over all indices of the subject.
    mu               μ of Gaussian differential privacy.
    rho              ρ of zero-concentrated differential privacy.
    epsilon, delta   of differential privacy; delta = 0 takes pure releases only.
    sensitivity      of mu, rho and epsilon, as of a `Cost`.
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
        """As it is written in a ledger; `matrix` was once a limit."""
        exact = {unit: plain_exact(getattr(self, unit)) for unit in (*LIMITS, "delta")}
        return exact | {"matrix": None, "move": self.sensitivity}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Budget:
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
    return f"{float(value):.6g}" if value <= Fraction(1.7e308) else "beyond doubles"
