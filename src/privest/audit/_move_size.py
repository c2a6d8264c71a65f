"""How far to move y so that samples see it, without leaving the sampler's domain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput

# A plain mechanism: f(y (m,), rng, n) gives n releases (n, q).
Sampler = Callable[[Array, np.random.Generator, int], Array]

# What a small sample is to see, in units of 1/√I; what it takes for sampling noise (0.03 to 0.05).
SEEN, NOTHING = 0.3, 0.06
PILOT, BINS = 4000, 16
OCTAVES = 16.0 ** np.arange(-10.0, 11.0)


def checked_sampler(sampler: Sampler) -> Sampler:
    """The sampler, with its output checked to be (n, q)."""

    def draw(y: Array, rng: np.random.Generator, n: int) -> Array:
        z = np.asarray(sampler(y, rng, n), dtype=np.float64)
        z = z[:, None] if z.ndim == 1 else z
        if z.ndim != 2 or len(z) != n:
            raise InvalidInput(
                f"the sampler must return n = {n} releases, an array (n,) or (n, q); it returned "
                f"shape {z.shape}."
            )
        return z

    return draw


def seen_unit(
    draw: Sampler, y: Array, v: Array, rng: np.random.Generator, most: float
) -> tuple[float, str | None]:
    """About 1/√I in the direction v, from small samples, and a note if the domain set the limit.

    Moves start tiny and widen by 16 until the ends of y ± h·v are 2·SEEN apart (Fisher-Rao), the
    sampler raises or returns NaN, or 10¹² times the size of y is reached. Then h is bisected. If no
    move gets that far: the one that gets half of the most that was seen. The sampler answers at
    y ± h·v for every h up to `most` units.
    """

    def apart(h: float) -> float | None:
        """None where the sampler does not answer."""
        try:
            low, high = draw(y - h * v, rng, PILOT), draw(y + h * v, rng, PILOT)
        except Exception:  # whatever a user's function raises outside its domain
            return None
        return None if np.isnan(low).any() or np.isnan(high).any() else distance(low, high)

    start = max(1.0, float(np.abs(y).max())) / max(float(np.abs(v).max()), 1e-300)
    moves: list[float] = []
    seen: list[float] = []
    refused: float | None = None
    for h in start * OCTAVES:
        far = apart(h)
        if far is None:
            refused = float(h)
            break
        moves.append(float(h))
        seen.append(far)
        if far >= SEEN:
            break
    if not moves:
        raise InvalidInput(
            "the sampler does not answer at readings very close to y, though it does at y: y lies "
            "on the edge of its domain. Audit a y inside."
        )
    if refused is not None:
        moves.append(_edge(apart, moves[-1], refused))
        seen.append(apart(moves[-1]) or 0.0)
    if max(seen) < NOTHING:
        step = min(moves[-1], start)
    else:
        goal = min(SEEN, 0.5 * max(seen))
        first = next(i for i, far in enumerate(seen) if far >= goal)
        low, high = moves[max(first - 1, 0)], moves[first]
        for _ in range(6):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if (apart(middle) or 0.0) >= goal else (middle, high)
        step = float(np.sqrt(low * high))
    unit = step / SEEN
    if apart(most * unit) is not None:
        return unit, None
    room = _edge(apart, step, most * unit)
    note = (
        f"The sampler does not answer further than {room:.3g} from y along one of the directions: "
        "only closer readings were looked at."
    )
    return room / most, note


def _edge(apart: Callable[[float], float | None], low: float, high: float) -> float:
    """The largest move that was answered, between one that is and one that is not."""
    for _ in range(10):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if apart(middle) is not None else (low, middle)
    return low


def distance(one: Array, other: Array) -> float:
    """arccos of the affinity of two samples, in bins of the coordinate that shows most."""
    most = 0.0
    for a, b in zip(one.T, other.T):
        values = np.unique(np.concatenate([a, b]))
        if values.size > BINS:
            values = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1]))
        cell = [np.searchsorted(values, x, "right") for x in (a, b)]
        p, q = (np.bincount(c, minlength=values.size + 1) / c.size for c in cell)
        noise = (values.size - 1) * (1 / len(a) + 1 / len(b)) / 8
        most = max(most, float(np.arccos(np.clip(np.sqrt(p * q).sum() + noise, 0.0, 1.0))))
    return most
