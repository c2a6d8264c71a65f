"""What an account has revealed, and whether its budget allows more: exact, or on the safe side."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privest.arrays import as_double
from privest.errors import BudgetExceeded
from privest.ledger._budget import (
    LIMITS,
    Budget,
    Cost,
    Revealed,
    exact_text,
    read_number,
    read_whole,
    sensitivity_words,
    short,
)
from privest.privacy import gdp
from privest.records import Record, plain

SAFE = 1e-12  # relative: far above the rounding of the few operations of a conversion
SMALLEST_DELTA = 1e-300
NOTHING = Revealed()
Segment = tuple[int, int, Revealed]


@dataclass(frozen=True)
class Balance:
    """An account after an entry; every entry has it.

    budget   number of the entry that states the budget.
    trace    information summed over all indices; None: a release did not say.
    peak     the largest that was revealed of any index.
    top      one beyond the highest index that was ever spent on.
    floor    below it nothing is drawn: entries were lost.
    """

    budget: int
    trace: Fraction | None = Fraction(0)
    peak: Revealed = NOTHING
    top: int = 0
    floor: int = 0

    def to_list(self) -> list[Any]:
        trace = None if self.trace is None else exact_text(self.trace)
        return [self.budget, trace, self.peak.to_list(), self.top, self.floor]

    @classmethod
    def from_list(cls, given: list[Any]) -> Balance:
        budget, trace, peak, top, floor = given
        return cls(
            read_whole(budget), read_number(trace), Revealed.from_list(peak), read_whole(top),
            read_whole(floor),
        )  # fmt: skip

    def after(self, segments: list[Segment], trace: Fraction | None) -> Balance:
        peak = peak_of(segments, self.peak)
        total = None if trace is None or self.trace is None else self.trace + trace
        return replace(self, trace=total, peak=peak, top=max(self.top, segments[-1][1]))

    def retired(self, budget: Budget, stop: int) -> Balance:
        """The account when entries below `stop` were lost: they may have used all of a trace."""
        trace = self.trace
        if budget.trace is not None and trace is not None:
            trace = max(trace, budget.trace)
        return replace(self, floor=max(self.floor, stop), trace=trace)


# --- what was revealed, index by index ------------------------------------------------------------


def profile(newest_first: Iterable[list[Segment]], start: int, stop: int) -> list[Segment]:
    """The profile at start ≤ index < stop, by the newest entry that covers each index."""
    open_parts, found = [(start, stop)], []
    for segments in newest_first:
        for first, end, revealed in segments:
            left = []
            for a, b in open_parts:
                low, high = max(a, first), min(b, end)
                if low >= high:
                    left.append((a, b))
                    continue
                found.append((low, high, revealed))
                left += [part for part in ((a, low), (high, b)) if part[0] < part[1]]
            open_parts = left
        if not open_parts:
            break
    return sorted([*found, *((a, b, Revealed()) for a, b in open_parts)], key=lambda one: one[:2])


def peak_of(segments: list[Segment], first: Revealed = NOTHING) -> Revealed:
    return functools.reduce(Revealed.peak, (revealed for _, _, revealed in segments), first)


def added(before: list[Segment], cost: Cost, budget: Budget) -> list[Segment]:
    start, stop = before[0][0], before[-1][1]
    pieces, found, k = cost.pieces(start, stop), [], 0
    for a, b, revealed in before:
        at = a
        while at < b:
            while pieces[k][1] <= at:
                k += 1
            end, own = min(b, pieces[k][1]), pieces[k][2]
            if cost.sensitivity != budget.sensitivity:
                own = Revealed(own.level, rho=None)  # nothing is known in μ, ρ and ε
            found.append((at, end, revealed + own))
            at = end
    return merged(found)


def merged(segments: list[Segment]) -> list[Segment]:
    found = segments[:1]
    for a, b, revealed in segments[1:]:
        if revealed == found[-1][2]:
            found[-1] = (found[-1][0], b, revealed)
        else:
            found.append((a, b, revealed))
    return found


def listed(segments: list[Segment]) -> list[list[Any]]:
    return [[a, b, revealed.to_list()] for a, b, revealed in segments]


def segments_of(body: dict[str, Any]) -> list[Segment]:
    found = body.get("segments", [])
    return [(read_whole(a), read_whole(b), Revealed.from_list(part)) for a, b, part in found]


# --- limits ---------------------------------------------------------------------------------------


def keeps_sensitivity(old: Budget, new: Budget) -> bool:
    """μ, ρ and ε that were added up for one sensitivity mean nothing for another."""
    return old.sensitivity is None or new.sensitivity == old.sensitivity


def broken_limits(
    budget: Budget, balance: Balance, segments: list[Segment], slack: float = 0.0
) -> tuple[list[str], Segment | None]:
    """The limits that are broken, and where; `slack`: of what ε is computed to, relative."""
    for segment in segments:
        units = [one for one in LIMITS if not _holds(one, budget, segment[2], balance.trace, slack)]
        if units:
            return units, segment
    return [], None


def _holds(
    unit: str, budget: Budget, revealed: Revealed, trace: Fraction | None, slack: float
) -> bool:
    limit = getattr(budget, unit)
    if limit is None:
        return True
    if unit == "epsilon":
        return _epsilon_holds(budget, revealed, 1 + Fraction(slack))
    spent = _spent(unit, revealed, trace)
    return spent is not None and spent <= (limit * limit if unit == "mu" else limit)


def _spent(unit: str, revealed: Revealed, trace: Fraction | None) -> Fraction | None:
    """The spending in a unit other than ε (μ² for μ); None where it is not known."""
    if unit == "mu":  # known if all releases are Gaussian
        others = revealed.rho is None or revealed.epsilon or revealed.rest
        return None if others else revealed.mu2
    return {"level": revealed.level, "trace": trace, "rho": revealed.rho}[unit]


def _epsilon_holds(budget: Budget, revealed: Revealed, slack: Fraction) -> bool:
    """Pure ε adds; μ² of Gaussian releases adds; both: (ε, δ) of the latter plus the former; or ρ.

    One of these valid statements is enough.
    """
    if revealed.rho is None:
        return False
    left = budget.epsilon - revealed.epsilon
    if not revealed.mu2 and not revealed.rest:
        if left >= 0:
            return True
    elif budget.delta == 0:
        return False
    elif not revealed.rest and left >= 0:
        most = Fraction(most_mu(_down(left), float(budget.delta))) * slack
        if revealed.mu2 <= most * most:
            return True
    if budget.delta == 0:
        return False
    most = Fraction(most_rho(_down(budget.epsilon), float(budget.delta))) * slack
    return revealed.rho <= most


def _down(value: Fraction) -> float:
    near = float(min(value, Fraction(1.7e308)))
    return math.nextafter(near, 0.0) if Fraction(near) > value else near


@functools.lru_cache(maxsize=256)
def most_mu(epsilon: float, delta: float) -> float:
    """The largest μ of a Gaussian release that is (ε, δ)-private; safe side."""
    return gdp.mu_of(epsilon, delta) if delta >= SMALLEST_DELTA else 0.0


@functools.lru_cache(maxsize=256)
def most_rho(epsilon: float, delta: float) -> float:
    """A ρ whose zCDP is (ε, δ)-private, as large as this conversion gives.

        ρα + ln(1/(αδ))/(α − 1) + ln(1 − 1/α) ≤ ε

    holds for a ρ if it holds for one α > 1 (Canonne, Kamath and Steinke 2020, Prop. 12); the best
    of a grid of α is taken.

    >>> round(most_rho(5.2215, 1e-6), 4)
    0.5
    """
    best = 0.0
    if delta >= SMALLEST_DELTA:
        for alpha, fixed in _orders(delta):
            best = max(best, (epsilon - fixed - SAFE * (abs(fixed) + epsilon)) / alpha)
    return best * (1 - SAFE)


def _orders(delta: float) -> Iterator[tuple[float, float]]:
    """The grid of α, with ln(1/(αδ))/(α − 1) + ln(1 − 1/α)."""
    for k in range(-400, 401):
        above = math.exp(k / 40)  # α − 1
        alpha = 1.0 + above
        yield alpha, -math.log(alpha * delta) / above + math.log(above / alpha)


def spent_epsilon(revealed: Revealed, delta: float) -> float | None:
    """An ε at δ of all that was revealed; None if not known, infinite where there is none."""
    if revealed.rho is None:
        return None
    gaussian_part = 0.0
    if revealed.mu2 or revealed.rest:
        if delta < SMALLEST_DELTA:
            return math.inf
        gaussian_part = gdp.epsilon_of(math.sqrt(float(revealed.mu2)) * (1 + SAFE), delta)
    total = math.inf if revealed.rest else gaussian_part + float(revealed.epsilon)
    if delta < SMALLEST_DELTA or not (revealed.epsilon or revealed.rest):
        return total
    by_rho = min(alpha * float(revealed.rho) + fixed for alpha, fixed in _orders(delta))
    return min(total, max(by_rho, 0.0) * (1 + 4 * SAFE))


def require_within(
    subject: str, budget: Budget, balance: Balance, segments: list[Segment], before: list[Segment]
) -> None:
    units, where = broken_limits(budget, balance, segments)
    if where is None:
        return
    unit, (first, end, revealed) = units[0], where
    old = next(part for a, b, part in before if a <= first < b)
    place = f"index {first}" if end - first == 1 else f"indices {first} to {end - 1}"
    total = _for_people(unit, budget, revealed, balance.trace)
    if total is None:
        known = f" for {sensitivity_words(budget.sensitivity)}"
        raise BudgetExceeded(
            f"{subject!r} has a budget of {unit}"
            f"{known if unit in ('mu', 'rho', 'epsilon') else ''}, and "
            f"what this release or an earlier one costs is not known in that unit at {place}. "
            "State it in the Cost, for the same sensitivity; nothing was spent."
        )
    said = "" if unit == "trace" else f" at {place}"
    had = None if unit == "trace" else _for_people(unit, budget, old, None)
    spent = "" if had is None else f" {short(had)} was spent,"
    raise BudgetExceeded(
        f"the budget of {subject!r} allows {unit} {short(getattr(budget, unit))}{said}:{spent} "
        f"with this release {short(total)}. Nothing was spent. Release at a lower level, or change "
        "the budget, which is recorded."
    )


def _for_people(
    unit: str, budget: Budget, revealed: Revealed, trace: Fraction | None
) -> Fraction | float | None:
    if unit == "epsilon":
        return spent_epsilon(revealed, float(budget.delta))
    spent = _spent(unit, revealed, trace)
    return spent if spent is None or unit != "mu" else float(spent) ** 0.5


# --- for people and programs ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Amount(Record):
    """An amount spent, or left, in every unit; None where it is not known or not limited.

    Exact fractions; `epsilon` is a double, to the safe side.
    """

    level: Fraction | None
    trace: Fraction | None
    mu2: Fraction | None
    rho: Fraction | None
    epsilon: float | None
    delta: float | None
    sensitivity: str | None

    def to_dict(self) -> dict[str, Any]:
        exact = ("level", "trace", "mu2", "rho")
        return {
            name: plain(as_double(value) if name in exact and value is not None else value)
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Preview(Record):
    """The cost of a release that was not made.

    breaks     the limits that it would break.
    spent      at most, of the indices of the release, after it; `remaining`: at least.
    """

    fits: bool
    breaks: tuple[str, ...]
    spent: Amount
    remaining: Amount


def amount_spent(budget: Budget, revealed: Revealed, trace: Fraction | None) -> Amount:
    delta = None if budget.delta is None else float(budget.delta)
    epsilon = None if delta is None else spent_epsilon(revealed, delta)
    square = _spent("mu", revealed, trace)
    return Amount(revealed.level, trace, square, revealed.rho, epsilon, delta, budget.sensitivity)


def amount_left(budget: Budget, revealed: Revealed, trace: Fraction | None) -> Amount:
    """The rest of the limits; None for units without a limit or of which nothing is known."""
    spent = amount_spent(budget, revealed, trace)
    limits = {
        "level": budget.level, "trace": budget.trace, "rho": budget.rho, "epsilon": budget.epsilon,
        "mu2": None if budget.mu is None else budget.mu**2,
    }  # fmt: skip
    left: dict[str, Any] = dict.fromkeys(limits)
    for unit, limit in limits.items():
        used = getattr(spent, unit)
        if limit is not None and used is not None:
            left[unit] = limit - used
    return replace(spent, **left)
