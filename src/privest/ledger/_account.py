"""One account: what was shown at every index, and whether a further release fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privest.errors import BudgetExceeded
from privest.ledger._budget import Budget, Cost, move_words, short
from privest.ledger._exact import read_exact, written
from privest.ledger._limits import broken, gaussian, spent_epsilon
from privest.ledger._shown import Shown, whole

Segment = tuple[int, int, Shown]
NOTHING = Shown()


@dataclass(frozen=True)
class State:
    """An account after an entry: in every entry, so that nothing is summed from the start.

    budget   number of the entry that states the budget
    trace    information summed over all indices; None: a release did not say
    peak     the largest that was shown of any index
    top      one beyond the highest index that was ever spent on
    floor    below it nothing is drawn: entries were lost, and what they showed is not known
    """

    budget: int
    trace: Fraction | None = Fraction(0)
    peak: Shown = NOTHING
    top: int = 0
    floor: int = 0

    def to_list(self) -> list[Any]:
        trace = None if self.trace is None else written(self.trace)
        return [self.budget, trace, self.peak.to_list(), self.top, self.floor]

    @classmethod
    def from_list(cls, given: list[Any]) -> State:
        budget, trace, peak, top, floor = given
        known = None if trace is None else read_exact(trace)
        return cls(whole(budget), known, Shown.from_list(peak), whole(top), whole(floor))


def profile(newest_first: Iterable[list[Segment]], start: int, stop: int) -> list[Segment]:
    """What was shown at start ≤ index < stop: of each index the newest entry that covers it knows.

    Cost: entries are read until the range is covered.
    """
    open_parts, found = [(start, stop)], []
    for segments in newest_first:
        for first, end, shown in segments:
            left = []
            for a, b in open_parts:
                low, high = max(a, first), min(b, end)
                if low >= high:
                    left.append((a, b))
                    continue
                found.append((low, high, shown))
                left += [part for part in ((a, low), (high, b)) if part[0] < part[1]]
            open_parts = left
        if not open_parts:
            break
    return sorted([*found, *((a, b, Shown()) for a, b in open_parts)], key=lambda one: one[:2])


def added(before: list[Segment], cost: Cost, budget: Budget) -> list[Segment]:
    """The profile of a range after one more release of it."""
    start, stop = before[0][0], before[-1][1]
    pieces, found, k = cost.pieces(start, stop, budget.size), [], 0
    for a, b, shown in before:
        at = a
        while at < b:
            while pieces[k][1] <= at:
                k += 1
            end, own = min(b, pieces[k][1]), pieces[k][2]
            if cost.move != budget.move:
                own = own.without_privacy_units()
            found.append((at, end, shown + own))
            at = end
    return merged(found)


def merged(segments: list[Segment]) -> list[Segment]:
    """Neighbours that are alike as one."""
    found = segments[:1]
    for a, b, shown in segments[1:]:
        if shown == found[-1][2]:
            found[-1] = (found[-1][0], b, shown)
        else:
            found.append((a, b, shown))
    return found


def after(state: State, segments: list[Segment], trace: Fraction | None) -> State:
    """The account once the segments are what was shown."""
    peak = state.peak
    for _, _, shown in segments:
        peak = peak.peak(shown)
    total = None if trace is None or state.trace is None else state.trace + trace
    return replace(state, trace=total, peak=peak, top=max(state.top, segments[-1][1]))


def burnt(state: State, budget: Budget, stop: int) -> State:
    """The account when entries below `stop` were lost: of a trace budget they may have used all."""
    trace = state.trace
    if budget.trace is not None and trace is not None:
        trace = max(trace, budget.trace)
    return replace(state, floor=max(state.floor, stop), trace=trace)


def keeps_move(old: Budget, new: Budget) -> bool:
    """μ, ρ and ε that were added up for one move mean nothing for another."""
    return old.move is None or new.move == old.move


def broken_limits(
    budget: Budget, state: State, segments: list[Segment]
) -> tuple[list[str], Segment | None]:
    """The limits that do not hold any more, and the first place where."""
    for segment in segments:
        units = broken(budget, segment[2], state.trace)
        if units:
            return units, segment
    return [], None


def require_within(
    subject: str, budget: Budget, state: State, segments: list[Segment], before: list[Segment]
) -> None:
    """Refuse a release that the budget does not allow, saying what is left."""
    units, where = broken_limits(budget, state, segments)
    if where is None:
        return
    unit, (first, end, shown) = units[0], where
    old = next(shown for a, b, shown in before if a <= first < b)
    place = f"index {first}" if end - first == 1 else f"indices {first} to {end - 1}"
    if _known(unit, budget, shown, state.trace) is None:
        raise BudgetExceeded(
            f"{subject!r} has a budget of {unit}"
            f"{f' for {move_words(budget.move)}' if unit in ('mu', 'rho', 'epsilon') else ''}, and "
            f"what this release or an earlier one costs is not known in that unit at {place}. "
            "State it in the Cost, for the same move; nothing was spent."
        )
    limit = getattr(budget, unit)
    said = "" if unit == "trace" else f" at {place}"
    numbers = ""
    if unit != "matrix":
        total = _known(unit, budget, shown, state.trace)
        had = None if unit == "trace" else _known(unit, budget, old, None)
        spent = "" if had is None else f" {short(had)} was spent,"
        numbers = f":{spent} with this release {short(total)}"
    raise BudgetExceeded(
        f"the budget of {subject!r} allows {unit} {short(limit)}{said}{numbers}. Nothing was "
        "spent. Release at a lower level, or raise the budget (raise_budget), which is recorded."
    )


def _known(unit: str, budget: Budget, shown: Shown, trace: Fraction | None) -> Any:  # noqa: ANN401
    """What was spent in a unit; None where nobody knows."""
    if unit == "epsilon":
        return spent_epsilon(shown, float(budget.delta))
    if unit == "mu":
        square = gaussian(shown)
        return None if square is None else float(square) ** 0.5
    return {"level": shown.level, "matrix": shown.matrix, "trace": trace, "rho": shown.rho}[unit]
