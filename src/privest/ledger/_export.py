"""A ledger for others: JSON, and the events of dp-accounting (Google)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from privest.errors import InvalidInput, MissingDependency
from privest.ledger._entries import Entry, Head

FORMAT = "privest ledger export 1"


def as_json(head: Head, entries: Sequence[Entry]) -> str:
    """Every entry with its hash; exact numbers as texts m·2^e. It holds no key and no integers."""
    record = {
        "format": FORMAT,
        **head.to_dict(),
        "entries": [entry.to_dict() for entry in entries],
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def events_of(entries: Sequence[Entry], index: int | None) -> dict[str, Any]:
    """What was shown of one index, in the words of dp-accounting: a ComposedDpEvent.

    `index` None: one of which most was shown (largest ρ). Every event is for the move of the
    budget. Refuses an account of which a cost in these units is not known.
    """
    spends = [entry for entry in entries if entry.cost is not None and entry.start is not None]
    at = _worst(spends) if index is None else index
    events = [_event(e) for e in spends if (e.start or 0) <= at < (e.stop or 0)]
    return {"type": "ComposedDpEvent", "index": at, "events": events}


def dp_event(described: dict[str, Any]) -> Any:  # noqa: ANN401 - dp_accounting is optional
    """The event of dp-accounting for a description of `events_of`."""
    try:
        import dp_accounting
    except ImportError:
        raise MissingDependency(
            "dp-accounting is not installed: pip install dp-accounting. The description itself "
            "needs nothing."
        ) from None
    if described["type"] == "ComposedDpEvent":
        return dp_accounting.ComposedDpEvent([dp_event(one) for one in described["events"]])
    kind = getattr(dp_accounting, described["type"])
    return kind(**{name: value for name, value in described.items() if name != "type"})


def _event(entry: Entry) -> dict[str, Any]:
    cost = entry.cost
    assert cost is not None
    if cost.mu2 is not None:
        if not cost.mu2:
            return {"type": "NoOpDpEvent"}
        return {"type": "GaussianDpEvent", "noise_multiplier": _inverse(math.sqrt(cost.mu2))}
    if cost.epsilon is not None:
        if not cost.epsilon:
            return {"type": "NoOpDpEvent"}
        return {"type": "LaplaceDpEvent", "noise_multiplier": _inverse(float(cost.epsilon))}
    if cost.rho is not None:
        return {"type": "ZCDpEvent", "rho": math.nextafter(float(cost.rho), math.inf)}
    raise InvalidInput(
        f"entry {entry.sequence} states no cost in units of differential privacy (mu2, rho or "
        "epsilon): there is no event for it."
    )


def _inverse(size: float) -> float:
    """1/size to the safe side: less noise."""
    return math.nextafter(math.nextafter(1.0 / size, 0.0), 0.0)


def _worst(entries: Sequence[Entry]) -> int:
    """An index of which the largest ρ was shown."""
    steps: dict[int, Fraction] = {}
    for entry in entries:
        assert entry.cost is not None
        rho = entry.cost.total_rho or Fraction(0)
        steps[entry.start or 0] = steps.get(entry.start or 0, Fraction(0)) + rho
        steps[entry.stop or 0] = steps.get(entry.stop or 0, Fraction(0)) - rho
    best, at, total = Fraction(-1), 0, Fraction(0)
    for place in sorted(steps):
        total += steps[place]
        if total > best:
            best, at = total, place
    return at
