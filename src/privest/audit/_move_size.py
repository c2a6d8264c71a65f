"""Moves of y that samples see: the least, under which exact outputs move, and one that is wide.

Atoms. A smooth p(z|y) keeps the probability of every value under a tiny move of y. One that drops
from p to q within h has information of at least 4(√p − √q)²/h² there: infinite, as h is as small as
floats allow. q need not be 0: what spreads from the atom may come back to it by rounding (y·noise
at 0).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._door import Sampler
from privest.errors import InvalidInput

# (move) → how far apart its ends look, None where the sampler does not answer.
Apart = Callable[[float], float | None]

# What a small sample is to see, in units of 1/√I; what it takes for sampling noise (0.03 to 0.05).
SEEN, NOTHING = 0.3, 0.06
PILOT, BINS = 4000, 16
OCTAVES = 16.0 ** np.arange(-10.0, 11.0)
# Moves of y, and what counts as the same value (rounding), as parts of the sizes at hand. The
# second move is for outputs that follow y too slowly to tell from rounding after the first; their
# atom must then be seen again so CLOSE that no quantiser with wider steps is mistaken for it.
MOVES, SAME, CLOSE = (1e-10, 1e-6), 1e-14, 1e-9
# A value is a candidate if it occurs so often in a first sample.
NAMED = 16
FALSE_ALARM = 1e-9


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
        try:
            low, high = draw(y - h * v, rng, PILOT), draw(y + h * v, rng, PILOT)
        except Exception:  # whatever a user's function raises outside its domain
            return None
        return None if np.isnan(low).any() or np.isnan(high).any() else distance(low, high)

    start = max(1.0, float(np.abs(y).max())) / max(float(np.abs(v).max()), 1e-300)
    moves, seen = _widened(apart, start)
    none = max(seen) < NOTHING
    step = min(moves[-1], start) if none else _bisected(apart, moves, seen)
    unit = step / SEEN
    if apart(most * unit) is not None:
        return unit, None
    room = _edge(apart, step, most * unit)
    note = (
        f"The sampler does not answer further than {room:.3g} from y along one of the directions: "
        "only closer readings were looked at."
    )
    return room / most, note


def _widened(apart: Apart, start: float) -> tuple[list[float], list[float]]:
    """Moves that widen until something is seen or the domain ends, and what each of them sees."""
    moves: list[float] = []
    seen: list[float] = []
    for h in (start * OCTAVES).tolist():
        far = apart(h)
        if far is None and not moves:
            raise InvalidInput(
                "the sampler does not answer at readings very close to y, though it does at y: "
                "y lies on the edge of its domain. Audit a y inside."
            )
        moves.append(_edge(apart, moves[-1], h) if far is None else h)
        seen.append(apart(moves[-1]) or 0.0 if far is None else far)
        if far is None or far >= SEEN:
            break
    return moves, seen


def _bisected(apart: Apart, moves: list[float], seen: list[float]) -> float:
    """The move that sees SEEN, or half of the most that was seen."""
    goal = min(SEEN, 0.5 * max(seen))
    first = next(i for i, far in enumerate(seen) if far >= goal)
    low, high = moves[max(first - 1, 0)], moves[first]
    low, high = _between(low, high, lambda h: (apart(h) or 0.0) < goal, 6)
    return float(np.sqrt(low * high))


def _edge(apart: Apart, low: float, high: float) -> float:
    """The largest move that was answered, between one that is and one that is not."""
    return _between(low, high, lambda h: apart(h) is not None, 10)[0]


def _between(
    low: float, high: float, below: Callable[[float], bool], rounds: int
) -> tuple[float, float]:
    for _ in range(rounds):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


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


# --- atoms of p(z|y): values that come back exactly at y and never next to it ---------------------


def moving_atoms(
    draw: Sampler, y: Array, D: Array, samples: int, rng: np.random.Generator
) -> tuple[str | None, ...]:
    """For each direction (column of D) a sentence on an atom that moves with y, or None.

    A first sample names the candidates, a second one at y counts them (k), a third at y ± h must
    have half of them at most (c). For a value of equal probability at both places each of the k + c
    is in either sample with probability ½: a binomial tail, required to be so small that all
    candidates, directions, moves and sides together stay below 1e-9.
    Outcomes of a quantiser stay where they are, and are not reported.
    """
    here, again, *others = rng.spawn(2 + 4 * D.shape[1])
    size = float(np.abs(y).max()) or 1.0
    named = []
    for column in _columns(draw(y, here, samples)):
        values, often = np.unique(column, return_counts=True)
        named.append(values[(often >= NAMED) & np.isfinite(values)])
    tests = 4 * D.shape[1] * sum(atoms.size for atoms in named)
    if tests == 0:
        return tuple(None for _ in D.T)
    second = _columns(draw(y, again, samples))
    counts = [_count(c, atoms, size) for c, atoms in zip(second, named)]

    def moved(v: Array, generators: list[np.random.Generator]) -> str | None:
        for (move, side), own in zip(product(MOVES, (-1, 1)), generators):
            step = side * move * size * v / float(np.abs(v).max())
            columns = zip(_columns(draw(y + step, own, samples)), named, counts)
            found = [_lost(*each, size, tests, move > MOVES[0]) for each in columns]
            lost, left = max(found, key=lambda pair: pair[0])
            if lost:
                other = f"{left / samples:.2%}" if left else "none"
                return (
                    f"One exact output makes up {lost / samples:.2%} of all releases at y and "
                    f"{other} at a distance of {move * size:.1g}: it moves with y and gives it "
                    f"away, so the information is infinite (false alarm below {FALSE_ALARM:.0e})."
                )
        return None

    return tuple(moved(v, others[4 * i : 4 * i + 4]) for i, v in enumerate(D.T))


def _lost(
    column: Array, atoms: Array, count: Array, size: float, tests: int, close: bool
) -> tuple[float, float]:
    """How often the most frequent atom that is gone occurred at y, and still does; 0, 0: none."""
    stays = _count(column, atoms, size)
    chance = scipy.stats.binom.cdf(
        stays, count + stays, 0.5
    )  # of so few in one of two equal samples
    gone = (2 * stays <= count) & (chance <= FALSE_ALARM / tests)
    if close:
        gone &= _count(column, atoms, size, CLOSE) - stays >= NAMED
    return max(zip(count[gone].tolist(), stays[gone].tolist()), default=(0.0, 0.0))


def _columns(z: Array) -> list[Array]:
    """The coordinates, and one number for the whole row."""
    columns = list(z.T)
    if z.shape[1] > 1:
        columns.append((z * np.random.default_rng(11).uniform(1, 2, z.shape[1])).sum(axis=1))
    return columns


def _count(column: Array, atoms: Array, size: float, part: float = SAME) -> Array:
    """How often each atom occurs, up to rounding."""
    wide = part * np.maximum(np.abs(atoms), size)
    ordered = np.sort(column)
    low, high = atoms - wide, atoms + wide
    counts = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
    return np.asarray(counts, dtype=np.float64)
