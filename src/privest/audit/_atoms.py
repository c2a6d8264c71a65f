"""Atoms of p(z|y) that move with y: values that come back exactly at y and never next to it.

A smooth p(z|y) keeps the probability of every value under a tiny move of y. One that drops from p
to q within h has information of at least 4(√p − √q)²/h² there: infinite, as h is as small as floats
allow. q need not be 0: what spreads from the atom may come back to it by rounding (y·noise at 0).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import scipy

from privest.arrays import Array

# Moves of y, and what counts as the same value (rounding), as parts of the sizes at hand. The
# second move is for outputs that follow y too slowly to tell from rounding after the first; their
# atom must then be seen again so CLOSE that no quantiser with wider steps is mistaken for it.
MOVES, SAME, CLOSE = (1e-10, 1e-6), 1e-14, 1e-9
# A value is a candidate if it occurs so often in a first sample.
NAMED = 16
FALSE_ALARM = 1e-9

Draw = Callable[[Array, np.random.Generator, int], Array]


def moving_atoms(
    draw: Draw, y: Array, D: Array, samples: int, rng: np.random.Generator
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
    named = [_repeated(column) for column in _columns(draw(y, here, samples))]
    tests = 4 * D.shape[1] * sum(atoms.size for atoms in named)
    if tests == 0:
        return tuple(None for _ in D.T)
    second = _columns(draw(y, again, samples))
    counts = [_count(c, atoms, size) for c, atoms in zip(second, named)]
    found: list[str | None] = []
    for i, v in enumerate(D.T):
        sentence = None
        for k, (move, side) in enumerate(product(MOVES, (-1, 1))):
            step = side * move * size * v / float(np.abs(v).max())
            there = _columns(draw(y + step, others[4 * i + k], samples))
            lost, left = 0.0, 0.0
            for column, atoms, count in zip(there, named, counts):
                stays = _count(column, atoms, size)
                gone = (2 * stays <= count) & (_chance(count, stays) <= FALSE_ALARM / tests)
                if move > MOVES[0]:
                    gone &= _count(column, atoms, size, CLOSE) - stays >= NAMED
                if gone.any() and float(count[gone].max()) > lost:
                    lost, left = max(zip(count[gone].tolist(), stays[gone].tolist()))
            if lost:
                sentence = _sentence(lost / samples, left / samples, move * size)
                break
        found.append(sentence)
    return tuple(found)


def _chance(count: Array, stays: Array) -> Array:
    """How likely so few of count + stays are in the one of two equal samples."""
    return np.asarray(scipy.stats.binom.cdf(stays, count + stays, 0.5))


def _sentence(share: float, left: float, move: float) -> str:
    other = f"{left:.2%}" if left else "none"
    return (
        f"One exact output makes up {share:.2%} of all releases at y and {other} at a "
        f"distance of {move:.1g}: it moves with y and gives it away, so the information is "
        f"infinite (false alarm below {FALSE_ALARM:.0e})."
    )


def _columns(z: Array) -> list[Array]:
    """The coordinates, and one number for the whole row."""
    columns = list(z.T)
    if z.shape[1] > 1:
        columns.append((z * np.random.default_rng(11).uniform(1, 2, z.shape[1])).sum(axis=1))
    return columns


def _repeated(column: Array) -> Array:
    values, counts = np.unique(column, return_counts=True)
    return np.asarray(values[(counts >= NAMED) & np.isfinite(values)])


def _count(column: Array, atoms: Array, size: float, part: float = SAME) -> Array:
    """How often each atom occurs, up to rounding."""
    wide = part * np.maximum(np.abs(atoms), size)
    ordered = np.sort(column)
    low, high = atoms - wide, atoms + wide
    counts = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
    return np.asarray(counts, dtype=np.float64)
