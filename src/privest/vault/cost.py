"""Costs of releases, budgets, and the sum of costs at every index of a subject: exact fractions.

A cost is written as decimal texts that are rounded up once; from then on the texts are the cost.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from scipy.special import log_ndtr, ndtr

from privest.errors import BudgetExceeded, InvalidInput
from privest.vault.record import canonical, cost_number

UNITS = ("information", "mu2", "rho", "epsilon")
PER_NEIGHBOURS = ("mu2", "rho", "epsilon")  # statements about two tables that are neighbours
LIMITS = (*UNITS, "trace", "delta")
DIGITS = 15  # of a cost that is written
FINEST = Fraction(1, 10**99)  # costs below are written so
MOST_RUNS = 256  # different levels along a range; the largest counts for all beyond that
ONE_VALUE = {"kind": "one value"}
ROUNDING = 8 * 2.0**-52  # relative, of Φ(x), times 1 + x² for the rounding of x


def decimal_up(value: Fraction, digits: int = DIGITS) -> str:
    """The least decimal of `digits` significant digits that is not below a number ≥ 0.

    >>> decimal_up(Fraction(1, 3)), decimal_up(Fraction(1, 4)), decimal_up(Fraction(12345))
    ('0.333333333333334', '0.25', '12345')
    """
    return _decimal(max(value, FINEST) if value > 0 else value, digits, ROUND_CEILING)


def decimal_down(value: Fraction, digits: int = 30) -> str:
    """The largest decimal of `digits` significant digits that is not above a number ≥ 0."""
    return _decimal(value if value >= FINEST else Fraction(0), digits, ROUND_FLOOR)


def _decimal(value: Fraction, digits: int, rounding: str) -> str:
    if value < 0:
        raise InvalidInput("a cost is at least 0: a release cannot be taken back.")
    context = Context(prec=digits, rounding=rounding)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    shortest = quotient.normalize(context)
    places = shortest.as_tuple().exponent
    assert isinstance(places, int)
    return format(shortest, "f" if places >= -40 else "e")  # 40 digits after the dot, at most


def _require_amounts(amounts: Mapping[str, Fraction], units: tuple[str, ...]) -> None:
    for unit, amount in amounts.items():
        if unit not in units or type(amount) is not Fraction or amount < 0:
            raise InvalidInput(f"{unit!r}: amounts are fractions, at least 0, of {units}.")


@dataclass(frozen=True)
class Cost:
    """What a release reveals of each index of its range, at most.

    amounts     information I, μ² ("mu2"), ρ, ε; a unit that is absent is not bounded.
    runs        levels of information along the range, (level, number of indices), where they
                differ; `information` is then the largest.
    total       information summed over the range, where it is not that of the levels.
    neighbours  the two tables that μ², ρ and ε tell apart.
    more        members that a later version wrote; kept.

    A sum of costs has the units that all of them have.
    """

    amounts: Mapping[str, Fraction]
    runs: tuple[tuple[Fraction, int], ...] = ()
    total: Fraction | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_amounts(self.amounts, UNITS)
        if len(self.runs) > MOST_RUNS:
            raise InvalidInput(f"a cost has at most {MOST_RUNS} levels along its range.")

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            {u: x + other.amounts[u] for u, x in self.amounts.items() if u in other.amounts}
        )

    def text(self) -> dict[str, Any]:
        """As an entry holds it: the least decimals of 15 digits that are not below."""
        members: dict[str, Any] = dict(self.more)
        members |= {unit: decimal_up(amount) for unit, amount in self.amounts.items()}
        if self.runs:
            members["runs"] = [[decimal_up(level), count] for level, count in self.runs]
        if self.total is not None:
            members["total"] = decimal_up(self.total)
        return members

    @classmethod
    def read(cls, member: Mapping[str, Any]) -> Cost:
        amounts = {u: cost_number(member[u], u) for u in UNITS if member.get(u) is not None}
        runs = tuple(
            (cost_number(level, "a level"), _count(count))
            for level, count in member.get("runs", ())
        )
        total = cost_number(member["total"], "total") if "total" in member else None
        ours = (*UNITS, "runs", "total")
        more = {name: value for name, value in member.items() if name not in ours}
        return cls(amounts, runs, total, more)

    def of_other_neighbours(self) -> Cost:
        """The cost where the two tables differ in another way: of μ², ρ, ε nothing is known."""
        known = {u: amount for u, amount in self.amounts.items() if u not in PER_NEIGHBOURS}
        return Cost(known, self.runs, self.total)

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, Cost]]:
        """(first, end, cost of each index) along a range."""
        if not self.runs:
            return [(start, stop, self)]
        if sum(count for _, count in self.runs) != stop - start:
            raise InvalidInput(
                f"a cost has levels for {sum(count for _, count in self.runs)} indices, and its "
                f"range has {stop - start}."
            )
        pieces = []
        first = start
        for level, count in self.runs:
            amounts = dict(self.amounts) | {"information": level}
            pieces.append((first, first + count, Cost(amounts)))
            first += count
        return pieces

    def trace(self, count: int) -> Fraction | None:
        """The information summed over the indices; None: not bounded."""
        if self.total is not None:
            return self.total
        if self.runs:
            return sum((level * length for level, length in self.runs), Fraction(0))
        level = self.amounts.get("information")
        return None if level is None else level * count

    @property
    def is_nothing(self) -> bool:
        return all(amount == 0 for amount in self.amounts.values())


NOTHING = Cost(dict.fromkeys(UNITS, Fraction(0)))


def _count(value: object) -> int:
    if type(value) is not int or value < 1:
        raise InvalidInput("the number of indices of a level is a whole number, at least 1.")
    return value


def larger(one: Cost, other: Cost) -> Cost:
    """The larger amount in every unit that both bound."""
    return Cost({u: max(x, other.amounts[u]) for u, x in one.amounts.items() if u in other.amounts})


def delta_of(epsilon: Fraction, mu2: Fraction) -> float:
    """δ(ε; μ) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) of μ-GDP, rounded up."""
    if mu2 == 0:
        return 0.0
    mu = math.sqrt(float(min(mu2, Fraction(10**300))))
    if mu == 0.0:  # μ² below the doubles
        return 0.0 if epsilon > 0 else math.sqrt(5e-324)
    ratio = float(min(epsilon, Fraction(10**300))) / mu
    above = float(ndtr(mu / 2 - ratio))
    exponent = float(epsilon) + float(log_ndtr(-mu / 2 - ratio))
    rounding = ROUNDING * (1 + (mu / 2 - ratio) ** 2) * above
    return max(above - math.exp(min(exponent, 0.0)), 0.0) + rounding


@dataclass(frozen=True)
class Budget:
    """The most that may be revealed of a subject; {} limits nothing.

    limits      of each index: information, μ², ρ, ε; "trace": information over all indices; with
                "delta" above 0, ε is that of (ε, δ).
    neighbours  the two tables that μ², ρ and ε tell apart.
    """

    limits: Mapping[str, Fraction]
    neighbours: Mapping[str, Any] = field(default_factory=lambda: dict(ONE_VALUE))
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_amounts(self.limits, LIMITS)
        delta = self.limits.get("delta", Fraction(0))
        if delta and ("epsilon" not in self.limits or delta >= 1):
            raise InvalidInput("delta of a budget is below 1, and stands with an epsilon.")

    def text(self) -> dict[str, Any]:
        members: dict[str, Any] = dict(self.more)
        members |= {unit: decimal_down(limit) for unit, limit in self.limits.items()}
        if self.neighbours != ONE_VALUE:
            members["neighbours"] = dict(self.neighbours)
        return members

    @classmethod
    def read(cls, member: Mapping[str, Any]) -> Budget:
        limits = {u: cost_number(member[u], u) for u in LIMITS if member.get(u) is not None}
        neighbours = member.get("neighbours", ONE_VALUE)
        more = {u: v for u, v in member.items() if u not in (*LIMITS, "neighbours")}
        return cls(limits, dict(neighbours), more)

    def broken(self, total: Cost, trace: Fraction | None = None) -> list[str]:
        """The units in which a total is above its limit, or not bounded at all."""
        return [unit for unit in (*UNITS, "trace") if not self._holds(unit, total, trace)]

    def require(self, total: Cost, trace: Fraction | None = None, subject: str = "") -> None:
        """Raise BudgetExceeded unless the total is within every limit."""
        for unit in self.broken(total, trace):
            known = trace if unit == "trace" else total.amounts.get(unit)
            would = "is not bounded in that unit" if known is None else f"is {decimal_up(known, 6)}"
            raise BudgetExceeded(
                f"the budget of {subject!r} allows {unit} {decimal_down(self.limits[unit], 6)}, "
                f"and the sum with this release {would}. Nothing was spent. Release less, or "
                "change the budget, which is recorded."
            )

    def _holds(self, unit: str, total: Cost, trace: Fraction | None) -> bool:
        limit = self.limits.get(unit)
        if limit is None:
            return True
        amount = trace if unit == "trace" else total.amounts.get(unit)
        if amount is not None and amount <= limit:
            return True
        delta = self.limits.get("delta")
        mu2 = total.amounts.get("mu2")
        if unit != "epsilon" or not delta or mu2 is None:
            return False
        return delta_of(limit, mu2) <= delta


class Account:
    """What a ledger says of a subject: its budget, and the sum of the costs at every index, exact.

    peak    the largest sum at any index; `trace`: information over all indices, None: not bounded.
    floor   indices below are retired: entries were lost, nothing is drawn there again.
    top     one beyond the highest index that has a cost.
    seq     the last entry that was taken in.
    """

    def __init__(self, subject: str, neighbours: Mapping[str, Any]) -> None:
        self.subject = subject
        self.neighbours = canonical(dict(neighbours))
        self.budget: Budget | None = None
        self.firsts: list[int] = []
        self.segments: list[tuple[int, int, Cost]] = []  # (first, end, sum) where something was
        self.peak = NOTHING
        self.trace: Fraction | None = Fraction(0)
        self.floor = 0
        self.top = 0
        self.seq = 0

    def take(self, seq: int, body: Mapping[str, Any]) -> None:
        """An entry of the subject, the next in order."""
        self.seq = seq
        if "budget" in body:
            self.budget = Budget.read(body["budget"])
        if body["kind"] == "retired":
            self.floor = max(self.floor, body["stop"])
            limit = self.budget.limits.get("trace") if self.budget else None
            if limit is not None and self.trace is not None:
                self.trace = max(self.trace, limit)  # entries were lost: they may have used it up
        if body.get("cost") is not None:
            neighbours = body.get("neighbours", ONE_VALUE)
            self._add(Cost.read(body["cost"]), neighbours, body["start"], body["stop"])

    def require(self, cost: Cost, neighbours: Mapping[str, Any], start: int, stop: int) -> None:
        """Raise BudgetExceeded unless the budget allows a cost on start ≤ index < stop."""
        if start < self.floor:
            raise BudgetExceeded(
                f"{self.subject!r}: entries of this ledger were lost, and indices below "
                f"{self.floor} are retired: what was revealed of them is not known. Received "
                f"index {start}."
            )
        assert self.budget is not None
        trace = cost.trace(stop - start)
        total = None if trace is None or self.trace is None else self.trace + trace
        for _, _, amount in self.charged(cost, neighbours, start, stop):
            self.budget.require(amount, total, self.subject)

    def charged(
        self, cost: Cost, neighbours: Mapping[str, Any], start: int, stop: int
    ) -> list[tuple[int, int, Cost]]:
        """The segments of start ≤ index < stop with one cost more."""
        if canonical(dict(neighbours)) != self.neighbours:
            cost = cost.of_other_neighbours()
        before = self.between(start, stop)
        sums = []
        k = 0
        for first, end, piece in cost.pieces(start, stop):
            while first < end:
                if before[k][1] <= first:
                    k += 1
                high = min(before[k][1], end)
                sums.append((first, high, before[k][2] + piece))
                first = high
        return _merged(sums)

    def _add(self, cost: Cost, neighbours: Mapping[str, Any], start: int, stop: int) -> None:
        sums = self.charged(cost, neighbours, start, stop)
        low, high = self._span(start, stop)
        covered = self.segments[low:high]
        before = [(first, start, total) for first, _, total in covered[:1] if first < start]
        after = [(stop, end, total) for _, end, total in covered[-1:] if end > stop]
        # The neighbours join too, where a stream goes on at the same cost.
        low = max(low - 1, 0)
        high = min(high + 1, len(self.segments))
        left = [segment for segment in self.segments[low:high] if segment[1] <= start]
        right = [segment for segment in self.segments[low:high] if segment[0] >= stop]
        fresh = _merged([*left, *before, *sums, *after, *right])
        self.segments[low:high] = fresh
        self.firsts[low:high] = [first for first, _, _ in fresh]
        for _, _, total in sums:
            self.peak = larger(self.peak, total)
        self.top = max(self.top, stop)
        trace = cost.trace(stop - start)
        self.trace = None if trace is None or self.trace is None else self.trace + trace

    def _span(self, start: int, stop: int) -> tuple[int, int]:
        """Numbers of the segments that meet a range."""
        low = bisect.bisect_right(self.firsts, start)
        if low and self.segments[low - 1][1] > start:
            low -= 1
        return low, bisect.bisect_left(self.firsts, stop)

    def between(self, start: int, stop: int) -> list[tuple[int, int, Cost]]:
        """The sums at start ≤ index < stop; nothing where no release was."""
        low, high = self._span(start, stop)
        sums = []
        at = start
        for first, end, total in self.segments[low:high]:
            if first > at:
                sums.append((at, first, NOTHING))
            at = min(end, stop)
            sums.append((max(first, start), at, total))
        if at < stop:
            sums.append((at, stop, NOTHING))
        return sums


def _merged(segments: list[tuple[int, int, Cost]]) -> list[tuple[int, int, Cost]]:
    """Segments that touch and have one sum are one."""
    merged: list[tuple[int, int, Cost]] = []
    for first, end, total in segments:
        if merged and merged[-1][1] == first and merged[-1][2].amounts == total.amounts:
            merged[-1] = (merged[-1][0], end, total)
        else:
            merged.append((first, end, total))
    return merged
