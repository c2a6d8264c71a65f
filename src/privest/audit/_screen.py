"""Every input of a range at a stated resolution: a rough look at I(u) that needs no integral.

Between neighbouring inputs a and b the square roots of the densities are H apart, and

    sup of I over [a, b]  ≥  4 H²/(b − a)² ,   H² = ∫ (√p(z|b) − √p(z|a))² dz

so a law that changes anywhere between them, however abruptly, shows, unless it has changed back at
b: what is narrower than b − a may be missed, and the certificate says how wide that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index
from privest.errors import PrivestError
from privest.mechanism import Channel
from privest.mechanism._numeric_score import log_density
from privest.mechanism._numerics import density_at

# Inputs a side in octaves, and evenly over the whole range; a domain that was asked for: more.
OCTAVES, EVEN, ASKED = 200, 4000, 20_000
# z at these quantiles of the laws at some inputs, and on straight lines between them: exact where
# the input shifts or scales a law. Each stands for a share of the mass.
EDGES = scipy.special.ndtr(np.linspace(-4.6, 4.6, 42))
QUANTILES, SHARES = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES)
ANCHORS, MORE, ROUNDS = 13, 6, 3
# The nodes do not resolve a law whose mass on them is off by more than this.
RESOLVED = 0.25
ENTRIES = 1_000_000  # log-densities at once
ZOOM, ZOOMS = 32, 3


@dataclass(frozen=True)
class Range:
    """Inputs from low to high; `asked`: somebody named them; `least`: the smallest size of note."""

    low: float
    high: float
    asked: bool = False
    least: float = math.nan

    def lattice(self, quick: bool) -> Array:
        """Evenly over the range, and in octaves around 0; `quick`: an input costs a call."""
        even = np.linspace(self.low, self.high, ASKED if self.asked and not quick else EVEN)
        most = max(abs(self.low), abs(self.high))
        least = self.least if math.isfinite(self.least) else 1e-6 * most
        side = np.geomspace(min(least, most), most, OCTAVES) if most > 0 else np.zeros(1)
        every = np.unique(np.concatenate([even, side, -side, [0.0]]))
        return every[self.within(every)]

    def within(self, u: Array) -> Flags:
        """Which inputs are in the range."""
        return np.asarray((u >= self.low) & (u <= self.high))


@dataclass
class Screen:
    """Rough I(u) of a channel on the cells of a lattice (`shown`), and where that is not resolved.

    Cost: four log-densities a node (41; outcomes of a discrete channel) and cell, and a numerical
    density at some 13 to 31 inputs.
    """

    channel: Channel
    range: Range
    lattice: Array = field(init=False)
    shown: Array = field(init=False)
    unresolved: float = field(init=False)
    _anchors: list[float] = field(init=False, default_factory=list)
    _quantiles: list[Array] = field(init=False, default_factory=list)
    _inverse: list[Array] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.lattice = self.range.lattice(self.channel.discrete)
        left, right = self.lattice[:-1], self.lattice[1:]
        if not self.channel.discrete:
            # Half of them in octaves: the lattice has both.
            self._add(self.lattice[np.linspace(0, self.lattice.size - 1, ANCHORS).astype(int)])
            self._add(np.array([-1.0, 1.0]) * self.range.high / 64)
        for _ in range(1 if self.channel.discrete else ROUNDS):
            self.shown, mass = self.cells(left, right)
            off = np.where(np.isfinite(mass), np.abs(mass - 1), math.inf)
            bad = off > RESOLVED
            if not bad.any() or self.channel.discrete:
                break
            self._add(_middles(bad, left))
        self.unresolved = float((right - left)[bad].sum() / (right[-1] - left[0]))

    @property
    def resolution(self) -> float:
        """The widest distance between neighbouring inputs."""
        return float(np.diff(self.lattice).max())

    def peaks(self, most: int) -> list[tuple[float, float, bool]]:
        """The cells that show most, zoomed into: input, rough information, may it jump there?"""
        seen = np.where(np.isfinite(self.shown), self.shown, -math.inf)
        inner = np.pad(seen, 1, constant_values=-math.inf)
        local = np.flatnonzero((inner[1:-1] >= inner[:-2]) & (inner[1:-1] >= inner[2:]))
        best = local[np.argsort(-seen[local], kind="stable")[:most]]
        return [self._zoomed(self.lattice[i], self.lattice[i + 1], float(seen[i])) for i in best]

    def shift(self) -> bool:
        """p(z + c|u + c) = p(z|u) at all inputs of the lattice, for z at nine quantiles?"""
        if self.channel.discrete or not self._anchors:
            return False
        middle = len(self._anchors) // 2
        u, z = self._anchors[middle], self._quantiles[middle][::5]
        moved = self.lattice[:, None] - u
        here = log_density(self.channel, z, u)
        there = log_density(
            self.channel, z + moved, np.broadcast_to(u + moved, (moved.size, z.size))
        )
        return bool(np.allclose(here, there, rtol=1e-7, atol=1e-7))

    def cells(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Rough I on each cell, and the mass of its nodes (1 where they resolve the law)."""
        shown, mass = np.full(left.size, np.nan), np.full(left.size, np.nan)
        if not self.channel.discrete and not self._anchors:
            return shown, mass
        some = max(ENTRIES // QUANTILES.size, 1)
        for begin in range(0, left.size, some):
            part = slice(begin, begin + some)
            shown[part], mass[part] = self._part(left[part], right[part])
        return shown, mass

    def _part(self, left: Array, right: Array) -> tuple[Array, Array]:
        """4H²/gap² over the cell, or over a far shorter step in its middle if that shows more."""
        cell, z, weight = self._nodes(left, right)
        gap = right - left
        middle = (left + right) / 2
        step = np.minimum(1e-7 * np.maximum(np.abs(middle), gap), gap / 2)
        count = left.size

        def apart(a: Array, b: Array) -> tuple[Array, Array]:
            p, q = (np.exp(log_density(self.channel, z, end[cell])) for end in (a, b))
            with np.errstate(all="ignore"):
                square = weight * (np.sqrt(q) - np.sqrt(p)) ** 2
            both = np.bincount(cell, weight * (p + q) / 2, count)
            return 4 * np.bincount(cell, square, count) / (b - a) ** 2, np.asarray(both, float)

        with np.errstate(all="ignore"):
            wide, mass = apart(left, right)
            close, inside = apart(middle - step, middle + step)
            return np.maximum(wide / mass, close / inside), np.where(mass > inside, mass, inside)

    def _nodes(self, left: Array, right: Array) -> tuple[Index, Array, Array]:
        """Flat: the cell, z and its weight in ∫ dz (1 for an outcome)."""
        if self.channel.discrete:
            # The cells are next to each other: every end is asked for once.
            ends = [self.channel.outcomes(float(u)) for u in (*left, right[-1])]
            lists = [a if np.array_equal(a, b) else np.union1d(a, b) for a, b in pairwise(ends)]
            cell = np.repeat(np.arange(left.size), [outcomes.size for outcomes in lists])
            return cell, np.concatenate(lists), np.ones(cell.size)
        middle = (left + right) / 2
        z, inverse = (
            np.stack(
                [np.interp(middle, self._anchors, column) for column in np.array(table).T], axis=1
            )
            for table in (self._quantiles, self._inverse)
        )
        weight = SHARES * inverse
        cell = np.repeat(np.arange(left.size), z.shape[1])
        return cell, z.ravel(), weight.ravel()

    def _add(self, inputs: Array) -> None:
        """More inputs at which the law is looked at as a whole."""
        for u in np.unique(inputs[self.range.within(inputs)]).tolist():
            if u in self._anchors:
                continue
            try:
                quantiles = density_at(self.channel, u).quantile(QUANTILES)
            except PrivestError:  # no density there: it shows as not resolved
                continue
            inverse = np.exp(-np.maximum(log_density(self.channel, quantiles, u), -600.0))
            at = int(np.searchsorted(self._anchors, u))
            self._anchors.insert(at, u)
            self._quantiles.insert(at, quantiles)
            self._inverse.insert(at, inverse)

    def _zoomed(self, low: float, high: float, before: float) -> tuple[float, float, bool]:
        first = before
        for _ in range(ZOOMS):
            edges = np.linspace(low, high, ZOOM + 1)
            if not (np.diff(edges) > 0).all():
                break
            shown, _ = self.cells(edges[:-1], edges[1:])
            if not np.isfinite(shown).any():
                break
            i = int(np.nanargmax(np.where(np.isfinite(shown), shown, np.nan)))
            low, high, before = float(edges[i]), float(edges[i + 1]), float(shown[i])
        return (low + high) / 2, before, before > ZOOM * max(first, 1e-300)


def _middles(bad: Flags, left: Array) -> Array:
    """The middle of each stretch of cells that are not resolved; of the longest ones."""
    edge = np.diff(np.concatenate([[0], bad.astype(np.int8), [0]]))
    begin, end = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    longest = np.argsort(begin - end, kind="stable")[:MORE]
    return np.asarray(left[(begin + end)[longest] // 2])
