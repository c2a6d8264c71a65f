"""What the low digits of released numbers give away: the attack on floating-point noise.

fl(y + noise) cannot be every double: for another reading y' some outputs have no noise that leads
to them, fl(y' + fl(z − y')) ≠ z. Whoever sees such an output knows that the reading was not y'.

Soundness: I_z(y) ≤ S implies, for every event, a Hellinger distance of its probabilities at y and
y' of at most (y − y')ᵀS(y − y')/4 (lattice/PROOF.md §7). Events seen more apart than that, beyond
the doubt of the draws, prove that the level is exceeded, whatever the release is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privest.arrays import Array, Flags

DIGITS, MOST_OUTPUTS = (4, 8, 20, 32), 8  # last digits of how many outputs
POWERS = (10, 20, 30, 40)  # multiples of 2^−k: how many digits a number has
SMALLEST_GRID = 1e-6  # of the spread of the outputs: finer ones are those of doubles
OFF_GRID = 2.0**-12  # of a step: rounding of n·unit for n up to 2^40


class Told(NamedTuple):
    """What events of the low digits tell of two readings.

    impossible  the largest share of outputs of one reading with a mark that no output of the other
                has, by more than chance
    apart       the Hellinger distance (squared) of the most telling event, surely
    event       which
    seen        a share that would have been seen
    """

    impossible: float
    apart: float
    event: str
    seen: float


def told_apart(
    one: Array, other: Array, shown: Iterable[tuple[float, float]], confidence: float
) -> Told:
    """Outputs (n, q) of two readings; `shown`: what may have been shown of each, before noise."""
    pairs = [pair for gain in shown for pair in _events(one, other, gain)]
    return _told([*pairs, *_patterns(one, other)], len(one), confidence)


def _told(pairs: list[tuple[str, Flags, Flags]], count: int, confidence: float) -> Told:
    level = (1 - confidence) / (4 * len(pairs))  # two shares, two sides
    best, impossible = Told(0.0, 0.0, "none", seen_share(count, level)), 0.0
    for event, marks, others in pairs:
        apart = _hellinger(share_interval(marks, level), share_interval(others, level))
        if apart > 0 and not (marks.any() and others.any()):
            impossible = max(impossible, float(marks.mean()), float(others.mean()))
        if apart > best.apart:
            best = best._replace(apart=apart, event=event)
    return best._replace(impossible=impossible)


def told_by_patterns(one: Array, other: Array, confidence: float) -> Told:
    """The same of learnt patterns alone: also of noise in doubles, which is on no grid."""
    return _told(list(_patterns(one, other)), len(one), confidence)


def seen_share(count: int, level: float) -> float:
    """The least share of `count` outputs that is told from none among as many others."""
    most = share_interval(np.zeros(count, dtype=bool), level)[1]
    ranks = np.arange(1, count + 1)
    lows = scipy.stats.beta.ppf(level, ranks, count - ranks + 1)
    return float((np.searchsorted(lows, most) + 1) / count)


def _events(
    one: Array, other: Array, shown: tuple[float, float]
) -> Iterator[tuple[str, Flags, Flags]]:
    with np.errstate(over="ignore", invalid="ignore"):
        for u, which in zip(shown, ("the first", "the second")):
            marks, others = ((u + (z - u) != z).any(axis=1) for z in (one, other))
            yield f"no noise in doubles leads from {which} reading to the output", marks, others
        for k in POWERS:
            marks, others = (
                (np.ldexp(z, k) == np.floor(np.ldexp(z, k))).all(axis=1) for z in (one, other)
            )
            yield f"the output is a multiple of 2^-{k}", marks, others


def _patterns(one: Array, other: Array) -> Iterator[tuple[str, Flags, Flags]]:
    """Low binary digits that the first halves of the outputs show more often at one reading.

    Judged on the second halves: what was learnt by chance does not come again.
    """
    half = len(one) // 2
    for i in range(min(one.shape[1], MOST_OUTPUTS)):
        for digits in DIGITS:
            a, b = (_last(z[:, i], digits) for z in (one, other))
            values, counts = np.unique(a[:half], return_counts=True)
            elsewhere = np.isin(b[:half], values)
            often = values[counts > 1 + np.bincount(
                np.searchsorted(values, b[:half][elsewhere]), minlength=len(values)
            )]  # fmt: skip
            yield (
                f"the last {digits} binary digits of output {i} have learnt patterns",
                np.isin(a[half:], often),
                np.isin(b[half:], often),
            )


def _last(z: Array, digits: int) -> NDArray[np.uint64]:
    """The last binary digits of doubles."""
    return np.ascontiguousarray(z).view(np.uint64) & np.uint64(2**digits - 1)


def share_interval(marks: Flags, level: float) -> tuple[float, float]:
    """Clopper and Pearson's."""
    k, n = int(marks.sum()), marks.size
    low = 0.0 if k == 0 else float(scipy.stats.beta.ppf(level, k, n - k + 1))
    high = 1.0 if k == n else float(scipy.stats.beta.ppf(1 - level, k + 1, n - k))
    return low, high


def _hellinger(p: tuple[float, float], q: tuple[float, float]) -> float:
    """The least Σ(√p − √q)² of an event and its opposite over two intervals."""
    if p[0] <= q[1] and q[0] <= p[1]:
        return 0.0
    a, b = (p[0], q[1]) if p[0] > q[1] else (p[1], q[0])
    return 2 - 2 * (math.sqrt(a * b) + math.sqrt((1 - a) * (1 - b)))


def common_grid(every: list[Array]) -> tuple[float, bool]:
    """The step of the grid of the first outputs (0: none is seen), and whether all share it.

    The step is the least distance of two outputs; outputs of all readings must lie whole steps
    apart: a grid that moves with the reading shows its digits.
    """
    steps, shared = [], True
    for i in range(every[0].shape[1]):
        column = np.unique(every[0][:, i])
        gaps = np.diff(column)
        wide = column[-1] - column[0]
        step = float(gaps.min()) if gaps.size else 0.0
        if not step > SMALLEST_GRID * wide:
            return 0.0, False
        # Averaged over the longest distance, a whole number of steps.
        step = wide / round(wide / step)
        offs = [np.abs(_off((z[:, i] - column[0]) / step)).max() for z in every]
        shared = shared and max(offs) < OFF_GRID
        steps.append(step)
    return min(steps), shared


def _off(x: Array) -> Array:
    return np.asarray(x - np.round(x))
